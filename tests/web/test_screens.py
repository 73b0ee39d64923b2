"""The endpoints of screens and keys, over a whole server and a stub computer: who may, and what is written down."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import StoreBusy
from orchestrator.core.task.system_facts import KeysSent
from orchestrator.web import computers as screens
from tests.harness.screening import KEYS, SCREEN, events, stub, told
from tests.harness.support import dialed, hello
from tests.harness.whole_server import Server, running
from tests.waiting import HANG_S


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(tmp_path) as one:
        yield one


async def sent(server: Server) -> list[dict[str, Any]]:
    """What the audit has of keys, whole."""
    found = (await server.ask("GET", "/v1/audit?system=1&kind=keys_sent&whole=1")).json()["items"]
    return [one["fact"] for one in found]


# -- pictures ----------------------------------------------------------------------------


async def test_a_screen_is_shown_as_it_is_and_changes(server: Server) -> None:
    """Whole, then what is drawn; hostile text is characters like any others; away, and back."""
    token = await server.computer("farm")
    looker = await server.person("otto")
    async with events(server, looker) as stream:
        assert await told(stream) == ("away", {"of": "terminal"})
        async with stub(server, token) as computer:
            kind, data = await told(stream)
            assert (kind, data["whole"], data["width"], data["height"], len(data["rows"])) == (
                "picture",
                True,
                51,
                19,
                19,
            )
            assert data["palette"][0] == "#f0f0f0"
            assert data["rows"][0] == {"y": 1, "text": [" "] * 51, "fg": "0" * 51, "bg": "f" * 51}
            computer.screen.draw(2, b"<script>\x1b[31m\n\x03", "e", "1")
            kind, data = await told(stream)
            assert (kind, data["whole"], [row["y"] for row in data["rows"]]) == ("picture", False, [2])
            (row,) = data["rows"]
            assert "".join(row["text"]).rstrip() == "<script>\u2190[31m \u2665"
            assert (row["fg"], row["bg"]) == ("e" * 51, "1" * 51)
            async with events(server, looker, f"{SCREEN}?of=left") as other:
                message = "A stub computer has no monitor that can be watched."
                assert await told(other) == ("unreadable", {"of": "left", "message": message})
            listed = (await server.ask("GET", "/v1/computers/farm/screens", token=looker)).json()
            assert listed == {"screens": [{"of": "terminal", "width": 51, "height": 19}]}
        assert await told(stream) == ("away", {"of": "terminal"})


async def test_who_may_not_look_any_more_sees_no_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revoked token ends its stream at once, not with the next comment, and another's goes on."""
    monkeypatch.setattr(screens, "SILENCE_S", 10 * HANG_S)
    token, looker = await server.computer("farm"), await server.person("otto")
    async with stub(server, token) as computer, events(server, looker) as stream, events(server) as other:
        assert (await told(stream))[0] == (await told(other))[0] == "picture"
        await server.ask("DELETE", "/v1/tokens/person/otto")
        with pytest.raises(AssertionError, match="is over"):
            await told(stream)
        monkeypatch.setattr(screens, "SILENCE_S", 0.05)
        computer.screen.draw(1, b"still")
        assert (await told(other))[1]["rows"][0]["text"][:5] == list("still")
        async with asyncio.timeout(HANG_S):
            async for kind, data in other:
                if kind == "comment":
                    assert data == ": still here"
                    break


