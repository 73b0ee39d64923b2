"""The player's desk over real sockets: what somebody types at a computer, as the person who paired it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.wire import wire
from orchestrator.web.auth import issue_token
from orchestrator.web.in_game import follow as following
from orchestrator.web.in_game.commands import ASKS_A_MINUTE, MAX_OPEN
from tests.harness.support import Disk, Listening, StubClient, call, dialed, final, says
from tests.harness.whole_server import Server, running

ASKS = says(call("ask_user", question="Which farm?"))
LOOKS = says(call("cc_read", path="farm.lua"))
WRITES = says(call("cc_write", path="farm.lua", content="print(1)"))
WRITES_MORE = says(call("cc_write", path="farm.lua", content="print(2)"))


@dataclass
class Player:
    """Somebody at a computer, by hand."""

    client: StubClient
    disk: Disk = field(default_factory=lambda: Disk({"farm.lua": b"print(0)"}))
    """What the computer's calls work on."""
    told: list[tuple[wire.Told, list[dict[str, str]]]] = field(default_factory=list)
    """What came and was not looked at yet."""
    ids: "count[int]" = field(default_factory=lambda: count(1))

    async def send(self, verb: str, text: str = "", *, desk: str = "", **fields: Any) -> str:
        """Ask for something; the desk id."""
        desk = desk or f"d{next(self.ids)}"
        body = text.encode()
        described = wire.whole(body) if text else None
        await self.client.send(wire.Desk(journal_seq=1, desk=desk, verb=verb, body=described, **fields), body)
        return desk

    async def hear(self, desk: str) -> tuple[wire.Told, list[dict[str, str]]]:
        """The next answer to a request; the computer's calls are answered meanwhile."""
        while True:
            for place, (told, _) in enumerate(self.told):
                if told.desk == desk:
                    return self.told.pop(place)
            await self._take()

    async def _take(self) -> None:
        message, body = await self.client.hear()
        assert message.type != "error", message
        if message.type == "told":
            self.told.append((message, json.loads(body) if message.body else []))
        elif message.type == "call":
            await self.client.send(wire.Ack(journal_seq=2, call_id=message.call_id))
            await self.client.result(message.call_id, self.disk.perform(message.method, message.params, body))

    async def ask(self, verb: str, text: str = "", **fields: Any) -> tuple[wire.Told, list[dict[str, str]]]:
        """Ask for something, and its first answer."""
        return await self.hear(await self.send(verb, text, **fields))

    async def refused(self, verb: str, text: str = "", **fields: Any) -> wire.Told:
        """Ask for something that is refused; the refusal."""
        told, _ = await self.ask(verb, text, **fields)
        assert (told.ok, told.done) == (False, True)
        assert told.message
        return told

    async def until(self, desk: str, kind: str) -> list[dict[str, str]]:
        """The lines up to the frame with one of this kind."""
        lines: list[dict[str, str]] = []
        while True:
            told, more = await self.hear(desk)
            assert told.ok, told
            lines += more
            if any(one["is"] == kind for one in more):
                return lines


@asynccontextmanager
async def player(server: Server, token: str, **hello: Any) -> AsyncIterator[Player]:
    """A connected computer with somebody at it."""
    async with dialed(server.url, token) as client:
        await client.greet(**{"capabilities": ("desk",), **hello})
        yield Player(client)


@asynccontextmanager
async def game(directory: Path, *script: Any, **settings: Any) -> AsyncIterator[tuple[Server, Player]]:
    """A server whose model says this, and somebody at computer 3, which the admin paired."""
    async with (
        running(directory, model=Listening(*script), **settings) as server,
        player(server, await server.computer("3")) as here,
    ):
        yield server, here


async def tasks_of(server: Server) -> list[dict[str, Any]]:
    """All tasks that the server has."""
    listed: list[dict[str, Any]] = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
    return listed


async def second_admin(server: Server, name: str = "ann") -> str:
    """Another admin, whose computers are hers."""
    return await server.person(name, "admin")


