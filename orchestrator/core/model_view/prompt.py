"""The instructions before every task: a text with places that are filled in for each.

The text is a person's to change. It must have the parts that the machine relies on: the tools, the computers, and the
tag of the task that fences text from the world as data.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from string import Template
from typing import Final

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import one_line
from orchestrator.core.values import immutable

# -- The instructions before every task: a text with places that are filled in for each

PLACES: Final = ("tools", "computers", "tag", "policy")
"""What is filled in, each written with a dollar sign before it."""
_NEEDED: Final = ("tools", "computers", "tag")
MAX_CHARS: Final = 20_000
"""More would leave a small window no room for a task."""


@immutable
class Prompt:
    """A text that was checked, and the version under which requests record it."""

    text: str
    version: str

    def filled(self, *, tools: str, computers: str, tag: str, policy: str) -> str:
        """The instructions of one task."""
        places = {"tools": tools, "computers": computers, "tag": tag, "policy": policy}
        return Template(self.text).substitute(places).rstrip()


def read_prompt(text: str, version: str) -> Prompt:
    """The prompt that a text is. Raises InvalidRequest, with the line where that can be told."""
    if len(text) > MAX_CHARS:
        raise InvalidRequest(
            f"The prompt has {len(text)} characters; {MAX_CHARS} are the most.",
            remedy="Shorten it: it is sent each time.",
        )
    places = set[str]()
    for number, line in enumerate(text.splitlines(), 1):
        for found in Template.pattern.finditer(line):
            name = found.group("named") or found.group("braced")
            _check_place(name, found.group("invalid") is not None, number)
            places.add(name or "")
    missing = [name for name in _NEEDED if name not in places]
    if missing:
        wanted = " and ".join(f"${name}" for name in missing)
        raise InvalidRequest(
            f"The prompt has no place for {wanted}.", remedy="Put it in: without it the model could not work."
        )
    # Last unless the text says where: the engine's cache of all before it outlives a change of the policy.
    return Prompt(text if "policy" in places else f"{text.rstrip()}\n$policy", version)


def _check_place(name: str | None, is_invalid: bool, number: int) -> None:
    if is_invalid or (name is not None and name not in PLACES):
        what = f"the unknown place ${name}" if name else "a single $"
        known = ", ".join(f"${one}" for one in PLACES)
        raise InvalidRequest(
            f"Line {number} of the prompt has {what}.", remedy=f"Places are {known}; write $$ for a dollar sign."
        )


# -- What was wrong with replies, in words for the person who can change it

CUT_OFF: Final = "Your reply was cut off at the length limit."
"""How the sentence begins that refuses a reply for it."""
_SHOWN_CHARS: Final = 200
_UNREAD_CHARS: Final = 2_000
"""Characters of a reply that are searched for secrets: more than are shown, so that no secret is cut in two."""


def unread(refused: Sequence[str], last: str, *, num_predict: int, salt: str) -> str:
    """Why replies in a row could not be read, what came, and what to try, for the person whose task ends so.

    ``refused`` are the sentences that the model was told, ``last`` is the text of the last reply. ``num_predict`` is
    the limit of a reply in tokens; 0: the model has one of its own. Secrets of the text are redacted with ``salt``.
    """
    # Its patterns take longer to compile than a short command runs, and this is rare.
    from orchestrator.core.text.redact import redact_text

    cut = all(one.startswith(CUT_OFF) for one in refused)
    parts = [f"{len(refused)} replies in a row could not be read."]
    if cut:
        most = f"num_predict {num_predict}" if num_predict else "the length limit of the model"
        parts.append(f"They were {'' if last.strip() else 'empty, and '}cut off at {most}.")
    # Before what is long: a screen in the game cuts the text.
    parts.append(_to_try(last, is_cut=cut, has_window=num_predict > 0))
    if last.strip():
        shown = one_line(redact_text(last[:_UNREAD_CHARS], salt=salt)[:_SHOWN_CHARS])
        more = f" (and {len(last) - _SHOWN_CHARS} characters more)" if len(last) > _SHOWN_CHARS else ""
        parts.append(f"The last one was `{shown}`{more}.")
        if not cut:
            parts.append(f"It was refused with: {refused[-1]}")
    elif not cut:
        parts.append("The last one was empty.")
    return " ".join(parts)


def _to_try(last: str, *, is_cut: bool, has_window: bool) -> str:
    if is_cut and not last.strip():
        return 'The model used up all of it on its thoughts. Set think = "off", or raise the limit.'
    if is_cut:
        limits = "Raise num_predict, and num_ctx with it" if has_window else "Raise that limit"
        return f'{limits}; for a model that thinks, set think = "off".'
    window = "a larger num_ctx" if has_window else "a larger window"
    return f'Try another model, {window}, or another value of think ("auto" or "off").'


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
"""No tokenizer differs by more: the server counted something else than what was sent."""


def estimate(text: str) -> int:
    """Tokens of one message, rather too many than too few."""
    plain, wide = text, 0
    if not text.isascii():
        # A character beyond ASCII may be two or three.
        plain, wide = _WIDE_BLANK.sub("\r", text), len(text) - len(text.encode("ascii", "ignore"))
    pieces = _pieces(plain)
    return _MESSAGE + wide + (len(_PIECE.findall(text)) if pieces is None else pieces)


_WIDE_BLANK: Final = re.compile(r"[^\S\x00-\x7f]")
_INDENT: Final = re.compile(rb"\n[ \t]+")


def _kind(char: str) -> str:
    if char.isalnum():
        return "a" if char.isalpha() else "0"
    return char if char in " \n\t" else "~" if char.isspace() else "!"


_KINDS: Final = bytes.maketrans(bytes(range(128)), "".join(_kind(chr(code)) for code in range(128)).encode())


def _pieces(text: str) -> int | None:
    """How many pieces a text without wide blanks has; None: its blanks have to be looked at one by one.

    Counting kinds of characters takes a fifth of the time of finding each piece.
    """
    kinds = _INDENT.sub(b"\n", text.encode("ascii", "replace").translate(_KINDS))
    if b"\t" in kinds or b" " * 8 in kinds:
        return None
    count = kinds.replace(b"a" * 6, b"!").count
    # The rest of a word is one piece: of its one to five letters the others are subtracted.
    words = count(b"a") - count(b"aa") - count(b"aaa") - count(b"aaaaa")
    return words + count(b"!") + count(b"0") + count(b" 0") + count(b"\n")


@immutable
class Count:
    """The count of a conversation by the model's server, and how wrong the estimates were."""

    estimated: int = 0
    """The estimate of the messages that were counted last; 0: none were, or they are no longer what is sent."""
    counted: int = 0
    factor: float = 1.0
    """The factor for estimates: the most that was ever needed here, and never less than one."""

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
#
# Theory. The instructions and the task itself always stand first: they are what a server that runs out of window
# would drop. After them come the older steps as rows, then some in brief, then the last ones whole. Nothing is
# masked before the window is full, and then enough at once for some steps to come, so that in between each
# request only adds to the one before and the engine's cache of the prompt holds. Steps only ever lose detail, by
# their order and by counts that are in the journal, so that any node makes the same of them. Masking instead of
# summarising is as good and costs nothing (models.md, section 5).

