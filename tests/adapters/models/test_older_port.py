"""Models that were written for an earlier form of the port: they are asked for what they have, and nothing else."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from orchestrator.adapters.models import as_chat_model
from orchestrator.adapters.models.scripted import ScriptedModel
from orchestrator.adapters.models.truncation import as_it_is
from orchestrator.core.model_view.prompt import Window
from orchestrator.core.ports import ChatMessage, ModelReply
from tests.engine.test_actor import Bench, rules
from tests.harness.support import WRITE, final, says

ASKED = [ChatMessage(role="user", content="hello")]
WINDOW = Window(num_ctx=4096, num_predict=512)


class First:
    """As the port was before a model had a window, and before it knew for whom it answers."""

    name = "first"

    def __init__(self, *script: Any) -> None:
        self.script = list(script) or ["hello"]
        self.given: list[dict[str, Any]] = []

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
    ) -> ModelReply:
        self.given.append({"messages": messages, "on_text": on_text, "max_output_tokens": max_output_tokens})
        said = self.script.pop(0)
        return ModelReply(text=said if isinstance(said, str) else json.dumps(said))


class Anything:
    """Takes whatever it is given by name; ``window`` is as the test says."""

    name = "any"

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    async def reply(self, messages: Sequence[ChatMessage], **given: Any) -> ModelReply:
        self.given.append(given)
        return ModelReply(text="any")


class WithWindow(Anything):
    """The same with a window."""

    async def window(self) -> Window | None:
        return WINDOW


class WithUser:
    """Knows for whom it answers, but of no conversation."""

    name = "with user"
    users: Sequence[str] = ()

    async def window(self) -> Window | None:
        return WINDOW

    async def reply(
        self,
        messages: Sequence[ChatMessage],
        *,
        on_text: Callable[[str], None] | None = None,
        max_output_tokens: int | None = None,
        user: str = "",
    ) -> ModelReply:
        self.users = (*self.users, user)
        return ModelReply(text="hello")


class Unreadable(WithWindow):
    """One whose ``reply`` does not tell what it takes, as that of a compiled extension."""

    def __init__(self) -> None:
        super().__init__()
        self.reply = _Opaque(super().reply)  # type: ignore[method-assign]


class _Opaque:
    __signature__ = "of something else"

    def __init__(self, reply: Callable[..., Any]) -> None:
        self._reply = reply

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._reply(*given, **named)


@pytest.mark.parametrize(
    "model", [ScriptedModel(["hello"]), WithWindow(), Unreadable()], ids=lambda one: type(one).__name__
)
def test_a_model_with_the_whole_port_stays_what_it_is(model: Any) -> None:
    """Nothing stands between it and who asks."""
    assert as_it_is(model) is model
    assert as_chat_model(model) is model


async def test_an_earlier_model_is_not_given_what_it_cannot_take() -> None:
    """What it has is handed on untouched, and it has no window."""
    first = First()
    heard: list[str] = []
    model = as_chat_model(first)
    assert model.name == "first"
    assert await model.window() is None
    reply = await model.reply(ASKED, on_text=heard.append, max_output_tokens=64, user="alice", affinity="t1")
    assert reply.text == "hello"
    (given,) = first.given
    assert given["messages"] is ASKED
    assert given["max_output_tokens"] == 64
    given["on_text"]("part")
    assert heard == ["part"]


async def test_a_model_that_takes_anything_is_given_everything() -> None:
    """Only the window is missing."""
    anything = Anything()
    model: Any = as_it_is(anything)
    assert model is not anything
    assert await model.window() is None
    await model.reply(ASKED, user="alice", affinity="t1")
    assert anything.given == [
        {"on_text": None, "max_output_tokens": None, "user": "alice", "affinity": "t1", "one_computer": False}
    ]


async def test_a_model_that_has_some_of_it_keeps_that() -> None:
    """Its window and its users; the conversation is not named to it."""
    with_user = WithUser()
    model: Any = as_it_is(with_user)
    assert model is not with_user
    assert await model.window() == WINDOW
    assert (await model.reply(ASKED, user="alice", affinity="t1")).text == "hello"
    assert with_user.users == ("alice",)


async def test_an_earlier_model_does_a_whole_task() -> None:
    bench = Bench(as_chat_model(First(says(WRITE), final())), policy=rules())
    await bench.submit()
    task = await bench.act()
    assert task.ended is not None
    assert (task.ended.status, task.ended.verified) == ("Completed", True)
