"""Standing approvals in words: what one allows without asking."""

import json
from collections.abc import Mapping
from typing import Any, Final

_TEXTS: Final = ("content", "old", "new", "patch")
"""Arguments that are the text of a change: too long to be shown, so only said to be fixed."""


def allows(grant: Mapping[str, Any]) -> str:
    """What it covers, in one line that is not safe to look at yet; a call has to fit all of it."""
    parts = [", ".join(grant["paths"])] if grant["paths"] else []
    args = grant["args"]
    parts += [f"{name} {json.dumps(args[name])}" for name in sorted(args) if name not in _TEXTS]
    if grant["scope"] == "call":
        parts.append("only this very call")
    elif grant["any_content"]:
        parts.append("any text")
    elif any(name in args for name in _TEXTS):
        parts.append("the very same text")
    if grant["files"]:
        parts.append(f"while {' and '.join(sorted(grant['files']))} stays as it was")
    where = f" on {grant['computer']}" if grant["computer"] else ""
    return f"{grant['tool']}{where}{': ' if parts else ''}{'; '.join(parts)}"
