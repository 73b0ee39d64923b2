"""Models behind the port: scripted, any of pydantic-ai, and by name. Ollama's have their own file."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pydantic_ai.models
import pytest
from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelConnectionError,
    ModelHTTPError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingCalls, DeltaThinkingPart, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from orchestrator.adapters.models import as_chat_model
from orchestrator.adapters.models import pydantic_ai as adapter
from orchestrator.adapters.models.pydantic_ai import PydanticAIModel
from orchestrator.adapters.models.scripted import SCRIPTS, ScriptedModel
from orchestrator.app.library import execute_task_with_agent
from orchestrator.core.approval.approval import CallDecision
from orchestrator.core.errors import HitlInterventionRequired, InvalidRequest, ModelFailed
from orchestrator.core.policy import load_policy
from orchestrator.core.ports import ChatMessage, ChatModel, ModelReply
from orchestrator.core.reply.response import ToolRequest, read_reply
from orchestrator.core.task.facts import Usage
from orchestrator.tools.deps import CCAgentDeps
from tests import ROOT
from tests.harness.support import Listening, final

VIEW = [
    ChatMessage("system", "rules"),
    ChatMessage("user", "task"),
    ChatMessage("assistant", "reply 1"),
    ChatMessage("user", "TOOL_RESULT: x"),
]


@pytest.fixture(autouse=True)
def _nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this file may reach a provider."""
    monkeypatch.setattr(pydantic_ai.models, "ALLOW_MODEL_REQUESTS", False)


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
    with pytest.raises(ModelFailed, match="The script ends before its reply 2"):
        await ScriptedModel(["one"]).reply(after(1))


@pytest.mark.parametrize("part_chars", [None, 1, 5, 1000])
async def test_a_script_is_told_in_parts_that_add_up(part_chars: int | None) -> None:
    """Streamed and whole are the same reply, whatever the size of a part; nothing is told of an empty one."""
    model = ScriptedModel([ModelReply("twelve chars", done_reason="length"), ""], part_chars=part_chars)
    parts: list[str] = []
    assert await model.reply(after(0), on_text=parts.append) == await model.reply(after(0))
    assert "".join(parts) == "twelve chars"
    assert len(parts) == {None: 1, 1: 12, 5: 3, 1000: 1}[part_chars]
    assert await model.reply(after(1), on_text=parts.append) == ModelReply("")
    assert "".join(parts) == "twelve chars"


@pytest.mark.parametrize("name", sorted(SCRIPTS))
async def test_every_shipped_script_is_what_a_model_may_say(name: str) -> None:
    """Each reply of each script has a reading, and only the last one ends the task."""
    model = as_chat_model(f"scripted:{name}")
    replies = [read_reply((await model.reply(after(place))).text) for place in range(len(SCRIPTS[name]))]
    assert [reply.kind for reply in replies] == ["tool"] * (len(replies) - 1) + ["final"]
    assert all(reply.explanation for reply in replies)


async def test_the_question_ends_with_the_answer_of_its_user() -> None:
    """What the user answered stands in the final result, without the marks that fence data."""
    view = [*after(1), ChatMessage("user", "TOOL_RESULT: Wheat\nand melons\n[end of data k3]")]
    final = json.loads((await as_chat_model("scripted:question").reply(view)).text)
    assert final["details"] == {"answer": "Wheat\nand melons"}
    assert "Wheat" in final["message"]


async def test_the_tour_uses_most_of_the_tools() -> None:
    """One after the other, on one file that it made itself."""
    model = as_chat_model("scripted:tour")
    replies = [read_reply((await model.reply(after(place))).text) for place in range(len(SCRIPTS["tour"]) - 1)]
    assert [reply.calls[0].tool for reply in replies if isinstance(reply, ToolRequest)] == [
        "cc_mkdir",
        "cc_write",
        "cc_find",
        "cc_read",
        "cc_edit",
        "cc_move",
        "cc_run_program",
    ]


async def test_the_tour_leaves_the_file_that_it_speaks_of() -> None:
    """Played in stub mode with everything allowed, each of its steps finds what the one before it left."""
    deps = CCAgentDeps(mode="stub")
    allowing = load_policy('schema_version = 1\n[[rules]]\nid = "all"\neffect = "allow"\ntools = ["*"]\n')
    result = await execute_task_with_agent("show me", deps, model="scripted:tour", policy=allowing)
    assert result.success
    content = "local name = 'world'\nfor n = 1, 2 do\n  print(n .. ': hello ' .. name)\nend\n"
    assert deps.file_cache["tour/hello.lua"] == content
    assert "tour/draft.lua" not in deps.file_cache


