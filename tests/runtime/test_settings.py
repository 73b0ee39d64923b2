"""Settings: where each value may come from, which of them wins, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.runtime.program import default_data_dir
from orchestrator.runtime.settings import CONFIG_NAME, Settings, load_settings


def toml(directory: Path, text: str) -> None:
    (directory / CONFIG_NAME).write_text(text, "utf-8")


def load(directory: Path, flags: dict[str, Any] | None = None, **environ: str) -> Settings:
    env = {f"CC_ORCHESTRATOR_{name.upper()}": value for name, value in environ.items()}
    return load_settings({"data_dir": directory, **(flags or {})}, env)


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    """Each source wins over the next: flags, CC_ORCHESTRATOR_*, cc-orchestrator.toml, the default."""
    assert load(tmp_path).port == 8765
    toml(tmp_path, "port = 1001\nworkers = 3\n")
    assert load(tmp_path).port == 1001
    assert load(tmp_path, port="1002").port == 1002
    chosen = load(tmp_path, {"port": 1003}, port="1002")
    assert (chosen.port, chosen.workers) == (1003, 3)
    assert load(tmp_path, {"port": None}, port="").port == 1001


def test_the_data_dir_comes_from_flag_environment_or_home(tmp_path: Path) -> None:
    """The directory that holds the file is itself chosen by flag, then environment, then XDG or home."""
    here, there = tmp_path / "here", tmp_path / "there"
    environ = {"CC_ORCHESTRATOR_DATA_DIR": str(there), "XDG_DATA_HOME": str(tmp_path)}
    assert load_settings({"data_dir": here}, environ).data_dir == here
    assert load_settings({}, environ).data_dir == there
    assert load_settings({}, {"XDG_DATA_HOME": str(tmp_path)}).data_dir == tmp_path / "cc-orchestrator"
    assert default_data_dir({}) == Path.home() / ".local" / "share" / "cc-orchestrator"


def test_the_fixed_names_stand_in_the_data_dir(tmp_path: Path) -> None:
    """orchestrator.db, policy.toml, workspace/ and admin.token are in the data directory unless named."""
    chosen = load(tmp_path)
    assert chosen.store_url == f"sqlite:///{tmp_path / 'orchestrator.db'}"
    assert (chosen.policy_path, chosen.workspace_path, chosen.token_path) == (
        tmp_path / "policy.toml",
        tmp_path / "workspace",
        tmp_path / "admin.token",
    )
    assert (chosen.host, chosen.insecure_bind, chosen.approvers) == ("127.0.0.1", False, "requester")
    assert load(tmp_path, store="memory:", policy="/p.toml").store_url == "memory:"
    assert load(tmp_path, policy="/p.toml").policy_path == Path("/p.toml")


def test_a_file_elsewhere_is_not_read(tmp_path: Path) -> None:
    """Only the file in the chosen data directory counts, not one in the working directory."""
    toml(tmp_path, "port = 1001\n")
    assert load(tmp_path / "other").port == 8765


@pytest.mark.parametrize(
    ("text", "sentence", "remedy"),
    [
        ("prot = 1\n", "FILE has the key 'prot' in line 1, and there is no such setting.", "Did you mean port? "),
        (
            "xyzzy = 1\n",
            "FILE has the key 'xyzzy' in line 1, and there is no such setting.",
            "docs/settings.md lists them.",
        ),
        ("#\n[serve]\nport = 1\n", "FILE has the table [serve] in line 2, and", "Take the line [serve] out"),
        ("serve.port = 1\n", "FILE has the table [serve] in line 1, and", "Take the line [serve] out"),
        ("data_dir = '/x'\n", "FILE names a data_dir in line 1, and it is found there.", "--data-dir"),
        (
            '# many\n\n "port" = "many"\n',
            "The setting port does not fit: port must be a whole number.",
            "Change port in line 3 of FILE.",
        ),
        (
            "port = [1]\n",
            "The setting port does not fit: port must be a whole number.",
            "Change port in line 1 of FILE.",
        ),
        (
            "port = 70000\n",
            "The setting port does not fit: port must be at most 65535.",
            "Change port in line 1 of FILE.",
        ),
        (
            "workers = 0\n",
            "The setting workers does not fit: workers must be at least 1.",
            "Change workers in line 1 of FILE.",
        ),
        (
            "insecure_bind = 7\n",
            "The setting insecure_bind does not fit: insecure_bind must be true or false.",
            "in line 1 of FILE.",
        ),
        ("store = 7\n", "The setting store does not fit: store must be text.", "Change store in line 1 of FILE."),
        ("policy = 7\n", "The setting policy does not fit: policy must be a path.", "Change policy in line 1 of FILE."),
        (
            "max_wall_s = nan\n",
            "The setting max_wall_s does not fit: max_wall_s must be a finite number.",
            "Change max_wall_s in line 1 of FILE.",
        ),
        (
            "max_wall_s = -1\n",
            "The setting max_wall_s does not fit: max_wall_s must be at least 0",
            "Change max_wall_s in line 1 of FILE.",
        ),
        (
            "temperature = 3\n",
            "The setting temperature does not fit: temperature must be at most 2",
            "Change temperature in line 1 of FILE.",
        ),
        (
            "temperature = nan\n",
            "The setting temperature does not fit: temperature must be a finite number.",
            "in line 1 of FILE.",
        ),
        (
            'approvers = "reviewer"\n',
            "The setting approvers does not fit: it must be requester, not_requester, ",
            "in line 1 of FILE.",
        ),
        (
            'ollama_url = "a b"\n',
            "The setting ollama_url does not fit: it must be an address such as http://",
            "in line 1 of FILE.",
        ),
        (
            'log_level = "loud"\n',
            "The setting log_level does not fit: log_level must be 'debug', 'info', ",
            "in line 1 of FILE.",
        ),
        (
            'keep_alive = "long"\n',
            "The setting keep_alive does not fit: it must be a number and s, m or h",
            "in line 1 of FILE.",
        ),
        (
            'public_url = "game.example"\n',
            "The setting public_url does not fit: it must be http://",
            "in line 1 of FILE.",
        ),
        (
            'public_url = "http://a/b"\n',
            "The setting public_url does not fit: it must be http://",
            "in line 1 of FILE.",
        ),
        ("port = \n", "FILE cannot be read: ", "Fix it or take it away."),
        ("\xff", "FILE cannot be read: ", "Fix it or take it away."),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path: Path, text: str, sentence: str, remedy: str) -> None:
    """An unknown key, a wrong type, a value out of range and a broken file each name the setting and the file."""
    path = tmp_path / CONFIG_NAME
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidRequest) as refused:
        load(tmp_path)
    assert refused.value.message.startswith(sentence.replace("FILE", str(path)))
    assert remedy.replace("FILE", str(path)) in refused.value.remedy
    assert "Input should" not in str(refused.value)
    assert "Value error" not in str(refused.value)


def test_a_refusal_says_where_to_look(tmp_path: Path) -> None:
    """The remedy names the one place that the value came from: the flag, the variable or the file."""
    toml(tmp_path, "port = 'x'\n")
    with pytest.raises(InvalidRequest, match=r"Change port in line 1 of .*cc-orchestrator\.toml\.$"):
        load(tmp_path)
    toml(tmp_path, "")
    with pytest.raises(InvalidRequest, match=r"port must be a whole number\. Change CC_ORCHESTRATOR_PORT\.$"):
        load(tmp_path, port="eighty")
    with pytest.raises(InvalidRequest, match=r"max_steps must be at least 1\. Change --max-steps\.$"):
        load(tmp_path, {"max_steps": 0, "port": 1})


def test_an_address_is_kept_without_its_last_slash(tmp_path: Path) -> None:
    """`public_url` takes a host, a port and IPv6, and drops a slash at the end."""
    for text in ("http://192.168.1.5:8765", "https://cc.example", "http://[fe80::1]:80"):
        assert load(tmp_path, public_url=text + "/").public_url == text


def test_every_setting_says_what_it_means() -> None:
    """Each field has a description, which docs/settings.md shows."""
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_a_variable_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """CC_ORCHESTRATOR_URL and _TOKEN are the clients' and mean nothing to `serve`."""
    assert load(tmp_path, url="http://x", token="t") == load(tmp_path)


