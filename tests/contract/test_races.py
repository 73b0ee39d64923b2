"""Two reviewers decide at once, over real sockets: one wins, the other is told who, and what runs is the winner's."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchestrator.core.audit.check import check
from orchestrator.core.wire import wire
from orchestrator.testing import ManualClock
from orchestrator.testing.stub_computer import StubComputer
from tests.contract.parts import Playing, policy
from tests.harness.support import call, final, says
from tests.harness.whole_server import Installation, Opened, Reviewer

MODEL_WROTE, PERSON_WROTE = "print('of the model')\n", "print('of a person')\n"
RACES = (
    ("approve", "approve"),
    ("approve", "reject"),
    ("edit", "approve"),
    ("respond", "reject"),
    ("edit", "edit"),
    ("same", "same"),
)
"""What the two say; ``same``: one person says it twice with one key."""
APART_S = 0.002
"""The second may start so much after the first: longer than deciding takes, so that both orders happen."""
A_NEW_MINUTE_S = 61.0
"""Only so many refusals are written down a minute; each race gets a minute of its own."""


@dataclass
class Seat:
    """One person at the endpoints: their token, and their connection to the reviewers' socket."""

    name: str
    token: str
    socket: Reviewer


@dataclass(frozen=True)
class Answer:
    """What one of the two heard."""

    by: str
    ok: bool
    status: int
    message: str
    decided_by: str


@dataclass
class Races:
    """The server, the people, and what the computer was sent."""

    opened: Opened
    model: Playing
    people: tuple[Seat, Seat]
    frames: list[wire.Call]
    requester: str
    won: Counter[str] = field(default_factory=Counter)
    """Who won how often, and by which endpoint: races that always end alike are none."""

    async def run(self, number: int) -> None:
        """One race."""
        draw = random.Random(number)
        path = f"r{number}.lua"
        prompt = f"race {number}"
        self.model.for_prompt[prompt] = [says(call("cc_write", path=path, content=MODEL_WROTE)), final()]
        self.opened.advance(A_NEW_MINUTE_S)
        task_id, request = await self.opened.asked(prompt=prompt, token=self.requester)
        said = RACES[number % len(RACES)]
        seats = [self.people[0]] * 2 if said[0] == "same" else draw.sample(self.people, 2)
        answers = await asyncio.gather(
            self._says(seats[0], said[0], request, draw, by_socket=draw.random() < 0.5),
            # One person has one socket here, and only one at a time listens there.
            self._says(seats[1], said[1], request, draw, by_socket=said[0] != "same" and draw.random() < 0.5),
        )
        whole = await self.opened.ended(task_id)
        winner = await self._one_winner(task_id, request, seats, said, answers)
        await self._what_ran(task_id, path, winner, whole)
        if said[0] != "same":
            await self._the_loser_is_told(request, seats, answers)
            self.won[next(one.by for one in answers if one.ok)] += 1

    async def _says(
        self, seat: Seat, verb: str, request: Mapping[str, Any], draw: random.Random, *, by_socket: bool
    ) -> Answer:
        resume = _resume(verb, request, draw)
        await asyncio.sleep(draw.choice((0.0, draw.uniform(0, APART_S))))
        if by_socket:
            frame = await seat.socket.decide(request["request_id"], ref=f"{seat.name}-{verb}", **resume)
            ok = frame["type"] == "done"
            status = 200 if ok else {"not_pending": 409}.get(frame["code"], 0)
            named = frame.get("details", {}).get("decided_by", "")
            return Answer(seat.name, ok, status, frame.get("message", ""), named)
        answer = await self.opened.decide(request, token=seat.token, **resume)
        error = answer.json().get("error", {})
        named = error.get("details", {}).get("decided_by", "")
        return Answer(seat.name, answer.is_success, answer.status_code, error.get("message", ""), named)

    async def _one_winner(
        self,
        task_id: str,
        request: Mapping[str, Any],
        seats: list[Seat],
        said: tuple[str, str],
        answers: Sequence[Answer],
    ) -> str:
        """The verb that won; one decision was recorded, of the one who was told so."""
        (recorded,) = await self.opened.items(task_id, "decision_recorded")
        assert recorded.fact.request_id == request["request_id"]  # type: ignore[union-attr]
        won = [place for place, answer in enumerate(answers) if answer.ok]
        if said[0] == "same":
            assert won == [0, 1], f"the same decision with the same key gets the first outcome: {answers}"
            return "approve"
        assert len(won) == 1, answers
        assert recorded.actor.id == seats[won[0]].name
        assert recorded.fact.decisions[0].action == said[won[0]]  # type: ignore[union-attr]
        return said[won[0]]

    async def _what_ran(self, task_id: str, path: str, verb: str, whole: Mapping[str, Any]) -> None:
        """The computer did what the winner said, once, or nothing."""
        wrote = {"approve": MODEL_WROTE, "edit": PERSON_WROTE}.get(verb)
        sent = [one for one in self.frames if one.method == "fs_write" and one.params["path"] == path]
        assert len(sent) == (wrote is not None), f"{verb} won, and {len(sent)} frames were sent"
        found = self.opened.stub.disk.nodes.get(path)
        assert found == (wrote.encode() if wrote is not None else None)
        assert whole["status"] == ("Canceled" if verb == "reject" else "Completed")
        items = await self.opened.items(task_id)
        assert [one for one in check(items) if one.level == "violation"] == []

    async def _the_loser_is_told(
        self, request: Mapping[str, Any], seats: list[Seat], answers: Sequence[Answer]
    ) -> None:
        """The loser hears 409 and who was first, and the attempt is in the node's own stream."""
        (lost,) = (place for place, answer in enumerate(answers) if not answer.ok)
        winner, loser = seats[1 - lost].name, seats[lost].name
        assert answers[lost].status == 409, answers[lost]
        assert f"by {winner}" in answers[lost].message, answers[lost]
        assert answers[lost].decided_by == winner
        refused = [
            (one.actor.id, one.fact.code)  # type: ignore[union-attr]
            for one in await self.opened.system_items("attempt_refused")
            if one.fact.request_id == request["request_id"]  # type: ignore[union-attr]
        ]
        assert refused == [(loser, "not_pending")]


