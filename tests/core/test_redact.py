"""Secrets leave what people are shown and come back into what they send; programs stay as they are."""

import json
import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.redact import MARKER, PLAIN, _searched, redact, redact_text, restore
from orchestrator.core.text.secret_names import named_secrets
from orchestrator.core.text.secret_shapes import shaped_secrets

SALT = "salt of this request"
TAIL = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v2"

NAMED = r"""
local password = «hunter2»
local password = "«hunter2»"
local password = [[«hunter2»]]
local password = [=[«hunter2»]=]
local user, pass = "bob", "«hunter2»"
local door = { user = "bob", pass = '«hunter2»' }
{ password = "«hunter2»" },
["password"] = "«hunter2»",
config.door_password = "«hunter2»"
config["apiKey"] = "«hunter2»"
local password = «1234»
local password = «123456» -- of the door
local pin = "«1234»"
password = "«hun»" .. "«ter2»"
token: '«abc»'
"token": "«abc»",
'{"password":"«hunter2»"}'
local body = "{\"password\": \"«hunter2»\"}"
if password == "«hunter2»" then
if input ~= "x" and password ~= "«hunter2»" then
if "«hunter2»" == config.password then
if token == "«abc123def»" then
if read("*") == "«hunter2»" then
if read("*", nil, nil) ~= '«hunter2»' then
settings.set("x.token", "«abc»")
shell.run("set", "door.password", "«hunter2»")
shell.run("set door.password «hunter2»")
set door.password «hunter2»
os.setenv("API_KEY", "«abc»")
rednet.send(5, { password = "«hunter2»" })
rednet.send(5, "«hunter2»", "door_password")
rednet.broadcast("«hunter2»", "password")
modem.transmit(1, 1, "password:«hunter2»")
API_KEY=«abcdef»
export AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»
password=«letmein»
password: «letmein»
password = «hunter2»
user=bob, password=«hunter2»
user=bob, home=x, PASSWORD=«hunter2», lines=2
user = bob, password = «hunter2»
user="bob", password="«hunter2»"
"user"="bob", "password"="«hunter2»"
user='bob', password=«letmein»
DB_PASSWD: «s3cretly»
http.get("https://x.org/?token=«abc123»&page=1")
http.post(url, "user=bob&password=«letmein»")
deploy --password «hunter2» --now
deploy --password=«hunter2» --now
the door password is «1234», remember
change the password to "«swordfish»".
""".strip().splitlines()

SHAPED = [
    f"«ccp_{TAIL[:43]}»",
    f"-- «ccc_{TAIL[:43]}»",
    f"«ccc_east-2.{TAIL[:43]}»",
    f'local t = "«cca_{TAIL[:43]}»"',
    "wget run http://127.0.0.1:8765/install «ABCD-1234»",
    "the pairing code «ABCD-1234», for 15 minutes",
    "Authorization: Bearer «abc»",
    "curl -H 'authorization: basic «Ym9iOng=»'",
    '["Authorization"] = "Bearer «abc.def»",',
    f"Bearer «{TAIL}»",
    "https://bob:«hunter2»@example.org/x",
    "«AKIAIOSFODNN7EXAMPLE»",
    f"«ghp_{TAIL[:36]}»",
    f"«github_pat_{TAIL[:30]}»",
    f"«glpat-{TAIL[:20]}»",
    "«xoxb-1234567890-abcdef»",
    f"«sk-ant-api03-{TAIL}»",
    f"«sk-proj-{TAIL}»",
    f"«sk-{TAIL}»",
    f"«AIza{TAIL[:35]}»",
    "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl»",
    "https://discord.com/api/webhooks/123456789012345678/«abcDEF_ghi-jkl»",
    "https://hooks.slack.com/services/«T000/B000/XXXXyyyy»",
    f"-----BEGIN RSA PRIVATE KEY-----«\n{TAIL}\n{TAIL}\nAb=»\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----«\n{TAIL}\n{TAIL}»",
    f'"-----BEGIN PRIVATE KEY-----«\\n{TAIL}\\n{TAIL}\\n»-----END PRIVATE KEY-----"',
]

