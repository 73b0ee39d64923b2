"""The policy: its active version, its rules in words, a dry run, the grants, and a reload of its file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static, TextArea

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.policy import told_of_gaps, told_of_roles, tools_without_a_rule
from orchestrator.core.policy.tool_args import ALL_TOOL_ARGS
from orchestrator.core.reply.scanner import doubled_key
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.output import counted
from orchestrator.terminal.review.request_view import Line, allows, as_json, block, text_of
from orchestrator.terminal.tui.dialogs import Choose, Dialog, Listing, line_field, text_field
from orchestrator.terminal.tui.lines_view import Desk, LinesView, begin, moment, segment
from orchestrator.terminal.tui.row_list import Entry, Pane

# -- Rules of the policy, and what it says of a call, as lines for a person --------------

_CHARS: Final = 1000
_SAYS: Final = {
    "allow": "It would run without asking.",
    "ask": "A person would be asked first.",
    "hint": "The model would explain it first, and a person would be asked once the user has tried.",
    "deny": "It would be denied.",
}
_TESTS: Final = (
    ("eq", "is {}"),
    ("in", "is one of {}"),
    ("one_of", "is one of {}"),
    ("regex", "matches {}"),
    ("max_length", "has at most {} characters"),
    ("max_number", "is at most {}"),
    ("over_length", "has more than {} characters"),
    ("over_number", "is more than {}"),
)
_CONDITIONS: Final = (
    ("programs", "the program is"),
    ("computers", "on computers"),
    ("families", "on computers of the kind"),
    ("labels", "where the label is"),
    ("owners", "on computers of"),
    ("roles", "asked for by"),
    ("users", "asked for by"),
    ("groups", "asked for by the group"),
    ("risks", "where the risk is"),
)
_MISSED: Final = {
    "tools": "it is about other tools",
    "paths": "its paths are others",
    "programs": "its programs are others",
    "computers": "its computers are others",
    "families": "the kind of computer is another",
    "labels": "the label is another",
    "args": "an argument is another",
    "roles": "the requester's roles are others",
    "users": "the requester is another",
    "groups": "the requester's groups are others",
    "owners": "the computer's owner is another",
    "risks": "the risk is another",
    "call": "nothing about the call can be judged",
}
_OPEN: Final = {
    "paths": "its paths",
    "programs": "its programs",
    "computers": "the computer",
    "families": "the kind of computer",
    "labels": "the computer's label",
    "args": "an argument",
    "roles": "the requester's roles",
    "users": "the requester",
    "groups": "the requester's groups",
    "owners": "the computer's owner",
    "risks": "the risk",
    "call": "the call itself",
}
_UNDO: Final = {"offer": "offered", "auto": "by itself, after a task that failed", "never": "never"}


def in_force_lines(found: Mapping[str, Any]) -> Iterator[Line]:
    """The active policy, as `GET /v1/policy` tells it; its faults on this node come first."""
    if found["alert"]:
        yield Line("ALERT: the policy needs attention on this node.", "alarm", prose=True)
        yield Line(f"  {one_line(found['alert'], limit=2000)}", "alarm", prose=True)
    policy = found["policy"]
    plan = "plan: whatever changes something is denied" if found["mode"] == "plan" else one_line(found["mode"])
    unknown = "asks" if policy.get("unknown_tool") == "ask" else "is denied, or asks if it changes something"
    yield Line("── In force", "title")
    yield Line(f"  from     {one_line(found['source'], limit=_CHARS)}, version {one_line(found['policy_version'])}")
    yield Line(f"  mode     {plan}")
    yield Line(f"  a tool that no rule covers {unknown}", prose=True)
    yield Line(f"  undo     {_UNDO.get(policy.get('undo', 'offer'), one_line(str(policy.get('undo'))))}")
    secrets = policy.get("secrets_to_model") or "mask for hosted models, allow for local ones"
    yield Line(f"  secrets  {secrets}")
    if policy.get("custom"):
        yield Line(f"  plugins  {_listed(policy['custom'])}", prose=True)
    yield Line("  The strictest rule that matches wins: deny, then ask, then allow.", prose=True)


def rule_lines(rule: Mapping[str, Any], number: int) -> Iterator[Line]:
    """One rule in words."""
    tools = "every tool" if rule["tools"][:1] == ["*"] else _listed(rule["tools"])
    raises = f", and the risk is at least {rule['risk']}" if rule.get("risk") else ""
    yield Line(f"── Rule {number}: {one_line(rule['id'])}", "title")
    yield Line(f"  {rule['effect']} {tools}{raises}", "call", prose=True)
    if rule.get("paths"):
        which = "every path is in" if rule["effect"] == "allow" else "a path is in"
        yield Line(f"  {which} {_listed(rule['paths'])}", prose=True)
    for name, says in _CONDITIONS:
        if rule.get(name):
            yield Line(f"  {says} {_listed(rule[name])}", prose=True)
    for test in rule.get("args") or ():
        yield Line(f"  where {_tested(test)}", prose=True)
    if rule.get("reads"):
        yield Line("  it counts as looking only", prose=True)
    if rule.get("reason"):
        yield Line(f"  because {one_line(rule['reason'], limit=_CHARS)}", prose=True)


def verdict_lines(told: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """The result of a dry run: the verdict, the rules that matched, and why the others did not."""
    yield Line(f"{told['effect'].upper()}: {_SAYS.get(told['effect'], '')} Risk: {one_line(told['risk'])}.", "title")
    yield Line(f"  {one_line(told['reason'], limit=2000)}", prose=True)
    if (approval := told.get("approval")) is not None:
        yield Line(f"  {one_line(approval['told'], limit=2000)}", prose=True)
    if told["plan"]:
        yield Line("  Plan mode is on: whatever changes something is denied.", "warning", prose=True)
    for outcome, title in (("matched", "Rules that match"), ("possible", "Rules of which it is not known yet")):
        reports = [one for one in told["rules"] if one["outcome"] == outcome]
        if reports:
            yield Line("")
            yield Line(title, "title")
        for one in reports:
            yield from _reported(one, rules)
    for one in told["custom"]:
        says = one["verdict"]["effect"] or "nothing against it"
        reason = one_line(one["verdict"]["reason"] or "", limit=_CHARS)
        yield Line(f"plugin {one_line(one['id'])}: {one_line(says)} {reason}".rstrip(), prose=True)
    others = [one for one in told["rules"] if one["outcome"] == "no"]
    if others:
        yield Line("")
        yield Line(f"{counted(len(others), 'rule')} that did not match", "title")
    for one in others:
        missed = _MISSED.get(one["missed"], one_line(one["missed"]))
        yield Line(f"  {one['effect']:5} {one_line(one['id'])}: {missed}", prose=True)


def _reported(report: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    at = report["number"] - 1
    if at < len(rules) and rules[at]["id"] == report["id"]:
        yield from rule_lines(rules[at], report["number"])
    else:
        # The policy was loaded again since.
        yield Line(f"── Rule {report['number']}: {one_line(report['id'])}: {report['effect']}", "title")
    if report["missed"]:
        yield Line(f"  not known yet: {_OPEN.get(report['missed'], one_line(report['missed']))}", "warning", prose=True)


def _tested(test: Mapping[str, Any]) -> str:
    for name, says in _TESTS:
        if (value := test.get(name)) is not None:
            shown = _listed(value) if isinstance(value, list) else one_line(text_of(value), limit=_CHARS)
            return f"{one_line(test['pointer'])} {says.format(shown)}"
    return one_line(as_json(test), limit=_CHARS)


def _listed(values: Sequence[Any]) -> str:
    return one_line(", ".join(text_of(one) for one in values), limit=_CHARS)


# -- Grants: what runs without asking, and taking one back -------------------------------

_SCOPES: Final = {
    "call": "this very call, in its task",
    "task": "calls like it, in its task",
    "session": "calls like it, in its session",
}


class Grants(Listing):
    """All grants that this person is told of; those that can be used come first."""

    head = ("STATE", "BY", "FOR", "USES", "ALLOWS")
    empty = "No grant: everything that the policy asks about is asked each time."
    keys = "x takes it back   v its task   Tab the page   Esc leaves"
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("x", "take_back", show=False),
        Binding("v", "watch", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__("Grants: they never cover a call that the policy denies, or a critical call.", desk)
        self._grants: dict[str, Mapping[str, Any]] = {}

    def read(self) -> None:
        """See Listing."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        found = await self.ask("GET", "/v1/grants")
        if found is None:
            return
        newest = sorted(found["grants"], key=lambda one: str(one["created_at"]), reverse=True)
        self._grants = {one["grant_id"]: one for one in sorted(newest, key=lambda one: not one["usable"])}
        self.rows.show([_entry(one) for one in self._grants.values()])
        self.chosen(self.rows.chosen)

    def chosen(self, key: str | None) -> None:
        """Show a grant."""
        grant = self._grants.get(key or "")
        self.page.show([] if grant is None else lines_of(grant))

    def action_watch(self) -> None:
        """Show the task that it was given in."""
        grant = self._grants.get(self.rows.chosen or "")
        if grant is not None:
            self.dismiss(grant["task_id"])

    def action_take_back(self) -> None:
        """Take the chosen one back."""
        grant = self._grants.get(self.rows.chosen or "")
        if grant is not None and grant["usable"]:
            # It goes on where this is left, and what became of it is said there.
            begin(self.app, self._take_back, grant)
        elif grant is not None:
            self.show_news("It is not active any more: there is nothing to take back.")

    async def _take_back(self, grant: Mapping[str, Any]) -> None:
        lines = [*lines_of(grant), Line("Calls that have not begun to run ask again; running calls go on.", prose=True)]
        if not await self.app.push_screen_wait(Choose("Take it back?", lines, [("y", "take it back")], enter="y")):
            return
        answer = await self.ask("DELETE", f"/v1/grants/{segment(grant['grant_id'])}")
        if answer is not None:
            self.read_again()
            self.say("Carried out: it is taken back." if answer["revoked"] else "Too late: it was taken back before.")


