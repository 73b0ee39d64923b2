"""Secrets that are known by their shape, whatever they are called: keys of well-known services, our own tokens."""

import re
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Final

from orchestrator.core.text.secret_names import Span
from orchestrator.core.text.secret_words import has_odd_letters, has_one, is_made_up, is_number, looks_random, may_hide

_KEYS: Final = re.compile(
    r"""(?=[A-Zcdegnpswx])(?:   # So long and odd that they are keys behind a letter, too
        cc[a-z]_(?:[a-z0-9-]{1,32}\.)?+(?=[\w-]{0,42}[0-9])(?=[\w-]{0,42}[A-Z])[\w-]{43,}+
      | A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])
      | gh[opsur]_[A-Za-z0-9]{36,}+ | github_pat_\w{22,}+
      | gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,}+
      | xox[abeoprs]-[\w-]{10,}+ | xapp-[0-9]-[\w-]{10,}+
      | sk-(?:ant-[a-z]{3,5}[0-9]{2}-|(?:proj|svcacct)-(?=[\w-]{0,39}[0-9])(?=[\w-]{0,39}[A-Z]))[\w-]{16,}+
      | sk-or-v1-[0-9a-f]{32,}+ | AIza[\w-]{35,}+ | GOCSPX-[\w-]{20,}+
      | [rs]k_(?:live|test)_(?=[A-Za-z0-9]{0,15}[0-9])[A-Za-z0-9]{16,}+ | whsec_[A-Za-z0-9]{16,}+
      | npm_[A-Za-z0-9]{36,}+ | pypi-AgE[\w-]{50,}+ | dop_v1_[a-f0-9]{64} | dckr_pat_[\w-]{20,}+
      | sntrys_[\w+/=-]{20,}+ | PMAK-[a-f0-9]{24}-[a-f0-9]{34} | shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}
      | eyJ[\w-]{10,300}\.eyJ[\w-]{10,}+\.[\w-]*+ | eyJ[\w-]{10,300}(?:\.[\w-]{8,}+){4}
      | AGE-SECRET-KEY-1[A-Z0-9]{50,}+
    )
    | (?:(?<![A-Za-z0-9])                                   # A word begins, or an escape or %20 ends
        |(?<=\\[abefnrtvz])|(?<=\\[0-9])|(?<=\\[0-9]{2})|(?<=\\[0-9]{3})
        |(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})
        |(?<=[\[;][0-9]m)|(?<=[\[;][0-9]{2}m)                # and a colour of a terminal
      )(?:
        cc[a-z]_(?:[a-z0-9-]{1,32}\.)?+[\w-]{43,}+          # ours: people, computers; with a cell
      | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])  # AWS
      | xapp-[\w-]{10,}+                                    # Slack
      | sk-(?:ant|proj|svcacct|admin|or)-[\w-]{16,}+        # Anthropic, OpenAI, OpenRouter
      | sk-[A-Za-z0-9]{20,}+                                # OpenAI, before 2024
      | gsk_[A-Za-z0-9]{20,}+ | xai-[A-Za-z0-9]{20,}+ | hf_[A-Za-z0-9]{30,}+
      | [rs]k_(?:live|test)_[A-Za-z0-9]{16,}+ | ya29\.[\w-]{20,}+ | pypi-[\w-]{50,}+ | SG\.[\w-]{16,64}\.[\w-]{16,}+
      | (?<!\w)(?<![\w-]-)eyJ[\w-]{10,}+\.[\w-]{10,}+\.[\w-]*+                # JWT
      | [MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}+            # Discord bots
      | [0-9]{8,10}:AA[\w-]{33,}+                           # Telegram bots
      | tvly-[\w-]{20,}+ | pplx-[A-Za-z0-9]{40,}+ | nvapi-[\w-]{40,}+ | r8_[A-Za-z0-9]{30,}+ | fw_[A-Za-z0-9]{20,}+
      | sq0(?:atp|csp)-[\w-]{20,}+ | lin_api_[A-Za-z0-9]{32,}+ | (?:ntn|secret)_[A-Za-z0-9]{40,}+
      | key-[a-z0-9]{32}(?![\w-]) | SK[0-9a-f]{32}(?!\w) | hv[sb]\.[\w-]{24,}+
      | \$(?:apr1|[1567y]|2[abxy]|argon2(?:id|i|d)|scrypt)\$[\w./$=,+-]{20,}+ # Passwords, hashed
      | EAA[A-Za-z0-9]{25,}+ | atlasv1\.[\w-]{40,}+
    )""",
    re.X | re.A,
)

