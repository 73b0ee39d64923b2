"""Pairing and installing: the real installer in Lua against the real server, and the codes behind it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from lupa.lua52 import LuaRuntime

from cc_client.simulator.disk import Disk as SimulatedDisk
from cc_client.simulator.handles import Handles
from cc_client.simulator.host import file_functions
from cc_client.simulator.machine import ROM
from orchestrator.bus.local import LocalBus
from orchestrator.clock import SystemClock
from orchestrator.core.errors import InvalidRequest, Unauthenticated
from orchestrator.store import open_store
from orchestrator.tasks import TaskService
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.pairing import CODE_LIFE, WRONG_CODES, Pairings, TooManyTries
from tests.shell.support import DEADLINE_S, Server, dialed, running

ROOT = Path(__file__).resolve().parent.parent.parent
CLIENT = (ROOT / "cc_client" / "client.lua").read_bytes()
STARTUP = "startup/zz-cc-orchestrator.lua"
RUN = "/.cc-orchestrator/client.lua --beside-shell"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, with the store that people have."""
    async with running(tmp_path / "server", store="") as server:
        yield server


async def pairing(server: Server, **body: str | None) -> dict[str, Any]:
    """A new code."""
    answer = await server.ask("POST", "/v1/pairings", body)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def pair(server: Server, code: str, computer_id: int = 7) -> httpx2.Response:
    """What the installer sends."""
    return await server.http.post("/v1/pair", json={"code": code, "computer_id": computer_id})


# -- the installer on a computer ---------------------------------------------------------

WGET = """
local host = ...
local function native(name)
  return function(...)
    local results = table.pack(host[name](...))
    if not results[1] then error(results[2], 2) end
    return table.unpack(results, 2, results.n)
  end
end
fs = {}
for _, name in ipairs({ "exists", "isDir", "makeDir", "delete", "move", "getSize", "getFreeSpace" }) do
  fs[name] = native("fs_" .. name)
end
function fs.open(path, mode)
  local ok, id = host.fs_open(path, mode)
  if not ok then return nil, id end
  return {
    write = function(bytes) return native("file_write")(id, bytes) end,
    readAll = function() return native("file_read_all")(id) end,
    close = function() return native("file_close")(id) end,
  }
end
local function answer(status, body)
  if not status then return nil, body end
  local handle = { readAll = function() return body end, close = function() end }
  if status >= 400 then return nil, "HTTP " .. status, handle end
  return handle
end
if host.http_on then
  http = {
    get = function(url) return answer(host.http("GET", url, "")) end,
    post = function(url, body) return answer(host.http("POST", url, body)) end,
    websocketAsync = function() error("the installer opens no socket") end,
  }
end
local json = load(host.json, "=json")()
textutils = { serializeJSON = json.encode, unserializeJSON = json.decode }
settings = { get = function(name) return host.setting(name) end }
shell = { run = host.shell_run }
_HOST = host.version
os.getComputerID = function() return 7 end
os.getComputerLabel = function()
  local label = host.get_label()
  if label == nil then return end
  return label
end
os.setComputerLabel = host.set_label
print = host.print
local words = {}
for word in host.words:gmatch("[^ ]+") do words[#words + 1] = word end
local chunk = assert(load(host.installer, "=install", "t", _ENV))
local ok, why = pcall(chunk, table.unpack(words))
if not ok then print(tostring(why)) end
"""
"""The globals of a computer as far as the installer may know them, and what `wget run` does."""