async def test_the_question_is_asked_and_its_answer_reported() -> None:
    """Played in stub mode: it waits for its user, and ends with what the user said."""
    deps = CCAgentDeps(mode="stub")
    with pytest.raises(HitlInterventionRequired) as asked:
        await execute_task_with_agent("what grows?", deps, model="scripted:question")
    [question] = asked.value.function_calls
    answer = {question.call_id: CallDecision(call_id=question.call_id, action="respond", answer="Melons")}
    result = await execute_task_with_agent(asked.value.task, deps, model="scripted:question", decisions=answer)
    assert (result.success, result.message) == (True, "Your farm grows: Melons")


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
        UserError("misused"),
        FallbackExceptionGroup("all failed", [UnexpectedModelBehavior("nonsense")]),
        ConnectionRefusedError("refused"),
        TimeoutError("late"),
    ],
)
async def test_every_failure_of_a_model_is_one_error(error: Exception) -> None:
    """What goes wrong at the model is ModelFailed with the model's name and the reason, never another class."""
    with pytest.raises(ModelFailed, match="The model played could not be asked") as failed:
        await PydanticAIModel(function(error)).reply(VIEW)
    assert failed.value.__cause__ is error
    assert failed.value.message.endswith(".")
    assert failed.value.remedy


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "Look at the provider's API key."),
        (404, "Look at the model's name."),
        (429, "Wait, or look"),
        (500, "Look at"),
    ],
)
async def test_what_a_provider_answered_is_told_with_what_helps(status: int, remedy: str) -> None:
    """Status and reason in one line, cut to what can be read, and what to look at."""
    error = ModelHTTPError(status, "played", {"error": "no\nthing" + "x" * 900})
    with pytest.raises(ModelFailed) as failed:
        await PydanticAIModel(function(error)).reply(VIEW)
    assert failed.value.message.startswith(f"The model played could not be asked: its provider answered {status}: ")
    assert len(failed.value.message) < 450
    assert failed.value.remedy.startswith(remedy)
    assert (failed.value.lasting, failed.value.server) == (status in (401, 404), "")


