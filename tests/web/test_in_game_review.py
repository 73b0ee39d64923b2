"""The reviewer in the game over real sockets: who may review where, page by page, and what a decision is bound to."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.core.wire import wire
from orchestrator.testing import ManualClock
from orchestrator.web.in_game import pages
from orchestrator.web.in_game.commands import OTHERS_A_MINUTE
from orchestrator.web.in_game.review import ENDS_AFTER, MOST_SESSIONS
from orchestrator.web.pins import WRONG_PINS, WRONG_PINS_WITHIN
from tests.harness.player import tree
from tests.harness.support import Disk, Listening, call, final, says
from tests.harness.whole_server import Server, connected, running
from tests.web.test_in_game import Player, computer_of, player

PIN = "480251"
CAN = ("desk", "undo", wire.REVIEW)
"""What a client of now says of itself."""
BY_PIN = 'computers = ["lectern*"]\npeople = ["admin"]\nroles = ["reviewer"]\nproof = "pin"'
PAIRED = 'computers = ["pocket-*"]\nroles = ["reviewer", "admin"]\nproof = "paired"'
ASKS = says(call("ask_user", question="Which farm?", options=["wheat", "cactus"]))


def allowing(directory: Path, review: str) -> Path:
    """A policy that asks for each call, and allows a review so."""
    path = directory / "policy.toml"
    rule = '[[rules]]\nid = "asks"\neffect = "ask"\ntools = ["cc_write"]\n[[rules]]\nid = "talks"\neffect = "allow"\n'
    path.write_text(f'[in_game_review]\n{review}\n{rule}tools = ["ask_user"]\n', "utf-8")
    return path


def writes(lines: int = 3) -> dict[str, Any]:
    """A reply that writes a program of so many lines."""
    return says(call("cc_write", path="farm.lua", content="".join(f"print({n})\n" for n in range(lines))))


@dataclass
class Reviewer:
    """Somebody at a computer who reviews."""

    player: Player
    session: str = ""
    size: dict[str, int] = field(default_factory=dict)

    async def step(self, verb: str, **fields: Any) -> tuple[wire.Told, dict[str, Any]]:
        """One step, and its answer."""
        sent = {"session": self.session, **fields}
        told, body = await self.player.ask(verb, wire_text(sent))
        return told, cast("dict[str, Any]", body)

    async def open(self, person: str = "ann", pin: str = PIN, **size: int) -> dict[str, Any]:
        """Begin; the list."""
        told, body = await self.step("review", session="", person=person, pin=pin)
        assert told.ok, told
        self.session, self.size = body["session"], size
        return body

    async def page(self, entry: dict[str, str], number: int = 1, nonce: str = "") -> dict[str, Any]:
        """One page of an entry."""
        told, body = await self.step("review_page", **about(entry), page=number, nonce=nonce, **self.size)
        assert told.ok, told
        return body

    async def read(self, entry: dict[str, str]) -> list[dict[str, Any]]:
        """All pages of an entry, in order."""
        read = [await self.page(entry)]
        while read[-1]["page"] < read[-1]["pages"]:
            read.append(await self.page(entry, len(read) + 1, read[-1]["nonce"]))
        return read

    async def decide(self, entry: dict[str, str], page: dict[str, Any], action: str, **fields: Any) -> wire.Told:
        """Decide by what a page says."""
        return (await self.decided(entry, page, action, **fields))[0]

    async def decided(
        self, entry: dict[str, str], page: dict[str, Any], action: str, **fields: Any
    ) -> tuple[wire.Told, dict[str, Any]]:
        """Decide by what a page says; with the words for the person."""
        said = {"digest": page["digest"], "nonce": page["nonce"], "action": action, **fields}
        return await self.step("review_decide", **{**about(entry), **said})


def about(entry: dict[str, str]) -> dict[str, str]:
    """What a step says of an entry of the list."""
    return {"id": entry["id"], **({"task": entry["task"]} if entry["is"] == "asks" else {})}


def wire_text(sent: dict[str, Any]) -> str:
    """The body of a step, as the client writes it."""
    return json.dumps(sent)


@asynccontextmanager
async def at(server: Server, token: str, can: tuple[str, ...] = CAN) -> AsyncIterator[Reviewer]:
    """Somebody at a connected computer."""
    async with player(server, token, capabilities=can) as here:
        yield Reviewer(here)


async def reviewer(server: Server, name: str = "ann", pin: str = PIN, *roles: str) -> str:
    """A person with a PIN; their token."""
    token = await server.person(name, *(roles or ("reviewer",)))
    answer = await server.ask("POST", "/v1/pin", {"pin": pin}, token=token)
    assert answer.status_code == 200, answer.text
    assert PIN not in answer.text
    return token


@asynccontextmanager
async def game(
    directory: Path, *script: Any, review: str = BY_PIN, files: dict[str, bytes] | None = None, **settings: Any
) -> AsyncIterator[tuple[Server, Reviewer, str]]:
    """A server, ann at the lectern, and a task of bob on computer 3 that does what the script says."""
    settings = {"policy": allowing(directory, review), **settings}
    async with running(directory, model=Listening(*script, *[final()] * 9), **settings) as server:
        await reviewer(server)
        bob = await server.person("bob")
        async with connected(server, "3", Disk(files or {"farm.lua": b"print('old')\n"})):
            task = await server.submit(token=bob)
            await server.until(task, "review_requested", "question_asked")
            async with at(server, await server.computer("lectern-1")) as here:
                yield server, here, task


async def refusals(server: Server) -> list[dict[str, Any]]:
    """The refused attempts that the audit has."""
    return list((await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused")).json()["items"])


# -- who may review where ----------------------------------------------------------------


async def test_nobody_reviews_where_the_policy_says_nothing(tmp_path: Path) -> None:
    """Off by default; and where it names other computers."""
    async with running(tmp_path, model=Listening()) as server:
        await reviewer(server)
        async with at(server, await server.computer("lectern-1")) as here:
            told, _ = await here.step("review", person="ann", pin=PIN)
            assert (told.ok, told.code) == (False, "forbidden")
            assert "The policy allows no review at this computer." in str(told.message)
    async with game(tmp_path, writes(), review=BY_PIN.replace("lectern*", "throne")) as (_, here, _):
        assert (await here.step("review", person="ann", pin=PIN))[0].code == "forbidden"


async def test_a_reviewer_reads_and_approves_with_a_pin(tmp_path: Path) -> None:
    """The list, each page to the last character, then the decision; the audit says how it was proved."""
    async with game(tmp_path, writes(30)) as (server, here, task):
        listed = await here.open(columns=26, rows=20)
        (entry,) = listed["list"]
        assert (entry["is"], entry["title"]) == ("medium", "cc_write 3: farm.lua")
        read = await here.read(entry)
        assert len(read) > 2
        rows = [row for page in read for row in page["rows"]]
        assert all(len(row["text"]) <= 26 for row in rows)
        assert [row["text"] for row in rows if row["is"] == "added"] == [f"+print({n})" for n in range(30)]
        assert [row["text"] for row in rows if row["is"] == "removed"] == ["-print('old')"]
        texts = [row["text"] for row in rows]
        assert {"asks: bob (submitter)", "task: fix my farm", "computer: 3", "path: farm.lua"} <= set(texts)
        assert (await here.decide(entry, read[-1], "approve")).ok
        assert (await server.until(task, "task_ended"))["status"] == "Completed"
        audit = (await server.ask("GET", f"/v1/audit?task={task}")).json()["items"]
        said = {one["fact"]["kind"]: one["actor"] for one in audit if one["actor"]["id"] == "ann"}
        proof = {"kind": "person", "id": "ann", "auth": "pin@lectern-1"}
        assert said == {"review_noted": proof, "decision_recorded": proof}
        assert (await server.ask("GET", "/v1/audit/verify")).json()["faults"] == []
        assert (await server.ask("GET", "/v1/audit/check")).json()["findings"] == []
        told, body = await here.step("review")
        assert (told.ok, body["list"], body["person"]) == (True, [], "ann")


async def test_one_of_two_is_told_that_others_have_to_approve(tmp_path: Path) -> None:
    """The page says how many did and what they say; it runs after the second, and no word claims more before."""
    asks = "[requests]\napprovals = 2\n"
    async with game(tmp_path, writes(), review=f"{BY_PIN}\n{asks}") as (server, here, task):
        await reviewer(server, "eve", "771204")
        (entry,) = (await here.open(columns=26, rows=20))["list"]
        _, said = await here.decided(entry, (await here.read(entry))[-1], "approve")
        assert said["said"] == "Approved by you. It waits for others: 2 people have to approve it."
        assert (await server.ask("GET", f"/v1/tasks/{task}")).json()["status"] == "Paused"
        comment = {"text": "It is fine\nfor me."}
        assert (await server.ask("POST", f"/v1/requests/{entry['id']}/comment", comment)).status_code == 200
        (entry,) = (await here.open("eve", "771204", columns=26, rows=20))["list"]
        read = await here.read(entry)
        texts = [row["text"] for page in read for row in page["rows"]]
        assert {"approved: 1 of 2: ann", "admin says:", " It is fine", " for me."} <= set(texts)
        _, said = await here.decided(entry, read[-1], "approve")
        assert said["said"] == "Approved."
        assert (await server.until(task, "task_ended"))["status"] == "Completed"


async def test_who_follows_a_task_is_told_where_it_is_decided(tmp_path: Path) -> None:
    """At a computer where one reviews: with the command, or for an older client with how to get it."""
    ends = {CAN: "; `cc review` shows it.", ("desk",): "; to decide it here, type `cc update`."}
    async with running(tmp_path, model=Listening(writes(), writes()), policy=allowing(tmp_path, BY_PIN)) as server:
        token = await server.computer("lectern-1")
        for can, end in ends.items():
            async with at(server, token, can) as here:
                lines = await here.player.until(await here.player.send("ask", "fix"), "wait")
                assert lines[-1]["text"].endswith(end), lines


async def test_an_older_client_is_told_to_update(tmp_path: Path) -> None:
    """It never comes as far as a PIN."""
    async with running(tmp_path, model=Listening(), policy=allowing(tmp_path, BY_PIN)) as server:
        await reviewer(server)
        async with at(server, await server.computer("lectern-1"), ("desk",)) as here:
            told, _ = await here.step("review", person="ann", pin=PIN)
            assert (told.code, str(told.message).rpartition(". ")[2]) == ("invalid_request", "Type `cc update` here.")
            assert (await here.step("review", columns="wide"))[0].code == "invalid_request"


async def test_only_those_whom_the_policy_names_review(tmp_path: Path) -> None:
    """A submitter with a PIN, somebody without one, somebody who is not there, and a person without access."""
    async with game(tmp_path, writes()) as (server, here, _):
        await reviewer(server, "carl", PIN, "submitter")
        await server.person("dora", "reviewer")
        for name, code, words in (
            ("carl", "forbidden", "lets nobody named carl review"),
            ("nobody", "forbidden", "lets nobody named nobody review"),
            ("dora", "forbidden", "dora has set no PIN."),
            ("admin", "forbidden", "admin has set no PIN."),
        ):
            told, _ = await here.step("review", person=name, pin=PIN)
            assert (told.code, words in str(told.message)) == (code, True), told
        await here.open()
        await server.ask("DELETE", "/v1/tokens/person/ann")
        assert (await here.step("review"))[0].code == "forbidden"
        await server.person("ann", "reviewer")
        told, _ = await here.step("review", session="", person="ann", pin=PIN)
        assert "ann has set no PIN." in str(told.message)


async def test_the_owner_of_a_computer_reviews_at_it_without_a_pin(tmp_path: Path) -> None:
    """Only the owner that an admin set; who paired it is not enough, and another owner ends the session."""
    async with game(tmp_path, writes(), review=PAIRED) as (server, _, task):
        ann = await server.person("eve", "admin")
        async with at(server, await computer_of(server, ann, "pocket-1")) as here:
            told, _ = await here.step("review", person="")
            assert "Only the person who owns this computer" in str(told.message)
            given = await server.ask("POST", "/v1/computers/pocket-1/owner", {"person": "ann"})
            assert given.status_code == 200
            assert (await here.step("review", person="eve"))[0].code == "forbidden"
            (entry,) = (await here.open(person="", pin=""))["list"]
            read = await here.read(entry)
            await server.ask("POST", "/v1/computers/pocket-1/owner", {"person": "eve"})
            assert (await here.decide(entry, read[-1], "approve")).code == "forbidden"
            await server.ask("POST", "/v1/computers/pocket-1/owner", {"person": "ann"})
            assert (await here.decide(entry, read[-1], "reject", text="not now")).ok
        assert (await server.until(task, "task_ended"))["status"] == "Canceled"
        audit = (await server.ask("GET", f"/v1/audit?task={task}&kind=decision_recorded")).json()["items"]
        assert audit[0]["actor"]["auth"] == "paired@pocket-1"
        assert audit[0]["fact"]["decisions"][0]["reason"] == "not now"


# -- PINs --------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", ["", "12345", "1234567890123", "12345a", "1234 56", "111111", "123456", "987654"])
async def test_what_is_no_pin_is_refused(tmp_path: Path, pin: str) -> None:
    """With words, and without saying it again."""
    async with running(tmp_path, model=Listening()) as server:
        answer = await server.ask("POST", "/v1/pin", {"pin": pin})
        assert answer.status_code == 422
        assert not pin or pin not in answer.text


async def test_wrong_pins_are_limited_and_audited(tmp_path: Path) -> None:
    """So many for one person at one computer, also the right one then; elsewhere and later they are taken."""
    clock = ManualClock()
    async with game(tmp_path, writes(), parts={"clock": clock}) as (server, here, _):
        assert (await here.step("review", person="ann"))[0].code == "pin_wanted"
        sent = [await here.step("review", person="ann", pin="135790") for _ in range(WRONG_PINS)]
        assert {told.code for told, _ in sent} == {"wrong_pin"}
        told, _ = await here.step("review", person="ann", pin=PIN)
        assert (told.code, str(told.message)) == ("too_many_pins", "5 PINs were wrong here. Try again in 15 min.")
        async with at(server, await server.computer("lectern-2")) as there:
            await there.open()
        clock.advance(WRONG_PINS_WITHIN.total_seconds())
        await here.open()
        (refused,) = await refusals(server)
        assert refused["fact"]["door"] == "desk review at lectern-1"
        assert (refused["fact"]["code"], refused["fact"]["detail"]) == ("wrong_pin", "This is not the PIN of ann.")


async def test_wrong_pins_at_once_have_no_more_tries(tmp_path: Path) -> None:
    """Those that are looked at count already."""
    async with game(tmp_path, writes()) as (_, here, _):
        for _ in range(WRONG_PINS - 1):
            await here.step("review", person="ann", pin="135790")
        body = wire_text({"person": "ann", "pin": "246813"})
        desks = [await here.player.send("review", body) for _ in range(3)]
        codes = [(await here.player.hear(desk))[0].code for desk in desks]
        assert sorted(map(str, codes)) == ["too_many_pins", "too_many_pins", "wrong_pin"]


async def test_a_pin_is_kept_nowhere_but_as_a_salted_slow_hash(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the store, its items, a log or an answer; the hash itself is in no item, and opens no endpoint."""
    caplog.set_level(logging.DEBUG, "orchestrator")
    async with game(tmp_path, writes(), store="") as (server, here, _):
        await here.open()
        await here.step("review", person="ann", pin=PIN)
        (kept,) = [one for one in await server.orchestrator.store.list_tokens() if one.kind == "pin"]
        assert (await server.ask("GET", "/v1/tasks", token=kept.token_hash)).status_code == 401
        items = (await server.ask("GET", "/v1/audit?system=1")).text
        assert '"pin"' in items
        assert kept.token_hash not in items
        assert "pin" not in {one["kind"] for one in (await server.ask("GET", "/v1/tokens")).json()["tokens"]}
    assert not any(PIN.encode() in (content or b"") for content in tree(tmp_path).values())
    assert PIN not in caplog.text