WORD = TAIL[:24]
NAMED += [
    line.replace("#", WORD)
    for line in r"""
local rednetKey = "«#»"
modemKey: "«#»"
cipherKey = '«#»'
local hmac_key = "«#»"
license_key=«#»
session_id = "«#»"
{"auths": {"ghcr.io": {"auth": "«c3RldmU6aHVudGVyMg»"}}}
//npm.example.org/:_auth=«c3RldmU6aHVudGVyMg»
cipherKey = "«xYzQwErTyUiOpAsDfGhJ»"
local passwort = "«hunter2»"
kennwort: «hunter2»
mot_de_passe = "«hunter2»"
contraseña = "«hunter2»"
machine example.org login steve password «hunter»
machine example.org password «hunter2»
default login x password «hunter»
  password «hunter2»
Cookie: theme=dark; session=«#»; lang=en
Set-Cookie: connect.sid=«s%3A#»; Path=/; HttpOnly
["Cookie"] = "session=«#»",
<db><user>x</user><password>«hunter2»</password></db>
<add key="ApiKey" value="«hunter2»"/>
tool --password «hunterhunter»
tool --token «12345678» --port 3
""".strip().splitlines()
]
NAMED += [
    f'local c = {{\n  apiToken =\n    "«{WORD}»",\n  other = 1,\n}}',
    f"db:\n  password: |\n    «{WORD}»\n    «next {WORD}»\n  port: 3",
    f"db:\n  password: >-\n    «{WORD}»",
    f'[db]\nsecret_key = """\n«{WORD}»\n"""\n',
]
KEY = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn"
STATIC = "0123456789abcdef" * 2
STRINGS = [
    f'x = "-----BEGIN PRIVATE KEY-----\\n" ..\n  "«{KEY}»\\n" ..\n  "«Ab3d»\\n" .. "-----END PRIVATE KEY-----"',
    f'{{"k": "-----BEGIN RSA PRIVATE KEY-----\\nProc-Type: 4,ENCRYPTED\\nDEK-Info: A,B\\n\\n«{KEY}»\\n«{KEY}»"}}',
    f'"-----BEGIN PGP PRIVATE KEY BLOCK-----\\nVersion: x v2\\n\\n«{KEY}»\\n«=aBc4»\\n-----END PGP"',
    f'{{"k": "PuTTY\\nPrivate-Lines: 2\\r\\n«{KEY}»\\r\\n«Ab3d»\\r\\nPrivate-MAC: 0a1b\\r\\n"}}',
    f"-----BEGIN OpenVPN Static key V1-----\n«{STATIC}»\n«{STATIC}»\n-----END OpenVPN Static key V1-----",
    f'"-----BEGIN OpenVPN Static key V1-----\\n«{STATIC}»\\n-----END OpenVPN Static key V1-----"',
]
"""Keys whose lines stand in strings."""

