"""`policy` on the command line: a file without a server, and what is in force with one."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from orchestrator.runtime.policy_file import GROUP
from tests import ROOT
from tests.harness.commands import Served, cli, environment, refused, serving
from tests.harness.support import dialed
from tests.waiting import HANG_S

RULES = """
[[rules]]
id = "reads"
effect = "allow"
tools = ["cc_read"]

[[rules]]
id = "farm"
effect = "deny"
tools = ["cc_read"]
labels = ["Farm*"]
reason = "Hands off."
"""
LOOSE = DEFAULT_POLICY_TOML.replace(
    "[[examples]]", '[[rules]]\nid = "more"\neffect = "deny"\ntools = ["cc_find"]\n\n[[examples]]', 1
)
"""The shipped policy and one rule more."""
HEAVY = ("pydantic_ai", "uvicorn", "starlette", "websockets", "httpx2", "sqlite3", "orchestrator.app")


def written(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)


def rules_of(done: "subprocess.CompletedProcess[str]") -> dict[str, list[str]]:
    """The rows of the table of rules: effect, outcome and what was missed, by the rule's id."""
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    table = rows[next(at for at, row in enumerate(rows) if row.startswith("#")) + 1 :]
    return {row.split()[1]: row.split(None, 4)[2:] for row in table}


# -- without a server --------------------------------------------------------------------


def test_p9_check_says_what_serve_would_say_of_a_file(tmp_path: Path) -> None:
    """A good file: version and counts, exit 0. A bad one: file, rule and reason in one sentence, exit 1."""
    good = written(tmp_path / "good.toml", RULES)
    done = cli(tmp_path, "policy", "check", good)
    told = json.loads(cli(tmp_path, "policy", "check", good, "--json").stdout)
    assert done.returncode == 0, done.stderr
    first, denied, asked, remedy = done.stdout.splitlines()
    assert first == f"{good} is in order: version {told['policy_version']}, 2 rules, 0 examples."
    assert denied.startswith("No rule names ask_user, cc_docs, cc_find, cc_info, ")
    assert denied.endswith(": these calls are denied.")
    assert "cc_peripheral_call" in asked
    assert "docs/policy.md" in remedy
    assert told["tools_without_a_rule"][:3] == ["ask_user", "cc_delete", "cc_docs"]
    assert told == {**told, "file": good, "mode": "normal", "rules": 2, "examples": 0, "custom": []}
    guests = f'{RULES}[[rules]]\nid = "kids"\neffect = "ask"\ntools = ["cc_read"]\nroles = ["guest"]\n'
    assert "Rule kids names guest: nobody" in cli(tmp_path, "policy", "check", written(tmp_path / "g", guests)).stdout
    plan = written(tmp_path / "plan.toml", f'mode = "plan"\n{RULES}')
    assert "plan mode" in cli(tmp_path, "policy", "check", plan).stdout
    typo = written(tmp_path / "typo.toml", RULES.replace('tools = ["cc_read"]\nlabels', 'tools = ["cc_raed"]\nlabels'))
    refused(cli(tmp_path, "policy", "check", typo), f"{typo}: rule 2 (farm): no such tool: 'cc_raed'", code=1)
    refused(cli(tmp_path, "policy", "check", str(tmp_path / "none.toml")), "none.toml' cannot be read", code=4)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    refused(cli(tmp_path, "policy", "check", str(binary), "--json"), "binary.toml cannot be read", code=1)


def test_p10_check_runs_the_examples(tmp_path: Path) -> None:
    """An example that comes out otherwise than the file says makes the check fail."""
    example = '[[examples]]\ncall = { tool = "cc_read", args = { path = "a" }, label = "Farm 2", family = "turtle" }\n'
    right = written(tmp_path / "right.toml", f'{RULES}{example}expect = "deny"\n')
    assert "1 example." in cli(tmp_path, "policy", "check", right).stdout
    wrong = written(tmp_path / "wrong.toml", f'{RULES}{example}expect = "allow"\n')
    refused(cli(tmp_path, "policy", "check", wrong), f"{wrong}: example 1 (cc_read): it expects 'allow', but", code=1)


