"""Ollama behind the port, over real HTTP, against a server that misbehaves in every way that was seen."""

import asyncio
import errno
import json
import socket
import ssl
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.adapters.models import OllamaOptions
from orchestrator.adapters.models.ollama import OllamaModel
from orchestrator.adapters.models.ollama_errors import unreachable
from orchestrator.adapters.models.ollama_server import OllamaApi
from orchestrator.core.errors import ModelFailed
from orchestrator.core.ports import ChatMessage, ModelReply
from orchestrator.core.reply.schema import reply_schema
from orchestrator.core.task.facts import Usage
from tests.harness.ollama_server import (
    OllamaServer,
    Persona,
    breaks,
    falls_silent,
    floods,
    garbles,
    gives_up,
    loads,
    ollama,
    refuses,
    says,
    stops,
    thinks,
)
from tests.harness.support import final
from tests.waiting import HANG_S, within

VIEW = [ChatMessage("system", "rules"), ChatMessage("user", "task"), ChatMessage("assistant", "{}")]
REPLY = json.dumps(final("It prints “hello” 🐢."), ensure_ascii=False)
TOO_LONG = {
    "error": json.dumps({
        "error": {
            "code": 400,
            "message": "request (12000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 12000,
            "n_ctx": 4096,
        }
    })
}  # fmt: skip


def model(server: OllamaServer, **options: Any) -> OllamaModel:
    """The model `tiny:1b` of a server; waits are short unless a test says otherwise."""
    chosen = {"first_token_s": HANG_S, "silence_s": HANG_S, **options}
    return OllamaModel("tiny:1b", OllamaOptions(url=server.url, **chosen))


async def answered(persona: Persona, **options: Any) -> ModelReply:
    """The reply that a persona gives."""
    async with ollama(persona) as server:
        return await model(server, **options).reply(VIEW)


async def failure(*personas: Persona, models: tuple[str, ...] = (), **options: Any) -> str:
    """The sentence that a persona leads to; {} stands for the server's address."""
    async with ollama(*personas, models=models) as server:
        with pytest.raises(ModelFailed) as failed:
            await model(server, **options).reply(VIEW, on_text=lambda _: None)
        return str(failed.value).replace(server.url, "{}")


# -- what is sent --------------------------------------------------------------------------


async def test_what_is_sent_is_explicit_and_constant() -> None:
    """Window, bound, temperature, seed, schema and the refusal to truncate go with every request."""
    async with ollama(says(REPLY)) as server:
        tiny = model(server)
        assert tiny.name == "ollama:tiny:1b"
        for _ in range(2):
            await tiny.reply(VIEW)
    assert server.asked[0] == server.asked[1]
    assert server.asked[0] == {
        "model": "tiny:1b",
        "messages": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "task"},
            {"role": "assistant", "content": "{}"},
        ],
        "stream": True,
        "format": reply_schema(),
        "options": {"num_ctx": 8192, "num_predict": 2048, "temperature": 0.2, "seed": 0},
        "keep_alive": "10m",
        "truncate": False,
        "shift": False,
        "think": False,
    }


async def test_the_schema_has_the_shape_of_the_task() -> None:
    """Where a task has one computer nothing has to name it, and all else stays as it is sent to any task."""
    async with ollama(says(REPLY)) as server:
        tiny = model(server)
        await tiny.reply(VIEW, one_computer=True)
        await tiny.reply(VIEW)
    one, several = server.asked
    assert one.pop("format") == reply_schema(one_computer=True)
    assert several.pop("format") == reply_schema()
    assert one == several


@pytest.mark.parametrize(("wanted", "sent"), [(None, 2048), (100, 100), (9000, 2048), (0, 1)])
async def test_a_bound_of_the_reply_only_lowers_num_predict(wanted: int | None, sent: int) -> None:
    """The smaller of both bounds counts, and the window stays as it is: another would load the model anew."""
    async with ollama(says(REPLY)) as server:
        await model(server).reply(VIEW, max_output_tokens=wanted)
    options = server.asked[0]["options"]
    assert (options["num_predict"], options["num_ctx"]) == (sent, 8192)