_HEADROOM: Final = 0.05
_AIM: Final = 0.7
"""How much of the budget is filled after masking: the rest lasts a few steps."""
_WHOLE: Final = 4
"""Last steps that are told whole for as long as that is possible."""
_BRIEF: Final = 6
_ROWS: Final = (40, 15, 5, 0)
_RESULT_SHARE: Final = 0.5
_RESULT_CHARS: Final = (1500, 8000)


@immutable
class Window:
    """The tokens that a model has for prompt and reply together, and of them those kept for the reply."""

    num_ctx: int
    num_predict: int
    is_models_most: bool = field(default=False, compare=False)
    """Whether the model has no more: a larger num_ctx would change nothing."""

    @cached_property
    def budget(self) -> int:
        """Tokens that a prompt may have, as far as they can be foreseen."""
        return max(1, int(self.num_ctx * (1 - _HEADROOM)) - self.num_predict)

    @cached_property
    def result_chars(self) -> int:
        """Characters of the results of one step that are told, head and tail."""
        least, most = _RESULT_CHARS
        return min(most, max(least, int(self.budget * _RESULT_SHARE * 3 / 2)))


@immutable
class Plan:
    """How much of the steps is told: rows up to ``rows``, in brief up to ``brief``, the rest whole."""

    rows: int = 0
    brief: int = 0
    shown_rows: int = _ROWS[0]
    """The last rows that are shown; of the others only the number."""
    chars: int | None = None
    """Characters of the results of a step that is told whole; None: as many as the window allows."""


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
