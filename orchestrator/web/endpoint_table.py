"""Every endpoint as a table: its purpose, its parameters, and each status of its answers.

The routes, the OpenAPI document and the tables of docs/protocol.md are drawn from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from pydantic import BaseModel

from orchestrator.core.approval.approval import HitlResponse, ResumeRequest
from orchestrator.core.task.facts import TaskFact
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import SystemFact
from orchestrator.core.undo.messages import UndoRequest
from orchestrator.history.audit import Verification
from orchestrator.history.audit.background import BackgroundState
from orchestrator.web import bodies as forms
from orchestrator.web.answers import base, history, tasks

Schema = Mapping[str, Any]
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True)
class Param:
    """A parameter beside the body."""

    name: str
    says: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})
    where: str = "query"
    strict: bool = True
    """Whether another value is refused; else it counts as none."""


@dataclass(frozen=True)
class Answer:
    """What one status comes with."""

    says: str
    models: tuple[type[BaseModel], ...] = ()
    """One of these as JSON, or the data of a stream's events; empty: ``media`` says what comes."""
    media: str = "application/json"
    """Empty: nothing comes."""


@dataclass(frozen=True)
class Endpoint:
    """One route with one method."""

    method: str
    path: str
    name: str
    """The operation's id, and the name of its handler."""
    tag: str
    says: str
    answers: Mapping[int, Answer]
    refusals: Mapping[int, str] = field(default_factory=dict)
    """Status to why, beside those that follow from the rest: 401, 403, 404, 405, 422, 503."""
    takes: tuple[Param, ...] = ()
    body: type[BaseModel] | None = None
    who: str = "person"
    """``anybody``: no token; ``program``: an agent's token too; ``person``; ``browser``: one that is signed in; or the
    role that it takes."""
    stored: bool = True
    """Whether it needs the store, which may be busy."""

    @property
    def status(self) -> int:
        """The status of an answer that is a model; where there are several, the handler says which."""
        return next(iter(self.answers))

    @property
    def streams(self) -> bool:
        """Whether it answers with events, and so over a WebSocket, too."""
        return any(one.media == EVENTS for one in self.answers.values())


_STATUSES: Final = [one.value for one in TaskStatus]
_KINDS: Final = [one.model_fields["kind"].default for one in (*get_args(TaskFact), *get_args(SystemFact))]
_NOT_PENDING: Final = "`not_pending` with who decided and how, `expired`"
_DECISION: Final = f"{_NOT_PENDING}, or `invalid_decision`; nothing was decided"
_WAIT: Final = Param(
    "wait_s",
    "Seconds to wait for what comes of it: the end of the task, or its next request.",
    {"type": "number", "minimum": 0, "maximum": 60, "default": 0},
)
_VERIFYING: Final = Param(
    "wait_s",
    "Seconds to wait for what is found; without it until it is. One verification goes on at a time, for all who ask.",
    {"type": "number", "minimum": 0, "maximum": 60},
)
_KEY: Final = Param(
    "Idempotency-Key",
    "As `idempotency_key` in the body, which wins; a longer one is 422.",
    {"type": "string", "maxLength": 200},
    "header",
    strict=False,
)
_MATCH: Final = Param(
    "If-Match",
    "As `expected_digest` in the body, which wins, with or without quotes; 422 with several decisions.",
    {"type": "string"},
    "header",
    strict=False,
)
_DECIDED: Final = {
    200: Answer(
        "The task as it stands: after a decision that lets nothing run, or one that was made before. With `wait_s` "
        "how it ended, or the request that it waits for next.",
        (tasks.TaskDecided, tasks.TaskOverAnswer, tasks.NextRequest),
    ),
    202: Answer("It goes on; what was approved runs now.", (tasks.TaskShort,)),
}


def _free(name: str, says: str, where: str = "query") -> Param:
    return Param(name, says, where=where, strict=False)