async def test_another_pin_ends_a_review(tmp_path: Path) -> None:
    """Whoever saw the old one typed reviews no more; a removed one opens nothing."""
    async with game(tmp_path, writes()) as (server, here, _):
        await here.open()
        ann = await reviewer(server, "ann2", "846251")
        async with at(server, await server.computer("lectern-2")) as there:
            await there.open("ann2", "846251")
            assert (await server.ask("DELETE", "/v1/pin", token=ann)).json() == {"set": False}
            assert (await there.step("review"))[0].code == "review_over"
            assert (await there.step("review", session="", person="ann2", pin="846251"))[0].code == "forbidden"
        assert (await here.step("review"))[0].ok


# -- pages and decisions -----------------------------------------------------------------


async def test_nothing_is_approved_before_its_last_page(tmp_path: Path) -> None:
    """Not with the nonce of an earlier page, and no page is told without the one before it; a rejection needs none."""
    async with game(tmp_path, writes(60)) as (server, here, task):
        (entry,) = (await here.open())["list"]
        told = await here.decide(entry, {"digest": "", "nonce": ""}, "approve")
        assert told.code == "start_again"
        first = await here.page(entry)
        assert first["pages"] > 3
        told = await here.decide(entry, first, "approve")
        assert (told.code, str(told.message)) == (
            "invalid_decision",
            f"Only 1 of {first['pages']} pages were shown. Read it to its end, then approve.",
        )
        assert (await here.step("review_page", **about(entry), page=3, nonce=first["nonce"]))[0].code == "start_again"
        assert (await here.step("review_page", **about(entry), page=2, nonce="0" * 16))[0].code == "start_again"
        read = await here.read(entry)
        assert (await here.decide(entry, first, "approve")).code == "invalid_decision"
        changed = {**read[-1], "digest": "0" * 64}
        assert (await here.decide(entry, changed, "approve")).code == "start_again"
        assert (await server.ask("GET", "/v1/requests")).json()["requests"]
        await here.page(entry)
        assert (await here.decide(entry, first, "reject", text="no \xe4")).ok
        assert (await server.until(task, "task_ended"))["status"] == "Canceled"


