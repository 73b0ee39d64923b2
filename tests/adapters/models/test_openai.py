"""Models of servers that speak OpenAI's API: what they are sent, what they refuse, and what they say instead."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.models import ServerOptions, as_chat_model
from orchestrator.adapters.models.openai import ServedModel
from orchestrator.adapters.models.options import endpoints_of, ollama_url, server_url
from orchestrator.app.first_start import server_options
from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.model_view.prompt import Window
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.reply.schema import built_in_schema
from orchestrator.core.task.states import Phase
from orchestrator.runtime.settings import Settings, load_settings
from orchestrator.terminal.doctor import examine
from tests.engine.test_actor import CANNOT, Bench, rules
from tests.harness.commands import cli
from tests.harness.model_server import (
    LLAMA,
    LLAMA_LIST,
    MODEL,
    OLLAMA,
    PLAIN,
    STUDIO,
    VLLM,
    ModelServer,
    at_once,
    breaks_off,
    gives_up,
    model_server,
    plays,
    streams,
    takes,
)
from tests.harness.ollama_server import Persona, breaks, falls_silent, garbles, refuses
from tests.harness.support import WRITE, says

VIEW = [ChatMessage(role="system", content="Do as you are told."), ChatMessage(role="user", content="Say hello.")]
NOBODY = "http://127.0.0.1:9"


def model_of(server: ModelServer, **options: Any) -> ServedModel:
    model = as_chat_model(f"openai-chat:{MODEL}", served=ServerOptions(url=server.url, **options))
    assert isinstance(model, ServedModel)
    return model


async def asked(server: ModelServer, **options: Any) -> ModelReply:
    """One reply to a short view."""
    return await model_of(server, **options).reply(VIEW)


# -- what is sent ----------------------------------------------------------------------------


async def test_the_schema_and_the_limits_are_sent() -> None:
    """Everything that matters stands in the one request; the text comes in parts, without what was thought."""
    told: list[str] = []
    async with model_server(streams('{"kind": "final"}', read=20), told=LLAMA) as server:
        model = model_of(server, think="off")
        reply = await model.reply(VIEW, on_text=told.append, max_output_tokens=500, one_computer=True)
        (request,) = server.asked
    assert reply.text == "".join(told) == '{"kind": "final"}'
    assert (reply.done_reason, reply.usage.input_tokens, reply.usage.output_tokens) == ("stop", 20, 7)
    form = request.pop("response_format")
    assert form["json_schema"] == {"name": "reply", "strict": True, "schema": built_in_schema(one_computer=True)}
    assert request == {
        "model": MODEL,
        "messages": [{"role": one.role, "content": one.content} for one in VIEW],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 500,
        "temperature": 0.2,
        "seed": 0,
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize(
    ("told", "num_ctx", "window"),
    [
        (LLAMA, None, Window(4096, 1024)),
        (LLAMA, 3072, Window(3072, 768)),
        (STUDIO, None, Window(6144, 1536)),
        (VLLM, None, Window(16384, 2048)),
        (VLLM, 32768, Window(16384, 2048)),
        (LLAMA_LIST, None, Window(2048, 512)),
        ({"/v1/models": {"data": [{"id": MODEL, "context_length": 10000}]}}, None, Window(10000, 2048)),
        (PLAIN, 12288, Window(12288, 2048)),
        (PLAIN, None, Window(8192, 2048)),
        ({"/v1/models": "odd", "/props": [], "/api/v0/models": {"data": "odd"}}, None, Window(8192, 2048)),
        ({}, None, Window(8192, 2048)),
    ],
)
async def test_the_window_is_the_server_s_or_what_is_set(
    told: Mapping[str, Any], num_ctx: int | None, window: Window
) -> None:
    """Of both the smaller; without either 8192, which is said; it is asked for once, not for each reply."""
    async with model_server(streams("{}"), told=told) as server:
        model = model_of(server, num_ctx=num_ctx, num_predict=2048)
        assert await model.window() == window
        await model.reply(VIEW)
        await model.reply(VIEW)
        assert [one["max_tokens"] for one in server.asked] == [window.num_predict] * 2
        assert server.paths.count("/v1/models") == 1


@pytest.mark.parametrize(
    ("taken", "forms"),
    [
        (("json_schema",), ["json_schema"]),
        (("json_object",), ["json_schema", "json_object"]),
        (("",), ["json_schema", "json_object", ""]),
    ],
)
async def test_a_form_that_is_refused_is_replaced_and_that_is_remembered(
    taken: tuple[str, ...], forms: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The first reply costs the tries, the second none."""
    async with model_server(takes(*taken, then=streams("{}"))) as server:
        model = model_of(server)
        for _ in range(2):
            assert (await model.reply(VIEW)).text == "{}"
        assert server.forms == [*forms, forms[-1]]
    assert caplog.text.count("holds replies to no schema") == (len(forms) > 1)


