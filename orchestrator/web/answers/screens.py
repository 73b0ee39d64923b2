"""What the doors to screens answer, as models of the OpenAPI document."""

from orchestrator.web.answers.base import AnswerModel


class ScreenRow(AnswerModel):
    """One screen of a computer."""

    of: str
    """`terminal`, or the name of a monitor."""
    width: int
    height: int


class ScreenList(AnswerModel):
    """What can be watched of a computer."""

    screens: list[ScreenRow]


class KeysTyped(AnswerModel):
    """What became of keys; they are never sent again."""

    delivered: bool | None
    """Whether the computer took them; null: nobody knows."""
    message: str
    """Why not, as a sentence; empty where they were delivered."""


class PictureRow(AnswerModel):
    """A row of a picture, each part as long as the screen is wide."""

    y: int
    """From 1."""
    text: list[str]
    """For each cell the one character of Unicode that it looks like."""
    fg: str
    """For each cell a digit for the colour of its character, as `blit` takes them."""
    bg: str
    """And for what is behind it."""


class PictureEvent(AnswerModel):
    """The data of an event `picture`."""

    of: str
    """`terminal`, or the name of a monitor."""
    whole: bool
    """Whether nothing that was told before counts: all rows are here; else those that changed."""
    width: int
    height: int
    x: int
    """The cursor's column from 1; 0, or more than the width: it is beside the screen."""
    y: int
    blink: bool
    """Whether the cursor is to be seen."""
    palette: list[str]
    """The 16 colours as `#rrggbb`, white first."""
    rows: list[PictureRow]


class HiddenEvent(AnswerModel):
    """The data of an event `unreadable`: the screen cannot be read, until a picture comes."""

    of: str
    message: str
    """Why, as a sentence."""


class AwayEvent(AnswerModel):
    """The data of an event `away`: the computer is not connected; a whole picture comes when it is back."""

    of: str