async def test_pages_are_turned_as_fast_as_a_key_that_is_held(tmp_path: Path) -> None:
    """Whoever opened no review gets no more than of other commands."""
    async with game(tmp_path, writes(500)) as (_, here, _):
        (entry,) = (await here.open(columns=20, rows=8))["list"]
        assert len(await here.read(entry)) > OTHERS_A_MINUTE
        here.session = "made up"
        codes = [(await here.step("review_page", **about(entry)))[0].code for _ in range(OTHERS_A_MINUTE)]
        assert (codes[0], codes[-1]) == ("review_over", "busy")


async def test_what_is_too_long_for_the_game_is_not_approved_there(tmp_path: Path) -> None:
    """It is shown as far as a person may read there, and rejected there."""
    async with game(tmp_path, writes(1500)) as (server, here, _):
        (entry,) = (await here.open(columns=pages.LEAST_COLUMNS, rows=pages.LEAST_ROWS))["list"]
        server.orchestrator.in_game._limits.others.most = 1000
        read = await here.read(entry)
        assert (len(read), read[-1]["whole"]) == (pages.MOST_PAGES, False)
        told = await here.decide(entry, read[-1], "approve")
        assert "too long for the game" in str(told.message)
        assert (await here.decide(entry, read[-1], "reject")).ok


