"""Values that are secret by their place: an argument of ``login``, a column of a table of players, a flag of a command.

Only hosted models are kept from them.
"""

import re
from bisect import bisect
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from orchestrator.core.text.redact import has_odd_piece, is_generated
from orchestrator.core.text.secret_names import Span
from orchestrator.core.text.secret_values import NO_VALUES, has_name_stem, is_hidden_name, may_lock
from orchestrator.core.text.secret_words import has_one

# -- Values that are secret by their place: an argument of ``login``, a column of a table of players, a flag of a
# command

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
            "bearer;token;basic;identified;pragma;securestring",
            rf"""(?:\bformat\([ ]?["'](?i:bearer|token|basic)[ ]%s["'],\s?
                 |["'](?i:bearer|token|basic)[ ]["'][ ]?\.\.[ ]?
                 |\b(?i:identified[ ]by|pragma[ ]key[ ]?=|ConvertTo-SecureString(?:[ ]-String)?)[ ]){_STRING}""",
        ),
        (
            "sha;md5(;pbkdf2(;hash",
            rf"""(?<![a-z_])(?:sha[0-9]{{1,3}}|md5|pbkdf2|hash)(?:hex|sum|_?string)?\([ ]?
                (?=["'][^"'\n]{{4,200}}["']\)){_STRING}""",
        ),
        # A table of passwords that is given one.
        (
            "passwords[;passwd[;secrets[;credentials[;logins[;pins[",
            rf"""(?:[pP]asswords|[pP]asswd|[sS]ecrets|[cC]redentials|[lL]ogins|[pP]ins)\[[^\[\]\n]{{1,60}}\][ ]?
                [=~]?=[ ]?{_STRING}""",
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
        # Lines of ``.pgpass`` behind other words.
        (
            ":54;:*:",
            r"""(?<![\w.-])[\w.-]{1,99}:(?:54[0-9]{2}|\*):[^\s:"']{1,60}:[^\s:"']{1,60}:
                (?P<secret>[^\s:"'\\|]{4,99})""",
        ),
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
            r"""\b(?i:log-?in|credentials?|zugangsdaten|zugang|account|user):?[ ](?:with[ ]|as[ ]|mit[ ])?
                [\w.@-]{1,40}[ ]?/[ ](?P<secret>\S{4,100})""",
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
    r"""\b(?P<name>\w{1,40})[ ]?=[ ]?(?:\w{1,20}\()?(?:io\.)?read[ ]?\([ ]?(?P<star>\\{0,7}["'][^"'\n\\]\\{0,7}["'])?"""
)
_ASKS: Final = re.compile(r"pass|pwd|\bpw\b|secret|\bpin\b|token|code|kennwort", re.I)
_BEFORE: Final = 120
_COMPARED: Final = re.compile(
    rf"""(?P<name>\b\w{{1,40}}|read\([ ]?\\{{0,7}}["'][^"'\n\\]\\{{0,7}}["'][^()\n]{{0,40}}\))
         (?:[:.]lower\(\))?\)?[ ]?[=~]=[ ]?
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
        if has_one(small, needs):
            yield from (one.span("secret") for one in place.finditer(text) if may_lock(one["secret"]))
    yield from _compared(text) if "read" in small else ()
    if not has_name_stem(text):
        return
    for needs, place in _NAMED_PLACES:
        for found in place.finditer(text) if has_one(small, needs) else ():
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
    """Texts that are compared with what a person typed behind stars or after a question for a password."""
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


# -- Secrets in files whose every line counts: settings of the environment, private keys
#
# Only hosted models are kept from them.

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
"""The text between the beginning of a key and its letters: ``Proc-Type: 4,ENCRYPTED``."""
_OF_KEY: Final = re.compile(
    r"""[-+ \t]{0,40}["']?(?P<secret>[A-Za-z0-9+/]{1,100}={0,2})(?:\\{1,3}[rn])*["']?\s*"""
    r"""(?:\\|,|\.\.|(?:--|\#)[^\n]*)?"""
)
_PIECE_OF_KEY: Final = re.compile(r"(?P<piece>[A-Za-z0-9+/]{4,}={0,2})")
"""A key whose lines were joined by blanks has such pieces between its beginning and its end."""
_LONG_PIECE: Final = re.compile(
    r"(?<![\w+/=.:-])(?=[A-Za-z+/]{0,99}[0-9])(?P<piece>[A-Za-z0-9+/]{14,}={0,2})(?![\w+/=.:(-])"
)
_TAIL: Final = r"""(?=(?:\\{1,3}[rn])*["']?\s*(?:\\|,|\.\.|[|│║┃]|(?:--|\#)[^\n]*)?$)"""
_PADDED_PIECE: Final = re.compile(rf"(?<![\w+/=.:-])(?P<piece>[A-Za-z0-9+/]{{1,100}}={{1,2}}){_TAIL}", re.M)
_LAST_PIECE: Final = re.compile(rf"(?<![\w+/=.:-])(?P<piece>[A-Za-z0-9+/]{{1,100}}={{0,2}}){_TAIL}", re.M)
"""The last piece of a line: in the last line of a key any text, in others the padding."""
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
    """Whether a value of a ``.env`` may be secret: it is not a number, host, path or usual word."""
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
            # The text before an end whose beginning was not seen is public, too.
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
    """The pieces of a key in a line that has more: its author, its number, or other pieces."""
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
