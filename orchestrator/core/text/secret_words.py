"""Names whose values hosted models are kept from, and words that are no value of such a name.

More names count here than where people read (``secret_names``): a wrong guess costs a model little.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from orchestrator.core.text.secret_names import is_made_up, is_perhaps_secret, is_pin, is_plain, is_secret_name

NAME_STEM: Final = re.compile(
    r"pass|pwd|pw|psk|pin|secret|token|credential|key|auth|cookie|sid|pepper|seed|salt|pat|bearer|code|kennwort"
    r"|geheim|contrase|clave|zugang|users|accounts|login|hmac|rcon|mdp",
    re.I,
)
"""Without one of these a word is no name to look at, which is so of nearly all words."""
_ENDS: Final = (
    "githubpat", "ghpat", "gitpat", "bearer", "zugangsdaten", "kennwort", "passwort", "password", "passphrase",
    "passwd",
    "contrasena", "motdepasse", "mdp", "secret", "pwd", "credentials", "adminpw", "rootpw", "dbpw", "userpw",
    "zugangscode", "geheimzahl", "schluesselwort", "schlusselwort", "recoverycode", "seedphrase", "githubtoken",
    "authtoken", "slacktoken", "bottoken", "accesstoken", "apitoken", "hmac", "salt",
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
"""Names that sentences have, too: behind them a word with more words behind it is none of a lock."""

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
    okay safe secure weak strong short long longer shorter same different public private random fine nope
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


@lru_cache(maxsize=4096)
def is_hidden_name(name: str) -> bool:
    """Whether a model may not see the value that has this name."""
    if not NAME_STEM.search(name):
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