async def test_half_a_surrogate_pair_in_a_message_can_be_sent() -> None:
    """Text of the world that is not Unicode is no reason to fail."""
    async with ollama(says(REPLY)) as server:
        await model(server).reply([ChatMessage("user", "half \ud83d")])
    assert server.asked[0]["messages"][0]["content"] == "half \ud83d"


async def test_a_proxy_of_the_environment_is_not_asked_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a proxy is set for the world, this host is still reached directly; no key goes over plain http."""
    for variable in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setenv("OLLAMA_API_KEY", "a-key")
    async with ollama(says(REPLY)) as server:
        await model(server).reply(VIEW)
    assert "authorization" not in server.heads[0].lower()
    assert "a-key" not in repr(OllamaOptions())


def test_a_key_is_sent_over_https_only() -> None:
    """For ollama.com; in clear it would be everybody's."""
    sent = [
        OllamaApi(url, OllamaOptions(url=url, api_key="a-key")).client().headers.get("authorization")
        for url in ("https://ollama.com", "http://ollama.com")
    ]
    assert sent == ["Bearer a-key", None]


async def test_localhost_is_loopback_too() -> None:
    """The name works as its address does."""
    async with ollama(says(REPLY)) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")
        assert (await model(server).reply(VIEW)).text == REPLY


async def test_a_server_that_takes_no_think_is_asked_once_more_without() -> None:
    """The refusal costs one request, once; the reply is as good."""
    refusal = refuses(400, {"error": '"tiny:1b" does not support thinking'})
    async with ollama(refusal, says(REPLY)) as server:
        tiny = model(server)
        assert (await tiny.reply(VIEW)).text == REPLY
        await tiny.reply(VIEW)
    assert ["think" in asked for asked in server.asked] == [True, False, False]


async def test_a_server_that_never_stops_refusing_is_believed() -> None:
    """The second refusal is an answer, not a reason to go round again."""
    sentence = await failure(refuses(400, {"error": '"tiny:1b" does not support thinking'}))
    assert sentence.startswith('Ollama at {} does not take the request: "tiny:1b" does not support thinking.')


# -- how a reply ends ----------------------------------------------------------------------


async def test_a_reply_is_told_as_it_comes_and_returned_whole() -> None:
    """The parts add up to the text, and a reply that nobody watches is the same."""
    parts: list[str] = []
    async with ollama(says(REPLY)) as server:
        watched = await model(server).reply(VIEW, on_text=parts.append)
        unwatched = await model(server).reply(VIEW)
    assert watched == unwatched == ModelReply(REPLY, "stop", Usage(input_tokens=11, output_tokens=7))
    assert len(parts) > 3
    assert "".join(parts) == REPLY


