"""Secrets in files whose every line counts: settings of the environment, private keys.

Only hosted models are kept from them.
"""

import re
from bisect import bisect
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from orchestrator.core.text.secret_guesses import has_odd_piece, is_generated
from orchestrator.core.text.secret_names import Span
from orchestrator.core.text.secret_words import is_hidden_name

_BEGIN: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|-----BEGIN OpenVPN"
    r"|(?:^|[ >\]\"'])Private-Lines: \d+"
)
_END: Final = re.compile(
    r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|-----END OpenVPN|(?:^|[ >\]\"'])Private-MAC:",
    re.M,
)
_PUBLIC: Final = re.compile(
    r"-----(?P<end>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,4}(?:PUBLIC KEY(?: BLOCK)?|CERTIFICATE)-----"
)
_HEADER: Final = re.compile(r"[-+ \t]{0,40}[A-Z][\w-]{1,30}: ")
"""What stands between the beginning of a key and its letters: ``Proc-Type: 4,ENCRYPTED``."""
_OF_KEY: Final = re.compile(
    r"""[-+ \t]{0,40}["']?(?P<secret>[A-Za-z0-9+/]{1,100}={0,2})(?:\\{1,3}[rn])*["']?\s*"""
    r"""(?:\\|,|\.\.|(?:--|\#)[^\n]*)?"""
)
_PIECE_OF_KEY: Final = re.compile(r"(?P<piece>[A-Za-z0-9+/]{4,}={0,2})")
"""A key whose lines were joined by blanks has such pieces between its beginning and its end."""
_LONG_PIECE: Final = re.compile(
    r"(?<![\w+/=.:-])(?=[A-Za-z+/]{0,99}[0-9])(?P<piece>[A-Za-z0-9+/]{14,}={0,2})(?![\w+/=.:(-])"
)
_TAIL: Final = r"""(?=(?:\\{1,3}[rn])*["']?\s*(?:\\|,|\.\.|(?:--|\#)[^\n]*)?$)"""
_PADDED_PIECE: Final = re.compile(rf"(?<![\w+/=.:-])(?P<piece>[A-Za-z0-9+/]{{1,100}}={{1,2}}){_TAIL}", re.M)
_LAST_PIECE: Final = re.compile(rf"(?<![\w+/=.:-])(?P<piece>[A-Za-z0-9+/]{{1,100}}={{0,2}}){_TAIL}", re.M)
"""What stands at the end of a line: of the last line of a key whatever it is, of others what is filled up."""
_FULL_LINES: Final = (64, 70, 76)
"""Characters of a whole line of a key, by the programs that write keys."""
_WHOLE_LINE: Final = re.compile(
    rf"(?<![\w+/=-])(?:{'|'.join(f'[A-Za-z0-9+/]{{{chars}}}' for chars in _FULL_LINES)})(?![\w+/=-])"
)

_ENV_LINE: Final = re.compile(
    r"""^[ \t]*(?:\#[ ]?)?(?:(?:export|set|setx|declare)[ ]+(?:-x[ ]+)?)?(?P<name>[A-Za-z_][\w.-]*)[ ]?(?:\+?=|:[ ])[ ]?
        (?:(?P<quote>["'`])(?P<quoted>(?:(?!(?P=quote))[^\n]){1,1000})(?P=quote)
          |["']?(?P<bare>[^\s"'][^\n]*?)(?=["']?[ \t\r]*(?:$|[ \t]\#)))""",
    re.M | re.X,
)
_ENV_PLAIN: Final = re.compile(
    r"""-?[0-9]{1,5} | [0-9]+(?:[.,:][0-9]+){1,7} | [0-9]{1,5}(?:ms|[smhdkg]|[kmg]b|%) | v[0-9]+(?:\.[0-9]+){0,3}
      | (?:[a-z][a-z0-9+]{1,9}://)?(?:[a-z0-9-]+\.)*[a-z0-9-]*[a-z](?:(?<=\.[a-z][a-z])|(?<=\.[a-z]{3})|(?<=\.[a-z]{4})
         |(?<=localhost)|(?=[:/]))(?::[0-9]{2,5})?(?:/[\w.-]*)*
      | [a-z][a-z0-9+]{1,9}://[0-9.]{7,15}(?::[0-9]{2,5})?(?:/[\w.-]*)*
      | (?:~|\.{1,2}|[A-Z]:|\$HOME|\$\{?PWD\}?)?[/\\][\w.:$/\\ -]*
      | [A-Z][a-z]+/[A-Z][a-z_A-Z]+ | [a-z]{2}_[A-Z]{2}(?:\.UTF-8)?
      | \$\{?\w+\}?""",
    re.X,
)
"""Numbers, hosts, addresses and paths: what a ``.env`` has beside its secrets."""
_ENV_WORDS: Final = frozenset(
    re.findall(
        r"\S+",
        """true false yes no on off none null nil undefined enabled disabled enable disable auto default always never
        development dev production prod staging stage test testing local debug info warn warning error trace fatal
        verbose quiet silent notice critical localhost utf-8 utf8 utc left right top bottom front back up down north
        south east west http https tcp udp ws wss tls ssl json text plain yaml file stdout stderr memory sqlite mysql
        postgres postgresql mongodb redis smtp small medium large low high normal en de fr es it en_us de_de""",
    )
)
"""Words that settings have."""
_SHORTEST_SETTING: Final = 3
_SHORTEST_PIN: Final = 4
_DIGITS: Final = re.compile(r"\b[0-9]+")
_NAMES_HOST: Final = re.compile(r"(?:HOST|HOSTNAME|SERVER|DOMAIN)$", re.I)
_HOST: Final = re.compile(r"[a-z][a-z-]{0,30}[0-9]{0,2}")
_ENV_REST: Final = re.compile(r"^[ \t]*(?P<secret>[^\s#\"'=:][^\s\"'=:]*)[ \t\r]*$", re.M)
"""A line of a ``.env`` without a name: a value of several lines goes on."""


def _is_secret_setting(name: str, value: str) -> bool:
    """Whether a value of a ``.env`` may be secret: it is no number, host, path or usual word."""
    if value.lower() in _ENV_WORDS or (_NAMES_HOST.search(name) and _HOST.fullmatch(value)):
        return False
    if value.isdecimal() and is_hidden_name(name):
        return len(value) >= _SHORTEST_PIN
    is_plain = _ENV_PLAIN.fullmatch(value) and not has_odd_piece(_DIGITS.sub("", value))
    return len(value) >= _SHORTEST_SETTING and not is_plain


def env_values(text: str) -> Iterator[Span]:
    """Where values of a ``.env`` stand that may be secret, whatever their names are."""
    for one in _ENV_LINE.finditer(text):
        kind = "quoted" if one["quoted"] else "bare"
        if _is_secret_setting(one["name"], one[kind]):
            yield one.span(kind)
    yield from (one.span("secret") for one in _ENV_REST.finditer(text) if _is_secret_setting("", one["secret"]))


def key_lines(text: str) -> Iterator[Span]:
    """Where the lines of private keys stand, also of keys of which only a part is there."""
    if not re.search(r"PRIVATE KEY|OpenVPN|Private-|[A-Za-z0-9+/]{64}", text):
        return
    inside = public = False
    feet = [*(one.start() for one in _END.finditer(text)), 0]
    foot = 0
    """Where the key ends whose beginning was seen; before it there may be lines that have no piece of it."""
    run: list[Span] = []
    """Lines that may be of a key whose beginning was not seen."""
    lines = list(re.finditer(r"[^\n]+", text))
    for line, after in zip_longest(lines, lines[1:]):
        content = line.group()
        found = _OF_KEY.fullmatch(content)
        if known := _PUBLIC.search(content):
            # What stands before an end whose beginning was not seen is public, too.
            inside, public, run = False, known["end"] == "BEGIN", []
        elif public and (found or _WHOLE_LINE.search(content)):
            continue
        elif begun := _BEGIN.search(content):
            ends = _END.search(content, begun.end())
            inside, run = not ends, []
            foot = line.end() if ends else feet[bisect(feet, line.end(), 0, len(feet) - 1)]
            joined = _PIECE_OF_KEY if ends else _LONG_PIECE
            yield from _spans(
                joined, text, line.start() + begun.end(), line.start() + ends.start() if ends else line.end()
            )
        elif ends := _END.search(content):
            yield from run
            yield from _spans(_LONG_PIECE, text, line.start(), line.start() + ends.start()) if inside else ()
            inside, run = False, []
        elif inside and (found or not content.strip() or _HEADER.match(content)):
            if found:
                yield line.start() + found.start("secret"), line.start() + found.end("secret")
        elif inside and ((pieces := _behind_head(text, line, after)) or line.end() < foot):
            yield from pieces
        elif found and _may_be_of_key(found["secret"]):
            run.append((line.start() + found.start("secret"), line.start() + found.end("secret")))
        else:
            yield from run if _has_key(text, run) else ()
            yield from (one.span() for one in _WHOLE_LINE.finditer(text, *line.span()) if is_generated(one.group()))
            inside, run = False, []
    yield from run if _has_key(text, run) else ()


def _behind_head(text: str, line: re.Match[str], after: re.Match[str] | None) -> list[Span]:
    """The pieces of a key in a line that has more: who says it, its number, or other pieces."""
    pieces = list(_spans(_LONG_PIECE, text, *line.span()))
    is_last = after is not None and _END.search(after.group())
    return pieces or list(_spans(_LAST_PIECE if is_last else _PADDED_PIECE, text, *line.span()))


def _spans(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[Span]:
    return (one.span("piece") for one in pattern.finditer(text, start, end))


def _may_be_of_key(line: str) -> bool:
    return len(line) in _FULL_LINES or line.endswith("=") or any(char.isdigit() for char in line)


def _has_key(text: str, run: list[Span]) -> bool:
    """Whether lines without a beginning and an end are of a key: one is whole, and of mixed letters."""
    return any(end - start in _FULL_LINES and is_generated(text[start:end]) for start, end in run)