@dataclass
class Computer:
    """A simulated computer's disk, on which programs are downloaded and run."""

    root: Path
    label: bytes | None = None
    version: str = "ComputerCraft 1.95.0 (Minecraft 1.16.5)"
    http_on: bool = True
    cut: int | None = None
    """Bytes after which a download of the client ends."""
    capacity: int = 1_000_000
    allow_startup: bool = True
    said: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    async def wget_run(self, line: str) -> str:
        """Type a line; what was printed."""
        words = line.split()
        assert words[:2] == ["wget", "run"]
        await asyncio.to_thread(self._run, words[2], words[3:])
        return "\n".join(self.said)

    def files(self) -> dict[str, bytes]:
        """Everything on the disk."""
        return {str(p.relative_to(self.root)): p.read_bytes() for p in sorted(self.root.rglob("*")) if p.is_file()}

    def _run(self, url: str, words: list[str]) -> None:
        disk = SimulatedDisk(self.root, ROM, self.capacity)
        lua = LuaRuntime(encoding=None, unpack_returned_tuples=True)
        with httpx2.Client(trust_env=False, timeout=DEADLINE_S) as http:

            def ask(method: bytes, path: bytes, body: bytes) -> Any:
                try:
                    answer = http.request(method.decode(), path.decode(), content=body)
                except httpx2.TransportError as error:
                    return (None, str(error).encode())
                whole = answer.content[: self.cut] if path.endswith(b"/client.lua") else answer.content
                return (answer.status_code, whole)

            host = lua.table_from(
                {
                    **{name.encode(): function for name, function in file_functions(disk, Handles(disk)).items()},
                    b"http": ask,
                    b"http_on": self.http_on,
                    b"json": (ROOT / "cc_client" / "lua" / "json.lua").read_bytes(),
                    b"setting": lambda name: self.allow_startup if name == b"shell.allow_startup" else None,
                    b"shell_run": lambda text: self.ran.append(text.decode()),
                    b"version": self.version.encode(),
                    b"get_label": lambda: self.label,
                    b"set_label": self._set_label,
                    b"print": lambda text: self.said.append(text.decode()),
                    b"words": " ".join(words).encode(),
                    b"installer": http.get(url).content,
                }
            )
            load: Any = lua.eval(b"function(text, host) return assert(load(text, '=wget', 't'))(host) end")
            load(WGET.encode(), host)

    def _set_label(self, label: bytes) -> None:
        self.label = label


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    """A new computer, number 7, in the oldest version that we support."""
    (tmp_path / "disk").mkdir()
    return Computer(tmp_path / "disk")


async def test_one_line_installs_and_the_client_connects(server: Server, computer: Computer) -> None:
    """The printed line puts client, settings and startup on the disk, and the real client then connects with them."""
    told = await pairing(server)
    assert told["line"] == f"wget run {server.url}/install {told['code']}"
    assert (told["computer"], told["url"]) == (None, server.url)
    said = await computer.wget_run(told["line"])
    assert said == f"This is computer 7 of {server.url}. The client runs beside this shell."
    assert computer.ran == [RUN]
    files = computer.files()
    assert set(files) == {".cc-orchestrator/client.lua", ".cc-orchestrator/connection", STARTUP}
    assert files[".cc-orchestrator/client.lua"] == CLIENT
    assert f'shell.run("{RUN}")'.encode() in files[STARTUP]
    _, url, token = files[".cc-orchestrator/connection"].decode().splitlines()
    assert url == server.url.replace("http", "ws", 1) + "/computer"
    arrived = asyncio.Event()
    # Told once the computer was welcomed; nothing else makes a task due here.
    server.orchestrator.service.bus.subscribe("tasks.due", lambda _: arrived.set())
    async with _simulated(computer, url, token), asyncio.timeout(DEADLINE_S):
        await arrived.wait()
        listed = (await server.ask("GET", "/v1/computers")).json()["computers"]
    assert [(one["computer"], one["online"], one["computer_id"]) for one in listed] == [("7", True, 7)]
    assert computer.files()[".cc-orchestrator/connection"] == files[".cc-orchestrator/connection"]


@asynccontextmanager
async def _simulated(computer: Computer, url: str, token: str) -> AsyncIterator[None]:
    """The simulated computer on that disk, which dials in."""
    command = ["-m", "cc_client.simulator", "--url", url, "--token", token, "--disk", str(computer.root), "--id", "7"]
    process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        yield
    finally:
        process.terminate()
        await process.communicate()


async def test_a_program_that_starts_already_goes_on_starting(server: Server, computer: Computer) -> None:
    """/startup.lua and the files of /startup/ stay byte for byte; ours comes last in the directory."""
    (computer.root / "startup").mkdir()
    mine = {"startup.lua": b"print('farm')\n", "startup/10_door.lua": b"print('door')\n"}
    for name, data in mine.items():
        (computer.root / name).write_bytes(data)
    said = await computer.wget_run((await pairing(server))["line"])
    assert "/startup.lua is left as it is: the client starts when that has ended." in said
    files = computer.files()
    assert {name: files[name] for name in mine} == mine
    assert max(name for name in files if name.startswith("startup/")) == STARTUP


async def test_a_startup_file_in_the_way_is_kept_and_the_line_to_add_is_told(
    server: Server, computer: Computer
) -> None:
    """Where the file /startup stands no directory can be: it stays, one sentence says what to add, the client runs."""
    (computer.root / "startup").write_bytes(b"print('farm')\n")
    said = await computer.wget_run((await pairing(server))["line"])
    assert f'add this as the last line of /startup: shell.run("{RUN}")' in said
    assert computer.files()["startup"] == b"print('farm')\n"
    assert computer.ran == [RUN]


