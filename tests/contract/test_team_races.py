"""Several reviewers do something with one request at once, and time passes: no decision is doubled or lost.

The cases come from a table: what each does, who they are, and when. Real sockets, REST and SQLite; the clock is moved
by hand. What was answered is compared with the journal, the journal with what the computer was sent.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from orchestrator.core.audit.check import check
from orchestrator.core.audit.rights import RightsBook
from orchestrator.core.task.fold import fold
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.wire import wire
from orchestrator.testing import ManualClock
from tests.contract.parts import Playing, calls_of, changes_in, policy
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation, Opened, Reviewer
from tests.waiting import within

WHAT = ("approve", "reject", "edit", "claim", "release", "escalate", "comment", "to_escalation", "to_expiry")
"""What one of them does; the last two move the clock to the time at which that happens by itself."""
TABLE = tuple(product(WHAT, WHAT))
"""What the first two do; what the third does is drawn."""
ESCALATE_S, EXPIRE_S = 120, 300
MODEL_WROTE, PERSON_WROTE = "print('of the model')\n", "print('of a person')\n"
APART_S = 0.003
"""The others may start so much after the first."""
POLICY = policy(
    requests={"expires_s": {"medium": EXPIRE_S, "high": EXPIRE_S}, "remind_before_s": 0, "on_timeout": "continue"},
    approvals=[{"steps": [{"count": 2}], "escalate_after_s": ESCALATE_S, "escalate_to": "role:admin"}],
)


@dataclass
class Seat:
    """One person: their token, and their connection to the reviewers' socket, which is read all the time."""

    name: str
    token: str
    socket: Reviewer
    answers: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)

    async def read(self) -> None:
        """Hear everything, and hand each answer to whoever waits for it."""
        while True:
            frame = await self.socket.hear_whenever()
            if frame["type"] in ("done", "failed"):
                self.answers.pop(frame["ref"]).set_result(frame)

    async def decide(self, request: Mapping[str, Any], ref: str, resume: Mapping[str, Any]) -> dict[str, Any]:
        """Decide on the socket; what was heard."""
        answer = self.answers[ref] = asyncio.get_running_loop().create_future()
        await self.socket.send_decision(request, ref=ref, **resume)
        return await within(answer)


@dataclass(frozen=True)
class Did:
    """What one of them did, and what they heard."""

    by: str
    what: str
    ok: bool
    status: int
    said: Mapping[str, Any]


@dataclass
class TeamRaces:
    """The server, the people, and what the computer was sent."""

    opened: Opened
    model: Playing
    seats: list[Seat]
    sent: list[wire.Call]
    requester: str
    ends: Counter[str] = field(default_factory=Counter)
    """How the races ended: if all end alike, they are none."""

    async def run(self, number: int) -> None:
        """One race."""
        draw = random.Random(number)
        path, prompt = f"r{number}.lua", f"race {number}"
        self.model.for_prompt[prompt] = [says(call("cc_write", path=path, content=MODEL_WROTE)), final()]
        self.sent.clear()
        task_id, request = await self.opened.asked(prompt=prompt, token=self.requester)
        if draw.random() < 0.5:
            assert (await self._does(draw.choice(self.seats), "approve", request, draw, "0")).ok
        before = len(await self.opened.items(task_id))
        done = await asyncio.gather(
            *(
                self._later(draw.choice(self.seats), what, request, draw, str(n))
                for n, what in enumerate((*TABLE[number % len(TABLE)], draw.choice(WHAT)), start=1)
            )
        )
        await self._everything_answered_is_kept(task_id, before, done)
        await self._over(task_id, request, draw)
        items = await self.opened.items(task_id)
        self._nobody_decided_what_was_not_theirs(items)
        await self._what_ran(items, path)

    async def _later(self, seat: Seat, what: str, request: Mapping[str, Any], draw: random.Random, n: str) -> Did:
        pause, by_socket = draw.choice((0.0, draw.uniform(0, APART_S))), draw.random() < 0.5
        await asyncio.sleep(pause)
        return await self._does(seat, what, request, draw, n, by_socket=by_socket)

    async def _does(
        self,
        seat: Seat,
        what: str,
        request: Mapping[str, Any],
        draw: random.Random,
        n: str,
        *,
        by_socket: bool = False,
    ) -> Did:
        if what.startswith("to_"):
            self.opened.advance(ESCALATE_S if what == "to_escalation" else EXPIRE_S)
            return Did("time", what, ok=True, status=200, said={})
        if what not in ("approve", "reject", "edit"):
            body = {"text": f"word {n}"} if what == "comment" else {}
            answer = await self.opened.ask(
                "POST", f"/v1/requests/{request['request_id']}/{what}", body, token=seat.token
            )
            return Did(seat.name, what, answer.is_success, answer.status_code, answer.json())
        resume = {**_resume(what, request), "idempotency_key": f"{seat.name}-{n}-{request['request_id']}"}
        if by_socket:
            frame = await seat.decide(request, f"{n} of {request['request_id'][:40]}", resume)
            status = 200 if frame["type"] == "done" else _STATUS.get(frame["code"], 0)
            return Did(seat.name, what, frame["type"] == "done", status, frame)
        answer = await self.opened.decide(request, token=seat.token, **resume)
        return Did(seat.name, what, answer.is_success, answer.status_code, answer.json())

    async def _everything_answered_is_kept(self, task_id: str, before: int, done: list[Did]) -> None:
        """Each word that was taken is one item of its author, unless it was said before; no other is in the journal."""
        items = (await self.opened.items(task_id))[before:]
        kept = Counter((one.actor.id, kind) for one in items if (kind := _kind_of(one)) is not None)
        for one in done:
            assert one.ok or one.status in (403, 409), one
        for (name, kind), count in kept.items():
            taken = [one for one in done if one.by == name and one.ok and _KINDS.get(one.what, one.what) == kind]
            assert count <= len(taken), (name, kind, count, done)
        for one in done:
            if one.ok and one.what in ("reject", "edit", "comment", "escalate"):
                # An approval, a claim and its release may have been made before, and then are no second item.
                assert kept[one.by, _KINDS.get(one.what, one.what)] >= 1, (one, kept)

    async def _over(self, task_id: str, request: Mapping[str, Any], draw: random.Random) -> None:
        """The race is over: those who still may approve what waits, or it is canceled."""
        if draw.random() < 0.7:
            root = self.seats[-1]
            await self._does(root, "release", request, draw, "8")
            for seat in (root, *draw.sample(self.seats[:-1], 2)):
                await self._does(seat, "approve", request, draw, "9")
        whole = await self.opened.task(task_id)
        if whole["request"] is not None:
            assert whole["request"]["request_id"] == request["request_id"], "an edit of a text asks for nothing new"
            await self.opened.ask("POST", f"/v1/tasks/{task_id}/cancel", {})
        await self.opened.ended(task_id)

    def _nobody_decided_what_was_not_theirs(self, items: list[AgentTaskItem]) -> None:
        """While somebody else had claimed it only an admin decided, and after an escalation nobody but admins."""
        for place, item in enumerate(items):
            if _kind_of(item) not in ("approve", "reject"):
                continue
            request = fold(items[:place]).request
            assert request is not None
            admin = item.actor.id == "root"
            assert admin or request.team.claimed_from(item.actor.id, item.at) is None, item
            assert admin or not request.team.escalated_to, item
            assert item.at < request.expires_at, item  # type: ignore[operator]

    async def _what_ran(self, items: list[AgentTaskItem], path: str) -> None:
        """The computer was sent the write once, as two people approved it, or not at all."""
        given: dict[str, set[str]] = {}
        last, rejected = "", False
        for item in items:
            for one in getattr(item.fact, "decisions", ()):
                rejected |= one.action == "reject"
                last = one.runs_digest or one.action_digest
                given.setdefault(last, set()).add(item.actor.id)
        enough = not rejected and len(given.get(last, ())) >= 2
        edited = any(one.action == "edit" for item in items for one in getattr(item.fact, "decisions", ()))
        wrote = (PERSON_WROTE if edited else MODEL_WROTE) if enough else None
        assert changes_in(self.sent) == (["fs_write"] if enough else []), [one.method for one in self.sent]
        found = self.opened.stub.disk.nodes.get(path)
        assert found == (wrote.encode() if wrote is not None else None)
        assert sum(item.fact.kind == "tool_started" for item in items) == enough
        book = RightsBook()
        for item in await self.opened.system_items():
            book.take(item)
        assert [one for one in check(items, rights=book) if one.level == "violation"] == []
        closed = fold(items).closed
        self.ends["ran" if enough else "rejected" if rejected else closed[-1].how] += 1