async def computer_of(server: Server, admin: str, name: str = "3") -> str:
    """A computer's token that this admin issued."""
    answer = await server.ask("POST", "/v1/tokens", {"kind": "computer", "name": name}, token=admin)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def texts(lines: list[dict[str, str]], kind: str) -> list[str]:
    """The texts of one kind."""
    return [one["text"] for one in lines if one["is"] == kind]


# -- ask ---------------------------------------------------------------------------------


async def test_ask_begins_a_task_here_as_the_one_who_paired_it(tmp_path: Path) -> None:
    """The task is the owner's, on this computer; its steps come as lines, and the reviewer sees where it was asked."""
    async with running(tmp_path, model=Listening(WRITES, final("it runs"))) as server:
        ann = await second_admin(server)
        async with player(server, await computer_of(server, ann)) as here:
            desk = await here.send("ask", "fix my farm")
            lines = await here.until(desk, "wait")
            assert texts(lines, "note") == ["ann: fix my farm"]
            assert texts(lines, "say") == ["because"]
            assert texts(lines, "tool") == ["cc_write farm.lua, content: print(1)"]
            assert texts(lines, "wait") == [
                "cc_write waits for approval by a reviewer or an admin (risk: medium), outside the game."
            ]
        (row,) = await tasks_of(server)
        assert (row["user_id"], row["computers"]) == ("ann", ["3"])
        task = (await server.ask("GET", f"/v1/tasks/{row['task_id']}")).json()
        assert (task["asked_at"], task["request"]["asked_at"]) == ("3", "3")
        audit = (await server.ask("GET", f"/v1/audit?task={row['task_id']}")).json()["items"]
        assert audit[0]["actor"] == {"kind": "person", "id": "ann", "auth": "computer:3"}


async def test_ask_twice_with_one_id_begins_one_task(tmp_path: Path) -> None:
    """Also on another connection, and after a restart of the orchestrator; another id is another task."""
    async with running(tmp_path, store="", model=Listening(ASKS)) as server:
        token = await server.computer("3")
        async with player(server, token) as here:
            await here.send("ask", "fix", desk="one")
            again, _ = await here.ask("ask", "fix", desk="one")
        async with player(server, token) as here:
            other, _ = await here.ask("ask", "fix", desk="one")
    async with running(tmp_path, store="", model=Listening(ASKS)) as server:
        async with player(server, token) as here:
            late, lines = await here.ask("ask", "fix", desk="one")
            assert {again.task, other.task, late.task} == {again.task}
            assert texts(lines, "note") == ["admin: fix"]
            await here.ask("ask", "fix", desk="two")
        assert len(await tasks_of(server)) == 2


async def test_a_task_goes_on_where_it_was_told_last(tmp_path: Path) -> None:
    """Who names the version that was told hears only what came after it, and at once."""
    async with game(tmp_path, ASKS, final("all is well")) as (_, here):
        desk = await here.send("ask", "where is it")
        told, lines = await here.hear(desk)
        while not texts(lines, "ask"):
            told, lines = await here.hear(desk)
        again, lines = await here.ask("watch", after=told.version, task=told.task)
        assert (again.version, lines) == (told.version, [])
        await here.ask("answer", "the river")
        _, lines = await here.ask("watch", task=told.task, after=told.version)
        assert texts(lines, "note") == ["the river", "What the journal shows:", "nothing was changed or run"]


async def test_the_end_is_told_and_nothing_comes_after_it(tmp_path: Path) -> None:
    """The last answer says done; of a task that is over, watch tells all at once."""
    async with game(tmp_path, LOOKS, final("hello from \N{SNOWMAN} caf\xe9")) as (server, here):
        desk = await here.send("ask", "where is it")
        lines = await here.until(desk, "good")
        assert texts(lines, "good") == ["Done. The model says: hello from ? caf\xe9"]
        told, lines = await here.ask("watch", task=(await tasks_of(server))[0]["task_id"])
        assert told.done
        assert lines[-1]["is"] == "good"


