"""The policy: what is in force, its rules in words, a dry run, the grants, and loading its file now."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import Binding

from orchestrator.core.policy import told_of_gaps, told_of_roles, tools_without_a_rule
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.tui.dry_run import DryRun
from orchestrator.terminal.tui.grants import Grants
from orchestrator.terminal.tui.policy_words import in_force_lines, rule_lines
from orchestrator.terminal.tui.row_list import Entry, Pane
from orchestrator.terminal.tui.shared import begin

_WHOLE = "in force"
"""The key of the first row, which is about the policy as a whole."""


class Policy(Pane):
    """What is in force, and below it the rules in their order."""

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
        """Read it anew."""
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
        gaps += told_of_roles((one["id"], one.get("roles") or ()) for one in self._rules)
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
