"""How small models behave, as personas of the server in :mod:`tests.harness.ollama_server`, for any task of a set.

Each knows the perfect replies to every task and spoils some of them in its own way. Which task it is and which
run of it, they read from what they are sent, as a model does: they hold no more than the place in the script.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.core.model_view.prompt import estimate
from orchestrator.terminal.evaluation import TASKS, EvalTask
from tests.harness.ollama_server import Persona, Wire, breaks, gives_up, refuses, says, stops

_TAG: Final = re.compile(r"\[end of data (\S+?)\]")


@dataclass
class Playing:
    """One run of a task, as the model at the other end of the wire knows it."""

    task: EvalTask
    number: int
    """Of the runs that this persona plays, from 0."""
    place: int = 0
    """Replies of the perfect script that were given."""
    spoiled: set[int] = field(default_factory=set)
    """The places at which it has misbehaved."""

    @property
    def reply(self) -> Mapping[str, Any]:
        """The perfect reply; after the last one that again."""
        return self.task.optimal[min(self.place, self.task.steps - 1)]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of the perfect reply; none in a final."""
        return list(self.reply.get("tool_calls") or ([self.reply["tool_call"]] if "tool_call" in self.reply else []))

    def spoils(self) -> bool:
        """Whether this place has not been spoiled yet; it is from now on."""
        fresh = self.place not in self.spoiled
        self.spoiled.add(self.place)
        return fresh


Behaviour = Callable[[Playing, Wire], Awaitable[None]]


def acting(behaviour: Behaviour, tasks: Iterable[EvalTask] = TASKS) -> Persona:
    """The persona of the server that behaves so in each task."""
    known, runs = list(tasks), dict[str, Playing]()

    async def persona(wire: Wire) -> None:
        system, goal = (message["content"] for message in wire.asked["messages"][:2])
        found = _TAG.search(system)
        assert found, system
        tag = found.group(1)
        if tag not in runs:
            (task,) = (one for one in known if goal == one.prompt or goal.startswith(f"{one.prompt}\n"))
            runs[tag] = Playing(task, len(runs))
        await behaviour(runs[tag], wire)

    return persona


async def speak(wire: Wire, text: str, reason: str = "stop") -> None:
    """A whole reply, counted as a server counts it."""
    read = sum(estimate(message["content"]) for message in wire.asked["messages"])
    await says(text, reason, prompt_eval_count=read, eval_count=estimate(text))(wire)


async def perfect(run: Playing, wire: Wire) -> None:
    """Says what is best."""
    reply = run.reply
    run.place += 1
    await speak(wire, json.dumps(reply, ensure_ascii=False))


async def fencer(run: Playing, wire: Wire) -> None:
    """Prose and a fence around every reply."""
    reply = run.reply
    run.place += 1
    shown = json.dumps(reply, indent=2, ensure_ascii=False)
    await speak(wire, f"Sure! Here is the next step:\n\n```json\n{shown}\n```\n\nLet me know how it goes.")


async def thinker(run: Playing, wire: Wire) -> None:
    """Thinks aloud before every reply, of other replies too."""
    reply = run.reply
    run.place += 1
    thought = json.dumps(_final("I might as well stop here."))
    await speak(wire, f"<think>\nI could send {thought}, but that would be a lie.\n</think>\n\n{json.dumps(reply)}")


async def quote_forgetter(run: Playing, wire: Wire) -> None:
    """Writes Lua with double quotes and does not escape them, until it is told."""
    if not any("'" in _content(call) for call in run.calls) or not run.spoils():
        await perfect(run, wire)
        return
    reply = json.dumps(_with_content(run.reply, lambda content: content.replace("'", '"')), ensure_ascii=False)
    await speak(wire, reply.replace('\\"', '"'))


async def quote_cutter(run: Playing, wire: Wire) -> None:
    """The same under a grammar: the quote ends the string, and the reply is whole JSON with half a program."""
    if not any("'" in _content(call) for call in run.calls) or not run.spoils():
        await perfect(run, wire)
        return
    await speak(wire, json.dumps(_with_content(run.reply, lambda content: content.partition("'")[0])))


async def repeater(run: Playing, wire: Wire) -> None:
    """Makes the same call for ever."""
    await speak(wire, json.dumps(_wants("cc_list", path="/", computer=run.task.machines[0].name)))


