"""Undos of tasks that nobody thought of, against an oracle that looks at nothing but bytes."""

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from tests.story.harness import Api, Server, check_laws, computer, each, ended, facts_of, last_words
from tests.story.undo_drawn import CAPACITY, Drawn, Home, as_shown
from tests.story.undo_oracle import Asked, Seen, Tree, Wanted, comes_of, differing, state, wanted


@dataclass
class Watcher:
    """Decides what a task asks, and remembers every byte before and after each of its steps."""

    api: Api
    home: Home
    seen: list[Seen] = field(default_factory=list)
    step: int = 0
    before: Tree = field(default_factory=dict)
    items: list[AgentTaskItem] = field(default_factory=list)

    async def see(self, task_id: str, drawn: Drawn | None = None) -> list[AgentTaskItem]:
        """A task to its end; with ``drawn`` its person meddles, rejects and cancels, else all is approved."""
        self.before = self.home.tree()
        async with contextlib.aclosing(self.api.items(task_id)) as stream:
            async for item in stream:
                self.items.append(item)
                match item.fact:
                    case facts.ModelReplied():
                        self._look()
                        self.step += 1
                    case facts.CallsProposed() if item.actor.kind == "system":
                        self._look()
                        self.step += 1
                    case facts.ReviewRequested(request_id=request_id):
                        self._look()
                        await self._decide(task_id, request_id, drawn)
                    case _:
                        pass
        self._look()
        check_laws(self.items)
        return self.items

    def _look(self) -> None:
        """Nothing is done while somebody is asked: what changed since the last look was the task."""
        now = self.home.tree()
        if now != self.before:
            self.seen.append(Seen(self.step, self.before, now))
        self.before = now

    async def _decide(self, task_id: str, request_id: str, drawn: Drawn | None) -> None:
        word = "approve" if drawn is None else drawn.word()
        if drawn is not None:
            if drawn.full == "task" and not self.seen:
                self.home.fill(drawn.dice.randint(500, 9_000))
            if len(self.items) < 60:
                drawn.meddle(self.home, drawn.dice.choice((0, 0, 0, 1)))
            self.before = self.home.tree()
        if word == "cancel":
            await self.api.ok("POST", f"/v1/tasks/{task_id}/cancel", {})
        else:
            # Whoever decides has seen all of it.
            await self.api.ok("GET", f"/v1/requests/{request_id}")
            await self.api.resume(request_id, word)


@dataclass
class Undo:
    """One undo of a task that was watched, and what the oracle says of it."""

    api: Api
    home: Home
    task_id: str
    asked: Asked
    seen: list[Seen]
    watcher: Watcher = field(init=False)

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.api, self.home)

    @property
    def places(self) -> dict[str, Wanted]:
        return wanted(self.seen, self.asked)

    async def preview(self) -> dict[str, str]:
        body = {**self.asked.body(), "dry_run": True}
        response = await self.api.call("POST", f"/v1/tasks/{self.task_id}/undo", body)
        if self.asked.path is not None and "changed nothing at" in response.text:
            return {}
        assert response.is_success, response.text
        answer = response.json()
        return {f"{one['computer'] or 'workspace'}:{one['path']}": one["verdict"] for one in answer["places"]}

    async def perform(self) -> facts.TaskEnded | None:
        """How it ended; None: there is nothing to undo."""
        if not await self.preview():
            assert not self.places, self.places
            return None
        answer = await self.api.ok("POST", f"/v1/tasks/{self.task_id}/undo", self.asked.body())
        items = await self.watcher.see(answer["task_id"])
        return ended(items)

    async def must_leave(self, tree: Tree) -> None:
        """The tree is this one, and what is not as it was is said to be kept."""
        now = self.home.tree()
        wrong = differing(now, tree)
        assert not wrong, {place: (state(now, place), state(tree, place), self.places.get(place)) for place in wrong}
        kept = {place for place, verdict in (await self.preview()).items() if verdict == "conflict"}
        other = {as_shown(place) for place, one in self.places.items() if state(now, place) != one.target}
        assert other <= kept, f"nobody is told of {other - kept}"
        # Whether somebody made a directory just before the task did is not looked at twice.
        # And what cannot be looked at on the host, since a person made something of another kind there, is kept.
        directories = {place for place, data in now.items() if data is None}
        odd = {place for place in kept if place.startswith("workspace:")}
        # Nor can an old file come beside what is no more, under a file of theirs.
        odd |= {place for place in kept if place.endswith(f".before-{self.task_id}")}
        assert kept - other <= directories | odd, f"told to be kept, and as it was: {kept - other}"


