"""Approvals that need more people: what counts, what is enough, and what a team's request does not take.

Theory. One reject ends a request, also after approvals. An edit whose target was shown makes a new digest, for
which its editor is the first; one whose target was not shown ends the request for that call, and a new request with the
same workflow shows it. So nothing runs that fewer people saw than the workflow asks for.
"""

from collections.abc import Iterable

from orchestrator.core.approval.approval import CallDecision
from orchestrator.core.approval.command import Decide
from orchestrator.core.approval.workflow import Team, Vote, told_person
from orchestrator.core.errors import InvalidDecision, NotPending
from orchestrator.core.task import facts
from orchestrator.core.task.task import OpenRequest

_APPROVES = frozenset({"approve", "edit"})


def must_not_be_claimed(request: OpenRequest, command: Decide) -> None:
    """Raises NotPending while somebody else looks at the request; its details name them."""
    claim = None if command.overrides else request.team.claimed_from(command.by, command.now)
    if claim is not None:
        raise NotPending(
            f"{claim.by} looks at the request until {claim.until:%H:%M:%S} UTC.",
            remedy="Wait until then, or ask for `requests release`; an admin decides all the same.",
            details={"claimed_by": claim.by, "until": claim.until.isoformat()},
        )


def must_fit_team(request: OpenRequest, wanted: CallDecision) -> None:
    """Raises InvalidDecision for what one person alone would do to a request that needs several."""
    need = request.team.workflow.need
    if need == 1:
        return
    if wanted.action == "respond":
        raise InvalidDecision(
            f"The request needs {need} people, and an answer is one person's.", remedy="Approve, edit or reject."
        )
    if wanted.remember is not None:
        raise InvalidDecision(
            f"The request needs {need} people, so that one person cannot remember it.", remedy="Approve it this once."
        )


def present_step(request: OpenRequest, wanted: CallDecision) -> int:
    """The step for which a decision counts; 0 where it is no approval."""
    return request.team.present_step(wanted.call_id) if wanted.action in _APPROVES else 0


def parted(
    team: Team, decisions: Iterable[facts.Decision], by: str, behalf: str
) -> tuple[tuple[facts.Decision, ...], tuple[facts.Decision, ...]]:
    """Approvals that wait for those of other people, and what holds at once.

    A second approval by the same person is neither. Raises InvalidDecision where two names are one approval.
    """
    waiting: list[facts.Decision] = []
    holding: list[facts.Decision] = []
    for one in map(_as_it_is, decisions) if team.workflow.need > 1 else decisions:
        vote = Vote(one.call_id, by, one.runs_digest or one.action_digest, one.step, behalf)
        if team.workflow.need == 1 or one.action not in _APPROVES or _is_unseen(one):
            holding.append(one)
        elif one.action == "edit":
            waiting.append(one)
        elif not team.has_voted(one.call_id, by):
            _must_be_another(team, vote)
            (holding if team.reached_with(vote) else waiting).append(one)
    return tuple(waiting), tuple(holding)


def _as_it_is(decision: facts.Decision) -> facts.Decision:
    """An edit that changes nothing, such as one that somebody else made first, is an approval."""
    if decision.action != "edit" or decision.runs_digest != decision.action_digest:
        return decision
    same = {"action": "approve", "args": None, "call_digest": "", "evaluation": None, "runs_digest": ""}
    return decision.model_copy(update=same)


def _is_unseen(decision: facts.Decision) -> bool:
    """Whether it is an edit that lets nothing run: it is shown first, to as many people."""
    return decision.action == "edit" and not decision.runs_digest


def _must_be_another(team: Team, vote: Vote) -> None:
    for given in team.votes_on(vote.call_id):
        if given.people & vote.people:
            raise InvalidDecision(
                f"{told_person(vote.by, vote.behalf)} and {given} are one approval; it counts once.",
                remedy="Somebody else has to approve.",
            )
