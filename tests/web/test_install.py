"""Pairing and installing: the real installer in Lua against the real server, and the codes behind it."""

import asyncio
import hmac
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from orchestrator.adapters.bus.local import LocalBus
from orchestrator.adapters.store import open_store
from orchestrator.core.audit.tables import CODE_LIFE
from orchestrator.core.errors import InvalidRequest, Unauthenticated
from orchestrator.core.ports import SYSTEM_STREAM
from orchestrator.core.task.facts import TaskId
from orchestrator.core.wire import wire
from orchestrator.engine.tasks import TaskService
from orchestrator.runtime.clock import SystemClock
from orchestrator.web import install as endpoints
from orchestrator.web import people
from orchestrator.web.auth import TokenAuthorizer
from orchestrator.web.peers import WRONG_TRIES, TooManyTries
from orchestrator.web.people import Pairings
from tests.harness.player import line_of, playing
from tests.harness.support import dialed
from tests.harness.whole_server import Server, running
from tests.thinning import thinned

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
# That it installs, and what it leaves, is in tests/story/test_installing.py and tests/lua/installing_spec.lua.


async def test_where_startup_is_off_that_is_said(server: Server, tmp_path: Path) -> None:
    """With `shell.allow_startup` off the client would not come back: the installer says what to type."""
    async with playing(tmp_path / "disk") as player:
        await player.type("set shell.allow_startup false")
        await player.type(await line_of(server))
        await player.sees("set shell.allow_startup true")


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("options", "gets"), [((), "farm"), (("--label", "mine"), "mine")])
async def test_a_label_is_given_only_to_a_computer_without_one(
    server: Server, tmp_path: Path, options: tuple[str, ...], gets: str
) -> None:
    """The pairing's label is set on a computer that has none."""
    async with playing(tmp_path / "disk", *options) as player:
        await player.type(await line_of(server, label="farm"))
        await player.sees("This is computer 7")
        await player.says("label get", f'"{gets}"')


async def test_a_full_disk_costs_no_code(server: Server, tmp_path: Path) -> None:
    """What is missing is said in bytes, with the biggest files; when they are gone the same line works."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "map").write_bytes(b"x" * 50_000)
    room_to_install = endpoints.client_offered().size + 95_000
    async with playing(disk, "--capacity", str(room_to_install)) as player:
        line = await line_of(server)
        await player.type(line)
        await player.sees("too full: delete files of ")
        await player.sees("The biggest are /map (50000 bytes).")
        assert list(player.files()) == ["map"]
        await player.type("rm map")
        await player.type(line)
        await player.sees("This is computer 7")


async def test_a_torn_download_costs_no_code(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is not the one which the server named is not written; the same line works afterwards."""
    stock, torn = endpoints._lua, [True]

    def lua(name: str) -> str:
        return stock(name)[:-1] if name == "client.lua" and torn.pop() else stock(name)

    endpoints.client_offered()
    monkeypatch.setattr(endpoints, "_lua", lua)
    async with playing(tmp_path / "disk") as player:
        line = await line_of(server)
        await player.type(line)
        await player.sees("The client did not arrive whole from")
        assert player.files() == {}
        torn.append(False)
        await player.type(line)
        await player.sees("This is computer 7")


@pytest.mark.deep
async def test_a_wrong_code_is_a_sentence_in_the_game(server: Server, tmp_path: Path) -> None:
    """Without a code, with a wrong one, and with a used one the installer says what to do, and starts nothing."""
    told = await pairing(server)
    await pair(server, told["code"])
    async with playing(tmp_path / "disk") as player:
        await player.type(f"wget run {server.url}/install")
        await player.sees("The code is missing")
        for line in (f"wget run {server.url}/install AAAA-AAAA", told["line"]):
            await player.type("clear")
            await player.type(line)
            await player.sees("Make a new one with `cc-orchestrator pair`")
        assert "startup" not in player.files()
        assert ".cc-orchestrator/connection" not in player.files()


async def pinned(server: Server, **body: str | None) -> str:
    """The line that checks the installer."""
    line: str = (await pairing(server, **body))["pinned"]
    assert len(line) <= 512, "the game cuts what is pasted"
    assert "\n" not in line
    return line


@pytest.mark.thinned(2)
@pytest.mark.parametrize("family", ["advanced", "computer"])
async def test_a_pinned_line_installs_what_the_server_has(server: Server, tmp_path: Path, family: str) -> None:
    """At the prompt of the game's `lua`, on computers with and without tabs; the sha256 in it is the installer's."""
    told = await pairing(server)
    installer = (await server.http.get("/install")).content
    assert told["sha256"] == sha256(installer).hexdigest()
    assert told["sha256"] in told["pinned"]
    assert len(told["pinned"]) <= 512
    async with playing(tmp_path / "disk", "--family", family) as player:
        await player.type("lua")
        await player.type(told["pinned"])
        await player.sees("This is computer 7")
        await player.sees(f"of {server.url}")
    assert (tmp_path / "disk" / ".cc-orchestrator" / "connection").exists()