async def test_a_setting_that_is_refused_by_its_name_is_left_out() -> None:
    """The form of a reply stays the strictest, and what was learned is remembered."""
    field = {"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
    strict = refuses(422, {"detail": [field]})
    plain = refuses(400, {"error": {"message": "Unrecognized request argument supplied: stream_options"}})
    async with model_server(strict, plain, streams("{}", read=None)) as server:
        model = model_of(server)
        for _ in range(2):
            assert (await model.reply(VIEW)).text == "{}"
        assert server.forms == ["json_schema"] * 4
        assert [sorted({"seed", "stream_options"} & set(one)) for one in server.asked] == [
            ["seed", "stream_options"], ["stream_options"], [], []
        ]  # fmt: skip


async def test_an_engine_that_fails_at_the_schema_is_asked_without_it() -> None:
    """It says so under a status that is no refusal."""
    persona = takes("json_object", then=streams("{}"), status=500, said="failed to parse grammar")
    async with model_server(persona) as server:
        assert (await asked(server)).text == "{}"


async def test_a_request_that_no_form_mends_is_refused_with_the_first_reason() -> None:
    """And what is remembered is not worse for it."""
    reasons = [refuses(400, {"error": {"message": f"reason {number}"}}) for number in (1, 2, 3)]
    async with model_server(*reasons, streams("{}")) as server:
        model = model_of(server)
        with pytest.raises(ModelFailed, match=r"does not take the request \(400\): reason 1\.") as raised:
            await model.reply(VIEW)
        assert raised.value.lasting
        await model.reply(VIEW)
        assert server.forms == ["json_schema", "json_object", "", "json_schema"]


@pytest.mark.parametrize(
    ("url", "sent"),
    [("http://127.0.0.1:9/v1", True), ("https://farm.example/v1", True), ("http://farm.example/v1", False)],
)
def test_a_key_goes_over_https_and_to_this_host_only(url: str, sent: bool) -> None:
    """It is a secret, and shown nowhere."""
    options = ServerOptions(url=url, api_key="a-key")
    headers = ServedModel("m", options)._server.client().headers
    assert headers.get("authorization") == ("Bearer a-key" if sent else None)
    assert "a-key" not in repr(options)


# -- what comes back -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("persona", "reply"),
    [
        (streams("{}", "length"), ("{}", "length")),
        (streams("{}", None), ("{}", "stop")),
        (streams("{}", "content_filter"), ("{}", "aborted")),
        (streams("{}", read=None), ("{}", "stop")),
        (at_once('{"a": 1}'), ('{"a": 1}', "stop")),
        (breaks_off("{"), ("{", "aborted")),
    ],
    ids=["cut", "no reason", "filtered", "no counts", "at once", "broken off"],
)
async def test_how_a_reply_ended_is_kept(persona: Persona, reply: tuple[str, str]) -> None:
    """What was cut at the limit is told from what is whole, and from what broke off."""
    async with model_server(persona) as server:
        got = await asked(server)
    assert (got.text, got.done_reason) == reply


