"""People: their tokens, shown once and revoked at once, and a freeze of one. Pairing a computer."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Static

from orchestrator.client import ServerRefused, ServerUnreachable
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.runtime.program import ENV_PREFIX
from orchestrator.terminal.output import age, counted, elapsed
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
    ("reviewer", "decides what submitters, programs and their own tasks ask; reads the whole audit"),
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


# -- Freezing one person, and letting them go on ------------------------------------------


async def freeze_or_unfreeze(widget: Widget, desk: Desk, person: str) -> None:
    """Freeze a person, or end the freeze of this person, once somebody with the right says so."""
    await desk.learn_me()
    if not desk.may("freeze"):
        desk.tell("This needs the right freeze: ask an admin.")
        return
    found = await desk.ask("GET", "/v1/freezes")
    if found is None:
        return
    frozen = next((one for one in found["freezes"] if one["name"] == person), None)
    if frozen is None:
        await _freeze(widget, desk, person)
    else:
        await _unfreeze(widget, desk, frozen)


async def _freeze(widget: Widget, desk: Desk, person: str) -> None:
    title = f"Freeze {name_of(person)}: nothing of theirs starts until somebody ends it. Why? (may be empty)"
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
    if done is not None:
        over = f"The freeze of {name_of(person)} is over."
        desk.tell(over if done["ended"] else f"Too late: {name_of(person)} was not frozen any more.")


# -- Pairing a computer: the line to type there, until when it works, what was seen of the attempt, and that it
# came

_LOOK_S: Final = 0.5
_CLOCKS: Final = timedelta(seconds=3)
"""Seconds by which this machine's idea of the server's time may be wrong."""
_HTTPS_PORT, _HTTP_PORT = 443, 80

Tokens = dict[str, str]
"""The tokens of computers: each with its time, and the computer's name."""


async def pair(desk: Desk, push: Any) -> None:
    """Make a code, and show its line until the person leaves it; ``push`` shows a dialog and waits."""
    filled = await push(
        Form(
            "Pair a computer",
            [
                Field("computer", "Its name here (empty: its id in the game)", most=64),
                Field("label", "Its label, if it has none (may be empty)", most=32),
            ],
        )
    )
    if filled is None:
        return
    before = await tokens(desk)
    since = desk.live.client.clock.now() - _CLOCKS
    body = {name: value for name, value in filled.lines.items() if value}
    made = await desk.ask("POST", "/v1/pairings", body) if before is not None else None
    if made is not None and before is not None:
        await push(Pairing(desk, made, before, since))


async def tokens(desk: Desk) -> Tokens | None:
    """The good tokens; None, with the reason: nobody can tell."""
    found = await desk.ask("GET", "/v1/tokens")
    return None if found is None else _tokens_of(found)


def _tokens_of(found: Mapping[str, Any]) -> Tokens:
    good = [one for one in found["tokens"] if one["kind"] == "computer" and not one["revoked"]]
    return {f"{one['name']} {one['created_at']}": str(one["name"]) for one in good}


class Pairing(Dialog[None]):
    """Shows the line, and looks until the computer is there."""

    keys = "Esc leaves (the line goes on working)"

    def __init__(self, desk: Desk, made: Mapping[str, Any], before: Tokens, since: datetime) -> None:
        super().__init__("On the computer in the game, type:")
        self._desk, self._made, self._before, self._since = desk, made, before, since
        self._computer: Mapping[str, Any] | None = None
        self._doctor: Mapping[str, Any] = {}

    def inside(self) -> Any:
        yield LinesView(id="dialog-lines")

    def on_mount(self) -> None:
        self.query_one(LinesView).focus()
        self._draw()
        begin(self, self._watch)

    async def _watch(self) -> None:
        """Look, until it is connected."""
        while self._computer is None or not self._computer["online"]:
            try:
                await self._look()
            except ServerUnreachable:
                # The next look tells.
                pass
            except OrchestratorError as error:
                self.query_one(LinesView).add([Line(one_line(str(error), limit=500), "alarm", prose=True)])
                return
            self._draw()
            if self._computer is None or not self._computer["online"]:
                await asyncio.sleep(_LOOK_S)
        self._desk.tell(f"Computer {name_of(self._computer['computer'])} is connected.")

    async def _look(self) -> None:
        live = self._desk.live
        now = _tokens_of(await live.ask("GET", "/v1/tokens"))
        fresh = [name for key, name in now.items() if key not in self._before]
        wanted = self._made["computer"]
        paired = next((name for name in fresh if wanted in (None, name)), None)
        if paired is not None:
            listed = (await live.ask("GET", "/v1/computers"))["computers"]
            self._computer = next((one for one in listed if one["computer"] == paired), None)
        self._doctor = await live.ask("GET", "/v1/doctor")

    def _draw(self) -> None:
        self.query_one(LinesView).show(self._lines(), stay=True)

    def _lines(self) -> Iterator[Line]:
        yield Line("")
        yield Line(one_line(self._made["line"], limit=500), "call")
        yield Line("")
        if warning := self._made.get("warning"):
            yield Line(one_line(warning, limit=500), "alarm", prose=True)
            yield Line("")
        left = (datetime.fromisoformat(self._made["expires_at"]) - self._desk.live.client.clock.now()).total_seconds()
        if self._computer is not None:
            name = name_of(self._computer["computer"])
            if self._computer["online"]:
                yield Line(f"{name} is connected!", "title")
            else:
                yield Line(f"{name} is paired. It connects as soon as its client has started…", "title", prose=True)
            return
        yield Line(f"It works once, for {elapsed(left)} more." if left > 0 else "It has lapsed: make another.")
        yield Line("Waiting for the computer…", "title")
        yield from self._seen()
        yield Line("")
        yield from _hints(self._made["url"])

    def _seen(self) -> Iterator[Line]:
        """The attempts that the server saw since the line was made."""
        refused = next(
            (one for one in self._doctor.get("refused", ()) if one["path"] == "/v1/pair" and self._is_new(one)), None
        )
        fetched = next(
            (one for one in self._doctor.get("installers", ()) if not one["paired"] and self._is_new(one)), None
        )
        if refused is not None:
            said = f"{refused['message']} {refused['remedy']}"
            yield Line(
                f"A computer at {one_line(refused['peer'])} was turned away: {one_line(said, limit=500)}",
                "alarm",
                prose=True,
            )
        elif fetched is not None:
            yield Line(f"A computer at {one_line(fetched['peer'])} fetched the installer.", prose=True)

    def _is_new(self, one: Mapping[str, Any]) -> bool:
        return datetime.fromisoformat(one["at"]) >= self._since


def _hints(url: str) -> Iterator[Line]:
    """The most frequent faults."""
    there = urlsplit(url)
    host, port = there.hostname or "", there.port or (_HTTPS_PORT if there.scheme == "https" else _HTTP_PORT)
    yield Line("It does not work?", "title")
    yield Line(
        "Domain not permitted: the mod refuses private addresses until a rule allows them. Into "
        "computercraft-server.toml of the world, before the rule for $private, then restart the world:",
        prose=True,
    )
    yield Line(f'  [[http.rules]] host = "{one_line(host)}" port = {port} action = "allow"', prose=True)
    yield Line(f"The Minecraft server dials, not your own machine: it has to reach {one_line(host)}.", prose=True)
    yield Line("No such program wget: HTTP is turned off in the mod's settings (http.enabled).", prose=True)
    yield Line("`cc-orchestrator doctor` says what the server saw.", prose=True)
