"""How Ollama is asked: its address by its own rules, and options that can be meant."""

from typing import Any

import pytest

from orchestrator.adapters.models import OllamaOptions, as_chat_model
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.adapters.models.options import ollama_url
from orchestrator.core.errors import InvalidRequest


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("  'farm.example'  ", "http://farm.example:11434"),
        ("10.0.0.7", "http://10.0.0.7:11434"),
        (":1234", "http://127.0.0.1:1234"),
        ("farm.example:1234/", "http://farm.example:1234"),
        ("farm.example/below/", "http://farm.example:11434/below"),
        ("http://farm.example", "http://farm.example:80"),
        ("HTTPS://farm.example", "https://farm.example:443"),
        ("https://farm.example:8443/x", "https://farm.example:8443/x"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("[::]:99", "http://[::1]:99"),
        ("[::1]", "http://[::1]:11434"),
    ],
)
def test_the_address_follows_ollamas_own_rules(host: str | None, url: str) -> None:
    """What is missing in OLLAMA_HOST is filled in as Ollama does, and filling in twice changes nothing."""
    assert ollama_url(host) == url == ollama_url(url)


@pytest.mark.parametrize("host", ["ftp://farm", "farm:port", "http://farm:99999", "two words", "[::1", "http://a/b c?"])
def test_an_address_that_is_none_is_refused_when_it_is_given(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the model is first asked, hours later."""
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(InvalidRequest, match="is not an address of an Ollama server"):
        as_chat_model("ollama:tiny")


def test_an_ollama_name_opens_with_the_options_that_are_given() -> None:
    """Everything after the first colon is the model's name, its tag included."""
    opened = as_chat_model("ollama:library/qwen3:8b", OllamaOptions(num_ctx=16384))
    assert isinstance(opened, OllamaModel)
    assert opened.name == "ollama:library/qwen3:8b"


@pytest.mark.parametrize("name", ["ollama:", "ollama", "ollama: "])
def test_an_ollama_name_without_a_model_is_refused(name: str) -> None:
    """The sentence gives an example."""
    with pytest.raises(InvalidRequest, match=r"The name after ollama: is missing\. For example ollama:llama3\.2\."):
        as_chat_model(name)


@pytest.mark.parametrize(
    "options", [{"num_ctx": 1000}, {"num_predict": 0}, {"num_predict": -1}, {"silence_s": 0.0}, {"whole_s": -1.0}]
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """A reply that does not fit the window, an unbounded one, and a wait of no time."""
    with pytest.raises(InvalidRequest):
        OllamaOptions(**options)