async def test_where_startup_is_off_that_is_said(server: Server, computer: Computer) -> None:
    """With `shell.allow_startup` off the client would not come back: the installer says what to type."""
    computer.allow_startup = False
    assert "set shell.allow_startup true" in await computer.wget_run((await pairing(server))["line"])


@pytest.mark.parametrize(("has", "gets"), [(None, b"farm"), (b"mine", b"mine")])
async def test_a_label_is_given_only_to_a_computer_without_one(
    server: Server, computer: Computer, has: bytes | None, gets: bytes
) -> None:
    """The pairing's label is set on a computer that has none."""
    computer.label = has
    await computer.wget_run((await pairing(server, label="farm"))["line"])
    assert computer.label == gets


async def test_installing_again_changes_the_token_and_nothing_else(server: Server, computer: Computer) -> None:
    """A second line for the same name renews the token; the old one is worth nothing."""
    await computer.wget_run((await pairing(server, computer="farm"))["line"])
    first = computer.files()
    await computer.wget_run((await pairing(server, computer="farm"))["line"])
    second = computer.files()
    changed = {name for name in first | second if first.get(name) != second.get(name)}
    assert changed == {".cc-orchestrator/connection"}
    names = [one["computer"] for one in (await server.ask("GET", "/v1/computers")).json()["computers"]]
    assert names == ["farm"]


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"version": "ComputerCraft 1.94.0 (Minecraft 1.16.5)"}, "needs CC: Tweaked 1.95 or newer"),
        ({"http_on": False}, "turn both on in computercraft-server.toml"),
        ({"capacity": 50_000}, "The disk of this computer is too full: delete files of "),
        ({"cut": 40_000}, "The client did not arrive whole from http://127.0.0.1:"),
    ],
)
async def test_what_fails_before_pairing_costs_no_code(
    server: Server, computer: Computer, broken: dict[str, Any], sentence: str
) -> None:
    """An old mod, no http, a full disk and a torn download are a sentence each; mended, the same line works."""
    line = (await pairing(server))["line"]
    for name, value in broken.items():
        setattr(computer, name, value)
    assert sentence in await computer.wget_run(line)
    assert computer.files() == {}
    again = Computer(computer.root)
    assert "This is computer 7" in await again.wget_run(line)


async def test_a_wrong_code_is_a_sentence_in_the_game(server: Server, computer: Computer) -> None:
    """Without a code, with a wrong one, and with a used one the installer says what to do, and starts nothing."""
    told = await pairing(server)
    assert "The code is missing" in await computer.wget_run(f"wget run {server.url}/install")
    assert "Make a new one with `cc-orchestrator pair`" in await computer.wget_run(
        f"wget run {server.url}/install AAAA-AAAA"
    )
    await pair(server, told["code"])
    assert "is not known, was used, or is older" in await computer.wget_run(told["line"])
    assert computer.ran == []
    assert ".cc-orchestrator/connection" not in computer.files()


async def test_an_address_in_public_url_goes_into_the_line_and_the_installer(
    tmp_path: Path, computer: Computer
) -> None:
    """`public_url` stands in the line, in the installer and in the computer's settings."""
    async with running(tmp_path / "server", public_url="https://cc.example:8443") as server:
        told = await pairing(server)
        assert told["line"] == f"wget run https://cc.example:8443/install {told['code']}"
        assert 'local SERVER = "https://cc.example:8443"' in (await server.http.get("/install")).text
        assert (await pair(server, told["code"])).json()["url"] == "wss://cc.example:8443/computer"
    del computer


@pytest.mark.parametrize("host", ['a"b', "a b", "", "http://x", "a\\z", "x" * 300])
async def test_a_host_that_is_no_address_is_not_written_into_lua(server: Server, host: str) -> None:
    """A Host header that is no address is refused before it gets between the quotes of the installer."""
    answer = await server.http.get("/install", headers={"Host": host})
    assert answer.status_code in (400, 422)
    assert host not in answer.text or not host


# -- codes -------------------------------------------------------------------------------


async def test_pairing_takes_an_admin(server: Server) -> None:
    """Making a code takes the role admin, and a name that fits."""
    sam = await server.person("sam", "submitter", "reviewer")
    assert (await server.ask("POST", "/v1/pairings", token=sam)).status_code == 403
    assert (await server.http.post("/v1/pairings")).status_code == 401
    assert (await server.ask("POST", "/v1/pairings", {"computer": "a b"})).status_code == 422


