"""Secrets that look like ones without being sure: hosted models are kept from them, and people see them.

Views for people show them, because program text that somebody hides looks like a key, too. For a model a wrong guess
costs little: the marker of the text becomes the text again where the model uses it.
"""

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.core.text.redact import MARKER
from orchestrator.core.text.secret_names import Span, changes_case, is_made_up, looks_random

_BEGIN: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|^Private-Lines: \d+")
_END: Final = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----|^Private-MAC:")
_PUBLIC: Final = re.compile(
    r"-----(?P<end>BEGIN|END) (?:[A-Z0-9]{1,20} ){0,4}(?:PUBLIC KEY(?: BLOCK)?|CERTIFICATE)-----"
)
_PUBLIC_PART: Final = re.compile(
    r"""-----BEGIN[ ](?P<kind>(?:[A-Z0-9]{1,20}[ ]){0,4}(?:PUBLIC[ ]KEY(?:[ ]BLOCK)?|CERTIFICATE))-----
        [^-]*+(?:-(?!----)[^-]*+)*
      | \A[^-]*+(?:-(?!----)[^-]*+)*(?=-----END[ ](?:[A-Z0-9]{1,20}[ ]){0,4}(?:PUBLIC[ ]KEY|CERTIFICATE))
      | \b(?:ssh-|ecdsa-|sk-ssh-|sk-ecdsa-)[\w@.-]{1,60}[ ]AAAA[\w+/=]*+
      | sha[0-9]{1,3}-[\w+/=]*+""",
    re.X,
)
_HEADER: Final = re.compile(r"[-+ \t]{0,40}[A-Z][\w-]{1,30}: ")
"""What stands between the beginning of a key and its letters: ``Proc-Type: 4,ENCRYPTED``."""
_OF_KEY: Final = re.compile(r"[-+ \t]{0,40}(?P<secret>[A-Za-z0-9+/]{1,100}={0,2})\s*(?:\\|(?:--|#)[^\n]*)?")
_FULL_LINES: Final = (64, 70, 76)
"""Characters of a whole line of a key, by the programs that write keys."""
_WHOLE_LINE: Final = re.compile(
    rf"(?<![\w+/=-])(?:{'|'.join(f'[A-Za-z0-9+/]{{{chars}}}' for chars in _FULL_LINES)})(?![\w+/=-])"
)

_ENV_LINE: Final = re.compile(
    r"""^[ \t]*(?:\#[ ]?)?(?:(?:export|set|setx|declare)[ ]+(?:-x[ ]+)?)?[A-Za-z_][\w.-]*[ ]?(?:\+?=|:[ ])[ ]?
        (?P<quote>["']?)(?P<secret>[^\n"']+)(?P=quote)""",
    re.M | re.X,
)
_ENV_PLAIN: Final = re.compile(
    r"""[A-Za-z]{1,12} | [0-9]{1,9} | [0-9]+[.,:][0-9.,:]{1,12} | [A-Za-z](?:(?![A-Za-z]{16})[\w ])*[A-Za-z]
      | (?:[a-z]+://)?(?:[A-Za-z0-9-]+\.)*(?:(?![A-Za-z]{16})[A-Za-z-])+(?::\d+)?(?:/[A-Za-z_./-]*)?
      | [~.]?/[\w./-]*""",
    re.X,
)
"""Words, numbers, hosts and paths: what a ``.env`` has beside its secrets."""
_TOKEN: Final = re.compile(r"(?:(?<=\\)[abfnrtvz])?(?P<token>[\w+/-]{16,}+={0,2})", re.A)
"""Letters that keys are written in, as many as may be one."""
_CORE: Final = re.compile(r"[A-Za-z0-9]{16,}+")
_SEGMENT: Final = re.compile(r"[^/]+")
_FOLDER: Final = re.compile(r"[a-z_-]*")
_SPEAKS_OF_SECRETS: Final = re.compile(
    r"pass(?:word|wd|phrase|code)s?|pwd|secret|tokens?\b|credential|api[ _-]?key|private[ _-]?key|bearer|authorization",
    re.I,
)
_LONGEST_WORD: Final = 20
"""Small letters of the longest word that people write in one piece."""
_URL_USER: Final = re.compile(r"""://(?P<secret>[^\s/:@"'`<>()\[\]{}]{8,200})@""")
_MADE_UP_WORD: Final = re.compile(r"(?<!\[redacted )[!#$%&*+.?@^\w~-]{8,100}+(?!\()", re.A)
_SHORTEST: Final = 8
"""Characters of a value that may be made up."""
_SHORTEST_SETTING: Final = 3


