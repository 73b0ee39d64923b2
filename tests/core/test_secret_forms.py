"""Forms in which a secret is written, in each of the ways a text reaches a model; and texts like them without one."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from orchestrator.core.model_view.cuts import Rest, numbered
from orchestrator.core.model_view.masks import Mask
from orchestrator.core.task.facts import BlobRef
from orchestrator.core.task.task import StepCall, Turn

MARKER: Final = re.compile(r"\[redacted [0-9a-f]{8}\]")
RAW: Final = BlobRef(sha256="a" * 64, size=1)
LETTERS: Final = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"

# What stands between the signs is made up: K a key, W a password of people, N a PIN, T a token of Twilio, B bytes.
FORMS: Final = r"""
local pin = «N»
local pinCode = "«N»"
DOOR_PIN=«N»
safe_code: «N»
if pin == «N» then open() end
local key = { «B» }
"secretKey": [«B»]
curl -s -u bob:«W» https://example.org/v1
curl --user 'bob:«W»' https://example.org/v1
wget --http-password '«W»' https://example.org/f
redis-cli -a «W» ping
secret_key = b'«K»'
sshpass -p '«W»' ssh bob@farm
mysql -u root -p«W» farm
db.example.org:5432:farm:bob:«W»
.example.org\tTRUE\t/\tTRUE\t1893456000\tsession\t«K»
requirepass «W»
password = "«W»?"
<password>«W»?</password>
https://bob:«W»?@example.org/db
bob:«$apr1$K$K»
root:«$6$K$K»:19000:0:99999:7:::
{"bob": "«$argon2id$v=19$m=65536,t=3,p=4$K$K»"}
twilio «T»
client-key-data: «K»
local totpSeed = "«K»"
local pepper = "«K»"
the token `«K»` is for the API
local token = settings.get("tok") or "«K»"
password = «W» and then stop
https://farm.example.org/c?sp=r&sig=«%2FK%3D»
https://bob:«W/W»@example.org/db
"url": "https:\/\/bob:«W»@example.org"
Driver=x;Server=y;PWD={«W»};Database=z
Authorization: Bearer "«K»"
Authorization: ApiKey «K»
Bearer: «K»
curl "https://example.org?h=Bearer%20«K»"
password = «K» (of the farm)
API_KEY=«K» [old]
machine example.org login bob password "«W»"
client_secret=*«W»&A8r
access_token: "«1O^YO5MQ_M»"
password = "«$Tr0ng!W»"
password = "«%RYK»"
local password = ("«W»")
passwords = { "«W»", "«K»" }
{ name = "API_KEY", value = "«W»" }
logs/old/«K».txt
panic: cannot use «K/K»
local password <const> = "«W»"
local passwords = { bob = "«KW»" }
setPassword("«K»")
{"key": "password", "value": "«K»"}
password: !secret «K»
| password | «K» |
https://«K»@example.org/repo.git
x-access-token: «abcdefghijklmnopqrstuvwxy»
machine example.org login bob passwd «W»
key «AKIA50Y1LVSYEALX389N» of AWS
local password = "«Geheim(1)»"
local password = [[«pa{ss}word1»]]
if password == "«a'b[c]1»" then open() end
password: «correct-horse-battery»
local accessCode = «N»
encryptionKey=«MaRCE-PrSas-eSJi» (do not share)
said: secret: «MJmIdPHRZ^» (do not share)
  login bob\n  password «v%nY&fem*S»