def lines_of(grant: Mapping[str, Any]) -> Iterator[Line]:
    """A grant whole, in words."""
    most = f" of {grant['max_uses']}" if grant["max_uses"] is not None else ""
    in_what = f"session {grant['session_id']}" if grant["scope"] == "session" else f"task {grant['task_id']}"
    until = moment(grant["expires_at"]) or "its task ends"
    yield Line(f"── {_state(grant)}: {one_line(allows(grant), limit=2000)}", "title", prose=True)
    yield Line(f"  covers   {_SCOPES.get(grant['scope'], one_line(grant['scope']))}")
    yield Line(f"  of       {one_line(grant['user_id'])}, in {one_line(in_what)}")
    yield Line(f"  given    by {one_line(grant['granted_by'])}, {moment(grant['created_at'])}; until {until}")
    yield Line(f"  used     {grant['uses']}{most}")
    if grant["args"]:
        yield Line("  exactly these arguments:")
        yield from block(as_json(grant["args"], indent=2))


def _state(grant: Mapping[str, Any]) -> str:
    return "taken back" if grant["revoked"] else "in force" if grant["usable"] else "over"


def _entry(grant: Mapping[str, Any]) -> Entry:
    most = f"/{grant['max_uses']}" if grant["max_uses"] is not None else ""
    cells = (_state(grant), grant["granted_by"], grant["user_id"], f"{grant['uses']}{most}", allows(grant))
    return Entry(grant["grant_id"], tuple(one_line(one, limit=300) for one in cells))