async def test_lines_come_together_and_the_oldest_make_room(tmp_path: Path) -> None:
    """A fast task takes few frames, each of a screen at most; secrets and long outputs are not among them."""
    told = says(*[call("send_status", message=f"step {n} token=hunter2hunter2hunter2hunter2") for n in range(4)])
    async with game(tmp_path, *[told] * 12, final("ready")) as (server, here):
        desk = await here.send("ask", "count")
        frames: list[tuple[wire.Told, list[dict[str, str]]]] = []
        while not frames or not frames[-1][0].done:
            frames.append(await here.hear(desk))
        shown = [lines for _, lines in frames]
        (row,) = await tasks_of(server)
        items = (await server.ask("GET", f"/v1/tasks/{row['task_id']}")).json()["version"]
        assert len(frames) < items / 2
        assert all(len(lines) <= following.MAX_LINES + 2 for _, lines in frames)
        assert "hunter2" not in json.dumps(shown)


async def test_who_leaves_is_told_no_more(tmp_path: Path) -> None:
    """After leave nothing comes of that request, and the task goes on."""
    async with game(tmp_path, ASKS, final("well")) as (server, here):
        desk = await here.send("ask", "where is it")
        await here.until(desk, "ask")
        await here.send("leave", desk=desk)
        told, _ = await here.ask("answer", "go on")
        assert told.ok
        await server.until(str(told.task), "task_ended")
        assert (await here.ask("tasks"))[1] == []
        assert desk not in [one.desk for one, _ in here.told]


# -- tasks, answer, stop -----------------------------------------------------------------


async def test_a_question_waits_until_somebody_is_there(tmp_path: Path) -> None:
    """It is told at the next connection, stands in the list, and is answered there; the first answer counts."""
    model = Listening(ASKS, final("done"))
    async with running(tmp_path, store="", model=model) as server:
        token = await server.computer("3")
        async with player(server, token) as here:
            await here.send("ask", "where is it")
            told, _ = await here.hear("d1")
        await server.until(str(told.task), "question_asked")
    async with running(tmp_path, store="", model=Listening(final("done"))) as server:
        async with player(server, token) as here:
            news, rows = await here.hear(wire.NEWS)
            assert news.done
            assert [(one["task"], one["question"]) for one in rows] == [(told.task, "Which farm?")]
            _, rows = await here.ask("tasks")
            assert rows[0]["why"] == "waiting for an answer"
            answered, _ = await here.ask("answer", "the one by the river", task=str(told.task)[:6])
            assert answered.task == told.task
            await server.until(str(told.task), "task_ended")
            refused = await here.refused("answer", "the other", task=str(told.task))
            assert refused.code == "not_pending"
        audit = (await server.ask("GET", f"/v1/audit?task={told.task}&kind=question_answered")).json()["items"]
        assert audit[0]["actor"]["auth"] == "computer:3"


async def test_no_news_is_told_to_a_client_that_takes_none(tmp_path: Path) -> None:
    """One that would take it for a broken frame hears nothing of it."""
    async with running(tmp_path, model=Listening(ASKS)) as server:
        token = await server.computer("3")
        await server.until(await server.submit(("3",)), "question_asked")
        async with dialed(server.url, token) as client:
            await client.greet()
            await client.send(wire.Desk(journal_seq=1, desk="d1", verb="frob"))
            told, _ = await client.hear("told")
            assert told.desk == "d1"


async def test_stop_stops_what_is_meant_and_nothing_else(tmp_path: Path) -> None:
    """The one open task without a name; with two, one must be named. The reason says where it was said."""
    async with running(tmp_path, model=Listening(ASKS, ASKS)) as server:
        async with player(server, await server.computer("3")) as here:
            assert (await here.refused("stop")).code == "not_found"
            assert (await here.refused("watch")).code == "not_found"
            first = (await here.ask("ask", "one"))[0].task
            second = (await here.ask("ask", "two"))[0].task
            refused = await here.refused("stop")
            assert refused.code == "invalid_request"
            assert str(first) in str(refused.message)
            told, _ = await here.ask("stop", task=first)
            assert told.task == first
            told, _ = await here.ask("stop")
            assert told.task == second
        ended = await server.until(str(first), "task_ended")
        assert ended["status"] == "Canceled"
        items = (await server.ask("GET", f"/v1/audit?task={first}&kind=cancel_requested")).json()["items"]
        assert items[0]["fact"]["reason"] == "stopped by admin at computer 3 in the game"


