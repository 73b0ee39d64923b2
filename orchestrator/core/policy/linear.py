"""Regular expressions in linear time, for every text that a model sends.

Theory. A pattern becomes a nondeterministic automaton; a text is read once, character by
character, with the set of all states that the automaton may be in. Sets that were met before are
remembered with what follows them, so most characters cost one look-up. Nothing is ever tried
twice, hence no pattern can be made to run for ever. What needs more than that (references back,
looking around) is refused when the policy is loaded.

A rule that asks or denies reads loosely: the pattern may be anywhere, letter case is ignored, ``.``
is any character, and ``^`` and ``$`` are also at the ends of lines. A rule that allows reads
strictly: the pattern is the whole text, exactly.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, NamedTuple

MAX_PATTERN_CHARS: Final = 500
MAX_STATES: Final = 500
"""A repeat is unrolled, so ``a{400}`` has 400; each may cost a step for each character."""
MAX_DEPTH: Final = 30
_MAX_MEMORY: Final = 4096
"""Remembered moves of one pattern; then it forgets them all and goes on."""
_REPEAT: Final = re.compile(r"\*|\+|\?|\{(\d*)(,?)(\d*)\}")
_CLASS_ESCAPES: Final = "dDwWsS"
_PLAIN_ESCAPES: Final = "tnrfv"

Kind = Literal["edge", "newline", "word", "other"]
"""The text before or after a place: an end of the text, or a character of this kind."""
_Ask = Callable[[str], bool]


class _State(NamedTuple):
    """One state: it eats a character, or asks about its place, or just leads on."""

    eats: _Ask | None
    asks: Callable[[Kind, Kind], bool] | None
    leads_to: tuple[int, ...]


class LinearPattern:
    """A compiled pattern. Raises ValueError with the reason when it cannot be used."""

    def __init__(self, pattern: str, *, loose: bool) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise ValueError(f"it has more than {MAX_PATTERN_CHARS} characters")
        self._loose = loose
        self._states = [_State(None, None, ())]
        self._start = _Parser(pattern, self._states, loose=loose).parse()
        self._moves: dict[tuple[frozenset[int], Kind, str], frozenset[int] | None] = {}

    def matches(self, text: str) -> bool:
        """Whether the text has the pattern in it (loose), or is it (strict)."""
        states, before = frozenset({self._start}), _EDGE
        for char in text:
            after = kind_of(char)
            key = (states, before, char)
            if key not in self._moves:
                self._remember(key, after)
            moved = self._moves[key]
            if moved is None:
                return True
            if not moved:
                return False
            states, before = moved, after
        return 0 in self._closure(states, before, _EDGE)

    def _remember(self, key: tuple[frozenset[int], Kind, str], after: Kind) -> None:
        """Work out where a character leads: None is a match found, the empty set that none will come."""
        if len(self._moves) >= _MAX_MEMORY:
            self._moves.clear()
        states, before, char = key
        reached = self._closure(states, before, after)
        if self._loose and 0 in reached:
            self._moves[key] = None
            return
        known = [self._states[number] for number in reached]
        eaten = {state.leads_to[0] for state in known if state.eats is not None and state.eats(char)}
        self._moves[key] = frozenset({*eaten, self._start} if self._loose else eaten)

    def _closure(self, states: frozenset[int], before: Kind, after: Kind) -> set[int]:
        reached: set[int] = set()
        left = list(states)
        while left:
            number = left.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.eats is None and (state.asks is None or state.asks(before, after)):
                left.extend(state.leads_to)
        return reached


_EDGE: Final[Kind] = "edge"
_Build = Callable[[int], int]
"""Given the state to go on with, the state to start from."""


class _Parser:
    def __init__(self, pattern: str, states: list[_State], *, loose: bool) -> None:
        self.rest = pattern
        self.states = states
        self.loose = loose
        self.depth = 0

    def parse(self) -> int:
        build = self._alternatives()
        if self.rest:
            raise ValueError("there is a ) too many")
        return build(0)

    def _alternatives(self) -> _Build:
        choices = [self._sequence()]
        while self._eaten("|"):
            choices.append(self._sequence())
        return lambda then: self._new(None, None, *(choice(then) for choice in choices))

    def _sequence(self) -> _Build:
        parts: list[_Build] = []
        while self.rest and self.rest[0] not in "|)":
            parts.append(self._repeated())

        def build(then: int) -> int:
            for part in reversed(parts):
                then = part(then)
            return then

        return build

    def _repeated(self) -> _Build:
        if _REPEAT.match(self.rest) or self.rest[0] == "{":
            raise ValueError(f"{self.rest[0]!r} has nothing to repeat; write \\{self.rest[0]} for the character itself")
        one = self._atom()
        found = _REPEAT.match(self.rest)
        if found is None:
            return one
        self.rest = self.rest[found.end() :]
        self._eaten("?")  # how greedy it is does not change whether it matches
        if _REPEAT.match(self.rest):
            raise ValueError("it repeats a repeat; put the first one into a group: (?:…)")
        least, most = _bounds(found)
        return self._times(one, least, most)

    def _times(self, one: _Build, least: int, most: int | None) -> _Build:
        def build(then: int) -> int:
            if most is None:
                loop = self._new(None, None)
                self.states[loop] = _State(None, None, (one(loop), then))
                start = loop
            else:
                start = then
                for _ in range(most - least):
                    start = self._new(None, None, one(start), then)
            for _ in range(least):
                start = one(start)
            return start

        return build

    def _atom(self) -> _Build:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return self._char(self._class())
        if char == "\\":
            return self._escape()
        if char == "^":
            loose = self.loose
            return self._place(lambda before, _: before == "edge" or (loose and before == "newline"))
        if char == "$":
            loose = self.loose
            return self._place(lambda _, after: after == "edge" or (loose and after == "newline"))
        return self._char("." if char == "." else re.escape(char))

    def _group(self) -> _Build:
        if self._eaten("?") and not self._eaten(":"):
            raise ValueError("of groups that begin with (? only (?:…) can be used")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} groups are inside of each other")
        inside = self._alternatives()
        self.depth -= 1
        if not self._eaten(")"):
            raise ValueError("there is a ) missing")
        return inside

    def _escape(self) -> _Build:
        char = self._next()
        if char in "bB":
            at_edge = char == "b"
            return self._place(lambda before, after: ((before == "word") != (after == "word")) is at_edge)
        return self._char(self._escaped(char))

    def _escaped(self, char: str) -> str:
        """An escape as ``re`` writes it; what has another meaning there, or none, is refused."""
        if char in "xu":
            digits = {"x": 2, "u": 4}[char]
            code, self.rest = self.rest[:digits], self.rest[digits:]
            if not re.fullmatch(f"[0-9a-fA-F]{{{digits}}}", code):
                raise ValueError(f"\\{char} needs {digits} hexadecimal digits")
            return f"\\{char}{code}"
        if char in _CLASS_ESCAPES or char in _PLAIN_ESCAPES or not char.isalnum():
            return f"\\{char}"
        raise ValueError(f"\\{char} cannot be used")

    def _class(self) -> str:
        out = "[" + ("^" if self._eaten("^") else "")
        first = True
        while first or not self._eaten("]"):
            char = self._next("there is a ] missing")
            if char == "\\":
                out += self._escaped(self._next())
            elif char == "[" or (char == "-" and out.endswith("-")):
                raise ValueError(f"write \\{char} for a {char} inside of […]")
            elif char == "-":
                out += "-"
            else:
                out += re.escape(char)
            first = False
        return out + "]"

    def _char(self, atom: str) -> _Build:
        flags = re.IGNORECASE | re.DOTALL if self.loose else 0
        try:
            fits = re.compile(atom, flags).fullmatch
        except re.error as error:
            raise ValueError(f"{atom}: {error.msg}") from None
        return lambda then: self._new(lambda char: fits(char) is not None, None, then)

    def _place(self, asks: Callable[[Kind, Kind], bool]) -> _Build:
        return lambda then: self._new(None, asks, then)

    def _new(self, eats: _Ask | None, asks: Callable[[Kind, Kind], bool] | None, *leads_to: int) -> int:
        if len(self.states) >= MAX_STATES:
            raise ValueError("it is too large; repeat less")
        self.states.append(_State(eats, asks, leads_to))
        return len(self.states) - 1

    def _next(self, why: str = "it ends in the middle") -> str:
        if not self.rest:
            raise ValueError(why)
        char, self.rest = self.rest[0], self.rest[1:]
        return char

    def _eaten(self, char: str) -> bool:
        if not self.rest.startswith(char):
            return False
        self.rest = self.rest[len(char) :]
        return True


@lru_cache(maxsize=1024)
def kind_of(char: str) -> Kind:
    r"""The class of a character for ``^``, ``$`` and ``\b``."""
    if char == "\n":
        return "newline"
    return "word" if char.isalnum() or char == "_" else "other"


def _bounds(found: re.Match[str]) -> tuple[int, int | None]:
    short = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(found.group())
    if short is not None:
        return short
    least, comma, most = found.groups()
    if not least:
        raise ValueError(f"{found.group()} does not say how often; write \\{{ for the character itself")
    low = int(least)
    high = low if not comma else int(most) if most else None
    if high is not None and high < low:
        raise ValueError(f"{found.group()} repeats from more to less")
    if max(low, high or 0) > MAX_STATES:
        raise ValueError("it is too large; repeat less")
    return low, high