ORDINARY = r"""
turtle.forward()
while turtle.detect() do turtle.dig() end
local tokens = {}
function token()
local function password() return read("*") end
if password == input then
password = read("*")
local password = read("*")
local pass = read("*") if pass == password then rs.setOutput("left", true) end
local token = tokens[i]
local token = next_token()
local token = self.lexer.current
local next_token = "identifier"
if token == "end" then break end
if token.type == "string" then
if next_token ~= "(" then error("expected (") end
token = nil
token = token or "x"
password = password2
password = config.password
local ok = check(password, "left")
local secret = sha256(seed .. os.time())
local secret = os.epoch("utc")
local key = keys.enter
local key = "left"
local tokenCount = "many"
local password_hash = "5e884898da28047151d0e56f8dc6292773603d0d6aabbd62a11ef721d1542d8"
local sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
local sprite = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbybl8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAABJRU5ErkJg=="
local image = paintutils.parseImage("0123456789abcdef")
write("Password: ")
write("Password: ") local pw = read("*")
print("Enter password: ", "now")
print("Wrong password: try again")
term.write("Token: " .. token)
local prompt = { password = "Enter your password" }
local cookie = "minecraft:cookie"
turtle.select(1) -- the cookie: "none" left
local headers = { Authorization = "Bearer " .. self.token }
headers["Authorization"] = "token " .. settings.get("gist.id")
settings.get("door.password")
settings.set("door.open", "yes")
settings.define("door.password", { description = "What opens it", type = "string" })
rednet.send(id, "open", "door")
rednet.broadcast("hello", "chat")
modem.transmit(15, 43, "Hello, world!")
local x = password:sub(1, 3)
for token in line:gmatch("%S+") do tokens[#tokens + 1] = token end
local password = ""
local password = "<your password>"
local password = "${PASSWORD}"
local url = "https://example.org:8080/a@b"
local ws = http.websocket("ws://localhost:4000")
local sk = "task-list-with-a-very-long-name-of-it"
return { token = token, secret = secret, pass = pass }
-- password is checked by the server
--password check
local a, b = token, "x"
f(x.token, mode = "sleep")
async def authenticate(self, authorization: str | None) -> Identity:
-----BEGIN PUBLIC KEY-----
peripheral.call("left", "getItemDetail", 1)
file.write('password = "' .. x .. '"')
PWD="home"
secret: a note, and more text
pin = "left"
local pass, n = next(t), "x"
user 1234-5678 called
secret = "CHANGE_ME"
password = "changeme"
api_key = "YOUR_KEY_HERE"
local cookie = "chocolate"
pass = "weekly"
wrong_password = "That password is wrong."
local modemKey = "left"
key = "w"
keyName = keys.up
turnKey = "turn_left_2"
local seed = 12345
auth = "basic"
session_id = "none"
x = cond --password checkedbefore
f() --password checkedbefore
--password checkedbefore
<password>read("*")</password>
<name>hunter2</name>
<add key="Port" value="hunter2"/>
password hunter
text = '''plain'''
password = '''{{filled}}'''
wrong = '''tag''' .. '<password>read(1)</password>'
the password hunter2 is old
Cookie: theme=dark; lang=en
Set-Cookie: theme=dark; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT
if line:find("-----BEGIN PRIVATE KEY-----") then print("found") end
""".strip().splitlines()


GLUED = [
    f"ghp_{TAIL[:36]}", f"github_pat_{TAIL[:30]}", f"glpat-{TAIL[:20]}", "xoxb-1234567890-abcdef",
    f"sk-ant-api03-{TAIL}", f"sk-proj-{TAIL}", f"AIza{TAIL[:35]}", "AKIAIOSFODNN7EXAMPLE", f"ccc_{TAIL[:43]}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", f"AGE-SECRET-KEY-1{'QPZRY9X8GF'*6}", f"npm_{TAIL[:36]}",
    "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
]  # fmt: skip
"""What is so long and odd that it is a key behind a letter, too."""
ESCAPED = [
    *GLUED, f"sk-{TAIL}", f"hf_{TAIL[:34]}", f"1234567890:AA{TAIL[:35]}", f"gsk_{TAIL}", f"xai-{TAIL}",
    f"SG.{TAIL[:22]}.{TAIL[:43]}", "key-" + "0123456789abcdef" * 2, f"Bearer {TAIL}", "password=letmein",
    "token: abc123def",
]  # fmt: skip
"""What is a key where a word begins; an escape before it is no word."""
ESCAPES = ["\\n", "\\t", "\\r\\n", "\\\\n"]
CODES = ["\\27", "\\027", "\\x20", "%3D", "%20", "\\u0020", "\\x1b[1m", "\\0"]
TASKS = ["task_test_somethingverylongwithoutend", "risk-admin-of-a-very-long-name", "task-proj-of-a-very-long-name"]


def without_signs(line: str) -> str:
    """A line of the tables above as it stands in a program."""
    return line.replace("«", "").replace("»", "")


def as_marked(line: str) -> str:
    """A line of the tables above with a marker where the signs are."""
    pieces = line.replace("»", "«").split("«")
    return "".join(("[redacted]" if index % 2 else piece) for index, piece in enumerate(pieces))


def shown(text: str) -> str:
    """A redacted text, markers without their number."""
    return MARKER.sub("[redacted]", redact_text(text, salt=SALT))


@pytest.mark.parametrize("line", STRINGS)
def test_v4_the_lines_of_a_key_in_a_string_are_markers(line: str) -> None:
    """With line ends as a string has them, or each in a string of its own; what is around them stays."""
    text = shown(without_signs(line))
    assert [one for one in re.findall("«([^»]*)»", line) if one in text] == []
    assert text.startswith(line.partition("-----BEGIN")[0].partition("«")[0])