async def test_only_one_s_own_tasks_on_this_computer_are_seen(tmp_path: Path) -> None:
    """Another person's, and those on other computers, are not listed, followed, stopped or answered."""
    async with running(tmp_path, model=Listening(ASKS, ASKS)) as server:
        ann = await second_admin(server)
        token = await computer_of(server, ann)
        await server.computer("4")
        others = await server.submit(("3",))
        elsewhere = await server.submit(("4",), token=ann)
        for one in (others, elsewhere):
            await server.until(one, "question_asked")
        async with player(server, token) as here:
            assert (await here.ask("tasks"))[1] == []
            for task in (others, elsewhere):
                for verb in ("watch", "stop", "answer"):
                    assert (await here.refused(verb, "x", task=task)).code == "not_found"


# -- undo --------------------------------------------------------------------------------

ALLOWS = """
[[rules]]
id = "all"
effect = "allow"
tools = ["*"]
"""


def allowing(directory: Path) -> Path:
    """A policy that asks nobody."""
    path = directory / "allowing.toml"
    path.write_text(ALLOWS, "utf-8")
    return path


async def left(here: Player, desk: str) -> list[str]:
    """What is said last of a task, once it is over."""
    lines: list[dict[str, str]] = []
    while True:
        told, more = await here.hear(desk)
        assert told.ok, told
        lines += more
        if told.done:
            return texts(lines, "note")[1:]


@pytest.mark.parametrize("client", ["present", "older"])
async def test_a_task_that_failed_says_what_it_changed_and_how_it_is_put_back(tmp_path: Path, client: str) -> None:
    """A client that knows no `cc undo` is told of the command outside the game."""
    capabilities = ("desk", wire.UNDO) if client == "present" else ("desk",)
    model = Listening(WRITES, final("no", success=False))
    async with (
        running(tmp_path, model=model, policy=allowing(tmp_path)) as server,
        player(server, await server.computer("3"), capabilities=capabilities) as here,
    ):
        said = await left(here, await here.send("ask", "fix"))
        (row,) = await tasks_of(server)
        word = "`cc undo" if client == "present" else "Outside the game `cc-orchestrator undo"
        assert said == [
            "What the journal shows:",
            "changed farm.lua  +1 -1",
            "not run since it was changed: farm.lua",
            f"It had changed farm.lua. {word} {row['task_id']}` puts it back.",
        ]


async def test_undo_begins_once_and_is_followed(tmp_path: Path) -> None:
    """Sent again by the same id it is the same undo, though by now another task would be meant."""
    script = [WRITES, final("no", success=False), WRITES_MORE, final("no", success=False)]
    async with (
        running(tmp_path, model=Listening(*script), policy=allowing(tmp_path)) as server,
        player(server, await server.computer("3"), capabilities=("desk", wire.UNDO)) as here,
    ):
        for prompt in ("first", "second"):
            await left(here, await here.send("ask", prompt))
        second, first = await tasks_of(server)
        desk = await here.send("undo")
        assert "Done: 1 put back." in texts(await here.until(desk, "good"), "good")
        assert here.disk.files == {"farm.lua": b"print(1)"}
        again, _ = await here.ask("undo", desk=desk)
        undo = (await server.ask("GET", f"/v1/tasks/{again.task}")).json()
        assert (undo["undoes"], undo["asked_at"], undo["user_id"]) == (second["task_id"], "3", "admin")
        assert len(await tasks_of(server)) == 3
        desk = await here.send("undo", task=first["task_id"][:9])
        assert "Done: 1 put back." in texts(await here.until(desk, "good"), "good")
        assert here.disk.files == {"farm.lua": b"print(0)"}
        assert (await here.refused("undo")).message == (
            "None of the last tasks here left something to put back. Name one: cc undo TASK."
        )


