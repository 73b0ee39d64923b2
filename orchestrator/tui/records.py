"""What is only looked at: the policy in force, the audit as it grows, people and their tokens."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final

from textual.binding import Binding

from orchestrator.client import ServerRefused, ServerUnreachable
from orchestrator.console.lines import Line, as_json, block
from orchestrator.core.audit_showing import audit_line
from orchestrator.core.policy import told_of_gaps, tools_without_a_rule
from orchestrator.core.visible import one_line
from orchestrator.rendering import age
from orchestrator.tui.desk import now
from orchestrator.tui.dialogs import Ask
from orchestrator.tui.pane import Pane
from orchestrator.tui.row_list import Entry
from orchestrator.tui.working import begin

_CALM_S: Final = 1.0
_DAY: Final = timedelta(days=1)
_PAGE: Final = 500
_MOST_PAGES: Final = 10
"""Of a day's audit: more of it is looked at with `audit show`."""


class Policy(Pane):
    """The rules in force, in their order."""

    name_of = "policy"
    title = "Policy"
    head = ("RULE", "EFFECT", "TOOLS")
    empty = "It has no rules: nothing is allowed."

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._found: Mapping[str, Any] = {}

    def changed(self) -> None:
        """Read it anew."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        found = await self.desk.ask("GET", "/v1/policy")
        if found is None:
            return
        self._found = found
        rules = found["policy"]["rules"]
        entries = [
            Entry(str(at), (one_line(one["id"]), one["effect"], one_line(", ".join(one["tools"]), limit=300)))
            for at, one in enumerate(rules)
        ]
        self.fill(entries)
        alert = f"; ALERT: {one_line(found['alert'], limit=500)}" if found["alert"] else ""
        version, source = one_line(found["policy_version"])[:12], one_line(found["source"], limit=200)
        self.label(f"version {version}, mode {one_line(found['mode'])}, {source}{alert}")
        self.chosen(self.rows.chosen)

    def chosen(self, key: str | None) -> None:
        """Show a rule."""
        rules = self._found["policy"]["rules"] if self._found else []
        lines = []
        if key is not None and int(key) < len(rules):
            rule = {name: value for name, value in rules[int(key)].items() if value}
            lines = [Line(f"── Rule {int(key) + 1}: {one_line(rule['id'])}", "title"), *block(as_json(rule, indent=2))]
        gaps = told_of_gaps(tools_without_a_rule(one["tools"] for one in rules)) if rules else ()
        self.page.show([*lines, *(Line(one_line(one, limit=2000), prose=True) for one in gaps)])


class Audit(Pane):
    """The last day's items of all streams that this person may read, the newest first."""

    name_of = "audit"
    title = "Audit"
    head = ("AGE", "WHAT")
    empty = "There is nothing of the last day."
    BINDINGS = [Binding("slash", "search", show=False)]  # noqa: RUF012 - as the library has it
    keys: ClassVar[Sequence[tuple[str, str]]] = (("/", "only with a word"),)

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._items: dict[tuple[str, int], Mapping[str, Any]] = {}
        self._search = ""

    def changed(self) -> None:
        """Read what came since."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        await asyncio.sleep(_CALM_S if self._items else 0)
        newest = max((one["at"] for one in self._items.values()), default="")
        query: dict[str, Any] = {"since": newest or (now() - _DAY).isoformat(), "limit": _PAGE}
        for _ in range(_MOST_PAGES):
            found = await self.desk.ask("GET", "/v1/audit", **query)
            if found is None:
                return
            self._items.update({(one["task_id"], one["version"]): one for one in found["items"]})
            if not found["next"]:
                break
            query["after"] = found["next"]
        self._fill()

    def _fill(self) -> None:
        rows = sorted(self._items.items(), key=lambda one: one[1]["at"], reverse=True)
        told = [(f"{task} {version}", item["at"], audit_line(item)) for (task, version), item in rows]
        word = self._search.casefold()
        self.fill([Entry(key, (age(at), line.partition("  ")[2])) for key, at, line in told if word in line.casefold()])
        self.label("/ only with a word" + (f": {self._search}" if word else ""))

    def chosen(self, key: str | None) -> None:
        """Show an item."""
        task, _, version = (key or " 0").rpartition(" ")
        item = self._items.get((task, int(version)))
        self.page.show([] if item is None else block(as_json(item, indent=2)))

    def action_search(self) -> None:
        """Only lines with a word."""
        begin(self, self._ask_search)

    async def _ask_search(self) -> None:
        found = await self.app.push_screen_wait(Ask("Only lines with this in them (empty: all)", value=self._search))
        if found is not None:
            self._search = found
            self._fill()


class People(Pane):
    """Whom there are tokens for; admins are told."""

    name_of = "people"
    title = "People"
    head = ("KIND", "NAME", "ROLES", "SINCE", "TOKEN")
    empty = "Only admins are told whom there are tokens for."

    def changed(self) -> None:
        """Read the list anew."""
        begin(self, self._read, in_place_of="list")

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._may_know = True
        """Whether the server has not refused to tell yet."""

    async def _read(self) -> None:
        if not self._may_know:
            return
        try:
            found = await self.desk.live.ask("GET", "/v1/tokens")
        except ServerRefused:
            # Each refusal is written down: it is not asked for again.
            self._may_know = False
            return
        except ServerUnreachable:
            return
        self.fill([_holder(one) for one in found["tokens"]])
        self.label("cc-orchestrator people add NAME, and people revoke NAME, change this list")

    def chosen(self, key: str | None) -> None:
        """There is no more to show."""


def _holder(one: Mapping[str, Any]) -> Entry:
    since = f"{age(one['created_at'])} ago" if one["created_at"] else "-"
    roles = one_line(", ".join(one["roles"])) or "-"
    state = "revoked" if one["revoked"] else "good"
    return Entry(f"{one['kind']} {one['name']}", (one["kind"], one_line(one["name"]), roles, since, state))
