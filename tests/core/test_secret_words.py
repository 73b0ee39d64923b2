"""Secrets that look like words, which hosted models are kept from by their name or place; and honest neighbours."""

import re
from typing import Final

import pytest

from tests.core.test_secret_forms import MARKER, told

# The secret stands between the signs. A line without signs has none, and stays.
TEXTS: Final[dict[str, str]] = {
    "sentences": r"""
adminPass is «letmein»
the pw is «swordfish» do not tell anyone
the door code is «4711»
das SECRET_KEY lautet «Winter2023», sag es keinem
set the contraseña to `«N79W-8OPO»` and go
2. rednetKey: **«letmein»**
**kennwort:** «tiger»
user steve, password «bananabread»
return the password «dragon_fire77», local to the farm
[INFO] connected with userPassword «swordfish»
passwd «steve_is_cool»
PIN «4711»
the pin for the vault is «4711»
wrong password, expected «swordfish»
Password changed from «hunter2» to «Zx9ffKm2»
Zugangsdaten: steve / «bananabread»
passphrase -> «moonbase»
signing_key geändert auf «bananabread»
Here is the api_key, «moonbase36»
use «bananabread» as signing_key
«bananabread» is the passphrase
bob whispers: its «bananabread» (signing_key)
kennwort        «bananabread»
This is the password
use it as token
-- «Sommer24» (old credential, still works)
attempt to index string '«letmein»' (field 'pwd')
PW «dragon»
login with bob / «dragon»
my wifi password's «1agsoV1RpM» btw
The password is wrong. Your password is required. Token is invalid. The token is expired. Passwort ist falsch.
The secret is bone meal and water.
the secret room is below, and the password is not there
passwd: authentication token manipulation error
Password: [hidden]
the token `farm` is unknown
connected with userPassword before
password protection is on
secret hunter and token string
PIN entry
PW Manager
the password's strength is good, and the token's value is known
Set the default password for encrypted files.
pass 'ignore' to skip errors, or pass force_zip64 to write more
""",
    "settings": r"""
side=left password=«swordfish» channel=7
rcon.PASSWORD=«Geheim»
bridge --pw=«letmein» --id 7
GET /items?kennwort=«letmein» HTTP/1.1
| psk | «tiger» |
| user | password |\n|---|---|\n| bob | `«4Xk9#pQ2»` |\n| alex | «creeper» |\n| steve | |\n\n| psk |\n| tiger |
  8| user | password |\n  9| --- | --- |\n 10| bob | «creeper» |
+------+----------+\n| user | Password |\n+------+----------+\n| bob | «dragon» |\n+---+---+\n| alex | «creeper» |
║ Name ║ secret ║\n╠══════╬════════╣\n║ bob  ║ «Xk9pQ2vT» ║\n║ alex ║ «4711» ║
passwrd: «dragon»
│ apiKey: «bananabread» │
vaultPin: '«tiger»'
passphrase: «the-cake»
export PWD="«jW8-kk»"
export PWD="/home/steve"
cat token | grep name
| password | type |\n|---|---|
| auth | token | password |\n|---|---|---|\n| basic2 | north | required |
| name | password |\n| bob | and more |\nname, side |\n|---|---|\n| bob | bottom |
token: identifier expected, got keyword
set-cookie: theme=dark; Path=/
password: string
secret: required
auth: basic
""",
    "programs": r"""
passwords["steve"] = "«letmein»"
print("passwords[name] == \"«letmein»\"")
secretWord = "«creeper»"
-- secret word: «creeper», key word: north
local pasword = "«creeper»"
$x = ConvertTo-SecureString "«letmein»" -AsPlainText
local BANK_PASSPHRASE <const> = "«bananabread»"
local VAULTPIN = "«tiger»"
local ADMINPASS = "«tiger»"
local gh_pat = "«tigerlily»"
local bearer = "«dev-token»"
local user, gh_pat = "steve", "«bananabread»"
local rednetKey = [[\n«bananabread»\n]]
local rednetKey =\n  "«bananabread»"
local encryptionKey = settings.get("farm.key") or "«MyBaseIsHidden»"
load(settings.get("farm.rednetKey") or "«MyBaseIsHidden»")
local cfg = { pass = { value = "«bananabread»" } }
local password = tostring("«bananabread»")
local function getPass()\n  return "«letmein»"\nend
local f = fs.open("/.api_key", "w")\nf.write("«the cake is a lie»")
local x = read("*")\nlocal a = 1\nif x == "«open sesame»" then go() end
write("Password: ")\nlocal x = read()\nif "«open sesame»" == x then go() end
local good = "«bananabread»"\nif read("*") == good then go() end
if tonumber(read("*")) == «4711» then go() end
local ok = login("steve", "«bananabread»")
redis:auth("«bananabread»")
client:setPassword("«bananabread»")
local c = aes.encrypt("«bananabread»", msg)
if sha256(p) == sha256("«bananabread»") then
settings.define("door.password", { description = "x", default = "«bananabread»" })
settings.get("door.password", "«bananabread»")
h.Authorization = string.format("Bearer %s", "«letmein-please»")
local p = "«bananabread»" -- password of the vault
local users = { steve = "«bananabread»", alex = "«swordfish»", role = "builder", mode = "admin" }
local users = { ["steve"] = "«bananabread»" }
local accounts = { { "steve", "«bananabread»" }, { name = "alex", color = "purple" } } local t = { a = "purple" }
new PDO('mysql:host=db', 'root', '«bananabread»')
env:connect("farm", "root", "«bananabread»", "127.0.0.1", 3306)
root:«bananabread»@tcp(127.0.0.1:3306)/farm
steve:«bananabread»@farm.example.org
jdbc:oracle:thin:steve/«bananabread»@db:1521/x
git+https://«26995cfbeb3d9d070da2d276f105a2e4b1c3d5f6»:@github.com/a/b
mysqli_connect('db', 'root', '«moonbase.cobble.49»', 'x');
create user farm identified by '«bananabread»';
INSERT INTO conf (name, kennwort) VALUES ('a', '«bananabread»');
<td>vaultPin</td><td>«bananabread»</td>
<entry key="webhookSecret">«bananabread»</entry>
<input name="ADMINPASS" value="«bananabread»">
- name: REDNETKEY\n  value: «bananabread»
[["passphrase", "«bananabread»"], ["side", "left"]]
local h = "Bearer " .. "«lampshade»"
h.Authorization = ("«Bearer %s»"):format("«lampshade»")
expect(passphrase):eq("«bananabread»")
export const vaultPin: string = "«bananabread»";
<td>side</td><td>bottom</td>
<input name="side" value="bottom">
{ "password", "username" }
mailto:steve@example.org
local password = input
local password = read("*")
local password = config.password or os.getenv("FARM")
local password = args[1]
local t = { password = password, token = token } return t
password = value
local function f() password = newest end
local function f() if password == newest then end end
function getName()\n  return "steve"\nend
local f = fs.open("/notes", "w")\nf.write("bananabread")
write("Name: ")\nlocal x = read()\nif x == "steve" then go() end
settings.get("door.side", "bottom")
local label = "Enter" -- label of the field
local a, b = "steve", "alex"
write("Password: ", "again")
checkPassword("password")
local keyword = "then" local compass = "north" local monkey = "steve"
if read("*") == savedPassword then go() end
login("steve", password)
local good = "password" local other = "steve" if read("*") == good then go() end
local function f() end\npassword=«Geheim»
local function f() end\npassword=newest\nfoo(newest)
""",
    "commands": r"""
/login «bananabread»
/register «bananabread» «bananabread»
mosquitto_pub -u cc -P «bananabread» -t x
openssl enc -aes-256-cbc -k «bananabread» -in a
zip -P «bananabread» a.zip b
curl -u steve:«bananabread» https://example.org
sshpass -p «bananabread» ssh root@x
echo «bananabread» | sudo -S ls
net use z: \\srv\x «bananabread» /user:steve
WIFI:T:WPA;S:base;P:«bananabread»;;
sqlcmd -S db -U sa -P «bananabread»
mongo -u a -p «bananabread» db
influx -username a -password «bananabread»
setenv REDNETKEY «banana_bread»
gpg --batch --passphrase «creeper» -d x
psql "db.example.org:5432:farm:bob:«bananabread»"
gpg --passphrase creeper.gpg is a file
GET /login HTTP/1.1
zip -r a.zip folder
echo bananabread | grep b
""",
    "next line": r"""
password\n«Geheim»
## Passphrase\n\n«Katze.Maus.7»
lua> api_key\n"«the cake»"
> psk\n«tiger»
Enter the password:\n«letmein»
<steve> what was the pw again?\n<alex> its «bananabread»
password:\n  value: «bananabread»
password\nrequired
password:\n- tokens
name\nsteve
pass\n    raise
pass\n\n@classmethod
lua> pass\n«schatz1987»
password,\nuser_name,
<steve> where is the farm?\n<alex> its north
the password is on the next page, and a line as long as this one asks for no password:\nnorth
""",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_word_is_hidden_where_its_place_says_that_it_is_secret(kind: str) -> None:
    wrong = []
    for line in TEXTS[kind].replace("\\n", "\f").strip().split("\n"):
        if MARKER.sub("X", told(re.sub("[«»]", "", line).replace("\f", "\n"))) != _masked(line):
            wrong.append(line)
    assert wrong == []


def _masked(line: str) -> str:
    return re.sub("«[^»]*»", "X", line).replace("\f", "\n")