async def test_what_cannot_be_undone_says_why(tmp_path: Path) -> None:
    """A beginning that several have, and a task that changed nothing."""
    ends = final("no", success=False)
    async with game(tmp_path, LOOKS, ends, LOOKS, ends) as (server, here):
        for prompt in ("first", "second"):
            await left(here, await here.send("ask", prompt))
        both = await here.refused("undo", task="t-")
        assert "More than one task begins with t-" in str(both.message)
        assert str(both.message).endswith("cc undo 2 picks the second; its name does, too.")
        nothing = await here.refused("undo", task=(await tasks_of(server))[0]["task_id"])
        assert "There is nothing of t-" in str(nothing.message)


async def test_undo_decides_nothing(tmp_path: Path) -> None:
    """Where the policy asks a person, the undo waits as any other task does."""
    async with game(tmp_path, WRITES, final("no", success=False)) as (server, here):
        desk = await here.send("ask", "fix")
        await here.until(desk, "wait")
        (row,) = await tasks_of(server)
        request = await server.paused(row["task_id"])
        await server.ask("POST", request["approval_url"])
        await left(here, desk)
        lines = await here.until(await here.send("undo"), "wait")
        assert texts(lines, "wait") == [
            "cc_restore waits for approval by a reviewer or an admin (risk: medium), outside the game."
        ]
        assert here.disk.files == {"farm.lua": b"print(1)"}
        undo = (await tasks_of(server))[0]["task_id"]
        again = await here.refused("undo", task=row["task_id"])
        assert again.code == "being_undone"
        assert f"is already being taken back by {undo} (waiting for approval)" in str(again.message)


async def test_only_one_s_own_changes_on_this_computer_are_put_back(tmp_path: Path) -> None:
    """Not another person's, not of a task that goes on, and not one that changed something elsewhere too."""
    elsewhere = says(call("local_write", path="note.txt", content="n"))
    script = [final("no", success=False), elsewhere, WRITES, final("no", success=False), ASKS]
    async with running(tmp_path, model=Listening(*script), policy=allowing(tmp_path)) as server:
        ann = await second_admin(server)
        async with player(server, await computer_of(server, ann), capabilities=("desk", wire.UNDO)) as here:
            others = await server.submit(("3",))
            await server.until(others, "task_ended")
            assert (await here.refused("undo", task=others)).code == "not_found"
            assert (await here.refused("undo")).code == "not_found"
            await left(here, await here.send("ask", "both"))
            refused = await here.refused("undo")
            assert refused.code == "forbidden"
            assert "changed something elsewhere too" in str(refused.message)
            desk = await here.send("ask", "going on")
            await here.until(desk, "ask")
            going = (await tasks_of(server))[0]["task_id"]
            assert "no task" in str((await here.refused("undo", task=going)).message)


# -- rights ------------------------------------------------------------------------------


async def test_the_owner_s_present_rights_count(tmp_path: Path) -> None:
    """Who was revoked asks no more, who lost the role submits no more; each is a sentence, and is written down."""
    async with running(tmp_path, model=Listening()) as server:
        ann = await second_admin(server)
        async with player(server, await computer_of(server, ann)) as here:
            await server.ask("DELETE", "/v1/tokens/person/ann")
            refused = await here.refused("ask", "fix")
            assert refused.code == "forbidden"
            assert "ann, to whom this computer belongs, has no access any more." in str(refused.message)
            assert "cc-orchestrator pair 3" in str(refused.message)
            await server.person("ann", "reviewer")
            refused = await here.refused("ask", "fix")
            assert "may not submit tasks" in str(refused.message)
            assert (await here.ask("tasks"))[0].ok
        assert await tasks_of(server) == []
        items = (await server.ask("GET", "/v1/audit?system=1&kind=attempt_refused")).json()["items"]
        assert {one["fact"]["door"] for one in items} == {"desk ask at 3"}