def test_a_wrong_value_is_refused_also_where_another_source_wins(tmp_path: Path) -> None:
    """A flag hides neither what is wrong in the file nor what is wrong in the environment."""
    toml(tmp_path, "workers = 3\nport = 'x'\n")
    with pytest.raises(InvalidRequest, match=r"Change port in line 2 of .*cc-orchestrator\.toml\.$"):
        load(tmp_path, {"port": 1}, port="2")
    toml(tmp_path, "port = 3\n")
    with pytest.raises(InvalidRequest, match=r"Change CC_ORCHESTRATOR_PORT\.$"):
        load(tmp_path, {"port": 1}, port="x")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("CC_ORCHESTRATOR_PROT", "Did you mean CC_ORCHESTRATOR_PORT? "),
        ("cc_orchestrator_port", "Did you mean CC_ORCHESTRATOR_PORT? "),
        ("CC_ORCHESTRATOR_XYZZY", "Take it away, or see docs/settings.md"),
    ],
)
def test_a_variable_that_only_looks_like_ours_is_refused(tmp_path: Path, name: str, remedy: str) -> None:
    """A variable with our prefix that names no setting is refused, with what was perhaps meant; an empty one is not."""
    with pytest.raises(InvalidRequest) as refused:
        load_settings({"data_dir": tmp_path}, {name: "1"})
    assert refused.value.message == f"The variable {name} is set, and there is no such setting."
    assert refused.value.remedy.startswith(remedy)
    assert load_settings({"data_dir": tmp_path}, {name: ""}) == load(tmp_path)


@pytest.mark.parametrize("inside", ["", "x"])
def test_a_data_directory_that_is_a_file_is_said_to_be_none(tmp_path: Path, inside: str) -> None:
    """Nobody is told to mend a file of settings that cannot be there."""
    (tmp_path / "file").write_text("x")
    directory = tmp_path / "file" / inside
    with pytest.raises(InvalidRequest, match=rf"^{directory} is not a directory\. Choose one with --data-dir or CC_"):
        load(directory)


def test_a_file_that_an_editor_marked_is_read(tmp_path: Path) -> None:
    """A byte order mark before the first key, as some editors write it, is no part of the key."""
    (tmp_path / CONFIG_NAME).write_text("port = 1001\n", "utf-8-sig")
    assert load(tmp_path).port == 1001


@pytest.mark.parametrize("url", ["", "gpu.example", "127.0.0.1:9", "http://[::1]:9/ollama", "0.0.0.0"])
def test_ollama_is_named_as_its_own_variable_does(tmp_path: Path, url: str) -> None:
    """Scheme and port of `ollama_url` may be left out, as in OLLAMA_HOST."""
    assert load(tmp_path, {"ollama_url": url}).ollama_url == url