@pytest.mark.parametrize(
    ("persona", "reply"),
    [
        (says('{"kind": "to', "length"), ModelReply('{"kind": "to', "length", Usage(input_tokens=11, output_tokens=7))),
        (says("{}", "load"), ModelReply("{}", "aborted", Usage(input_tokens=11, output_tokens=7))),
        (says("{}", prompt_eval_count=None, eval_count=None), ModelReply("{}")),
        (says("{}", prompt_eval_count=-1, eval_count="7"), ModelReply("{}")),
        (says(""), ModelReply("", "stop", Usage(input_tokens=11, output_tokens=7))),
        (thinks("hm, let me see", "{}"), ModelReply("{}", "stop", Usage(input_tokens=11, output_tokens=7))),
        (stops('{"kind": "tool"'), ModelReply('{"kind": "tool"', "aborted")),
        (floods, ModelReply(" " * 31, "aborted")),
        (garbles(b'{"message": {"content": "cut', after="{}"), ModelReply("{}", "aborted")),
        (garbles(b'{"message": {"content": "cut"}', after="{}"), ModelReply("{}", "aborted")),
        (garbles(b'{"message": {"content": "x"}, "done": true}'), ModelReply("x")),
        (
            garbles(b'{"message": {"content": "x"}, "done": true, "done_reason": ["stop"]}\n'),
            ModelReply("x", "aborted"),
        ),
        (garbles(b"\n", b' \n{"message": null', b', "done"', b": true}\n\n"), ModelReply("")),
        (garbles(), ModelReply("", "aborted")),
    ],
    ids=[
        "cut at the limit",
        "an end that is none",
        "counts left out",
        "counts that are none",
        "nothing said",
        "thoughts",
        "no last line",
        "blanks for ever",
        "cut inside a line",
        "cut after a brace",
        "no last line break",
        "a reason that is none",
        "lines in pieces",
        "no line at all",
    ],
)
async def test_how_an_answer_ends_is_kept(persona: Persona, reply: ModelReply) -> None:
    """Only an answer with its last line passes for whole; none of this is an exception."""
    assert await answered(persona) == reply


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
async def test_lines_may_be_cut_anywhere(size: int) -> None:
    """A network keeps no lines: cut inside a character, inside a line or not at all, the reply is the same."""
    lines = [{"message": {"content": part}, "done": False} for part in ("", "hé", "llo 🐢\n", "“”")]
    whole = b"".join(
        json.dumps(line, ensure_ascii=False).encode() + b"\r\n" for line in (*lines, {"done": True, "eval_count": 3})
    )
    parts = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert await answered(garbles(*parts)) == ModelReply("héllo 🐢\n“”", "stop", Usage(output_tokens=3))


async def test_a_model_that_takes_long_to_load_is_waited_for() -> None:
    """Before the first line another bound holds than between two lines."""
    reply = await answered(loads(1.2, REPLY), silence_s=1.0)
    assert reply.text == REPLY


async def test_a_reply_without_end_is_left() -> None:
    """A server that does not keep the bound of the reply is not read for ever: what is too long was cut."""

    async def endless(wire: Any) -> None:
        await wire.head()
        while not wire.left.is_set():
            await wire.line({"message": {"content": "x" * 50_000}, "done": False})

    async with ollama(endless) as server:
        reply = await model(server).reply(VIEW)
        await within(server.left.wait())
    assert reply.done_reason == "length"
    assert len(reply.text) < 500_000


# -- what goes wrong -----------------------------------------------------------------------


def _wrapped(error: Any, times: int) -> Any:
    return error if times == 0 else {"error": _wrapped(error, times - 1)}