LONG = "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it"
PAGE = b"<html><style>a {}</style><h1>Bad Gateway</h1>\n<hr>nginx</html>"
FIELD = {"loc": ["body", "model"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}
TOO_LONG = refuses(400, {"error": {"message": LONG, "type": "exceed_context_size_error"}})


@pytest.mark.parametrize(
    ("persona", "sentence", "lasting", "away"),
    [
        (refuses(401, {"error": {"message": "Invalid API Key"}}), "wants a key that it knows. Set ", True, False),
        (refuses(404, {"error": {"message": "The model `x` does not exist."}}), f"Models there: {MODEL}.", True, False),
        (refuses(400, {"error": "model 'x' not found"}), "has no model 'tiny-1b'.", True, False),
        (TOO_LONG, "does not fit the window", True, False),
        (refuses(503, {"error": {"message": "Loading model"}}), "cannot answer now (503): Loading model.", False, True),
        (refuses(502, PAGE, "text/html"), "cannot answer now (502): Bad Gateway nginx. ", False, True),
        (refuses(408, b""), "cannot answer now (408): no reason given.", False, True),
        (refuses(422, {"detail": [FIELD]}), "(422): body.model Extra inputs are not permitted. ", True, False),
        (refuses(500, {"detail": "no slot"}), "gave up with the status 500: no slot. ", False, False),
        (refuses(500, {"errors": ["no slot", "no"]}), "gave up with the status 500: no slot. ", False, False),
        (refuses(404, b"Not Found"), "does not speak OpenAI's API: Not Found. ", True, False),
        (refuses(200, {"error": "Unexpected endpoint or method."}), "does not speak OpenAI's API: Un", True, False),
        (refuses(429, {"error": "slow down"}), "cannot answer now (429): slow down.", False, True),
        (refuses(500, {"error": {"message": "CUDA error"}}), "gave up with the status 500: CUDA error.", False, False),
        (gives_up("", {"message": LONG, "code": 400}), "does not fit the window", True, False),
        (gives_up("{", {"message": "out of memory"}), "in the middle of a reply: out of memory.", False, False),
        (refuses(302, b"", location="http://elsewhere"), "redirects to http://elsewhere", False, False),
        (garbles(b"data: <html>\n"), "answered with something that the model server does not say", False, False),
        (refuses(200, b"<html>Log in</html>", "text/html"), "does not say: <html>Log in</html> ", False, False),
        (refuses(200, b"event: x\n[]\n"), "does not say: [] ", False, False),
        (refuses(200, b": ok\n\n"), "broke: it ended before a reply began. ", False, True),
        (breaks("{"), "The connection to the model server at", False, True),
    ],
    ids=["401", "404", "no model", "long", "loading", "502", "408", "422", "detail", "list", "404 of a path",
         "200 of a path", "429", "500", "long in a stream", "in a stream",
         "redirect", "no JSON", "page", "no events", "nothing", "reset"],
)  # fmt: skip
async def test_every_failure_is_a_sentence_that_says_what_to_do(
    persona: Persona, sentence: str, lasting: bool, away: bool
) -> None:
    """In one sentence and one remedy, without names of classes; what lasts was asked once."""
    async with model_server(persona) as server:
        with pytest.raises(ModelFailed) as raised:
            await asked(server)
        assert len(server.forms) == (3 if "(422)" in sentence else 1)
    error = raised.value
    assert sentence in str(error)
    assert error.remedy
    assert (error.lasting, error.server) == (lasting, server.url + "/v1" if away else "")
    assert "Error" not in str(error).replace("CUDA error", "")


async def test_a_server_that_is_not_there() -> None:
    """It is named, and how its address is set."""
    model = ServedModel("m", ServerOptions(url=NOBODY))
    with pytest.raises(ModelFailed) as raised:
        await model.reply(VIEW)
    assert str(raised.value) == (
        "The model server is not running at http://127.0.0.1:9/v1. "
        "Start it there, or say where it listens: --model-url or OPENAI_BASE_URL."
    )
    assert raised.value.server == f"{NOBODY}/v1"
    assert not await model.answers()


async def test_another_program_at_the_address_is_named_as_such() -> None:
    """A wrong path, mostly: the remedy says how an address looks."""
    async with model_server(refuses(404, b"<h1>Not Found</h1>", "text/html"), told={}) as server:
        with pytest.raises(ModelFailed, match=r"does not speak OpenAI's API: .* mostly with /v1 at its end"):
            await asked(server)


async def test_facts_that_want_a_key_are_asked_once() -> None:
    """The server is not asked for a reply then."""
    async with model_server(streams("{}")) as server:
        server.hidden = {"/v1/models": refuses(401, {"error": "no key"})}
        with pytest.raises(ModelFailed, match="wants a key that it knows"):
            await asked(server)
        assert server.paths == ["/v1/models"]


async def test_a_server_that_loads_tells_its_window_later() -> None:
    """It answers 503 at every path meanwhile: nothing is assumed of its window, and it is waited for."""
    async with model_server(streams("{}"), told=VLLM) as server:
        server.hidden = {"/v1/models": refuses(503, {"error": {"message": "Loading model"}})}
        model = model_of(server)
        with pytest.raises(ModelFailed, match=r"cannot answer now \(503\): Loading model") as raised:
            await model.reply(VIEW)
        assert raised.value.server == f"{server.url}/v1"
        assert not server.asked
        server.hidden = {}
        assert (await model.window()).num_ctx == 16384


async def test_a_model_that_is_loaded_anew_has_another_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next task has it, without a new start; a server that is busy just then is taken for what it was."""
    monkeypatch.setattr("orchestrator.adapters.models.openai._FRESH_S", 0.0)
    async with model_server(takes("json_object", then=streams("{}")), told=LLAMA) as server:
        model = model_of(server, fact_s=0.5)
        assert (await model.window()).num_ctx == 4096
        await model.reply(VIEW)
        server.hidden = {"/v1/models": falls_silent()}
        assert (await model.window()).num_ctx == 4096
        server.hidden = {}
        server.told["/props"] = {"default_generation_settings": {"n_ctx": 16384}}
        for _ in range(2):
            assert (await model.window()).num_ctx == 16384
            await model.reply(VIEW)
        assert server.forms == ["json_schema", "json_object", "json_schema", "json_object", "json_object"]


async def test_a_busy_server_tells_its_window_later() -> None:
    """A list that does not come in time keeps no reply away, and is asked for again."""
    async with model_server(streams("{}"), told=VLLM) as server:
        server.hidden = {"/v1/models": falls_silent()}
        model = model_of(server, fact_s=0.1)
        assert (await model.reply(VIEW)).text == "{}"
        server.hidden = {}
        assert (await model.window()).num_ctx == 16384


async def test_silence_is_about_the_request_or_about_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs with all it has is away; one that is slow with this request is not."""
    monkeypatch.setattr("orchestrator.adapters.models.ollama_server._ALIVE_S", 0.05)
    for hidden, away in (({}, False), ({"/health": falls_silent()}, True)):
        async with model_server(falls_silent()) as server:
            server.hidden.update(hidden)
            with pytest.raises(ModelFailed, match=r"said nothing for 0\.1 s\.") as raised:
                await asked(server, first_token_s=0.1)
            assert bool(raised.value.server) is away


async def test_a_reply_that_takes_for_ever_is_given_up() -> None:
    """The whole of it has a time, too."""
    async with model_server(falls_silent("")) as server:
        with pytest.raises(ModelFailed, match=r"had not finished after 0\.1 s"):
            await asked(server, whole_s=0.1)


# -- what was cut without a word -------------------------------------------------------------


def talk(turns: int) -> list[ChatMessage]:
    """A conversation in which each message has a hundred words."""
    text = " ".join(["word"] * 100)
    more = [ChatMessage(role="assistant" if turn % 2 == 0 else "user", content=text) for turn in range(turns)]
    return [ChatMessage(role="system", content=text), ChatMessage(role="user", content=text), *more]


async def test_a_prompt_that_was_cut_without_a_word_is_noticed() -> None:
    """Its count does not grow with the conversation: the reply is not used, and what to set is said."""
    async with model_server(streams("{}", read=420), streams("{}", read=430), told=STUDIO) as server:
        model = model_of(server)
        await model.reply(talk(2), affinity="t")
        with pytest.raises(ModelFailed, match="cut the conversation without a word") as raised:
            await model.reply(talk(6), affinity="t")
    assert raised.value.lasting
    assert "Set --num-ctx to the window" in raised.value.remedy


async def test_a_server_that_does_not_count_its_cache_raises_no_alarm() -> None:
    """Nobody knows how it counts: small counts from the first request on mean nothing."""
    async with model_server(*(streams("{}", read=30) for _ in range(3)), told=PLAIN) as server:
        model = model_of(server)
        for turns in (2, 4, 6):
            assert (await model.reply(talk(turns), affinity="t")).text == "{}"


async def test_a_reply_that_went_on_past_the_window_is_not_used() -> None:
    """With its window shifted, the server has dropped the middle of what it knew."""
    async with model_server(streams("{}", read=4000, wrote=500), told=LLAMA) as server:
        with pytest.raises(ModelFailed, match="went on past its window: 4000 tokens read and 500 written"):
            await asked(server)


# -- whole tasks -----------------------------------------------------------------------------


async def test_a_task_is_played_to_its_end() -> None:
    """Several steps over real HTTP, by a server that takes no schema: one try more in all."""
    script = plays(says(WRITE), CANNOT)
    async with model_server(takes("json_object", then=script), told=LLAMA) as server:
        bench = Bench(model_of(server), policy=rules())
        task_id = await bench.submit()
        task = await bench.act()
        assert (task.status_reason, len(server.asked)) == ("final", 3)
        assert {one.num_ctx for one in await bench.happened(task_id, "model_asked")} == {4096}


async def test_a_server_that_loads_its_model_is_waited_for() -> None:
    """503 to the request and to the sign of life; the task goes on once both are over."""
    async with model_server(refuses(503, {"error": {"message": "Loading model"}}), plays(CANNOT)) as server:
        server.hidden = {"/health": refuses(503, {"error": {"message": "Loading model"}})}
        bench = Bench(model_of(server))
        await bench.submit()
        assert (await bench.act()).phase is Phase.WAITING
        bench.clock.advance(5)
        assert (await bench.act()).phase is Phase.WAITING
        server.hidden = {}
        bench.clock.advance(5)
        assert (await bench.act()).status_reason == "final"
        assert len(server.asked) == 2


@pytest.mark.parametrize("everywhere", [False, True])
async def test_a_wrong_key_ends_a_task_at_once(everywhere: bool) -> None:
    """It is never sent a second time, whether the list of models wants it or only a reply; the next task asks anew."""
    unauthorized = refuses(401, {"error": {"message": "Unauthorized"}})
    async with model_server(unauthorized, streams(json.dumps(CANNOT))) as server:
        server.hidden = {"/v1/models": unauthorized} if everywhere else {}
        bench = Bench(model_of(server))
        await bench.submit()
        task = await bench.act()
        assert task.status_reason == "model_failed"
        refused = [path for path in server.paths if path.endswith("models" if everywhere else "completions")]
        assert (len(refused), len(server.asked)) == (1, 0 if everywhere else 1)
        assert task.ended is not None
        assert task.ended.message.startswith(f"The model server at {server.url}/v1 wants a key that it knows.")
        if not everywhere:
            await bench.submit()
            assert (await bench.act()).status_reason == "final"


# -- names, addresses, settings --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", ""),
        ("127.0.0.1:1234", "http://127.0.0.1:1234/v1"),
        (" 'http://127.0.0.1:1234/' ", "http://127.0.0.1:1234/v1"),
        ("HTTPS://farm.example/api/v1/", "https://farm.example/api/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
        ("http://[::]:8080/v1", "http://[::1]:8080/v1"),
        ("http://farm/v1/chat/completions/", "http://farm/v1"),
        ("farm/chat/completions", "http://farm/v1"),
    ],
)
def test_an_address_gets_the_path_of_the_api(text: str, url: str) -> None:
    """Where it has no path; one to listen on, or of a request, is understood; filling in twice changes nothing."""
    assert server_url(text) == url == server_url(url)


