"""`cc-orchestrator models`: Ollama's models as a person lists, looks at and gets them, without a server of ours."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.commands import CLI, cli, environment, on_a_terminal, refused, serving
from tests.harness.ollama_server import FACTS, OllamaServer, Persona, Wire, garbles, ollama, pulls, refuses, says
from tests.waiting import HANG_S, within

GB = 10**9
ROWS = [
    {"name": "qwen2.5-coder:7b", "model": "qwen2.5-coder:7b", "size": int(4.7 * GB),
     "details": {"parameter_size": "7.6B", "quantization_level": "Q4_K_M"}},
    {"name": "gpt-oss:120b-cloud", "model": "gpt-oss:120b-cloud"},
]  # fmt: skip


def part(digest: str, done: int, total: int) -> dict[str, Any]:
    """One word of a pull."""
    return {"status": f"pulling {digest}", "digest": f"sha256:{digest}", "total": total, "completed": done}


STEPS = [
    {"status": "pulling manifest"},
    *[part("aaa", done * GB, 4 * GB) for done in range(5)],
    part("bbb", 0, GB),
    part("bbb", GB, GB),
    {"status": "verifying sha256 digest"},
    {"status": "writing manifest"},
]


async def run(home: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """A command while the test's servers answer."""
    return await asyncio.to_thread(cli, home, "models", *arguments, **more)


def at(*servers: OllamaServer) -> list[str]:
    """The option that names servers."""
    return ["--ollama-url", ",".join(server.url for server in servers)]


def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


# -- list and show -------------------------------------------------------------------------


@pytest.mark.deep
async def test_the_models_of_each_server_are_listed(tmp_path: Path) -> None:
    """With size, what they are made of, and where they are; the same as JSON; and as the settings name the servers."""
    async with ollama(says("{}")) as one, ollama(says("{}")) as other:
        one.listed, other.listed = {"models": ROWS}, {"models": ROWS[:1]}
        plain = await run(tmp_path, "list", *at(one, other))
        bare = await run(tmp_path, *at(one, other))
        as_json = await run(tmp_path, "list", "--json", CC_ORCHESTRATOR_OLLAMA_URL=f"{one.url},{other.url}")
        by_host = await run(tmp_path, "list", OLLAMA_HOST=other.url)
    assert (plain.returncode, plain.stdout) == (0, bare.stdout)
    assert [line.split() for line in plain.stdout.splitlines()] == [
        ["MODEL", "SIZE", "MADE", "OF", "AT"],
        ["gpt-oss:120b-cloud", "-", "-", one.url],
        ["qwen2.5-coder:7b", "4.7", "GB", "7.6B,", "Q4_K_M", one.url],
        ["qwen2.5-coder:7b", "4.7", "GB", "7.6B,", "Q4_K_M", other.url],
    ]
    assert [(row["url"], row["name"], row["size"]) for row in json.loads(as_json.stdout)] == [
        (one.url, "gpt-oss:120b-cloud", 0),
        (one.url, "qwen2.5-coder:7b", int(4.7 * GB)),
        (other.url, "qwen2.5-coder:7b", int(4.7 * GB)),
    ]
    assert len(by_host.stdout.splitlines()) == 2


async def test_no_models_and_no_server(tmp_path: Path) -> None:
    """An empty list says how to get the first; a server that is away is named, and the others are listed."""
    down = nowhere()
    async with ollama(says("{}")) as server:
        empty = await run(tmp_path, "list", *at(server))
        server.listed = {"models": ROWS}
        half = await run(tmp_path, "list", "--ollama-url", f"{down},{server.url}")
        named = await run(tmp_path, "list", "--model-url", f"{down}/v1", OLLAMA_HOST=server.url)
    refused(named, f"The model server is not running at {down}/v1.", code=3)
    assert len(named.stdout.splitlines()) == 3, "of the other one, which nobody named"
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "Get one with `cc-orchestrator models pull " in empty.stderr
    assert (half.returncode, len(half.stdout.splitlines())) == (0, 3)
    assert f"Ollama is not running at {down}." in half.stderr
    refused(await run(tmp_path, "list", "--ollama-url", down), f"Ollama is not running at {down}.", code=3)


