"""People: their tokens, shown once and revoked at once, and a freeze of one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Static

from orchestrator.client import ServerRefused, ServerUnreachable
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import ENV_PREFIX
from orchestrator.terminal.output import age, counted
from orchestrator.terminal.review.request_view import Line
from orchestrator.terminal.tui.dialogs import Ask, Boxes, Choose, Dialog, Field, Filled, Form
from orchestrator.terminal.tui.lines_view import Desk, LinesView, begin, moment, name_of, segment
from orchestrator.terminal.tui.row_list import Entry, Pane

# -- A new token, shown this once: it closes only when somebody says that they have it


class TokenShown(Dialog[str]):
    """Shows a token until it was taken down."""

    keys = "y I have it: close"
    BINDINGS = [Binding("y", "have", show=False)]  # noqa: RUF012 - as the library has it

    def __init__(self, name: str, token: str, *, may: str, agent: bool, url: str) -> None:
        super().__init__(f"The token of {name_of(name)}. It is shown this once: only its hash is kept.")
        self._token, self._may, self._agent, self._url = token, may, agent, url

    def inside(self) -> ComposeResult:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        view = self.query_one(LinesView)
        view.show(
            [
                Line(""),
                Line(one_line(self._token), "call"),
                Line(""),
                Line(
                    "A program has it in the variable below."
                    if self._agent
                    else "Give it to them over a way that others do not read. It signs in on the page, and here:",
                    prose=True,
                ),
                Line(f"  export {ENV_PREFIX}URL={one_line(self._url)} {ENV_PREFIX}TOKEN=…", prose=True),
                Line(one_line(self._may, limit=300), prose=True),
                Line("Lost? Revoke it and make another.", prose=True),
            ]
        )
        view.focus()

    def action_have(self) -> None:
        """The token was taken down."""
        self.dismiss("y")

    def action_dismiss_none(self) -> None:
        """Escape alone would lose it."""
        self.query_one(".dialog-keys", Static).update("It cannot be shown again: press y once you have it.")


# -- Who may come in: people, programs and computers. A token is shown once, and revoked at once

_ROLES: Final = (
    ("viewer", "looks at the tasks and computers of their groups"),
    ("submitter", "submits tasks and answers their questions"),
    ("reviewer", "decides what submitters, programs and their own tasks ask; reads the audit"),
    ("admin", "all of that; pairs computers, makes and revokes tokens"),
)
_TAKES_ADMIN: Final = "This needs the role admin: ask an admin."
_PROGRAM: Final = "it is a program: it submits tasks, and never decides"
_ENDS: Final = {
    "person": "All their tokens and open connections end at once. Their tasks go on.",
    "agent": "The program is refused from now on. Its tasks go on.",
    "computer": "Its connection ends at once, and its tasks wait. To come back it has to be paired again.",
}


class People(Pane):
    """Whom there are tokens for; admins are told."""

    name_of = "people"
    title = "People"
    head = ("KIND", "NAME", "ROLES", "SINCE", "TOKEN")
    empty = "Only admins are told whom there are tokens for, and change that."
    BINDINGS = [  # noqa: RUF012 - as the library has it
        Binding("n", "add", show=False),
        Binding("x", "revoke", show=False),
    ]
    keys: ClassVar[Sequence[tuple[str, str]]] = (("n", "add somebody"), ("x", "revoke"), ("Enter", "open"))

    def __init__(self, desk: Any) -> None:
        super().__init__(desk)
        self._may_know = True
        """Whether the server has told it so far, without a refusal."""
        self._holders: dict[str, dict[str, Any]] = {}

    def changed(self) -> None:
        """Read the list again."""
        begin(self, self._read, in_place_of="list")

    async def _read(self) -> None:
        if not self._may_know:
            return
        try:
            found = await self.desk.live.ask("GET", "/v1/tokens")
        except ServerRefused:
            # Each refusal is written down: it is not asked for again.
            self._may_know = False
            self.page.show(_role_lines())
            return
        except ServerUnreachable:
            return
        self._holders = holders(found["tokens"])
        self.fill([_entry(key, one) for key, one in self._holders.items()])
        good = sum(not one["revoked"] for one in self._holders.values())
        self.label(f"{good} may come in: n adds somebody, x revokes all tokens of one")
        self.chosen(self.rows.chosen)

    def chosen(self, key: str | None) -> None:
        """Show who that is, and what the roles may."""
        one = self._holders.get(key or "")
        self.page.show([*(_lines(one) if one is not None else ()), *_role_lines()], stay=True)

    # -- one more ------------------------------------------------------------------------

    def action_add(self) -> None:
        """Make a token for somebody."""
        if self._may_know:
            begin(self, self._add)
        else:
            self.desk.tell(_TAKES_ADMIN)

    async def _add(self) -> None:
        filled = await self.app.push_screen_wait(_form())
        if filled is None:
            return
        agent, name = bool(filled.ticked["program"]), filled.lines["name"]
        roles = ["submitter"] if agent else list(filled.ticked["roles"])
        body = {"kind": "agent" if agent else "person", "name": name, "roles": roles}
        made = await self.desk.ask("POST", "/v1/tokens", body)
        if made is None:
            return
        url, may = self.desk.live.client.url, made.get("may", "")
        await self.app.push_screen_wait(TokenShown(name, made["token"], may=may, agent=agent, url=url))
        self.desk.tell(f"Carried out: {name_of(name)} may come in.")
        self.changed()

    # -- one less ------------------------------------------------------------------------

    def action_revoke(self) -> None:
        """Revoke all tokens of the chosen one."""
        one = self._holders.get(self.rows.chosen or "")
        if not self._may_know:
            self.desk.tell(_TAKES_ADMIN)
        elif one is None:
            self.desk.tell("Nobody is chosen.")
        elif one["revoked"]:
            self.desk.tell("All tokens of that name are revoked already.")
        else:
            begin(self, self._revoke, one)

    async def _revoke(self, one: Mapping[str, Any]) -> None:
        lines = [Line(_ENDS.get(one["kind"], ""), prose=True)]
        last = is_last_admin(self._holders.values(), one)
        if one["yours"]:
            lines.append(Line("THIS IS YOU: the token that you use here ends with it.", "alarm", prose=True))
        if last:
            lines.append(Line("Nobody else is an admin here.", "alarm", prose=True))
        title = f"Revoke {counted(one['count'], 'token')} of {one['kind']} {name_of(one['name'])}?"
        # A deed that takes the access away must not happen by a slip of the finger.
        enter = "" if last or one["yours"] else "y"
        if not await self.app.push_screen_wait(Choose(title, lines, [("y", "revoke")], enter=enter)):
            return
        answer = await self.desk.ask("DELETE", f"/v1/tokens/{one['kind']}/{segment(one['name'])}")
        if answer is None:
            return
        count = answer["revoked"]
        gone = f"Carried out: {counted(count, 'token')} of {name_of(one['name'])} revoked."
        self.desk.tell(gone if count else "Too late: there was no token left to revoke.")
        self.changed()


def holders(tokens: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Tokens of one holder are revoked together: each holder once, those that may come in first."""
    found: dict[str, dict[str, Any]] = {}
    for token in sorted(tokens, key=lambda one: (one["revoked"], one["kind"] == "computer")):
        before = found.setdefault(
            f"{token['kind']} {token['name']}", {**token, "roles": [], "count": 0, "owner": None, "yours": False}
        )
        if token["revoked"] and not before["revoked"]:
            continue
        before["count"] += 1
        before["roles"] += [role for role in token["roles"] if role not in before["roles"]]
        before["yours"] = before["yours"] or bool(token.get("yours"))
        before["owner"] = before["owner"] or token.get("owner")
    return found


