"""The commands about screens: look at one of a computer's, and type there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, as_segment, client_of, complain, print_json, quoted

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
    """Show what stands on a computer's screen.

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
    """Something is as it is, and no fault of who asks."""


def _why(computer: str, kind: str, data: Mapping[str, Any]) -> str:
    if kind == "away":
        return f"Computer {one_line(computer)} is not connected."
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
