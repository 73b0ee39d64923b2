"""Values behind a name, though they look like words: ``adminPass is letmein``, ``| psk | tiger |``.

They are masked only for hosted models. Programs stay readable: a word without quotes may be a variable there, and
words that follow such a name in a sentence are not values.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from orchestrator.core.text.secret_names import Span
from orchestrator.core.text.secret_words import (
    is_made_up,
    is_number,
    is_passed,
    is_perhaps_secret,
    is_pin,
    is_plain,
    is_secret_name,
    may_have,
)

# -- Names whose values hosted models are kept from, and words that are not a value of such a name
#
# More names count here than where people read (``secret_names``): a wrong guess costs a model little.

_STEMS: Final = (
    "pass", "pasw", "psw", "pssw", "pwd", "pw", "psk", "pin", "secret", "token", "credential", "key", "auth", "cookie",
    "sid", "pepper", "seed", "salt", "pat", "bearer", "code", "kennwort", "geheim", "contrase", "clave", "zugang",
    "users", "accounts", "login", "hmac", "rcon", "mdp",
)  # fmt: skip
"""Without one of these a word is not a name to look at, which is so of nearly all words."""
_ENDS: Final = (
    "githubpat", "ghpat", "gitpat", "bearer", "zugangsdaten", "kennwort", "passwort", "password", "passphrase",
    "passwd",
    "contrasena", "motdepasse", "mdp", "secret", "pwd", "credentials", "adminpw", "rootpw", "dbpw", "userpw",
    "zugangscode", "geheimzahl", "schluesselwort", "schlusselwort", "recoverycode", "seedphrase", "githubtoken",
    "authtoken", "slacktoken", "bottoken", "accesstoken", "apitoken", "hmac", "salt", "secretword", "codeword",
    "passwrd", "pasword", "passwrod", "passowrd", "passwod", "passord", "paswort", "paswd", "pswd", "psswd",
)  # fmt: skip
_JOINED_ENDS: Final = re.compile(
    r"(?:admin|bank|user|root|db|door|farm|vault|mail|smtp|rcon|ftp|wifi|safe|lock|card|master|login|my|hub|server|base)"
    r"(?:pass|pin|pw|token)$"
)
"""Names of several words that nothing divides: ``ADMINPASS``."""
_LETTERS: Final = re.compile(r"[^a-z]+")

COMMON_NAMES: Final = frozenset(
    {"secret", "pass", "token", "pin", "auth", "credential", "credentials", "cookie", "key"}
)
"""Names that sentences have, too: a word behind them that has more words behind it is not the code of a lock."""

NO_VALUES: Final = frozenset(
    re.findall(
        r"[^\s]+",
        """
    wrong required optional empty invalid correct incorrect stored checked needed valid missing expired unknown
    hidden visible shown here there then than when while with without within where which what that this these
    those also only just never always still very your their from into onto over under after before again must
    should shall will would could might does done been being have were some none null true false undefined else
    elseif return local function until repeat break goto self string number boolean table integer float double
    bytes object array text type value values line input output name user username login email field label title
    description default example sample placeholder args params param option options config settings message
    error errors prompt char chars characters letters length size count list sha1 sha256 sha384 sha512 hmac
    base64 utf8 utf-8 crc32 http https json yaml toml html python bash password passwort passwords token tokens
    secret secrets credentials passphrase file files page screen manager hash hashes protected protection policy
    reset change changes store stores entry entries accepted denied failed failure mismatch match matches good
    localhost okay safe secure weak strong short long longer shorter same different public private random fine nope
    nothing something someone everybody falsch richtig leer nicht eine einen einer eines kein keine noch nötig
    noetig ungültig ungueltig abgelaufen unbekannt gesetzt oder aber jetzt nun ändern aendern gespeichert first
    last next previous current second third left right bottom front back read write open close closed basic
    digest bearer please enter wait later soon loop keys code codes
    """,
    )
)
"""Words that sentences and programs have behind the name of a secret."""
_NO_VALUE: Final = re.compile(
    r"""[a-zäöü]*(?:ed|ing|ung|lich|able|ible) | [a-z]+'[a-z]+ | \W* | \d{1,3}
      | (?:[^\W\d]\w*[.:])+[^\W\d]\w*(?:[(\[].*)? | [\w.:]+\(.* | [\w.]+\[.* | \w+(?:==|~=|!=).+ | \\.* | [<{%$[].*
      | /[\w./-]* | [a-z]+:// .* | [a-z]+\.(?:txt|lua|json|md|cfg|conf|ini|toml|yaml|yml|pem|key|db|log)""",
    re.X,
)
"""Words, pieces of programs, files and placeholders."""


def has_name_stem(text: str) -> bool:
    """Whether a text may have a name of a secret in it."""
    return may_have(text, _STEMS)


@lru_cache(maxsize=4096)
def is_hidden_name(name: str) -> bool:
    """Whether a model may not see the value that has this name."""
    if not has_name_stem(name):
        return False
    if is_secret_name(name) or is_perhaps_secret(name) or is_pin(name):
        return True
    plain = _LETTERS.sub("", unicodedata.normalize("NFKD", name).lower())
    return plain.endswith(_ENDS) or _JOINED_ENDS.search(plain) is not None


def is_mixed(value: str) -> bool:
    """Whether a value has letters with digits, signs inside of it, or both cases in no order: no word is so."""
    return (any(map(str.isdigit, value)) and any(map(str.isalpha, value))) or is_made_up(value)


def may_lock(value: str) -> bool:
    """Whether a value may be the secret of a name: at least four signs, and neither word of a sentence nor code."""
    return len(value) >= 4 and value.lower() not in NO_VALUES and not is_plain(value) and not _NO_VALUE.fullmatch(value)


# -- Values behind a name, though they look like words: ``adminPass is letmein``, ``| psk | tiger |``

_NAME: Final = re.compile(r"(?<![\w.-])(?:(?<=\\)[nrt])?(?P<name>[\w.-]{1,80})")
_TWO_WORDS: Final = re.compile(r"(?:code|key|word|phrase|passe|pin|token)$", re.I)
_WORDS_BEFORE: Final = re.compile(r"\w{2,12}[ _-](?:de )?$")
_TO_VALUE: Final = re.compile(
    r"""(?:\\{0,7}["'`]|\*\*|\]){0,3}
        (?P<more>(?:[ ]for[ ](?:the[ ])?[\w.-]{1,30}|[ ]\([\w ]{1,30}\))?)
        (?:[ ]?<(?:const|close)>|:[ ]?(?:string|str|text)\b)?
        (?:(?P<assigns>[ \t]{0,9}(?:[=-]>|:=|<-|[=~]=|!=|\+?=|:(?![:/])|\)[ \t]{1,9}or(?=[ ])))
            (?:\*\*(?=[ ]))?(?P<space>\s{0,40})
          |(?P<cell>[ \t]{0,30}[|│║┃][ \t]{0,30})
          |(?:\*\*)?,?[ \t]{1,9}(?P<verb>[–—-]|is|was|(?:set[ ])?to|ist|lautet|war|auf|expected|=)
            (?:[ ](?:now|jetzt))?:?[ \t]{1,9}
          |(?P<blank>(?:,|'s)?[ \t]{1,40}))
        (?:\{\s{0,20}["']?(?:value|default)["']?\s{0,5}[=:]\s{0,5}
          |(?:["'][ ]?\.\.[ ]?)?[\w.]{0,30}(?:tostring|encode|format|lower|upper|trim|sha256|hash)
           \((?:["']%s["'],[ ])?)?""",
    re.X | re.I,
)
_VALUE: Final = re.compile(
    r"""(?P<quote>\\{0,7}["'])(?:(?:bearer|basic|token|digest)[ ])?(?P<quoted>(?:(?!(?P=quote))[^\n]){1,200})(?P=quote)
      | (?P<tick>`|\*\*)(?P<ticked>[^`*\s]{1,200})(?P=tick)
      | \[(?P<level>={0,3})\[\s{0,40}(?P<long>[^\]\s][^\]\n]{2,200}?)\s{0,40}\](?P=level)\]
      | (?P<bare>[^\s"'`<>,;|│║┃\\&]{1,200})(?P<after>[ \t]{0,99}[^\n]{0,3})""",
    re.X | re.I,
)
_OR: Final = re.compile(
    r"""[^\n]{0,200}?\bor[ \t]{1,9}(?P<quote>["'])(?P<secret>(?:(?!(?P=quote))[^\n]){4,200})(?P=quote)"""
)
_HEADS_TABLE: Final = re.compile(r"[^\n]*\n[^\n\w]*---")
_CODE: Final = re.compile(r"\b(?:local|function|then|return|end|elseif|def|class|import|const|let|var)\b")
_WORD: Final = re.compile(r"[\w-]+")
_SECRET_VALUE_ENDS: Final = re.compile(r"[ \t]*(?:$|[.,;!\n\\\"'`)}\]|│║┃])")
_FLAG: Final = re.compile(r"[ \t]*-{1,2}\w")
"""What follows a value in a command, and no word of a comment of Lua."""
_LINE_HEAD: Final = re.compile(r"[-*#>$ \t]{0,20}(?:<\w{1,30}>[ ]|lua>[ ]|[\w.-]{0,30}>[ ]|\[[\w ]{1,20}\][ ])?")
_FOUND_HEAD: Final = re.compile(r"(?:/?[\w./-]{1,99}:\d{1,7}: ?)?")
_LINE: Final = re.compile(r"[^\n\\]+(?:\\(?!n)[^\n\\]*)*")
_ANSWER: Final = re.compile(
    r"""\s*(?:(?P<q>["'`])(?P<quoted>(?:(?!(?P=q)).){4,100})(?P=q)
         |(?:[\w ,']{0,20}\b(?:its|it's|it[ ]is|is|ist|value:|wert:)[ ])?
          (?P<word>[^\s"'`<>(){}\[\]]{4,200}?)[.,]?)\s*""",
    re.X,
)
"""The text below: one word, one text in quotes, or a sentence that ends in ``its VALUE``."""
_LONGEST_QUESTION: Final = 80
_SHORTEST: Final = 4
_SHORTEST_ODD: Final = 6
"""Characters of letters with digits that are not a variable of a program."""
_SURE_VERBS: Final = frozenset({"is", "ist", "lautet", "=", "set to", "expected"})
_WORDY: Final = re.compile(r"(?:auth|cookie|sid|(?:^|[.:])(?:token|code))$", re.I)
"""Names whose values are words in programs, too."""
_DIVIDED: Final = re.compile(r"[a-z][A-Z]|\w[_.-]\w|^--?")
_ALONE: Final = re.compile(r"(?:(?:^|\n) ?|: |> |, )$")
_GOES_ON: Final = re.compile(r"[ \t]{0,9}[\w/]")
_COMMA: Final = re.compile(r"\w[ ]?,[ ]?$")
_ANOTHER: Final = re.compile(r"[ ]?,[ ]?[\"']")
_BAR: Final = re.compile(r"[|│║┃][ \t*`\"']{0,9}$")
_BARS: Final = re.compile(r"[|│║┃]")
_RULE: Final = re.compile(r"[ \t]*[|│║┃+├╠╟┣:=─━═-][ |│║┃+:=┼┤├╪╬╫╣╠╢╟┿╂┨┣─━═-]{2,}[ \t\r]*")
"""The text below the head of a table."""
_CELL: Final = re.compile(r"(?:^|[|│║┃])[ \t*`\"']*(?P<cell>(?:[^|│║┃\n]*[^|│║┃\s*`\"'])?)", re.M)
_NO_STRING: Final = re.compile(r"\s*(?:[),]|\.\.)|.*\($")
"""Text between two strings that is not a string."""


class _Text:
    """A text, and what is known of all of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_code = _CODE.search(text) is not None
        self.words = Counter(_WORD.findall(text))

    def is_alone(self, value: str) -> bool:
        """Whether a word comes once in a text; a variable comes twice."""
        return self.words[value] == 1


def word_values(text: str) -> Iterator[Span]:
    """Where values stand that look like words, behind the names of secrets or on the line below."""
    if not has_name_stem(text):
        return
    known = _Text(text)
    position = 0
    while found := _NAME.search(text, position):
        position = found.end()
        if (name := _hidden(text, found)) and (span := _behind(known, name, found.start("name"), position)):
            yield span
            position = span[1]
    yield from _below_names(text)
    yield from _in_columns(text)


def _hidden(text: str, found: re.Match[str]) -> str:
    """The name that a word ends, where it is one of a secret; else nothing. Some have two words: ``door code``."""
    name = found["name"]
    if is_hidden_name(name) or name == "PWD":
        return name
    before = _TWO_WORDS.search(name) and _WORDS_BEFORE.search(text, max(0, found.start() - 16), found.start())
    both = f"{before.group()}{name}" if before else ""
    return both if is_hidden_name(both) else ""


def _behind(known: _Text, name: str, start: int, end: int) -> Span | None:
    """Where the value stands of the name that ends here, if it has one that may be secret."""
    text = known.text
    way = _TO_VALUE.match(text, end)
    value = way and _VALUE.match(text, way.end())
    if not way or not value:
        return None
    other = _OR.match(text, way.end()) if way["assigns"] else None
    is_other = other and may_lock(other["secret"])
    return _span(known, name, start, way, value) or (other.span("secret") if other and is_other else None)


def _span(known: _Text, name: str, start: int, way: re.Match[str], value: re.Match[str]) -> Span | None:
    """Where the value of a name stands, if it may be secret."""
    for kind in ("quoted", "long"):
        if value[kind] is not None:
            if _COMMA.search(known.text, max(0, start - 9), start) and _ANOTHER.match(known.text, value.end()):
                return None  # The first of several values is of the first name.
            return value.span(kind) if _is_quoted_secret(name, way, value[kind]) else None
    if value["ticked"] is not None:
        may_be = may_lock(value["ticked"]) and (is_mixed(value["ticked"]) or not _WORDY.search(name))
        return value.span("ticked") if may_be else None
    bare = value["bare"].rstrip(".,:)]}*?")
    if "\n" in (way["space"] or "") or not _is_bare_secret(known, name, start, way, bare, value):
        return None
    return value.start("bare"), value.start("bare") + len(bare)


def _is_quoted_secret(name: str, way: re.Match[str], value: str) -> bool:
    if name == "PWD":
        return not value.startswith(("/", "~", "$", "\\"))
    word = value.strip()
    if len(word) < _SHORTEST or word.lower() in NO_VALUES or is_plain(value) or _NO_STRING.match(value):
        return False
    # Sentences say to pass ``'ignore'``.
    is_wordy = _WORDY.search(name) or (way["blank"] and name.lower() == "pass")
    if (word.isalpha() and is_hidden_name(word)) or (is_wordy and not is_mixed(word) and not is_number(word)):
        return False
    return way["blank"] is None or " " not in value


def _is_bare_secret(known: _Text, name: str, start: int, way: re.Match[str], bare: str, value: re.Match[str]) -> bool:
    """Whether a value without quotes may be secret: it is odd, or a word in a place where no program has one."""
    if name == "PWD" or not may_lock(bare) or (is_hidden_name(bare) and not is_mixed(bare)):
        return False
    text, at = known.text, value.start("after")
    ends = _SECRET_VALUE_ENDS.match(text, value.start("bare") + len(bare)) is not None
    if is_number(bare) or (is_mixed(bare) and len(bare) >= _SHORTEST_ODD):
        is_loose = way["blank"] and (known.is_code or name.lower() in COMMON_NAMES)
        return is_pin(name) or not (is_loose and (is_number(bare) or is_passed(name, bare) or "," in way["blank"]))
    if _WORDY.search(name):
        return False
    in_sentence = name.lower() in COMMON_NAMES and not ends
    if way["cell"]:
        return _BAR.search(text, max(0, start - 20), start) is not None and not _HEADS_TABLE.match(text, at)
    if way["verb"]:
        return way["verb"].lower() in _SURE_VERBS and not in_sentence
    if way["blank"]:
        says_it = _DIVIDED.search(name) is not None or _ALONE.search(text, max(0, start - 40), start) is not None
        says_it = (
            says_it or way["blank"] != " " or (_DIVIDED.search(bare) is not None and name.lower() not in COMMON_NAMES)
        )
        # ``Password protection`` begins a sentence or names a field; ``PW dragon`` is a note.
        is_title = name[0].isupper() and way["blank"] == " "
        is_note = name.isupper() and not bare[0].isupper() and name.lower() not in COMMON_NAMES
        ends = ends or (name.startswith("--") and _FLAG.match(text, at) is not None)
        return says_it and ends and not known.is_code and (not is_title or is_note) and way["blank"].isspace()
    if ":" in way["assigns"]:
        return ends or not _GOES_ON.match(text, at)
    return _is_setting(known, start, way, bare, ends=ends)


def _is_setting(known: _Text, start: int, way: re.Match[str], bare: str, *, ends: bool) -> bool:
    """Whether ``NAME=word`` is of no program."""
    tight = not way["space"] and not way["assigns"][0].isspace()
    line = known.text[max(0, start - 40) : start].rpartition("\n")[2]
    if way["assigns"].strip() in ("==", "~=", "!=") or "local " in line:
        return False
    return (tight or ends) and (not known.is_code or (known.is_alone(bare) and (tight or not line.strip("-"))))


def _below_names(text: str) -> Iterator[Span]:
    """Values alone on a line, below a line that has only a name, or that asks for it."""
    asked = ""
    for line in _LINE.finditer(text):
        start, end = line.span()
        start = _FOUND_HEAD.match(text, start, end).end()  # type: ignore[union-attr]
        start = _LINE_HEAD.match(text, start, end).end()  # type: ignore[union-attr]
        content = text[start:end].strip()
        if not content:
            continue
        if asked and (answer := _ANSWER.fullmatch(text, start, end)):
            kind = "quoted" if answer["quoted"] else "word"
            # ``pass`` alone is a statement of Python, below which words stand and ``@classmethod``.
            is_value = asked != "pass" or (is_mixed(answer[kind]) and answer[kind][0].isalnum())
            if is_value and may_lock(answer[kind]) and not is_hidden_name(answer[kind]):
                yield answer.span(kind)
        asked = content if _asks(content) else ""


def _asks(content: str) -> bool:
    """Whether a line has only the name of a secret, or asks for one; a name with a comma is one of a list."""
    words = content.strip(" \t:*?\"'`#").split()
    if not words or len(content) > _LONGEST_QUESTION or content[-1] in ",;":
        return False
    named = is_hidden_name(words[-1]) or is_hidden_name("".join(words[-3:]))
    if content.endswith("?"):
        return named or any(is_hidden_name(word) for word in words)
    return named and (len(words) == 1 or (content.endswith(":") and len(words) <= 4) or len("".join(words)) <= 14)


def _in_columns(text: str) -> Iterator[Span]:
    """Values in the columns of a table whose head is the name of a secret."""
    columns, row = dict[int, str](), list[re.Match[str]]()
    for line in re.finditer(r"[^\n]+|(?<=\n)(?=\n)", text):
        if _RULE.fullmatch(line.group()):
            columns = columns or {at: one["cell"] for at, one in enumerate(row) if is_hidden_name(one["cell"])}
            row = []
        elif _BARS.search(line.group()):
            row = list(_CELL.finditer(text, *line.span()))
            for at, one in enumerate(row):
                if at in columns and _is_cell_secret(columns[at], one["cell"]):
                    yield one.span("cell")
        else:
            columns, row = {}, []


def _is_cell_secret(name: str, value: str) -> bool:
    """Whether a cell below a name may be secret; below a name that sentences have, only what no word is."""
    if name.lower() in COMMON_NAMES or _WORDY.search(name):
        return is_made_up(value) or is_number(value)
    return may_lock(value) and " " not in value and not is_hidden_name(value)