_KEY_SIGNS: Final = (
    "KIA", "SIA", "BIA", "CCA", "gh", "gl", "xox", "xapp-", "sk-", "AIza", "GOCSPX-", "k_live_", "k_test_",
    "whsec_", "npm_", "pypi-", "dop_v1_", "dckr_pat_", "sntrys_", "PMAK-", "shp", "eyJ", "AGE-", "gsk_", "xai-", "hf_",
    "ya29.", "SG.", ":AA", "tvly-", "pplx-", "nvapi-", "r8_", "fw_", "sq0", "lin_api_", "ntn_", "secret_", "key-", "SK",
    "hvs.", "hvb.", "$", "EAA", "atlasv1.", "github_pat_",
)  # fmt: skip
"""Each of these keys but ours and Discord's has one of these signs."""
_OURS_OR_DISCORDS: Final = re.compile(r"cc[a-z]_|[MNO][\w-]{23,27}\.", re.A)
"""Not ``cc`` as a sign: the names of the tools have it."""

_MASKED_READ: Final = r"""read[ \t]{0,9}\([ \t]{0,9}\\{0,7}["'][^"'\n\\]\\{0,7}["'][^)\n"']{0,40}\)"""
"""The same in a string, where each quote has backslashes."""
_COMPARED: Final = r"""(?P<q>\\{0,7}["'])(?P<secret>(?:(?!(?P=q))[^"'\n])+)"""

_MADE_UP: Final = r"""(?P<secret>(?=\S{0,99}[0-9])(?=\S{0,99}[A-Za-z])[^\s:"'\\]{8,}+)"""