@pytest.mark.parametrize("line", NAMED + SHAPED)
@pytest.mark.parametrize("before", ["", "+", "-", " ", "+    ", "x = 1\n"], ids=repr)
def test_v4_a_secret_in_a_text_is_a_marker(line: str, before: str) -> None:
    """By its name or its shape, on lines of a diff too, and it alone."""
    assert shown(before + without_signs(line)) == before + as_marked(line)


@pytest.mark.parametrize("key", GLUED)
@pytest.mark.parametrize("before", ["a", "Z", "7", "x_", "\x1b[1m"], ids=repr)
def test_v4_an_unmistakable_key_is_found_behind_a_letter(key: str, before: str) -> None:
    """Glued to a name, a digit or a code of a terminal."""
    assert key[6:] not in redact_text(f'print("a{before}{key}")', salt=SALT)


@pytest.mark.parametrize("key", ESCAPED)
@pytest.mark.parametrize("before", ESCAPES, ids=repr)
def test_v4_a_key_is_found_behind_an_escape(key: str, before: str) -> None:
    """In the source of a program, and in JSON."""
    assert key[-6:] not in redact_text(f'print("a{before}{key}")', salt=SALT)


@pytest.mark.parametrize("key", [one for one in ESCAPED if one[:2] not in ("Be", "pa", "to", "12")])
@pytest.mark.parametrize("before", CODES, ids=repr)
def test_v4_a_key_is_found_behind_a_code_of_a_sign(key: str, before: str) -> None:
    """By its number, in Lua, JSON and addresses."""
    assert key[6:] not in redact_text(f'print("a{before}{key}")', salt=SALT)


@pytest.mark.parametrize("line", [*TASKS, *(f"x = '{one}'" for one in TASKS), "print('a\\nnext line')"])
def test_v4_a_word_that_ends_like_the_beginning_of_a_key_stays(line: str) -> None:
    """``task_test_…`` is no key of a shop."""
    assert redact_text(line, salt=SALT) == line


@pytest.mark.parametrize("line", ORDINARY)
@pytest.mark.parametrize("before", ["", "+", "- ", "    "], ids=repr)
def test_v4_an_ordinary_line_stays(line: str, before: str) -> None:
    """Programs that speak of tokens and passwords and hold none are shown as they are."""
    assert redact_text(before + line, salt=SALT) == before + line


def test_v4_an_ordinary_program_stays() -> None:
    """All those lines in one text."""
    text = "\n".join(ORDINARY)
    assert redact_text(text, salt=SALT) == text


@pytest.mark.parametrize(
    "text",
    [
        'x = [[ password = "]] fs.delete("/") --"',
        'x = [[ " ]] x="password = " os.reboot() y=" "',
        'x = [[ " ]] x="password = " evil=1 y=" "',
        'password = "]] f{} --"',
        "-----BEGIN PRIVATE KEY-----\nos.execute(x)\n-----END PRIVATE KEY-----",
        'password = "abc\\\npassword = " print(1) y="',
        "set door.password f(x)",
        f'password = "ghp_{TAIL[:36]}(1)"',
    ],
)
def test_v1_what_could_be_code_stays_visible(text: str) -> None:
    """Behind a name, in what only looks like a string or a key: what hides from a reviewer must not run."""
    seen = MARKER.sub("", redact_text(text, salt=SALT))
    for sign in "(){}=":
        assert seen.count(sign) == text.count(sign)


def test_v4_secrets_go_at_every_depth() -> None:
    """Lists, objects, keys; by the name of the key for whatever text is below it; other values stay."""
    value: JsonValue = {
        "args": [{"content": 'local password = "hunter2"'}, ["--password", "hunter2", "door.token", "abc", "x"]],
        "Api-Key": "abc",
        "password": ["a", {"b": "c"}, 12, None, True, ""],
        "header": {"name": "Authorization", "value": "x"},
        "pair": {"key": "color", "value": "red"},
        "code": "ABCD-1234",
        "other": {"code": "E101"},
        f"ghp_{TAIL[:36]}": 1.5,
        "tokens": 12,
    }
    marked = json.loads(MARKER.sub("#", json.dumps(redact(value, salt=SALT))))
    assert marked == {
        "args": [{"content": 'local password = "#"'}, ["--password", "#", "door.token", "#", "x"]],
        "Api-Key": "#",
        "password": ["#", {"b": "#"}, 12, None, True, ""],
        "header": {"name": "Authorization", "value": "#"},
        "pair": {"key": "color", "value": "red"},
        "code": "#",
        "other": {"code": "E101"},
        "#": 1.5,
        "tokens": 12,
    }


