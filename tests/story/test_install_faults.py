"""Each fault that keeps a computer from joining is named on the player's screen, with the exact lines that mend it.

Where `wget` itself cannot reach the server, nothing of ours runs on a new computer: there `pair` says it beforehand and
`doctor` afterwards, and a client that was installed before says it in `cc status`.
"""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from cc_client.simulator.install import install
from orchestrator.computers.hub.admission import AT_ONCE, PER_S
from orchestrator.core.audit.tables import CODE_LIFE
from orchestrator.core.connection_problems import Told, told
from orchestrator.core.wire import wire
from orchestrator.core.wire.wire import ComputerId
from orchestrator.terminal.doctor import Finding, examine
from tests.harness.commands import cli
from tests.harness.player import Player, line_of, online, playing
from tests.harness.simulating import Asked, answer, web
from tests.harness.whole_server import Server, running
from tests.simulator.test_simulator_http import OWN_CERTIFICATE
from tests.thinning import thinned
from tests.waiting import HANG_S

STARTUP = 'shell.run("/.cc-orchestrator/boot.lua --startup /startup.lua")\n'


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, with the store that people have."""
    async with running(tmp_path / "server", store="") as server:
        yield server


def words(text: str) -> str:
    """A text without its line breaks: the screen breaks lines between words."""
    return re.sub(r"\s+", " ", text).strip()


async def shows(player: Player, fault: Told, *, again: str = "") -> None:
    """The screen has the sentence and then its remedy, whole, and lines of a file stand in rows of their own.

    ``again``: typed until it does, since what is told of takes its time.
    """
    wanted, rows, read = words(" ".join((fault.sentence, *fault.remedy))), list[str](), list[str]()
    try:
        async with asyncio.timeout(HANG_S):
            while wanted not in words(" ".join(rows)):
                if again:
                    await player.type("clear")
                    await player.type(again)
                    read = []
                for _ in range(40):
                    shown = [row.strip() for row in json.loads(await player.do("screen"))["rows"]]
                    rows = [*read, *(row for row in shown if row not in read)]
                    if wanted in words(" ".join(rows)):
                        break
                    if any(row.startswith("-- more") for row in shown):
                        # The next rows of a small screen; what was read goes up and out.
                        read = [row for row in rows if not row.startswith("-- more")]
                        await player.do("key enter")
                    await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError("\n".join((f"{wanted!r} never came; the screen has:", *rows))) from None
    exact = [line for line in fault.remedy if re.match(r"\[|\w+ = ", line)]
    assert [line for line in exact if line not in rows] == []


async def examined(server: Server, tmp_path: Path, check: str) -> Finding:
    """What `cc-orchestrator doctor` finds."""
    found = await asyncio.to_thread(examine, server.url, tmp_path / "server", {})
    return next(one for one in found if one.check == check)


def put_client(disk: Path, url: str, token: str) -> None:
    """What was installed when all was well."""
    disk.mkdir()
    install(disk, f"ws{url.removeprefix('http')}/computer", token)
    (disk / "startup.lua").write_text(STARTUP, "utf-8")


@asynccontextmanager
async def joined_before(disk: Path, url: str, token: str, *options: str) -> AsyncIterator[Player]:
    """A computer on which the client was installed when all was well."""
    put_client(disk, url, token)
    async with playing(disk, *options) as player:
        yield player


async def nobody(asked: Asked) -> bytes:
    """Answers to whoever trusts its certificate."""
    del asked
    return answer(b"")


def a_free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


# -- what wget cannot reach --------------------------------------------------------------


@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", ["advanced", "turtle"])
async def test_http_off(server: Server, tmp_path: Path, family: str) -> None:
    """A new computer has only what `wget` says; `pair`, `doctor` and `cc status` have the lines."""
    fault = told("http_off", server.url)
    async with playing(tmp_path / "new", "--http=off", f"--family={family}") as player:
        await player.type(await line_of(server))
        # In some versions of the mod there is no `wget` then.
        async with asyncio.timeout(HANG_S):
            while not re.search("wget requires the http API|No such program", await player.screen()):
                pass
    found = await examined(server, tmp_path, "game")
    assert found.state == "warn"
    assert words(" ".join(fault.remedy)) in words(" ".join(found.remedy))
    options = ("--http=off", f"--family={family}")
    async with joined_before(tmp_path / "old", server.url, await server.computer("farm"), *options) as player:
        await shows(player, fault, again="cc status")


@pytest.mark.deep
@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", thinned(["advanced", "computer", "turtle", "pocket"], 3))
async def test_a_private_address_is_not_permitted(server: Server, tmp_path: Path, family: str) -> None:
    """The rule for this very host and port, as it is to be written into the file."""
    fault = told("not_permitted", server.url)
    options = ("--http-rule=deny-private", f"--family={family}")
    async with playing(tmp_path / "new", *options) as player:
        await player.type(await line_of(server))
        await player.sees("Domain not permitted")
    found = await examined(server, tmp_path, "game")
    assert words(" ".join(fault.remedy)) in words(" ".join(found.remedy))
    async with joined_before(tmp_path / "old", server.url, await server.computer("farm"), *options) as player:
        await shows(player, fault, again="cc status")
    assert (await examined(server, tmp_path, "computers")).sentence == "Away: farm."


@pytest.mark.deep
async def test_pair_says_beforehand_what_minecraft_has_to_permit(server: Server, tmp_path: Path) -> None:
    """The file, the rule and the switches stand under the line, and nothing but the line on standard output."""
    arguments = ("pair", "--no-wait", "--url", server.url, "--data-dir", str(tmp_path / "server"))
    done = await asyncio.to_thread(cli, tmp_path, *arguments)
    assert re.fullmatch(rf"wget run {server.url}/install \S+\n", done.stdout)
    rule = [
        line for line in told("not_permitted", server.url).remedy if line.startswith(("[", "host", "port", "action"))
    ]
    assert "\n".join(rule) in done.stderr
    assert "\n[http]\nenabled = true\nwebsocket_enabled = true\n" in done.stderr
    assert done.stderr.count("<world>/serverconfig/computercraft-server.toml") == 2


# -- what the installer meets ------------------------------------------------------------


async def test_websockets_off(server: Server, tmp_path: Path) -> None:
    """The installer says it before the code is used up; doctor sees that nobody paired."""
    fault = told("websockets_off", server.url)
    line = await line_of(server)
    async with playing(tmp_path / "new", "--websockets=off") as player:
        await player.type(line)
        await shows(player, fault)
        assert player.files() == {}
    found = await examined(server, tmp_path, "installer")
    assert found.state == "warn"
    assert words(" ".join(fault.remedy)) in words(" ".join(found.remedy))
    async with playing(tmp_path / "new") as player:
        await player.type(line)
        await player.sees("This is computer 7 of")
    token = await server.computer("farm")
    async with joined_before(tmp_path / "old", server.url, token, "--websockets=off") as player:
        await shows(player, fault, again="cc status")


@pytest.mark.deep
@pytest.mark.parametrize("code", ["unknown_host", "no_answer_here"])
async def test_a_wrong_address(tmp_path: Path, code: str) -> None:
    """An address that the game does not know, or at which nothing listens, is named with what to start."""
    host = "no-such-host.invalid:8765" if code == "unknown_host" else f"127.0.0.1:{a_free_port()}"
    fault = told(code, f"http://{host}")
    async with running(tmp_path / "server", store="", public_url=f"http://{host}") as server:
        named = await line_of(server)
        async with playing(tmp_path / "new") as player:
            # Typed with an address at which the server can be reached: what it names itself is wrong.
            await player.type(named.replace(f"http://{host}", server.url))
            await shows(player, fault)
        found = await examined(server, tmp_path, "public url")
        assert (found.state, found.sentence, found.remedy) == ("fail", fault.sentence, fault.remedy)
        token = await server.computer("farm")
    async with joined_before(tmp_path / "old", f"http://{host}", token) as player:
        await shows(player, fault, again="cc status")


@pytest.mark.deep
async def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    """The same for who installs through it, for a client that dials it, and for doctor."""
    (tmp_path / "own.pem").write_text(OWN_CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem")
    async with web(nobody, tls=context) as port:
        url = f"https://127.0.0.1:{port}"
        fault = told("tls", url)
        async with running(tmp_path / "server", store="", public_url=url) as server:
            async with playing(tmp_path / "new") as player:
                await player.type((await line_of(server)).replace(url, server.url))
                await shows(player, fault)
            found = await examined(server, tmp_path, "public url")
            assert (found.state, found.sentence, found.remedy) == ("fail", fault.sentence, fault.remedy)
            token = await server.computer("farm")
        async with joined_before(tmp_path / "old", url, token) as player:
            await shows(player, fault, again="cc status")


@pytest.mark.deep
async def test_a_proxy_that_passes_only_pages(tmp_path: Path) -> None:
    """The installer dials before it says that all is well; the server sees who came without an upgrade."""
    goal = ""

    async def passes(asked: Asked) -> bytes:
        # Of the headers, as some do, it hands on only those that it knows; the upgrade is none of them.
        kept = {
            name: value for name, value in asked.headers.items() if name.lower() in ("authorization", "content-type")
        }
        async with httpx2.AsyncClient(base_url=goal, trust_env=False, headers=kept) as http:
            came = await http.request(asked.method, asked.path, content=asked.body)
        return answer(came.content, f"{came.status_code} {came.reason_phrase}")

    async with web(passes) as port:
        url = f"http://127.0.0.1:{port}"
        fault = told("no_upgrade", url, said="it answers 426")
        async with running(tmp_path / "server", store="", public_url=url) as server:
            goal = server.url
            async with playing(tmp_path / "new", "--family=computer") as player:
                await player.type(await line_of(server))
                await player.sees(f"It cannot connect yet. {fault.sentence} {fault.remedy[0]}")
                await player.do("key enter")
                await shows(player, fault, again="cc status")
            found = await examined(server, tmp_path, "refused")
            assert "a proxy in between has to pass upgrades on." in found.remedy[0]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("code", ["code_used", "code_expired", "code_unknown"])
async def test_a_code_that_is_worth_nothing(server: Server, tmp_path: Path, code: str) -> None:
    """Which of them it is, on the screen and for doctor; nothing starts."""
    line, pairings = await line_of(server), server.orchestrator.endpoints.pairings
    typed = line.rpartition(" ")[2]
    if code == "code_used":
        await server.http.post("/v1/pair", json={"code": typed, "computer_id": 3})
    elif code == "code_expired":
        made = await pairings.make("", "", server.orchestrator.service.clock.now() - CODE_LIFE - timedelta(seconds=1))
        line = line.replace(typed, made.code)
    else:
        line = line.replace(typed, "AAAA-AAAA")
    fault = told(code, server.url)
    async with playing(tmp_path / "disk") as player:
        await player.type(line)
        await shows(player, fault)
        assert "startup" not in player.files()
    found = await examined(server, tmp_path, "refused")
    assert fault.sentence in found.sentence
    assert found.remedy == fault.remedy


# -- what the client meets ---------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize(("code", "speaks"), [("protocol_too_old", 2), ("protocol_too_new", 0)])
async def test_another_protocol(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, speaks: int
) -> None:
    """A client that was installed by an orchestrator of another version, and the line that replaces it."""
    # The orchestrator of another version: it differs in this number.
    monkeypatch.setattr(wire, "PROTOCOL_VERSION", speaks)
    said = f"The client speaks protocol 1, this orchestrator {speaks}."
    remedy = "Install the client again from this orchestrator." if speaks == 2 else "Update the orchestrator."
    fault = told(code, server.url, said=said, remedy=remedy)
    async with joined_before(tmp_path / "old", server.url, await server.computer("farm")) as player:
        await shows(player, fault, again="cc status")
        found = await examined(server, tmp_path, "refused")
        assert found.state == "fail"
        assert "Computer farm was turned away at /computer from 127.0.0.1" in found.sentence
        assert said in found.sentence
        assert found.remedy == fault.remedy
        monkeypatch.undo()
        await player.type(f"wget run {server.url}/install")
        await player.says("cc status", "Connected as farm")


@pytest.mark.deep
async def test_too_many_computers_at_once(server: Server, tmp_path: Path) -> None:
    """The mod tells the first line of the refusal, and the client comes in by itself when it was told to."""
    async with joined_before(tmp_path / "old", server.url, await server.computer("farm")) as player:
        await player.says("cc status", "Connected as farm")
        hub = server.orchestrator.hub
        for _ in range(AT_ONCE + 5 * PER_S):
            hub.admission.came(asyncio.get_running_loop().time())
        hub.drop(ComputerId("farm"), hub.known.number(ComputerId("farm")) + 1)
        await shows(player, told("busy", server.url), again="cc status")
        await player.says("cc status", "Connected as farm")


@pytest.mark.deep
async def test_a_revoked_token(server: Server, tmp_path: Path) -> None:
    """The mod says only that the handshake failed; the client says what that means, and doctor whose it was."""
    token = await server.computer("farm")
    async with joined_before(tmp_path / "old", server.url, token) as player:
        await player.says("cc status", "Connected as farm")
        await server.ask("DELETE", "/v1/tokens/computer/farm")
        await shows(player, told("token_refused", server.url), again="cc status")
        found = await examined(server, tmp_path, "refused")
        assert "The token of computer farm was revoked." in found.sentence
        assert found.remedy == ("Pair it again: `cc-orchestrator pair farm`, and type the line there.",)
        await player.type(await line_of(server, computer="farm"))
        await player.says("cc status", "Connected as farm")
    assert list(await online(server)) == ["farm"]


@pytest.mark.deep
async def test_a_server_that_stops_is_said_once_and_forgotten_when_it_is_back(tmp_path: Path) -> None:
    """While it is away the log has one entry for all attempts."""
    async with running(tmp_path / "server", store="") as server:
        port, token = int(server.url.rpartition(":")[2]), await server.computer("farm")
        playing_there = joined_before(tmp_path / "old", server.url, token)
        player = await playing_there.__aenter__()
        try:
            await player.says("cc status", "Connected as farm")
        except BaseException:
            await playing_there.__aexit__(None, None, None)
            raise
    try:
        fault = told("no_answer_here", f"http://127.0.0.1:{port}")
        await shows(player, fault, again="cc status")
        dials: asyncio.Queue[None] = asyncio.Queue()

        def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dials.put_nowait(None)
            writer.close()

        async with await asyncio.start_server(hang_up, "127.0.0.1", port), asyncio.timeout(HANG_S):
            for _ in range(2):
                await dials.get()
        await player.says("cc log", fault.sentence[:40])
        assert words(await player.screen()).count(fault.sentence) == 1
        async with running(tmp_path / "server", store="", port=port):
            await player.says("cc status", "Connected as farm")
    finally:
        await playing_there.__aexit__(None, None, None)