async def test_no_role_of_the_owner_above_submitter_counts(tmp_path: Path) -> None:
    """The task of an admin's computer is a submitter's, so a rule for admins does not fit it."""
    async with game(tmp_path, WRITES, final("done")) as (server, here):
        await here.until(await here.send("ask", "fix"), "wait")
        items = (await server.ask("GET", "/v1/audit?kind=task_submitted")).json()["items"]
        assert [(one["fact"]["user_id"], one["fact"]["roles"]) for one in items] == [("admin", ["submitter"])]


CHOICES = ("the wheat farm", "token=hunter2hunter2hunter2hunter2", "neither \u2014 why?", "\u5c0f\u9ea6", "???")


async def test_the_choices_of_a_question_are_numbered_and_a_number_picks_one(tmp_path: Path) -> None:
    """In the lines of the task, in the list and in the news; a secret among them is not shown, and still picked."""
    asks = says(call("ask_user", question="Which? " + "word " * 400, options=list(CHOICES)))
    model = Listening(asks, final("done", success=False))
    async with running(tmp_path, model=model) as server, player(server, await server.computer("3")) as here:
        (shown,) = texts(await here.until(await here.send("ask", "fix"), "ask"), "ask")
        question, *numbered, how = shown.split("\n")
        assert question.endswith("(`cc tasks` shows all of it)")
        assert numbered[0] == "1. the wheat farm"
        assert numbered[1].startswith("2. token=[redacted ")
        assert numbered[2:] == ["3. neither - why?", "4. (letters that this screen cannot show)", "5. ???"]
        assert how == "Type its number: cc answer 1. Or use your own words."
        _, (listed,) = await here.ask("tasks")
        assert listed["options"] == "5"
        assert listed["question"].split("\n")[1:] == numbered
        assert len(listed["question"]) > 1500
        _, (told,) = await here.hear(wire.NEWS)
        assert told == listed
        answered, _ = await here.ask("answer", "2")
        await server.until(str(answered.task), "task_ended")
        (item,) = (await server.ask("GET", f"/v1/audit?task={answered.task}&kind=question_answered")).json()["items"]
        assert item["fact"]["answer"].startswith("token=[redacted ")


async def test_where_several_tasks_fit_they_are_numbered_and_the_numbers_travel(tmp_path: Path) -> None:
    """A refusal names them in order with what was asked, short enough for its frame; secrets are not shown."""
    async with game(tmp_path, *[ASKS] * 6) as (_, here):
        for number in range(6):
            desk = await here.send("ask", f"{number}: password=hunter2swordfish and so on")
            await here.until(desk, "ask")
            await here.send("leave", desk=desk)
        for verb, text in (("stop", ""), ("answer", "the north one")):
            told, rows = await here.ask(verb, text)
            assert (told.ok, told.done, told.code) == (False, True, "invalid_request")
            head, *lines, how = str(told.message).split("\n")
            assert head.startswith("More than one task ")
            assert how == f"cc {verb} 2{' TEXT' if text else ''} picks the second; its name does, too."
            assert [line.split()[:2] for line in lines] == [[f"{at}.", one["task"]] for at, one in enumerate(rows, 1)]
            assert len(rows) == 6
            assert "hunter2" not in str(told.message)
        stopped, _ = await here.ask("stop", task=rows[1]["task"])
        assert stopped.task == rows[1]["task"]


async def test_a_question_for_a_secret_is_not_answered_in_the_game(tmp_path: Path) -> None:
    """A player is perhaps not the owner: the page and the command line take the answer."""
    asks = says(call("ask_user", question="May the model see [redacted 1a2b3c4d]?"))
    async with game(tmp_path, asks, final("done")) as (server, here):
        await here.until(await here.send("ask", "fix"), "ask")
        assert (await here.refused("answer", "yes")).code == "forbidden"
        (row,) = await tasks_of(server)
        assert row["status"] == "Paused"