def test_check_without_a_name_takes_the_file_that_serve_would_load(tmp_path: Path) -> None:
    """The data directory's policy.toml, or what the settings there or in the environment name instead."""
    data = tmp_path / "data"
    data.mkdir()
    here = ["policy", "check", "--data-dir", str(data)]
    refused(cli(tmp_path, *here), f"{data / 'policy.toml'} cannot be read", code=1)
    written(data / "policy.toml", RULES)
    other = written(tmp_path / "other.toml", RULES)
    third = written(tmp_path / "third.toml", RULES)
    assert cli(tmp_path, *here).stdout.startswith(f"{data / 'policy.toml'} is in order")
    written(data / "cc-orchestrator.toml", f"policy = {json.dumps(other)}\n")
    assert cli(tmp_path, *here).stdout.startswith(f"{other} is in order")
    assert cli(tmp_path, *here, CC_ORCHESTRATOR_POLICY=third).stdout.startswith(f"{third} is in order")


@pytest.mark.deep
def test_p12_check_and_explain_have_the_plugins_that_a_file_names(tmp_path: Path) -> None:
    """A plugin that is not installed makes the check fail; one that is has its say in what is explained."""
    file = written(tmp_path / "policy.toml", f'custom = ["night"]\n{RULES}')
    refused(cli(tmp_path, "policy", "check", file), f"{file}: there is no plugin 'night'", code=1)
    info = tmp_path / "site" / "nightly-1.0.dist-info"
    info.mkdir(parents=True)
    written(info / "METADATA", "Metadata-Version: 2.1\nName: nightly\nVersion: 1.0\n")
    written(info / "entry_points.txt", f"[{GROUP}]\nnight = nightly_rules:night\n")
    written(
        tmp_path / "site" / "nightly_rules.py",
        "from orchestrator.core.policy import CustomVerdict, Effect\n"
        "def night(call, context):\n    return CustomVerdict(effect=Effect.ASK, reason='It is night.')\n",
    )
    with_it = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path / "site")))}
    assert "0 examples, plugin night." in cli(tmp_path, "policy", "check", file, **with_it).stdout
    asked = cli(tmp_path, "policy", "explain", "cc_read", "path=a", "--family", "turtle", "--policy", file, **with_it)
    assert asked.stdout.startswith("verdict  ask\n")
    assert rules_of(asked)["custom:night"] == ["ask", "said", "It is night."]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("known", "effect", "farm"),
    [
        (("--family", "turtle", "--label", "Farm 2"), "deny", ["deny", "matched", "-"]),
        (("--family", "turtle", "--label", "Mill"), "allow", ["deny", "no", "labels"]),
        ((), "ask", ["deny", "possible", "labels, not known yet"]),
    ],
)
def test_p19_explain_names_the_predicate_that_missed(
    tmp_path: Path, known: Sequence[str], effect: str, farm: list[str]
) -> None:
    """Each rule with its outcome; what misses is named, and what is not known yet is possible."""
    file = written(tmp_path / "policy.toml", RULES)
    done = cli(tmp_path, "policy", "explain", "cc_read", "path=a", "--policy", file, *known)
    assert done.stdout.startswith(f"verdict  {effect}\nrisk     low\nreason   ")
    assert rules_of(done) == {"reads": ["allow", "matched", "-"], "farm": farm}
    told = json.loads(
        cli(tmp_path, "policy", "explain", "cc_read", "path=a", "--policy", file, *known, "--json").stdout
    )
    assert (told["effect"], told["rules"][1]["outcome"]) == (effect, farm[1])


def test_p19_explain_tells_the_people_who_would_have_to_approve(tmp_path: Path) -> None:
    """How many, and the steps in their order; nothing of that where nobody is asked."""
    steps = '[{ by = "role:reviewer", count = 2 }, { by = "person:ann" }]'
    tables = f'[[approvals]]\nwhen = {{ paths = ["startup*"] }}\nsteps = {steps}\n\n[[rules]]'
    file = written(tmp_path / "policy.toml", DEFAULT_POLICY_TOML.replace("[[rules]]", tables, 1))
    asked = ("policy", "explain", "cc_write", "path=startup.lua", "content=b", "--policy", file)
    said = "3 people have to approve it: 2 people with the role reviewer, then ann."
    assert f"\napproval {said}\n" in cli(tmp_path, *asked).stdout
    told = json.loads(cli(tmp_path, *asked, "--json").stdout)["approval"]
    assert told == {
        "need": 3,
        "steps": [{"by": "role:reviewer", "count": 2}, {"by": "person:ann", "count": 1}],
        "told": said,
    }
    denied = cli(tmp_path, *asked, "--plan").stdout
    assert "verdict  deny\n" in denied
    assert "approval" not in denied


