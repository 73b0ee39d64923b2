"""What a server tells of a model before it is asked for a reply."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_CLOUD: Final = re.compile(r"[-:]cloud$")
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
_COUNTS_ALL: Final = (0, 30)
"""From this version on prompt_eval_count is the whole prompt; before, only what was not in the cache (models.md, 5)."""
_MAX_CONTEXT: Final = 2**31


def is_of_cloud(model: str) -> bool:
    """Whether a model is one of Ollama's cloud, by its name."""
    return _CLOUD.search(model) is not None


@dataclass(frozen=True)
class ModelFacts:
    """What ``/api/show`` says, as far as it is understood."""

    context: int | None = None
    """The longest window that the model was made for, in tokens; None: not said."""
    capabilities: frozenset[str] = frozenset()
    """Such as ``completion`` and ``thinking``; empty: an old server does not say."""
    remote_host: str = ""
    cloud: bool = False
    """It runs in Ollama's cloud, where nothing holds a reply to its schema."""
    family: str = ""
    size: str = ""
    """Of its parameters, such as ``7.6B``."""
    quantization: str = ""

    @property
    def thinks(self) -> bool:
        """Whether it can think before it speaks."""
        return "thinking" in self.capabilities

    @property
    def completes(self) -> bool:
        """Whether it writes text at all, as far as is known."""
        return not self.capabilities or "completion" in self.capabilities


def facts_of(model: str, shown: Any, url: str = "") -> ModelFacts:
    """The facts in an answer of ``/api/show``; what is not there or makes no sense is left at what means unknown."""
    shown = shown if isinstance(shown, dict) else {}
    named, details = _table(shown.get("capabilities")), _mapping(shown.get("details"))
    remote = _text(shown.get("remote_host"))
    return ModelFacts(
        context=context_of(_mapping(shown.get("model_info"))),
        capabilities=frozenset(one for one in named if isinstance(one, str)),
        remote_host=remote,
        cloud=bool(remote or is_of_cloud(model) or re.match(r"https://(?:www\.)?ollama\.com\b", url)),
        family=_text(details.get("family")),
        size=_text(details.get("parameter_size")),
        quantization=_text(details.get("quantization_level")),
    )


def context_of(info: Mapping[str, Any]) -> int | None:
    """The context length in a ``model_info``: that of its own architecture, else the only one there is."""
    architecture = info.get("general.architecture")
    own = info.get(f"{architecture}.context_length")
    found = [own] if own is not None else [value for key, value in info.items() if key.endswith(".context_length")]
    lengths = [one for one in found if isinstance(one, int) and not isinstance(one, bool) and 0 < one < _MAX_CONTEXT]
    # Of several (a projector has its own) the smallest is safe.
    return min(lengths, default=None)


def counts_all(version: Any) -> bool | None:
    """Whether a server of this version counts the whole prompt; None: nobody can tell."""
    found = _VERSION.match(version) if isinstance(version, str) else None
    if found is None or found.groups() == ("0", "0"):
        # A build of somebody's own calls itself 0.0.0.
        return None
    return (int(found[1]), int(found[2])) >= _COUNTS_ALL


def loaded_context(model: str, running: Any) -> int | None:
    """The window with which ``/api/ps`` says that a model is loaded; None: it does not say."""
    for row in _rows(running):
        length = row.get("context_length")
        if same_model(model, row) and isinstance(length, int) and 0 < length < _MAX_CONTEXT:
            return length
    return None


def names_in(listed: Any) -> list[str]:
    """The names of the models in ``/api/tags``; empty where it makes no sense."""
    return [name for row in _rows(listed) if (name := _text(row.get("name") or row.get("model")))]


def same_model(model: str, row: Mapping[str, Any]) -> bool:
    """Whether a row of a list is of this model; a tag that is left out is ``latest``."""
    return with_tag(model) in (with_tag(_text(row.get("name"))), with_tag(_text(row.get("model"))))


def with_tag(name: str) -> str:
    """A model's name with its tag, as the lists show it."""
    return name if not name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def _rows(answer: Any) -> Iterator[dict[str, Any]]:
    rows = _table(answer.get("models")) if isinstance(answer, dict) else []
    return (row for row in rows if isinstance(row, dict))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _table(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
