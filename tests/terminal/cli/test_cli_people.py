"""`people` and `token` on the command line: who may come in, and how somebody is let out again."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from orchestrator.client import Client
from tests.harness.commands import Served, cli, on_a_terminal, refused, serving
from tests.waiting import HANG_S

ONLY = "'admin' is the only admin. The next start of `serve` writes a new admin.token into its data directory."


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests that leave it an admin."""
    home = tmp_path_factory.mktemp("home")
    with serving(home, home / "data") as served:
        yield served


def listed(server: Served) -> dict[tuple[str, str], list[str]]:
    """Who has a good token: the roles, by kind and name."""
    rows = json.loads(server.cli("people", "list", "--json").stdout)
    return {(one["kind"], one["name"]): one["roles"] for one in rows if not one["revoked"]}


def as_who(server: Served, token: str) -> dict[str, str]:
    return {"CC_ORCHESTRATOR_TOKEN": token, "CC_ORCHESTRATOR_URL": server.url}


def end_of(socket: ClientConnection) -> int | None:
    """The code with which the other side closes it; None: it was just gone."""
    try:
        while True:
            socket.recv(timeout=HANG_S)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


def test_a_person_may_submit_and_review_unless_somebody_says_else(served: Served) -> None:
    """Alone on stdout stands the token, once; beside it how it is used; --role says which roles instead."""
    added = served.cli("people", "add", "bob")
    token = added.stdout.strip()
    assert added.stdout == f"{token}\n"
    assert token not in added.stderr
    assert "bob may submit tasks, decide what these and the tasks of submitters and programs ask " in added.stderr
    assert f"bob uses it so:\n  export CC_ORCHESTRATOR_URL={served.url} CC_ORCHESTRATOR_TOKEN=…\n" in added.stderr
    assert cli(served.home, "tasks", **as_who(served, token)).returncode == 0
    assert served.cli("people", "add", "eve", "--role", "submitter").returncode == 0
    assert served.cli("token", "person", "ron").returncode == 0
    roles = listed(served)
    assert roles["person", "bob"] == ["submitter", "reviewer"]
    assert roles["person", "eve"] == roles["person", "ron"] == ["submitter"]
    assert set(json.loads(served.cli("people", "add", "ann", "--json").stdout)) == {"kind", "name", "token", "may"}
    refused(served.cli("people", "add", "tom", "--role", "king"), "The roles do not fit.")
    refused(served.cli("people", "add", "a b"), "The name 'a b' does not fit.")


def test_an_agent_submits_and_does_nothing_else(served: Served) -> None:
    """`--agent` makes a program's token: it submits, has no say over people, and is revoked by its kind."""
    added = served.cli("people", "add", "night-job", "--agent", "--owner", "admin")
    assert "night-job may submit tasks, which count as tasks of admin; people decide what they ask.\n" in added.stderr
    refused(served.cli("people", "add", "x", "--agent", "--owner", "y"), "There is no person 'y' to own it.")
    refused(served.cli("people", "add", "Admin"), "The name 'Admin' looks like 'admin', which is there")
    token = added.stdout.strip()
    assert listed(served)["agent", "night-job"] == ["submitter"]
    shown = served.cli("people", "list").stdout
    assert re.search(r"^agent +night-job +submitter +\d{4}-\d\d-\d\d \d\d:\d\d +good +-$", shown, re.MULTILINE), shown
    agent = as_who(served, token)
    followed = cli(served.home, "run", "x", "--max-steps", "1", **agent)
    assert "[FINAL] Success=False" in followed.stdout, followed.stderr
    refused(cli(served.home, "people", "add", "friend", **agent), "A person has to do this.", code=3)
    refused(served.cli("people", "add", "judge", "--agent", "--role", "reviewer"), "The roles do not fit.")
    refused(served.cli("people", "revoke", "night-job"), "There is no token of person 'night-job' to revoke.", code=4)
    assert served.cli("people", "revoke", "night-job", "--agent").stdout == "revoked 1\n"
    refused(cli(served.home, "tasks", **agent), "not known or was revoked", code=3)


def test_r5_a_revoked_reviewer_is_out_at_once(served: Served) -> None:
    """`revoke` says how many tokens it ended; the sockets that they hold open are closed within seconds."""
    tokens = [
        served.cli("people", "add", "kim", *more).stdout.strip()
        for more in ((), ("--role", "reviewer", "--role", "submitter"))
    ]
    known = (
        "kim has a token already, with the roles reviewer, submitter. To change that, say `people revoke kim` first."
    )
    refused(served.cli("people", "add", "kim", "--role", "admin"), known)
    client = Client(served.url, tokens[0])
    with connect(client._reviewer_url(), proxy=None, **client._offer()) as socket:
        socket.recv(timeout=HANG_S)
        done = served.cli("people", "revoke", "kim")
        assert (done.stdout, done.returncode) == ("revoked 2\n", 0)
        assert done.stderr == "It holds from now on; connections that were open are closed.\n"
        assert end_of(socket) == 1008
    client.close()
    for token in tokens:
        refused(cli(served.home, "tasks", **as_who(served, token)), "not known or was revoked", code=3)
    refused(served.cli("people", "revoke", "kim"), "There is no token of person 'kim' to revoke.", code=4)