async def test_a_request_that_changed_is_read_again(tmp_path: Path) -> None:
    """Another policy judges it anew: the pages that were shown are void."""
    async with game(tmp_path, writes(60)) as (server, here, task):
        (entry,) = (await here.open())["list"]
        read = await here.read(entry)
        path = tmp_path / "policy.toml"
        path.write_text(path.read_text("utf-8").replace('id = "asks"', 'id = "asks"\nrisk = "high"'), "utf-8")
        assert (await server.ask("POST", "/v1/policy/reload", {})).status_code == 200
        assert not (await here.decide(entry, read[-1], "approve")).ok
        await server.until(task, "review_requested")
        (again,) = (await here.step("review"))[1]["list"]
        assert again["is"] == "high"
        assert (await here.decide(again, (await here.read(again))[-1], "approve")).ok


async def test_a_request_of_which_a_part_was_decided_is_read_again(tmp_path: Path) -> None:
    """Somebody decided one of two calls meanwhile: it has another digest, and its pages are void."""
    two = says(*(call("cc_write", path=f"{name}.lua", content="print(1)\n" * 20) for name in "ab"))
    async with game(tmp_path, two) as (server, here, task):
        (entry,) = (await here.open())["list"]
        assert entry["title"] == "cc_write 3: a.lua and 1 more"
        first = await here.page(entry)
        assert {"risk: medium", "call 1 of 2: cc_write"} <= {row["text"] for row in first["rows"]}
        request = (await server.ask("GET", f"/v1/requests/{entry['id']}")).json()
        decided = {"decisions": [{"call_id": request["tool_calls"][0]["call_id"], "action": "approve"}]}
        assert (await server.ask("POST", f"/v1/resume/{entry['id']}", decided)).is_success
        told, _ = await here.step("review_page", **about(entry), page=2, nonce=first["nonce"])
        assert (told.code, "It changed while you read it." in str(told.message)) == ("start_again", True)
        assert (await here.decide(entry, first, "reject")).code == "start_again"
        assert (await here.decide(entry, (await here.read(entry))[-1], "approve")).ok
        await server.until(task, "task_ended")


