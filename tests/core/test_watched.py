"""Programs that are watched: where, and what the items then say of what they changed."""

import pytest
from pydantic import ValidationError

from orchestrator.core.policy import Policy, default_policy
from orchestrator.core.policy.verdicts import is_watched, watched_roots
from orchestrator.core.task import facts
from orchestrator.core.task.facts import CallId, Watched
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.undo.plan import Listing
from orchestrator.core.undo.touches import ABSENT, DIRECTORY, Changes, changes, differing, named, trees_of
from orchestrator.core.wire.wire import ComputerId, RunId
from tests.core.journal import Journal, call
from tests.core.trees import COMPUTER, digest

A, B, C = digest(b"a"), digest(b"b"), digest(b"c")
ALL = ("**",)


class Runs:
    """A task that runs programs, and the lines that a store has of what was watched."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.lines: dict[str, bytes] = {}

    def kept(self, states: dict[str, str]) -> str:
        lines = Listing(states).lines
        self.lines[digest(lines)] = lines
        return digest(lines)

    def start(self, watched: Watched | None, computer: ComputerId = COMPUTER) -> CallId:
        """A program begins; its call."""
        name = CallId(f"c{len(self.journal.items)}")
        self.journal.proposed([call(name, "cc_run_program", path="p.lua")], "allow")
        run = RunId(f"{name}.1")
        self.journal.add(
            facts.ToolStarted(call_id=name, run_id=run, computer=computer, number=1, action_digest="", watched=watched)
        )
        return name

    def run(self, before: Watched | None, after: Watched | None, *, code: str | None = None) -> Changes:
        """A program that was heard to end."""
        name = self.start(before)
        end = {"call_id": name, "run_id": RunId(f"{name}.1"), "ok": code is None, "code": code, "text": ""}
        self.journal.add(facts.ToolFinished.model_validate({**end, "watched": after}))
        return self.changed()

    def changed(self, items: list[AgentTaskItem] | None = None) -> Changes:
        items = items or self.journal.items
        return changes(items, {one: self.lines[one] for one in trees_of(items)})


def touched(changed: Changes) -> dict[str, tuple[str, str | None]]:
    return {touch.place.path: (touch.before, touch.after) for touch in changed.touches}


# -- where ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("globs", "roots"),
    [
        (("**",), ("",)),
        (("farm/*.lua", "farm/deep/**", "**/x"), ("",)),
        (("/farm/*.lua", "farm/deep/**", "farms/?/x", "log"), ("farm", "farms", "log")),
        ((), ()),
    ],
)
def test_only_the_smallest_directories_are_listed(globs: tuple[str, ...], roots: tuple[str, ...]) -> None:
    assert watched_roots(globs) == roots


def test_what_is_listed_beside_the_globs_is_not_watched() -> None:
    assert [path for path in ("farm/a.lua", "farm/a.txt", "log") if is_watched(("farm/*.lua", "log"), path)] == [
        "farm/a.lua",
        "log",
    ]


def test_a_policy_that_does_not_say_it_watches_everything() -> None:
    """So does the shipped one; what an old file judges keeps its version."""
    assert Policy(rules=()).watch == default_policy().watch == ALL
    assert Policy(rules=()).version == Policy(rules=(), watch=ALL).version != Policy(rules=(), watch=()).version


def test_a_policy_limits_the_runs_of_computers_by_their_names() -> None:
    """The first glob that matches counts; a policy that does not say it keeps its version."""
    limited = Policy(rules=(), run_timeout_s={"farm": 5, "f*": 600})
    assert [limited.run_timeout_of(name) for name in ("farm", "field", "mine")] == [5, 600, None]
    assert Policy(rules=()).run_timeout_of("farm") is None
    assert Policy(rules=()).version == Policy(rules=(), run_timeout_s={}).version != limited.version
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Policy(rules=(), run_timeout_s={"farm": 0})


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("farm/", "no canonical path can match: 'farm/'"),
        ("rom/**", "no other disk: 'rom/.*'"),
        ("/disk2/x", "no other disk"),
        (".cc-orchestrator", "no other disk"),
    ],
)
def test_what_is_never_watched_is_refused(glob: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Policy(rules=(), watch=("farm/**", glob))


# -- what is known then ----------------------------------------------------------------------


def test_what_changed_while_a_program_ran_is_known_where_it_was_watched() -> None:
    runs = Runs()
    before = runs.kept({"a": A, "d": DIRECTORY, "d/b": B, "same": C})
    after = runs.kept({"a": B, "new": C, "same": C})
    told = runs.run(Watched(globs=("a", "d/**", "*"), listing=before), Watched(listing=after, changed=("a",)))
    assert touched(told) == {"a": (A, B), "d": (DIRECTORY, ABSENT), "d/b": (B, ABSENT), "new": (ABSENT, C)}
    (one,) = told.untold
    assert one.what == (
        "A program ran: which files it changed is known only in a, d/**, *; what else it changed, moved or sent is not."
    )
    again = runs.run(Watched(globs=ALL, listing=before), Watched(listing=after))
    assert "is known only on the computer's own disk;" in again.untold[-1].what


def test_what_nobody_could_look_at_is_said() -> None:
    runs = Runs()
    listing = runs.kept({"a": A})
    nothing = "A program ran: what it changed, moved or sent is not known."
    assert runs.run(None, None).untold[-1].what == nothing
    before = Watched(globs=ALL, why="The computer took too long.")
    assert runs.run(before, None).untold[-1].what == (
        f"{nothing} Nobody could look before at the files that are watched: The computer took too long."
    )
    for after in (None, Watched(why="It is gone.")):
        said = runs.run(Watched(globs=ALL, listing=listing), after).untold[-1].what
        why = ": It is gone." if after else "."
        assert said == f"{nothing} Nobody could look afterwards at the files that are watched{why}"
    assert runs.changed().touches == ()
    runs.run(Watched(globs=ALL, listing=listing), Watched(listing=listing))
    assert [one.unseen for one in runs.changed().untold] == [False, True, True, True, False]
    assert runs.changed().unseen == runs.changed().untold[1:4]


def test_what_could_not_be_kept_or_seen_is_said_and_left_alone() -> None:
    """Taken for new, what was only not listed before would be removed."""
    runs = Runs()
    before = runs.kept({"a": A, "big": B, "big2": B})
    gaps = runs.kept({"big": B, "huge": ABSENT})
    after = runs.kept({"a": A, "big": C, "big2": B, "huge": C, "huge/x": C, "late": C})
    told = runs.run(
        Watched(globs=ALL, listing=before, gaps=gaps, why="Too many bytes."),
        Watched(listing=after, gaps=runs.kept({"late": ABSENT})),
    )
    assert touched(told) == {}
    assert [one.what for one in told.untold[1:]] == [
        "What it did to huge, late is not known: Too many bytes.",
        "It changed big, whose bytes were not kept: Too many bytes.",
    ]


def test_a_program_that_ran_on_is_known_only_until_it_was_left() -> None:
    runs = Runs()
    listing = runs.kept({"a": A})
    told = runs.run(Watched(globs=ALL, listing=listing), Watched(listing=listing), code="abandoned")
    assert told.untold[1].what.startswith("The program could not be stopped: its changes after that")


def test_a_program_that_did_not_even_start_changed_nothing() -> None:
    runs = Runs()
    changed = runs.run(Watched(globs=ALL, listing=runs.kept({})), None, code="stale")
    assert (changed.touches, changed.untold, changed.open) == ((), (), ())


@pytest.mark.parametrize("state", ["finished", "interrupted", "unknown"])
def test_what_differs_at_a_later_look_may_be_anybodys(state: str) -> None:
    runs = Runs()
    name = runs.start(Watched(globs=ALL, listing=runs.kept({"a": A})))
    ok = True if state == "finished" else None
    fact = {"call_id": name, "run_id": RunId(f"{name}.1"), "state": state, "ok": ok}
    later = Watched(listing=runs.kept({"a": B}), changed=("a",))
    runs.journal.add(facts.ToolSettled.model_validate({**fact, "watched": later}))
    assert touched(runs.changed()) == {"a": (A, None)}
    assert "a" not in {spot.path for spot in runs.journal.task.evidence.changes}


def test_many_paths_are_named_by_the_first_few() -> None:
    assert named(["a", "\udcff"]) == r"a, \xff"
    assert named([f"f{number}" for number in range(7)]) == "f0, f1, f2, f3, f4 and 2 more"


def test_what_is_below_something_unseen_is_no_difference() -> None:
    assert differing({"a": A, "ab": A}, {"a/b": A}, ["a"]) == {"ab": (A, ABSENT)}


def test_what_changed_while_it_ran_counts_for_what_the_task_wanted() -> None:
    """A program wrote the file: whoever then says that it is there is not doubted."""
    runs = Runs()
    runs.run(Watched(globs=ALL, listing=runs.kept({})), Watched(listing=runs.kept({"a": A}), changed=("a",)))
    assert {spot.path for spot in runs.journal.task.evidence.net} == {"a"}
