"""What was said, what was recorded, what was done: the machine's own account, held against one another.

It reads the items by itself and shares no fold with the product. A call runs under one *warrant* at
a time: the policy's, a decision that a person of the machine made, a grant of theirs, or
a release. Each warrant pays for one deed of a witness, with the arguments and on the bytes it was given for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orchestrator.core.audit.check import Standing, check
from orchestrator.core.task import facts
from orchestrator.core.task.items import AgentTaskItem
from orchestrator.core.text.paths import path_matches
from tests.contract.machine.computers import Deed, words
from tests.contract.machine.sheets import CHANGES, READS, RUNS, SPEAKING, Sheet

METHODS = {
    "cc_read": "fs_read",
    "cc_list": "fs_list",
    "cc_write": "fs_write",
    "cc_edit": "fs_edit",
    "cc_delete": "fs_delete",
    "cc_run_program": "run_program",
    "cc_shell": "shell",
}


def own_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without the computer, which stands beside them."""
    return {name: value for name, value in args.items() if name != "computer"}


@dataclass
class Given:
    """A grant as a person gave it."""

    task_id: str
    session_id: str
    scope: str
    paths: tuple[str, ...] | None
    any_content: bool
    max_uses: int | None
    until: datetime | None
    tool: str
    computer: str | None
    args: Mapping[str, Any]
    state: Mapping[str, str]
    uses: int = 0
    revoked_at: dict[str, int] | None = None
    """Task to its version when it was taken back; None: it stands."""

    def covers(self, tool: str, computer: str | None, args: Mapping[str, Any], before: Mapping[str, str]) -> bool:
        """Whether it is for such a call."""
        if tool != self.tool or computer != self.computer:
            return False
        if tool in RUNS and dict(before) != dict(self.state):
            return False
        if self.scope == "call":
            return dict(args) == dict(self.args)
        loose = {"path"} if self.paths else set()
        loose |= {"content", "old", "new"} if self.any_content else set()
        same = all(args.get(name) == self.args.get(name) for name in {*args, *self.args} - loose)
        if not same or not self.paths:
            return same
        return any(path_matches(glob, args["path"], ignore_case=False) for glob in self.paths)


@dataclass
class Said:
    """A decision of a person that the service took."""

    request_id: str
    by: str
    at: datetime
    until: datetime
    verbs: Mapping[str, tuple[str, Mapping[str, Any] | None]]
    """Call id to the verb and, of an edit, the new arguments."""
    shown: Mapping[str, facts.RequestedCall]
    grants: tuple[Given, ...] = ()
    whole: bool = False
    """Whether it was said of everything that still waited: less, where somebody else came between (D2)."""
    recorded: bool = False


@dataclass
class Warrant:
    """What a call may run under."""

    why: str
    args: Mapping[str, Any]
    state: Mapping[str, str] | None = None
    """The hashes that were shown; None: nothing was."""
    digest: str = ""
    identity: str = ""
    until: datetime | None = None
    elsewhere: bool = False
    """An edit that names another path, which must not exist."""
    grant: Given | None = None
    deeds: int = 0


@dataclass
class Account:
    """One task."""

    session_id: str = ""
    version: int = 0
    tools: dict[str, str] = field(default_factory=dict)
    computer: dict[str, str | None] = field(default_factory=dict)
    args: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    warrants: dict[str, Warrant] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    """Calls that came to an end: nothing is decided or done of them any more."""
    runs: dict[str, tuple[str, Warrant, facts.ToolStarted]] = field(default_factory=dict)
    closed_runs: set[str] = field(default_factory=set)
    waiting: dict[str, dict[str, facts.RequestedCall]] = field(default_factory=dict)
    """Open request to its calls."""
    deadlines: dict[str, datetime | None] = field(default_factory=dict)
    lapsed: str = ""
    rejected: list[tuple[str, Mapping[str, Any], str | None]] = field(default_factory=list)
    decided: set[tuple[str, str]] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    ended: bool = False


