"""What the messages of the computer channel are made of: their base, byte strings, counters and bodies."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

MAX_CALL_ID_CHARS: Final = 24
MAX_COUNTER: Final = 10**13

WireString = Annotated[str, Field(pattern="^[\u0000-\u00ff]*$")]
"""A byte string: every character is one byte."""
ShortString = Annotated[WireString, Field(max_length=256)]
CallIdString = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=MAX_CALL_ID_CHARS)]
Counter = Annotated[int, Field(ge=0, le=MAX_COUNTER)]
"""A number that survives Lua's ``%.14g``."""


class WireMessage(BaseModel):
    """A message, or a part of one: strict, frozen, and nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Body(WireMessage):
    """Where the body of this frame belongs: ``offset`` in a whole of ``total`` bytes."""

    offset: Counter = 0
    total: Counter
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """Of the whole, not of this frame's part (but for ``output``)."""
