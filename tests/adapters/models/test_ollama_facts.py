"""What an Ollama server tells of a model before it is asked, and a prompt that it has cut without a word."""

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.adapters.models import OllamaOptions
from orchestrator.adapters.models import ollama as adapter
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.adapters.models.ollama_server import context_of, counts_all, facts_of, loaded_context
from orchestrator.adapters.models.truncation import Counts, words
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ChatMessage, Window
from tests.harness.ollama_server import (
    FACTS,
    OllamaServer,
    Persona,
    Wire,
    breaks,
    falls_silent,
    garbles,
    ollama,
    refuses,
    says,
)
from tests.waiting import within

VIEW = [ChatMessage("system", "rules"), ChatMessage("user", "task")]


def model(server: OllamaServer, name: str = "tiny:1b", **options: Any) -> OllamaModel:
    """A model of a server."""
    return OllamaModel(name, OllamaOptions(url=server.url, **options))


def made_for(context: Any, *capabilities: str, **more: Any) -> dict[str, Any]:
    """The facts of a model with such a context."""
    info = {"general.architecture": "llama", "llama.context_length": context, "llama.block_count": 16}
    return {"model_info": info, "capabilities": list(capabilities or ("completion",)), **more}


# -- the window ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "asked", "window"),
    [
        (32768, {}, Window(8192, 2048)),
        (8192, {}, Window(8192, 2048)),
        (4096, {}, Window(4096, 1024)),
        (4096, {"num_predict": 100}, Window(4096, 100)),
        (2048, {"num_ctx": 2048, "num_predict": 2000}, Window(2048, 2000)),
        ("many", {}, Window(8192, 2048)),
        (None, {}, Window(8192, 2048)),
    ],
    ids=["longer", "as long", "shorter", "shorter, and room for a reply", "as asked", "nonsense", "not said"],
)
async def test_no_longer_window_is_asked_for_than_the_model_has(
    context: Any, asked: dict[str, Any], window: Window
) -> None:
    """What the port says is what is sent: num_ctx, or the model's own context; a reply keeps its room."""
    async with ollama(says("{}")) as server:
        server.facts = made_for(context)
        tiny = model(server, **asked)
        assert await tiny.window() == window
        await tiny.reply(VIEW)
    options = server.asked[0]["options"]
    assert (options["num_ctx"], options["num_predict"]) == (window.num_ctx, window.num_predict)