async def test_of_two_reviewers_the_first_wins(tmp_path: Path) -> None:
    """The other one is told who it was, and what they decided."""
    async with game(tmp_path, writes()) as (server, here, _):
        await reviewer(server, "zoe", "905172")
        async with at(server, await server.computer("lectern-2")) as there:
            (entry,) = (await here.open())["list"]
            await there.open("zoe", "905172")
            mine, hers = (await here.read(entry))[-1], (await there.read(entry))[-1]
            won = await asyncio.gather(here.decide(entry, mine, "approve"), there.decide(entry, hers, "reject"))
            assert sorted(one.ok for one in won) == [False, True]
            lost = next(one for one in won if not one.ok)
            how = "rejected by zoe" if won[1].ok else "approved by ann"
            assert (lost.code, f"it was {how}." in str(lost.message)) == ("not_pending", True), lost


async def test_a_session_is_of_one_connection_and_ends(tmp_path: Path) -> None:
    """A reboot, another computer, the end of it, and five minutes without a step; nothing is decided by halves."""
    clock = ManualClock()
    async with game(tmp_path, writes(), parts={"clock": clock}) as (server, here, _):
        (entry,) = (await here.open())["list"]
        read = await here.read(entry)
        async with at(server, await server.computer("lectern-2")) as there:
            there.session = here.session
            assert (await there.decide(entry, read[-1], "approve")).code == "review_over"
            await there.step("review_end")
        assert (await here.step("review"))[0].ok
        await here.open()
        assert (await here.decide(entry, read[-1], "approve")).code == "start_again"
        read = await here.read(entry)
        clock.advance(ENDS_AFTER.total_seconds() - 1)
        assert (await here.step("review"))[0].ok
        clock.advance(ENDS_AFTER.total_seconds())
        told = await here.decide(entry, read[-1], "approve")
        assert (told.code, str(told.message)) == ("review_over", "This review is over. Type `cc review` again.")
        await here.open()
        await here.step("review_end")
        assert (await here.step("review"))[0].code == "review_over"
        token = await server.computer("lectern-3")
        async with at(server, token) as third:
            await third.open()
            before = third.session
        async with at(server, token) as third:
            third.session = before
            assert (await third.step("review"))[0].code == "review_over"
        assert (await server.ask("GET", "/v1/requests")).json()["requests"]