async def _generated(server: Server, tmp: Path, number: int) -> None:
    drawn = Drawn(number)
    async with computer(server, tmp) as pc:
        pc.disk.mkdir(parents=True)
        home = Home(pc, server.home / "workspace")
        drawn.place_files(home)
        pc.boot(f"--capacity={CAPACITY}")
        watcher = Watcher(server.api(), home)
        start = home.tree()
        task_id = await watcher.api.submit(*drawn.script(home), computers=(pc.name,))
        await watcher.see(task_id, drawn)
        drawn.meddle(home, 3)
        undo = Undo(watcher.api, home, task_id, drawn.asked, watcher.seen)
        await _taken_back(undo, drawn, start)


async def _taken_back(undo: Undo, drawn: Drawn, start: Tree) -> None:
    home, now = undo.home, undo.home.tree()
    left = comes_of(now, undo.places, undo.asked, undo.task_id)
    if drawn.full == "undo":
        home.fill(drawn.dice.randint(0, 4_000))
    how = await undo.perform()
    if how is None:
        assert home.tree() == now
        return
    if not drawn.full:
        assert len(facts_of(undo.watcher.items, facts.ReviewRequested)) <= 1, "one request shows all of it"
    if how.status_reason == "not_restored":
        undo, how = await _again_with_room(undo, how, now, left)
    else:
        home.make_room()
    await undo.must_leave(left)
    if undo.asked.step is None and undo.asked.path is None and _nobody_else(undo.seen, start, now):
        assert how.status == "Completed"
        assert not differing(home.tree(), start)
    await _undo_of_the_undo(undo, drawn)


def _nobody_else(seen: list[Seen], start: Tree, now: Tree) -> bool:
    """Whether the task alone changed anything: then the oracle is not needed."""
    looks = [start, *(tree for one in seen for tree in (one.before, one.after)), now]
    return all(before == after for before, after in zip(looks[::2], looks[1::2], strict=True))


async def _again_with_room(undo: Undo, how: facts.TaskEnded, now: Tree, left: Tree) -> tuple[Undo, facts.TaskEnded]:
    """An undo for which there was no room: nothing is half done, and another one ends it."""
    assert how.status == "Failed"
    assert how.details["left"], how
    halfway = undo.home.tree()
    third = {
        place for place in {*now, *halfway} if state(halfway, place) not in (state(now, place), state(left, place))
    }
    assert not {place for place in third if state(halfway, place) not in ("absent", None)}, third
    undo.home.make_room()
    again = replace(undo)
    ending = await again.perform()
    assert ending is not None
    assert ending.status_reason != "not_restored", ending
    return again, ending


async def _undo_of_the_undo(undo: Undo, drawn: Drawn) -> None:
    """It brings back what the undo changed, but for what a person changed since."""
    (task_id,) = {item.task_id for item in undo.watcher.items}
    drawn.meddle(undo.home, drawn.dice.choice((0, 0, 2)))
    back = Undo(undo.api, undo.home, task_id, Asked(), undo.watcher.seen)
    now = undo.home.tree()
    left = comes_of(now, back.places, back.asked, task_id)
    how = await back.perform()
    if how is not None:
        assert how.status_reason != "not_restored", how
        await back.must_leave(left)


def _cases(server: Server, tmp: Path, numbers: range) -> dict[str, Any]:
    return {str(number): _generated(server, tmp / str(number), number) for number in numbers}


@pytest.mark.deep
async def test_generated_tasks_are_taken_back(server: Server, tmp_path: Path) -> None:
    """Byte for byte, but for what a person changed since; and the undo is undone."""
    await each(_cases(server, tmp_path, range(3)), lambda _: last_words(server.home / "server.log"))


@pytest.mark.deep
@pytest.mark.timeout(3600)
async def test_five_hundred_generated_tasks_are_taken_back(server: Server, tmp_path: Path) -> None:
    """The same, five hundred times."""
    for part in range(1000, 1500, 50):
        await each(_cases(server, tmp_path, range(part, part + 50)), lambda _: last_words(server.home / "server.log"))
