"""Who decides for a task: one rule, which every endpoint and every text about it asks.

Theory. Only people decide (promise R3). The setting ``approvers`` names them: ``requester``, ``not_requester`` or
``role:NAME``. With ``requester`` people whose role has the right ``decide`` decide their own tasks, and all of them
decide the tasks of those who only submit: submitters and programs; where the policy says ``self_approval``, people who
only submit decide their own as well. Nobody decides for somebody with whom they share no group. The submitter of a task
may always reject what it asks (promise R2), and answer its questions: an answer is told to the model and runs nothing.
Only a yes that shows a secret to the model is decided as an approval is. A task of a program counts as a task of the
program's owner.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Final, Literal

from orchestrator.core.approval.grants import own_paths
from orchestrator.core.approval.people import TOLD_RIGHTS, Directory, Holder, Right, rights_of
from orchestrator.core.approval.workflow import DEFAULT_GROUP, ONE_PERSON, Workflow, told_people
from orchestrator.core.policy import BUILT_IN_CATALOG, RoleRights, severity
from orchestrator.core.task.facts import CallId, DecisionAction
from orchestrator.core.task.states import CallState
from orchestrator.core.task.task import AgentTask
from orchestrator.core.values import immutable

Saying = DecisionAction | Literal["answer"]
"""What somebody says to a task: a decision on a request, or the answer to a question of the model."""

_NO_CALL: Final = CallId("")
"""Where nothing is asked of a person."""


@immutable
class Deciders:
    """The rule as it is at one moment: the setting, and what policy and directory say now."""

    approvers: str = "requester"
    """A setting that has none of the three forms allows nobody."""
    self_approval: bool = False
    roles: Mapping[str, Collection[Right]] = field(default_factory=dict)
    """The policy's own roles."""
    directory: Directory = field(default_factory=Directory)
    now: datetime | None = None
    """None: nobody is away."""
    limits: Mapping[str, RoleRights] = field(default_factory=dict)
    """The policy's own roles with what they decide; a role that is not here decides everything that it reaches."""

    def rights(self, roles: Collection[str]) -> frozenset[Right]:
        """The rights of somebody with these roles. A person who decides also sees."""
        found = rights_of(roles, self.roles)
        kind, _, role = self.approvers.partition(":")
        return found | {"view"} if kind == "role" and role in roles else found

    def may_say(
        self,
        task: AgentTask,
        action: Saying,
        *,
        kind: str,
        name: str,
        roles: Collection[str],
        call_id: CallId | None = None,
    ) -> bool:
        """Whether somebody may say this to a task; ``call_id`` None: to any call of its request."""
        calls = () if task.request is None or action == "answer" else task.request.call_ids
        said = dict.fromkeys(calls if call_id is None else (call_id,), action)
        ways = [{one: action} for one in said] if calls else [{_NO_CALL: action}]
        return any(self.stands_for(task, way, kind=kind, name=name, roles=roles) is not None for way in ways)

    def stands_for(
        self, task: AgentTask, said: Mapping[CallId, Saying], *, kind: str, name: str, roles: Collection[str]
    ) -> str | None:
        """For whom somebody may say all of this of calls; None: for nobody. Empty: for themselves.

        A delegate says what the person who is away may say, and never of a task of their own.
        """
        if kind != "person":
            return None
        if all(self._may_of_call(task, action, name, roles, one) for one, action in said.items()):
            return ""
        if self.now is None or task.counts_for(name) or self._is_kept(task, said, name):
            return None
        for person, has in self.directory.stood_in_for(name, self.now):
            if all(self._may_of_call(task, action, person, has, one) for one, action in said.items()):
                return person
        return None

    def _is_kept(self, task: AgentTask, said: Mapping[CallId, Saying], name: str) -> bool:
        """Whether a later step needs somebody who would be used up by approving in another one's place."""
        approved = (one for one, action in said.items() if action in {"approve", "edit"})
        return any(name in self._kept_for_later(task, one) for one in approved)

    def concerns(self, task: AgentTask, *, kind: str, name: str, roles: Collection[str]) -> bool:
        """Whether the request of a task is for somebody to review, now or at another step of its workflow."""
        if task.request is None or task.request.team.is_plain:
            return self.may_say(task, "approve", kind=kind, name=name, roles=roles)
        faces = [(name, frozenset(roles))]
        faces += self.directory.stood_in_for(name, self.now) if self.now and not task.counts_for(name) else ()
        people = task.request.team.everybody()
        return kind == "person" and any(self._is_of(task, by, *face) for by in people for face in faces)

    def alike(self, task: AgentTask) -> Callable[[str, str, tuple[str, ...]], Hashable]:
        """A function of kind, name and roles. Two people with the same answer may do the same to the task.

        Of most of them the rule looks only at roles and groups.
        """
        by_name = bool(self.directory.away) or not (task.request is None or task.request.team.is_plain)

        def alike(kind: str, name: str, roles: tuple[str, ...]) -> Hashable:
            named = by_name or task.counts_for(name)
            return kind, roles, name if named else self.directory.groups_of(name)

        return alike

    def _may_of_call(self, task: AgentTask, action: Saying, name: str, roles: Collection[str], call_id: CallId) -> bool:
        """As :meth:`may_say`, of one call: of a workflow the people of the present step approve, any of it reject."""
        own_word = action == "reject" or (action == "answer" and not self._releases(task))
        if own_word and task.counts_for(name):
            return True
        team = task.request.team if task.request is not None else ONE_PERSON
        if action != "answer" and not self._covers(task, call_id, roles):
            return False
        if team.is_plain or action == "answer":
            return self._may_in_general(task, name, roles, call_id)
        any_step = action == "reject" or team.has_voted(call_id, name)
        if not any_step and name in self._kept_for_later(task, call_id):
            return False
        people = team.everybody() if any_step else (team.by_now(call_id),)
        return any(self._is_of(task, by, name, roles) for by in people)

    def _releases(self, task: AgentTask) -> bool:
        """Whether an answer shows the model a secret, and the setting wants somebody else to decide."""
        from orchestrator.core.model_view.masks import asks_to_see  # with all patterns of secrets

        asked = (one.call.args.get("question", "") for one in task.calls if one.state is CallState.ASKING)
        return self.approvers != "requester" and any(asks_to_see(str(one)) for one in asked)

    def _kept_for_later(self, task: AgentTask, call_id: CallId) -> frozenset[str]:
        """The people without whom a later step has too few: who approves the present one is not asked again.

        A step that names a person has only them. Of a role or a group the people that the directory knows count.
        """
        team = task.request.team if task.request is not None else ONE_PERSON
        used = frozenset[str]().union(*(one.people for one in team.votes_on(call_id)))
        kept: set[str] = set()
        for by, missing in team.later_steps(call_id):
            kind, _, named = by.partition(":")
            able = {named} if kind == "person" else self._known_of(task, by, call_id) - used
            kept |= able if len(able) <= missing else set()
        return frozenset(kept)

    def _known_of(self, task: AgentTask, by: str, call_id: CallId) -> set[str]:
        """The people of the directory whom a step names and who may decide this call."""
        return {
            name
            for name, roles in self.directory.roles.items()
            if self._is_of(task, by, name, roles) and self._covers(task, call_id, roles)
        }

    def _is_of(self, task: AgentTask, by: str, name: str, roles: Collection[str]) -> bool:
        """Whether somebody is among the people whom a step names and who may decide for the task.

        Each of them who has the right to decide counts, for every requester: several people look at it. Only with
        ``not_requester`` the requester never does.
        """
        own = task.counts_for(name)
        holder = Holder(name, self.rights(roles))
        setting, _, role = self.approvers.partition(":")
        able = "decide" in holder.rights or (setting == "role" and role in roles)
        able = able or (own and setting == "requester" and self.self_approval and not task.by_program)
        if not able or (own and setting == "not_requester") or not (own or self._reaches(task, holder)):
            return False
        return self._is_named(by, name, roles)

    def _is_named(self, by: str, name: str, roles: Collection[str]) -> bool:
        """Whether a step names somebody, whatever they may do."""
        kind, _, named = by.partition(":")
        match kind:
            case "role":
                return named in roles
            case "person":
                return named == name
            case "group":
                return named in self.directory.groups_of(name)
            case _:
                setting, _, role = self.approvers.partition(":")
                return setting != "role" or role in roles

    def too_few(self, workflow: Workflow) -> tuple[str, ...]:
        """The steps for which there are not enough people, a sentence each, without the limits of roles."""
        _, _, role = self.approvers.partition(":")
        able = {
            one: held for one, held in self.directory.roles.items() if "decide" in self.rights(held) or role in held
        }
        wanted = [(one.by, one.count, "") for one in workflow.steps]
        if workflow.escalate_to or workflow.escalate_after_s:
            wanted.append((workflow.escalate_to or DEFAULT_GROUP, workflow.need, " after an escalation"))
        found: dict[str, None] = {}
        for by, count, when in wanted:
            there = sorted(one for one, held in able.items() if self._is_named(by, one, held))
            if len(there) < count:
                names = f"{', '.join(there[:-1])} and {there[-1]}" if len(there) > 1 else "".join(there)
                only = f"only {names} may" if there else "nobody may"
                found[f"{_so_many(by, count)} to approve{when}, and {only}."] = None
        return tuple(found)

    def _covers(self, task: AgentTask, call_id: CallId, roles: Collection[str]) -> bool:
        """Whether somebody with these roles decides a call of this risk, on this computer, at these paths.

        The checks that are approved with it are under the same limits. A call that is not known has none.
        """
        deciding = [one for one in roles if "decide" in self.rights([one])]
        record = task.call(call_id)
        if record is None or not deciding or any(one not in self.limits for one in deciding):
            return True
        call, checks = record.call, record.checks
        risk = max((record.evaluation.risk, *(one.risk for one in checks)), key=severity)
        paths = own_paths(call.tool, call.args) if call.tool in BUILT_IN_CATALOG else ()
        paths += tuple(one.path for one in checks)
        return any(self.limits[one].covers(risk, call.computer, paths) for one in deciding)

    def _reaches(self, task: AgentTask, holder: Holder) -> bool:
        return self.directory.shares_group(holder, task.owner if task.by_program else task.user_id)

    def _may_in_general(self, task: AgentTask, name: str, roles: Collection[str], call_id: CallId) -> bool:
        """As :meth:`may_say`, where no workflow and no escalation names other people."""
        own = task.counts_for(name)
        holder = Holder(name, self.rights(roles))
        if not own and not self._reaches(task, holder):
            return False
        decides = "decide" in holder.rights
        match self.approvers.partition(":"):
            case ("requester", _, _) if own and self.self_approval and not task.by_program:
                return True
            case ("requester", _, _):
                return decides and (own or not self._decides_own(task, call_id))
            case ("not_requester", _, _):
                return decides and not own
            case ("role", _, role):
                return role in roles
            case _:
                return False

    def _decides_own(self, task: AgentTask, call_id: CallId) -> bool:
        """Whether the person who submitted the task may decide a call of it, by the roles that they had then."""
        able = "decide" in self.rights(task.roles) and not task.by_program
        return able and self._covers(task, call_id, task.roles)

    def sets_apart(self, task: AgentTask, name: str) -> bool:
        """Whether somebody may not approve because the task is their own, or their program's."""
        return self.approvers == "not_requester" and task.counts_for(name)

    def of(self, task: AgentTask) -> str:
        """The people who may approve what a task asks, in words that end a sentence."""
        requester = task.owner if task.by_program else task.user_id
        but = f", but not {requester}" if self.approvers == "not_requester" and requester else ""
        if task.request is not None and not task.request.team.is_plain:
            team = task.request.team
            named = dict.fromkeys(self._by_now(task, team.by_now(one), one) for one in task.request.call_ids)
            return " and ".join(named) + but
        calls = task.request.call_ids if task.request is not None else (_NO_CALL,)
        own = all(self._decides_own(task, one) for one in calls) or (self.self_approval and not task.by_program)
        return task.user_id if own and self.approvers == "requester" else self._others() + but

    def _by_now(self, task: AgentTask, by: str, call_id: CallId) -> str:
        """The people of the present step of a call, in words, without those whom a later one needs."""
        kept = sorted(self._kept_for_later(task, call_id) & self._known_of(task, by, call_id))
        but = f", but not {' or '.join(kept)}, whose approval a later step needs" if kept else ""
        return (told_people(by) if by else self._others()) + but

    def _others(self) -> str:
        """The people who decide requests of a person who may not decide them."""
        role = self.approvers.partition(":")[2]
        if role:
            return f"somebody with the role {role}"
        # A role with limits does not decide everything.
        custom = sorted(one for one in self.roles if "decide" in self.rights([one]) and one not in self.limits)
        named = ", ".join(f"{'an' if one[0] in 'aeiou' else 'a'} {one}" for one in (*custom, "reviewer"))
        return f"{named} or an admin"

    def told(self, *, kind: str, name: str, roles: Collection[str], owner: str = "") -> str:
        """The rights of a token's holder, in one sentence; empty for a computer. ``owner``: the owner of a program."""
        rights = self.rights(roles)
        if kind == "computer":
            return ""
        if kind == "agent":
            whose = f", which count as tasks of {owner}" if owner else ""
            may = f"submit tasks{whose}; people decide what they ask" if "submit" in rights else "only look"
            return f"{name} may {may}."
        listed = ["submit tasks"] if "submit" in rights else []
        decided = self._what_decides(rights, roles)
        listed += [decided] if decided else []
        listed += ["pair computers and manage tokens"] if "everything" in rights else []
        listed += [TOLD_RIGHTS[one] for one in ("freeze", "pair") if one in rights and "everything" not in rights]
        whole = "everything" in rights or not self.directory.groups
        listed += ["read the whole audit" if whole else TOLD_RIGHTS["audit"]] if "audit" in rights else []
        listed += [TOLD_RIGHTS["view"]] if "view" in rights and not decided and "audit" not in rights else []
        listed = listed or ["only ask an admin for a role"]
        words = f"{', '.join(listed[:-1])} and {listed[-1]}" if len(listed) > 1 else "".join(listed)
        others = f"; {self._others()} decides what {'they' if 'submit' in rights else 'tasks'} ask."
        return f"{name} may {words}" + ("." if decided else others)

    def _what_decides(self, rights: Collection[Right], roles: Collection[str]) -> str:
        """What somebody decides, as words of a list; empty: nothing."""
        submits = "submit" in rights
        match self.approvers.partition(":"):
            case ("role", _, role):
                return "decide what every task asks" if role in roles else ""
            case ("requester", _, _) if "decide" in rights:
                whose = f"{'these and the ' if submits else ''}tasks of submitters and programs"
                return f"decide what {whose} ask{self._limits_of(roles)}"
            case ("requester", _, _):
                return "decide what these ask" if self.self_approval and submits else ""
            case _:
                return f"decide what tasks of others ask{self._limits_of(roles)}" if "decide" in rights else ""

    def _limits_of(self, roles: Collection[str]) -> str:
        """What limits the decisions of somebody with these roles, in words; empty: nothing."""
        deciding = [one for one in roles if "decide" in self.rights([one])]
        if any(one not in self.limits for one in deciding):
            return ""
        return " or".join(dict.fromkeys(str(self.limits[one]) for one in deciding))


def _so_many(by: str, count: int) -> str:
    """So many people as a policy names them, as the begin of a sentence."""
    kind, _, name = by.partition(":")
    told = told_people(by, count)
    if kind != "person":
        told = f"{told[0].upper()}{told[1:]}"
    elif count > 1:
        told = f"{count} people named {name}"
    return f"{told} {'has' if count == 1 else 'have'}"
