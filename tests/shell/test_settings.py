"""Settings: where each value may come from, which of them wins, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.settings import CONFIG_NAME, Settings, default_data_dir, load_settings


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
    assert (chosen.policy_path, chosen.workspace, chosen.token_path) == (
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
    ("text", "sentence"),
    [
        ("prot = 1\n", "The setting prot does not fit: "),
        ('port = "many"\n', "The setting port does not fit: "),
        ("port = 70000\n", "The setting port does not fit: "),
        ("workers = 0\n", "The setting workers does not fit: "),
        ("insecure_bind = 7\n", "The setting insecure_bind does not fit: "),
        ("port = \n", f"{CONFIG_NAME} cannot be read: "),
        ("\xff", f"{CONFIG_NAME} cannot be read: "),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path: Path, text: str, sentence: str) -> None:
    """An unknown key, a wrong type, a value out of range and a broken file each name the setting or the file."""
    (tmp_path / CONFIG_NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidRequest) as refused:
        load(tmp_path)
    assert sentence in refused.value.message
    assert refused.value.remedy


def test_a_refusal_says_where_to_look(tmp_path: Path) -> None:
    """The remedy names the flag, the variable and the file that the value may come from."""
    with pytest.raises(InvalidRequest) as refused:
        load(tmp_path, port="eighty")
    assert refused.value.remedy == f"Look at --port, CC_ORCHESTRATOR_PORT and {tmp_path / CONFIG_NAME}."


def test_a_variable_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """CC_ORCHESTRATOR_URL and _TOKEN are the clients' and mean nothing to `serve`."""
    assert load(tmp_path, url="http://x", token="t") == load(tmp_path)
