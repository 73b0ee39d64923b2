"""Several Ollama servers in one setting, each with its limit; and how a server's settings reach them."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.models import OllamaOptions, ServerOptions
from orchestrator.adapters.models.options import Endpoint, endpoints_of
from orchestrator.app.first_start import Models, ollama_options
from orchestrator.core.errors import InvalidRequest
from orchestrator.runtime.settings import CONFIG_NAME, Settings, load_settings

HERE = "http://127.0.0.1:11434"


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        (None, [(HERE, 2)]),
        ("", [(HERE, 2)]),
        (" , ", [(HERE, 2)]),
        ("gpu", [("http://gpu:11434", 2)]),
        ("gpu#4", [("http://gpu:11434", 4)]),
        ("#4", [(HERE, 4)]),
        (
            " gpu , https://far.example/x#1,10.0.0.7:99 ",
            [("http://gpu:11434", 2), ("https://far.example:443/x", 1), ("http://10.0.0.7:99", 2)],
        ),
    ],
)
def test_addresses_stand_with_commas_between_each_with_its_limit(
    text: str | None, endpoints: list[tuple[str, int]]
) -> None:
    """What is left out of an address is filled in as Ollama does; a limit is for its own server only."""
    found = endpoints_of(text, 2)
    assert found == tuple(Endpoint(*one) for one in endpoints)
    said = OllamaOptions(url=text or "", concurrency=2)
    assert said.endpoints == found
    assert OllamaOptions(url=said.url, concurrency=2) == said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gpu,http://gpu:11434", "http://gpu:11434 is named twice. Name it once; URL#2 gives it two requests."),
        ("gpu#0", "'gpu#0' gives no number of requests from 1 to 64. Say it like http://127.0.0.1:11434#2."),
        ("gpu#65", "'gpu#65' gives no number"),
        ("gpu#two", "'gpu#two' gives no number"),
        ("gpu,two words", "'two words' is not an address of an Ollama server."),
    ],
)
def test_an_address_or_a_limit_that_is_none_is_refused(text: str, sentence: str) -> None:
    """When it is given, not when it is first used."""
    with pytest.raises(InvalidRequest) as refused:
        OllamaOptions(url=text)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("limit", [0, 65])
def test_a_limit_for_all_that_is_none_is_refused(limit: int) -> None:
    """Between 1 and 64."""
    with pytest.raises(InvalidRequest, match=f"cannot be given {limit} requests at once"):
        OllamaOptions(concurrency=limit)


# -- settings ------------------------------------------------------------------------------


def load(home: Path, text: str = "", **environ: str) -> Settings:
    """The settings of a file and variables."""
    (home / CONFIG_NAME).write_text(text, "utf-8")
    return load_settings({"data_dir": home}, environ)


def test_the_file_may_name_them_as_a_list(tmp_path: Path) -> None:
    """A list of the file is what the flag says with commas."""
    chosen = load(tmp_path, 'ollama_url = ["gpu#2", "10.0.0.7"]\nollama_concurrency = 3\nthink = "off"\n')
    options = ollama_options(chosen)
    assert options.endpoints == (Endpoint("http://gpu:11434", 2), Endpoint("http://10.0.0.7:11434", 3))
    assert options.think == "off"
    assert load(tmp_path, CC_ORCHESTRATOR_OLLAMA_URL="gpu#2, 10.0.0.7").ollama_url == "gpu#2, 10.0.0.7"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('ollama_url = ["gpu", 3]\n', "The setting ollama_url does not fit"),
        ('ollama_url = "gpu,a b"\n', "The setting ollama_url does not fit: it must be an address such as http://"),
        ('ollama_url = "gpu#0"\n', "The setting ollama_url does not fit: it must be an address such as http://"),
        (
            "ollama_concurrency = 0\n",
            "The setting ollama_concurrency does not fit: ollama_concurrency must be",
        ),
        ('think = "loud"\n', "The setting think does not fit: think must be 'auto' or 'off'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    """With the name of the setting and its line."""
    with pytest.raises(InvalidRequest) as refused:
        load(tmp_path, text)
    assert refused.value.message.startswith(sentence)
    assert " in line 1 of " in refused.value.remedy


def test_the_models_of_one_server_share_its_places(tmp_path: Path) -> None:
    """Whichever task names which model: the limit is that of the Ollama server."""
    models: Any = Models(None, lambda: ollama_options(Settings(data_dir=tmp_path, ollama_url="gpu#2")), ServerOptions)
    assert models.open("ollama:a")._pool is models.open("ollama:b")._pool
    assert models.open("ollama:a") is models.open("ollama:a")