async def test_the_computers_token_in_a_command_is_starred(tmp_path: Path) -> None:
    """Any program can type it; the task, its events and the audit have stars."""
    async with running(tmp_path, model=Listening(final("done"))) as server:
        token = await server.computer("3")
        async with player(server, token) as here:
            told, _ = await here.ask("ask", f"keep {token} and {token[::-1]} safe")
            await server.until(str(told.task), "task_ended")
        (row,) = await tasks_of(server)
        secret = token.removeprefix("ccc_")
        assert secret not in row["prompt"]
        assert secret[::-1] not in row["prompt"]
        assert "*" * len(secret) in row["prompt"]


async def test_who_is_revoked_follows_no_further_and_is_told_no_questions(tmp_path: Path) -> None:
    """A task that is followed ends with the refusal before more of it is told; the task itself goes on."""
    async with running(tmp_path, model=Listening(ASKS, final("a secret"))) as server:
        ann = await second_admin(server)
        async with player(server, await computer_of(server, ann)) as here:
            desk = await here.send("ask", "fix")
            await here.until(desk, "ask")
            news, rows = await here.hear(wire.NEWS)
            assert [one["question"] for one in rows] == ["Which farm?"]
            task = rows[0]["task"]
            await server.ask("DELETE", "/v1/tokens/person/ann")
            await server.ask("POST", f"/v1/tasks/{task}/cancel", {})
            told, lines = await here.hear(desk)
            assert (told.ok, told.done, lines) == (False, True, [])
            assert "ann, to whom this computer belongs, has no access any more." in str(told.message)
            news, rows = await here.hear(wire.NEWS)
            assert (news.ok, rows) == (False, [])


async def test_a_question_is_news_as_it_opens_and_as_it_closes(tmp_path: Path) -> None:
    """Also at a computer that is connected all the while."""
    async with game(tmp_path, ASKS, final("done")) as (_, here):
        await here.send("ask", "where is it")
        _, rows = await here.hear(wire.NEWS)
        assert [one["question"] for one in rows] == ["Which farm?"]
        assert (await here.ask("answer", "the one by the river"))[0].ok
        news, rows = await here.hear(wire.NEWS)
        assert (news.ok, rows) == (True, [])


async def test_without_a_known_owner_nobody_asks(tmp_path: Path) -> None:
    """Its token says no owner: the sentence says to pair again."""
    async with running(tmp_path, model=Listening()) as server:
        at = server.orchestrator.service.clock.now()
        token = await issue_token(server.orchestrator.store, kind="computer", name="3", roles=(), at=at)
        async with player(server, token) as here:
            refused = await here.refused("ask", "fix")
            assert refused.code == "forbidden"
            assert "Nobody knows who paired this computer" in str(refused.message)


async def test_the_owner_is_who_made_the_code(tmp_path: Path) -> None:
    """A pairing's owner becomes the computer's, and stands in the audit and in the list of tokens."""
    async with running(tmp_path, model=Listening(ASKS)) as server:
        ann = await second_admin(server)
        code = (await server.ask("POST", "/v1/pairings", {}, token=ann)).json()["code"]
        paired = (await server.http.post("/v1/pair", json={"code": code, "computer_id": 3})).json()
        rows = (await server.ask("GET", "/v1/tokens")).json()["tokens"]
        assert [(one["owner"], one["roles"]) for one in rows if one["kind"] == "computer"] == [("ann", [])]
        items = (await server.ask("GET", "/v1/audit?system=1&kind=token_issued")).json()["items"]
        assert [one["fact"]["owner"] for one in items if one["fact"]["name"] == "3"] == ["ann"]
        async with player(server, paired["token"]) as here:
            await here.ask("ask", "fix")
        assert (await tasks_of(server))[0]["user_id"] == "ann"


async def test_a_player_asks_as_the_person_to_whom_the_computer_was_given(tmp_path: Path) -> None:
    """Not as the one who paired it, also where nobody is in a group."""
    async with running(tmp_path, model=Listening(ASKS)) as server:
        token = await computer_of(server, await second_admin(server))
        await server.person("bob")
        assert (await server.ask("POST", "/v1/computers/3/owner", {"person": "bob"})).status_code == 200
        async with player(server, token) as here:
            await here.ask("ask", "fix")
        assert (await tasks_of(server))[0]["user_id"] == "bob"