def test_p18_explain_knows_plan_mode(tmp_path: Path) -> None:
    """With --plan what changes something is denied with plan_mode, and what looks is not."""
    file = written(tmp_path / "policy.toml", DEFAULT_POLICY_TOML)
    here = ("--policy", file, "--family", "turtle", "--plan")
    write = cli(tmp_path, "policy", "explain", "cc_write", "path=a", "content=b", *here).stdout
    assert "verdict  deny\n" in write
    assert "reason   plan_mode\n" in write
    assert "verdict  allow\n" in cli(tmp_path, "policy", "explain", "cc_read", "path=a", *here).stdout


def test_explain_takes_arguments_as_the_tool_does(tmp_path: Path) -> None:
    """Text is text though it looks like a number; what is no text is JSON; `computer` is the call's computer."""
    file = written(
        tmp_path / "policy.toml",
        RULES
        + '[[rules]]\nid = "long"\neffect = "deny"\ntools = ["cc_read"]\n'
        + 'args = [{ pointer = "/max_lines", over_number = 10 }]\n'
        + '[[rules]]\nid = "seven"\neffect = "deny"\ntools = ["cc_read"]\nargs = [{ pointer = "/path", eq = "7" }]\n'
        + '[[rules]]\nid = "mill"\neffect = "deny"\ntools = ["cc_read"]\ncomputers = ["mill"]\n',
    )

    def outcomes(*arguments: str) -> list[str]:
        done = cli(tmp_path, "policy", "explain", "cc_read", *arguments, "--policy", file)
        return [name for name, (_, outcome, _) in rules_of(done).items() if outcome == "matched"]

    elsewhere = ("--computer", "farm")
    assert outcomes("path=7", "max_lines=11", *elsewhere) == ["reads", "long", "seven"]
    assert outcomes("path=a", "max_lines=10", *elsewhere) == ["reads"]
    assert outcomes("--args", '{"path": "7", "max_lines": 99}', "max_lines=1", *elsewhere) == ["reads", "seven"]
    assert outcomes("path=a=b", "computer=mill") == ["reads", "mill"]


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cc_read", "pfad=a"), ("cc_read has no argument 'pfad'. It has: computer, path",)),
        (("cc_read", "--args", '{"pfad": "a"}'), ("cc_read has no argument 'pfad'",)),
        (("cc_read", "path"), ("'path' is not a KEY=VALUE. Say it like",)),
        (("cc_read", "=a"), ("'=a' is not a KEY=VALUE.",)),
        (("cc_read", "max_lines=few"), ("max_lines is not text, and 'few' is not JSON.",)),
        (("cc_read", "--args", "[]"), ("--args is not a JSON object.",)),
        (("cc_read", "--args", "{"), ("--args is not JSON",)),
        (("cc_read", "--args", "[" * 5000), ("--args is JSON that nobody can read.",)),
        (("cc_read", "--args", '{"path": "a", "path": "b"}'), ("--args has the key 'path' twice.",)),
        (("cc_read", "path=a", "path=b"), ("'path' is said twice.",)),
        (("cc_read", "path=a", "--family", "zombie"), ("There is no kind of computer 'zombie'. Say computer,",)),
    ],
)
def test_what_cannot_be_explained_is_usage(tmp_path: Path, arguments: Sequence[str], words: Sequence[str]) -> None:
    """A call that cannot be meant is one sentence and exit code 2, before any policy is asked."""
    refused(cli(tmp_path, "policy", "explain", *arguments, "--policy", str(tmp_path / "none.toml")), *words)


def test_explain_says_what_the_call_still_lacks(tmp_path: Path) -> None:
    """What a call of the tool has beside what was typed is said beside the answer, since rules may look at it."""
    file = written(tmp_path / "policy.toml", RULES)
    done = cli(tmp_path, "policy", "explain", "cc_write", "path=a", "--policy", file)
    assert done.stderr == "A call of cc_write also has content: rules may say more then.\n"
    assert rules_of(done)["reads"] == ["allow", "no", "tools"]
    unknown = cli(tmp_path, "policy", "explain", "cc_dance", "with=me", "--policy", file)
    refused(unknown, "No such tool: 'cc_dance'. The tools are: ask_user, cc_delete", code=4)
    assert unknown.stdout == ""
    refused(cli(tmp_path, "policy", "explain", "cc_read", "path=a", "--policy", "none.toml"), "cannot be read", code=4)


