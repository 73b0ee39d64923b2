"""One line in the game installs the client, which starts beside whatever starts there, updates itself, and goes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from orchestrator.web import install as endpoints
from tests.harness.player import line_of, online, playing, tree, welcomed
from tests.harness.support import Listening, call, final, says
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S

FAMILIES = ("advanced", "computer")
"""With tabs and without."""
ENDLESS = b"print('the farm runs')\nwhile true do os.pullEvent() end\n"
DOOR = b"print('the door is open')\n"
OWN = ".cc-orchestrator"

BEFORE: dict[str, dict[str, bytes]] = {
    "nothing": {},
    "startup.lua": {"startup.lua": ENDLESS},
    "startup": {"startup": ENDLESS},
    "both": {"startup": ENDLESS, "startup.lua": DOOR},
    "directory": {"startup/10_door.lua": DOOR, "startup/20_farm.lua": ENDLESS},
    "directory and startup.lua": {"startup/10_door.lua": DOOR, "startup.lua": ENDLESS},
}
CASES = [
    pytest.param(case, family, marks=() if (number + kind) % 2 == 0 else pytest.mark.deep)
    for number, case in enumerate(BEFORE)
    for kind, family in enumerate(FAMILIES)
]
"""Each start on one family of computers, in depth on both."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server without computers, with the store that people have."""
    async with running(tmp_path / "server", store="") as server:
        yield server


def put(disk: Path, files: dict[str, bytes]) -> None:
    """What a player has on the disk."""
    disk.mkdir(exist_ok=True)
    for name, data in files.items():
        (disk / name).parent.mkdir(exist_ok=True)
        (disk / name).write_bytes(data)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", FAMILIES)
async def test_one_line_and_the_computer_is_connected(server: Server, tmp_path: Path, family: str) -> None:
    """The printed line installs and connects; the prompt is the player's, and `cc` answers there."""
    async with playing(tmp_path / "disk", "--family", family) as player:
        async with welcomed(server):
            await player.type(await line_of(server))
        await player.says("cc status", "Connected as 7")
        await player.type("cc help")
        await player.sees("cc uninstall: takes the client away")
        await player.do("terminate")
        await player.says("cc status", "Connected as 7")
        assert await online(server) == {"7": True}
        token = player.files()[f"{OWN}/connection"]
        assert token is not None
        secret = token.splitlines()[2]
        assert [name for name, data in player.files().items() if data and secret in data] == [f"{OWN}/connection"]
        assert secret.decode() not in await player.screen()


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("case", "family"), CASES)
async def test_it_starts_beside_what_started_before_and_goes_without_a_trace(
    server: Server, tmp_path: Path, case: str, family: str
) -> None:
    """A farm that never ends, wherever it starts from, runs as before with a connected client beside it."""
    disk = tmp_path / "disk"
    put(disk, BEFORE[case])
    before = tree(disk)
    ends = ENDLESS not in BEFORE[case].values()
    async with playing(disk, "--family", family) as player:
        if not ends:
            await player.sees("the farm runs")
            await player.do("terminate")
        async with welcomed(server):
            await player.type(await line_of(server))
        async with welcomed(server):
            await player.do("reboot")
        if not ends:
            await player.sees("the farm runs")
            await player.do("terminate")
        assert await online(server) == {"7": True}
        await player.type("cc uninstall")
        await player.sees("The client is gone from this computer.")
        assert player.files() == before


@pytest.mark.deep
@pytest.mark.parametrize("family", FAMILIES)
async def test_what_the_installer_says_last_is_there_at_the_prompt(server: Server, tmp_path: Path, family: str) -> None:
    """Without tabs the client empties the screen when it starts; what was said is said again."""
    disk = tmp_path / "disk"
    put(disk, {"startup": DOOR})
    async with playing(disk, "--family", family) as player:
        async with welcomed(server):
            await player.type(await line_of(server))
        await player.type("echo_mark")
        await player.sees("No such program")
        screen = await player.screen()
    assert "Your /startup is now /startup.lua" in screen
    assert "This is computer 7 of " in screen


@pytest.mark.deep
async def test_no_tab_is_left_after_uninstalling(server: Server, tmp_path: Path) -> None:
    """The client's tab closes with it, though nobody has looked at it."""
    async with playing(tmp_path / "disk", "--family", "advanced") as player:
        async with welcomed(server):
            await player.type(await line_of(server))
        assert "orchestrator " in (await player.screen())[:40]
        await player.type("cc uninstall")
        await player.sees("The client is gone from this computer.")
        await player.type("clear")
        await player.type("echo_mark")
        await player.sees("No such program")
        assert "orchestrator" not in await player.screen()


@pytest.mark.deep
async def test_the_screen_is_shown_until_the_player_leaves_its_shell(tmp_path: Path) -> None:
    """Right after the installation, without a reboot; behind the shell that was left nothing stale is shown."""
    model = Listening(*(says(call("cc_screen")), final(success=False)) * 2)
    async with (
        running(tmp_path / "server", store="", model=model) as server,
        playing(tmp_path / "disk", "--family", "advanced") as player,
    ):
        async with welcomed(server):
            await player.type(await line_of(server))
        await player.says("cc status", "Connected as 7")
        task = await server.submit(("7",))
        await server.until(task, "task_ended")
        assert "Connected as 7" in model.told
        await player.type("exit")
        await player.says("label get", "No computer label")
        task = await server.submit(("7",))
        await server.until(task, "task_ended")
    assert "once it has been restarted" in model.told


