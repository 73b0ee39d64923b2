"""Values that are secret by their place: an argument of ``login``, a column of a table of players, a flag of a command.

Only hosted models are kept from them.
"""

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.core.text.secret_names import Span
from orchestrator.core.text.secret_words import NO_VALUES, is_hidden_name, may_lock

_STRING: Final = r"""(?P<q>\\{0,7}["'])(?P<secret>(?:(?!(?P=q))[^\n]){4,200})(?P=q)"""
_SKIPPED: Final = r"""(?:\\{0,7}["'][^"'\n\\]{1,60}\\{0,7}["'],\s?)"""
_WORD: Final = r"""["']?(?P<secret>(?!HTTP/)[^\s"'`;|&<>()\[\]{}$\\]{4,200})"""

_PLACES: Final = (
    # Calls that are given a password.
    re.compile(
        rf"""\b(?:log_?[iI]n|sign_?[iI]n|authenticate|(?:register|create|add)_?[uU]ser)[ ]?\([ ]?{_SKIPPED}{{1,2}}
            {_STRING}""",
        re.X,
    ),
    re.compile(
        rf"""(?:(?<=[.:])(?:auth|identify)\(
             |(?:crypt|hmac\w{{0,20}}|cipher)\((?=["'][^"'\n]{{4,200}}["'],)
             |\b(?:connect|new[ ]PDO)\([ ]?{_SKIPPED}{{2}}
             |\bformat\([ ]?["'](?i:bearer|token|basic)[ ]%s["'],\s?
             |(?<![a-z_])(?:sha[0-9]{{1,3}}|md5|pbkdf2|hash)(?:hex|sum|_?string)?\([ ]?(?=["'][^"'\n]{{4,200}}["']\))
            ){_STRING}""",
        re.X,
    ),
    # Commands: of players, of brokers, of programs that lock files.
    re.compile(
        rf"""(?:(?:^|(?<=[\s:"'`]))/(?:login|register|changepassword|unregister)[ ]
             |\bmosquitto_[ps]ub\b[^\n]{{0,200}}?[ ]-P[ ]
             |\bopenssl\b[^\n]{{0,200}}?[ ](?:-k[ ]|-[kK][ ]|-pass(?:in|out)?[ ]pass:)
             |\b(?:zip|unzip|7z|unrar|rar)\b[^\n]{{0,200}}?[ ]-[pP][ ]?|\bsshpass[ ]-p[ ]?
             |\bnet[ ]use\b[^\n]{{0,200}}?[ ](?=\S{{4,200}}[ ]/user:)
             |\b(?:ldapsearch|ldapadd)\b[^\n]{{0,200}}?[ ]-w[ ]
             |\bhtpasswd[ ]-\w{{0,4}}b\w{{0,4}}[ ]\S{{1,60}}[ ]\S{{1,60}}[ ]
             |\bcurl\b[^\n]{{0,200}}?[ ](?:-u|--user)[ =]?["']?[^\s:"']{{1,60}}:
             |\becho[ ](?:-n[ ])?(?=\S{{4,200}}[ ]{{0,3}}\|[ ]{{0,3}}sudo\b)
            ){_WORD}(?=["'`]|\s|$|\\|;)""",
        re.X | re.M,
    ),
    re.compile(r"/register[ ]\S{4,100}[ ](?P<secret>\S{4,100})$", re.M),
    # Wireless networks in a code to scan, data sources of Go, error texts, credentials with a stroke, a change.
    re.compile(r"\bWIFI:[^\n]{0,100}?P:(?P<secret>[^;\n]{4,100});"),
    re.compile(r"(?<![\w.-])[\w.-]{1,40}:(?P<secret>[^\s:@/'\"`]{4,100})@(?:tcp|udp|unix)?\("),
    re.compile(
        r"\b(?:log-?in|credentials?|zugangsdaten|zugang|account|user):?[ ][\w.@-]{1,40}[ ]?/[ ](?P<secret>\S{4,100})",
        re.I,
    ),
)
_NAMED_PLACES: Final = (
    re.compile(
        rf"""\b(?P<name>(?:set|check|verify|is|change|try|with|use|compare|test)_?\w{{2,40}})[ ]?\("""
        rf"""[ ]?{_SKIPPED}?{_STRING}[ ]?\)"""
    ),
    re.compile(rf"""\bfunction[ ](?P<name>[\w.:]{{2,60}})[ ]?\([^)\n]{{0,80}}\)\s{{1,40}}return[ ]{_STRING}"""),
    re.compile(
        rf"""\b(?:get|set|define|put|add\w{{0,12}}|header)\([ ]?["'](?P<name>[\w.-]{{2,80}})["'],\s?
            (?:\{{[^{{}}]{{0,200}}?default\s?=\s?)?{_STRING}""",
        re.X,
    ),
    re.compile(rf"""\bstring[ ]{_STRING}[ ]\((?:field|local|upvalue|global|constant)[ ]'(?P<name>[\w.-]{{2,80}})'\)"""),
    re.compile(
        r"(?:^|--|#|//)[ ]{0,4}(?P<secret>[^\s\"'`]{4,100})[ ]\((?:the[ ]|our[ ])?(?:old|new|former|alte[sr]?)[ ]"
        r"(?P<name>[\w.-]{2,80})",
        re.M,
    ),
    re.compile(
        rf"""=[ ]?{_STRING}[,;]?[ ]{{0,20}}(?:--|//|\#)[ ](?:the[ ]|our[ ]|my[ ]|old[ ])?(?P<name>[\w.-]{{2,80}})""",
        re.X,
    ),
    re.compile(r"(?<![\w.-])(?P<name>[\w.-]{2,80})[ ](?:was[ ])?changed[ ]from[ ](?P<secret>\S{4,100})[ ]to\b", re.I),
    re.compile(
        r"(?<![\w.-])(?P<name>[\w.-]{2,80})[ ](?:was[ ])?changed[ ](?:from[ ]\S{4,100}[ ])?to[ ](?P<secret>\S{4,100})",
        re.I,
    ),
    re.compile(
        rf"""\bopen\([ ]?["'][\w./ -]{{0,80}}?(?P<name>[\w.-]{{2,40}})["'],\s?["'][wa]b?["']\)
            [^"']{{0,120}}?\.write(?:Line)?\([ ]?{_STRING}""",
        re.X,
    ),
)
"""Here the name says it, too."""