@pytest.mark.parametrize(
    ("command", "host"),
    [
        ("models pull tiny --yes", "http://joe:pw/x@example.com"),
        ("models list", "http://joe:pw/x@example.com"),
        ("doctor", "http://joe:pw/x@example.com"),
        ("models show tiny", "http://joe:pw,x@example.com"),
        ("models show tiny", "http://127.0.0.1:99999"),
    ],
)
def test_an_address_that_is_not_one_is_a_sentence_without_a_password(tmp_path: Path, command: str, host: str) -> None:
    """Ollama's own library fails on it already when it is imported: so in an interpreter that did not import it yet."""
    where = environment(tmp_path, OLLAMA_HOST=host, CC_ORCHESTRATOR_MODEL="ollama:tiny")
    done = subprocess.run(
        [*CLI, *command.split()], env=where, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    assert done.returncode == (1 if command == "doctor" else 2), told
    assert "is not an address of an Ollama server" in told
    assert "either is an address such as http://127.0.0.1:11434" in told
    assert "pw" not in told


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("persona", "sentence"),
    [
        (refuses(200, b"<html>hello</html>", "text/html"), "What answers at {} is not Ollama."),
        (refuses(200, [1]), "What answers at {} is not Ollama."),
        (refuses(200, {"models": [3]}), "What answers at {} is not Ollama."),
        (refuses(500, [1]), "What answers at {} is not Ollama."),
        (refuses(404, b"404 page not found", "text/plain"), "What answers at {} is not Ollama, or a very old one"),
        (refuses(500, {"error": "odd\x1b[2Jthing"}), "Ollama at {} answered 500: odd\\u{{1b}}[2Jthing."),
        (refuses(307, b"", Location="http://elsewhere"), "{} redirects elsewhere, which is not followed."),
    ],
    ids=["a page", "a list", "nonsense", "an error that is a list", "another program", "an error", "a redirect"],
)
async def test_what_is_not_ollama_is_a_sentence(tmp_path: Path, persona: Persona, sentence: str) -> None:
    """Whatever stands there; nothing that it says can move a cursor."""
    async with ollama(says("{}")) as server:
        server.hidden = {"/api/tags": persona}
        refused(await run(tmp_path, "list", *at(server)), sentence.format(server.url), code=3)


async def test_a_key_does_not_go_over_plain_http(tmp_path: Path) -> None:
    """Ollama's own client would send it."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"models":[]}')
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), nowhere())
        assert (await run(tmp_path, "list", "--ollama-url", url, OLLAMA_API_KEY="a-key", **proxies)).returncode == 0
    assert "a-key" not in heads[0]
    assert "authorization" not in heads[0]


async def test_a_model_is_shown_with_the_window_that_a_task_has(tmp_path: Path) -> None:
    """Context, abilities and make, at each server; a shorter context than num_ctx is said."""
    async with ollama(says("{}"), models=("tiny:1b",)) as one, ollama(says("{}"), models=("mistral",)) as other:
        one.facts = {**FACTS, "model_info": {"llama.context_length": 4096}}
        shown = await run(tmp_path, "show", "ollama:tiny:1b", *at(one, other))
        as_json = await run(tmp_path, "show", "tiny:1b", "--json", *at(one, other))
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == [
        f"at {one.url}, Ollama 0.33.0",
        "  made of   llama, 1.2B, Q4_K_M",
        "  can       completion, tools",
        "  context   4096 tokens",
        "  a task    has a window of 4096 tokens, less than the 8192 of num_ctx, of them 1024 for a reply",
    ]
    assert f"Ollama at {other.url} has no model 'tiny:1b'." in shown.stderr
    here, there = json.loads(as_json.stdout)
    assert (here["there"], here["context"], here["num_ctx"], here["cloud"]) == (True, 4096, 4096, False)
    assert (there["there"], there["url"]) == (False, other.url)


async def test_a_model_of_the_cloud_or_without_text_is_shown_so(tmp_path: Path) -> None:
    """Both matter before a task is given to it."""
    async with ollama(says("{}"), models=("far:cloud",)) as server:
        server.facts = {"remote_host": "https://ollama.com:443", "capabilities": ["embedding"]}
        shown = await run(tmp_path, "show", "far:cloud", *at(server))
    assert "  runs      in Ollama's cloud (https://ollama.com:443): what it is sent leaves this network" in shown.stdout
    assert "  careful   it writes no text, so no task can use it" in shown.stdout
    assert "  context   not said\n" in shown.stdout


async def test_a_model_that_is_nowhere_is_refused(tmp_path: Path) -> None:
    """4 where Ollama does not have it, 3 where Ollama is not there, 2 for what is no name."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        refused(await run(tmp_path, "show", "tiny", *at(server)), "Models there: mistral.", code=4)
        server.hidden = {"/api/tags": garbles(b"x")}
        refused(await run(tmp_path, "show", "tiny", *at(server)), "is not Ollama", code=3)
    refused(await run(tmp_path, "show", "tiny", "--ollama-url", nowhere()), "Ollama is not running", code=3)
    refused(await run(tmp_path, "show", "scripted:hello"), "is not a model of Ollama", code=2)
    refused(await run(tmp_path, "show", "x", "--ollama-url", "a b"), "The setting ollama_url does not fit", code=2)