@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_model_sees_the_screen_that_the_player_sees(tmp_path: Path, family: str) -> None:
    """Whether the client has a tab of its own or not, `cc_screen` shows the player's."""
    model = Listening(says(call("cc_screen")), final())
    disk = tmp_path / "disk"
    put(disk, {"startup.lua": b"print('the farm runs')\n"})
    async with (
        running(tmp_path / "server", store="", model=model) as server,
        playing(disk, "--family", family) as player,
    ):
        async with welcomed(server):
            await player.type(await line_of(server))
        async with welcomed(server):
            await player.do("reboot")
        await player.says("cc status", "Connected as 7")
        task = await server.submit(("7",), prompt="What is on the screen?")
        await server.until(task, "task_ended")
    assert "Connected as 7" in model.told
    assert "orchestrator> " not in model.told


@pytest.mark.deep
@pytest.mark.parametrize("changes", [(3, 11), pytest.param((7, 15), marks=pytest.mark.deep)])
async def test_a_computer_that_lost_its_power_in_the_middle_joins_with_the_same_line(
    server: Server, tmp_path: Path, changes: Sequence[int]
) -> None:
    """Whatever change of the disk is the last one, the line can be typed again, with a new code if it was used."""
    for change in changes:
        disk = tmp_path / f"disk{change}"
        line = await line_of(server, computer=f"c{change}")
        async with playing(disk, "--die-at-change", str(change)) as player:
            await player.type(line)
            assert await player.process.wait() == -9
        async with playing(disk) as player:
            async with welcomed(server):
                await player.type(await line_of(server, computer=f"c{change}"))
            await player.says("cc status", f"Connected as c{change}")


# -- updates -----------------------------------------------------------------------------


def older(disk: Path) -> bytes:
    """Make the client on a disk one of an older version; what it was."""
    path = disk / OWN / "client.a.lua"
    present = path.read_bytes()
    path.write_bytes(present.replace(b"client 0.", b"client older 0.", 1))
    return present


async def installed(server: Server, disk: Path) -> None:
    """A computer with the client, switched off again."""
    async with playing(disk) as player:
        async with welcomed(server):
            await player.type(await line_of(server))
        await player.says("cc status", "Connected as 7")


def hand_out(server: Server, monkeypatch: pytest.MonkeyPatch, text: str, *, torn: int = 0) -> None:
    """Let the server hand out another client; the first ``torn`` downloads end early."""
    stock, left = endpoints._lua, torn

    def lua(name: str) -> str:
        nonlocal left
        if name != "client.lua":
            return stock(name)
        if left:
            left -= 1
            return text[:20_000]
        return text

    offer = endpoints.client_offered().model_copy(
        update={"version": "9.9.9", "size": len(text), "sha256": sha256(text.encode()).hexdigest()}
    )
    monkeypatch.setattr(endpoints, "_lua", lua)
    server.orchestrator.hub._client = offer


@pytest.mark.deep
async def test_an_older_client_replaces_itself_and_goes_on(server: Server, tmp_path: Path) -> None:
    """It fetches the server's, starts it without a reboot, and marks it good; the older one stays beside it."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    present = older(disk)
    async with playing(disk) as player:
        await until(lambda: b"run b good" in (disk / OWN / "slot").read_bytes())
        await player.says("cc status", "Connected as 7")
        assert (disk / OWN / "client.b.lua").read_bytes() == present
        assert b"older" in (disk / OWN / "client.a.lua").read_bytes()
    async with playing(disk) as player:
        await player.says("cc status", "Connected as 7")


async def test_a_client_that_another_server_hands_out_is_refused_and_the_old_one_stays(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has the token and answers in the server's place has no key: nothing is fetched, and the player is told."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    present = (disk / OWN / "client.a.lua").read_bytes()
    newer = endpoints._lua("client.lua").replace("client 0.", "client newer 0.", 1)
    hand_out(server, monkeypatch, newer)
    hub = server.orchestrator.hub
    genuine, hub._update_secret = hub._update_secret, "another's"
    async with playing(disk) as player:
        await player.says("cc status", "Client 9.9.9 is not signed with the key of this computer")
        await player.says("cc update", "pair this computer again")
        await player.says("cc status", "Connected as 7")
        assert (disk / OWN / "client.a.lua").read_bytes() == present
        assert not (disk / OWN / "client.b.lua").exists()
        hub._update_secret = genuine
        async with welcomed(server):
            await player.do("reboot")
        await until(lambda: b"run b good" in (disk / OWN / "slot").read_bytes())
        assert (disk / OWN / "client.b.lua").read_text() == newer


@pytest.mark.deep
async def test_a_computer_of_an_earlier_release_has_no_key_and_is_updated_as_before(
    server: Server, tmp_path: Path
) -> None:
    """Its installer wrote four lines; the offer's sha256 alone counts until it is paired again."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    connection = disk / OWN / "connection"
    lines = connection.read_text().split("\n")
    assert (len(lines), len(lines[4])) == (6, 64)
    connection.write_text("\n".join([*lines[:4], ""]))
    older(disk)
    async with playing(disk) as player:
        await until(lambda: b"run b good" in (disk / OWN / "slot").read_bytes())
        async with welcomed(server):
            await player.type(await line_of(server))
        assert len(connection.read_text().split("\n")[4]) == 64