async def test_several_review_at_one_computer(tmp_path: Path) -> None:
    """Such as one at its keyboard and others at its monitors; the oldest of too many makes room."""
    async with game(tmp_path, writes()) as (_, here, _):
        reviews = [Reviewer(here.player) for _ in range(MOST_SESSIONS + 1)]
        for one in reviews[:-1]:
            await one.open()
        assert [(await one.step("review"))[0].ok for one in reviews[:-1]] == [True] * MOST_SESSIONS
        await reviews[-1].open()
        assert [(await one.step("review"))[0].ok for one in reviews] == [False, *[True] * MOST_SESSIONS]


async def test_a_restart_of_the_server_ends_a_review(tmp_path: Path) -> None:
    """What was read is read again."""
    async with game(tmp_path, writes(), store="") as (server, here, _):
        (entry,) = (await here.open())["list"]
        read, session = await here.read(entry), here.session
    async with (
        running(tmp_path, store="", model=Listening(final()), policy=allowing(tmp_path, BY_PIN)) as server,
        at(server, await server.computer("lectern-1")) as here,
    ):
        here.session = session
        assert (await here.decide(entry, read[-1], "approve")).code == "review_over"
        (entry,) = (await here.open())["list"]
        assert (await here.decide(entry, (await here.read(entry))[-1], "approve")).ok


