"""Masks: markers in place of secrets for a model without trust, and the true bytes back in its own calls.

Theory. All that goes to the model of a task passes through one :class:`Mask`, in the order of the task's journal, so
that every node masks alike. It finds secrets as views for people do (``redact``), and knows more: the lines of a
private key, also where only a part of it was read; the values of a ``.env``; a secret that was found once, wherever it
stands later; and what the model itself named by its marker. Each line of a secret has a marker of its own, and numbers
of lines stay outside, so that edits and patches fit the file.

Where the model uses a marker in a call, :meth:`Mask.restored` puts the true text back: what is judged, shown to people,
recorded and run has the bytes of the file.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from pydantic import JsonValue

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.policy import RUNNERS, SecretsToModel
from orchestrator.core.reply.response import ToolRequest, read_reply
from orchestrator.core.task.task import StepCall, Turn
from orchestrator.core.text.redact import (
    MARKER,
    Redactor,
    apart,
    beside_names,
    damaged_in,
    made_up_pieces,
    quoted_values,
    texts_of,
)
from orchestrator.core.text.secret_places import env_values, key_lines, placed_values
from orchestrator.core.text.secret_values import word_values
from orchestrator.core.text.secret_words import looks_random

_MASKED: Final = (
    "\n- Secrets stand as [redacted 1a2b3c4d], each line of one with its own mark. Use such a mark as it stands: in "
    "what you write or run the true text takes its place."
)
TOLD: Final[Mapping[SecretsToModel, str]] = {
    "allow": "",
    "mask": _MASKED,
    "ask": f"{_MASKED} If you cannot work without seeing one, call ask_user with this question: "
    "May the model see [redacted 1a2b3c4d]?",
}
"""What is said behind the policy's summary."""
_MARKERS: Final = re.compile(f"({MARKER.pattern})")
_MAY_SEE: Final = re.compile(r"\s*May the model see (?P<marker>\[redacted [0-9a-f]{8}\])\?\s*")
_LINE_CHARS: Final = 200
"""Characters of the line that a person is shown with the question for a secret."""
_YES: Final = re.compile(r"\s*(?:yes|y|ok|okay|allow|allowed)[.!]?\s*", re.I)

_LINE_HEAD: Final = re.compile(
    r"""^(?:[ \t]*(?:
          [0-9]{1,9}(?:\||:(?=[ ])) | (?:>|\#|--)(?=[ ]) | /?[\w./-]{1,80}:[0-9]{1,7}:(?=[ ])
        | (?=[\w.-]{0,80}/)[\w./-]{1,80}:[0-9]{1,7}:
        | \[[0-9][^\]\n]{1,30}\](?:[ ]\[[^\]\n"']{1,30}\]:?)?(?=[ ])
    )){1,3}""",
    re.X | re.M,
)
"""The beginning of a line that is shown: its number or file, the sign of a comment or quotation, a time of a log."""
_HUNK: Final = re.compile(r"@@ -[0-9]")
"""From here on the first sign of a line tells whether a difference of two texts has it."""
_QUOTES: Final = re.compile(
    r"""(?P<q>&(?:quot|apos|\#3[49]);|(?<![\\"])(?P<one>\\{0,7}")(?P=one)(?=[\w*]))
        (?P<inside>(?:(?!(?P=q))[^\n]){1,200})(?P=q)""",
    re.X,
)
"""A text in quotes as HTML and CSV have them."""
_COLOUR: Final = re.compile(r"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|27|e))\[[0-9;]{0,20}m")
"""A code of a terminal, also as a string has it."""
_ENV_FILE: Final = re.compile(r"(?:^|[/ ])(?:[\w-]+)?\.env(?:rc|(?:\.\w+)*)(?: |$)", re.I)
_FOUND_ENV: Final = re.compile(r"^[\w./-]*\.env(?:\.\w+)*  [0-9]+$", re.M)
_SHORTEST: Final = 8
_LONG: Final = 16
"""Characters of a secret that is known again wherever it stands; a shorter one may be a word of any text."""
_USED: Final = 3
_MARKER_CHARS: Final = 19
_NO_LETTERS: Final = "\ue000" * _MARKER_CHARS
"""Stands for a marker where values are searched that may look like words."""
_CUT: Final = re.compile(r"(\[… [0-9]+ characters left out[^…\n]{0,200}…\]|(?:\[|\[?\.\.\.)?…)")
"""The text where a text was cut."""
_COLUMNS: Final = re.compile(r"[^:\n]{1,100}: ([0-9]{1,4}) columns")
_WIDTH: Final = 200
_NARROWEST: Final = 7
"""Columns of the smallest monitor."""
_KEY_ENDS: Final = re.compile(r"[\w+/=.:@-]{4}$")
_KEY_BEGINS: Final = re.compile(r"[\w+/=.:@-]")
"""Columns of the terminal of a program, at which what it prints goes on in the next row."""
_PIECE: Final = 4
"""Characters of a piece of a secret that is left out at a cut."""