def test_explain_asks_the_directorys_file_only_where_no_server_is_named(tmp_path: Path) -> None:
    """Where no server answers at the usual place the data directory's file is asked, and that is said."""
    data = tmp_path / "data"
    data.mkdir()
    asked = ["policy", "explain", "cc_read", "path=a", "--family", "turtle", "--data-dir", str(data)]
    refused(cli(tmp_path, *asked), "No orchestrator answers", code=3)
    file = written(data / "policy.toml", RULES)
    done = cli(tmp_path, *asked)
    assert rules_of(done)["farm"] == ["deny", "no", "labels"]
    assert "No orchestrator answers" in done.stderr
    assert done.stderr.endswith(f" So {file} is asked.\n")
    (data / "admin.token").write_text("x")
    refused(cli(tmp_path, *asked, "--url", "http://127.0.0.1:1"), "No orchestrator answers at", code=3)
    refused(cli(tmp_path, *asked, CC_ORCHESTRATOR_URL="http://127.0.0.1:1"), "No orchestrator answers at", code=3)


@pytest.mark.parametrize("arguments", [("check",), ("explain", "cc_read", "path=a", "--policy")])
def test_a_file_is_judged_without_server_or_models(tmp_path: Path, arguments: Sequence[str]) -> None:
    """Checking and explaining a file loads no server, socket, store or model."""
    file = written(tmp_path / "policy.toml", RULES)
    code = (
        "import sys\nfrom orchestrator.terminal.cli import main\n"
        "try:\n    main()\n"
        f"finally:\n    print([n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "policy", *arguments, file],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


# -- with a server -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server, with the shipped policy."""
    home = tmp_path_factory.mktemp("home")
    with serving(home, home / "data") as served:
        yield served


def in_force(server: Served) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(server.cli("policy", "show", "--json").stdout)
    return shown


def test_p19_the_server_says_of_a_call_what_its_file_says(served: Served) -> None:
    """`explain` asks the policy in force; the answer is that of the file, rule by rule, and nothing has run."""
    call = (
        "policy",
        "explain",
        "cc_write",
        "path=startup.lua",
        "content=x",
        "--family",
        "turtle",
        "--role",
        "reviewer",
    )
    asked = served.cli(*call, "--json")
    assert asked.returncode == 0, asked.stderr
    offline = cli(served.home, *call, "--json", "--policy", str(served.data / "policy.toml"))
    assert json.loads(asked.stdout) == json.loads(offline.stdout)
    assert rules_of(served.cli(*call))["boot-files"] == ["ask", "matched", "-"]
    assert json.loads(served.cli("tasks", "--json").stdout) == []


async def test_p19_the_server_knows_the_computers_that_were_there(served: Served) -> None:
    """What is not said of a computer is what the server knows of it, and what is said counts instead."""
    token = served.cli("token", "computer", "farm").stdout.strip()
    call = ("policy", "explain", "cc_write", "path=a", "content=b", "--computer", "farm")
    async with dialed(served.url, token) as client:
        await client.greet(family="command")
        known = await asyncio.to_thread(served.cli, *call)
        said = await asyncio.to_thread(served.cli, *call, "--family", "turtle")
    assert rules_of(known)["command-computers"] == ["deny", "matched", "-"]
    assert rules_of(said)["command-computers"] == ["deny", "no", "families"]


def test_p14_a_file_that_cannot_be_loaded_alerts_and_changes_nothing(served: Served) -> None:
    """`reload` of a broken file exits with 1, `show` has the alert; mended, the new version is in force."""
    file = served.data / "policy.toml"
    before = in_force(served)
    assert before["alert"] == ""
    shown = served.cli("policy", "show").stdout
    secrets = "secrets  mask for hosted models, allow for local ones (secrets_to_model)"
    head = f"version  {before['policy_version']}\nfrom     {file}\nmode     normal\nundo     offer\n{secrets}\n#"
    assert head in shown
    assert ["boot-files", "ask", "paths"] in [line.split()[1:4] for line in shown.splitlines()]
    written(file, DEFAULT_POLICY_TOML.replace('"cc_shell"', '"cc_shlel"'))
    failed = served.cli("policy", "reload")
    refused(failed, f"{file}: rule 3 (running)", f"{before['policy_version']} stays in force", code=1)
    assert failed.stdout == ""
    alert = in_force(served)
    assert (alert["policy_version"], "cc_shlel" in alert["alert"]) == (before["policy_version"], True)
    assert "alert    " in served.cli("policy", "show").stdout
    written(file, LOOSE)
    version = json.loads(cli(served.home, "policy", "check", str(file), "--json").stdout)["policy_version"]
    assert version != before["policy_version"]
    assert served.cli("policy", "reload").stdout == f"Policy {version} is in force.\n"
    assert (in_force(served)["policy_version"], in_force(served)["alert"]) == (version, "")


def test_rules_for_people_are_shown_and_tried(served: Served, tmp_path: Path) -> None:
    """`show` lists approvals and roles; `explain --as` takes the roles and groups that somebody has now."""
    people = """
[roles.tutor]
may = ["view", "decide"]
max_risk = "medium"

[[approvals]]
when = { groups = ["class"] }
steps = [{ by = "role:tutor", count = 2 }]

[[rules]]
id = "not-theirs"
effect = "deny"
tools = ["cc_write"]
groups = ["class"]
roles = ["tutor"]

[[rules]]
"""
    policy = DEFAULT_POLICY_TOML.replace("[[rules]]", people, 1)
    assert served.cli("policy", "apply", written(tmp_path / "people.toml", policy)).returncode == 0
    shown = served.cli("policy", "show").stdout
    assert "\nrole tutor may view, decide up to medium risk\n" in shown
    steps = "2 people have to approve it: 2 people with the role tutor."
    assert f"\napproval 1: {steps} For calls of tools *; groups class.\n" in shown
    served.cli("people", "add", "tim", "--role", "tutor")
    served.cli("people", "add", "ann")
    served.cli("groups", "add", "class", "tim")
    asked = ("policy", "explain", "cc_write", "path=a", "content=b")
    assert rules_of(served.cli(*asked, "--as", "tim"))["not-theirs"] == ["deny", "matched", "-"]
    assert rules_of(served.cli(*asked, "--as", "ann"))["not-theirs"] == ["deny", "no", "roles"]
    assert rules_of(served.cli(*asked, "--as", "tim", "--group", "b"))["not-theirs"] == ["deny", "no", "groups"]
    refused(served.cli(*asked, "--as", "nobody"), "There is no person 'nobody'.", code=4)


def test_only_an_admin_reloads(served: Served) -> None:
    """`reload` takes the role admin; `show` and `explain` are for everybody with a token."""
    token = served.cli("people", "add", "carl").stdout.strip()
    as_carl = {"CC_ORCHESTRATOR_TOKEN": token, "CC_ORCHESTRATOR_URL": served.url}
    refused(cli(served.home, "policy", "reload", **as_carl), "carl may not do this", code=3)
    assert cli(served.home, "policy", "show", **as_carl).returncode == 0
    assert cli(served.home, "policy", "explain", "cc_list", "path=a", **as_carl).returncode == 0


def test_apply_puts_a_file_into_force(served: Served, tmp_path: Path) -> None:
    """`apply` checks as a start does and takes the role admin; a server alone on its store writes it into its file."""
    file = served.data / "policy.toml"
    before = in_force(served)["policy_version"]
    broken = written(tmp_path / "broken.toml", "rules = 3")
    refused(served.cli("policy", "apply", broken), "rules")
    refused(served.cli("policy", "apply", str(tmp_path / "none.toml")), "none.toml' cannot be read", code=4)
    assert in_force(served)["policy_version"] == before
    other = RULES.replace("Hands off.", "Not ours.")
    good = written(tmp_path / "good.toml", other)
    token = served.cli("people", "add", "dora").stdout.strip()
    as_dora = {"CC_ORCHESTRATOR_TOKEN": token, "CC_ORCHESTRATOR_URL": served.url}
    refused(cli(served.home, "policy", "apply", good, **as_dora), "dora may not do this", code=3)
    version = json.loads(cli(served.home, "policy", "check", good, "--json").stdout)["policy_version"]
    assert served.cli("policy", "apply", good).stdout == f"Policy {version} is in force.\n"
    assert file.read_text("utf-8") == other
    told = json.loads(served.cli("policy", "apply", good, "--json").stdout)
    assert told == {"policy_version": version, "alert": ""}
    many = written(tmp_path / "many.toml", other + "\n[requests]\napprovals = 20\n")
    for said in (served.cli("policy", "apply", many), served.cli("policy", "reload"), served.cli("policy", "show")):
        assert said.stdout.splitlines()[-1].startswith("Too few people: 20 people who may decide have to approve, and ")
