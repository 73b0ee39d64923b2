"""Models behind the port: scripted, any of pydantic-ai, and by name."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.facts import Usage
from orchestrator.model import ScriptedModel, as_chat_model
from orchestrator.model.pydantic_ai import PydanticAIModel
from orchestrator.model.scripted import SCRIPTS
from orchestrator.ports import ChatMessage, ChatModel, ModelReply
from tests.shell.support import Listening, final

VIEW = [
    ChatMessage("system", "rules"),
    ChatMessage("user", "task"),
    ChatMessage("assistant", "reply 1"),
    ChatMessage("user", "TOOL_RESULT: x"),
]


def after(replies: int) -> list[ChatMessage]:
    """A view in which the model has answered this often."""
    return [ChatMessage("user", "task"), *[ChatMessage("assistant", "…")] * replies]


def function(answer: Any, seen: list[list[ModelMessage]] | None = None) -> FunctionModel:
    """A pydantic-ai model that answers with one response, or raises."""

    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.function_tools == info.output_tools == []
        if seen is not None:
            seen.append(messages)
        if isinstance(answer, Exception):
            raise answer
        response: ModelResponse = answer
        return response

    return FunctionModel(play, model_name="played")


# -- scripted ----------------------------------------------------------------------------


async def test_a_script_goes_by_the_replies_already_given() -> None:
    """A scripted model holds no state: the place in the script is the number of replies in the view."""
    model = ScriptedModel(["one", {"kind": "final"}, ModelReply("three", done_reason="length")])
    assert (await model.reply(after(1))).text == '{"kind": "final"}'
    assert await model.reply(after(0)) == ModelReply("one")
    assert await model.reply(after(2)) == ModelReply("three", done_reason="length")
    assert (await model.reply(after(0))).text == "one"


async def test_a_script_that_runs_out_says_so() -> None:
    """Past the end of its script the model fails with the length of the script."""
    with pytest.raises(ModelFailed, match="The script has 1 replies and was asked for one more"):
        await ScriptedModel(["one"]).reply(after(1))


async def test_the_shipped_script_writes_runs_and_ends() -> None:
    """The demo's script is a write, a run of the same file, and a success."""
    model = as_chat_model("scripted:hello")
    assert model.name == "scripted:hello"
    replies = [json.loads((await model.reply(after(place))).text) for place in range(len(SCRIPTS["hello"]))]
    assert [one.get("tool_call", {}).get("tool") for one in replies] == ["cc_write", "cc_run_program", None]
    assert replies[0]["tool_call"]["args"]["path"] == replies[1]["tool_call"]["args"]["path"] == "hello.lua"
    assert replies[2]["success"] is True


# -- pydantic-ai -------------------------------------------------------------------------


async def test_messages_arrive_in_their_roles_and_order() -> None:
    """System, user and assistant messages become the parts that pydantic-ai has for them, one each, in order."""
    seen: list[list[ModelMessage]] = []
    await PydanticAIModel(function(ModelResponse(parts=[TextPart("ok")]), seen)).reply(VIEW)
    kinds: list[tuple[type[object], Sequence[object]]] = [(type(one), one.parts) for one in seen[0]]
    assert [(kind, type(parts[0]), getattr(parts[0], "content", None)) for kind, parts in kinds] == [
        (ModelRequest, SystemPromptPart, "rules"),
        (ModelRequest, UserPromptPart, "task"),
        (ModelResponse, TextPart, "reply 1"),
        (ModelRequest, UserPromptPart, "TOOL_RESULT: x"),
    ]
    assert all(len(parts) == 1 for _, parts in kinds)


async def test_text_is_joined_and_thoughts_are_left_out() -> None:
    """The reply is the text of the response, whole and without its thinking; usage comes along."""
    response = ModelResponse(
        parts=[ThinkingPart("hm"), TextPart('{"kind":'), TextPart(' "final"}')],
        usage=RequestUsage(input_tokens=11, output_tokens=7),
    )
    reply = await PydanticAIModel(function(response)).reply(VIEW)
    assert reply == ModelReply('{"kind": "final"}', usage=Usage(input_tokens=11, output_tokens=7))


@pytest.mark.parametrize(
    ("finish", "done"),
    [
        (None, "stop"),
        ("stop", "stop"),
        ("length", "length"),
        ("error", "aborted"),
        ("content_filter", "aborted"),
        ("tool_call", "stop"),
    ],
)
async def test_how_a_response_finished_is_kept(finish: Any, done: str) -> None:
    """A response cut at the limit is `length`, one that broke off `aborted`: neither passes for whole."""
    response = ModelResponse(parts=[TextPart("x")], finish_reason=finish)
    assert (await PydanticAIModel(function(response)).reply(VIEW)).done_reason == done


@pytest.mark.parametrize(
    "error",
    [
        ModelHTTPError(503, "played", "overloaded"),
        UnexpectedModelBehavior("nonsense"),
        ConnectionRefusedError("refused"),
        TimeoutError("late"),
    ],
)
async def test_every_failure_of_a_model_is_one_error(error: Exception) -> None:
    """What goes wrong at the model is ModelFailed with the model's name and the reason, never another class."""
    with pytest.raises(ModelFailed, match="The model played could not be asked") as failed:
        await PydanticAIModel(function(error)).reply(VIEW)
    assert failed.value.__cause__ is error


async def test_a_test_model_answers_too() -> None:
    """pydantic-ai's TestModel drives the port without a tool call."""
    reply = await PydanticAIModel(TestModel(custom_output_text="hello")).reply(VIEW)
    assert (reply.text, reply.done_reason) == ("hello", "stop")


# -- by name -----------------------------------------------------------------------------


def test_a_model_of_any_kind_is_taken() -> None:
    """A ChatModel is used as it is, a pydantic-ai model is wrapped and keeps its name."""
    chat: ChatModel = Listening(final())
    assert as_chat_model(chat) is chat
    wrapped = as_chat_model(function(ModelResponse(parts=[])))
    assert isinstance(wrapped, PydanticAIModel)
    assert wrapped.name == "played"


def test_a_name_opens_a_model_of_pydantic_ai() -> None:
    """`test` is a name that pydantic-ai knows."""
    assert isinstance(as_chat_model("test"), PydanticAIModel)


@pytest.mark.parametrize("name", ["scripted:nothing", "scripted:"])
def test_an_unknown_script_teaches(name: str) -> None:
    """A script that does not exist is refused with those that do."""
    with pytest.raises(InvalidRequest, match=r"There is no script '\w*'\. Scripts: hello\."):
        as_chat_model(name)


@pytest.mark.parametrize("name", ["gpt", "nonsense:model", "", "openai-chat:", "anthropic:claude"])
def test_a_name_that_cannot_be_used_says_why(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown model, or one whose package or key is missing, is refused in a sentence that names it."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(InvalidRequest, match="cannot be used: ") as refused:
        as_chat_model(name)
    assert repr(name) in str(refused.value)


@pytest.mark.parametrize("value", [None, 3, object(), ["scripted:hello"]])
def test_what_is_no_model_is_refused(value: Any) -> None:
    """A value that is no model is refused when it is given, not when it is first asked."""
    with pytest.raises(InvalidRequest, match="is no model"):
        as_chat_model(value)