def test_v4_the_marker_says_what_equals_what_and_no_more() -> None:
    """The same secret has the same marker under one salt and another under another salt."""
    one = redact_text('password = "hunter2" token = "hunter2" secret = "hunter3"', salt="a")
    first, second, third = MARKER.findall(one)
    assert first == second != third
    assert MARKER.findall(redact_text('password = "hunter2"', salt="b")) != [first]


def test_v4_a_bracket_that_nothing_closes_hides_nothing() -> None:
    """Neither it nor what follows it is taken for a string."""
    text = redact_text('x = [[ y = [[ password = "hunter2"', salt=SALT)
    assert MARKER.sub("[redacted]", text) == 'x = [[ y = [[ password = "[redacted]"'


def test_v4_two_secrets_under_one_marker_lose_no_entry() -> None:
    """A key that looks like another's marker keeps its value."""
    key = f"ghp_{TAIL[:36]}"
    forged = redact_text(key, salt=SALT)
    value: JsonValue = {forged: 1, key: 2}
    view = redact(value, salt=SALT)
    assert view == {forged: 1, forged + "*": 2}
    with pytest.raises(InvalidRequest, match="could mean two things"):
        restore(view, value, salt=SALT)


def test_a8_an_edit_keeps_the_secrets() -> None:
    """A reviewer changes a redacted view; what runs holds the secrets, wherever their markers stand now."""
    original: JsonValue = {"content": 'password = "hunter2"\nprint("hi")', "path": "/door.lua", "n": [1, None]}
    view = redact(original, salt=SALT)
    assert isinstance(view, dict)
    assert isinstance(view["content"], str)
    edited: JsonValue = {**view, "content": "-- mine\n" + view["content"].replace("hi", "ho")}
    assert restore(edited, original, salt=SALT) == {
        "content": '-- mine\npassword = "hunter2"\nprint("ho")',
        "path": "/door.lua",
        "n": [1, None],
    }


def test_a8_an_edit_may_give_a_new_secret() -> None:
    """What a person writes in a marker's place is what runs."""
    assert restore('password = "new"', 'password = "hunter2"', salt=SALT) == 'password = "new"'


@pytest.mark.parametrize("edited", ["[redacted 00000000]", ["x [redacted 00000000]"], {"[redacted 00000000]": 1}])
def test_a8_a_marker_of_no_secret_is_refused(edited: JsonValue) -> None:
    """It would otherwise run as it stands."""
    with pytest.raises(InvalidRequest, match="is of no secret"):
        restore(edited, 'password = "hunter2"', salt=SALT)


DAMAGED = [
    "[redacted 1a2b3c4]", "[redacted]", "[redacted 1A2B3C4D]", "[redacted", "[REDACTED 1A2B3C4D]", "[REDACTED]",
    "[redacted1a2b3c4d]", "[ redacted 1a2b3c4d ]", "(redacted 1a2b3c4d)", "redacted 1a2b3c4d]", "redacted 1a2b3c4d",
    "{redacted 1a2b3c4d}", "<redacted 1a2b3c4d>", "[redacted: 1a2b3c4d]", "[redacted\u200b 1a2b3c4d]",
    "[red\u200bacted 1a2b3c4d]", "[\ufeffredacted 1a2b3c4d]", "[redacted 1a2b\u200d3c4d]",
    "\uff3bredacted 1a2b3c4d\uff3d",
    "[Redacted]", "[redacted …]", "(redacted 1a2b…)", "redacted 09a0…]", "redacted …]", "(redacted …)",
    "[redacted\n1a2b3c4d]",
]  # fmt: skip
"""Markers that somebody copied badly."""