MISSING = refuses(404, {"error": "model 'tiny:1b' not found"})
STOPPED = "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error"


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("persona", "sentence"),
    [
        (MISSING, "Ollama at {} has no model 'tiny:1b'. Run `cc-orchestrator models pull tiny:1b --ollama-url {}`."),
        (
            refuses(404, b"404 page not found", "text/plain"),
            "Ollama at {} answered 404: 404 page not found. Look at Ollama's log; "
            "a proxy or another program may be at this address.",
        ),
        (
            refuses(400, TOO_LONG),
            "The conversation does not fit the model's window: it has 12000 tokens, the window has 4096. "
            "Raise num_ctx, or split the task into smaller ones.",
        ),
        *(
            (
                refuses(400, {"error": said}),
                "The conversation does not fit the model's window. Raise num_ctx, or split the task into smaller ones.",
            )
            for said in (
                "the prompt exceeds the available context size",
                "the input length exceeds the context length",
                "The input length exceeds the context length",
            )
        ),
        (
            refuses(401, {"error": "unauthorized", "signin_url": "https://example.org"}),
            "Ollama may not use 'tiny:1b': nobody is signed in. Run `ollama signin` there, or set OLLAMA_API_KEY "
            "for ollama.com.",
        ),
        (
            refuses(403, {"error": "cloud disabled"}),
            "Ollama may not use 'tiny:1b': cloud disabled. Choose a model of this host: `cc-orchestrator models list`.",
        ),
        (
            refuses(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
            "Ollama at {} is busy: server busy, please try again. maximum pending requests exceeded. "
            "Try again when it has less to do.",
        ),
        (
            refuses(500, {"error": STOPPED}),
            f"The model 'tiny:1b' stopped inside Ollama: {STOPPED}. "
            "Most often memory ran out: take a smaller model or a smaller num_ctx.",
        ),
        (
            refuses(429, {"error": "too many requests"}),
            "Ollama at {} is busy: too many requests. Try again when it has less to do.",
        ),
        (
            refuses(499, {"error": "request canceled"}),
            "Ollama at {} gave the request up, as if nobody waited for it: request canceled. "
            "Try again; a proxy in front may wait for a shorter time than the model needs.",
        ),
        (
            refuses(504, b"<html>Gateway timeout</html>", "text/html"),
            "What stands in front of Ollama at {} answered 504: Gateway timeout. "
            "Look whether Ollama runs behind that proxy, and how long the proxy waits for an answer.",
        ),
        (
            refuses(400, {"error": "missing request body"}),
            "Ollama at {} does not take the request: missing request body. "
            "Update Ollama (`ollama --version`), and look at the settings of the model.",
        ),
        (
            refuses(400, {"error": "invalid model name"}),
            "'tiny:1b' is not a name of a model: invalid model name. Say it like qwen2.5-coder:7b; "
            "`cc-orchestrator models list` shows those that are there.",
        ),
        (
            refuses(400, {"error": '"tiny:1b" does not support chat'}),
            "The model 'tiny:1b' cannot hold a conversation: \"tiny:1b\" does not support chat. "
            "Choose one that completes text: `cc-orchestrator models list`.",
        ),
        (
            refuses(
                400, {"error": json.dumps({"error": {"code": 400, "message": "JSON schema conversion failed: x"}})}
            ),
            "Ollama at {} cannot hold the model to the form of a reply: JSON schema conversion failed: x. "
            "Update Ollama to 0.30 or newer: `ollama --version` says which it is.",
        ),
        (
            refuses(500, {"error": "invalid JSON schema in format"}),
            "Ollama at {} cannot hold the model to the form of a reply: invalid JSON schema in format.",
        ),
        (
            refuses(500, {"error": "model requires more system memory (44.0 GiB) than is available (7.6 GiB)"}),
            "The model 'tiny:1b' does not fit the memory of {}: model requires more system memory (44.0 GiB) than is "
            "available (7.6 GiB). Take a smaller model or a smaller num_ctx, or end what else uses the memory: "
            "look at `ollama ps`.",
        ),
        (
            refuses(500, {"error": "llama runner process has terminated: cudaMalloc failed: out of memory"}),
            "The model 'tiny:1b' does not fit the memory of {}: llama runner process has terminated: cudaMalloc",
        ),
        (
            refuses(500, {"error": "llama runner process has terminated: signal: killed"}),
            "The model 'tiny:1b' stopped inside Ollama: llama runner process has terminated: signal: killed. "
            "Most often memory ran out",
        ),
        (
            says("", "load"),
            "Ollama at {} gave no reply and ended with 'load': it only loaded or unloaded the model. "
            "Try again; somebody may have stopped the model there.",
        ),
        (says("", "unload"), "Ollama at {} gave no reply and ended with 'unload'"),
        (
            refuses(500, {"error": {"error": {"message": "odd\nthing"}}}),
            "Ollama at {} answered 500: odd thing. Look at Ollama's log; "
            "a proxy or another program may be at this address.",
        ),
        (refuses(500, _wrapped("deep", 30)), "Ollama at {} answered 500: {'error': {'error':"),
        (
            refuses(502, b"", "text/html"),
            "What stands in front of Ollama at {} answered 502: no reason given. "
            "Look whether Ollama runs behind that proxy, and how long the proxy waits for an answer.",
        ),
        (
            refuses(500, b'{"error": "unfinished', "application/json"),
            'Ollama at {} answered 500: {"error": "unfinished. Look at Ollama\'s log; '
            "a proxy or another program may be at this address.",
        ),
        (
            refuses(307, b"", Location="http://elsewhere.example/api/chat"),
            "{} redirects to http://elsewhere.example/api/chat, which is not followed. "
            "Say where Ollama itself listens: OLLAMA_HOST or --ollama-url.",
        ),
        (
            gives_up("{", "an odd error"),
            "Ollama at {} gave up in the middle of a reply: an odd error. Look at Ollama's log, then try again; ",
        ),
        (gives_up("{", STOPPED), f"The model 'tiny:1b' stopped inside Ollama: {STOPPED}."),
        (gives_up("{", TOO_LONG["error"]), "The conversation does not fit the model's window: it has 12000 tokens"),
        (
            refuses(200, b"<html><title>Log in\x1b[2J</title></html>\n", "text/html"),
            "{} answered with something that Ollama does not say: <html><title>Log in\\u{1b}[2J</title></html> "
            "A proxy or another program may be at this address: look at OLLAMA_HOST or --ollama-url.",
        ),
        (garbles(b"no JSON\n", after="{"), "{} answered with something that Ollama does not say: no JSON"),
        (garbles(b"[1]\n"), "{} answered with something that Ollama does not say: [1]"),
        (garbles(b'{"message": {"content": "\xff"}}\n'), "{} answered with something that Ollama does not say:"),
        (garbles(b'{"message": {"content": "\\ud83d"}}\n'), "{} answered with something that Ollama does not say:"),
        (garbles(b'{"message": {"content": 3}}\n'), "{} answered with something that Ollama does not say:"),
        (garbles(b'{"message": "text"}\n'), "{} answered with something that Ollama does not say:"),
        (garbles(b"[" * 200_000 + b"\n"), "{} answered with something that Ollama does not say: [[[["),
        (garbles(*[b"x" * 1_000_000] * 5), "{} answered with something that Ollama does not say: xxxx"),
    ],
)
async def test_what_goes_wrong_is_a_sentence(persona: Persona, sentence: str) -> None:
    """Whatever a server answers instead of a reply, the task is told what happened and what to do."""
    assert (await failure(persona)).startswith(sentence)