async def test_a_code_works_once_however_it_is_typed(server: Server) -> None:
    """Case, blanks, dashes and look-alikes do not matter; of many at once one gets the token, which then works."""
    code = (await pairing(server))["code"]
    assert len(code.replace("-", "")) == 8
    typed = f" {code.lower().replace('-', ' ').replace('0', 'o').replace('1', 'l')} "
    answers = await asyncio.gather(*(pair(server, typed) for _ in range(5)))
    assert sorted(one.status_code for one in answers) == [200, 401, 401, 401, 401]
    (won,) = [one.json() for one in answers if one.status_code == 200]
    async with dialed(server.url, won["token"]) as client:
        assert (await client.greet()).computer == "7"


async def test_a_code_is_no_token_and_is_not_listed(server: Server) -> None:
    """A code opens no other door, and neither codes nor their hashes are among the tokens."""
    code = (await pairing(server))["code"]
    for text in (code, code.replace("-", "")):
        assert (await server.ask("GET", "/v1/tasks", token=text)).status_code == 401
    assert {one["kind"] for one in (await server.ask("GET", "/v1/tokens")).json()["tokens"]} == {"person"}


async def test_names_are_the_id_unless_somebody_chose(server: Server) -> None:
    """Without a name the id counts, then ID-2 and so on; a chosen name replaces and cuts off whoever had it."""
    bodies: list[dict[str, Any]] = [{}, {"computer": None, "label": None}, {"computer": "", "label": ""}]
    names = [(await pair(server, (await pairing(server, **body))["code"])).json()["computer"] for body in bodies]
    assert names == ["7", "7-2", "7-3"]
    first = (await pair(server, (await pairing(server, computer="farm"))["code"])).json()
    async with dialed(server.url, first["token"]) as client:
        await client.greet()
        second = (await pair(server, (await pairing(server, computer="farm"))["code"], 9)).json()
        assert (first["computer"], second["computer"]) == ("farm", "farm")
        assert await client.closed() == (1008, "the token was revoked")


async def test_guessing_is_slow(server: Server) -> None:
    """After ten wrong codes in a minute the address is told to wait, even with a right one."""
    code = (await pairing(server))["code"]
    tries = await asyncio.gather(*(pair(server, f"AAAA-AAA{n}") for n in range(WRONG_CODES + 3)))
    assert sorted(one.status_code for one in tries) == [401] * WRONG_CODES + [429] * 3
    refused = await pair(server, code)
    assert refused.status_code == 429
    assert refused.json()["error"]["remedy"].startswith("Wait a minute")


@pytest.fixture(params=["memory:", "sqlite"])
async def pairings(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pairings]:
    """Pairings on each of the embedded stores."""
    url = f"sqlite:///{tmp_path / 'tokens.db'}" if request.param == "sqlite" else request.param
    store = open_store(url, clock=SystemClock())
    authorizer = TokenAuthorizer(store)
    yield Pairings(TaskService(store=store, bus=LocalBus(), clock=SystemClock(), authorizer=authorizer))
    await store.close()


async def test_an_old_code_is_worth_nothing(pairings: Pairings) -> None:
    """A code lives for 15 minutes, and not a moment longer."""
    fresh, old = [await pairings.make("", "", NOW) for _ in range(2)]
    just, late = NOW + CODE_LIFE - timedelta(seconds=1), NOW + CODE_LIFE
    assert (await pairings.use(fresh.code, computer_id=1, peer="a", at=just)).computer == "1"
    with pytest.raises(Unauthenticated, match="older than 15 minutes"):
        await pairings.use(old.code, computer_id=1, peer="a", at=late)
    with pytest.raises(InvalidRequest):
        await pairings.make("a b", "", NOW)


async def test_right_codes_are_not_counted_and_peers_are_counted_apart(pairings: Pairings) -> None:
    """Pairing many computers from one address is no guessing; another address has its own ten tries."""
    for number in range(WRONG_CODES + 5):
        made = await pairings.make("", "", NOW)
        await pairings.use(made.code, computer_id=number, peer="a", at=NOW)
    for _ in range(WRONG_CODES):
        with pytest.raises(Unauthenticated):
            await pairings.use("nonsense", computer_id=1, peer="a", at=NOW)
    with pytest.raises(TooManyTries):
        await pairings.use("nonsense", computer_id=1, peer="a", at=NOW)
    with pytest.raises(Unauthenticated):
        await pairings.use("nonsense", computer_id=1, peer="b", at=NOW)