def test_one_of_two_admins_goes_without_a_question(served: Served) -> None:
    """Where somebody else is admin, nothing is asked; nobody gives a program an admin's name."""
    assert served.cli("people", "add", "boss", "--role", "admin").returncode == 0
    refused(served.cli("people", "add", "admin", "--agent"), "looks like 'admin', the name of a person")
    assert served.cli("people", "revoke", "boss").stdout == "revoked 1\n"


def test_the_last_admin_is_not_revoked_by_mistake(tmp_path: Path) -> None:
    """Without a terminal it needs --yes, on one it is asked; the next start of `serve` makes a new admin."""
    data = tmp_path / "data"
    with serving(tmp_path, data) as server:
        first = (data / "admin.token").read_text()
        refused(server.cli("people", "revoke", "admin"), "'admin' is the only admin. Say --yes", "a new admin.token")
        refused(server.cli("token", "revoke", "person", "admin"), "'admin' is the only admin. Say --yes")
        for answer in ("\r", "no\r"):
            with on_a_terminal(tmp_path, "people", "revoke", "admin", *server.where) as terminal:
                terminal.expect(f"{ONLY}\r\nRevoke it? [y/N] ")
                terminal.type(answer)
                terminal.expect("Nothing was revoked.")
                assert terminal.end() == 1
        with on_a_terminal(tmp_path, "people", "revoke", "admin", *server.where) as terminal:
            terminal.expect("[y/N] ")
            terminal.interrupt()
            assert terminal.end() == 130
        assert listed(server) == {("person", "admin"): ["submitter", "reviewer", "admin"]}
        with on_a_terminal(tmp_path, "people", "revoke", "admin", *server.where) as terminal:
            terminal.expect("[y/N] ")
            terminal.type("y\r")
            terminal.expect("revoked 1")
            terminal.expect("There is no admin now. The next start of `serve` writes a new admin.token")
            assert terminal.end() == 0
        refused(server.cli("tasks"), "not known or was revoked", code=3)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG_S) == 0
    with serving(tmp_path, data) as server:
        assert (data / "admin.token").read_text() != first
        assert listed(server) == {("person", "admin"): ["submitter", "reviewer", "admin"]}
        done = server.cli("people", "revoke", "admin", "--yes")
        assert (done.returncode, done.stdout) == (0, "revoked 1\n")
        assert "There is no admin now." in done.stderr


def test_ones_own_token_is_not_revoked_by_mistake(served: Served) -> None:
    """Who would shut themselves out is told so first, by either command; others and other kinds are not asked."""
    boss = served.cli("people", "add", "boss", "--role", "admin").stdout.strip()
    served.cli("people", "add", "robot", "--agent")
    served.cli("people", "add", "tim")
    as_boss = as_who(served, boss)
    for command in (("people", "revoke", "boss"), ("token", "revoke", "person", "boss")):
        refused(cli(served.home, *command, **as_boss), "'boss' is who you are here. Say --yes", "another admin")
    assert cli(served.home, "people", "revoke", "tim", **as_boss).stdout == "revoked 1\n"
    assert cli(served.home, "people", "revoke", "robot", "--agent", **as_boss).stdout == "revoked 1\n"
    assert cli(served.home, "token", "revoke", "person", "boss", "--yes", **as_boss).stdout == "revoked 1\n"
    refused(cli(served.home, "tasks", **as_boss), "not known or was revoked", code=3)


def test_the_tokens_group_knows_every_kind(served: Served) -> None:
    """`token revoke` takes person, computer and agent, and names them where there is nothing to revoke."""
    assert served.cli("token", "computer", "farm").stdout.startswith("ccc_")
    assert served.cli("token", "revoke", "computer", "farm").stdout == "revoked 1\n"
    assert served.cli("people", "add", "bot", "--agent").returncode == 0
    assert served.cli("token", "revoke", "agent", "bot").stdout == "revoked 1\n"
    refused(served.cli("token", "revoke", "agent", "bot"), "`cc-orchestrator people list` lists them", code=4)
    refused(served.cli("token", "revoke", "robot", "bot"), "The kinds are person, computer and agent.", code=4)


def test_a_pin_is_set_without_being_shown(served: Served) -> None:
    """On a pipe it is the first line; on a terminal it is asked for twice. It is never an argument."""
    assert "Your PIN is set." in served.cli("pin", "set", typed="480251\n").stderr
    refused(served.cli("pin", "set", typed="123456\n"), "Everybody would try this PIN first.", code=2)
    with on_a_terminal(served.home, "pin", "set", *served.where) as terminal:
        terminal.expect("PIN, 6 to 12 digits: ")
        terminal.type("905172\r")
        terminal.expect("The same again: ")
        terminal.type("905172\r")
        terminal.expect("Your PIN is set.")
        assert "905172" not in terminal.text
    assert json.loads(served.cli("pin", "remove", "--json").stdout) == {"set": False}
