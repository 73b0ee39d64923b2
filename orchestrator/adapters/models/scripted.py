"""A model that answers from a script: for the demo, for dry runs and for tests."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ChatMessage, ModelReply, Window

Reply = str | Mapping[str, Any] | ModelReply | Callable[[str], Mapping[str, Any]]
"""One place of a script; a function is given what the last step brought back."""


def _tool(explanation: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"kind": "tool", "explanation": explanation, "tool_call": {"tool": tool, "args": args}}


def _final(explanation: str, message: str, **details: Any) -> dict[str, Any]:
    return {"kind": "final", "explanation": explanation, "success": True, "message": message, "details": details}


def _greeted(answer: str) -> dict[str, Any]:
    return _final("The user has answered.", f"Your farm grows: {answer}", answer=answer)


SCRIPTS: Final[Mapping[str, Sequence[Reply]]] = {
    "hello": (
        _tool("I write the program first.", "cc_write", path="hello.lua", content="print('Hello, world!')\n"),
        _tool("Now I run it and look at what it prints.", "cc_run_program", path="hello.lua"),
        _final(
            "The program printed its greeting.",
            "Wrote hello.lua and ran it: it prints Hello, world!",
            path="hello.lua",
        ),
    ),
    "question": (
        _tool(
            "I cannot know that.",
            "ask_user",
            question="What does your farm grow?",
            options=["wheat", "carrots", "cactus"],
        ),
        _greeted,
    ),
    "tour": (
        _tool("I make a place for the program.", "cc_mkdir", path="tour"),
        _tool(
            "I write a small program there.",
            "cc_write",
            path="tour/draft.lua",
            content="local name = 'wrold'\nfor n = 1, 2 do\n  print(n .. ': hello ' .. name)\nend\n",
        ),
        _tool("I look for the slip that I made.", "cc_find", pattern="tour/*.lua", contains="wrold"),
        _tool("I read the lines around it.", "cc_read", path="tour/draft.lua", start_line=1, max_lines=2),
        _tool("I correct the one word.", "cc_edit", path="tour/draft.lua", old="'wrold'", new="'world'"),
        _tool("The draft is done and gets its name.", "cc_move", path="tour/draft.lua", to="tour/hello.lua"),
        _tool("I run it and look at what it prints.", "cc_run_program", path="tour/hello.lua"),
        _final("It printed both lines.", "tour/hello.lua greets the world twice.", path="tour/hello.lua"),
    ),
}
"""Shipped scripts by name: ``hello`` is the demo's, ``question`` asks its user, ``tour`` uses most of the tools."""


class ScriptedModel:
    """Answers with the reply whose place is the number of replies already in the view.

    So it holds no state: after a restart it carries on where the journal does. ``part_chars``: it
    tells its text in parts of so many characters; None: all at once.
    """

    def __init__(self, script: Sequence[Reply], *, name: str = "scripted", part_chars: int | None = None) -> None:
        self._script = script
        self._part_chars = part_chars
        self.name = name

    @property
    def servers(self) -> Sequence[str]:
        """Nowhere: its replies are here."""
        return ()

    async def window(self) -> Window | None:
        """None: a script has no window."""
        return None

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
        affinity: str = "",
        one_computer: bool = False,
    ) -> ModelReply:
        """The next reply of the script, however long. Raises ModelFailed when the script has run out."""
        del max_output_tokens, user, affinity, one_computer
        place = sum(message.role == "assistant" for message in messages)
        if place >= len(self._script):
            raise ModelFailed(
                f"The script ends before its reply {len(self._script) + 1}.",
                remedy="Give it more replies.",
                lasting=True,
            )
        reply = _as_reply(self._script[place], messages)
        if on_text is not None:
            step = self._part_chars or max(1, len(reply.text))
            for start in range(0, len(reply.text), step):
                on_text(reply.text[start : start + step])
        return reply


def _as_reply(said: Reply, messages: Sequence[ChatMessage]) -> ModelReply:
    if callable(said):
        said = said(_result(messages[-1].content))
    if isinstance(said, ModelReply):
        return said
    return ModelReply(text=said if isinstance(said, str) else json.dumps(said))


def _result(told: str) -> str:
    """What a step brought back, out of the message that the model is told it in."""
    return told.removeprefix("TOOL_RESULT: ").partition("\n[end of data ")[0]