# -- pull ----------------------------------------------------------------------------------


async def test_a_pull_on_a_pipe_says_each_tenth(tmp_path: Path) -> None:
    """One line for ten in a hundred, never fewer than before, and one for what else is done."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(pulls(*STEPS))
        done = await run(tmp_path, "pull", "tiny:1b", "--yes", *at(server))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "tiny:1b: pulling manifest",
        "tiny:1b: 20 %, 1.0 GB of 4.0 GB",
        "tiny:1b: 50 %, 2.0 GB of 4.0 GB",
        "tiny:1b: 70 %, 3.0 GB of 4.0 GB",
        "tiny:1b: 100 %, 4.0 GB of 4.0 GB",
        "tiny:1b: verifying sha256 digest",
        "tiny:1b: writing manifest",
        f"tiny:1b is at {server.url} now.",
    ]


async def test_a_script_gets_a_pull_as_lines_of_json(tmp_path: Path) -> None:
    """Each thing that is done is a hint with its bytes, and the last line says that the model is there."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(pulls(*STEPS))
        done = await run(tmp_path, "pull", "tiny:1b", "--yes", "--json", *at(server))
        server.listed = {"models": [{"name": "mistral:latest", "model": "mistral:latest"}]}
        again = await run(tmp_path, "pull", "mistral", "--json", *at(server))
    assert done.returncode == 0, done.stderr
    *hints, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(one["hint"], one["model"], one["url"]) for one in hints} == {("pull", "tiny:1b", server.url)}
    assert hints[0]["status"] == "pulling manifest"
    assert 0 < max(one["done"] for one in hints) <= hints[-1]["total"]
    assert last == {"model": "tiny:1b", "url": server.url, "there": "now"}
    assert json.loads(again.stdout) == {"model": "mistral", "url": server.url, "there": "already"}


async def test_a_server_that_is_down_does_not_spoil_a_pull(tmp_path: Path) -> None:
    """It is named, and the model is at the other one; only where none answers the command has failed."""
    down = nowhere()
    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(pulls(*STEPS))
        done = await run(tmp_path, "pull", "tiny:1b", "--yes", "--ollama-url", f"{down},{server.url}")
    assert done.returncode == 0
    assert done.stdout.endswith(f"tiny:1b is at {server.url} now.\n")
    assert f"Ollama is not running at {down}." in done.stderr
    refused(await run(tmp_path, "pull", "tiny:1b", "--yes", "--ollama-url", down), "Ollama is not running", code=3)