def _resume(verb: str, request: Mapping[str, Any], draw: random.Random) -> dict[str, Any]:
    """The body of a decision; with the digest that was shown, or without."""
    (shown,) = request["tool_calls"]
    digest = {"expected_digest": shown["action_digest"]} if draw.random() < 0.5 else {}
    if verb == "same":
        return {"action": "approve", "idempotency_key": f"key of {request['request_id']}", **digest}
    if verb in ("approve", "reject"):
        return {"action": verb, **digest}
    one = {"call_id": shown["call_id"], "action": verb, **digest}
    if verb == "edit":
        one["args"] = {**shown["args"], "content": PERSON_WROTE}
    else:
        one["answer"] = "It is done already."
    return {"decisions": [one]}


def _frames_of(stub: StubComputer) -> list[wire.Call]:
    """The calls that the computer is sent from now on, as they come."""
    sent: list[wire.Call] = []
    take = stub.start

    def start(one: wire.Call, body: bytes | None) -> None:
        sent.append(one)
        take(one, body)

    vars(stub)["start"] = start
    return sent


@asynccontextmanager
async def _racing(installation: Installation) -> AsyncIterator[Races]:
    """A server by whose settings any reviewer decides, and two who do."""
    model = Playing()
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(
            installation.open(model, policy=policy(), clock=ManualClock(), approvers="role:reviewer")
        )
        seats = []
        for name in ("bob", "carol"):
            token = await opened.person(name, "reviewer")
            socket = await stack.enter_async_context(opened.reviewing(token))
            await socket.hear("snapshot")
            seats.append(Seat(name, token, socket))
        alice = await opened.person("alice", "submitter")
        yield Races(opened, model, (seats[0], seats[1]), _frames_of(opened.stub), alice)


async def test_two_reviewers_race_and_one_wins(installation: Installation) -> None:
    """Twenty random races: exactly one wins each, and the loser is told who was first (D6, D7, D8)."""
    async with _racing(installation) as races:
        for number in range(20):
            await races.run(number)
        assert set(races.won) == {"bob", "carol"}


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_two_reviewers_race_a_thousand_times(kept_installation: Installation) -> None:
    """A thousand more, on the store that a server has."""
    async with _racing(kept_installation) as races:
        for number in range(1_000, 2_000):
            await races.run(number)
        assert set(races.won) == {"bob", "carol"}