def _limit(default: int) -> Param:
    return Param("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 1000, "default": default})


def _ok(says: str, *models: type[BaseModel]) -> Mapping[int, Answer]:
    return {200: Answer(says, models)}


_TASKS: Final = (
    Endpoint(
        "POST", "/v1/tasks", "submit", "tasks", "Submit a task.",
        {201: Answer("It is in the queue.", (tasks.TaskShort,))},
        {
            403: "it takes the role submitter; or the session is somebody else's",
            404: "there is no such model",
            409: "`cannot_rehearse`: its computer is away or could not be copied, or too many rehearsals go on; "
            "`invalid_decision`: the key came with another task",
        },
        takes=(_KEY,), body=forms.SubmitBody, who="submitter",
    ),
    Endpoint(
        "GET", "/v1/tasks", "tasks", "tasks", "List tasks, the newest first.",
        _ok("The tasks.", tasks.TaskList),
        takes=(
            Param("status", "Only those.", {"type": "string", "enum": _STATUSES}),
            _free("session_id", "Only those of a session."),
            _free("after", "Only older ones than those of the page whose `next` this is."),
            _limit(100),
        ),
        who="program",
    ),
    Endpoint(
        "GET", "/v1/tasks/{task_id}", "task", "tasks", "Look at a task.",
        _ok("The task whole.", tasks.TaskLong), who="program",
    ),
    Endpoint(
        "GET", "/v1/tasks/{task_id}/events", "events", "tasks",
        "Follow a task: each item of its journal, and hints of what is being written.",
        {200: Answer("Server-sent events, until the task has ended.", media=EVENTS)},
        {429: "`too_many_streams`: this token has as many open as it may"},
        takes=(
            _free("after", "The last version that is known; 0, or what is no version: from the beginning."),
            _free("Last-Event-ID", "As `after`, which it wins over.", "header"),
            _free("hints", "0: leave hints out."),
        ),
        who="program",
    ),
    Endpoint(
        "POST", "/v1/tasks/{task_id}/cancel", "cancel", "tasks", "Cancel a task, as its requester or an admin.",
        _ok("It is canceled.", tasks.TaskShort), {409: "`task_ended`"}, body=forms.CancelBody,
    ),
    Endpoint(
        "GET", "/v1/tasks/{task_id}/changes", "changes", "tasks", "What a task changed so far, place by place.",
        _ok("As its journal tells it.", history.TaskChanges), who="program",
    ),
    Endpoint(
        "POST", "/v1/tasks/{task_id}/undo", "undo", "tasks",
        "Put back what a task changed, as its requester or an admin: a task of its own, which passes the gate.",
        {
            200: Answer("With `dry_run`: what it would do now.", (history.UndoPreview,)),
            201: Answer("The undo is in the queue.", (tasks.TaskShort,)),
        },
        {409: "`being_undone`: one that wants the same goes on; `invalid_decision`: the key came with another undo"},
        takes=(_KEY,), body=UndoRequest,
    ),
    Endpoint(
        "POST", "/v1/tasks/{task_id}/pin", "pin", "tasks",
        "Keep a task whatever the retention says, as its requester or an admin.",
        _ok("It is pinned.", history.Pinned), body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/tasks/{task_id}/unpin", "unpin", "tasks", "Keep a task no longer than others.",
        _ok("It is not pinned.", history.Pinned), body=forms.EmptyBody,
    ),
    Endpoint(
        "GET", "/v1/tasks/{task_id}/rehearsal", "rehearsal", "tasks",
        "What a rehearsal came to: each place that it changed in its copy, and the task that asks for all of it.",
        _ok("What it came to so far.", history.RehearsalAnswer), who="program",
    ),
    Endpoint(
        "POST", "/v1/tasks/{task_id}/rehearsal", "apply_rehearsal", "tasks",
        "Ask for what a rehearsal changed, as its requester or an admin, also where it failed or was canceled.",
        {201: Answer("The task that asks for all of it; the same while it goes on.", (tasks.TaskShort,))},
        {422: "`invalid_request`: it is applied already, is not over yet, or changed nothing"},
        body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/tasks/{task_id}/answer", "answer", "tasks", "Answer a question; the first answer counts.",
        _ok("The answer is recorded.", tasks.TaskShort),
        {409: "`not_pending`: somebody answered it (the message says who and when), or the task is over"},
        body=forms.AnswerBody,
    ),
    Endpoint(
        "GET", "/v1/timeline", "timeline", "tasks",
        "See what the tasks did when that changed last: thinking, waiting for a person, running a call.",
        _ok("The tasks with their times, the last that changed first.", tasks.Timelines),
        takes=(
            Param("limit", "How many tasks.", {"type": "integer", "minimum": 1, "maximum": 50, "default": 20}),
            Param(
                "hours", "Only tasks that changed in so many hours.",
                {"type": "number", "minimum": 0.1, "maximum": 720, "default": 24},
            ),
        ),
        who="program",
    ),
    Endpoint(
        "GET", "/v1/tasks/{task_id}/timeline", "task_timeline", "tasks", "See what one task did when.",
        _ok("The task with its times.", tasks.TaskTimeline), who="program",
    ),
    Endpoint(
        "GET", "/v1/trends", "trends", "tasks",
        "See figures over time: how tasks ended, time to approval, tokens, and how long models took.",
        _ok("24 hours, or 30 days.", tasks.Trends),
        takes=(Param("by", "`hour` or `day`.", {"type": "string", "enum": ["hour", "day"], "default": "hour"}),),
        who="program",
    ),
    Endpoint(
        "POST", "/v1/stop", "stop", "tasks", "Cancel every task that is not over: one's own; as an admin, everybody's.",
        _ok("What was stopped.", tasks.Stopped), body=forms.StopBody,
    ),
)  # fmt: skip

_DECISIONS: Final = (
    Endpoint(
        "GET", "/v1/requests", "requests", "decisions", "List what waits for a person, oldest first, long texts cut.",
        _ok("The requests.", tasks.Requests), who="program",
    ),
    Endpoint(
        "GET", "/v1/requests/{request_id}", "request", "decisions", "Look at an open request, whole.",
        _ok("The request.", HitlResponse), {409: _NOT_PENDING}, who="program",
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/extend", "extend", "decisions", "Give people more time for a request.",
        _ok("It expires later.", tasks.TaskShort), {409: _NOT_PENDING}, body=forms.ExtendBody,
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/claim", "claim", "decisions",
        "Say that one looks at a request: for ten minutes nobody else but an admin decides it.",
        _ok("It is claimed.", tasks.TaskShort), {409: f"{_NOT_PENDING}, or somebody else has it"}, body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/release", "release", "decisions", "Give a claim back.",
        _ok("Others decide it again.", tasks.TaskShort), {409: _NOT_PENDING}, body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/comment", "comment", "decisions", "Say something to the next reviewer.",
        _ok("It is said; the request still waits.", tasks.TaskShort), {409: _NOT_PENDING}, body=forms.CommentBody,
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/escalate", "escalate", "decisions",
        "Give a request to the people who come next; the former ones no longer decide it.",
        _ok("It is theirs.", tasks.TaskShort), {409: f"{_NOT_PENDING}, or it was escalated already"},
        body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/withdraw", "withdraw", "decisions",
        "Take a request back, as its requester or an admin: its calls do not run, and the model is told.",
        _ok("It is closed.", tasks.TaskShort), {409: f"{_NOT_PENDING}, or `invalid_decision`: an outcome is unknown"},
        body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/requests/{request_id}/renew", "renew", "decisions",
        "Ask again for what nobody answered in time; a new request follows.",
        _ok("It is asked again.", tasks.TaskShort), {409: f"{_NOT_PENDING}, or `task_ended`"}, body=forms.EmptyBody,
    ),
    Endpoint(
        "POST", "/v1/decisions", "decisions", "decisions", "Decide several requests, each by itself.",
        _ok("What became of each, in their order.", tasks.DecidedList), body=forms.DecisionsBody,
    ),
    Endpoint(
        "POST", "/v1/resume/{request_id}", "resume", "decisions", "Decide a request: one action for all, or each call.",
        _DECIDED, {409: _DECISION}, takes=(_WAIT, _KEY, _MATCH), body=ResumeRequest,
    ),
    Endpoint(
        "POST", "/v1/approve/{request_id}", "approve", "decisions", "Approve every call of a request that still waits.",
        _DECIDED, {409: _DECISION}, takes=(_WAIT, _KEY, _MATCH), body=forms.QuickDecision,
    ),
    Endpoint(
        "POST", "/v1/reject/{request_id}", "reject", "decisions", "Reject every call of a request that still waits.",
        _DECIDED, {409: _DECISION}, takes=(_WAIT, _KEY, _MATCH), body=forms.QuickDecision,
    ),
)  # fmt: skip

_POLICY: Final = (
    Endpoint(
        "GET", "/v1/policy", "show_policy", "policy", "Look at the policy in force.",
        _ok("The policy.", base.PolicyInForceAnswer), who="program",
    ),
    Endpoint(
        "POST", "/v1/policy", "apply_policy", "policy", "Put a policy into force on all nodes.",
        _ok("What is in force.", base.Reloaded),
        {409: "`conflict`: another came into force meanwhile", 422: "`policy_invalid`: it cannot be loaded"},
        body=forms.PolicyBody, who="admin",
    ),
    Endpoint(
        "POST", "/v1/policy/reload", "reload_policy", "policy", "Look at the policy's file now.",
        _ok("What is in force.", base.Reloaded), body=forms.EmptyBody, who="admin",
    ),
    Endpoint(
        "POST", "/v1/policy/dry-run", "dry_run", "policy", "Ask what the policy says of a call; nothing runs.",
        _ok("The verdict, and why.", base.DryRun),
        {
            403: "a policy that was sent takes the role reviewer",
            404: "the person named as `user` is out of reach",
            422: "`policy_invalid`: the policy that was sent",
        },
        body=forms.DryRunBody, who="program",
    ),
    Endpoint(
        "GET", "/v1/grants", "grants", "policy",
        "List the standing approvals that one gave or whose tasks they cover; reviewers and admins see all.",
        _ok("The grants.", base.Grants), takes=(_free("session_id", "Only those of a session."),), who="program",
    ),
    Endpoint(
        "DELETE", "/v1/grants/{grant_id}", "revoke_grant", "policy",
        "Take a standing approval back; what is running is not stopped.",
        _ok("It does not stand any more.", base.GrantTakenBack),
    ),
)  # fmt: skip

_ASKED_ABOUT: Final = (
    _free("task", "Only this task."),
    _free("request", "Only the task of this request, and what concerns the request."),
    _free("system", "1 or true: only what belongs to no task; it takes the role reviewer."),
)

_NO_STREAM: Final = {404: "there is no such task, or the place to go on from is gone"}

_AUDIT: Final = (
    Endpoint(
        "GET", "/v1/audit", "audit", "audit",
        "Read the journals, stream by stream or the newest first: one's own tasks; reviewers and admins all of them.",
        _ok("Items; with `sha256` stories of calls.", history.AuditItems, history.AuditStories), _NO_STREAM,
        takes=(
            *_ASKED_ABOUT,
            _free("by", "Only what this actor caused, by its id."),
            Param("kind", "Only this kind of fact.", {"type": "string", "examples": _KINDS}, strict=False),
            Param("since", "Only from this time on: a date or a time of ISO 8601; without an offset, of UTC."),
            Param(
                "sha256", "The calls that these bytes had to do with, instead of items.",
                {"type": "string", "pattern": "^([0-9a-fA-F]{64})?$"},
            ),
            Param("after", "The last answer's `next`.", {"type": "string", "pattern": "^([0-9]{1,12}:.{1,200})?$"}),
            _free("order", "`newest`: the newest of all streams first."),
            _limit(200),
            _free("whole", "1 or true: with the secrets; it takes the role admin."),
        ),
    ),
    Endpoint(
        "GET", "/v1/analytics", "analytics", "audit",
        "See how requests are decided: after how long, how often rejected or expired, by rule, tool and person.",
        _ok("Figures of the tasks that changed last.", history.Analytics),
        takes=(
            Param(
                "days", "Of the last so many days.", {"type": "number", "minimum": 0.01, "maximum": 366, "default": 30}
            ),
        ),
        who="reviewer",
    ),
    Endpoint(
        "GET", "/v1/audit/verify", "audit_verify", "audit",
        "Verify every stream against its chain, its row and the last checkpoint.",
        {
            200: Answer("What was verified, and every fault.", (Verification,)),
            202: Answer("It goes on, so far. Ask again soon, or it ends.", (history.Verifying,)),
        },
        who="reviewer",
        takes=(
            _VERIFYING,
            _free(
                "full",
                "1: read every item and all bytes. 0: go on from what was verified last. Default: 1 if it is quick.",
            ),
        ),
    ),
    Endpoint(
        "DELETE", "/v1/audit/verify", "audit_verify_cancel", "audit",
        "End the verification that goes on, for all who ask; what it has read is noted.",
        _ok("How far it was.", history.Verifying), {409: "none goes on"}, who="reviewer",
    ),
    Endpoint(
        "GET", "/v1/audit/background", "audit_background", "audit",
        "See how far the verification in the background is, and what it found.",
        _ok("Its progress and its faults.", BackgroundState), who="reviewer",
    ),
    Endpoint(
        "POST", "/v1/audit/background", "audit_background_look", "audit",
        "Have the verification in the background look now.",
        _ok("Its progress and its faults.", BackgroundState), body=forms.EmptyBody, who="reviewer",
    ),
    Endpoint(
        "DELETE", "/v1/audit/background", "audit_background_cancel", "audit",
        "End the present look of the verification in the background; the next one reads the same again.",
        _ok("Its progress and its faults.", BackgroundState), {409: "none goes on"}, who="reviewer",
    ),
    Endpoint(
        "GET", "/v1/audit/check", "audit_check", "audit",
        "Find what ran and was not allowed, and what was allowed and never ran.",
        _ok("The findings.", history.Findings), _NO_STREAM, takes=_ASKED_ABOUT,
    ),
)  # fmt: skip

_PEOPLE: Final = (
    Endpoint(
        "GET", "/v1/nodes", "list_nodes", "people", "List the servers that share this one's store and are heard now.",
        _ok("The nodes, the one that answers first.", tasks.NodeList), who="program", stored=False,
    ),
    Endpoint(
        "GET", "/v1/computers", "list_computers", "people", "List the computers that have a token, connected or not.",
        _ok("The computers, by name.", tasks.ComputerList), who="program",
    ),
    Endpoint(
        "GET", "/v1/computers/{name}", "computer", "people", "Look at a computer, and at why it is frozen.",
        _ok("The computer, with both sides of what froze it.", tasks.ComputerLong), who="program",
    ),
    Endpoint(
        "POST", "/v1/computers/{name}/release", "release_computer", "people",
        "Let a frozen computer come back: the one that dials next is it, and what was open there is unknown.",
        _ok("Whether it was frozen.", tasks.ComputerFreed), who="admin",
    ),
    Endpoint(
        "POST", "/v1/computers/{name}/confirm-label", "confirm_label", "people",
        "Confirm the label that a computer has now: rules look at no former one any more.",
        _ok("Whether it had another label before.", tasks.LabelDone), {409: "`conflict`: it has another label"},
        body=forms.LabelBody, who="admin",
    ),
    Endpoint(
        "GET", "/v1/computers/{name}/screens", "screens", "people", "List what can be watched of a computer.",
        _ok("Its terminal and its monitors; none where its client is too old.", base.ScreenList),
        {409: "`computer_away`: it is not connected, or does not answer"},
    ),
    Endpoint(
        "GET", "/v1/computers/{name}/screen", "screen", "people",
        "Watch a screen live: the whole picture, then what changes.",
        {
            200: Answer(
                "Server-sent events `picture`, `away` and `unreadable`, without end.",
                (base.PictureEvent, base.AwayEvent, base.HiddenEvent),
                media=EVENTS,
            )
        },
        {429: "`too_many_watch`, `too_many_streams`: as many as there may be watch it, or are open with this token"},
        takes=(_free("of", "`terminal`, as when it is left out, or the name of a monitor."),),
    ),
    Endpoint(
        "POST", "/v1/computers/{name}/keys", "keys", "people",
        "Type at a computer, as who paired it or as an admin, where the setting `remote_keys` allows it.",
        _ok("What became of it; it is never sent again.", base.KeysTyped),
        {
            409: "`computer_away`, or `cannot_type`: it is frozen, or its client is too old",
            429: "`too_many_keys`: faster than a person types",
        },
        body=forms.KeysBody,
    ),
    Endpoint(
        "POST", "/v1/tokens", "add_token", "people", "Make a token for a person, a computer or an agent.",
        {201: Answer("The token, shown once.", (base.TokenMade,))}, body=forms.TokenBody, who="admin",
    ),
    Endpoint(
        "GET", "/v1/tokens", "tokens", "people", "List whom there are tokens for; never the tokens.",
        _ok("The tokens.", base.TokenList), who="admin",
    ),
    Endpoint(
        "DELETE", "/v1/tokens/{kind}/{name}", "revoke", "people",
        "Revoke all tokens of a holder at once, and of a person those of their programs; their connections end.",
        _ok("How many there were.", base.TokensRevoked), who="admin",
    ),
    Endpoint(
        "GET", "/v1/whoami", "whoami", "people", "See who one is here, and what one may do.",
        _ok("The person or program of the token.", base.WhoAmI), who="program",
    ),
    Endpoint(
        "GET", "/v1/groups", "groups", "people", "List one's own groups; as an admin, all.",
        _ok("The groups, by name.", base.GroupList), who="program", stored=False,
    ),
    Endpoint(
        "POST", "/v1/groups/{group}", "change_group", "people",
        "Put people and computers into a group, or take them out; the first ones make it.",
        _ok("The group as it is now.", base.GroupAnswer), {409: "`conflict`: somebody changed it meanwhile"},
        body=forms.GroupBody, who="admin",
    ),
    Endpoint(
        "DELETE", "/v1/groups/{group}", "remove_group", "people",
        "Remove a group: nobody is in it any more.",
        _ok("It is gone.", base.GroupGone), {409: "`conflict`: somebody changed it meanwhile"}, who="admin",
    ),
    Endpoint(
        "POST", "/v1/away", "go_away", "people",
        "Let another person decide while one is away, or say that one is back; an admin does so for others, too.",
        _ok("Who decides, and until when.", base.AwayDone),
        {404: "there is no such person", 409: "`conflict`: somebody changed it meanwhile"},
        body=forms.AwayBody,
    ),
    Endpoint(
        "GET", "/v1/groups/{group}/export", "export_group", "people",
        "Get what the people of a group did, as a page and as JSON for each, without secrets.",
        {200: Answer("A zip archive.", media="application/zip")},
        takes=(Param("since", "Only tasks that came in from this time on, as for the audit."),),
        who="reviewer",
    ),
    Endpoint(
        "POST", "/v1/computers/{name}/owner", "set_owner", "people",
        "Give a computer to a person or a group; they see and use it, and nobody else but admins.",
        _ok("The computer and its owner.", base.OwnerDone), {409: "`conflict`: somebody changed it meanwhile"},
        body=forms.OwnerBody, who="admin",
    ),
    Endpoint(
        "POST", "/v1/pin", "set_pin", "people", "Set the PIN by which one reviews in the game; the one before is void.",
        _ok("It is set.", base.PinAnswer), body=forms.PinBody,
    ),
    Endpoint(
        "DELETE", "/v1/pin", "remove_pin", "people", "Remove one's PIN: nobody reviews in the game by it any more.",
        _ok("It is removed.", base.PinAnswer),
    ),
    Endpoint(
        "POST", "/v1/freeze", "freeze", "people",
        "Freeze a person, a group or everybody: nothing of theirs starts or is decided, and their programs stop.",
        _ok("It holds.", base.FreezeDone),
        {404: "there is no such group", 409: "`conflict`: somebody changed it meanwhile"},
        body=forms.FreezeBody, who="admin",
    ),
    Endpoint(
        "POST", "/v1/unfreeze", "unfreeze", "people", "End a freeze: the tasks go on where they were.",
        _ok("It is over.", base.FreezeEnded),
        {404: "there is no such group", 409: "`conflict`: somebody changed it meanwhile"},
        body=forms.UnfreezeBody, who="admin",
    ),
    Endpoint(
        "GET", "/v1/freezes", "freezes", "people",
        "List the freezes that one may end, and those that hold for oneself.",
        _ok("The freezes, by name.", base.FreezeList), who="program", stored=False,
    ),
    Endpoint(
        "GET", "/v1/notifications", "notifications", "people",
        "See what became of messages by one's own notification rules; as an admin, by all.",
        _ok("What was sent in the last day, what waits, and what could not be sent.", base.NoticeList),
    ),
    Endpoint(
        "GET", "/v1/notifications/rules", "notification_rules", "people",
        "List one's own notification rules; as an admin, all. Their addresses are never shown.",
        _ok("The rules.", base.RuleList), stored=False,
    ),
    Endpoint(
        "POST", "/v1/notifications/rules", "add_notification_rule", "people",
        "Add a rule that sends messages elsewhere: one's own, or as an admin anybody's.",
        {201: Answer("The rule, and the key that signs its webhooks.", (base.RuleMade,))},
        {
            403: "only admins add rules of others and of the installation",
            404: "there is no such person",
            409: "`conflict`: there is a rule of this name",
        },
        body=forms.RuleBody,
    ),
    Endpoint(
        "DELETE", "/v1/notifications/rules/{rule}", "remove_notification_rule", "people",
        "Remove a notification rule; its address is forgotten.",
        _ok("It is gone.", base.RuleGone),
        {403: "only admins remove rules of others", 409: "`conflict`: somebody changed it meanwhile"},
        takes=(
            _free("person", "Whose rule; without it the asker's."),
            _free("installation", "`true`: the installation's."),
        ),
    ),
    Endpoint(
        "POST", "/v1/notifications/test", "test_notification_rule", "people",
        "Send a test message by a rule, at once.",
        _ok("What became of it.", base.MessageTried),
        {403: "only admins test rules of others", 404: "there is no such rule"},
        body=forms.RuleNamedBody,
    ),
    Endpoint(
        "POST", "/v1/pairings", "make_pairing", "people", "Make a code by which a computer in the game joins.",
        {201: Answer("The code, and the line to type.", (base.PairingMade,))}, body=forms.PairingBody, who="admin",
    ),
    Endpoint(
        "POST", "/v1/pair", "pair", "people", "Turn a code into the computer's token, once.",
        _ok("The token.", base.PairedAnswer),
        {
            401: "the code is not known, was used or is too old",
            429: "ten wrong codes within a minute from one computer, or too many from one address",
        },
        body=forms.PairBody, who="anybody",
    ),
    Endpoint(
        "GET", "/install", "install", "people", "The installer for a computer in the game, in Lua.",
        {200: Answer("A Lua program that knows this server's address.", media="text/plain")},
        {422: "the Host header names no address"}, who="anybody", stored=False,
    ),
    Endpoint(
        "GET", "/client.lua", "client", "people", "The client for a computer in the game, in Lua.",
        {200: Answer("A Lua program.", media="text/plain")}, who="anybody", stored=False,
    ),
    Endpoint(
        "GET", "/sha256.lua", "hasher", "people", "What computes a sha256 in the game, in Lua.",
        {200: Answer("A Lua program.", media="text/plain")}, who="anybody", stored=False,
    ),
)  # fmt: skip

_NOT_OURS: Final = "the Host header has no name of this server"

_BROWSERS: Final = (
    Endpoint(
        "GET", "/", "page", "browsers", "The console, for a browser; for others where things are.",
        {
            200: Answer("The page, or as JSON where `Accept` has no `text/html`.", (base.Elsewhere,)),
            304: Answer("It is as `If-None-Match` has it.", media=""),
        },
        {403: _NOT_OURS}, who="anybody", stored=False,
    ),
    Endpoint(
        "GET", "/console/{path}", "console_file", "browsers", "A file of the console; its path may have slashes.",
        {
            200: Answer("The file, of the type that its name says.", media="*/*"),
            304: Answer("It is as `If-None-Match` has it.", media=""),
        },
        {403: _NOT_OURS}, who="anybody", stored=False,
    ),
    Endpoint(
        "POST", "/v1/session", "sign_in", "browsers", "Sign a browser in with a person's token: it gets a cookie.",
        {201: Answer("It is signed in; `Set-Cookie` has the cookie.", (base.SessionAnswer,))},
        {
            401: "the token is not known, was revoked or is a computer's",
            403: "the token is a program's; or another site's page asks",
            429: "ten wrong tokens within a minute from one address",
        },
        body=forms.SignInBody, who="anybody",
    ),
    Endpoint(
        "GET", "/v1/session", "session", "browsers", "Who is signed in with this browser.",
        _ok("Who it is.", base.SessionAnswer), who="browser",
    ),
    Endpoint(
        "DELETE", "/v1/session", "sign_out", "browsers",
        "Sign this browser out, for good and in all its tabs; its streams and sockets end.",
        {204: Answer("It is signed out.", media="")}, who="browser",
    ),
    Endpoint(
        "GET", "/v1/session/oidc", "oidc", "browsers",
        "Sign a browser in with the provider of the settings `oidc_*`: it is led to the provider's page.",
        {303: Answer("To the provider's page; `Set-Cookie` has the attempt, for ten minutes.", media="")},
        {
            403: "another site's page asks, or another name was asked for",
            404: "no provider is set up",
            502: "`provider_away`: the provider does not answer as it should",
        },
        who="anybody",
    ),
    Endpoint(
        "GET", "/v1/session/oidc/callback", "oidc_callback", "browsers",
        "Where the provider sends the browser back: it is signed in, and led to the page.",
        {303: Answer("To `/`; `Set-Cookie` has the cookie.", media="")},
        {
            401: "`sign_in_refused`: another browser or server began it, or the provider's word cannot be believed",
            403: "the account has no role here, or its name is taken, revoked or does not fit",
            404: "no provider is set up",
            409: "`conflict`: groups were changed at the same time",
            429: "ten refused sign-ins within a minute from one address",
            502: "`provider_away`: the provider does not answer as it should",
        },
        takes=(
            _free("code", "The provider's code, which counts once."),
            _free("state", "As the provider was given it."),
            _free("iss", "The provider, where it says so."),
            _free("error", "Why the provider did not sign anybody in."),
        ),
        who="anybody",
    ),
    Endpoint(
        "GET", "/v1/watch", "watch", "browsers", "Hear at once of every task and computer that changes.",
        {
            200: Answer(
                "Server-sent events, until the token is revoked or the browser signed out.",
                (base.WatchHello, base.TaskHint, base.ComputerHint), media=EVENTS,
            )
        },
        {429: "`too_many_streams`: this token has as many open as it may"},
    ),
)  # fmt: skip

_BACKUPS: Final = (
    Endpoint(
        "POST", "/v1/computers/{name}/backups", "make_backup", "backups",
        "Keep all that is on a computer now: only what is not kept already is read.",
        {201: Answer("The backup.", (history.BackupAnswer,))},
        {409: "`computer_away`: it is not connected, or went away; `conflict`: something was swept meanwhile"},
        body=history.BackupBody, who="submitter",
    ),
    Endpoint(
        "GET", "/v1/computers/{name}/backups", "computer_backups", "backups", "List a computer's backups.",
        _ok("The backups, the newest first.", history.BackupList), who="program",
    ),
    Endpoint(
        "GET", "/v1/backups", "all_backups", "backups", "List the backups of all computers.",
        _ok("The backups, the newest first.", history.BackupList), who="program",
    ),
    Endpoint(
        "GET", "/v1/computers/{name}/backups/{backup_id}", "show_backup", "backups",
        "Look at a backup: how its id or its listing begins is enough.",
        _ok("The backup, with all that is in it.", history.BackupLong), who="program",
    ),
    Endpoint(
        "DELETE", "/v1/computers/{name}/backups/{backup_id}", "remove_backup", "backups",
        "Forget a backup, as the person who made it or as an admin; its bytes go with the next prune.",
        _ok("It is not there any more.", history.BackupGone),
    ),
    Endpoint(
        "POST", "/v1/computers/{name}/restore", "restore", "backups",
        "Put a backup back: a task of its own, which passes the gate and waits for the computer.",
        {
            200: Answer("With `dry_run`: what it would do now.", (history.RestorePreview,)),
            201: Answer("The task is in the queue.", (history.RestoreSubmitted,)),
        },
        body=history.RestoreBody, who="submitter",
    ),
    Endpoint(
        "GET", "/v1/transfers", "list_transfers", "backups",
        "What is being read from computers now, and how far it has come.",
        _ok("What goes on, the oldest first.", history.TransferList), who="program", stored=False,
    ),
    Endpoint(
        "POST", "/v1/prune", "prune", "backups",
        "Remove ended tasks by age or size, the oldest first, and what nobody needs any more.",
        _ok("What went.", history.PruneOutcome), body=history.PruneBody, who="admin",
    ),
)  # fmt: skip

_HOUSE: Final = (
    Endpoint(
        "GET", "/healthz", "healthz", "house",
        "Whether it is up and is to stay so, its store answers and its policy can be used.",
        _ok("It is.", base.Health), who="anybody",
    ),
    Endpoint(
        "GET", "/metrics", "metrics", "house", "Figures for Prometheus; docs/watching.md lists them.",
        {200: Answer("The figures.", media="text/plain")}, who="viewer",
    ),
    Endpoint(
        "GET", "/v1/doctor", "doctor", "house",
        "See who was turned away, who fetched the installer and never paired, and what the server was started with.",
        _ok("What was seen since the start.", base.Checkup), who="admin",
    ),
    Endpoint(
        "GET", "/v1/models", "models", "house",
        "The model of tasks that name none, and whether it is only the demo's script.",
        _ok("The model; with `look` the models of each server, too.", base.ModelsAnswer),
        takes=(_free("look", "1: ask the model servers which models they have."),),
        who="program", stored=False,
    ),
    Endpoint(
        "GET", "/v1/openapi.json", "openapi", "house", "This document.",
        {200: Answer("OpenAPI 3.1.")}, who="anybody", stored=False,
    ),
)  # fmt: skip

_SOCKETS: Final = (
    Endpoint(
        "GET", "/computer", "computer_socket", "sockets",
        "The computers' channel, a WebSocket: docs/protocol.md, section 1.",
        {101: Answer("The channel is open; subprotocol `cc-orchestrator.v1`.", media="")},
        {
            400: "`bad_subprotocol`: only others are offered", 401: "no computer's token",
            426: "`not_a_websocket`: it was asked for as a page",
        },
        takes=(_free("n", "Drawn for each connection; read by nobody here."),),
        who="computer",
    ),
    Endpoint(
        "GET", "/reviewer", "reviewer_socket", "sockets",
        "The reviewers' channel, a WebSocket: docs/protocol.md, section 2.",
        {101: Answer("The channel is open; subprotocol `cc-orchestrator.review.v1`.", media="")},
        {401: "no person's token"},
    ),
)  # fmt: skip

ENDPOINTS: Final = (*_TASKS, *_DECISIONS, *_POLICY, *_AUDIT, *_PEOPLE, *_BROWSERS, *_BACKUPS, *_HOUSE, *_SOCKETS)
"""Every endpoint."""