# -- A dry run: what the policy would say of a call --------------------------------------

_FIRST: Final = "cc_write"
_VALUES: Final[Mapping[str, Any]] = {"path": "startup.lua", "content": "print('hello')\n", "command": "ls"}
"""The first values of arguments with these names; others are empty."""


class DryRun(Dialog[None]):
    """Asks for a call, and shows the verdict below; as often as one likes."""

    BINDINGS = [Binding("ctrl+s,f2", "take", show=False, priority=True)]  # noqa: RUF012 - as the library has it
    keys = "Ctrl+S (or F2) asks   Tab the next field, the answer   Esc leaves"

    def __init__(self, desk: Desk, rules: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("Try a call: what would the policy say? Nothing runs, and nobody is asked.")
        self._desk, self._rules = desk, rules
        self._template = template_of(_FIRST)

    def inside(self) -> ComposeResult:
        with Horizontal(classes="beside"):
            with Vertical():
                yield from line_field("tool", "Tool", _FIRST, most=100)
            with Vertical():
                yield from line_field("on", "On which computer (may be empty)", most=64)
        yield Static("Arguments, as JSON", markup=False, classes="label")
        yield text_field(self._template)
        yield LinesView(id="verdict")

    def on_mount(self) -> None:
        self.query_one("#tool", Input).focus()

    def written(self) -> bool:
        return self.query_one(TextArea).text != self._template

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another tool has other arguments; text that somebody wrote is not thrown away."""
        if event.input.id != "tool" or event.value.strip() not in ALL_TOOL_ARGS:
            return
        area, template = self.query_one(TextArea), template_of(event.value.strip())
        if area.text == self._template:
            area.text = template
        self._template = template

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_take()

    def action_take(self) -> None:
        """Ask for the verdict."""
        begin(self, self._ask, in_place_of="verdict")

    async def _ask(self) -> None:
        view = self.query_one("#verdict", LinesView)
        try:
            args = arguments(self.query_one(TextArea).text)
        except ValueError as error:
            view.show([Line(one_line(str(error), limit=500), "alarm", prose=True)])
            return
        tool, computer = (self.query_one(f"#{name}", Input).value.strip() for name in ("tool", "on"))
        body = {"tool": tool, "args": args, **({"computer": computer} if computer else {})}
        try:
            told = await self._desk.live.ask("POST", "/v1/policy/dry-run", body)
        except OrchestratorError as error:
            view.show([Line(one_line(str(error), limit=2000), "alarm", prose=True)])
            return
        view.show(verdict_lines(told, self._rules))


def template_of(tool: str) -> str:
    """The arguments that a call of this tool has to have, as JSON."""
    fields = ALL_TOOL_ARGS[tool].model_fields
    given = {
        name: _VALUES.get(name, "" if field.annotation is str else None)
        for name, field in fields.items()
        if field.is_required()
    }
    return json.dumps(given, indent=1)


def arguments(text: str) -> dict[str, Any]:
    """Arguments as they were typed. Raises ValueError with a sentence."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("That is JSON that nobody can read.") from None
    except ValueError as error:
        raise ValueError(f"That is not JSON: {error}.") from None
    if (key := doubled_key(text)) is not None:
        raise ValueError(f"It has the key {key!r} twice.")
    if not isinstance(found, dict):
        raise ValueError("Arguments are an object: { … }.")  # noqa: TRY004 - a sentence for who typed it
    return found


_WHOLE = "in force"
"""The key of the first row, which is about the policy as a whole."""


class Policy(Pane):
    """The active policy, and below it the rules in their order."""

    name_of = "policy"
    title = "Policy"
    head = ("RULE", "EFFECT", "TOOLS")
    empty = "It has no rules: nothing is allowed."
    reads = True
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("t", "try", show=False),
        Binding("g", "grants", show=False),
        Binding("l", "load", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (
        ("t", "try a call"),
        ("g", "grants"),
        ("l", "load the file now"),
        ("Enter", "open"),
    )

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._found: Mapping[str, Any] = {}
        self._shown: str | None = None

    @property
    def _rules(self) -> Sequence[Mapping[str, Any]]:
        return self._found["policy"]["rules"] if self._found else ()

    def changed(self) -> None:
        """Read it again."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        found = await self.desk.ask("GET", "/v1/policy")
        if found is None:
            return
        self._found = found
        rules = self._rules
        whole = "ALERT: it needs attention" if found["alert"] else one_line(found["source"], limit=200)
        entries = [Entry(_WHOLE, ("the policy", one_line(found["mode"]), whole))]
        entries += [
            Entry(str(at), (one_line(one["id"]), one["effect"], one_line(", ".join(one["tools"]), limit=300)))
            for at, one in enumerate(rules)
        ]
        first = not self.rows.entries
        self.fill(entries)
        if first and rules and not found["alert"]:
            self.rows.choose("0")
        alert = "ALERT: it needs attention; the first row says why. " if found["alert"] else ""
        version = one_line(found["policy_version"])[:12]
        self.label(f"{alert}version {version}, mode {one_line(found['mode'])}: t tries a call, g grants")
        self.chosen(self.rows.chosen)

    def chosen(self, key: str | None) -> None:
        """Show a rule, or what is in force as a whole."""
        if not self._found:
            return
        stay, self._shown = key == self._shown, key
        if key is not None and key.isdecimal() and int(key) < len(self._rules):
            self.page.show(rule_lines(self._rules[int(key)], int(key) + 1), stay=stay)
            return
        gaps = told_of_gaps(tools_without_a_rule(one["tools"] for one in self._rules)) if self._rules else ()
        gaps += told_of_roles(
            ((one["id"], one.get("roles") or ()) for one in self._rules), self._found["policy"].get("roles") or ()
        )
        gaps += tuple(f"Too few people: {one}" for one in self._found.get("warnings") or ())
        more = [Line(one_line(one, limit=2000), prose=True) for one in gaps]
        self.page.show([*in_force_lines(self._found), *more], stay=stay)

    def action_try(self) -> None:
        """A dry run of a call."""
        self.app.push_screen(DryRun(self.desk, self._rules))

    def action_grants(self) -> None:
        """The grants."""
        begin(self, self._grants)

    async def _grants(self) -> None:
        task_id = await self.app.push_screen_wait(Grants(self.desk))
        if task_id is not None:
            self.desk.go("tasks", task_id)

    def action_load(self) -> None:
        """Look at the policy's file now."""
        begin(self, self._load)

    async def _load(self) -> None:
        answer = await self.desk.ask("POST", "/v1/policy/reload", {})
        if answer is None:
            return
        version = one_line(answer["policy_version"])[:12]
        if answer["alert"]:
            self.desk.tell(f"Policy {version} is in force, and needs attention: {answer['alert']}")
        else:
            self.desk.tell(f"Carried out: policy {version} is in force.")
        await self._read()