LIAR = "return{hex=function()return'%s'end}"


@pytest.mark.thinned(2)
@pytest.mark.parametrize("what", thinned(["install.lua", "one byte", "sha256.lua", "both"], 2))
async def test_a_pinned_line_runs_nothing_that_was_changed_on_the_way(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Neither another installer, nor one byte of it, nor a program that lies about it; the same line works then."""
    stock, told = endpoints._lua, await pairing(server)
    evil = "print('PW'..'NED')\n"

    def lua(name: str) -> str:
        text = str(stock(name))
        if name == "install.lua" and what == "one byte":
            return text.replace("the", "teh", 1)
        if name == "install.lua" and what in ("install.lua", "both"):
            return evil + text
        if name == "sha256.lua" and what in ("sha256.lua", "both"):
            return LIAR % str(told["sha256"])
        return text

    async with playing(tmp_path / "disk") as player:
        monkeypatch.setattr(endpoints, "_lua", lua)
        await player.type("lua")
        await player.type(told["pinned"])
        await player.sees("altered: not run")
        assert "PWNED" not in await player.screen()
        assert player.files() == {}
        monkeypatch.setattr(endpoints, "_lua", stock)
        await player.type(told["pinned"])
        await player.sees("This is computer 7")


async def test_every_pinned_line_asks_at_points_of_its_own(server: Server) -> None:
    """Who has seen one line cannot make a program that passes another; 200 changed programs pass none."""
    lines = [await pinned(server) for _ in range(3)]
    pairs = [re.findall(r"(\d+) (\d+)", re.findall(r'for k,w in\("([^"]+)"\)', line)[0]) for line in lines]
    assert [len(one) for one in pairs] == [5, 5, 5]
    assert len({point for one in pairs for point, _ in one}) == 15
    genuine = endpoints._lua("sha256.lua")
    changed = [f"{genuine[:place]}#{genuine[place + 1 :]}" for place in range(200)]

    def passes(text: str) -> bool:
        return all(_at(text, int(point)) == int(value) for point, value in pairs[0])

    assert passes(genuine)
    assert not any(passes(one) for one in (*changed, f"\0{genuine}", genuine[:-1]))
    assert f"#f=={len(genuine)} and" in lines[0], "a longer one would be easier to make"
    assert len(genuine) <= 3000


def _at(text: str, point: int) -> int:
    """The polynomial over the bytes of a text, computed another way than the server does."""
    data = text.encode()
    terms = sum(byte * pow(point, len(data) - 1 - place, 67_108_859) for place, byte in enumerate(data))
    return int((pow(point, len(data), 67_108_859) + terms) % 67_108_859)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("public_url", "warns"),
    [
        ("http://192.168.0.12:8765", True),
        ("http://farm.example", True),
        ("https://farm.example", False),
        ("http://127.0.0.1:8765", False),
        ("http://[::1]:8765", False),
        ("http://localhost:8765", False),
    ],
)
async def test_plain_http_is_said_where_the_line_is_made(tmp_path: Path, public_url: str, warns: bool) -> None:
    async with running(tmp_path / "server", public_url=public_url) as server:
        told = await pairing(server)
    assert told["url"] == public_url
    said = told["warning"]
    assert bool(said) is warns
    if warns:
        assert said.startswith("This address is plain http: ")
        assert "--pin" in said
        assert "--public-url https://" in said
    assert len(told["pinned"]) <= 512


@pytest.mark.parametrize(("host", "server_said"), [("cc.example:80", "http://cc.example"), ("a:8080", "http://a:8080")])
async def test_the_usual_port_is_left_out_so_that_the_installer_is_the_same(
    server: Server, host: str, server_said: str
) -> None:
    """A client writes `Host` with or without it as it likes."""
    assert f'SERVER="{server_said}"' in (await server.http.get("/install", headers={"Host": host})).text


async def test_who_is_paired_again_without_a_name_stays_who_they_are(server: Server) -> None:
    """The token of an earlier pairing keeps the name, and is worth nothing afterwards; a wrong one is no help."""
    first = (await pair(server, (await pairing(server))["code"])).json()
    code = (await pairing(server))["code"]
    again = await server.http.post("/v1/pair", json={"code": code, "computer_id": 7, "token": first["token"]})
    assert again.json()["computer"] == "7"
    code = (await pairing(server))["code"]
    third = await server.http.post("/v1/pair", json={"code": code, "computer_id": 7, "token": first["token"]})
    assert third.json()["computer"] == "7-2"
    code = (await pairing(server))["code"]
    fourth = await server.http.post("/v1/pair", json={"code": code, "computer_id": 7, "token": server.admin})
    assert fourth.json()["computer"] == "7-3"


async def test_the_installer_knows_the_client_that_is_handed_out(server: Server) -> None:
    """Size, sha256 and version of what `/client.lua` gives stand in the installer, and welcome says the same."""
    text = (await server.http.get("/client.lua")).content
    installer = (await server.http.get("/install")).text
    digest = sha256(text).hexdigest()
    offer = endpoints.client_offered()
    assert (offer.size, offer.sha256) == (len(text), digest)
    assert text.startswith(f"-- The cc-orchestrator client {offer.version} ".encode())
    assert digest in installer
    assert "@" + "CLIENT" not in installer
    async with dialed(server.url, await server.computer("3")) as client:
        assert (await client.greet()).client is None
    async with dialed(server.url, await server.computer("4")) as client:
        offered = (await client.greet(capabilities=(wire.UPDATE,))).client
    assert offered is not None
    assert offered.model_copy(update={"mac": None}) == offer


async def test_the_key_of_updates_comes_with_the_token_alone_and_signs_what_is_offered(server: Server) -> None:
    """Each computer has another one, each boot another signature; nothing but the answer to the code says it."""
    told = [(await pair(server, (await pairing(server))["code"])).json() for _ in range(2)]
    keys = [one["update_key"] for one in told]
    assert len({*keys}) == 2
    offers = set()
    for boot in ("boot-1", "boot-2"):
        async with dialed(server.url, told[0]["token"]) as client:
            offered = (await client.greet(capabilities=(wire.UPDATE,), boot=boot, computer_id=7)).client
        assert offered is not None
        said = f"cc-orchestrator client\n{offered.version}\n{offered.size}\n{offered.sha256}\n{boot}"
        assert offered.mac == hmac.new(keys[0].encode(), said.encode(), "sha256").hexdigest()
        offers.add(offered.mac)
    assert len(offers) == 2
    items = await server.orchestrator.store.read(TaskId(SYSTEM_STREAM))
    journal = " ".join(item.model_dump_json() for item in items)
    assert "agreed" in journal
    for secret in (*keys, server.orchestrator.hub._update_secret):
        assert secret not in journal


async def test_an_address_in_public_url_goes_into_the_line_and_the_installer(
    tmp_path: Path,
) -> None:
    """`public_url` stands in the line, in the installer and in the computer's settings."""
    async with running(tmp_path / "server", public_url="https://cc.example:8443") as server:
        told = await pairing(server)
        assert told["line"] == f"wget run https://cc.example:8443/install {told['code']}"
        assert 'SERVER="https://cc.example:8443"' in (await server.http.get("/install")).text
        assert (await pair(server, told["code"])).json()["url"] == "wss://cc.example:8443/computer"


@pytest.mark.thinned(3)
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
        assert (await client.greet(computer_id=7)).computer == "7"


async def test_a_code_is_no_token_and_is_not_listed(server: Server) -> None:
    """A code is accepted by no other endpoint, and neither codes nor their hashes are among the tokens."""
    code = (await pairing(server))["code"]
    for text in (code, code.replace("-", "")):
        assert (await server.ask("GET", "/v1/tasks", token=text)).status_code == 401
    assert {one["kind"] for one in (await server.ask("GET", "/v1/tokens")).json()["tokens"]} == {"person"}


async def test_the_label_that_the_installer_tells_is_a_former_one(server: Server) -> None:
    """A computer that is renamed between its pairing and its first connection had the label of then, too."""
    body = {"code": (await pairing(server))["code"], "computer_id": 7, "label": "reactor"}
    token = (await server.http.post("/v1/pair", json=body)).json()["token"]
    async with dialed(server.url, token) as client:
        await client.greet(computer_id=7, label="farm")
        shown = (await server.ask("GET", "/v1/computers/7")).json()
        assert (shown["label"], shown["former_labels"]) == ("farm", ["reactor"])


async def test_names_are_the_id_unless_somebody_chose(server: Server) -> None:
    """Without a name the id counts, then ID-2 and so on; a chosen name replaces and cuts off whoever had it."""
    bodies: list[dict[str, Any]] = [{}, {"computer": None, "label": None}, {"computer": "", "label": ""}]
    names = [(await pair(server, (await pairing(server, **body))["code"])).json()["computer"] for body in bodies]
    assert names == ["7", "7-2", "7-3"]
    first = (await pair(server, (await pairing(server, computer="farm"))["code"])).json()
    async with dialed(server.url, first["token"]) as client:
        await client.greet(computer_id=7)
        second = (await pair(server, (await pairing(server, computer="farm"))["code"], 9)).json()
        assert (first["computer"], second["computer"]) == ("farm", "farm")
        assert await client.closed() == (1008, "the token was revoked")


@pytest.mark.parametrize("label", ["a\nb", "é世", "\x7f"])
async def test_a_label_that_the_game_would_not_keep_is_refused(server: Server, label: str) -> None:
    """A code with it is not made, and the sentence says what a label is made of."""
    refused = await server.ask("POST", "/v1/pairings", {"label": label})
    assert refused.status_code == 422
    error = refused.json()["error"]
    assert "up to 32 letters, digits and signs of ASCII" in f"{error['message']} {error['remedy']}"
    kept = "".join(chr(code) for code in range(32, 64))
    assert (await server.ask("POST", "/v1/pairings", {"label": kept})).status_code == 201


async def test_a_code_that_is_too_long_is_an_unknown_one(server: Server) -> None:
    assert (await pair(server, "A" * 41)).json()["error"]["code"] == "code_unknown"


async def test_used_codes_are_no_guesses(server: Server) -> None:
    """Ten computers behind one address that use their codes twice do not lock it out."""
    code = (await pairing(server))["code"]
    await pair(server, code)
    for _ in range(WRONG_TRIES + 1):
        assert (await pair(server, code)).json()["error"]["code"] == "code_used"


async def test_guessing_is_slow(server: Server) -> None:
    """After ten wrong codes in a minute the computer is told to wait."""
    tries = await asyncio.gather(*(pair(server, f"AAAA-AAA{n}") for n in range(WRONG_TRIES + 3)))
    assert sorted(one.status_code for one in tries) == [401] * WRONG_TRIES + [429] * 3
    refused = await pair(server, "AAAA-AABA")
    assert refused.status_code == 429
    assert refused.json()["error"]["remedy"].startswith("Wait a minute")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("ids", [[7], range(50)], ids=["as the same computer", "as each computer"])
async def test_wrong_codes_of_one_player_stop_nobody(
    server: Server, monkeypatch: pytest.MonkeyPatch, ids: Sequence[int]
) -> None:
    """All players of a game server have one address, and a program in the game may say any id."""
    monkeypatch.setattr(people, "SLOW_S", 0.0)
    monkeypatch.setattr(server.orchestrator.endpoints.pairings._of_address, "most", 20)
    code = (await pairing(server))["code"]
    for number in range(60):
        await pair(server, f"AAAA-{number:04}", ids[number % len(ids)])
    assert (await pair(server, "AAAA-9999", 7)).status_code == 429
    assert (await pair(server, code, 7)).status_code == 200


@pytest.mark.thinned(2)
async def test_guesses_wait_where_many_were_wrong(pairings: Pairings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at a code then costs a pause: so many connections, so many guesses a second."""
    waits: list[float] = []
    sleep = asyncio.sleep

    async def sleeping(seconds: float) -> None:
        if seconds:
            waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("orchestrator.web.people.asyncio.sleep", sleeping)
    for number in range(people.MOST_OF_ADDRESS + 5):
        with suppress(Unauthenticated, TooManyTries):
            await pairings.use(f"nonsense{number}", computer_id=number, peer="2001:db8::1", at=NOW)
    assert waits == [people.SLOW_S] * 5
    # One peer has all of these addresses.
    with pytest.raises(TooManyTries):
        await pairings.use("nonsense", computer_id=1_000, peer="2001:db8::2", at=NOW)
    with pytest.raises(Unauthenticated):
        await pairings.use("nonsense", computer_id=1_000, peer="2001:db8:0:1::2", at=NOW)


async def test_one_code_is_not_looked_at_without_end(server: Server) -> None:
    """It is no guess; that is no reason to look at it a thousand times."""
    code = (await pairing(server))["code"]
    statuses = [(await pair(server, code, number)).status_code for number in range(people.MOST_OF_CODE + 2)]
    assert statuses == [200] + [401] * (people.MOST_OF_CODE - 1) + [429] * 2
    assert (await pair(server, (await pairing(server))["code"])).status_code == 200


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
    for number in range(WRONG_TRIES + 5):
        made = await pairings.make("", "", NOW)
        await pairings.use(made.code, computer_id=number, peer="a", at=NOW)
    for _ in range(WRONG_TRIES):
        with pytest.raises(Unauthenticated):
            await pairings.use("nonsense", computer_id=1, peer="a", at=NOW)
    with pytest.raises(TooManyTries):
        await pairings.use("nonsense", computer_id=1, peer="a", at=NOW)
    with pytest.raises(Unauthenticated):
        await pairings.use("nonsense", computer_id=1, peer="b", at=NOW)