@pytest.mark.parametrize(
    "error",
    [
        ModelHTTPError(503, "played", {"error": {"message": "overloaded"}}),
        ModelHTTPError(502, "played"),
        ConnectionResetError("reset"),
        ModelConnectionError("played", "Connection error."),
        ModelTimeoutError("played", "timed out", phase="connect"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_provider_that_is_away_is_waited_for(error: Exception) -> None:
    """It said nothing of the request, so a task waits for it; its words come without the braces around them."""
    with pytest.raises(ModelFailed) as failed:
        await PydanticAIModel(function(error)).reply(VIEW)
    assert (failed.value.lasting, failed.value.server) == (False, "the provider of played")
    assert "{" not in str(failed.value)


async def test_a_provider_that_is_only_slow_has_its_attempts() -> None:
    """A reply that did not come in time may be too long for it: asking for ever would not help."""
    with pytest.raises(ModelFailed) as failed:
        await PydanticAIModel(function(ModelTimeoutError("played", "timed out", phase="read"))).reply(VIEW)
    assert (failed.value.lasting, failed.value.server) == (False, "")


async def test_a_test_model_answers_too() -> None:
    """pydantic-ai's TestModel drives the port without a tool call, whole and streamed."""
    model, parts = PydanticAIModel(TestModel(custom_output_text="hello from the test")), list[str]()
    reply = await model.reply(VIEW)
    assert (reply.text, reply.done_reason) == ("hello from the test", "stop")
    assert await model.reply(VIEW, on_text=parts.append) == reply
    assert len(parts) > 1
    assert "".join(parts) == reply.text


async def test_the_bound_of_a_reply_is_sent_and_nothing_else() -> None:
    """`max_output_tokens` becomes the provider's max_tokens; without it no setting of ours is sent."""
    seen: list[Any] = []

    def play(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.model_settings)
        return ModelResponse(parts=[TextPart("ok")])

    model = PydanticAIModel(FunctionModel(play))
    await model.reply(VIEW, max_output_tokens=99)
    await model.reply(VIEW)
    assert seen == [{"max_tokens": 99}, None]


async def _streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaThinkingCalls]:
    yield {0: DeltaThinkingPart(content="hm")}
    for part in ('{"kind":', "", ' "final"}'):
        yield part


@pytest.mark.parametrize("wrapped", [False, True])
async def test_text_is_told_as_it_comes_and_thoughts_are_not(wrapped: bool) -> None:
    """The parts that a model streams add up to its reply, behind a wrapper too."""
    inner = FunctionModel(stream_function=_streamed)
    parts: list[str] = []
    reply = await PydanticAIModel(WrapperModel(inner) if wrapped else inner).reply(VIEW, on_text=parts.append)
    assert reply.text == "".join(parts) == '{"kind": "final"}'
    assert parts == ['{"kind":', ' "final"}']


@pytest.mark.parametrize(("text", "parts"), [("whole", ["whole"]), ("", [])])
@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_model_that_cannot_stream_says_all_at_once(text: str, parts: list[str], wrapped: bool) -> None:
    """One request, not a failed stream and then another."""
    seen: list[list[ModelMessage]] = []
    inner = function(ModelResponse(parts=[TextPart(text)]), seen)
    told: list[str] = []
    reply = await PydanticAIModel(WrapperModel(inner) if wrapped else inner).reply(VIEW, on_text=told.append)
    assert (reply.text, told, len(seen)) == (text, parts, 1)


async def test_a_stream_that_fails_is_a_failed_model() -> None:
    """An error in the middle of a stream is the same one error."""

    async def broken(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "{"
        raise ModelHTTPError(529, "played", "overloaded")

    with pytest.raises(ModelFailed, match="its provider answered 529: overloaded"):
        await PydanticAIModel(FunctionModel(stream_function=broken)).reply(VIEW, on_text=lambda _: None)


async def test_a_model_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for a whole reply has a bound."""
    monkeypatch.setattr(adapter, "WHOLE_S", 0.05)

    async def hangs(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ModelFailed, match=r"could not be asked: it had not finished after 0\.05 s\. "):
        await PydanticAIModel(FunctionModel(hangs)).reply(VIEW)


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
    with pytest.raises(
        InvalidRequest, match=r"script '\w*'\. There are scripted:hello, scripted:question, scripted:tour\."
    ):
        as_chat_model(name)


@pytest.mark.parametrize("name", ["gpt", "nonsense:model", ""])
def test_a_name_that_cannot_be_used_says_why(name: str) -> None:
    """An unknown model is refused in a sentence that names it."""
    with pytest.raises(InvalidRequest, match="cannot be used: ") as refused:
        as_chat_model(name)
    assert f"'{name}'" in refused.value.message
    assert "ollama:MODEL" in refused.value.remedy


def test_a_missing_package_comes_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra of the provider's package, ready to be copied."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    for loaded in [name for name in sys.modules if name.startswith("pydantic_ai.") and name.endswith(".anthropic")]:
        monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(InvalidRequest) as refused:
        as_chat_model("anthropic:claude-sonnet-4-5")
    assert str(refused.value) == (
        "The model 'anthropic:claude-sonnet-4-5' cannot be used: the package of its provider is not installed. "
        'Run `pip install "pydantic-ai-slim[anthropic]"` and start again.'
    )


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (
            UserError("Set the `SOME_API_KEY` environment variable or pass it via `Provider(api_key=...)`."),
            "The model 'some:model' cannot be used: Set the `SOME_API_KEY` environment variable or pass it via "
            "`Provider(api_key=...)`. Set SOME_API_KEY where the server is started.",
        ),
        (
            UserError("No such\nmodel"),
            "The model 'some:model' cannot be used: No such\\nmodel. Say ollama:MODEL for a model of",
        ),
        (
            ImportError("libfoo.so is missing"),
            "The model 'some:model' cannot be used: libfoo.so is missing. Install the package that it names ",
        ),
    ],
)
def test_what_a_provider_lacks_is_named(raised: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is named with the place to set it; whatever else it is, is told as it came."""

    def infer(name: str) -> Any:
        raise raised

    monkeypatch.setattr(adapter, "infer_model", infer)
    with pytest.raises(InvalidRequest) as refused:
        as_chat_model("some:model")
    assert str(refused.value).startswith(sentence)


def test_naming_a_model_imports_only_what_it_needs() -> None:
    """The CLI stays quick: the package brings neither pydantic-ai nor an HTTP library, and Ollama only the latter."""
    program = """
import sys
from orchestrator.adapters.models import as_chat_model
as_chat_model("scripted:hello")
assert not {"pydantic_ai", "ollama", "httpx", "httpx2"} & set(sys.modules), "for a script"
as_chat_model("ollama:tiny")
assert not {"pydantic_ai", "ollama", "httpx"} & set(sys.modules), "for Ollama"
"""
    root = ROOT
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", [None, 3, object(), ["scripted:hello"]])
def test_what_is_no_model_is_refused(value: Any) -> None:
    """A value that is no model is refused when it is given, not when it is first asked."""
    with pytest.raises(InvalidRequest, match="is not a model"):
        as_chat_model(value)