def is_last_admin(everybody: Iterable[Mapping[str, Any]], one: Mapping[str, Any]) -> bool:
    """Whether nobody else is an admin."""
    admins = [
        each for each in everybody if each["kind"] == "person" and not each["revoked"] and "admin" in each["roles"]
    ]
    return admins == [one]


def _form() -> Form:
    return Form(
        "Add somebody: the token is shown once",
        [
            Field("name", "Name (letters, digits, - _ and .)", most=64),
            Boxes("program", "WHO?", [("program", _PROGRAM)]),
            Boxes("roles", "ROLES OF A PERSON", [(name, f"{name}: {says}") for name, says in _ROLES], ["submitter"]),
        ],
        wrong=_wrong,
    )


def _wrong(filled: Filled) -> str:
    if not filled.lines["name"]:
        return "Say a name, above."
    if not filled.ticked["program"] and not filled.ticked["roles"]:
        return "A person needs a role."
    return ""


def _entry(key: str, one: Mapping[str, Any]) -> Entry:
    since = f"{age(one['created_at'])} ago" if one["created_at"] else "-"
    roles = one_line(", ".join(one["roles"])) or "-"
    state = "revoked" if one["revoked"] else "good"
    many = f"{state} ({one['count']})" if one["count"] > 1 else state
    away = " (away)" if one.get("away") else ""
    name = f"{one_line(one['name'], limit=64)}{' (you)' if one['yours'] else ''}{away}"
    return Entry(key, (one["kind"], name, roles, since, many))