@pytest.mark.parametrize("text", ["ftp://farm", "http://", "a b", "http://farm?x=1", "http://farm:x", "[::1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    """When it is given, with an example."""
    with pytest.raises(InvalidRequest, match=r"is not an address of a model server"):
        ServerOptions(url=text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:s3cret@farm/v1", "'http://…'"),
        ("me:s3\ncret@farm", "'…'"),
        ("http://me:s3#cret@farm#2", "'http://…'"),
        ("http://farm/v1?key=s3cret", "'http://farm/v1?…'"),
    ],
)
@pytest.mark.parametrize("read", [server_url, ollama_url, endpoints_of])
def test_a_key_in_an_address_is_shown_in_no_error(read: Callable[[str], object], text: str, shown: str) -> None:
    """It is refused, since it would be kept and shown with the address."""
    with pytest.raises(InvalidRequest) as raised:
        read(text)
    assert str(raised.value).startswith(f"{shown} ")
    assert "cret" not in str(raised.value)


def test_a_name_without_a_model_is_refused() -> None:
    """The remedy lists those that are there."""
    with pytest.raises(InvalidRequest, match=r"The name after openai-chat: is missing\."):
        as_chat_model("openai-chat: ", served=ServerOptions(url=NOBODY))


@pytest.mark.parametrize(("url", "own"), [("http://127.0.0.1:1234/v1", True), ("https://api.openai.com/v1", False)])
def test_openai_itself_is_asked_through_pydantic_ai(url: str, own: bool) -> None:
    """An address in OPENAI_BASE_URL that is somebody else's is asked here."""
    assert ServerOptions(url=url).is_own is own


def test_the_settings_name_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window of Ollama's default is not meant for it; what was said is; OPENAI_BASE_URL stands in."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://10.0.0.7:8000/v1")
    assert server_options(Settings(data_dir=tmp_path)).url == "http://10.0.0.7:8000/v1"
    chosen = load_settings({"data_dir": tmp_path, "model_url": "127.0.0.1:1234", "num_predict": 512}, {})
    options = server_options(chosen)
    assert (options.url, options.num_ctx, options.num_predict) == ("http://127.0.0.1:1234/v1", None, 512)
    said = load_settings({"data_dir": tmp_path, "num_ctx": 8192}, {})
    assert server_options(said).num_ctx == 8192
    with pytest.raises(InvalidRequest, match="The setting model_url does not fit"):
        load_settings({"data_dir": tmp_path, "model_url": "a b"}, {})
    with pytest.raises(InvalidRequest, match="a reply has to fit the window"):
        ServerOptions(url=NOBODY, num_predict=9000)


# -- for people ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "state", "sentence"),
    [
        (LLAMA, "ok", "llama-server at {url} has tiny-1b; the window is 4096 tokens."),
        (PLAIN, "warn", "The model server at {url} has tiny-1b, and does not say how long its window is."),
        ({"/v1/models": {"data": [{"id": "big"}]}}, "warn", "The model server at {url} names no model tiny-1b."),
        ({"/v1/models": "<html>"}, "warn", "The model server at {url} names no models."),
        (OLLAMA, "warn", "What answers at {url} is Ollama, which cuts here silently."),
    ],
)
async def test_the_doctor_looks_at_the_server(
    tmp_path: Path, told: Mapping[str, Any], state: str, sentence: str
) -> None:
    """What it is, whether it has the model, and the window that a task has."""
    async with model_server(streams("{}"), told=told) as server:
        (found,) = await looked(tmp_path, server.url)
        assert (found.state, found.sentence) == (state, sentence.format(url=f"{server.url}/v1"))
        server.hidden = {"/v1/models": refuses(401, {"error": "no"})}
        (found,) = await looked(tmp_path, server.url)
        assert (found.state, "wants a key" in found.sentence) == ("fail", True)
    (found,) = await looked(tmp_path, server.url)
    assert (found.state, found.sentence) == ("fail", f"No model server answers at {server.url}/v1.")


async def looked(home: Path, url: str) -> list[Any]:
    """What the doctor found of the model."""
    environ = {"CC_ORCHESTRATOR_MODEL": f"openai-chat:{MODEL}", "CC_ORCHESTRATOR_MODEL_URL": url}
    found = await asyncio.to_thread(examine, NOBODY, home, environ)
    return [one for one in found if one.check == "model"]


async def test_its_models_are_listed(tmp_path: Path) -> None:
    """By the names that `--model` takes, and without a word of an Ollama that nobody named."""
    async with model_server(streams("{}"), told=STUDIO) as server:
        listed = await asyncio.to_thread(cli, tmp_path, "models", "list", "--model-url", server.url, "--json")
        assert (listed.returncode, listed.stderr) == (0, "")
        assert [(one["name"], one["url"]) for one in json.loads(listed.stdout)] == [
            (f"openai-chat:{name}", f"{server.url}/v1") for name in (MODEL, "other")
        ]
        server.told.clear()
        other = await asyncio.to_thread(cli, tmp_path, "models", "list", "--model-url", server.url)
        assert (other.returncode, other.stdout) == (3, "")
        assert f"What answers at {server.url}/v1 names no models. Load one there" in other.stderr
    gone = await asyncio.to_thread(cli, tmp_path, "models", "list", CC_ORCHESTRATOR_MODEL_URL=server.url)
    assert (gone.returncode, gone.stdout) == (3, "")
    assert "The model server is not running at" in gone.stderr