@pytest.mark.parametrize("edited", DAMAGED)
def test_a8_a_damaged_marker_is_refused(edited: str) -> None:
    """Unless the original itself had such words."""
    with pytest.raises(InvalidRequest, match="is damaged"):
        restore(edited, {"a": ['password = "hunter2"']}, salt=SALT)
    assert restore(edited, {"a": [f"-- {edited}", 1]}, salt=SALT) == edited


@pytest.mark.parametrize(
    "text",
    [
        "the file was redacted",
        "(redacted by bob)",
        "Redacted: 12 lines",
        "local redacted = t[redacted_lines]",
        "It is redacted, see [1].",
        "redacted(1)",
        "[1: redacted]",
        "unredacted 1a2b3c4d",
    ],
)
def test_a8_ordinary_words_are_no_damaged_marker(text: str) -> None:
    """Prose and programs that speak of what is redacted."""
    assert restore(text, {"a": ['password = "hunter2"']}, salt=SALT) == text


def test_a8_a_damaged_marker_of_the_original_allows_no_other() -> None:
    """What the original has may stay; what it has not is refused all the same."""
    original: JsonValue = 'password = "hunter2" -- [REDACTED]'
    assert restore("x -- [REDACTED]", original, salt=SALT) == "x -- [REDACTED]"
    with pytest.raises(InvalidRequest, match="is damaged"):
        restore("x = [REDACTED 1A2B3C4D]", original, salt=SALT)


def test_a8_a_view_of_another_salt_is_refused() -> None:
    """Markers hold for one request."""
    original = 'password = "hunter2"'
    with pytest.raises(InvalidRequest, match="is of no secret"):
        restore(redact(original, salt="other"), original, salt=SALT)


LINES = [without_signs(line) for line in NAMED + SHAPED] + ORDINARY
FRAGMENTS = [*LINES, "password", "token", " = ", ":", '"', "'", "\\", "[[", "]]", "(", ")", ",", "..", "\n", " ", "==",
             "[redacted 1a2b3c4d]", "[redacted", "--", "set ", "://a:", "@", "\U00020000", "\ud800", "Bearer ",
             "-----BEGIN PRIVATE KEY-----", "x", "1", f"ghp_{TAIL[:36]}", "eyJ"]  # fmt: skip
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join) | st.text(st.characters(), max_size=60)
KEYS = TEXTS | st.sampled_from(["password", "name", "value", "key", "code", "args", "token"])
VALUES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(VALUES)
def test_v4_to_redact_again_changes_nothing(value: JsonValue) -> None:
    """What is redacted has no secret left to find, and a marker is none."""
    once = redact(value, salt=SALT)
    assert redact(once, salt=SALT) == once


@given(VALUES)
def test_a8_a_view_that_nobody_changed_is_the_original(value: JsonValue) -> None:
    """Every secret comes back to its place, byte for byte."""
    assert restore(redact(value, salt=SALT), value, salt=SALT) == value


@given(VALUES)
def test_v4_only_texts_change(value: JsonValue) -> None:
    """The shape of a value and all that is no text stay."""

    def shape(part: JsonValue) -> object:
        if isinstance(part, list):
            return [shape(item) for item in part]
        if isinstance(part, dict):
            return [shape(item) for item in part.values()]
        return "text" if isinstance(part, str) else (type(part), part)

    assert shape(redact(value, salt=SALT)) == shape(value)


@given(st.text(string.ascii_letters + string.digits + "-_!?@/+", min_size=4, max_size=40).filter(str.isalnum))
def test_v4_a_password_of_any_letters_goes(secret: str) -> None:
    """Whatever its letters are."""
    text = json.dumps({"user": "bob", "database_password": "q" + secret})
    assert "q" + secret not in redact_text(text, salt=SALT)


def test_v4_strings_are_read_four_deep() -> None:
    """A bound, so that quotes in quotes in quotes cost no more than their length; keys of services have none."""
    four, five = (
        "[=[ [[ 'x \"password = `hunter2`\" ' ]] ]=]",
        "[===[ [==[ [=[ [[ x \"password = 'hunter2'\" ]] ]=] ]==] ]===]",
    )
    assert "hunter2" not in redact_text(four, salt=SALT)
    assert "hunter2" in redact_text(five, salt=SALT)
    assert "AKIA" not in redact_text(five.replace("hunter2", "AKIAIOSFODNN7EXAMPLE"), salt=SALT)