async def test_a_pull_asks_first_and_shows_a_bar(tmp_path: Path) -> None:
    """At a terminal: the question with the size that another server knows, yes, and a bar on one line."""
    row = {"name": "tiny:1b", "model": "tiny:1b", "size": int(1.3 * GB)}
    async with ollama(says("{}")) as having, ollama(says("{}"), models=("mistral",)) as lacking:
        having.listed = {"models": [row]}
        lacking.pulls.append(pulls(*STEPS))

        def at_the_terminal() -> tuple[int, str]:
            arguments = ("models", "pull", "tiny:1b", *at(having, lacking))
            with on_a_terminal(tmp_path, *arguments, TERM="xterm") as terminal:
                terminal.expect(f"tiny:1b is not at {lacking.url}. It has 1.3 GB. Pull it now? [y/N] ")
                terminal.type("y\n")
                terminal.expect("] 100%  5.0 GB of 5.0 GB  writing manifest")
                return terminal.end(), terminal.text

        code, text = await asyncio.to_thread(at_the_terminal)
    assert code == 0
    assert f"tiny:1b is at {having.url} already.\n" in text
    assert "tiny:1b  [############------------]  50%  2.0 GB of 4.0 GB" in text
    assert f"\x1b[Ktiny:1b is at {lacking.url} now.\n" in text
    assert having.paths.count("/api/pull") == 0


@pytest.mark.thinned(2)
@pytest.mark.parametrize("typed", ["n\n", "\n", "\x04"])
async def test_only_a_yes_is_a_yes(tmp_path: Path, typed: str) -> None:
    """Anything else fetches nothing."""
    async with ollama(says("{}"), models=("mistral",)) as server:

        def at_the_terminal() -> tuple[int, str]:
            with on_a_terminal(tmp_path, "models", "pull", "tiny:1b", *at(server)) as terminal:
                terminal.expect("[y/N] ")
                terminal.type(typed)
                return terminal.end(), terminal.text

        code, text = await asyncio.to_thread(at_the_terminal)
    assert (code, "Nothing was fetched." in text) == (1, True)
    assert server.paths == ["/api/tags"]