f1/<psk>«W»<_psk>.txt
f1/local rcon.password = «odTeCLocpPwZ».txt
f1/redis__«zDGiIgGq8q»@cache6379_0.txt
setPassword("«oRUS7%nfwxy»")
local key = "«safo0J7tPxsIX8»"
local password = tostring("«coFPd5705DDHQZ»")
# Passwords\n\n| farm | user |\n|---|---|\n| bank | «9cG7&fEGQi» |
password\n--------\n«9cG7&fEGQi»
bob:«9cG7&fEGQi»@example.org
Cookie: session=«abcdefghijklmnopqrstuvwxy»
Authorization: Bearer+«abcdefghijklmnopqrstuvwxy»
host=db password='«MAZ:wlzVcj»'
-----BEGIN OpenVPN Static key V1-----\n«r80gv/g/IhvRdwjC»\n-----END OpenVPN Static key V1-----
attempt to call nil value near '«XqxWM4Xqjk37TaT/uVpShisTRM/Nx/8RdYT79DSj»'
print("if read(\"*\") == \"«W»\" then")
1,"local PIN = <Q>«N»<Q>"
1,"if read(<Q>*<Q>) == <Q>«W»<Q> then"
<pre>password = &quot;«W»&quot;</pre>
<pre>if read(&#39;*&#39;) == &#39;«W»&#39; then</pre>
<E>[32mmysql -u root -p«W» farm<E>[0m
<E>[1;32mdoorCode = «N»<E>[0m
<E>[32mwifi-sec.psk «W»<E>[0m
-----BEGIN PRIVATE KEY----- «SLVVlqIjxCUmSfde» «QLyiUjhY» -----END PRIVATE KEY-----
local k = { "-----BEGIN PRIVATE KEY-----",\n  "«U+sfUlMfaSxV»",\n"-----END PRIVATE KEY-----" }
""".strip().splitlines()

PLAIN: Final = r"""
gpio_pin = 17
local statusCode, errorCode = 2000, 4040
local pinned = 1234
local spin = 4321
local key = { 30, 48, 46, 32, 18, 33, 34, 35, 23, 36, 37, 38, 50, 49, 24, 25 }
local sprite = { 200, 201, 202, 255, 128, 0, 14, 99, 180, 240, 11, 12, 13, 14, 15, 16 }
local key = { 0xF0F0F0, 0xF2B233, 200, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
curl -u USER:PASSWORD https://example.org
curl -u "$USER:$PASS" https://example.org
curl -u bob https://example.org
mysql -u root -p farm
docker run -u 1000:1000 farm
localhost:5432:postgres:running:ok
12:30:45:100:ok
computer\tfarm\tTRUE\t12\tlabel\tdoor
requirepass is set by the admin
# requirepass foobared
password = "Password 2:"
wrong_password = "Is it right?"
token `farm` is unknown
local token = settings.get("tok") or "x"
local secretChamber = peripheral.wrap("minecraft:chest_12") -- x86_64
local token = lexer.next2ndToken(b64Encode(tokens))
local chars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
https://bob@example.org/repo.git
local name = settings.get("tok") or "K1K2K3K4K5K6K7K8"
[12:00:01] [main/INFO]: bob joined the game
  1: local seed = 8412938471928374
-- press the key F5 to start turtle_12
local passRate = computeRate2(x) -- minecraft:iron_ingot
key = keys.leftCtrl
local password = args.password or readPassword()
| key | move_forward2 |
bob@example.org
src/main/Java/com/Farm2/TurtleBase3/Main
pkg:cargo/proc-macro2@1.0.107
hotkey = "ctrl+shift+f5"
if key then return socket.AF_INET6 end -- with CRAM-MD5 and a token
concat -= (sizeEndCentDir64 + sizeEndCentDir64Locator)
password = "" or "" local b = ""
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4
sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC
3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f
""".strip().splitlines()

WAYS: Final[dict[str, Callable[[str], str]]] = {
    "plain": str,
    "file": lambda text: numbered(text.split("\n"), 1, 12_000, Rest("", numbered=True)),
    "find": lambda text: f"[1 match]\na.txt  9\n  7: {text}",
    "comment": lambda text: f"1| # {text}",
    "quotation": lambda text: f"> {text}",
    "log": lambda text: f"[12:33:01] [main/INFO]: {text}",
    "JSON": lambda text: json.dumps({"body": f"one\n{text}\ntwo"}),
}


def made(form: str, seed: str) -> tuple[str, list[str]]:
    """A form with made-up secrets in it, and these."""
    source = Random(seed)
    makes = {
        "K": lambda: "".join(source.choices(f"{LETTERS}23456789", k=22)) + "a7",
        "W": lambda: "".join(source.choices(LETTERS, k=9)) + "47",
        "N": lambda: "".join(source.choices("123456789", k=5)),
        "T": lambda: "SK" + "".join(source.choices("0123456789abcdef", k=32)),
        "B": lambda: ", ".join(str(source.randrange(100, 256)) for _ in range(15)) + ", 255",
    }
    for name, sign in (("\\t", "\t"), ("\\n", "\n"), ("<E>", "\x1b"), ("<Q>", '""')):
        form = form.replace(name, sign)
    pieces = re.split("[«»]", form)
    pieces[1::2] = [re.sub("[KWNTB]", lambda match: makes[match.group()](), piece) for piece in pieces[1::2]]
    return "".join(pieces), [piece.removeprefix("%2F").removesuffix("%3D") for piece in pieces[1::2]]


def told(text: str, *, tool: str = "cc_read", asked: str = "cc_read a.txt") -> str:
    """A result as the model is told it."""
    return Mask("t1").turn(Turn(raw=RAW, calls=(StepCall(tool=tool, text=text, asked=asked),)), "{}")[0].calls[0].text


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_of_a_form_is_told(way: str) -> None:
    """Whatever stands before the line, and whatever it stands in."""
    leaks = []
    for form in FORMS:
        text, secrets = made(form, form)
        shown = told(WAYS[way](text))
        leaks += [form for one in secrets if one in shown]
    assert leaks == []


@pytest.mark.parametrize("way", WAYS)
def test_a_text_like_it_without_a_secret_stays(way: str) -> None:
    masked = [line for line in PLAIN if MARKER.search(told(WAYS[way](line.replace("\\t", "\t"))))]
    assert masked == []


def test_a_large_letter_with_a_tilde_is_a_letter_of_a_name() -> None:
    assert MARKER.search(told('CONTRASEÑA="Sommer2024"'))


@pytest.mark.parametrize("value", ["m4x_m3y3r", "ZXIWJ7q_XLbshJBb"])
def test_a_value_of_an_env_file_with_a_low_line_is_masked(value: str) -> None:
    assert value not in told(f"NAME=farm\nDISCORD={value}\n", asked="cc_read farm/.env")


@pytest.mark.parametrize(("tool", "width"), [("cc_screen", 51), ("cc_run_program", 200)])
def test_a_secret_that_goes_on_in_the_next_row_is_masked(tool: str, width: int) -> None:
    """It is found as if on one line, and the rows stay."""
    text, (secret,) = made(f'local apiKey = "«{"K" * 12}»" -- of the farm', tool)
    result = "\n".join(
        [
            "Screen: 51 columns, 19 rows, cursor at column 1, row 1.",
            *(text[at : at + width] for at in range(0, len(text), width)),
        ]
    )
    shown = told(result, tool=tool)
    assert [at for at in range(len(secret) - 8) if secret[at : at + 8] in shown] == []
    assert shown.count("\n") == result.count("\n")
    assert shown.replace("\n", "").endswith('" -- of the farm')


WRAPPED: Final = (
    "ghp_{K}{K}",
    "Authorization: Bearer {K}{K}",
    'call("xoxb-314658550154-99{N}-{K}{K}{K}")',
    "sk-ant-api03-{K}{K}{K}{K}",
)


@pytest.mark.parametrize("head", ["", "Program a.lua executed successfully.\nOutput:\n", "[on the monitor left:]\n"])
@pytest.mark.parametrize("width", [15, 19, 26, 39, 51])
@pytest.mark.parametrize("form", WRAPPED)
def test_a_secret_in_a_narrow_window_is_masked(form: str, width: int, head: str) -> None:
    """Its rows are as wide as nobody tells; what stands below them stays."""
    source = Random(f"{form} {width}")
    keys = {"K": "".join(source.choices(f"{LETTERS}23456789", k=22)), "N": "".join(source.choices("123456789", k=8))}
    text = form.format(**keys)
    rows = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    shown = told(f"{head}{rows}\n\nall is well\n", tool="cc_run_program")
    assert [at for at in range(15) if keys["K"][at : at + 8] in shown.replace("\n", "")] == []
    assert shown.endswith("\n\nall is well\n")
    assert shown.count("\n") == f"{head}{rows}\n\nall is well\n".count("\n")


def test_a_netrc_password_in_the_next_line_is_masked() -> None:
    assert MARKER.sub("X", told("machine h login u\n\tpassword\n\tq7Kd93x\n")) == "machine h login u\n\tpassword\n\tX\n"


@pytest.mark.parametrize("name", ["prod.env", ".env.bak", ".envrc", ".ENV", "conf/.env.local"])
@pytest.mark.parametrize(
    "line",
    ["A_B={}", "A_B: {}", "set A_B={}", "export -x A_B={}", "A-B={}", "a.b={}", "A_B+={}", "#A_B={}", "A_B='{}'"],
)
def test_each_line_of_an_env_file_counts(name: str, line: str) -> None:
    """Values stay that are settings of nearly every program."""
    for value in ("i3FSJb2w", "hD4Vc6NV", "3f9a0c1be2", "beysylkyxoejdwrchtanjtav", "letmein", "farm-of-the-north"):
        assert MARKER.sub("X", told(line.format(value), asked=f"cc_read {name}")) == line.format("X")
    for value in ("production", "true", "8080", "db.example.org", "http://10.0.0.4:80/v1", "/var/lib/a", "Europe/Rome"):
        assert told(line.format(value), asked=f"cc_read {name}") == line.format(value)


@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [("DOOR_PIN", "4711", True), ("PORT", "47110", False), ("DB_HOST", "mariadb", False), ("DB_USER", "mariadb", True)],
)
def test_the_name_in_an_env_file_tells_numbers_and_hosts_apart(name: str, value: str, is_hidden: bool) -> None:
    shown = told(f"NAME=true\n{name}={value} # of the farm\n", asked="cc_read .env")
    assert MARKER.sub("X", shown) == f"NAME=true\n{name}={'X' if is_hidden else value} # of the farm\n"


@pytest.mark.parametrize("head", ["<steve> ", "/a.txt:12: ", "[12:03:00] [DEBUG] ", "7  ", 'x = x .. "'])
@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "OpenVPN Static key V1"])
def test_a_line_of_a_key_is_masked_whatever_stands_before_it(head: str, kind: str) -> None:
    """The last one is short; between the beginning and the end there may be a line that has none."""
    lines = [
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB",
        "note this",
        "4d2f83b5914d8c3e67f08d1bf2eb0fd5",
        "qLx7",
    ]
    text = "\n".join(head + line for line in [f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])
    shown = told(text)
    assert [line in shown for line in lines] == [False, True, False, False]
    cut = told("\n".join(head + line for line in [f"-----BEGIN {kind}-----", lines[0], "all done", "the farm"]))
    assert [line in cut for line in (lines[0], "done", "farm")] == [False, True, True]


def test_a_key_is_known_though_its_head_goes_on_in_the_next_row() -> None:
    """A row ends before a word that has no room in it, and in the middle of one that has room in none."""
    body, (first, second) = made("«KKKK»\\n«KKKK»", "key")
    word = f"KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n"
    result = '{\n  "key": "-----BEGIN PRIVATE\n' + f'{word[:200]}\n{word[200:]}"\n}}'
    assert len(word) > 200
    shown = told(result, tool="cc_shell")
    assert (first in shown, second[:20] in shown) == (False, False)
    assert shown.count("\n") == result.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        'local users = {\n  steve = "«bananabread»",\n}',
        "password: |\n  «bananabread»",
        "passwords:\n  - «bananabread»",
        'function getPassword()\n  return "«bananabread»"\nend',
        'local t = {\n  password = {\n    value = "«bananabread»",\n  },\n}',
        "| user | password |\n|---|---|\n| bob | «bananabread» |",
    ],
)
@pytest.mark.parametrize("sign", "+- ")
def test_what_a_difference_of_two_files_has_is_read_without_its_signs(sign: str, text: str) -> None:
    """Several lines are one thing there, too."""
    lines = "\n".join(sign + line for line in text.split("\n"))
    patch = f"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n{lines}\n\\ No newline at end of file"
    assert MARKER.sub("X", told(re.sub("[«»]", "", patch))) == re.sub("«.*»", "X", patch)


def test_a_password_that_ends_a_row_at_its_hyphen_is_masked() -> None:
    """Though its letters are all small."""
    rows = 'rednet.send(5, { cmd = "open", password = "correct-\nhorse-battery" })'
    shown = told(rows, tool="cc_shell")
    assert [one for one in ("correct", "horse") if one in shown] == []
    assert shown.endswith('" })')


@pytest.mark.parametrize(("head", "foot"), [("| ", " |"), ("conf/app.cfg:6:", "")])
def test_the_last_line_of_a_key_in_a_box_is_masked(head: str, foot: str) -> None:
    body, (first, last) = made("«KKKK»\n«K»==", "box")
    lines = ["-----BEGIN PRIVATE KEY-----", *body.split("\n"), "-----END PRIVATE KEY-----"]
    shown = told("\n".join(f"{head}{line}{foot}" for line in lines))
    assert (first[:20] in shown, last[:12] in shown) == (False, False)
    assert shown.count("PRIVATE KEY") == 2


def test_what_is_compared_with_a_masked_input_is_a_password() -> None:
    """The usual lock of a door: ``read("*")`` and, some lines on, a comparison."""
    lock = 'write("Password: ")\nlocal input = read("*")\nif input == "open sesame" then open() end'
    assert MARKER.sub("X", told(lock)) == lock.replace("open sesame", "X")


def test_the_env_file_of_a_search_is_one() -> None:
    """Its values are masked as when it is read, by the name that the search found."""
    shown = told("[1 match]\napp/.env  60\n  2: STRIPE_LIVE=q8w7e6r5t4y3", tool="cc_find", asked="cc_find **")
    assert MARKER.sub("X", shown) == "[1 match]\napp/.env  60\n  2: STRIPE_LIVE=X"


def test_one_line_of_a_key_is_masked_wherever_it_stands() -> None:
    """A whole line of mixed letters; one of small letters, of a hash or of something public stays."""
    line = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0hZ3n5Lw6v2bKq9c1sXhQ7dJk2p"
    for text in (line, f"  7: {line}", f"a.lua:7: unexpected near {line}", f"> {line} -- old"):
        assert line not in told(text)
    for text in (line.lower(), f"sha384-{line}", f"-----BEGIN CERTIFICATE-----\n{line}"):
        assert told(text) == text


def test_a_piece_of_any_secret_at_a_cut_is_left_out() -> None:
    """Also of one with blanks, and of a short one."""
    mask = Mask("t1")
    for secret in ("open the big door", "hunter2"):
        text = f'password = "{secret}"\nput password {secret[:-2]}…'
        shown = mask.turn(Turn(raw=RAW, calls=(StepCall(tool="cc_read", text=text),)), "{}")[0].calls[0].text
        assert shown.endswith("put password …")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("shift", range(1, 40, 3))
def test_a_cut_inside_of_a_line_shows_a_secret_whole_or_not_at_all(shift: int) -> None:
    """Before the cut the mask sees all of it; behind the cut a value without its name is not shown."""
    text, (secret,) = made('local apiKey = "«K»";', "cut")
    for before in (7886, 3446 + 7886):
        line = "x = 1;" * 3000
        line = line[: before - shift] + ";" + text + line[before - shift :][: 15_282 - before]
        shown = told(numbered([line], 1, 12_000, Rest("", numbered=True)))
        assert [at for at in range(len(secret) - 8) if secret[at : at + 8] in shown] == []