NEAR_MISSES = st.sampled_from([
    b'{"message": {"content": "x"}, "done": false}\n',
    b'{"message": {"content": "\\u0000"}}\n',
    b'{"done": true, "eval_count": 1e999}\n',
    b'{"done": true, "done_reason": {}}\n',
    b'{"error": null}\n',
    b'{"error": [{"error": 1}]}\n',
    b'{"message": []}\n',
    b"\n",
    b"{",
])  # fmt: skip


@given(st.lists(st.binary(min_size=1, max_size=20) | NEAR_MISSES, max_size=6))
async def test_whatever_bytes_come_there_is_a_reply_or_a_sentence(parts: list[bytes]) -> None:
    """No answer of a server leads to any other exception."""
    try:
        done = (await answered(garbles(*parts))).done_reason
    except ModelFailed:
        done = "failed"
    assert done in {"stop", "length", "aborted", "failed"}


async def test_a_model_that_is_not_there_comes_with_those_that_are() -> None:
    """The names of the models that the server has, sorted, next to the command that gets the other."""
    sentence = await failure(MISSING, models=("qwen3:8b", "llama3.2:3b"))
    assert sentence.endswith("--ollama-url {}`. Models there: llama3.2:3b, qwen3:8b.")


async def test_a_list_of_models_that_makes_no_sense_is_left_out() -> None:
    """The sentence about the missing model does not need it."""
    async with ollama(MISSING) as server:
        server.listed = {"models": [{}]}
        with pytest.raises(ModelFailed) as failed:
            await model(server).reply(VIEW)
    assert str(failed.value).endswith(f"Run `cc-orchestrator models pull tiny:1b --ollama-url {server.url}`.")