async def test_without_a_terminal_nothing_is_fetched_unasked(tmp_path: Path) -> None:
    """`--yes` is for scripts."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        done = await run(tmp_path, "pull", "tiny:1b", *at(server))
    refused(done, f"tiny:1b is not at {server.url}. Say --yes to have it fetched without being asked.", code=2)
    assert server.paths == ["/api/tags"]


async def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    """A tag that is left out is `latest`."""
    async with ollama(says("{}")) as server:
        server.listed = {"models": [{"name": "mistral:latest", "model": "mistral:latest"}]}
        done = await run(tmp_path, "pull", "mistral", *at(server))
    assert (done.returncode, done.stdout) == (0, f"mistral is at {server.url} already.\n")


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            "pull model manifest: file does not exist",
            "There is no model 'tiny:1b' where Ollama fetches models from. "
            "Look at https://ollama.com/library for its name and its tag.",
        ),
        (
            "write /var/ollama/models/blobs/sha256-0-partial-0: no space left on device",
            "The disk of {} is full: write /var/ollama/models/blobs/sha256-0-partial-0: no space left on device. "
            "Make room there (`ollama rm NAME` removes a model), then type the same command again: it goes on.",
        ),
        (
            'pull model manifest: Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host',
            "Ollama at {} does not reach the place that it fetches models from: pull model manifest: ",
        ),
        ("max retries exceeded: unexpected EOF", "Ollama at {} does not reach the place that it fetches models from"),
        (
            "pull model manifest: 412: \n\nThe model you are attempting to pull requires a newer version of Ollama.",
            "The model 'tiny:1b' needs a newer Ollama than the one at {}. Update Ollama there",
        ),
        ("digest mismatch, file must be downloaded again", "What Ollama at {} fetched of 'tiny:1b' was damaged on"),
        ("unauthorized: sign in", "Ollama at {} may not fetch 'tiny:1b': unauthorized: sign in. Sign in there with"),
        ("ollama cloud is disabled", "Ollama at {} may not fetch 'tiny:1b': ollama cloud is disabled."),
        ("invalid model name", "'tiny:1b' is not a name of a model. Say it like qwen2.5-coder:7b."),
        ("odd {thing}", "Ollama at {} gave up: odd {{thing}}. Type the same command again: it goes on where it"),
    ],
)  # fmt: skip
async def test_a_pull_that_fails_is_a_sentence(tmp_path: Path, error: str, sentence: str) -> None:
    """What Ollama says in the middle of a pull, and what to do about it."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(pulls(part("aaa", 1, 4), {"error": error}, end=False))
        done = await run(tmp_path, "pull", "tiny:1b", "--yes", *at(server))
    refused(done, sentence.format(server.url), code=1)


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("persona", "sentence", "code"),
    [
        (refuses(404, {"error": "404 page not found"}), "is not Ollama, or a very old one", 1),
        (refuses(401, {"error": "no"}), "may not fetch 'tiny:1b': no. Sign in there", 1),
        (pulls(part("aaa", 1, 4), end=False), "broke off fetching 'tiny:1b'. Type the same command again", 1),
        (garbles(b"<html>\n"), "is not Ollama.", 1),
    ],
    ids=["too old", "not signed in", "no last word", "nonsense"],
)
async def test_a_pull_that_is_answered_oddly_is_a_sentence(
    tmp_path: Path, persona: Persona, sentence: str, code: int
) -> None:
    """Errors before the first word, and a stream that ends without the last one."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(persona)
        refused(await run(tmp_path, "pull", "tiny:1b", "--yes", *at(server)), sentence, code=code)


async def test_a_pull_whose_connection_breaks_is_a_sentence(tmp_path: Path) -> None:
    """Ollama stopped while it fetched."""

    async def dies(wire: Wire) -> None:
        await wire.head()
        await wire.raw(json.dumps(part("aaa", 1, 4)).encode() + b"\n")
        wire.reset()

    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(dies)
        done = await run(tmp_path, "pull", "tiny:1b", "--yes", *at(server))
    refused(done, f"The connection to Ollama at {server.url} broke: ", code=3)


async def test_ctrl_c_stops_a_pull_and_says_that_it_goes_on(tmp_path: Path) -> None:
    """Ollama sees the connection closed, what was fetched stays there, and the exit code is that of Ctrl-C."""

    async def slow(wire: Wire) -> None:
        await wire.head()
        await wire.raw(json.dumps(part("aaa", GB, 4 * GB)).encode() + b"\n")
        await wire.left.wait()

    async with ollama(says("{}"), models=("mistral",)) as server:
        server.pulls.append(slow)

        def at_the_terminal() -> tuple[int, str]:
            with on_a_terminal(tmp_path, "models", "pull", "tiny:1b", "--yes", *at(server), TERM="xterm") as terminal:
                terminal.expect("25%")
                terminal.interrupt()
                return terminal.end(), terminal.text

        code, text = await asyncio.to_thread(at_the_terminal)
        await within(server.left.wait())
    assert code == 130
    assert "Stopped. The fetched part stays: the same command goes on where it stopped." in text
    assert "Traceback" not in text


# -- where a missing model is met ----------------------------------------------------------


async def test_serve_says_the_command_that_gets_its_model(tmp_path: Path) -> None:
    """At its start, in its log; and `run` of a task ends with the same."""
    async with ollama(says("{}"), models=("mistral",)) as server:
        said = f"Run `cc-orchestrator models pull tiny:1b --ollama-url {server.url}`. Models there: mistral."

        def play() -> str:
            options = ("--model", "ollama:tiny:1b", *at(server))
            with serving(tmp_path, tmp_path / "home", *options) as served:
                done = served.cli("run", "say hello")
                assert done.returncode == 1
                return done.stdout + done.stderr

        told = await asyncio.to_thread(play)
    log = (tmp_path / "serve.log").read_text("utf-8")
    assert f"WARNING Ollama at {server.url} has no model 'tiny:1b'. {said}" in log
    assert said in told
    assert server.asked == []


def test_the_lists_are_not_loaded_for_other_commands(tmp_path: Path) -> None:
    """Neither Ollama's client nor an HTTP library is imported for the help."""
    code = (
        "import sys\nfrom orchestrator.terminal.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = ('ollama', 'httpx', 'httpx2', 'orchestrator.adapters.models')\n"
        "    print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "models", "pull", "--help"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