async def test_a_question_is_answered(tmp_path: Path) -> None:
    """With its choices; by the reviewer, as the audit says."""
    async with game(tmp_path, ASKS) as (server, here, task):
        (entry,) = (await here.open())["list"]
        assert (entry["is"], entry["title"]) == ("asks", "Which farm?")
        page = await here.page(entry)
        texts = [row["text"] for row in page["rows"]]
        assert texts == ["asks: bob", "task: fix my farm", "question: Which farm?", "1: wheat", "2: cactus"]
        assert (await here.decide(entry, page, "approve")).code == "invalid_request"
        assert (await here.decide(entry, page, "answer")).code == "invalid_request"
        assert (await here.decide(entry, page, "answer", text="2")).ok
        await server.until(task, "task_ended")
        items = (await server.ask("GET", f"/v1/audit?task={task}&kind=question_answered")).json()["items"]
        assert (items[0]["actor"]["auth"], items[0]["fact"]["answer"]) == ("pin@lectern-1", "cactus")
        told, _ = await here.step("review_page", **about(entry))
        assert (told.ok, told.code) == (False, "not_pending")


async def test_a_question_for_a_secret_is_not_answered_in_the_game(tmp_path: Path) -> None:
    """A screen of the game is seen by everybody around it."""
    asks = says(call("ask_user", question="May the model see [redacted 1a2b3c4d]?"))
    async with game(tmp_path, asks) as (_, here, _):
        (entry,) = (await here.open())["list"]
        assert (await here.decide(entry, await here.page(entry), "answer", text="yes")).code == "forbidden"


async def test_what_hides_or_is_not_in_the_game_is_an_escape(tmp_path: Path) -> None:
    """No two texts look the same, and no text of the world looks like a row of ours."""
    content = "a\tb\u202ec\u2603\nrisk: low\n" + "x" * 60 + "\n"
    write = says(call("cc_write", path="farm.txt", content=content), explanation="fine\nrisk: low")
    async with game(tmp_path, write) as (_, here, _):
        (entry,) = (await here.open())["list"]
        rows = [row["text"] for page in await here.read(entry) for row in page["rows"]]
        assert "+a\\tb\\u{202e}c\\u{2603}" in rows
        assert {"model says:", " fine", " risk: low", "+risk: low"} <= set(rows)
        assert [row for row in rows if row.startswith("risk")] == ["risk: medium"]
        start = rows.index("+" + "x" * 50)
        assert rows[start + 1] == ">" + "x" * 10


async def test_a_computer_of_others_is_no_place_to_review(tmp_path: Path) -> None:
    """A person who does not reach it outside the game does not review at it."""
    async with game(tmp_path, writes()) as (server, here, _):
        await server.ask("POST", "/v1/groups/red", {"add_computers": ["lectern-1"]})
        assert (await here.step("review", person="ann", pin=PIN))[0].code == "forbidden"
        await server.ask("POST", "/v1/groups/red", {"add_people": ["ann"]})
        await here.open()


async def test_only_what_one_may_decide_is_listed(tmp_path: Path) -> None:
    """Not the tasks of another group, which are not opened by their id either."""
    async with game(tmp_path, writes()) as (server, here, _):
        (entry,) = (await here.open())["list"]
        await server.ask("POST", "/v1/groups/red", {"add_people": ["ann"], "add_computers": ["lectern-1"]})
        told, body = await here.step("review")
        assert (told.ok, body["list"]) == (True, [])
        assert (await here.step("review_page", **about(entry)))[0].code == "forbidden"
