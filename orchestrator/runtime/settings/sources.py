"""Where settings come from: flags, then ``CC_ORCHESTRATOR_<NAME>``, then ``cc-orchestrator.toml``, then the default."""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.model_view.messages import said_of
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings.fields import Settings

ENV_PREFIX: Final = "CC_ORCHESTRATOR_"
CONFIG_NAME: Final = "cc-orchestrator.toml"

_OF_CLIENTS: Final = ("url", "token", "engine")
"""Variables that the other commands and ``scripts/engine.py`` read, and `serve` does not."""


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where things are kept when nobody says: ``~/.local/share/cc-orchestrator`` or what XDG_DATA_HOME says."""
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "cc-orchestrator"


def load_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The settings; a flag that is None was not given. Raises InvalidRequest naming what does not fit, and where.

    Each source has to fit for itself: a wrong value is refused also where another source has a better one,
    or it would bite on the day that the other one is taken away.
    """
    for unknown in unknown_variables(environ):
        raise unknown
    from_flags = {name: value for name, value in flags.items() if value is not None}
    from_env = {name: text for name in Settings.model_fields if (text := environ.get(_variable(name)))}
    data_dir = Path(from_flags.get("data_dir") or from_env.get("data_dir") or default_data_dir(environ))
    path = data_dir / CONFIG_NAME
    from_file, text = _config(path)
    _fitting({**from_file, "data_dir": data_dir}, lambda name: f"{name} in {_line(text, name, ' of ')}{path}")
    _fitting({"data_dir": data_dir, **from_env}, _variable)
    _fitting({"data_dir": data_dir, **from_flags}, lambda name: f"--{name.replace('_', '-')}")
    return Settings.model_validate({**from_file, **from_env, **from_flags, "data_dir": data_dir})


def unknown_variables(environ: Mapping[str, str]) -> list[InvalidRequest]:
    """What to say of each variable that begins as ours do and is none of them."""
    known = [name.upper() for name in (*Settings.model_fields, *_OF_CLIENTS)]
    ours = [name for name in sorted(environ) if environ[name] and name.upper().startswith(ENV_PREFIX)]
    return [
        InvalidRequest(
            f"The variable {one_line(name)} is set, and there is no such setting.",
            remedy=f"{_meant(name[len(ENV_PREFIX) :].upper(), known, ENV_PREFIX)}"
            "Take it away, or see docs/settings.md for those that there are.",
        )
        for name in ours
        if name.removeprefix(ENV_PREFIX) not in known
    ]


def _fitting(values: Mapping[str, Any], where: Callable[[str], str]) -> None:
    """Raises InvalidRequest unless the values of one source fit; ``where`` says how a setting is called there."""
    try:
        Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        what = said_of(first, "" if first["type"] == "value_error" else name)
        raise InvalidRequest(f"The setting {name} does not fit: {what}.", remedy=f"Change {where(name)}.") from None


def _variable(name: str) -> str:
    return ENV_PREFIX + name.upper()


def _meant(name: str, known: Iterable[str], before: str = "") -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {before}{near[0]}? " if near else ""


def _config(path: Path) -> tuple[dict[str, Any], str]:
    """What the file says, and its text. Raises InvalidRequest for a broken file, and for what is no setting in it."""
    try:
        # With the mark at its beginning that some editors of Windows write.
        text = path.read_text("utf-8-sig")
        found = tomllib.loads(text)
    except FileNotFoundError:
        return {}, ""
    except NotADirectoryError:
        raise InvalidRequest(
            f"{path.parent} is no directory.", remedy=f"Choose one with --data-dir or {_variable('data_dir')}."
        ) from None
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be read: {error.strerror or error}.",
            remedy="Let this user read it, or choose another directory with --data-dir.",
        ) from None
    except ValueError as error:
        raise InvalidRequest(f"{path} cannot be read: {error}.", remedy="Mend it or take it away.") from None
    for name, value in found.items():
        _must_be_a_setting(name, value, _line(text, name), path)
    return found, text


def _must_be_a_setting(name: str, value: Any, line: str, path: Path) -> None:
    where = f" in {line}" if line else ""
    known = set(Settings.model_fields) - {"data_dir"}
    shown = one_line(name)
    if name == "data_dir":
        raise InvalidRequest(
            f"{path} names a data_dir{where}, and it is found there.",
            remedy=f"Take the line out; use --data-dir or {_variable('data_dir')}.",
        )
    if name in known:
        return
    if isinstance(value, dict):
        raise InvalidRequest(
            f"{path} has the table [{shown}]{where}, and settings stand in no table.",
            remedy=f"Take the line [{shown}] out, so that each setting stands by itself, such as `port = 8765`.",
        )
    raise InvalidRequest(
        f"{path} has the key '{shown}'{where}, and there is no such setting.",
        remedy=f"{_meant(name, known)}docs/settings.md lists them.",
    )


def _line(text: str, name: str, after: str = "") -> str:
    """Where a key or a table begins in a file, such as ``line 3``, and ``after``; empty when that cannot be told."""
    key = rf"""["']?{re.escape(name)}["']?"""
    found = re.search(rf"^[ \t]*(?:\[\[?[ \t]*{key}|{key}[ \t]*[=.])", text, re.MULTILINE)
    return f"line {text.count(chr(10), 0, found.start()) + 1}{after}" if found else ""
