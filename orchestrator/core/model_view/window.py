"""What of a task's steps is told when not all of it fits the model's window.

Theory. The instructions and the task itself always stand first: they are what a server that runs out of
window would drop. After them come the older steps as rows, then some in brief, then the last ones whole.
Nothing is masked before the window is full, and then enough at once for some steps to come, so that in
between each request only adds to the one before and the engine's cache of the prompt holds. Steps only ever
lose detail, by their order and by counts that are in the journal, so that any node makes the same of them.
Masking instead of summarising is as good and costs nothing (models.md, section 5).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

# -- How many tokens a text is, before a model's server has counted it: an estimate, and how it is corrected
#
# Theory. A word of the tokenizers of small models is about six letters; digits and signs stand for themselves in
# most of them, a blank before a digit too, and a line break with what it indents is one. So counting words,
# digits and signs errs on the side of too many for code, prose and data alike, where a number of characters a
# token would be out by three for a file of digits. What the server counted for a request is exact, so only what
# was added since is estimated; and where it counted more than was estimated, estimates are scaled up from then
# on.

_PIECE: Final = re.compile(r"[A-Za-z]{1,6}|[0-9]| (?=[0-9])|\n[ \t]*|[^\sA-Za-z0-9]|[ \t]{8}")
_MESSAGE: Final = 8
"""What a chat template adds around a message."""
_MOST: Final = 2.0
"""Beyond it is no tokenizer: the server counted something else than what was sent."""


def estimate(text: str) -> int:
    """Tokens of one message, rather too many than too few."""
    # A character beyond ASCII may be two or three.
    wide = 0 if text.isascii() else sum(map(len, _WIDE.findall(text)))
    return _MESSAGE + sum(1 for _ in _PIECE.finditer(text)) + wide


_WIDE: Final = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True)
class Count:
    """What a model's server has counted of a conversation, and how wrong the estimates were."""

    estimated: int = 0
    """The estimate of the messages that were counted last; 0: none were, or they are no longer what is sent."""
    counted: int = 0
    factor: float = 1.0
    """By what estimates are multiplied: the most that was ever needed here, and never less than one."""

    def heard(self, estimated: int, counted: int) -> "Count":
        """Messages of this estimate were counted; ``counted`` 0: the server did not say."""
        if not counted or not estimated:
            return self
        return Count(estimated, counted, min(_MOST, max(self.factor, counted / estimated)))

    def afresh(self) -> "Count":
        """Other messages are sent now: what was counted says only how wrong estimates are."""
        return Count(factor=self.factor)

    def of(self, estimated: int) -> int:
        """The tokens of messages of this estimate, which begin with those that were counted."""
        return self.counted + round((estimated - self.estimated) * self.factor)


# -- What of a task's steps is told when not all of it fits the model's window -----------

_HEADROOM: Final = 0.05
_AIM: Final = 0.7
"""Of the budget is filled after masking: what is left lasts a few steps."""
_WHOLE: Final = 4
"""So many of the last steps are told whole for as long as that is possible."""
_BRIEF: Final = 6
_ROWS: Final = (40, 15, 5, 0)
_RESULT_SHARE: Final = 0.5
_RESULT_CHARS: Final = (1500, 8000)


@dataclass(frozen=True)
class Window:
    """The tokens that a model has for prompt and reply together, and of them those kept for the reply."""

    num_ctx: int
    num_predict: int
    is_models_most: bool = field(default=False, compare=False)
    """Whether the model has no more: a larger num_ctx would change nothing."""

    @property
    def budget(self) -> int:
        """Tokens that a prompt may have, as far as they can be foreseen."""
        return max(1, int(self.num_ctx * (1 - _HEADROOM)) - self.num_predict)

    @property
    def result_chars(self) -> int:
        """Characters of the results of one step that are told, head and tail."""
        least, most = _RESULT_CHARS
        return min(most, max(least, int(self.budget * _RESULT_SHARE * 3 / 2)))


@dataclass(frozen=True)
class Plan:
    """How much of the steps is told: rows up to ``rows``, in brief up to ``brief``, the rest whole."""

    rows: int = 0
    brief: int = 0
    shown_rows: int = _ROWS[0]
    """So many of the last rows; of the others their number."""
    chars: int | None = None
    """Of the results of a step that is told whole; None: as many as the window lets."""


def masked(plan: Plan, turns: int, window: Window, size: Callable[[Plan], int]) -> Plan | None:
    """The next plan for so many steps; None: not even the least fits.

    ``size`` tells the tokens of all messages by a plan. The first plan that fills the window to its aim counts,
    else the last that fits it at all.
    """
    fitting = None
    for one in _plans(plan, turns, window):
        tokens = size(one)
        if tokens <= window.budget * _AIM:
            return one
        if tokens <= window.budget:
            fitting = one
    return fitting


def _plans(before: Plan, turns: int, window: Window) -> Iterator[Plan]:
    """Ever less, never less than what is hidden already."""
    for whole in range(_WHOLE, 0, -1):
        brief = max(before.brief, turns - whole)
        for rows in (before.rows, brief - _BRIEF, brief):
            yield Plan(max(before.rows, min(rows, brief)), brief, before.shown_rows)
    last = max(before.brief, turns - 1)
    for shown in _ROWS:
        yield Plan(last, last, min(shown, before.shown_rows))
    chars = window.result_chars
    while chars > 1:
        chars //= 2
        yield Plan(last, last, 0, chars)
