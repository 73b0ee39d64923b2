"""The commands about computers: list them, look at one, release a frozen one, confirm a label."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import told_apart
from orchestrator.terminal.cli.common import (
    AsJson,
    DataDir,
    Url,
    as_segment,
    client_of,
    complain,
    is_alone,
    moment,
    print_json,
    quoted,
)
from orchestrator.terminal.cli.groups import owner

# -- The commands about computers: list them, look at one, release a frozen one, confirm a label

computers_app = typer.Typer(invoke_without_command=True, help="List the computers, look at one, or release one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `computers` lists it.")]


@computers_app.callback()
def computers(context: typer.Context, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the computers; `computers show` says why one is frozen, `computers release` lets it come back."""
    if not is_alone(context):
        return
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/computers")["computers"]
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("There are no computers yet. Connect one with `cc-orchestrator pair`.", err=True)
        return
    rows = [
        (
            one_line(one["computer"]),
            one["state"],
            one_line(one.get("family") or "-"),
            one_line(one.get("label") or "-"),
            one_line(one.get("host") or "-"),
        )
        for one in found
    ]
    for line in table(("COMPUTER", "STATE", "KIND", "LABEL", "RUNS"), rows, columns=Screen.of().columns):
        typer.echo(line)
    for one in found:
        if one["frozen"]:
            typer.echo(one_line(f"{one['frozen']['message']} {one['frozen']['remedy']}", limit=1000), err=True)


