"""A model that answers from a script: for the demo, for dry runs and for tests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.core.errors import ModelFailed
from orchestrator.ports import ChatMessage, ModelReply

Reply = str | Mapping[str, Any] | ModelReply


def _tool(explanation: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"kind": "tool", "explanation": explanation, "tool_call": {"tool": tool, "args": args}}


SCRIPTS: Final[Mapping[str, Sequence[Reply]]] = {
    "hello": (
        _tool("I write the program first.", "cc_write", path="hello.lua", content="print('Hello, world!')\n"),
        _tool("Now I run it and look at what it prints.", "cc_run_program", path="hello.lua"),
        {
            "kind": "final",
            "explanation": "The program printed its greeting.",
            "success": True,
            "message": "Wrote hello.lua and ran it: it prints Hello, world!",
            "details": {"path": "hello.lua"},
        },
    ),
}
"""Shipped scripts by name; ``hello`` is the demo's."""


class ScriptedModel:
    """Answers with the reply whose place is the number of replies already in the view.

    So it holds no state: after a restart it carries on where the journal does.
    """

    def __init__(self, script: Sequence[Reply], *, name: str = "scripted") -> None:
        self._script = script
        self.name = name

    async def reply(self, messages: Sequence[ChatMessage]) -> ModelReply:
        """The next reply of the script. Raises ModelFailed when the script has run out."""
        place = sum(message.role == "assistant" for message in messages)
        if place >= len(self._script):
            raise ModelFailed(f"The script has {len(self._script)} replies and was asked for one more.")
        reply = self._script[place]
        if isinstance(reply, ModelReply):
            return reply
        return ModelReply(text=reply if isinstance(reply, str) else json.dumps(reply))