@pytest.mark.deep
async def test_a_torn_download_changes_nothing_and_is_fetched_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What did not arrive whole is not written; the client works on, and the next boot fetches it."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    newer = endpoints._lua("client.lua").replace("client 0.", "client newer 0.", 1)
    hand_out(server, monkeypatch, newer, torn=1)
    async with playing(disk) as player:
        await player.says("cc status", "could not be fetched: it did not arrive whole")
        assert not (disk / OWN / "client.b.lua").exists()
        async with welcomed(server):
            await player.do("reboot")
        await until(lambda: b"run b good" in (disk / OWN / "slot").read_bytes())
        assert (disk / OWN / "client.b.lua").read_text() == newer


@pytest.mark.deep
async def test_a_client_that_crashes_is_taken_back_and_not_fetched_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the new one fails the old one connects again, at once; only `cc update` tries the new one again."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    broken = "\nerror('a bug')\nreturn require(".join(endpoints._lua("client.lua").rsplit("\nreturn require(", 1))
    hand_out(server, monkeypatch, broken)
    bad = b"bad " + sha256(broken.encode()).hexdigest().encode()
    async with playing(disk) as player:
        await until(lambda: bad in (disk / OWN / "slot").read_bytes())
        await player.says("cc status", "Connected as 7")
        await player.says("cc status", "Client 9.9.9 did not run here")
        await player.says("cc log", "a bug")
        assert b"run a good" in (disk / OWN / "slot").read_bytes()
        async with welcomed(server):
            await player.do("reboot")
        await player.says("cc status", "Client 9.9.9 did not run here")


def hurry(disk: Path) -> None:
    """Let the looks at a client on trial be 0.1 s apart."""
    boot = disk / OWN / "boot.lua"
    slow = boot.read_text()
    assert slow.count("LOOK_EVERY_S=5") == 1
    boot.write_text(slow.replace("LOOK_EVERY_S=5", "LOOK_EVERY_S=0.1"))


@pytest.mark.deep
async def test_a_client_that_runs_and_says_nothing_is_taken_back_without_a_reboot(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that only waits for events is ended after its twelve looks, here 0.1 s apart, and the old one connects."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    hurry(disk)
    idle = "\nwhile true do coroutine.yield() end\nreturn require("
    silent = idle.join(endpoints._lua("client.lua").rsplit("\nreturn require(", 1))
    hand_out(server, monkeypatch, silent)
    bad = b"bad " + sha256(silent.encode()).hexdigest().encode()
    async with playing(disk) as player:
        await until(lambda: bad in (disk / OWN / "slot").read_bytes())
        await player.says("cc status", "Connected as 7")
        await player.says("cc status", "Client 9.9.9 did not run here")
        await player.says("cc log", "without a welcome")


@pytest.mark.deep
async def test_a_client_on_trial_that_is_answered_and_not_welcome_is_taken_back(server: Server, tmp_path: Path) -> None:
    """The server is there, and the client asks for another page of it than the one that takes computers in."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    hurry(disk)
    present = older(disk)
    own = disk / OWN
    (own / "client.b.lua").write_bytes(present)
    digest = sha256(present).hexdigest()
    (own / "slot").write_text(f"cc-orchestrator slot 1\nrun b trial 0 {digest}\nend\n")
    connection = (own / "connection").read_text()
    (own / "connection").write_text(connection.replace("/computer\n", "/nowhere\n", 1))
    async with playing(disk) as player:
        await until(lambda: b"bad " + digest.encode() in (own / "slot").read_bytes())
        assert b"run a good" in (own / "slot").read_bytes()
        await player.says("cc log", "without a welcome")


@pytest.mark.deep
async def test_installing_again_updates_and_stays_the_same_computer(server: Server, tmp_path: Path) -> None:
    """Without a code the connection stays; with a new one that names nobody the computer keeps its name."""
    disk = tmp_path / "disk"
    await installed(server, disk)
    connection = (disk / OWN / "connection").read_bytes()
    async with playing(disk) as player:
        await player.says("cc status", "Connected as 7")
        await player.type(f"wget run {server.url}/install")
        await player.sees("This is computer 7 of")
        assert (disk / OWN / "connection").read_bytes() == connection
        async with welcomed(server):
            await player.type(await line_of(server))
        assert (disk / OWN / "connection").read_bytes() != connection
        await player.says("cc status", "Connected as 7")
        assert await online(server) == {"7": True}


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so that only the disk tells."""
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                if holds():
                    return
            except FileNotFoundError:
                pass
            await asyncio.sleep(0.05)