async def test_an_error_page_without_end_is_not_read_to_its_end() -> None:
    """Of an error only the beginning is read."""

    async def endless(wire: Any) -> None:
        await wire.head(500, "text/html")
        while not wire.left.is_set():
            await wire.raw(b"<p>Oh no" * 10_000)

    assert (await failure(endless)).startswith("Ollama at {} answered 500: Oh no Oh no")


async def test_an_error_whose_text_does_not_come_is_told_without() -> None:
    """The status is known, and the wait for the reason is bounded."""

    async def mute(wire: Any) -> None:
        await wire.head(500)
        await wire.left.wait()

    assert (await failure(mute, silence_s=0.1)).startswith("Ollama at {} answered 500: no reason given.")


async def test_a_connection_that_breaks_is_a_sentence() -> None:
    """A reset in the middle of a reply says that it was the connection, and where to look."""
    sentence = await failure(breaks("{"))
    assert sentence.startswith("The connection to Ollama at {} broke: ")
    assert sentence.endswith("Look at Ollama's log: it may have stopped.")


async def test_a_server_that_does_not_run_is_a_sentence() -> None:
    """Nobody listens at the address: the sentence names it, and the command that starts it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ModelFailed) as failed:
        await OllamaModel("tiny", OllamaOptions(url=f"http://127.0.0.1:{port}")).reply(VIEW)
    assert str(failed.value) == (
        f"Ollama is not running at http://127.0.0.1:{port}. "
        "Start it with `ollama serve`, or say where it listens: OLLAMA_HOST or --ollama-url."
    )


async def unanswered(url: str, **options: Any) -> str:
    """The sentence of a model at an address where nothing answers."""
    with pytest.raises(ModelFailed) as failed:
        await OllamaModel("tiny", OllamaOptions(url=url, **options)).reply(VIEW)
    return str(failed.value)


async def test_a_name_that_leads_nowhere_is_a_sentence() -> None:
    """A slip in the address is told from a server that does not run."""
    sentence = await unanswered("http://ollama.invalid")
    assert sentence.startswith("The name in http://ollama.invalid:80 leads to no host: ")
    assert sentence.endswith("Look for a slip in it, and say where it listens: OLLAMA_HOST or --ollama-url.")


async def test_https_where_http_is_spoken_is_a_sentence() -> None:
    """What listens there speaks no TLS, or ends the attempt."""
    async with ollama(says(REPLY)) as server:
        listening = await asyncio.start_server(_plain, "127.0.0.1", 0)
        async with listening:
            url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            sentence = await unanswered(url)
    assert sentence == (
        f"There is no safe connection to {url}: it does not speak TLS. "
        "Ollama itself speaks http://; where a proxy adds https://, this host must trust its certificate."
    )
    assert server.asked == []


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


def test_a_certificate_that_does_not_hold_is_a_sentence() -> None:
    """The reason is the library's, on one line."""
    error, cause = httpx2.ConnectError("x"), ssl.SSLCertVerificationError("x")
    cause.verify_message = "self-signed\ncertificate"
    error.__cause__ = OSError("between")
    error.__cause__.__cause__ = cause
    assert unreachable("https://farm", error, 5.0).message == (
        "There is no safe connection to https://farm: its certificate does not hold (self-signed\\ncertificate)."
    )


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (
            OSError(errno.ENETUNREACH, "Network is unreachable"),
            "http://farm cannot be reached: Network is unreachable.",
        ),
        (ssl.SSLError(1, "[SSL: ODD_THING] odd"), "There is no safe connection to http://farm: "),
        (TimeoutError(), "Nothing answered at http://farm within 5 s."),
        (ValueError("odd"), "Ollama is not running at http://farm."),
    ],
)
def test_why_no_connection_was_made_is_read_from_its_cause(cause: Exception, sentence: str) -> None:
    """What stands behind an HTTP library's error says more than the error."""
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = cause
    assert unreachable("http://farm", error, 5.0).message.startswith(sentence)