_SHORT: Final = 200
"""Characters of a text for which it is remembered that no secret is in it."""


class Mask(Redactor):
    """Masks what a model is told of one task; ``seen``: the markers whose secrets a person lets it see.

    ``salt`` is never told to the model: it keeps short secrets from being guessed from their markers.
    """

    def __init__(self, salt: str, seen: frozenset[str] = frozenset()) -> None:
        super().__init__(salt)
        self.salt = salt
        self.seen = seen
        self._known: dict[str, None] = {}
        """Secrets that are known again by themselves."""
        self._lines: dict[str, tuple[str, str]] = {}
        """For each marker of a result: the call, and the true line in which it was first."""
        self._is_of_world = True
        """Whether what is masked is the world's: a marker that the model made up is not to stand for itself."""
        self._damaged: set[str] = set()
        """What looks like a damaged marker in what the world has: it may be written as it is."""

    def text(self, text: str) -> str:
        """A text with the markers of its secrets."""
        return self._told(text, [])

    def goal(self, text: str, history: str) -> str:
        """The task's text, with what is quoted from earlier tasks behind it.

        A marker in them is of another task, or a person copied it from there: it is not to stand for itself.
        """
        self._damaged |= damaged_in(text)
        self._is_of_world = False
        told = self._told(text + history, [])
        self._is_of_world = True
        return told

    def turn(self, turn: Turn, reply: str) -> tuple[Turn, str]:
        """A step as the model may be told it."""
        used = [one for one in (self._one(marker) for marker in MARKER.findall(reply)) if len(one) >= _USED]
        self._is_of_world = False
        said = self._reply(reply)
        refused = None if turn.refused is None else self._told(turn.refused, used)
        self._is_of_world = True
        calls = tuple(self._call(call, used) for call in turn.calls)
        return replace(turn, calls=calls, refused=refused, warning=self._told(turn.warning, used)), said

    def restored(self, value: JsonValue, *, strict: bool = True) -> JsonValue:
        """Arguments of the model with secrets in place of their markers.

        Raises ReplyRefused for a marker that is of no secret it was told of, or that is damaged; where ``strict`` is
        false these stay as they are.
        """
        if isinstance(value, str):
            return self._put_back(value, strict=strict)
        if isinstance(value, list):
            return [self.restored(one, strict=strict) for one in value]
        if isinstance(value, dict):
            return {name: self.restored(one, strict=strict) for name, one in value.items()}
        return value

    def in_words(self, question: str) -> str:
        """A question for a secret in words for a person: with the line that has the secret, and the call that read it.

        People see other markers than the model, so the marker alone tells them nothing.
        """
        asked = _MAY_SEE.fullmatch(question)
        if asked is None or asked["marker"] not in self._lines:
            return question
        call, line = self._lines[asked["marker"]]
        return (
            f"May the model see the secret in this line? {line}\n(from {call}; yes shows it to the model in this task, "
            "any other answer does not)"
        )

    def _put_back(self, text: str, *, strict: bool) -> str:
        if strict and (damaged := damaged_in(text) - self._damaged):
            raise ReplyRefused(
                f"What begins with {min(damaged)[:20]!r} was the mark of a secret and is damaged. "
                "Copy each mark as it was shown to you."
            )
        for marker in set(MARKER.findall(text)) if strict else ():
            if not self._one(marker):
                raise ReplyRefused(
                    f"The mark {marker} is of no secret that this task has shown you. Read the file, copy the mark."
                )
        return MARKER.sub(lambda match: self._one(match.group()) or match.group(), text)

    def _one(self, marker: str) -> str:
        """The one text that a marker stands for; empty: none, or it could be two."""
        meant = self.meant.get(marker, set())
        return next(iter(meant)) if len(meant) == 1 else ""

    # -- what is masked ------------------------------------------------------------------

    def _call(self, call: StepCall, used: list[str]) -> StepCall:
        is_env = (_FOUND_ENV.search(call.text) if call.tool == "cc_find" else _ENV_FILE.search(call.asked)) is not None
        text = self._rows(call, used, is_env=is_env)
        for line, told in zip(call.text.split("\n"), text.split("\n"), strict=False):
            for marker in MARKER.findall(told):
                self._lines.setdefault(marker, (call.asked, line.strip()[:_LINE_CHARS]))
        return replace(
            call,
            text=text,
            asked=self._told(call.asked, used),
            came=self._told(call.came, used, is_env=is_env),
            changed=tuple((self._told(path, used), deed) for path, deed in call.changed),
        )

    def _rows(self, call: StepCall, used: list[str], *, is_env: bool) -> str:
        """A result as the model gets it.

        A text that goes on in the next row of a terminal is searched as if on one line.
        """
        rows = call.text.split("\n")
        columns = _COLUMNS.match(rows[0]) if call.tool == "cc_screen" else None
        width = int(columns[1]) if columns else _WIDTH if call.tool in RUNNERS else 0
        wide, narrow = _joins(rows, width), _narrow_joins(rows) if width else []
        if any(join is not None for join in narrow):
            rows = self._across(rows, narrow, used, is_env=is_env).split("\n")
        return self._across(rows, wide, used, is_env=is_env)

    def _across(self, rows: list[str], joins: list[str | None], used: list[str], *, is_env: bool) -> str:
        """What is told of rows, with as many rows: they are searched as if each join stood in place of a row's end."""
        joined, ends = _joined(rows, joins)
        if not ends:
            return self._told(joined, used, is_env=is_env)
        told, at = "", 0
        for piece in _MARKERS.split(self._told(joined, used, is_env=is_env)):
            true = self._one(piece) or piece
            cuts = [(start - at, end - at) for start, end in ends if at <= start < at + len(true)]
            if true is piece:
                edges = [0, *(edge for cut in cuts for edge in cut), len(piece)]
                told += "\n".join(piece[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
            else:
                told += piece + "\n" * len(cuts)
            at += len(true)
        return told

    def _reply(self, reply: str) -> str:
        """The model's own words: the same object where it is one, so that the text of a string is read as text."""
        try:
            value = json.loads(reply)
        except (ValueError, RecursionError):
            return self._told(reply, [])
        clean = self.value(value)
        return reply if clean == value else json.dumps(clean, ensure_ascii=False)

    def _told(self, text: str, used: list[str], *, is_env: bool = False) -> str:
        # Names, paths and short results come in every step.
        if len(text) <= _SHORT and "[" not in text and "…" not in text and _has_none(text, is_env=is_env):
            if self._again(text, used) == text:
                return text
        elif self._is_of_world:
            self._damaged |= damaged_in(text)
        return self._looked_through(text, used, is_env=is_env)

    def _looked_through(self, text: str, used: list[str], *, is_env: bool) -> str:
        if not _LINE_HEAD.search(text) and not _HUNK.search(text):
            return self._shown(self._masked(text, used, is_env=is_env))
        lines = text.split("\n")
        heads = list(_heads(lines))
        bare = "\n".join(line[len(head) :] for head, line in zip(heads, lines, strict=True))
        masked = self._masked(bare, used, is_env=is_env).split("\n")
        return self._shown("\n".join(head + line for head, line in zip(heads, masked, strict=True)))

    def _shown(self, text: str) -> str:
        """With the secrets that a person lets the model see."""
        return MARKER.sub(lambda match: self._one(match.group()) if match.group() in self.seen else match.group(), text)

    def _masked(self, text: str, used: list[str], *, is_env: bool) -> str:
        spans = list(key_lines(text))
        if is_env:
            spans += env_values(text)
        text = self._replaced(text, spans)
        text = self._replaced(text, list(quoted_values(text)))
        text = super().text(self._again(text, used))
        text = self._replaced(text, list(made_up_pieces(text)))
        text = self._replaced(text, list(beside_names(_COLOUR.sub(_blanks, text))))
        bare = _COLOUR.sub(_blanks, _QUOTES.sub(_as_quoted, MARKER.sub(_NO_LETTERS, text)))
        return self._again(self._replaced(text, [*placed_values(bare), *word_values(bare)]), [])

    def _replaced(self, text: str, spans: list[tuple[int, int]]) -> str:
        """The text with a marker in place of each span; they may overlap, and markers in them stay."""
        pieces, position = [], 0
        for start, end in (piece for span in apart(spans) for piece in _without_markers(text, *span)):
            pieces += [text[position:start], self.whole(text[start:end])]
            position = end
        return "".join((*pieces, text[position:]))

    def _again(self, text: str, used: list[str]) -> str:
        """The text without the secrets that are known by now."""
        text = self._without_pieces(text, used) if "…" in text else text
        if not self._known and not used:
            return text
        for secret in sorted({*self._known, *used}, key=len, reverse=True):
            if secret in text:
                text = text.replace(secret, self.whole(secret))
        return text

    def _without_pieces(self, text: str, used: list[str]) -> str:
        """The text without the pieces of its secrets that are at the edge of a cut."""
        found = {one for meant in self.meant.values() for one in meant if not MARKER.search(one)}
        secrets = [one for one in {*found, *self._known, *used} if len(one) > _PIECE]
        before, *rest = _CUT.split(text)
        pieces = [before]
        for cut, after in zip(rest[::2], rest[1::2], strict=True):
            head = max((n for one in secrets for n in _lengths(one) if pieces[-1].endswith(one[:n])), default=0)
            tail = max((n for one in secrets for n in _lengths(one) if after.startswith(one[-n:])), default=0)
            pieces[-1] = pieces[-1][: len(pieces[-1]) - head]
            pieces += [cut, after[tail:]]
        return "".join(pieces)

    def whole(self, text: str) -> str:
        """The markers of a text that is secret as a whole, one for each of its lines."""
        if "\n" in text:
            return "\n".join(self._line(line) for line in text.split("\n"))
        if not MARKER.search(text) and _is_known_again(text):
            self._known[text] = None
        return super().whole(text)

    def literal(self, text: str) -> str:
        """A marker in a text for the model: that of a secret, or itself where the world has it so."""
        return super().literal(text) if self._is_of_world and text not in self.meant else text

    def _line(self, line: str) -> str:
        bare = line.strip()
        return line.replace(bare, self.whole(bare)) if bare else line


def asks_to_see(question: str) -> bool:
    """Whether a question of the model is for a secret, in its own words or in those for people."""
    return question.strip().startswith("May the model see")


def seen_by(turn: Turn, reply: str) -> Iterator[str]:
    """The markers whose secrets a person let the model see in a step: it asked so, and they said yes."""
    if "May the model see" not in reply:
        return
    try:
        request = read_reply(reply, unknown_tools="keep")
    except ReplyRefused:
        return
    calls = request.calls if isinstance(request, ToolRequest) else ()
    for wanted, call in zip(calls, turn.calls, strict=False):
        asked = _MAY_SEE.fullmatch(str(wanted.args.get("question", "")))
        if wanted.tool == "ask_user" and asked and _YES.fullmatch(call.text):
            yield asked["marker"]


def _without_markers(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a span between markers in it, or at its edges."""
    for marker in MARKER.finditer(text, max(0, start - _MARKER_CHARS), end + _MARKER_CHARS):
        if text[start : min(marker.start(), end)].strip():
            yield start, min(marker.start(), end)
        start = max(start, marker.end())
    if text[start:end].strip():
        yield start, end


def _heads(lines: list[str]) -> Iterator[str]:
    """The text before each line."""
    in_hunk = False
    for line in lines:
        sign = line[:1] if in_hunk and line[:1] in "+- " else ""
        head = _LINE_HEAD.match(line[len(sign) :])
        yield sign + (head.group() if head else "")
        in_hunk = in_hunk or _HUNK.match(line) is not None


def _as_quoted(quoted: re.Match[str]) -> str:
    """The same in quotes as a string has them, as long as it was."""
    quote = '"'.rjust(len(quoted["q"]), "\\")
    return f"{quote}{quoted['inside']}{quote}"


def _blanks(code: re.Match[str]) -> str:
    return " " * len(code.group())


def _joins(rows: list[str], width: int) -> list[str | None]:
    """The text for the end of each row of a terminal: nothing, or the blank there; None: it is the end of a line.

    A row goes on in the next one in the middle of a word, or where the next word had no room. ``width`` 0: none does.
    """
    joins = list[str | None]()
    for row, after in pairwise([*rows, ""]):
        blank = "" if len(row) == width or row.endswith(" ") else " "
        has_room = len(row) < width and len(row + blank + after.partition(" ")[0]) <= width
        joins.append(blank if width and row and after and len(row) <= width and not has_room else None)
    return joins


def _narrow_joins(rows: list[str]) -> list[str | None]:
    """The same of rows in a window or on a monitor, whose width nobody tells.

    A row goes on that is as long as one beside it, or that a shorter one follows, where both ends may be of one key.
    """
    return ["" if _goes_on(*three) else None for three in zip(["", *rows], rows, [*rows[1:], ""], strict=False)]


def _joined(rows: list[str], joins: list[str | None]) -> tuple[str, list[tuple[int, int]]]:
    """The rows as lines, and where rows end inside of them."""
    text, ends = "", list[tuple[int, int]]()
    for row, join in zip(rows, joins, strict=True):
        text += row
        if join is None:
            text += "\n"
        else:
            ends.append((len(text), len(text) + len(join)))
            text += join
    return text.removesuffix("\n"), ends


def _goes_on(before: str, row: str, after: str) -> bool:
    """Whether a row of a narrow window may end inside of a key that the next row goes on with."""
    if len(row) < _NARROWEST or len(after) > len(row) or not _KEY_ENDS.search(row) or not _KEY_BEGINS.match(after):
        return False
    full = len(row) in (len(before), len(after)) or len(after) < len(row)
    return full and (
        row.endswith("-") or any(char.isdigit() or char.isupper() for char in row[-_NARROWEST:] + after[:_NARROWEST])
    )


def _lengths(secret: str) -> range:
    return range(_PIECE, len(secret))


def has_marker(value: JsonValue) -> bool:
    """Whether a value has a marker somewhere, or something that looks like a damaged one."""
    # Each has this word, in letters that a text beyond ASCII may have in its own way.
    named = [text for text in texts_of(value) if not text.isascii() or "redacted" in text.lower()]
    return any(MARKER.search(text) or damaged_in(text) for text in named)


@lru_cache(maxsize=8192)
def _has_none(text: str, *, is_env: bool) -> bool:
    """Whether no secret is in a text by itself, and no damaged marker; a secret that a task knows may be in it."""
    return not damaged_in(text) and Mask("")._looked_through(text, [], is_env=is_env) == text


def _is_known_again(secret: str) -> bool:
    """Whether a text is long or random enough to stand for nothing else elsewhere."""
    return not any(char.isspace() for char in secret) and (
        len(secret) >= _LONG or (len(secret) >= _SHORTEST and looks_random(secret))
    )


__all__ = ["TOLD", "Mask", "has_marker", "seen_by"]
