"""Values that are secret by their place: an argument of ``login``, a column of a table of players, a flag of a command.

Only hosted models are kept from them.
"""

import re
from collections.abc import Iterator
from typing import Final

from orchestrator.core.text.secret_names import Span
from orchestrator.core.text.secret_words import NAME_STEM, NO_VALUES, is_hidden_name, may_lock

_STRING: Final = r"""(?P<q>\\{0,7}["'])(?P<secret>(?:(?!(?P=q))[^\n]){4,200})(?P=q)"""
_SKIPPED: Final = r"""(?:\\{0,7}["'][^"'\n\\]{1,60}\\{0,7}["'],\s?)"""
_WORD: Final = r"""["']?(?P<secret>(?!HTTP/)[^\s"'`;|&<>()\[\]{}$\\]{4,200})"""

_EDGE: Final = r"""(?=["'`]|\s|$|\\|;)"""

# Each place with what a text must have (in small letters) so that it is worth a look: one of these, divided by ``;``.
_PLACES: Final = tuple(
    (needs.split(";"), re.compile(place, re.X | re.M))
    for needs, place in (
        # Calls that are given a password.
        (
            "login;log_in;signin;sign_in;authenticate;user",
            rf"""\b(?:log_?[iI]n|sign_?[iI]n|authenticate|(?:register|create|add)_?[uU]ser)[ ]?\([ ]?{_SKIPPED}{{1,2}}
                {_STRING}""",
        ),
        (
            "auth(;identify(;crypt(;cipher(;hmac;connect(;new pdo(",
            rf"""(?:(?<=[.:])(?:auth|identify)\(|(?:connect|new[ ]PDO)\([ ]?{_SKIPPED}{{2}}
                 |(?:crypt|hmac\w{{0,20}}|cipher)\((?=["'][^"'\n]{{4,200}}["'],)){_STRING}""",
        ),
        (
            "bearer;token;basic;identified;pragma",
            rf"""(?:\bformat\([ ]?["'](?i:bearer|token|basic)[ ]%s["'],\s?
                 |["'](?i:bearer|token|basic)[ ]["'][ ]?\.\.[ ]?
                 |\b(?i:identified[ ]by|pragma[ ]key[ ]?=)[ ]){_STRING}""",
        ),
        (
            "sha;md5(;pbkdf2(;hash",
            rf"""(?<![a-z_])(?:sha[0-9]{{1,3}}|md5|pbkdf2|hash)(?:hex|sum|_?string)?\([ ]?
                (?=["'][^"'\n]{{4,200}}["']\)){_STRING}""",
        ),
        # Commands: of players, of brokers and databases, of programs that lock files.
        (
            "/login;/register;/changepassword;/unregister;sshpass;htpasswd;sudo;net use;curl;auth",
            rf"""(?:(?:^|(?<=[\s:"'`]))/(?:login|register|changepassword|unregister)[ ]|\bsshpass[ ]-p[ ]?
                 |\bhtpasswd[ ]-\w{{0,4}}b\w{{0,4}}[ ]\S{{1,60}}[ ]\S{{1,60}}[ ]
                 |\becho[ ](?:-n[ ])?(?=\S{{4,200}}[ ]{{0,3}}\|[ ]{{0,3}}sudo\b)
                 |\bnet[ ]use\b[^\n]{{0,200}}?[ ](?=\S{{4,200}}[ ]/user:)
                 |\bcurl\b[^\n]{{0,200}}?[ ](?:-u|--user)[ =]?["']?[^\s:"']{{1,60}}:
                 |\b(?i:authorization|auth):[ ](?i:bearer|token|basic)[ ]
                ){_WORD}{_EDGE}""",
        ),
        (
            "mosquitto_;openssl;zip;7z;unrar;rar ;mongo;influx;sqlcmd;ldapsearch;ldapadd",
            rf"""(?:\b(?:mosquitto_[ps]ub|sqlcmd)\b[^\n]{{0,200}}?[ ]-P[ ]?
                 |\b(?:ldapsearch|ldapadd)\b[^\n]{{0,200}}?[ ]-w[ ]
                 |\bopenssl\b[^\n]{{0,200}}?[ ](?:-[kK][ ]|-pass(?:in|out)?[ ]pass:)
                 |\b(?:zip|unzip|7z|unrar|rar)\b[^\n]{{0,200}}?[ ]-[pP][ ]?
                 |\b(?:mongo|mongosh|influx)\b[^\n]{{0,200}}?[ ]-p[ ]){_WORD}{_EDGE}""",
        ),
        ("/register", r"/register[ ]\S{4,100}[ ](?P<secret>\S{4,100})$"),
        # Addresses, networks in a code to scan, and a user and a password with a stroke between them.
        ("://", r"""://(?P<secret>(?=[A-Za-z_-]{0,99}[0-9])[\w-]{20,200}):[^\s/@"']{0,40}@"""),
        ("wifi:", r"\bWIFI:[^\n]{0,100}?P:(?P<secret>[^;\n]{4,100});"),
        (
            "@",
            r"""(?<![\w.-])(?!mailto|e?mail|to:|from:)[\w.-]{1,40}:(?P<secret>[^\s:@/'"`]{4,100})
                @(?:(?:tcp|udp|unix)?\(|[\w-]+\.\w|localhost\b)""",
        ),
        ("thin:", r"""\bthin:[\w.-]{1,40}/(?P<secret>[^\s"'`]{4,100})@"""),
        (
            " / ",
            r"""\b(?i:log-?in|credentials?|zugangsdaten|zugang|account|user):?[ ][\w.@-]{1,40}[ ]?/[ ]
                (?P<secret>\S{4,100})""",
        ),
    )
)
_NAMED_PLACES: Final = tuple(
    (needs.split(";"), re.compile(place, re.X | re.M))
    for needs, place in (
        (
            "set;check;verify;is;change;try;with;use;compare;test",
            rf"""\b(?P<name>(?:set|check|verify|is|change|try|with|use|compare|test)_?\w{{2,40}})[ ]?\([ ]?
                {_SKIPPED}?{_STRING}[ ]?\)""",
        ),
        ("return", rf"""\bfunction[ ](?P<name>[\w.:]{{2,60}})[ ]?\([^)\n]{{0,80}}\)\s{{1,40}}return[ ]{_STRING}"""),
        (
            "get(;set(;define(;put(;add;header(",
            rf"""\b(?:get|set|define|put|add\w{{0,12}}|header)\([ ]?["'](?P<name>[\w.-]{{2,80}})["'],\s?
                (?:\{{[^{{}}]{{0,200}}?default\s?=\s?)?{_STRING}""",
        ),
        (
            "open(",
            rf"""\bopen\([ ]?["'][\w./ -]{{0,80}}?(?P<name>[\w.-]{{2,40}})["'],\s?["'][wa]b?["']\)
                [^"']{{0,120}}?\.write(?:Line)?\([ ]?{_STRING}""",
        ),
        (
            "string ",
            rf"""\bstring[ ]{_STRING}[ ]\((?:field|local|upvalue|global|constant)[ ]'(?P<name>[\w.-]{{2,80}})'\)""",
        ),
        (
            " (",
            r"""(?:^|--|\#|//)[ ]{0,4}(?P<secret>[^\s"'`]{4,100})[ ]\((?:the[ ]|our[ ])?(?:old|new|former|alte[sr]?)[ ]
                (?P<name>[\w.-]{2,80})""",
        ),
        (" (", r"""\b(?:its|it's|is)[ ](?P<secret>[^\s"'`]{4,100})[ ]\((?:the[ ])?(?P<name>[\w.-]{2,60})\)"""),
        (
            "--;//;#",
            rf"""=[ ]?{_STRING}[,;]?[ ]{{0,20}}(?:--|//|\#)[ ](?:the[ ]|our[ ]|my[ ]|old[ ])?
                (?P<name>[\w.-]{{2,80}})""",
        ),
        (
            "changed from;geändert von",
            r"""(?<![\w.-])(?P<name>[\w.-]{2,80})[ ](?:was[ ])?(?:changed[ ]from|geändert[ ]von)[ ]
                (?P<secret>\S{4,100})[ ](?:to|auf|zu)\b""",
        ),
        (
            "changed ;geändert ",
            r"""(?<![\w.-])(?P<name>[\w.-]{2,80})[ ](?:was[ ])?(?:changed|geändert)[ ](?:(?:from|von)[ ]\S{4,100}[ ])?
                (?:to|auf|zu)[ ](?P<secret>\S{4,100})""",
        ),
        (
            ":format(",
            rf"""(?<![\w.-])(?P<name>[\w.-]{{2,60}})["']?\]?[ ]?=[ ]?\(["'][^"'\n]{{1,60}}["']\):format\({_STRING}""",
        ),
        ("):;).", rf"""\([ ]?(?P<name>[\w.-]{{2,60}})[ ]?\)[:.]\w{{2,20}}\({_STRING}"""),
        (
            "setenv;setx;env;arg;define",
            r"""\b(?:setenv|setx|ENV|ARG|define)[ ]{1,9}(?P<name>[\w.-]{2,60})[ ]{1,9}["']?
                (?P<secret>[^\s"']{4,100})""",
        ),
        (
            "value",
            r"""\b(?:name|key|id)(?:=["']|:[ ]["']?)(?P<name>[\w.-]{2,60})["']?(?:[ ]type=["']\w{1,20}["'])?
                \s{1,40}value(?:=|:[ ])["']?(?P<secret>[^\s"'<>]{4,100})""",
        ),
        # A statement of SQL, a list of two, a cell of HTML, a sentence.
        ("values", rf"""(?P<name>\b\w{{2,60}})[ ]?\)[ ](?i:values)[ ]?\([^()\n]{{0,200}}?{_STRING}[ ]?\)"""),
        ("[;{", rf"""[\[{{][ ]?["'](?P<name>[\w.-]{{2,60}})["'],[ ]?{_STRING}[ ]?[\]}}]"""),
        (
            "</",
            r"""<(?:t[dh]|entry|key|string)[ ](?:key|name|id)=["'](?P<name>[\w.-]{2,60})["'][^<>\n]{0,80}>
                (?P<secret>[^<>\n]{4,100})</""",
        ),
        (
            "</",
            r"""<(?P<tag>t[dh]|key|b)>(?P<name>[\w.-]{2,60})</(?P=tag)>\s{0,20}
                <(?:t[dh]|string|code|i)>(?P<secret>[^<>\n]{4,100})</""",
        ),
        ("use ", r"""\buse[ ](?P<secret>[^\s"'`]{4,100})[ ]as[ ](?:the[ ]|your[ ]|our[ ])?(?P<name>[\w.-]{2,60})"""),
        (" is ", r"""^[ ]?(?P<secret>[^\s"'`]{4,100})[ ]is[ ](?:the|your|our|my)[ ](?P<name>[\w.-]{2,60})[.!]?$"""),
    )
)
"""Here a name says it, too."""

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
    small = text.lower()
    for needs, place in _PLACES:
        if any(one in small for one in needs):
            yield from (one.span("secret") for one in place.finditer(text) if may_lock(one["secret"]))
    yield from _compared(text) if "read" in small else ()
    if not NAME_STEM.search(text):
        return
    for needs, place in _NAMED_PLACES:
        for found in place.finditer(text) if any(one in small for one in needs) else ():
            if is_hidden_name(found["name"]) and found["secret"].lower() not in NO_VALUES:
                yield found.span("secret")
    for players in _PLAYERS.finditer(text):
        yield from _of_players(text, *players.span("list"))
    yield from _of_many(text)


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