_PLAYERS: Final = re.compile(
    r"""\b(?:users|accounts|passwords|logins|credentials|user_?[pP]asswords|passwd|pins|user_?[dD][bB])[ ]?[=:][ ]?\{
        (?P<list>[^\n]{0,400}(?:\n[ \t}][^\n]{0,200}){0,60})""",
    re.X,
)
_PLAYER: Final = re.compile(
    rf"""(?:(?P<key>[\w.-]{{1,40}})(?:["']?\])?["']?[ ]?[=:][ ]?
        |\{{[ ]?["'](?P<first>[^"'\n]{{1,40}})["'],[ ]?){_STRING}""",
    re.X,
)
_BRACES: Final = re.compile(r"[{}]")
_NO_PLAYERS: Final = re.compile(
    r"(?:user_?)?name|rank|roles?|group|colou?r|uuid|id|mail|email|home|world|lang|title|label|type|team|host|path|side",
    re.I,
)
_ROLES: Final = frozenset(
    {"admin", "owner", "member", "guest", "moderator", "user", "vip", "builder", "online", "offline"}
)

_READ: Final = re.compile(
    r"""\b(?P<name>\w{1,40})[ ]?=[ ]?(?:\w{1,20}\()?(?:io\.)?read[ ]?\([ ]?(?P<star>["'][^"'\n]["'])?"""
)
_ASKS: Final = re.compile(r"pass|pwd|\bpw\b|secret|\bpin\b|token|code|kennwort", re.I)
_BEFORE: Final = 120
_COMPARED: Final = re.compile(
    rf"""(?P<name>\b\w{{1,40}}|read\([ ]?["'][^"'\n]["'][^()\n]{{0,40}}\))(?:[:.]lower\(\))?\)?[ ]?[=~]=[ ]?
         (?:tostring\(|(?P<other>[A-Za-z_]\w{{0,40}})\b|(?P<number>[0-9]{{4,12}})|(?:\w{{1,20}}\()?{_STRING})""",
    re.X,
)
_REVERSED: Final = re.compile(rf"""{_STRING}[ ]?[=~]=[ ]?(?P<name>\w{{1,40}})""", re.X)
_GIVEN: Final = re.compile(rf"""\b(?P<name>\w{{1,40}})[ ]?=[ ]?{_STRING}""", re.X)
_MANY: Final = re.compile(
    r"""(?<![\w.,])(?P<names>[\w.]{1,40}(?:,[ ]?[\w.]{1,40}){1,5})[ ]?=[ ]?"""
    r"""(?P<values>["'][^"'\n]{0,200}["'](?:,[ ]?["'][^"'\n]{0,200}["']){1,5})"""
)
_ONE: Final = re.compile(r"""["'](?P<secret>[^"'\n]{0,200})["']""")