_PLACES: Final = (
    # The address stays, so that a reviewer sees who would be told.
    (
        ("discord",),
        re.compile(r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{5,20}/(?P<secret>[\w-]{8,}+)", re.I),
    ),
    (
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{8,}+)", re.I),
    ),
    (("webhook.office.com/",), re.compile(r"webhook\.office\.com/(?P<secret>[\w@/-]{20,}+)", re.I)),
    (("api.telegram.org/bot",), re.compile(r"api\.telegram\.org/bot(?P<secret>[0-9]{6,12}:[\w-]{20,}+)", re.I)),
    (
        ("akia", "asia"),
        re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}[\"',;:\s]{1,6}(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"),
    ),
    (
        ("password=", "passwd=", "pwd=", "sig="),
        re.compile(r"(?:^|[?&;\"'])(?:password|passwd|pwd|sig)=\{?(?P<secret>[^\s&;\"'`<>()\[\]{}]++)", re.I),
    ),
    (
        ("password=",),
        re.compile(
            r"\b(?:host|user|dbname)=[\w.-]+[ ](?:\w+=[\w.-]+[ ]){0,6}password=(?P<secret>[^\s,;\"'`<>()\[\]{}]++)",
            re.I,
        ),
    ),
    # A slash in a password is not allowed there, and people write it; behind a number it is the path behind a port.
    (
        (":",),
        re.compile(
            r":(?:\\{0,7}/){2}[^\s/:@\"'`<>()\[\]{}\\]*+:(?![0-9]{1,5}\\{0,7}/)(?P<secret>[^\s@\"'`<>()\[\]{}]{1,200}+)@"
        ),
    ),
    (
        ("bearer",),
        re.compile(r"(?:\b|(?<=\\[nrt]))bearer(?:[ \t]++|:[ \t]*+|%20)[\"']?(?P<secret>\w[\w.~+/-]{15,}+=*+)", re.I),
    ),
    (
        ("authorization",),
        re.compile(
            r"""authorization\\{0,7}["']?\]?[ \t]*+[:=][ \t]*+\\{0,7}["']?"""
            r"""(?:bearer|basic|token|digest|apikey|oauth)[ \t]++\\{0,7}["']?(?P<secret>\w[\w.~+/-]{2,}+=*+)""",
            re.I,
        ),
    ),
    (("/install",), re.compile(r"/install[ \t]++(?P<secret>[0-9A-Z]{4}-?[0-9A-Z]{4})(?![\w-])", re.I)),
    (
        ("pair",),
        re.compile(
            r"""\bpair(?:ing)?(?:[ _-]code)?\\{0,7}["']?[ \t]*+(?:[:=]|is|code)?[ \t]*+\\{0,7}["']?"""
            r"""(?P<secret>(?-i:[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}))(?![\w-])""",
            re.I,
        ),
    ),
    (
        ("curl", "sshpass", "mysql", "redis-cli"),
        re.compile(
            r"""(?:\b|(?<=\\n)|(?<=[0-9]m))(?:curl\b[^\n]{0,200}?[ \t](?:-[uU]|--(?:proxy-)?user)[ \t=]{0,3}["']?
             [^\s:"'`$]{1,60}:
            |(?:sshpass[ \t]{1,3}-p[ \t]?|mysql\w{0,9}\b[^\n]{0,200}?[ \t]-p|redis-cli\b[^\n]{0,200}?[ \t]-a[ \t])["']?)
            (?P<secret>(?![A-Z_]+\b)[^\s"'`$;|&<>()\[\]{}]{3,}+)""",
            re.X,
        ),
    ),
    # Lines of ``.pgpass`` and of Netscape's file of cookies.
    (
        (":*:", *(f"{digit}:" for digit in range(10))),
        re.compile(
            rf"""(?:^|(?<=\\n)|(?<=["']))[-+ \t]{{0,40}}[^\s:#"']{{1,99}}:(?:[0-9]{{1,5}}|\*)
                (?::[^\s:]{{1,60}}){{2}}:{_MADE_UP}""",
            re.X | re.M,
        ),
    ),
    (
        ("true\t", "true\\t", "false\t", "false\\t"),
        re.compile(
            rf"""(?<![\w.-])[\w.-]{{1,99}}(?:\t|\\t)(?:TRUE|FALSE)(?:\t|\\t)[^\s\\]{{1,99}}(?:\t|\\t)(?:TRUE|FALSE)(?:\t|\\t)
                [0-9]{{1,12}}(?:\t|\\t)[\w.-]{{1,99}}(?:\t|\\t){_MADE_UP}""",
            re.X | re.M,
        ),
    ),
    # Input that is read behind stars is compared with the password of a door.
    (
        ("==", "~="),
        re.compile(
            rf"""\b(?P<read>\w{{1,40}})[ \t]{{0,9}}=[ \t]{{0,9}}{_MASKED_READ}"""
            rf"""[\s\S]{{0,300}}?\b(?P=read)[ \t]{{0,9}}[=~]=[ \t]{{0,9}}{_COMPARED}"""
        ),
    ),
    (("==", "~="), re.compile(rf"""\b{_MASKED_READ}[ \t]*+[=~]=[ \t]*+{_COMPARED}""")),
)
"""Where a secret stands by what is around it; before each, what a text with it has in small letters: one of these."""