def _is_secret_setting(value: str) -> bool:
    """Whether a value of a ``.env`` may be secret: it is no word, number, host or path, and no marker."""
    value = value.strip()
    made_up = value.isalnum() and (is_made_up(value) or (len(value) >= _SHORTEST and changes_case(value)))
    plain = _ENV_PLAIN.fullmatch(value) and not made_up
    return len(value) >= _SHORTEST_SETTING and not plain and not MARKER.fullmatch(value)


def env_values(text: str) -> Iterator[Span]:
    """Where values of a ``.env`` stand that may be secret, whatever their names are."""
    return (one.span("secret") for one in _ENV_LINE.finditer(text) if _is_secret_setting(one["secret"]))


def made_up_pieces(text: str) -> Iterator[Span]:
    """Where pieces stand that only a generator of keys writes: small letters, large ones and digits in no order."""
    public = [part.span() for part in _PUBLIC_PART.finditer(text)]
    for found in _TOKEN.finditer(text):
        start, end = found.span("token")
        if any(begin < end and start < over for begin, over in public):
            continue
        if any(_is_generated(core) for core in _CORE.findall(found["token"])):
            odd = [one for one in _SEGMENT.finditer(found["token"]) if not _FOLDER.fullmatch(one.group())]
            yield start + odd[0].start(), start + odd[-1].end()


def beside_names(text: str) -> Iterator[Span]:
    """Where made-up words stand on a line that speaks of passwords or keys, and on the next line; as a URL's user."""
    yield from (one.span("secret") for one in _URL_USER.finditer(text) if is_made_up(one["secret"]))
    if not _SPEAKS_OF_SECRETS.search(text):
        return
    speaks = False
    for line in re.finditer(r"[^\n]+", text):
        spoke, speaks = speaks, _SPEAKS_OF_SECRETS.search(line.group()) is not None
        for word in _MADE_UP_WORD.finditer(text, *line.span()) if speaks or spoke else ():
            if _is_made_up_word(word.group()):
                yield word.span()


def _is_made_up_word(word: str) -> bool:
    is_long = word.isalpha() and word.islower() and len(word) > _LONGEST_WORD
    return is_long or (looks_random(word) and changes_case(word))


def key_lines(text: str) -> Iterator[Span]:
    """Where the lines of private keys stand, also of keys of which only a part is there."""
    if not re.search(r"PRIVATE KEY|Private-|[A-Za-z0-9+/]{64}", text):
        return
    inside = public = False
    run: list[Span] = []
    """Lines that may be of a key whose beginning was not seen."""
    for line in re.finditer(r"[^\n]*", text):
        content = line.group()
        found = _OF_KEY.fullmatch(content)
        if known := _PUBLIC.search(content):
            # What stands before an end whose beginning was not seen is public, too.
            inside, public, run = False, known["end"] == "BEGIN", []
        elif public and (found or _WHOLE_LINE.search(content)):
            continue
        elif begun := _BEGIN.search(content):
            inside, run = not _END.search(content, begun.end()), []
        elif _END.search(content):
            yield from run
            inside, run = False, []
        elif inside and (found or not content.strip() or _HEADER.match(content)):
            if found:
                yield line.start() + found.start("secret"), line.start() + found.end("secret")
        elif found and _may_be_of_key(found["secret"]):
            run.append((line.start() + found.start("secret"), line.start() + found.end("secret")))
        elif content:
            yield from run if _has_key(text, run) else ()
            yield from (one.span() for one in _WHOLE_LINE.finditer(text, *line.span()) if _is_generated(one.group()))
            inside, run = False, []
    yield from run if _has_key(text, run) else ()


def _may_be_of_key(line: str) -> bool:
    return len(line) in _FULL_LINES or line.endswith("=") or any(char.isdigit() for char in line)


def _has_key(text: str, run: list[Span]) -> bool:
    """Whether lines without a beginning and an end are of a key: one is whole, and of mixed letters."""
    return any(end - start in _FULL_LINES and _is_generated(text[start:end]) for start, end in run)


def _is_generated(text: str) -> bool:
    """Whether a text has letters of each kind and digits, in no order; the alphabet of base64 has an order."""
    return changes_case(text) and all(re.search(letters, text) for letters in ("[a-z]", "[A-Z]", "[0-9]"))