async def test_a_host_that_says_nothing_is_a_sentence() -> None:
    """It takes no connection, and does not refuse it: off, or behind a firewall."""
    with socket.socket() as listening, ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        # A line that is full: the kernel answers none who comes after.
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        sentence = await unanswered(url, connect_s=0.2)
    assert sentence == (
        f"Nothing answered at {url} within 0.2 s. "
        "The host may be off or a firewall between; else say where it listens: OLLAMA_HOST or --ollama-url."
    )


@pytest.mark.parametrize(
    ("persona", "limits", "sentence"),
    [
        (falls_silent(), {"first_token_s": 0.1}, "Ollama at {} said nothing for 0.1 s."),
        (falls_silent(""), {"first_token_s": 0.1}, "Ollama at {} said nothing for 0.1 s."),
        (falls_silent("{"), {"silence_s": 0.2}, "Ollama at {} said nothing for 0.2 s."),
        (falls_silent("{"), {"whole_s": 0.3}, "The model ollama:tiny:1b had not finished after 0.3 s."),
    ],
    ids=["before its status", "before its first line", "between two lines", "as a whole"],
)
async def test_silence_is_bounded(persona: Persona, limits: dict[str, float], sentence: str) -> None:
    """Each wait has its own bound, and the connection is closed when it is over."""
    async with ollama(persona) as server:
        with pytest.raises(ModelFailed) as failed:
            await model(server, **limits).reply(VIEW)
        await within(server.left.wait())
        assert str(failed.value).startswith(sentence.format(server.url))


@pytest.mark.parametrize("said", [None, "", "{ the beginning"], ids=["before its status", "at once", "in a reply"])
async def test_canceling_closes_the_connection_so_that_generation_stops(said: str | None) -> None:
    """The server, which says nothing more, sees the connection closed, wherever the reply was."""
    asked = asyncio.Event()
    silence = falls_silent(said)

    async def persona(wire: Any) -> None:
        asked.set()
        await silence(wire)

    async with ollama(persona) as server:
        asking = asyncio.create_task(model(server).reply(VIEW))
        await within(asked.wait())
        assert not server.left.is_set()
        asking.cancel()
        await within(server.left.wait())
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_a_reply_is_canceled_while_it_streams() -> None:
    """Canceled between two parts that come as fast as they can, the connection is closed all the same."""
    heard = asyncio.Event()

    async def streaming(wire: Any) -> None:
        await wire.head()
        while not wire.left.is_set():
            await wire.text("words ")

    async with ollama(streaming) as server:
        asking = asyncio.create_task(model(server).reply(VIEW, on_text=lambda _: heard.set()))
        await within(heard.wait())
        asking.cancel()
        await within(server.left.wait())
        with pytest.raises(asyncio.CancelledError):
            await asking


# -- connections that are kept -----------------------------------------------------------


async def test_a_server_keeps_its_connections_to_ollama() -> None:
    """Replies, also refused ones, go over one connection, and what is asked meanwhile over another one."""
    async with ollama(says(REPLY)) as server:
        server.keeps = True
        kept, other = model(server), model(server)
        kept.keep()
        for _ in range(3):
            assert (await kept.reply(VIEW)).text == REPLY
        server.personas.append(refuses(500, "it is ill"))
        server.personas.append(says(REPLY))
        server.personas.popleft()
        with pytest.raises(ModelFailed):
            await kept.reply(VIEW)
        assert (await kept.reply(VIEW)).text == REPLY
        assert server.connections == 2
        await kept.close()
        requests = len(server.paths)
        assert (await other.reply(VIEW)).text == REPLY
        assert server.connections == 2 + len(server.paths) - requests


async def test_a_kept_connection_that_the_server_closed_loses_no_request() -> None:
    """It is sent again on another one."""
    async with ollama(says(REPLY)) as server:
        server.keeps, kept = True, model(server)
        kept.keep()
        await kept.reply(VIEW)
        server.drops = 1
        assert (await kept.reply(VIEW)).text == REPLY
        assert (server.connections, server.paths.count("/api/chat")) == (2, 3)
        await kept.close()