@computers_app.command(epilog="Example: cc-orchestrator computers show farm")
def show(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show a computer, and why it is frozen.

    The time when it came last and, if it is frozen, the known computer and the one that came instead.
    """
    with client_of(url, data_dir) as client:
        found = client.request("GET", f"/v1/computers/{as_segment(name)}")
    if as_json:
        print_json(found)
        return
    for line in _lines(found):
        typer.echo(one_line(line, limit=1000))


@computers_app.command(epilog="Example: cc-orchestrator computers release farm")
def release(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Let a frozen computer come back.

    The one that dials next is it. What was under way there when it was frozen is shown as unknown, for a person
    to look at. Where two computers came with one token, switch off the other first, or pair it again under another
    name.
    """
    with client_of(url, data_dir) as client:
        done = client.request("POST", f"/v1/computers/{as_segment(name)}/release")
    if as_json:
        print_json(done)
    elif done["released"]:
        typer.echo(f"Computer {quoted(name)} is released: the one that dials next is it.", err=True)
    else:
        typer.echo(f"Computer {quoted(name)} was not frozen.", err=True)


@computers_app.command(epilog="Example: cc-orchestrator computers confirm-label farm")
def confirm_label(name: Name, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Confirm the label that a computer has now.

    A rule that denies or asks by label holds for each label that the computer had. From here on it holds for the
    label of now and for later ones only.
    """
    path = f"/v1/computers/{as_segment(name)}"
    with client_of(url, data_dir) as client:
        label = client.request("GET", path).get("label") or ""
        done = client.request("POST", f"{path}/confirm-label", {"label": label})
    if as_json:
        print_json(done)
    else:
        rest = "its former labels count no more" if done["confirmed"] else "it had no other"
        typer.echo(f"Computer {quoted(name)} has the label {quoted(done['label'])}; {rest}.", err=True)


computers_app.command("owner", epilog="Example: cc-orchestrator computers owner farm ann")(owner)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"computer  {found['computer']}"
    if found.get("belongs_to"):
        yield f"belongs to {found['belongs_to']}"
    released = ", released and not back yet" if found["released"] else ""
    yield f"state     {found['state']}{released}"
    for name in ("family", "label", "host"):
        if found.get(name):
            yield f"{'kind' if name == 'family' else name:8}  {found[name]}"
    if found.get("former_labels"):
        yield f"had       {', '.join(quoted(one) if one else 'no label' for one in found['former_labels'])}"
    if found["last"]:
        yield f"came last {_side(found['last'])}"
    frozen = found["frozen"]
    if not frozen:
        return
    yield f"frozen    since {moment(frozen['since'])}: {frozen['message']}"
    yield f"to do     {frozen['remedy']}"
    for place, side in enumerate(frozen["sides"]):
        came = "who comes" if place == len(frozen["sides"]) - 1 else "known"
        yield f"{came:9} {_side(side)}"
    compared = ", ".join(f"{name} {number}" for name, number in sorted(frozen["facts"].items()))
    if compared:
        yield f"compared  {compared}"


def _side(side: Mapping[str, Any]) -> str:
    label = f" {quoted(side['label'])}" if side["label"] else ""
    peer = f" from {side['peer']}" if side["peer"] else ""
    return f"id {side['computer_id']}{label}{peer}, boot {side['boot']}, {side['host']}, {moment(side['at'])}"


# -- The command about nodes: which servers work together, and how each stands -----------


def nodes(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the servers that work together.

    The nodes that share this one's store and bus and are heard now, the one that answers first.
    """
    from orchestrator.terminal.output import Screen, table

    with client_of(url, data_dir) as client:
        found = client.request("GET", "/v1/nodes")
    if as_json:
        print_json(found)
        return
    head = ("NODE", "ID", "STATE", "VERSION", "SINCE", "COMPUTERS", "TASKS", "AT")
    for line in table(head, [_row(one) for one in found["nodes"]], columns=Screen.of().columns):
        typer.echo(line)
    for one in found["nodes"]:
        if said := told_apart(one_line(one["name"]), one["clock_ahead_s"]):
            typer.echo(said, err=True)
    for alert in found["alerts"]:
        typer.echo(alert, err=True)
    if found["apart"]:
        apart = ", ".join(map(one_line, found["apart"]))
        typer.echo(f"On the same bus with another store, and so none of these: {apart}.", err=True)


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    state = "draining" if node["draining"] else "here" if node["here"] else "there"
    return (
        one_line(node["name"]),
        one_line(node["node"]),
        state,
        one_line(node["version"] or "-"),
        moment(node["started_at"]),
        str(node["computers"]),
        str(node["tasks"]),
        one_line(node["url"] or "-"),
    )


# -- The commands about screens: look at one of a computer's, and type there -------------

Computer = Annotated[str, typer.Argument(metavar="COMPUTER", help="As `computers` lists it.")]
_HOME, _PLAIN, _REST = "\x1b[H", "\x1b[0m", "\x1b[K\x1b[J"
TERMINAL: Final = "terminal"


def screen(
    computer: Computer,
    of: Annotated[str, typer.Option("--of", metavar="MONITOR", help="A monitor by its name.")] = TERMINAL,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it changes, until Ctrl-C.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show what is on a computer's screen.

    In the game's colours on a terminal, else as text. Of a monitor it is what programs that were run from here drew
    there, and what any program draws while somebody looks.
    """
    from orchestrator.client import PATIENCE_S
    from orchestrator.terminal.output import Screen

    on = Screen.of()
    picture = _Picture()
    with client_of(url, data_dir) as client:
        for kind, data in client.screen(as_segment(computer) or "", of, patience_s=PATIENCE_S if follow else 0):
            if as_json:
                print_json({"event": kind, **data})
            elif kind == "picture":
                picture.take(data)
                _show(picture, colour=on.color, anew=follow and on.moves)
            else:
                complain(_Unseen(_why(computer, kind, data)))
            if not follow:
                raise typer.Exit(0 if kind == "picture" else 1)


def type_keys(
    computer: Computer,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What is typed; several characters are pasted.")
    ] = None,
    enter: Annotated[bool, typer.Option("--enter", help="Press Enter after it.")] = False,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="A key by its name, after the text; repeatable.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Type at a computer, as if one sat there.

    As who paired the computer, or as an admin. No policy is asked, and it is written down. It is sent once: whether it
    arrived is said.
    """
    keys = [*(["enter"] if enter else []), *(key or [])]
    bodies: list[dict[str, Any]] = [*([{"text": text}] if text else []), *([{"keys": keys}] if keys else [])]
    if not bodies:
        raise InvalidRequest("There is nothing to type.", remedy="Name a text, or keys: --key up, or --enter.")
    with client_of(url, data_dir) as client:
        for body in bodies:
            typed = client.request("POST", f"/v1/computers/{as_segment(computer)}/keys", body)
            if not typed["delivered"]:
                break
    if as_json:
        print_json(typed)
    elif typed["delivered"]:
        typer.echo(f"Typed at {quoted(computer)}.", err=True)
    else:
        complain(_Unseen(str(typed["message"])))
    if not typed["delivered"]:
        raise typer.Exit(1)


type_keys.__name__ = "type"


class _Unseen(OrchestratorError):
    """Something is as it is; the asker made no mistake."""


def _why(computer: str, kind: str, data: Mapping[str, Any]) -> str:
    if kind == "away":
        return f"Computer {one_line(computer)} is away."
    return str(data.get("message", "The screen cannot be read."))


def _show(picture: "_Picture", *, colour: bool, anew: bool) -> None:
    """Print a picture; ``anew``: in the place of the one before."""
    lines = picture.lines(colour=colour)
    typer.echo(f"{_HOME}{_LINE.join(lines)}{_REST}" if anew else "\n".join(lines))


_LINE: Final = "\x1b[K\n"


@dataclass
class _Picture:
    """What a screen shows, from the events about it."""

    palette: list[str] = field(default_factory=list)
    rows: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, data: Mapping[str, Any]) -> None:
        """An event `picture`."""
        if data["whole"]:
            self.rows.clear()
        self.palette = list(data["palette"])
        for row in data["rows"]:
            self.rows[row["y"]] = row

    def lines(self, *, colour: bool) -> list[str]:
        """The rows from the top."""
        return [self._coloured(self.rows[y]) if colour else _text(self.rows[y]).rstrip() for y in sorted(self.rows)]

    def _coloured(self, row: Mapping[str, Any]) -> str:
        parts, before = [], ""
        for char, fg, bg in zip(_text(row), row["fg"], row["bg"], strict=False):
            now = f"\x1b[{_light(38, self.palette[int(fg, 16)])};{_light(48, self.palette[int(bg, 16)])}m"
            parts.append(char if now == before else now + char)
            before = now
        return "".join(parts) + _PLAIN


def _text(row: Mapping[str, Any]) -> str:
    return "".join(char if char.isprintable() else "?" for char in row["text"])


def _light(which: int, colour: str) -> str:
    """A colour such as ``#f0f0f0`` as terminals take it."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"{which};2;{red};{green};{blue}"
