"""What to do next: a pure function of the task and of the actor's work that is still under way.

Theory. The first rule that applies decides; several effects of one kind may run at once.
A started call without an outcome is *mine* while this very actor, in this life, owns its send
or its wait; else it is an orphan and is settled, never run again. While a sibling waits for a
person, allowed calls run or wait as the policy says: by default reads run and changes wait
(promise S3). What changes something runs one at a time in the order of the reply.
"""

from collections.abc import Set
from itertools import groupby

from orchestrator.core.task.facts import BlobRef, CallId, QuestionId, RequestId
from orchestrator.core.task.states import CallState, Phase
from orchestrator.core.task.task import AgentTask, CallRecord
from orchestrator.core.values import ComputerId, RunId, immutable


@immutable
class AskModel:
    """Ask the model for its next reply."""

    attempt: int


@immutable
class PlanRestoration:
    """Look at what is to be put back, and propose the calls that do it, or end."""


@immutable
class LookFirst:
    """Look at what must stay unchanged, before the model is asked first."""


@immutable
class EvaluatePolicy:
    """Read the reply and judge what it asks for; a claim of success after its checks."""

    reply: BlobRef


@immutable
class Observe:
    """Look at what these calls would touch, and ask a person."""

    call_ids: tuple[CallId, ...]
    reason: str
    """``approval`` or ``outcome_unknown``."""


@immutable
class AwaitReview:
    """Nothing to do until a person decides."""

    request_id: RequestId


@immutable
class AwaitAnswer:
    """Nothing to do until a person answers."""

    question_id: QuestionId


@immutable
class RunTool:
    """Do one call."""

    call_id: CallId


@immutable
class AwaitRuns:
    """Runs of this actor are under way."""

    run_ids: tuple[RunId, ...]


@immutable
class Settle:
    """Ask what became of runs whose outcome nobody heard; ``computer`` None: the workspace on this host."""

    computer: ComputerId | None
    call_ids: tuple[CallId, ...]


@immutable
class BeginUndo:
    """Submit the task that takes back what this one changed, where it changed something."""


@immutable
class Rest:
    """Nothing is left to do, ever."""


Effect = (
    AskModel
    | PlanRestoration
    | LookFirst
    | EvaluatePolicy
    | Observe
    | AwaitReview
    | AwaitAnswer
    | RunTool
    | AwaitRuns
    | Settle
    | BeginUndo
    | Rest
)


def next_effects(task: AgentTask, mine: Set[RunId] = frozenset()) -> tuple[Effect, ...]:
    """The effects to perform now; ``mine``: run ids whose send or wait this actor owns."""
    orphans = [record for record in task.open_runs if record.run_id not in mine]
    if orphans:
        return _settle(orphans)
    owned = tuple(record.run_id for record in task.open_runs if record.run_id is not None)
    match task.phase:
        case Phase.ENDED:
            return (_at_the_end(task, owned),)
        case Phase.NEW:
            return (Rest(),)
        case Phase.QUEUED | Phase.THINKING if task.restores is not None:
            return (PlanRestoration(),)
        case Phase.QUEUED if task.checking.needs_a_look:
            return (LookFirst(),)
        case Phase.QUEUED | Phase.THINKING | Phase.ASKED | Phase.WAITING:
            return (AskModel(task.attempt + 1),)
        case Phase.REPLIED if task.reply is not None:
            return (EvaluatePolicy(task.reply),)
        case _:
            return _act(task, owned)


def _at_the_end(task: AgentTask, owned: tuple[RunId, ...]) -> Effect:
    """The effects that are left once a task is over: first all its deeds must be known, then they may be taken back."""
    if owned:
        return AwaitRuns(owned)
    return BeginUndo() if task.undoes_itself and not task.undo_begun else Rest()


def _settle(orphans: list[CallRecord]) -> tuple[Effect, ...]:
    ordered = sorted(orphans, key=lambda record: record.call.computer or "")
    return tuple(
        Settle(computer=computer, call_ids=tuple(record.call_id for record in group))
        for computer, group in groupby(ordered, key=lambda record: record.call.computer)
    )


def _act(task: AgentTask, owned: tuple[RunId, ...]) -> tuple[Effect, ...]:
    ready = [record for record in task.calls if record.state in (CallState.ALLOWED, CallState.APPROVED)]
    unseen = _in_state(task, CallState.PROPOSED, CallState.STALE)
    undecided = task.request is not None or task.lapsed is not None or bool(unseen)
    ahead = [record for record in ready if not undecided or _goes_ahead(task, record)]
    safe = tuple(RunTool(record.call_id) for record in ahead if not record.mutates)
    if safe:
        return safe
    unknown = _in_state(task, CallState.OUTCOME_UNKNOWN)
    if undecided and ahead and not owned and not unknown:
        return (RunTool(ahead[0].call_id),)
    waiting = task.request.request_id if task.request is not None else task.lapsed
    if waiting is not None:
        return (AwaitReview(waiting),)
    question = next((record.question_id for record in task.calls if record.state is CallState.ASKING), None)
    if question is not None:
        return (AwaitAnswer(question),)
    if owned:
        return (AwaitRuns(owned),)
    if unknown:
        return (Observe(unknown, "outcome_unknown"),)
    if unseen:
        return (Observe(unseen, "approval"),)
    return (RunTool(ready[0].call_id),)


def _goes_ahead(task: AgentTask, record: CallRecord) -> bool:
    """Whether a call may run while its sibling waits for a person, by the policy of this step (promises S3, D5)."""
    if record.state is CallState.APPROVED and (record.mutates or task.partial == "at_once"):
        return task.partial == "at_once"
    if task.siblings == "reads":
        return not record.mutates
    return task.siblings == "run_safe"


def _in_state(task: AgentTask, *states: CallState) -> tuple[CallId, ...]:
    return tuple(record.call_id for record in task.calls if record.state in states)