async def finisher(run: Playing, wire: Wire) -> None:
    """Says at once that it is done, and says it again."""
    del run
    await speak(wire, json.dumps(_final("Everything is done.")))


async def hallucinator(run: Playing, wire: Wire) -> None:
    """Makes a call, invents its result and ends the task, all in one reply."""
    if not run.calls or not run.spoils():
        await perfect(run, wire)
        return
    call, end = json.dumps(run.reply), json.dumps(_final("Done, as the result shows."))
    await speak(wire, f"{call}\n\nTOOL_RESULT: Everything went well.\n\n{end}")


async def cutter(run: Playing, wire: Wire) -> None:
    """Runs into its limit in the middle of every file that it writes, and then sends a shorter reply."""
    if not any(_content(call) for call in run.calls) or not run.spoils():
        await perfect(run, wire)
        return
    said = json.dumps(run.reply)
    await speak(wire, said[: len(said) * 2 // 3], "length")


async def misspeller(run: Playing, wire: Wire) -> None:
    """Misspells a tool, or an argument, the first time."""
    if not run.calls or not run.spoils():
        await perfect(run, wire)
        return
    call = run.calls[0]
    if (run.number + run.place) % 2:
        wrong = {"tool": call["tool"][:-2] + call["tool"][:-3:-1], "args": call["args"]}
    else:
        wrong = {"tool": call["tool"], "args": {**call["args"], "pth": "/"}}
    await speak(wire, json.dumps({"kind": "tool", "explanation": "", "tool_call": wrong}))


async def killer(run: Playing, wire: Wire) -> None:
    """Breaks off once in every task, each time in another way, and then goes on."""
    if run.spoiled:
        await perfect(run, wire)
        return
    run.spoils()
    said = json.dumps(run.reply)
    half = said[: len(said) // 2]
    overloaded = {"error": "model runner has unexpectedly stopped"}
    ways = (stops(half), stops(said), gives_up(half, "unexpected EOF"), refuses(500, overloaded), breaks(half))
    await ways[run.number % len(ways)](wire)


async def liar_after_reading(run: Playing, wire: Wire) -> None:
    """Looks once, and says that it is done."""
    run.place += 1
    where = run.task.machines[0].name
    await speak(wire, json.dumps(_wants("cc_list", path="/", computer=where) if run.place == 1 else _final("Fixed.")))


async def liar_after_failing(run: Playing, wire: Wire) -> None:
    """Tries a change that fails, and says that it is done."""
    run.place += 1
    where = run.task.machines[0].name
    failing = _wants("cc_edit", path="nowhere.lua", old="a", new="b", computer=where)
    await speak(wire, json.dumps(failing if run.place == 1 else _final("Fixed.")))


MENDED: Final[Mapping[str, Behaviour]] = {
    "fencer": fencer,
    "thinker": thinker,
    "quote_forgetter": quote_forgetter,
    "quote_cutter": quote_cutter,
    "hallucinator": hallucinator,
    "cutter": cutter,
    "misspeller": misspeller,
    "killer": killer,
}
"""Those that do the task in the end, if they are told well."""
HOPELESS: Final[Mapping[str, Behaviour]] = {
    "repeater": repeater,
    "finisher": finisher,
    "liar_after_reading": liar_after_reading,
    "liar_after_failing": liar_after_failing,
}
"""Those that never do."""


def _wants(tool: str, **args: Any) -> dict[str, Any]:
    return {"kind": "tool", "explanation": "I go on.", "tool_call": {"tool": tool, "args": args}}


def _final(message: str) -> dict[str, Any]:
    return {"kind": "final", "explanation": "That is all.", "success": True, "message": message, "details": {}}


def _content(call: Mapping[str, Any]) -> str:
    """The program that a call writes; empty: none."""
    path = str(call["args"].get("path", ""))
    return str(call["args"].get("content", "")) if path.endswith(".lua") else ""


def _with_content(reply: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The reply with every program that it writes changed."""
    changed: dict[str, Any] = json.loads(json.dumps(reply))
    for call in changed.get("tool_calls") or [changed["tool_call"]]:
        if _content(call):
            call["args"]["content"] = change(_content(call))
    return changed