_KINDS = {
    "edit": "approve",
    "release": "unclaimed",
    "claim": "claimed",
    "escalate": "escalated",
    "comment": "commented",
}
_STATUS = {"not_pending": 409, "expired": 409, "invalid_decision": 409, "forbidden": 403}


def _kind_of(item: AgentTaskItem) -> str | None:
    """What a person did by this item; None: nothing, or no person did it."""
    if item.actor.kind != "person":
        return None
    if item.fact.kind == "decision_recorded":
        return "reject" if item.fact.decisions[0].action == "reject" else "approve"
    if item.fact.kind == "review_noted" and item.fact.what not in ("notified", "viewed"):
        return "approve" if item.fact.what == "approved" else item.fact.what
    return None


def _resume(verb: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a decision."""
    (shown,) = request["tool_calls"]
    if verb != "edit":
        return {"action": verb}
    args = {**shown["args"], "content": PERSON_WROTE}
    return {"decisions": [{"call_id": shown["call_id"], "action": "edit", "args": args}]}


@asynccontextmanager
async def _racing(installation: Installation) -> AsyncIterator[TeamRaces]:
    """A server that wants two people, three reviewers and an admin."""
    model = Playing()
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(installation.open(model, policy=POLICY, clock=ManualClock()))
        seats = []
        for name in ("bob", "carol", "dave", "root"):
            token = await opened.person(name, "admin" if name == "root" else "reviewer")
            socket = await stack.enter_async_context(opened.reviewing(token))
            seats.append(Seat(name, token, socket))
            reading = asyncio.create_task(seats[-1].read())
            stack.callback(reading.cancel)
        alice = await opened.person("alice", "submitter")
        yield TeamRaces(opened, model, seats, calls_of(opened.stub), alice)


async def test_reviewers_and_time_race_for_one_request(installation: Installation) -> None:
    """A quarter of the table (D7, D21, D22, O7)."""
    async with _racing(installation) as races:
        for number in range(0, len(TABLE), 4):
            await races.run(number)
        assert {"ran", "rejected", "expired"} <= set(races.ends), races.ends


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_reviewers_and_time_race_three_hundred_times(kept_installation: Installation) -> None:
    """The whole table nearly four times, each time with other people, at other moments, and with another third."""
    async with _racing(kept_installation) as races:
        for number in range(1_000, 1_300):
            await races.run(number)
        assert {"ran", "rejected", "expired", "canceled"} <= set(races.ends), races.ends