def test_v4_two_hundred_levels_are_no_fault() -> None:
    """As deep as a value from the wire can be."""
    value: JsonValue = 'password = "hunter2"'
    for _ in range(100):
        value = [{"a": value}]
    assert "hunter2" not in json.dumps(redact(value, salt=SALT))
    assert restore(redact(value, salt=SALT), value, salt=SALT) == value


@given(st.from_regex(PLAIN, fullmatch=True))
def test_v4_what_is_not_searched_has_no_secret(text: str) -> None:
    """Words, digests and times: the search finds nothing in them."""
    assert [*named_secrets(text), *shaped_secrets(text)] == []


MEGABYTE = 1_000_000
NASTY = ["a", "password=", "eyJaaaaaaaaaa.", "[=[", "AKIA"]
NASTIER = [
    "password=[[", '\\"password\\":', "-----BEGIN PRIVATE KEY-----\n", "password,", "\nset a.token x", "\\",
    'password="', "password = '", "eyJ-", "://a:", "://", "Bearer ", "authorization:", "-----BEGIN PRIVATE KEY-----",
    "pair ", "password is ", " --password ", "M-", "[redacted 12345678]", "token=a==", " ", "(\n\t", '"password"',
    "password:", 'password=="', ":?", "a=", "a ", "sk-", "-", "\u0301", "password..\n", "1.", "{", "'", '"', "`", "x.",
    "\r\n", "=", "eyJ", "eyJaaaaaaaaaa.eyJ", "ccc_", 'a="""', "<a>", "<password ", "cookie: a=", "a=b;",
    "password: |\n ",
    "machine a ",
    "mysql -p", "Private-Lines: 1\n", "'AAAAAAAA' ", "\\n", "ghp_", "-----BEGIN ", "eyJ--", "[redacted ",
]  # fmt: skip


def check_linear(nasty: str, size: int, begin: str = "") -> None:
    """Linear takes 1 to 3 s for a megabyte of this on a slow machine, quadratic takes minutes."""
    text = (begin + nasty * (size // len(nasty)))[: size - 9] + " password"
    began = time.process_time()
    redact_text(text, salt=SALT)
    assert time.process_time() - began < max(5, 20 * size / MEGABYTE)


def test_v4_keys_in_one_another_are_hidden_with_their_lines() -> None:
    """Each that is taken out frees the next; after some rounds the lines go, and what stands around them stays."""
    text = f"first\n{'AKIA' * 100}\nbetween\n{'AKIA' * 100}\nlast"
    redacted = redact_text(text, salt=SALT)
    assert redacted.startswith("first\n[redacted ")
    assert redacted.endswith("]\nlast")
    assert "AKIA" not in redacted
    assert "AKIA" not in redact_text("AKIA" * 100, salt=SALT)


@pytest.mark.uncounted
@pytest.mark.parametrize("nasty", NASTY, ids=repr)
def test_v4_hostile_text_costs_linear_time(nasty: str) -> None:
    """Much of what begins a secret again and again."""
    check_linear(nasty, MEGABYTE // 10)


@pytest.mark.deep
@pytest.mark.parametrize("nasty", NASTY + NASTIER, ids=repr)
@pytest.mark.parametrize("begin", ["", 'password="', "token = "], ids=repr)
def test_v4_hostile_text_behind_a_name_costs_linear_time(begin: str, nasty: str) -> None:
    """The same as a value, and more of it."""
    check_linear(nasty, MEGABYTE, begin)


def test_a_text_that_comes_again_is_searched_once() -> None:
    """In an item, a request and a view: its secrets are found again, and each salt gives them another marker."""
    text = 'local password = "hunter2"'
    _searched.cache_clear()
    first, again, other = (redact_text(text, salt=salt) for salt in ("a", "a", "b"))
    # Once as it is, and once with its secret taken out.
    assert _searched.cache_info().misses == 2
    assert (first == again, first == other) == (True, False)
    assert all(MARKER.search(one) for one in (first, other))
    assert redact_text(text + " " * 5_000, salt="a") == first + " " * 5_000
    assert _searched.cache_info().misses == 2