@dataclass
class Ledger:
    """All tasks, all decisions, all deeds."""

    accounts: dict[str, Account] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)
    given: dict[str, Given] = field(default_factory=dict)
    deeds: dict[str, Deed] = field(default_factory=dict)
    _checked: int = 0

    def take(self, task_id: str, items: Iterable[AgentTaskItem], sheets: Mapping[int, frozenset[Sheet]]) -> None:
        """The new items of a task; ``sheets``: by which policies each may have been written."""
        account = self.accounts.setdefault(task_id, Account())
        for item in items:
            assert item.version == account.version + 1
            account.version = item.version
            self._item(account, item, sheets[item.version])

    def heard(self, deeds: list[Deed]) -> None:
        """What the witnesses did, to be called before the items are taken."""
        for deed in deeds[len(self.deeds) :]:
            assert deed.run_id not in self.deeds
            self.deeds[deed.run_id] = deed

    def weigh(self) -> None:
        """Each new deed against the run that it was done for."""
        for deed in list(self.deeds.values())[self._checked :]:
            self._weigh(deed)
        self._checked = len(self.deeds)

    def audit(self, items: list[AgentTaskItem], standing: Standing) -> None:
        """The product's own audit has nothing to say either."""
        found = [one for one in check(items, standing=standing) if one.level == "violation"]
        assert not found, found

    # -- items ---------------------------------------------------------------------------

    def _item(self, account: Account, item: AgentTaskItem, sheets: frozenset[Sheet]) -> None:  # noqa: C901 - one case per kind
        match item.fact:
            case facts.TaskSubmitted() as fact:
                account.session_id = fact.session_id
            case facts.CallsProposed() as fact:
                for call, verdict in zip(fact.calls, fact.evaluations, strict=True):
                    self._proposed(account, call, verdict.effect.value, sheets)
            case facts.ReviewRequested() as fact:
                assert not account.waiting, "a second request was opened"
                account.waiting[fact.request_id] = {one.call_id: one for one in fact.calls}
                account.deadlines[fact.request_id] = fact.expires_at
                for one in fact.calls:
                    assert one.call_id not in account.over, "asked about a call that is over"
                    account.warrants.pop(one.call_id, None)
            case facts.DecisionRecorded() as fact:
                self._decided(account, item, fact)
            case facts.ReviewNoted() as fact:
                self._noted(account, fact, sheets)
            case facts.RequestEnded() as fact:
                self._request_ended(account, fact)
            case facts.ToolStarted() as fact:
                self._started(account, item, fact, sheets)
            case facts.ToolFinished() as fact:
                self._outcome(account, fact, "finished")
            case facts.ToolSettled() as fact:
                self._outcome(account, fact, fact.state)
            case facts.StatusSent() | facts.QuestionAsked() as fact:
                assert account.warrants.get(fact.call_id) is not None, "it spoke and nobody had let it"
            case facts.TaskEnded():
                assert not account.ended, "a task ended twice"
                assert not account.waiting, "a task ended over an open request"
                account.ended, account.lapsed = True, ""
                account.warrants.clear()

    def _proposed(self, account: Account, call: facts.ToolCall, effect: str, sheets: frozenset[Sheet]) -> None:
        args = own_args(call.args)
        account.tools[call.call_id], account.args[call.call_id] = call.tool, args
        account.computer[call.call_id] = call.computer
        by_sheets = {sheet.effect(call.tool, args) for sheet in sheets}
        if (call.tool, args, call.computer) in account.rejected:
            assert effect == "deny", "what a person rejected was taken up again"
        if effect == "allow":
            assert "allow" in by_sheets, f"{call.tool} {args} was allowed, and the policy says {by_sheets}"
            account.warrants[call.call_id] = Warrant("policy", args)
        elif effect == "deny":
            account.over.add(call.call_id)
        else:
            assert by_sheets != {"deny"}, f"{call.tool} {args} was to be asked about, and the policy denies it"

    def _decided(self, account: Account, item: AgentTaskItem, fact: facts.DecisionRecorded) -> None:
        waiting = account.waiting.get(fact.request_id, {})
        said = next((one for one in self.said if self._is(one, item, fact)), None)
        assert said is not None, f"a decision was recorded that nobody made: {fact}"
        said.recorded = True
        deadline = account.deadlines.get(fact.request_id)
        assert deadline is None or item.at < deadline, "decided after it had expired"
        for grant, given in zip(fact.grants, said.grants, strict=True):
            self.given[grant.grant_id] = given
        for one in fact.decisions:
            shown = waiting.pop(one.call_id, None)
            assert shown is not None, f"call {one.call_id} was decided and did not wait"
            assert one.call_id not in account.over, "decided once more"
            assert one.action_digest == shown.action_digest
            assert (fact.request_id, one.call_id) not in account.decided
            account.decided.add((fact.request_id, one.call_id))
            self._one_decision(account, said, shown, one)
        if not waiting:
            account.waiting.pop(fact.request_id)

    def _is(self, one: Said, item: AgentTaskItem, fact: facts.DecisionRecorded) -> bool:
        own = {decision.call_id: decision.action for decision in fact.decisions if decision.grant_id is None}
        meant = {call_id: verb for call_id, (verb, _) in one.verbs.items()}
        same = own == meant or (one.whole and own.items() <= meant.items())
        return not one.recorded and (one.request_id, one.by) == (fact.request_id, item.actor.id) and same

    def _one_decision(self, account: Account, said: Said, shown: facts.RequestedCall, one: facts.Decision) -> None:
        call_id, state = one.call_id, shown.observed.state
        warrant = Warrant(
            "decision", account.args[call_id], state, shown.action_digest, shown.observed.identity, said.until
        )
        if one.grant_id is not None:
            given = self.given[one.grant_id]
            call = account.tools[call_id], account.computer[call_id], account.args[call_id]
            assert given.covers(*call, state), "released beyond its grant"
            warrant.grant = given
            account.warrants[call_id] = warrant
            return
        verb, args = said.verbs[call_id]
        assert said.shown[call_id].action_digest == shown.action_digest, "decided on something else than was shown"
        if verb == "approve":
            account.warrants[call_id] = warrant
        elif verb == "edit":
            assert args is not None
            warrant.elsewhere = args.get("path") != account.args[call_id].get("path")
            warrant.args, warrant.digest = args, one.runs_digest
            assert warrant.digest != shown.action_digest or args == account.args[call_id], "an edit kept the old digest"
            account.args[call_id] = args
            account.warrants[call_id] = warrant
        elif verb == "check":
            account.warrants.pop(call_id, None)
        else:
            if verb == "reject":
                account.rejected.append((account.tools[call_id], account.args[call_id], account.computer[call_id]))
            if one.retry_as is not None:
                account.tools[one.retry_as] = account.tools[call_id]
                account.args[one.retry_as] = account.args[call_id]
                account.computer[one.retry_as] = account.computer[call_id]
            account.warrants.pop(call_id, None)
            account.over.add(call_id)

    def _noted(self, account: Account, fact: facts.ReviewNoted, sheets: frozenset[Sheet]) -> None:
        if fact.what == "extended":
            account.deadlines[fact.request_id or ""] = fact.expires_at
        if fact.what == "renewed":
            account.lapsed = ""
        for shown in fact.calls:
            call_id, observed = shown.call_id, shown.observed
            assert call_id not in account.over
            waiting = account.waiting.get(fact.request_id or "", {})
            waiting.pop(call_id, None)
            if fact.request_id in account.waiting and not waiting:
                account.waiting.pop(fact.request_id)
            tool, args = account.tools[call_id], account.args[call_id]
            warrant = Warrant(fact.what, args, observed.state, shown.action_digest, observed.identity, fact.valid_until)
            if fact.what == "grant_used":
                warrant.grant = self.given[fact.grant_id or ""]
                assert warrant.grant.covers(tool, account.computer[call_id], args, observed.state), (
                    "a grant stood in for another call"
                )
                assert "critical" not in {sheet.risk for sheet in sheets} or len(sheets) > 1 or tool not in CHANGES
            else:
                said = {(sheet.effect(tool, args), sheet.releases or tool in RUNS) for sheet in sheets}
                assert ("allow", True) in said, f"released, and the policies say {said}"
            account.warrants[call_id] = warrant

    def _request_ended(self, account: Account, fact: facts.RequestEnded) -> None:
        waiting = account.waiting.get(fact.request_id or "")
        for call_id in fact.call_ids:
            account.warrants.pop(call_id, None)
            if waiting is not None:
                waiting.pop(call_id, None)
            shown_again = fact.end == "stale" or (fact.end == "expired" and fact.then == "stay_paused")
            if not shown_again and fact.code != "approval_expired":
                account.over.add(call_id)
        if waiting is not None and not waiting:
            account.waiting.pop(fact.request_id or "")
            if fact.end == "expired" and fact.then == "stay_paused":
                account.lapsed = fact.request_id or ""

    # -- runs ----------------------------------------------------------------------------

    def _started(
        self, account: Account, item: AgentTaskItem, fact: facts.ToolStarted, sheets: frozenset[Sheet]
    ) -> None:
        call_id = fact.call_id
        warrant = account.warrants.pop(call_id, None)
        assert warrant is not None, f"{call_id} was started and nothing allows it"
        assert call_id not in account.over
        assert fact.run_id not in account.runs, "a run id was used twice"
        tool, args = account.tools[call_id], account.args[call_id]
        by_sheets = {sheet.effect(tool, args) for sheet in sheets}
        assert by_sheets != {"deny"}, f"{tool} {args} was started, and the policy denies it"
        if warrant.why == "policy":
            assert "allow" in by_sheets, f"{tool} {args} was started by itself, and the policy says {by_sheets}"
        if warrant.digest:
            assert fact.action_digest == warrant.digest, "started as something else than was approved"
        if warrant.until is not None:
            assert item.at < warrant.until, f"started {item.at - warrant.until} after its approval had ended"
        if warrant.grant is not None:
            given = warrant.grant
            given.uses += 1
            assert given.max_uses is None or given.uses <= given.max_uses, "a grant was used too often"
            assert given.until is None or item.at < given.until, "a grant was used when it was over"
            taken_back = (given.revoked_at or {}).get(item.task_id)
            assert taken_back is None or item.version <= taken_back, "a grant was used that had been taken back"
            in_reach = given.session_id == account.session_id if given.scope == "session" else True
            assert in_reach if given.scope == "session" else given.task_id == item.task_id
        account.runs[fact.run_id] = (call_id, warrant, fact)

    def _outcome(self, account: Account, fact: facts.ToolFinished | facts.ToolSettled, state: str) -> None:
        call_id, warrant, _ = account.runs[fact.run_id]
        if fact.run_id in account.closed_runs:
            return
        account.closed_runs.add(fact.run_id)
        tool, deed = account.tools[call_id], self.deeds.get(fact.run_id)
        done = deed is not None and deed.done
        if state == "finished" and tool not in SPEAKING:
            assert fact.ok == done, f"{call_id} is told as ok={fact.ok}, and done is {done}"
        if state == "void":
            assert not done, f"{call_id} is told as never run, and it did"
        if state == "void" or (state == "interrupted" and tool in READS):
            if not account.ended:
                account.warrants[call_id] = warrant
        elif state == "finished" and fact.code != "stale":
            account.over.add(call_id)

    def _weigh(self, deed: Deed) -> None:
        call_id = deed.run_id.rpartition(".")[0]
        account = next((one for one in self.accounts.values() if deed.run_id in one.runs), None)
        assert account is not None, f"a frame was sent that no journal knows: {deed}"
        _, warrant, started = account.runs[deed.run_id]
        tool, args = account.tools[call_id], warrant.args
        assert deed.method == METHODS[tool]
        assert deed.computer == account.computer[call_id]
        assert deed.number == started.number
        assert not warrant.identity or deed.identity == warrant.identity, "done on another computer"
        self._fits(deed, tool, args, started.before)
        if tool not in READS and warrant.state is not None:
            changed = {path: found for path, found in started.before.items() if found != warrant.state.get(path)}
            allowed = warrant.elsewhere and set(changed.values()) <= {"absent"}
            assert not changed or allowed, f"done on other bytes than were shown: {changed}"
        if deed.done and tool not in READS:
            warrant.deeds += 1
            account.done[call_id] = account.done.get(call_id, 0) + 1
            assert warrant.deeds == account.done[call_id] == 1, f"{call_id} was done twice"

    def _fits(self, deed: Deed, tool: str, args: Mapping[str, Any], before: Mapping[str, str]) -> None:
        """What was sent is, argument by argument, what the warrant is for."""
        path = deed.params.get("path")
        if tool in (*READS, *CHANGES):
            assert path == args["path"], deed
        if tool in (*CHANGES, *RUNS):
            assert deed.params["if_hash"] == before[path or ""], deed
        body = _body(tool, args)
        if body is not None:
            assert deed.body == body, deed
        if tool == "cc_edit":
            assert deed.params["old_size"] == len(args["old"].encode())
        if tool in RUNS:
            word = args["path"] if tool == "cc_run_program" else args["command"].split()[0]
            assert path in (word, f"{word}.lua"), deed


def _body(tool: str, args: Mapping[str, Any]) -> bytes | None:
    """What goes with the frame; None: nothing has to."""
    match tool:
        case "cc_write":
            return str(args["content"]).encode()
        case "cc_edit":
            return f"{args['old']}{args['new']}".encode()
        case "cc_run_program":
            return words(args.get("args", ()))
        case "cc_shell":
            return words(args["command"].split())
        case _:
            return None
