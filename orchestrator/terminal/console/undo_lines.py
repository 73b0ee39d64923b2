"""What an undo, or putting a backup back, would do, as lines for a person."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from orchestrator.core.text.visible import one_line

_DOES: Final = {
    "restore": "put back",
    "remove": "remove",
    "conflict": "KEEP",
    "nothing": "as it was",
    "away": "wait for",
}
_WHY: Final = frozenset({"conflict", "away"})


def told(preview: Mapping[str, Any]) -> list[str]:
    """A preview as lines for a person."""
    lines = []
    for one in preview["places"]:
        why = f"  ({one['why']})" if one["why"] and one["verdict"] in _WHY else ""
        lines.append(f"{_DOES[one['verdict']]:<10}{one_line(one['place'])}{why}")
    limits = preview["cannot_be_undone"]
    lines += [f"cannot be undone: step {one['step']}, {one['tool']}: {one['what']}" for one in limits]
    waited = preview.get("not_heard", [])
    lines += [f"wait for  step {one['step']}, {one['tool']}{_on(one)}: {one['what']}" for one in waited]
    return lines


def restore_told(preview: Mapping[str, Any]) -> Iterator[str]:
    """What putting a backup back would do, as lines for a person."""
    yield f"from {preview['backup_id']}:"
    changing = [one for one in preview["places"] if one["verdict"] != "nothing"]
    if changing:
        yield from told({"places": changing, "cannot_be_undone": []})
    same = len(preview["places"]) - len(changing)
    if same:
        yield "1 is as it was." if same == 1 else f"{same} are as they were."
    since = preview["came_since"]
    if since is None:
        yield "The computer is not connected: what is there now is not known."
    elif since and not preview["exact"]:
        yield f"{since} came since and stay."


def _on(one: Mapping[str, Any]) -> str:
    return f" on {one_line(one['computer'])}" if one["computer"] else ""