async def test_no_verb_decides(tmp_path: Path) -> None:
    """A player never approves or rejects: such verbs are unknown, and the request stays open."""
    async with game(tmp_path, WRITES) as (server, here):
        desk = await here.send("ask", "fix")
        await here.until(desk, "wait")
        (row,) = await tasks_of(server)
        for verb in ("approve", "reject", "decide", "resume", "withdraw", "renew"):
            assert (await here.refused(verb, "yes", task=row["task_id"])).code == "unknown_verb"
        refused = await here.refused("answer", "approve", task=row["task_id"])
        assert refused.code == "not_pending"
        assert (await server.ask("GET", "/v1/requests")).json()["requests"]


async def test_the_approvers_rule_holds_for_approvals_and_not_for_answers(tmp_path: Path) -> None:
    """Where the requester may not decide, they answer what their own task asks; the list says who decides."""
    async with game(tmp_path, ASKS, final("done"), WRITES, approvers="not_requester") as (server, here):
        desk = await here.send("ask", "where is it")
        await here.until(desk, "ask")
        told, _ = await here.ask("answer", "the river")
        await server.until(str(told.task), "task_ended")
        desk = await here.send("ask", "write")
        lines = await here.until(desk, "wait")
        assert "waits for approval by a reviewer or an admin, but not admin" in texts(lines, "wait")[0]


# -- limits and failures -----------------------------------------------------------------


async def test_a_computer_asks_so_much_and_no_more(tmp_path: Path) -> None:
    """Too long, too many at once, too often: a sentence each, and the others go on."""
    asked = MAX_OPEN + 1
    async with game(tmp_path, *[ASKS] * (ASKS_A_MINUTE + 1)) as (_, here):
        assert "4096 are the most" in str((await here.refused("ask", "x" * 4097)).message)
        assert (await here.refused("ask", " ")).code == "invalid_request"
        desks = [await here.send("ask", f"task {n}") for n in range(MAX_OPEN)]
        for desk in desks:
            await here.until(desk, "ask")
        assert "Leave one of them" in str((await here.refused("ask", "one more")).message)
        for desk in desks:
            await here.send("leave", desk=desk)
        for _ in range(ASKS_A_MINUTE - asked):
            desk = await here.send("ask", "more")
            await here.until(desk, "ask")
            await here.send("leave", desk=desk)
        refused = await here.refused("ask", "too much")
        assert refused.code == "busy"
        assert "Try again in" in str(refused.message)
        assert (await here.ask("tasks"))[0].ok


class Broken:
    """A desk that fails at everything."""

    def opened(self, line: Any) -> None:
        del line

    def asked(self, line: Any, request: Any, body: bytes) -> None:
        raise RuntimeError("the in-game commands are broken")

    def closed(self, line: Any) -> None:
        del line


async def test_a_failing_command_is_not_felt_by_the_link(tmp_path: Path) -> None:
    """The player gets a sentence, and the computer goes on to answer pings and calls."""
    async with running(tmp_path, model=Listening()) as server:
        server.orchestrator.hub._players = Broken
        async with player(server, await server.computer("3")) as here:
            assert (await here.refused("ask", "fix")).code == "no_desk"
            server.orchestrator.hub._players = lambda: None
            assert (await here.refused("tasks")).code == "no_desk"
            assert server.orchestrator.hub.list_computers()[0].online


async def test_a_defect_behind_a_command_is_a_sentence(tmp_path: Path) -> None:
    """What fails while a request is answered ends that request only."""
    async with running(tmp_path, model=Listening()) as server:
        store = server.orchestrator.store
        working, fails = store.find_token, [True]

        async def find_token(token_hash: str) -> Any:
            if fails[0]:
                raise RuntimeError("the disk is gone")
            return await working(token_hash)

        token = await server.computer("3")
        async with dialed(server.url, token) as client:
            await client.greet()
            store.find_token = find_token  # type: ignore[method-assign]
            here = Player(client)
            assert (await here.refused("tasks")).code == "internal"
            fails[0] = False
            assert (await here.ask("tasks"))[0].ok