_PRIVATE_KEY: Final = re.compile(
    r"""-----BEGIN[ ](?:[A-Z0-9]{1,20}[ ]){0,4}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----(?P<secret>
            (?:[A-Za-z0-9+/=]|\\{1,7}[rn])+
          | (?:\r?\n[-+]?[ \t]{0,40}+(?:
                (?=\r?\n)
              | Proc-Type:[ ]4,ENCRYPTED | DEK-Info:[ ][\w,-]+ | [A-Za-z0-9+/]{16,}+={0,2}(?=[ \t]{0,9}(?:\r?\n|\Z))
              | (?=[a-z/+]*[A-Z0-9=])[A-Za-z0-9+/]{1,15}={0,2}(?=\r?\n[-+]?[ \t]{0,40}-----END)
            ))+
        )""",
    re.X,
)

_HEAD: Final = re.compile(
    r"-----BEGIN (?:(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V[0-9])-----|Private-Lines: [0-9]"
)
_FOOT: Final = re.compile(r"-----END |Private-MAC:")
_PIECE: Final = re.compile(
    r"""(?:["'`]|\\{1,7}[nrt])[ \t]{0,9}(?P<secret>=?[A-Za-z0-9+/]{4,}+={0,2})(?=[ \t]{0,9}(?:\\{1,7}[nr]|["'`]))"""
)
"""A line of a key that is in a string, with or without others."""
_KEY_LINE: Final = 24
_KEY_CHARS: Final = 20_000
_STATIC: Final = re.compile(r"^[-+ \t]{0,40}(?P<secret>[0-9a-f]{32})(?=[ \t]{0,9}\r?$)", re.M)

_SAID: Final = re.compile(
    r"""\b(?:password|passcode|passphrase|pin|token|api[ _-]?key|secret)[ \t]++(?P<verb>(?:is|to|was)[ \t]++)?"""
    r"""(?P<quote>["'`]?)(?P<secret>[^\s"'`,;()\[\]{}]++)""",
    re.I,
)
"""The way in which people write it: the password is hunter2."""
_SAID_STEMS: Final = ("pass", "pin", "token", "api", "secret")
_CODE: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}")


def shaped_secrets(text: str) -> Iterator[Span]:
    """Where in a text secrets of a known shape stand, in no order; they may overlap."""
    if has_one(text, _KEY_SIGNS) or _OURS_OR_DISCORDS.search(text):
        yield from (match.span() for match in _KEYS.finditer(text))
    small, is_odd = text.lower(), has_odd_letters(text)
    for stems, pattern in _PLACES:
        if is_odd or has_one(small, stems):
            yield from (match.span("secret") for match in pattern.finditer(text) if may_hide(match["secret"]))
    yield from (match.span("secret") for match in _PRIVATE_KEY.finditer(text))
    yield from _pieces_of_keys(text)
    for match in _SAID.finditer(text) if is_odd or has_one(small, _SAID_STEMS) else ():
        value = match["secret"].rstrip(".!?:")
        sure = match["quote"] or looks_random(value) or is_number(value)
        if may_hide(value) and (sure if match["verb"] else match["quote"] == "`" and is_made_up(value)):
            yield match.start("secret"), match.start("secret") + len(value)


def _pieces_of_keys(text: str) -> Iterator[Span]:
    """The lines of keys that are in strings: with line ends as a string has them, or each in a string of its own."""
    heads = list(_HEAD.finditer(text))
    for head, following in zip_longest(heads, heads[1:]):
        start, end = head.end(), following.start() if following else len(text)
        foot = _FOOT.search(text, start, end)
        end = min(foot.start() if foot else end, start + _KEY_CHARS)
        spans = [
            one.span("secret") for one in chain(_PIECE.finditer(text, start, end), _STATIC.finditer(text, start, end))
        ]
        if any(last - first >= _KEY_LINE for first, last in spans):
            # Behind a head without a foot a program may go on: its short words are of no key.
            yield from (one for one in spans if foot or one[1] - one[0] >= _KEY_LINE)


def is_pairing_code(text: str) -> bool:
    """Whether a text is only a pairing code as it is printed."""
    return _CODE.fullmatch(text) is not None