async def test_a_shorter_window_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """One clear sentence in the log, however often the model is asked and looked at again."""
    async with ollama(refuses(500, {"error": "odd"}), says("{}")) as server:
        server.facts = made_for(4096)
        tiny = model(server)
        with pytest.raises(ModelFailed):
            await tiny.reply(VIEW)
        for _ in range(2):
            await tiny.reply(VIEW)
            await tiny.window()
    (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert record.getMessage() == (
        f"The model ollama:tiny:1b at {server.url} has a context of 4096 tokens: "
        "num_ctx is 4096 instead of 8192, and num_predict 1024."
    )


async def test_of_two_servers_the_shorter_window_counts() -> None:
    """A view has to fit wherever its next request goes; each server is asked for what it has."""
    async with ollama(says("{}")) as one, ollama(says("{}")) as other:
        other.facts = made_for(4096)
        tiny = OllamaModel("tiny:1b", OllamaOptions(url=f"{one.url},{other.url}"))
        assert await tiny.window() == Window(4096, 1024)
        await tiny.reply(VIEW)
        await tiny.reply(VIEW)
    assert [server.asked[0]["options"]["num_ctx"] for server in (one, other)] == [8192, 4096]


async def test_the_window_of_a_model_that_is_not_there_is_a_sentence() -> None:
    """The same as its reply would be."""
    async with ollama(says("{}"), models=("tiny:3b", "mistral")) as server:
        with pytest.raises(ModelFailed) as failed:
            await model(server).window()
    assert str(failed.value) == (
        f"Ollama at {server.url} has no model 'tiny:1b'. "
        f"Run `cc-orchestrator models pull tiny:1b --ollama-url {server.url}`. Near that there: tiny:3b."
    )
    with pytest.raises(ModelFailed, match="Ollama is not running at "):
        await model(server).window()


# -- asking for facts ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 500])
async def test_facts_are_asked_for_once_and_again_after_an_error(status: int) -> None:
    """However many requests are under way; an error may mean that another model has the name now."""
    async with ollama(says("{}")) as server:
        tiny = model(server)
        await asyncio.gather(*(tiny.reply(VIEW) for _ in range(20)))
        assert server.paths.count("/api/show") == 1
        server.personas[0] = refuses(status, {"error": "odd"})
        with pytest.raises(ModelFailed):
            await tiny.reply(VIEW)
        server.personas[0] = says("{}")
        server.facts = made_for(1024)
        assert (await tiny.window()).num_ctx == 1024
        assert server.paths.count("/api/show") == 2


async def test_a_model_that_is_not_there_is_not_asked_and_may_come() -> None:
    """The request for a reply is never sent; once the model was pulled the next one is."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        tiny = model(server)
        for _ in range(2):
            with pytest.raises(ModelFailed, match="has no model 'tiny:1b'") as failed:
                await tiny.reply(VIEW)
            assert failed.value.lasting
        assert server.asked == []
        server.listed["models"].append({"name": "tiny:1b"})
        assert (await tiny.reply(VIEW)).text == "{}"


@pytest.mark.parametrize(
    "persona",
    [
        refuses(404, b"404 page not found", "text/plain"),
        refuses(500, {"error": "odd"}),
        refuses(200, b"<html>hello</html>", "text/html"),
        refuses(200, [1]),
        refuses(200, {"capabilities": 3, "model_info": [], "details": "x", "remote_host": 7}),
        refuses(200, b"[" * 100_000),
        refuses(301, b"", Location="/elsewhere"),
        garbles(),
        breaks(""),
    ],
    ids=["no such path", "error", "a page", "a list", "wrong types", "nested", "redirect", "nothing", "a reset"],
)
async def test_a_server_that_tells_nothing_of_its_models_is_asked_all_the_same(persona: Persona) -> None:
    """Facts help; who does not give them may still answer."""
    async with ollama(says("{}")) as server:
        server.hidden = dict.fromkeys(("/api/show", "/api/version", "/api/ps"), persona)
        tiny = model(server)
        assert await tiny.window() == Window(8192, 2048)
        assert (await tiny.reply(VIEW)).text == "{}"
    assert server.asked[0]["think"] is False


async def test_a_server_that_is_silent_about_its_models_is_asked_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be loading another model just now; the wait is bounded, not repeated, and it is asked again later."""
    async with ollama(says("{}")) as server:
        server.hidden = dict.fromkeys(("/api/show", "/api/ps"), falls_silent())
        monkeypatch.setattr(adapter, "_AGAIN_S", 60.0)
        tiny = model(server, fact_s=0.1)
        for _ in range(2):
            assert (await within(tiny.reply(VIEW))).text == "{}"
        assert server.paths.count("/api/show") == 1
        monkeypatch.setattr(adapter, "_AGAIN_S", 0.0)
        again = model(server, fact_s=0.1)
        for _ in range(2):
            await within(again.window())
        assert server.paths.count("/api/show") == 3


@pytest.mark.parametrize(
    ("info", "context"),
    [
        ({"general.architecture": "qwen2", "qwen2.context_length": 32768, "clip.context_length": 77}, 32768),
        ({"mllama.context_length": 131072, "clip.context_length": 77}, 77),
        ({"gemma3.context_length": 8192}, 8192),
        ({"general.architecture": "llama", "llama.context_length": True}, None),
        ({"general.architecture": "llama", "llama.context_length": 0}, None),
        ({"general.architecture": "llama", "llama.context_length": 2**40}, None),
        ({"general.architecture": ["llama"], "llama.context_length": 4096}, 4096),
        ({}, None),
    ],
)
def test_the_context_length_is_that_of_the_models_own_architecture(info: dict[str, Any], context: int | None) -> None:
    """Else of those that are said the smallest."""
    assert context_of(info) == context


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["models", "name", "model", "context_length", "model_info", "capabilities", "details", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_a_server_says_of_itself_there_are_facts(answer: Any) -> None:
    """No answer leads to an exception."""
    facts = facts_of("tiny:1b", answer)
    assert facts.context is None or facts.context > 0
    assert loaded_context("tiny:1b", answer) is None or answer["models"]
    assert counts_all(answer) in (None, True, False)


# -- thinking, cloud, what writes no text --------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "think", "sent"),
    [
        (["completion"], "auto", False),
        (["completion", "thinking"], "auto", None),
        (["completion", "thinking"], "off", False),
        ([], "auto", False),
    ],
)
async def test_who_can_think_is_not_told_to_stop_unless_it_is_wanted(
    capabilities: list[str], think: Any, sent: bool | None
) -> None:
    """`think` is false for all that cannot; left out for those that can, unless the setting says off."""
    async with ollama(says("{}")) as server:
        server.facts = {**FACTS, "capabilities": capabilities}
        await model(server, think=think).reply(VIEW)
    assert server.asked[0].get("think") is sent


async def test_a_model_that_writes_no_text_is_refused_before_it_is_asked() -> None:
    """An embedding model answers nothing; the sentence says what it is for."""
    async with ollama(says("{}")) as server:
        server.facts = {**FACTS, "capabilities": ["embedding"]}
        with pytest.raises(ModelFailed) as failed:
            await model(server).reply(VIEW)
    assert str(failed.value).startswith("The model 'tiny:1b' writes no text: Ollama says that it is for embedding.")
    assert server.asked == []


@pytest.mark.parametrize(
    ("name", "remote", "cloud"),
    [
        ("gpt-oss:120b-cloud", "", True),
        ("glm-5:cloud", "", True),
        ("mine", "https://ollama.com:443", True),
        ("cloudy:1b", "", False),
    ],
)
async def test_a_model_of_the_cloud_is_known_and_said_once(
    name: str, remote: str, cloud: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """By its name or its host: what it is sent leaves the network, and its replies have no form to keep."""
    async with ollama(says("{}")) as server:
        server.facts = {**FACTS, "remote_host": remote}
        for _ in range(2):
            await model(server, name).reply(VIEW)
        tiny = model(server, name)
        for _ in range(2):
            await tiny.reply(VIEW)
    said = [one.getMessage() for one in caplog.records if "Ollama's cloud" in one.getMessage()]
    assert len(said) == (3 if cloud else 0)
    assert facts_of(name, {"remote_host": remote}).cloud is cloud


def test_what_ollama_com_has_is_in_the_cloud() -> None:
    """Asked there directly, every model is."""
    assert facts_of("gpt-oss:120b", {}, "https://ollama.com:443").cloud
    assert not facts_of("gpt-oss:120b", {}, "https://ollama.company.example:443").cloud


# -- a window smaller than asked -----------------------------------------------------------


def loaded(name: str, context: Any) -> dict[str, Any]:
    """What `/api/ps` says."""
    return {"models": [{"name": name, "model": name, "context_length": context}]}


async def test_a_window_that_was_loaded_smaller_is_an_alarm() -> None:
    """The reply is not used, and the sentence says what is and what to set."""
    told: list[str] = []
    async with ollama(says("{}")) as server:
        server.running = loaded("tiny:1b", 4096)
        with pytest.raises(ModelFailed) as failed:
            await model(server).reply(VIEW, on_text=told.append)
    assert str(failed.value) == (
        f"Ollama at {server.url} has loaded ollama:tiny:1b with a window of 4096 tokens, not the 8192 that were asked "
        "for; the beginning of a conversation would be lost there, so the reply is not used. "
        "Set num_ctx to 4096 (--num-ctx 4096), or let Ollama load more."
    )
    assert failed.value.lasting
    assert told == []


@pytest.mark.parametrize(
    "running",
    [
        loaded("tiny:1b", 8192),
        loaded("tiny:1b", 16384),
        loaded("other:1b", 4096),
        loaded("tiny:1b", None),
        loaded("tiny:1b", "4096"),
        {"models": []},
        {"models": None},
        None,
    ],
    ids=["as asked", "larger", "another model", "not said", "nonsense", "nothing loaded", "nothing", "no answer"],
)
async def test_a_window_that_is_not_known_to_be_smaller_is_none(running: Any) -> None:
    """No alarm; and it is looked at once, not with every reply."""
    async with ollama(says("{}")) as server:
        server.running = running
        tiny = model(server)
        for _ in range(3):
            assert (await tiny.reply(VIEW)).text == "{}"
    assert server.paths.count("/api/ps") == 1


async def test_a_window_is_looked_at_again_when_the_model_was_loaded_again() -> None:
    """Its next request says so, since loading takes long."""
    async with ollama(says("{}", load_duration=3_000_000_000), says("{}", load_duration=9_000_000)) as server:
        tiny = model(server)
        for _ in range(4):
            await tiny.reply(VIEW)
    assert server.paths.count("/api/ps") == 2


@pytest.mark.parametrize(("name", "alarm"), [("tiny:1b", True), ("tiny:1b-cloud", False)])
async def test_a_reply_that_went_past_the_window_is_not_used(name: str, alarm: bool) -> None:
    """Read and written do not fit into what is loaded: the middle was dropped. In the cloud the window is another."""
    async with ollama(says("{}", prompt_eval_count=8000, eval_count=400)) as server:
        server.running = loaded(name, 8192)
        if not alarm:
            assert (await model(server, name).reply(VIEW)).text == "{}"
            return
        with pytest.raises(ModelFailed, match="went on past its window: 8000 tokens read and 400 written do not fit"):
            await model(server, name).reply(VIEW)


# -- a conversation that was cut -----------------------------------------------------------

SAID = " ".join(["The chest on the left holds wheat, the one on the right holds melons."] * 20)


def growing(turns: int) -> list[list[ChatMessage]]:
    """The views of a conversation that grows, each the beginning of the next."""
    view = [ChatMessage("system", SAID), ChatMessage("user", "look")]
    views = []
    for turn in range(turns):
        views.append(list(view))
        view += [ChatMessage("assistant", json.dumps({"n": turn})), ChatMessage("user", f"TOOL_RESULT: {turn} {SAID}")]
    return views


def counting(count: Any) -> Persona:
    """A model that counts what it is sent so."""

    async def persona(wire: Wire) -> None:
        view = [ChatMessage(one["role"], one["content"]) for one in wire.asked["messages"]]
        await says("{}", prompt_eval_count=count(view))(wire)

    return persona


def tokens(view: list[ChatMessage]) -> int:
    """As a tokenizer counts: a token for four characters, and what the template adds."""
    return sum(len(one.content) // 4 + 5 for one in view)


async def turns_until_alarm(count: Any, version: str | None, turns: int = 12) -> tuple[int | None, str]:
    """The turn whose reply was not used, and why; None: all were."""
    async with ollama(counting(count)) as server:
        server.version = version
        tiny = model(server)
        for turn, view in enumerate(growing(turns)):
            try:
                await tiny.reply(view, affinity="task")
            except ModelFailed as failed:
                return turn, f"{failed} lasting: {failed.lasting}"
    return None, ""


@pytest.mark.thinned(2)
@pytest.mark.parametrize("version", ["0.30.0", "0.33.1-rc2", "v1.2", None, "0.0.0"])
async def test_a_count_that_stops_growing_is_an_alarm(version: str | None) -> None:
    """The server keeps what fits 2048 tokens and says nothing: within two turns after that its replies are not used."""
    turn, said = await turns_until_alarm(lambda view: min(tokens(view), 2048), version)
    full = next(turn for turn, view in enumerate(growing(12)) if tokens(view) > 2048)
    assert turn is not None
    assert full <= turn <= full + 2
    assert " read 2048 tokens of the at least " in said
    assert "it cut the conversation without a word, so the reply is not used. Set num_ctx to what `ollama ps`" in said
    assert said.endswith("lasting: True")


@pytest.mark.parametrize(
    ("text", "fewest"),
    [
        ("dig the wheat", 3),
        (" dig\tthe\n\nwheat\n", 3),
        ("don't dig <|im_start|> a0a", 4),
        ("turtle.forward() -- 3 x 4", 2),
        ("7 + 8 = 15", 0),
        ("gr\xfcn \u5b57 \u5b57a", 2),
        ("", 0),
    ],
)
def test_the_fewest_tokens_are_the_words_between_blanks(text: str, fewest: int) -> None:
    """Some tokenizers make one token of a contraction, of a template's own sign, of letters and what stands beside."""
    assert words([ChatMessage("user", text), ChatMessage("user", text)]) == 2 * fewest


async def test_the_first_request_may_be_cut_already() -> None:
    """Fewer tokens than words were read: that needs no request before it."""
    long = [ChatMessage("system", "rules"), ChatMessage("user", SAID * 12)]
    async with ollama(says("{}", prompt_eval_count=2048)) as server:
        with pytest.raises(ModelFailed, match=f"read 2048 tokens of the at least {words(long)} that it was sent"):
            await model(server).reply(long)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("count", "version"),
    [
        (tokens, "0.30.0"),
        (tokens, "0.12.6"),
        (tokens, None),
        (lambda view: tokens(view[-2:]), "0.12.6"),
        (lambda view: tokens(view[-2:]), None),
        (lambda view: tokens(view[-2:]), "0.0.0"),
        (lambda view: 1 if len(view) > 2 else tokens(view), None),
        (lambda view: None, "0.30.0"),
        (lambda view: 11, "0.30.0"),
        (lambda view: -3, "0.30.0"),
        (lambda view: int(tokens(view) * (0.95 if len(view) % 4 else 1)), "0.30.0"),
        (lambda view: int(tokens(view) * (0.6 if len(view) > 2 else 1)), None),
        (lambda view: int(tokens(view) * (0.6 if len(view) > 8 else 1)), "0.12.6"),
    ],
    ids=[
        "honest", "honest and old", "honest, who knows how old", "only what is new, old", "only what is new, unknown",
        "only what is new, a build of its own", "nothing but one", "no count", "a number out of the air", "negative",
        "a template that varies", "partly what is new, unknown", "partly what is new, old",
    ],
)  # fmt: skip
async def test_no_alarm_without_certainty(count: Any, version: str | None) -> None:
    """An honest count, one that leaves out the cache, or none at all: never an alarm."""
    assert await turns_until_alarm(count, version) == (None, "")


async def test_conversations_are_counted_apart_and_a_masked_one_anew() -> None:
    """Another task's count says nothing of this one; a view that lost its middle may be shorter than before."""
    views = growing(8)
    masked = [*views[7][:2], ChatMessage("user", "(12 results left out)"), *views[7][-2:]]
    async with ollama(counting(tokens)) as server:
        tiny = model(server)
        await tiny.reply(views[7], affinity="one")
        await tiny.reply(views[0], affinity="two")
        await tiny.reply(masked, affinity="one")
        assert (await tiny.reply([*masked, ChatMessage("assistant", "{}")], affinity="one")).text == "{}"


def test_what_must_have_been_read_is_carried_on() -> None:
    """A count that stands still is found out by what has come since it was right, not since the last request."""
    counts, view, alarms = Counts(), [ChatMessage("user", "0123456789 " * 900)], []
    for _ in range(5):
        alarms.append(counts.cut(view, 2000, counts_all=True, affinity="task"))
        view = [*view, ChatMessage("user", "word " * 100)]
    assert alarms == [None, None, None, 2300, None]


def test_a_count_that_its_tail_explains_proves_nothing() -> None:
    """A server that says no version and counts what is new: as large as all before, as long as the new is longest."""
    counts, view = Counts(), list[ChatMessage]()
    for new in (100, 500, 800, 1000, 600):
        view = [*view, ChatMessage("user", "7 " * new)]
        assert counts.cut(view, new, counts_all=None, affinity="task") is None


TEXTS = st.text("ab cd,.\n\t{}\"'0é字🐢_", max_size=60)
MESSAGES = st.lists(st.builds(ChatMessage, st.sampled_from(["system", "user", "assistant"]), TEXTS), max_size=6)


def joined(text: str) -> list[list[ChatMessage]]:
    """A view of which all but the last message stands between no blanks."""
    return [[ChatMessage("system", text), ChatMessage("user", "a"), ChatMessage("system", "")]]


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.integers(0, 9), st.sampled_from([True, None]))
@example(joined("a0a"), 0, True)
@example(joined("a'a,a"), 0, True)
@example(joined("<|a_a|>"), 0, True)
def test_an_honest_tokenizer_never_alarms(tails: list[list[ChatMessage]], template: int, believed: bool | None) -> None:
    """Whatever grows, is cut back by us or is asked again: who reads all of it, however few tokens that makes, is fine.

    The tokenizer joins as much as any does: a token for each run between blanks.
    """
    counts, view = Counts(), list[ChatMessage]()
    for tail in tails:
        view = [*view, *tail] if len(tail) % 3 else list(tail)
        count = sum(len(one.content.split()) + template for one in view)
        assert counts.cut(view, count, counts_all=believed, affinity="task") is None


@given(MESSAGES)
def test_only_so_many_conversations_are_counted(messages: list[ChatMessage]) -> None:
    """The one that was heard of longest ago is forgotten."""
    counts = Counts()
    for number in range(300):
        counts.cut(messages, 10_000, counts_all=True, affinity=str(number))
    assert len(counts._counted) == 256