async def test_too_many_who_look_are_told_so(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a status, and not in the middle of a stream; so is what no screen is called."""
    monkeypatch.setattr("orchestrator.computers.hub.mirror.MAX_WATCHERS", 1)
    await server.computer("farm")
    async with events(server) as stream:
        assert (await told(stream))[0] == "away"
        refused = await server.ask("GET", SCREEN)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_watch")
    assert (await server.ask("GET", f"{SCREEN}?of={'x' * 65}")).status_code == 422
    assert (await server.ask("GET", "/v1/computers/nobody/screen")).status_code == 404
    away = await server.ask("GET", "/v1/computers/farm/screens")
    assert (away.status_code, away.json()["error"]["code"]) == (409, "computer_away")


@pytest.mark.parametrize("endpoint", [("GET", SCREEN), ("GET", f"{SCREEN}s"), ("POST", KEYS)])
async def test_only_people_come_in(server: Server, endpoint: tuple[str, str]) -> None:
    computer = await server.computer("farm")
    made = await server.ask("POST", "/v1/tokens", {"kind": "agent", "name": "bot", "roles": ["submitter"]})
    agent = made.json()["token"]
    assert (await server.ask(*endpoint, token="nonsense")).status_code == 401
    assert (await server.ask(*endpoint, token=computer)).status_code == 401
    assert (await server.ask(*endpoint, token=agent)).status_code == 403


# -- keys --------------------------------------------------------------------------------


async def test_the_owner_and_admins_type_and_it_is_written_down(server: Server) -> None:
    """Whoever paired it also when they are no admin any more; secrets are not kept; others are refused, and noted."""
    olga = await server.person("olga", "submitter", "admin")
    made = await server.ask("POST", "/v1/tokens", {"kind": "computer", "name": "farm"}, token=olga)
    await server.ask("DELETE", "/v1/tokens/person/olga")
    olga, otto = await server.person("olga", "submitter"), await server.person("otto", "submitter", "reviewer")
    async with stub(server, made.json()["token"]) as computer:
        secret = "ghp_" + "a1B2" * 9
        for token, body in (
            (olga, {"text": f"login {secret}\n"}),
            (server.admin, {"keys": ["f1", "x", "terminate"]}),
            (olga, {"text": "\u2665".replace("\u2665", "\u00e9")}),
        ):
            answer = await server.ask("POST", KEYS, body, token=token)
            assert (answer.status_code, answer.json()) == (200, {"delivered": True, "message": ""})
        assert computer.screen.typed == [
            *({"paste": f"login {secret}"}, {"key": "enter"}, {"key": "f1"}, {"char": "x"}, {"terminate": True}),
            {"char": "\u00e9"},
        ]
        for token in (otto,):
            refused = await server.ask("POST", KEYS, {"text": "x"}, token=token)
            assert (refused.status_code, "may not type" in refused.json()["error"]["message"]) == (403, True)
        computer.screen.refuses = "Its window is gone."
        answer = await server.ask("POST", KEYS, {"text": "y"})
        assert answer.json() == {"delivered": False, "message": "Its window is gone."}
        assert len(computer.screen.typed) == 6
    facts = await sent(server)
    assert secret not in json.dumps(facts)
    assert [one["computer"] for one in facts] == ["farm"] * 4
    assert facts[0]["text"].startswith("login [redacted ")
    assert [one["keys"] for one in facts] == [[], ["f1", "x", "terminate"], [], []]
    noted = (await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused")).json()["items"]
    assert any(one["fact"]["door"] == f"POST {KEYS}" and one["actor"]["id"] == "otto" for one in noted)


async def test_a_computer_that_was_paired_anew_has_its_new_owner(server: Server) -> None:
    """Who paired it before may type no more."""
    olga, otto = await server.person("olga", "admin"), await server.person("otto", "admin")
    await server.ask("POST", "/v1/tokens", {"kind": "computer", "name": "farm"}, token=olga)
    for name in ("olga", "otto"):
        await server.ask("DELETE", f"/v1/tokens/person/{name}")
    olga, again = await server.person("olga"), await server.person("otto")
    assert (await server.ask("POST", KEYS, {"text": "x"}, token=olga)).json()["error"]["code"] == "computer_away"
    assert (await server.ask("POST", KEYS, {"text": "x"}, token=again)).status_code == 403
    # A second good token of the same name is somebody's who might sit there: neither is sure to be alone.
    ina = await server.person("ina", "admin")
    await server.ask("POST", "/v1/tokens", {"kind": "computer", "name": "farm"}, token=ina)
    assert (await server.ask("POST", KEYS, {"text": "x"}, token=olga)).status_code == 403
    del otto


async def test_nothing_goes_out_that_is_not_written_down(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the note cannot be made, nothing is typed."""
    service = server.orchestrator.service
    record = service.record

    async def record_others(fact: Any, *rest: Any, **more: Any) -> None:
        if isinstance(fact, KeysSent):
            raise StoreBusy("The disk is full.", remedy="Make room.")
        await record(fact, *rest, **more)

    async with stub(server, await server.computer("farm")) as computer:
        monkeypatch.setattr(service, "record", record_others)
        assert (await server.ask("POST", KEYS, {"text": "x"})).status_code == 503
        monkeypatch.undo()
        assert (await server.ask("POST", KEYS, {"text": "y"})).status_code == 200
        assert computer.screen.typed == [{"char": "y"}]


async def test_where_it_is_switched_off_nobody_types(tmp_path: Path) -> None:
    """Not even an admin; looking goes on."""
    async with running(tmp_path, remote_keys="off") as server, stub(server, await server.computer("farm")) as computer:
        refused = await server.ask("POST", KEYS, {"text": "x"})
        assert (refused.status_code, "remote_keys" in refused.json()["error"]["remedy"]) == (403, True)
        assert (await server.ask("GET", f"{SCREEN}s")).status_code == 200
        assert computer.screen.typed == []


async def test_who_is_away_frozen_or_old_is_told_with_a_sentence(server: Server) -> None:
    """And nothing is written down, as nothing goes out."""
    token = await server.computer("farm")
    away = (await server.ask("POST", KEYS, {"text": "x"})).json()["error"]
    assert (away["code"], "is away" in away["message"]) == ("computer_away", True)
    async with dialed(server.url, token) as client:
        await client.greet()
        async with asyncio.timeout(HANG_S):
            while (old := (await server.ask("POST", KEYS, {"text": "x"})).json()["error"])["code"] != "cannot_type":
                pass
        assert "too old" in old["message"]
    # Another computer has a right to the name as well: nobody can tell which is meant.
    async with dialed(server.url, await server.computer("farm")) as client:
        await client.send(hello(computer_id=9, boot="boot-9"))
        await client.hear("refused")
    frozen = await server.ask("POST", KEYS, {"text": "x"})
    assert (frozen.status_code, "is frozen" in frozen.json()["error"]["message"]) == (409, True)
    assert await sent(server) == []


async def test_nobody_types_faster_than_people(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each person at each computer has a budget of their own; what is refused is not written down."""
    monkeypatch.setattr(screens, "KEYS_AT_ONCE", 2.0)
    monkeypatch.setattr(screens, "KEYS_IN_S", 0.001)
    monkeypatch.setattr(screens, "_MAX_BUDGETS", 1)
    other = await server.person("olga", "admin")
    async with stub(server, await server.computer("farm")) as computer:
        statuses = [(await server.ask("POST", KEYS, {"text": "x"})).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert (await server.ask("POST", KEYS, {"text": "x"}, token=other)).status_code == 200
        assert len(computer.screen.typed) == len(await sent(server)) == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": "x", "keys": ["enter"]},
        {"text": ""},
        {"keys": []},
        {"keys": ["reboot"]},
        {"keys": ["x"] * 41},
        {"text": "x" * 513},
        {"text": "\u4e2d"},
        {"text": 5},
        {"text": "x", "more": 1},
    ],
)
async def test_what_cannot_be_typed_is_refused(server: Server, body: Any) -> None:
    await server.computer("farm")
    refused = await server.ask("POST", KEYS, body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_request")
