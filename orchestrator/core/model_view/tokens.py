"""How many tokens a text is, before a model's server has counted it: an estimate, and how it is corrected.

Theory. A word of the tokenizers of small models is about six letters; digits and signs stand for
themselves in most of them, a blank before a digit too, and a line break with what it indents is one.
So counting words, digits and signs errs on the side of too many for code, prose and data alike, where
a number of characters a token would be out by three for a file of digits. What the server counted for a
request is exact, so only what was added since is estimated; and where it counted more than was estimated,
estimates are scaled up from then on.
"""

import re
from dataclasses import dataclass
from typing import Final

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