def _lines(one: Mapping[str, Any]) -> Iterator[Line]:
    yield Line(f"── {one['kind']} {name_of(one['name'])}{', who is you' if one['yours'] else ''}", "title")
    yield Line(f"  roles    {one_line(', '.join(one['roles'])) or '-'}")
    if one["owner"]:
        yield Line(f"  paired   by {name_of(one['owner'])}")
    if away := one.get("away"):
        yield Line(f"  away     {name_of(away['to'])} decides for them until {moment(away['until'])}", "alarm")
    yield Line(f"  tokens   {one['count']}, {'revoked' if one['revoked'] else 'good'}")
    yield Line("")


def _role_lines() -> Iterator[Line]:
    yield Line("What the roles may", "title")
    for name, says in _ROLES:
        yield Line(f"  {name:10} {says}", prose=True)
    yield Line(f"  {'program':10} submits tasks and looks; it never decides", prose=True)


# -- Freezing one person, and letting them go on ------------------------------------------


async def freeze_or_unfreeze(widget: Widget, desk: Desk, task_id: str) -> None:
    """Freeze the person of a task, or end the freeze of this person, once somebody with the right says so."""
    await desk.learn_me()
    if not desk.may("freeze"):
        desk.tell("This needs the right freeze: ask an admin.")
        return
    task = await desk.ask("GET", f"/v1/tasks/{segment(task_id)}")
    if task is None:
        return
    person, freeze = str(task.get("person") or task["user_id"]), task.get("freeze")
    if freeze is None:
        await _freeze(widget, desk, person, str(task["user_id"]))
    elif freeze["name"] == person:
        await _unfreeze(widget, desk, freeze)
    else:
        option = "--all" if freeze["name"] == "*" else f"--group {one_line(freeze['whom'].removeprefix('group '))}"
        desk.tell(f"{_held(person, freeze)} `cc-orchestrator unfreeze {option}` ends it.")


async def _freeze(widget: Widget, desk: Desk, person: str, submitter: str) -> None:
    whose = f" (the owner of {name_of(submitter)})" if submitter != person else ""
    title = f"Freeze {name_of(person)}{whose}: nothing of theirs starts until somebody ends it. Why? (may be empty)"
    reason = await widget.app.push_screen_wait(Ask(title, most=200))
    if reason is None:
        return
    done = await desk.ask("POST", "/v1/freeze", {"person": person, "reason": reason})
    if done is not None:
        desk.tell(f"{name_of(person)} is frozen. Open tasks that wait because of it: {done['tasks']}. z ends it.")


async def _unfreeze(widget: Widget, desk: Desk, frozen: Mapping[str, Any]) -> None:
    person, why = str(frozen["name"]), f": {one_line(frozen['reason'])}" if frozen["reason"] else ""
    lines = [Line(f"Frozen by {name_of(frozen['by'])} since {moment(frozen['at'])}{why}", prose=True)]
    title = f"End the freeze of {name_of(person)}? The tasks go on where they were."
    if not await widget.app.push_screen_wait(Choose(title, lines, [("y", "end it")], enter="y")):
        return
    done = await desk.ask("POST", "/v1/unfreeze", {"person": person})
    if done is None:
        return
    over = f"The freeze of {name_of(person)} is over."
    over = over if done["ended"] else f"Too late: {name_of(person)} was not frozen any more."
    desk.tell(f"{over} {_held(person, still)}" if (still := done.get("still")) else over)


def _held(person: str, freeze: Mapping[str, Any]) -> str:
    """The sentence for a freeze of a group or of everybody that holds for a person."""
    return f"{name_of(person)} is frozen with {one_line(freeze['whom'])} by {name_of(freeze['by'])}."
