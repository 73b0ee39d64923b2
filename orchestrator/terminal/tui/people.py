"""Who may come in: people, programs and computers. A token is shown once, and revoked at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Static

from orchestrator.client import ServerRefused, ServerUnreachable
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.settings import ENV_PREFIX
from orchestrator.terminal.output import age, counted
from orchestrator.terminal.review.lines import Line
from orchestrator.terminal.tui.dialogs import Boxes, Choose, Dialog, Field, Filled, Form
from orchestrator.terminal.tui.lines_view import LinesView, name_of, segment
from orchestrator.terminal.tui.row_list import Entry, Pane
from orchestrator.terminal.tui.shared import begin

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
        """It was taken down."""
        self.dismiss("y")

    def action_dismiss_none(self) -> None:
        """Escape alone would lose it."""
        self.query_one(".dialog-keys", Static).update("It cannot be shown again: press y once you have it.")


# -- Who may come in: people, programs and computers. A token is shown once, and revoked at once

_ROLES: Final = (
    ("submitter", "submits tasks and answers their questions"),
    ("reviewer", "decides what submitters, programs and their own tasks ask; reads the whole audit"),
    ("admin", "all of that; pairs computers, makes and revokes tokens"),
)
_TAKES_ADMIN: Final = "That takes the role admin: ask an admin."
_PROGRAM: Final = "it is a program: it submits tasks, and never decides"
_ENDS: Final = {
    "person": "Every token of theirs ends at once, and so does what they have open. Their tasks go on.",
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
        """Whether the server has not refused to tell yet."""
        self._holders: dict[str, dict[str, Any]] = {}

    def changed(self) -> None:
        """Read the list anew."""
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
        # What shuts the way in is not for a slip of the finger.
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
    name = f"{one_line(one['name'], limit=64)}{' (you)' if one['yours'] else ''}"
    return Entry(key, (one["kind"], name, roles, since, many))


def _lines(one: Mapping[str, Any]) -> Iterator[Line]:
    yield Line(f"── {one['kind']} {name_of(one['name'])}{', who is you' if one['yours'] else ''}", "title")
    yield Line(f"  roles    {one_line(', '.join(one['roles'])) or '-'}")
    if one["owner"]:
        yield Line(f"  paired   by {name_of(one['owner'])}")
    yield Line(f"  tokens   {one['count']}, {'revoked' if one['revoked'] else 'good'}")
    yield Line("")


def _role_lines() -> Iterator[Line]:
    yield Line("What the roles may", "title")
    for name, says in _ROLES:
        yield Line(f"  {name:10} {says}", prose=True)
    yield Line(f"  {'program':10} submits tasks and looks; it never decides", prose=True)