def placed_values(text: str) -> Iterator[Span]:
    """Where values stand that their place calls secret; they may overlap."""
    for place in _PLACES:
        yield from (one.span("secret") for one in place.finditer(text) if may_lock(one["secret"]))
    for place in _NAMED_PLACES:
        for one in place.finditer(text):
            if is_hidden_name(one["name"]) and one["secret"].lower() not in NO_VALUES:
                yield one.span("secret")
    for players in _PLAYERS.finditer(text):
        yield from _of_players(text, *players.span("list"))
    yield from _of_many(text)
    yield from _compared(text)


def _of_players(text: str, start: int, end: int) -> Iterator[Span]:
    """Values of a table of players: ``steve = "..."`` and ``{"steve", "..."}``; what else it says of them stays."""
    depth, at = 0, start
    for one in _PLAYER.finditer(text, start, end):
        for brace in _BRACES.findall(text, at, one.start()):
            depth += 1 if brace == "{" else -1
            if depth < 0:
                return
        at = one.start()
        is_player = one["first"] or (not depth and not _NO_PLAYERS.fullmatch(one["key"]))
        if is_player and one["secret"].lower() not in _ROLES and may_lock(one["secret"]):
            yield one.span("secret")


def _of_many(text: str) -> Iterator[Span]:
    """Values of ``user, gh_pat = "steve", "..."``."""
    for many in _MANY.finditer(text):
        values = _ONE.finditer(text, *many.span("values"))
        for name, value in zip(many["names"].split(","), values, strict=False):
            if is_hidden_name(name) and may_lock(value["secret"]):
                yield value.span("secret")


def _compared(text: str) -> Iterator[Span]:
    """What a person's input is compared with, where it was typed behind stars or behind a question for a password."""
    typed = {
        one["name"]
        for one in _READ.finditer(text)
        if one["star"] or _ASKS.search(text, max(0, one.start() - _BEFORE), one.start())
    }
    wanted = set[str]()
    for one in (*_COMPARED.finditer(text), *_REVERSED.finditer(text)):
        groups = one.groupdict()
        if one["name"] in typed or one["name"].startswith("read"):
            kind = "secret" if one["secret"] else "number"
            wanted.add(groups.get("other") or "")
            if groups.get(kind) and groups[kind].lower() not in NO_VALUES:
                yield one.span(kind)
    for one in _GIVEN.finditer(text) if wanted else ():
        if one["name"] in wanted and one["secret"].lower() not in NO_VALUES:
            yield one.span("secret")
