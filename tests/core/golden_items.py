"""Writes tests/golden/items: one sealed item of each fact kind, and of each that got fields since, one with them.

Run ``python -m tests.core.golden_items`` after adding a kind or a field. A file that exists is never
touched again: an item of version 0.6.0 and of each one since must still decode, and its hash must still hold.
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

from orchestrator.core.approval.grants import Grant
from orchestrator.core.approval.workflow import Step, Workflow
from orchestrator.core.policy import Effect, PolicyDecision, RiskLevel, RoleRights
from orchestrator.core.task import facts, system_facts
from orchestrator.core.task.facts import BlobRef, CallId, Fact, Observed, QuestionId, RequestId, TaskId, ToolCall
from orchestrator.core.task.items import SYSTEM, Actor, Draft, ItemId, encode_item, seal
from orchestrator.core.task.rehearsal import Rehearsal
from orchestrator.core.task.system_facts import GrantId
from orchestrator.core.undo.wanted import Restoration
from orchestrator.core.wire.wire import ComputerId, RunId
from tests import TESTS

GOLDEN = TESTS / "golden" / "items"
KINDS: tuple[type[Any], ...] = get_args(get_args(Fact)[0])
"""Every fact model of the union."""

_AT = datetime(2026, 11, 20, 18, 56, 29, 120300, tzinfo=UTC)
_ALICE = Actor(kind="person", id="alice", auth="token")
_MODEL = Actor(kind="agent", id="model")
_COMPUTER = Actor(kind="computer", id="3")
_VERDICT = PolicyDecision(
    effect=Effect.ASK,
    risk=RiskLevel.HIGH,
    matched_rules=("changing", "boot-files"),
    reason="It runs at every boot of the computer.",
    policy_version="0123456789abcdef",
    rules_digest="c" * 64,
)
_CALL = ToolCall(
    call_id=CallId("c0a1b2c3d4e5f6071"),
    index=0,
    tool="cc_write",
    args={"path": "startup.lua", "content": "print('caf\u00e9 \U0001f33e')\n"},
    computer=ComputerId("3"),
    call_digest="d" * 64,
)
_RUN = RunId("c0a1b2c3d4e5f6071.1")
_REQUEST = RequestId("Zx3_golden-request-id0123")
_OBSERVED = Observed(
    state={"startup.lua": "e" * 64, "lib": "6" * 64},
    source="print('hello')\n",
    directories=("lib",),
    identity="7" * 64,
)
_GRANT = Grant(
    grant_id=GrantId("g-0123456789abcdef"),
    scope="session",
    task_id="t-golden",
    session_id="s-1",
    user_id="alice",
    granted_by="alice",
    tool="cc_run_program",
    computer=ComputerId("3"),
    call_digest="8" * 64,
    paths=("farm/**",),
    any_content=True,
    args={"args": ["north"]},
    files={"farm/dig.lua": "9" * 64},
    created_at=_AT,
    expires_at=_AT + timedelta(hours=8),
    max_uses=5,
)

EXAMPLES: tuple[tuple[Actor, Fact], ...] = (
    (
        _ALICE,
        facts.TaskSubmitted(
            prompt="fix my farm program, it crashes at startup \u2013 \u201cnow\u201d",
            user_id="alice",
            session_id="s-1",
            computers=(ComputerId("3"), ComputerId("turtle \u00b7 8")),
            model="qwen2.5-coder:7b",
            max_steps=20,
            priority=5,
            tag="9f31ab02",
            on_reject="continue",
        ),
    ),
    (SYSTEM, facts.ChecksBegun(found={"unchanged belt.cfg": "e" * 64, "unchanged lib": "absent"})),
    (
        SYSTEM,
        facts.ChecksJudged(
            results=(
                facts.CheckResult(check="runs farm.lua", holds=True, why="It ran to its end.", items=(17,)),
                facts.CheckResult(
                    check="prints wheat", holds=False, why="It is not in the output.", by_policy="farm/**"
                ),
                facts.CheckResult(check="unchanged lib", holds=None),
            )
        ),
    ),
    (
        SYSTEM,
        facts.ModelAsked(
            attempt=2,
            prompt_version="1",
            policy_version="0123456789abcdef",
            view_digest="a" * 64,
            num_ctx=8192,
            num_predict=1024,
        ),
    ),
    (
        SYSTEM,
        facts.ModelAwaited(
            server="http://127.0.0.1:11434",
            why="Ollama is not running at http://127.0.0.1:11434. Start it with `ollama serve`.",
            until=_AT + timedelta(seconds=120),
        ),
    ),
    (
        _MODEL,
        facts.ModelReplied(
            raw=BlobRef(sha256="b" * 64, size=217),
            done_reason="stop",
            usage=facts.Usage(input_tokens=1200, output_tokens=64),
        ),
    ),
    (SYSTEM, facts.ReplyRefused(reason="You say success, but nothing was changed or run.", because="unproven")),
    (_MODEL, facts.CallsProposed(explanation="I mend it.", calls=(_CALL,), evaluations=(_VERDICT,))),
    (
        SYSTEM,
        facts.ReviewRequested(
            request_id=_REQUEST,
            reason="approval",
            calls=(
                facts.RequestedCall(
                    call_id=_CALL.call_id,
                    observed=Observed(
                        state={"startup.lua": "e" * 64},
                        diff="--- startup.lua\n+++ startup.lua\n@@ -1 +1 @@\n-prnt()\n+print()\n",
                        program="/startup.lua",
                        encoding="latin-1",
                        note="The file is latin-1 and stays so.",
                    ),
                    evaluation=_VERDICT,
                    action_digest="f" * 64,
                ),
            ),
            risk=RiskLevel.HIGH,
            policy_version="0123456789abcdef",
            expires_at=datetime(2026, 11, 20, 21, 0, tzinfo=timezone(timedelta(hours=2))),
        ),
    ),
    (
        _ALICE,
        facts.DecisionRecorded(
            request_id=_REQUEST,
            decisions=(
                facts.Decision(
                    call_id=_CALL.call_id,
                    action="retry",
                    action_digest="f" * 64,
                    reason="I saw it fail.",
                    on_reject="continue",
                    retry_as=CallId("c1f2e3d4c5b6a7980"),
                ),
            ),
            key="key-1",
        ),
    ),
    (
        SYSTEM,
        facts.RequestEnded(
            request_id=_REQUEST, end="stale", call_ids=(_CALL.call_id,), reason="The file changed meanwhile."
        ),
    ),
    (
        SYSTEM,
        facts.ToolStarted(
            call_id=_CALL.call_id,
            run_id=_RUN,
            computer=ComputerId("3"),
            number=41,
            action_digest="f" * 64,
            before={"startup.lua": "e" * 64, "b": "absent"},
        ),
    ),
    (
        _COMPUTER,
        facts.ToolFinished(
            call_id=_CALL.call_id,
            run_id=_RUN,
            ok=False,
            code="no_space_for_safe_write",
            text="512 bytes are missing.\n",
            after={"startup.lua": "e" * 64},
        ),
    ),
    (
        _COMPUTER,
        facts.ToolSettled(
            call_id=_CALL.call_id, run_id=_RUN, state="finished", ok=True, text="Done.", reason="from the journal"
        ),
    ),
    (
        SYSTEM,
        facts.QuestionAsked(question_id=QuestionId("u-1"), call_id=CallId("c2"), question="Which farm?"),
    ),
    (_ALICE, facts.QuestionAnswered(question_id=QuestionId("u-1"), answer="The one with wheat.")),
    (_MODEL, facts.StatusSent(call_id=CallId("c3"), message="Half done.")),
    (_ALICE, facts.CancelRequested(reason="canceled by alice")),
    (SYSTEM, facts.LimitReached(limit="max_steps", detail="The limit of 20 steps was reached.")),
    (
        SYSTEM,
        facts.WorkFailed(effect="Observe", reason="Computer 3 did not answer.", because="unanswered", count=4, most=25),
    ),
    (SYSTEM, facts.WorkFrozen(by="rita", of="group:class-7b", reason="We talk now.")),
    (
        SYSTEM,
        facts.TaskEnded(
            status="Completed",
            status_reason="final",
            message="It runs again.",
            explanation="The result shows it.",
            details={"files": ["startup.lua"], "lines": 12, "ratio": 0.25, "ok": True, "none": None},
            verified=False,
        ),
    ),
    (SYSTEM, facts.UndoSubmitted(undo_task_id=TaskId("t-undo"))),
    (
        SYSTEM,
        facts.RehearsalEnded(
            after="9" * 64,
            changed=3,
            applied_by=TaskId("t-0a1b2c3d4e5f"),
            message="It changed 3 places in the copy. t-0a1b2c3d4e5f asks for all of it; until then 3 is as it was.",
        ),
    ),
    (
        SYSTEM,
        facts.ReviewNoted(
            what="released",
            request_id=_REQUEST,
            calls=(
                facts.RequestedCall(
                    call_id=_CALL.call_id, observed=_OBSERVED, evaluation=_VERDICT, action_digest="f" * 64
                ),
            ),
            grant_id=_GRANT.grant_id,
            expires_at=_AT + timedelta(hours=1),
            valid_until=_AT + timedelta(minutes=15),
        ),
    ),
    (
        SYSTEM,
        system_facts.NodeStarted(
            version="0.6.0", policy_version="0123456789abcdef", settings={"port": "8766"}, node="alpha-3f9c2a1b"
        ),
    ),
    (SYSTEM, system_facts.NodeStopped(node="alpha-3f9c2a1b")),
    (
        SYSTEM,
        system_facts.PolicyLoaded(
            source="policy.toml", policy_version="0123456789abcdef", sha256="a" * 64, previous="fedcba9876543210"
        ),
    ),
    (SYSTEM, system_facts.PolicyRefused(source="policy.toml", reason="Rule 3: the effect 'alow' is not known.")),
    (
        _ALICE,
        system_facts.TokenIssued(
            holder_kind="person", name="bob", roles=("submitter", "reviewer"), fingerprint="3" * 64
        ),
    ),
    (_ALICE, system_facts.TokenRevoked(holder_kind="person", name="bob", count=2)),
    (
        _ALICE,
        system_facts.SignedIn(
            name="alice", peer="127.0.0.1", fingerprint="4" * 64, bound_to="5" * 64, replaced=("6" * 64, "7" * 64)
        ),
    ),
    (
        Actor(kind="person", id="alice", auth="session"),
        system_facts.SignedOut(name="alice", fingerprint="4" * 64),
    ),
    (_ALICE, system_facts.GrantRevoked(grant_id=_GRANT.grant_id)),
    (
        _ALICE,
        system_facts.AttemptRefused(
            door="POST /v1/approve",
            code="not_pending",
            status=409,
            detail="The request is no longer open: it was rejected by bob.",
            task_id="t-golden",
            request_id=_REQUEST,
            action="approve",
            more=3,
        ),
    ),
    (SYSTEM, system_facts.CheckpointMade(streams=12, sha256="b" * 64, key="0123456789abcdef")),
    (
        _COMPUTER,
        system_facts.ComputerFrozen(
            computer=ComputerId("3"),
            reason="disk_restored",
            facts={"heard": 52, "number": 40, "found_seq": 31, "highest": 28},
            sides=(
                system_facts.ComputerSide(
                    computer_id=3,
                    boot="k3j9x0",
                    at=_AT,
                    label="farm",
                    host="ComputerCraft 1.113.1 (Minecraft 1.20.1)",
                    peer="192.168.1.20",
                ),
                system_facts.ComputerSide(computer_id=3, boot="p8s2m1", at=_AT),
            ),
        ),
    ),
    (
        _ALICE,
        system_facts.DirectoryChanged(
            about="group",
            name="class-7b",
            value=system_facts.GroupValue(people=("alice", "bob"), computers=("farm",)),
        ),
    ),
    (_ALICE, system_facts.KeysSent(computer=ComputerId("3"), text="edit startup.lua", keys=("enter",))),
    (_ALICE, system_facts.ComputerReleased(computer=ComputerId("3"), by="alice", number=41)),
    (
        Actor(kind="computer", id="3"),
        system_facts.ComputerWelcomed(
            computer=ComputerId("3"),
            side=system_facts.ComputerSide(computer_id=3, boot="b-1", at=_AT, label="farm"),
            fingerprint="c" * 64,
            number=42,
            heard=17,
            doubtful_below=41,
        ),
    ),
    (
        SYSTEM,
        system_facts.ComputersArrived(
            cell="east",
            bundle="d" * 64,
            computers=(ComputerId("3"),),
            welcomed=(
                system_facts.ComputerWelcomed(
                    computer=ComputerId("3"),
                    side=system_facts.ComputerSide(computer_id=3, boot="b-1", at=_AT, label="farm"),
                    number=42,
                ),
            ),
            tasks={"t-golden": 17},
            grants=(GrantId("g-0123456789abcdef"),),
        ),
    ),
    (SYSTEM, system_facts.Agreed(name="installation", value="i-0123456789abcdef")),
    (_ALICE, facts.TaskPinned()),
    (_ALICE, facts.TaskUnpinned()),
    (
        _ALICE,
        system_facts.ComputerBackedUp(
            backup_id="b-0123456789ab",
            computer=ComputerId("farm"),
            listing="a" * 64,
            files=12,
            bytes=40_960,
            new_bytes=217,
            skipped={"big.log": "big.log is larger than what one look reaches.", "disk": "It is another disk."},
            skipped_more=2,
            note="before the harvest",
        ),
    ),
    (_ALICE, system_facts.BackupRemoved(backup_id="b-0123456789ab", computer=ComputerId("farm"))),
    (
        SYSTEM,
        system_facts.TaskPruned(
            task_id="t-golden",
            version=17,
            head_hash="b" * 64,
            user_id="alice",
            created_at=_AT - timedelta(days=40),
            updated_at=_AT - timedelta(days=31),
            requests=2,
            grants=(GrantId("g-0123456789abcdef"),),
            uses={GrantId("g-fedcba9876543210"): 3},
            why="nothing happened to it for 30 days",
        ),
    ),
    (
        _ALICE,
        system_facts.ComputerLabelled(
            computer=ComputerId("3"), label="farm", former_labels=("", "reactor 1"), by="alice"
        ),
    ),
)

_RAN = facts.Ran(path="farm.lua", sha256="e" * 64, ended="observed", seconds=10.05, waits_for="key")

GROWN: tuple[tuple[str, Actor, Fact], ...] = (
    (
        "moved",
        SYSTEM,
        system_facts.ComputerFrozen(
            computer=ComputerId("3"),
            reason="moved",
            cell="west",
            url="wss://west.example.org/computer",
            bundle="d" * 64,
        ),
    ),
    (
        "workflow",
        SYSTEM,
        facts.ReviewRequested(
            request_id=_REQUEST,
            reason="approval",
            calls=(
                facts.RequestedCall(
                    call_id=_CALL.call_id, observed=_OBSERVED, evaluation=_VERDICT, action_digest="a" * 64
                ),
            ),
            risk=RiskLevel.HIGH,
            policy_version="0123456789abcdef",
            workflow=Workflow(
                steps=(Step(by="role:tutor", count=2), Step(by="person:ann")),
                escalate_to="role:admin",
                escalate_after_s=600,
            ),
            escalate_at=_AT + timedelta(seconds=600),
        ),
    ),
    (
        "behalf",
        _ALICE,
        facts.DecisionRecorded(
            request_id=_REQUEST,
            decisions=(facts.Decision(call_id=_CALL.call_id, action="approve", action_digest="a" * 64, step=1),),
            behalf="bob",
        ),
    ),
    (
        "approved",
        _ALICE,
        facts.ReviewNoted(
            what="approved",
            request_id=_REQUEST,
            decisions=(facts.Decision(call_id=_CALL.call_id, action="approve", action_digest="a" * 64),),
            key="k-1",
            whole_digest="a" * 64,
            behalf="bob",
        ),
    ),
    (
        "away",
        _ALICE,
        system_facts.DirectoryChanged(
            about="away", name="alice", value=system_facts.AwayValue(to="bob", until=_AT + timedelta(days=3))
        ),
    ),
    (
        "commented",
        _ALICE,
        facts.ReviewNoted(what="commented", request_id=_REQUEST, text="Is the chest empty?"),
    ),
    (
        "escalated",
        SYSTEM,
        facts.ReviewNoted(
            what="escalated", request_id=_REQUEST, to="role:admin", expires_at=_AT + timedelta(seconds=3600)
        ),
    ),
    (
        "hint",
        SYSTEM,
        facts.RequestEnded(
            request_id=None,
            end="superseded",
            call_ids=(CallId("c-1"),),
            reason="Explain it first.",
            code="hint",
            seen={"farm.lua": "absent"},
        ),
    ),
    (
        "freeze",
        _ALICE,
        system_facts.DirectoryChanged(
            about="freeze",
            name="group:class-7b",
            value=system_facts.FreezeValue(by="alice", reason="We talk now.", at=_AT),
        ),
    ),
    (
        "notify",
        _ALICE,
        system_facts.DirectoryChanged(
            about="notify",
            name="alice/phone",
            value=system_facts.NotifyValue(
                person="alice",
                kinds=("waits_for_you", "failed"),
                target="f" * 64,
                shown="https://hooks.example.org/…",
                quiet_from="22:00",
                quiet_to="07:00",
                zone="Europe/Berlin",
                details=True,
            ),
        ),
    ),
    (
        "roles",
        _ALICE,
        system_facts.PolicyLoaded(
            source="policy.toml",
            policy_version="0123456789abcdef",
            sha256="f" * 64,
            number=3,
            roles={"tutor": ("view", "decide")},
            limits={"tutor": RoleRights(may=("view", "decide"), max_risk=RiskLevel.MEDIUM, paths=("farm/**",))},
            self_approval=True,
        ),
    ),
    (
        "2",
        _ALICE,
        facts.TaskSubmitted(
            prompt="look what is there",
            user_id="alice",
            session_id="s-1",
            model="qwen2.5-coder:7b",
            max_steps=20,
            max_wall_s=600.5,
            max_tokens=100_000,
            earlier=(
                facts.EarlierTask(
                    task_id=TaskId("t-0"),
                    prompt="mend it",
                    status="Completed",
                    message="It runs.",
                    since="It was taken back.",
                ),
            ),
            tag="9f31ab02",
            roles=("submitter", "reviewer"),
            read_only=True,
        ),
    ),
    (
        "3",
        SYSTEM,
        facts.TaskSubmitted(
            prompt="Undo t-1, which is Failed, as the policy says: mend my farm",
            user_id="ci",
            session_id="s-1",
            computers=(ComputerId("3"),),
            model="undo",
            max_steps=0,
            tag="9f31ab02",
            restores=Restoration(
                task_id="t-1", step=2, paths=("lib",), on_conflict="beside", choices={"3:lib/a.lua": "restore"}
            ),
            for_program=True,
        ),
    ),
    (
        "4",
        _ALICE,
        facts.TaskSubmitted(
            prompt="fix my farm program",
            user_id="alice",
            session_id="s-1",
            computers=(ComputerId("3~0a1b2c3d"),),
            model="scripted:hello",
            max_steps=20,
            tag="9f31ab02",
            rehearses=Rehearsal(
                computer=ComputerId("3"),
                base="8" * 64,
                family="turtle",
                label="digger",
                computer_id=3,
                host="ComputerCraft 1.100.8 (Minecraft 1.18.2)",
                capacity=1_000_000,
                left_out={"secret.txt": "The policy does not let this task read it."},
            ),
        ),
    ),
    (
        "5",
        _ALICE,
        facts.TaskSubmitted(
            prompt="Restore 3 as it was in b-0123456789ab",
            user_id="alice",
            session_id="s-1",
            computers=(ComputerId("3"),),
            model="undo",
            max_steps=0,
            tag="9f31ab02",
            restores=Restoration(listing="a" * 64, computer=ComputerId("3"), exact=True, leaves=("big.log", "disk")),
        ),
    ),
    (
        "6",
        _ALICE,
        facts.TaskSubmitted(
            prompt="Fix my farm.",
            user_id="robot",
            session_id="s-1",
            computers=(ComputerId("3"),),
            model="ollama:qwen2.5-coder:7b",
            max_steps=20,
            tag="1a2b3c4d",
            rehearses=Rehearsal(
                computer=ComputerId("3"), base="8" * 64, family="turtle", label="digger", former_labels=("reactor 1",)
            ),
            wait_for_model=True,
            checks=("runs farm.lua", "file farm.lua contains wheat"),
            owner="alice",
        ),
    ),
    (
        "2",
        SYSTEM,
        facts.QuestionAsked(
            question_id=QuestionId("u-1"),
            call_id=CallId("c2"),
            question="Which farm?",
            options=("The one with wheat.", "The one at the river."),
        ),
    ),
    (
        "2",
        SYSTEM,
        facts.ModelAsked(
            attempt=1,
            prompt_version="1",
            policy_version="0123456789abcdef",
            view_digest="a" * 64,
            num_ctx=8192,
            num_predict=1024,
            prompt_tokens=1260,
        ),
    ),
    (
        "2",
        _MODEL,
        facts.CallsProposed(
            explanation="It is put back.",
            calls=(
                _CALL.model_copy(update={"stated_risk": RiskLevel.CRITICAL}),
                ToolCall(
                    call_id=CallId("c0a1b2c3d4e5f6072"),
                    index=1,
                    tool="cc_format\\u{202e} [redacted 01234567]",
                    args={"path": "/"},
                    call_digest="0" * 64,
                ),
            ),
            evaluations=(
                _VERDICT.model_copy(update={"risk": RiskLevel.CRITICAL}),
                _VERDICT.model_copy(update={"effect": Effect.DENY, "risk": RiskLevel.UNKNOWN, "matched_rules": ()}),
            ),
            siblings="run_safe",
            partial="at_once",
            present="3" * 64,
        ),
    ),
    (
        "3",
        SYSTEM,
        facts.CallsProposed(
            explanation="The model says that it is done.",
            calls=(_CALL,),
            evaluations=(_VERDICT,),
            checks=("runs farm.lua",),
        ),
    ),
    (
        "2",
        SYSTEM,
        facts.ReviewRequested(
            request_id=_REQUEST,
            reason="approval",
            calls=(
                facts.RequestedCall(
                    call_id=_CALL.call_id, observed=_OBSERVED, evaluation=_VERDICT, action_digest="f" * 64
                ),
            ),
            risk=RiskLevel.HIGH,
            policy_version="0123456789abcdef",
            expires_at=_AT + timedelta(hours=1),
            remind_at=_AT + timedelta(minutes=50),
            on_timeout="cancel",
        ),
    ),
    (
        "3",
        SYSTEM,
        facts.ReviewRequested(
            request_id=_REQUEST,
            reason="approval",
            calls=(
                facts.RequestedCall(
                    call_id=_CALL.call_id,
                    observed=_OBSERVED,
                    evaluation=_VERDICT,
                    action_digest="f" * 64,
                    checks=(
                        facts.ShownCheck(
                            check="runs farm.lua",
                            computer=ComputerId("3"),
                            call_digest="d" * 64,
                            path="farm.lua",
                            risk=RiskLevel.MEDIUM,
                            program="farm.lua",
                            sha256="e" * 64,
                            identity="7" * 64,
                        ),
                    ),
                ),
            ),
            risk=RiskLevel.HIGH,
            policy_version="0123456789abcdef",
        ),
    ),
    (
        "2",
        _ALICE,
        facts.DecisionRecorded(
            request_id=_REQUEST,
            decisions=(
                facts.Decision(
                    call_id=_CALL.call_id,
                    action="edit",
                    action_digest="f" * 64,
                    args={"path": "startup.lua", "content": "print('tea')\n"},
                    call_digest="1" * 64,
                    evaluation=_VERDICT,
                    runs_digest="2" * 64,
                    said_digest="3" * 64,
                ),
                facts.Decision(call_id=CallId("c4"), action="respond", action_digest="4" * 64, answer="It is day."),
                facts.Decision(
                    call_id=CallId("c5"), action="approve", action_digest="5" * 64, grant_id=_GRANT.grant_id
                ),
            ),
            grants=(_GRANT,),
            self_approved=True,
            valid_until=_AT + timedelta(minutes=15),
            policy_version="0123456789abcdef",
            whole_digest="f" * 64,
        ),
    ),
    (
        "3",
        _ALICE,
        facts.DecisionRecorded(
            request_id=_REQUEST,
            decisions=(
                facts.Decision(
                    call_id=_CALL.call_id,
                    action="edit",
                    action_digest="f" * 64,
                    evaluation=_VERDICT.model_copy(update={"guards": ("a" * 64,)}),
                ),
            ),
            grants=(_GRANT.model_copy(update={"risk": RiskLevel.HIGH, "guards": ("a" * 64,)}),),
        ),
    ),
    (
        "2",
        SYSTEM,
        facts.RequestEnded(
            request_id=None,
            end="expired",
            call_ids=(_CALL.call_id,),
            reason="The approval was not used in time.",
            code="approval_expired",
            then="stay_paused",
        ),
    ),
    (
        "2",
        SYSTEM,
        facts.ToolStarted(
            call_id=_CALL.call_id,
            run_id=_RUN,
            computer=ComputerId("3"),
            number=42,
            action_digest="f" * 64,
            before={"shed": "6" * 64, "lib/new/a.lua": "absent"},
            directories=("shed",),
            made=("lib", "lib/new"),
            grant_id=_GRANT.grant_id,
            watched=facts.Watched(
                globs=("farm/**", "*.log"), listing="5" * 64, gaps="4" * 64, why="The computer took too long."
            ),
        ),
    ),
    (
        "3",
        SYSTEM,
        facts.ToolStarted(
            call_id=_CALL.call_id,
            run_id=_RUN,
            computer=ComputerId("3"),
            number=45,
            action_digest="f" * 64,
            before={"harvest.lua": "e" * 64},
            lines=(1, 0),
            only_comments=True,
        ),
    ),
    (
        "2",
        _COMPUTER,
        facts.ToolFinished(
            call_id=_CALL.call_id,
            run_id=_RUN,
            ok=True,
            text="While it ran, these files changed: farm/log.",
            watched=facts.Watched(listing="3" * 64, changed=("farm/log",)),
        ),
    ),
    (
        "3",
        _COMPUTER,
        facts.ToolFinished(
            call_id=_CALL.call_id,
            run_id=_RUN,
            ok=True,
            text="It ran 10 s without an error, and was then stopped.",
            ran=_RAN,
        ),
    ),
    (
        "2",
        _COMPUTER,
        facts.ToolSettled(
            call_id=_CALL.call_id,
            run_id=_RUN,
            state="finished",
            ok=False,
            code="stale",
            after={"startup.lua": "absent"},
            watched=facts.Watched(listing="3" * 64, changed=("farm/log",)),
        ),
    ),
    (
        "3",
        _COMPUTER,
        facts.ToolSettled(
            call_id=_CALL.call_id,
            run_id=_RUN,
            state="finished",
            ok=True,
            text="It ended.",
            ran=_RAN.model_copy(update={"tabs": ("tab-1",)}),
        ),
    ),
    (
        "2",
        SYSTEM,
        facts.TaskEnded(
            status="Canceled", status_reason="canceled", message="canceled by alice", verified=None, undo="auto"
        ),
    ),
    (
        "3",
        SYSTEM,
        facts.TaskEnded(
            status="Completed",
            status_reason="unverified",
            message="Fixed it.",
            verified=False,
            doubt="harvest.lua was changed after its last run: run it, or say in your final that you did not.",
            finding=facts.Finding(
                files=(
                    facts.FileFound(computer=ComputerId("3"), path="harvest.lua", change="changed", plus=3, minus=1),
                ),
                more_files=1,
                runs=(
                    facts.RunFound(
                        computer=ComputerId("3"),
                        path="harvest.lua",
                        ended="error",
                        seconds=1.5,
                        stale=True,
                        said="harvest.lua:3: attempt to index nil",
                        times=2,
                    ),
                    facts.RunFound(
                        computer=ComputerId("3"), path="bg.lua", ended="finished", background="tab-1, tab-2"
                    ),
                ),
                not_run=("harvest.lua",),
                unknown=("cc_run_program 4:harvest.lua",),
                checks=(facts.CheckResult(check="runs harvest.lua", holds=None),),
                looked=True,
                several=True,
            ),
        ),
    ),
    (
        "2",
        Actor(kind="computer", id="3", auth="pairing"),
        system_facts.TokenIssued(holder_kind="computer", name="3", owner="alice"),
    ),
    (
        "2",
        _COMPUTER,
        system_facts.ComputerFrozen(
            computer=ComputerId("3"),
            reason="disk_restored",
            sides=(
                system_facts.ComputerSide(
                    computer_id=3, boot="k3j9x0", at=_AT, label="farm", former_labels=("", "reactor 1")
                ),
            ),
        ),
    ),
    (
        "2",
        SYSTEM,
        system_facts.NodeStarted(version="0.7.0", policy_version="0123456789abcdef", node="alpha-3f9c2a1b", records=1),
    ),
    (
        "2",
        SYSTEM,
        system_facts.CheckpointMade(
            streams=2, sha256="b" * 64, key="0123456789abcdef", heard={ComputerId("3"): ("b-1", 17)}
        ),
    ),
    (
        "2",
        SYSTEM,
        system_facts.PolicyLoaded(source="policy.toml", policy_version="0123456789abcdef", sha256="a" * 64, number=3),
    ),
)
"""More of a kind: with fields that the first file has not, and with those that came after version 0.6.0."""


def write_missing() -> list[str]:
    """Write the golden file of each kind that has none; the names of those written."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    written = []
    files = [*((fact.kind, actor, fact) for actor, fact in EXAMPLES), *((f"{f.kind}.{n}", a, f) for n, a, f in GROWN)]
    for version, (name, actor, fact) in enumerate(files, start=1):
        path = GOLDEN / f"{name}.json"
        if path.exists():
            continue
        draft = Draft(item_id=ItemId(f"item-{name}"), at=_AT, actor=actor, fact=fact)
        prev_hash = f"{version:064x}"
        path.write_bytes(encode_item(seal(draft, task_id=TaskId("t-golden"), version=version, prev_hash=prev_hash)))
        written.append(path.name)
    return written


if __name__ == "__main__":
    write_missing()
