"""Grants and requests on the command line: `grants`, `requests`, and what `run` says of both."""

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.client import Client
from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from tests.harness.commands import Served, cli, paused, refused, script, talking, until
from tests.harness.support import call, final, says
from tests.waiting import HANG_S

WRITE = call("local_write", path="plan.txt", content="new\n")
AGAIN = call("local_write", path="plan.txt", content="newer\n")


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose model plays the script in the prompt, for all tests of this module but one."""
    home = tmp_path_factory.mktemp("home")
    with talking(home, home / "data") as served:
        yield served


def task_of(server: Served, task_id: str) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(server.cli("tasks", "show", task_id, "--json").stdout)
    return task


def settled(server: Served, task_id: str, *wanted: str) -> dict[str, Any]:
    """The task once one of these fields says something."""
    deadline = time.monotonic() + HANG_S
    while not any((task := task_of(server, task_id))[name] for name in wanted):
        assert time.monotonic() < deadline, task
    return task


def remembered(server: Served, task_id: str, **spec: Any) -> str:
    """Approve the call that a task asks about, with a grant; its id."""
    request = task_of(server, task_id)["request"]
    client = Client.of_environment(url=server.url, data_dir=server.data)
    decision = {"call_id": request["tool_calls"][0]["call_id"], "action": "approve", "remember": spec}
    client.request("POST", f"/v1/resume/{request['request_id']}", {"decisions": [decision]})
    client.close()
    rows = json.loads(server.cli("grants", "list", "--all", "--json").stdout)
    return next(str(one["grant_id"]) for one in rows if one["task_id"] == task_id)


def cells(server: Served, grant_id: str, *more: str) -> list[str]:
    """The line of a grant in the list, cell by cell; empty: it is not there."""
    lines = server.cli("grants", "list", *more).stdout.splitlines()
    return next((re.split("  +", line) for line in lines if line.startswith(grant_id)), [])


# -- grants ------------------------------------------------------------------------------


def test_g6_a_sessions_grant_is_listed_used_and_revoked(talker: Served) -> None:
    """The list says what it allows, for whom, until when, how often, by whom; revoked, the next call asks again."""
    follower = talker.start("run", script(says(WRITE), final()), "--session", "castle")
    task_id = until(follower, "[REVIEW]").split()[1]
    follower.kill()
    follower.communicate()
    grant_id = remembered(talker, task_id, scope="session", any_content=True, max_uses=5, expires_s=3600)
    settled(talker, task_id, "result")
    (row,) = json.loads(talker.cli("grants", "list", "--session", "castle", "--json").stdout)
    ends = datetime.fromisoformat(row["expires_at"]).astimezone().strftime("%Y-%m-%d %H:%M")
    assert cells(talker, grant_id) == [
        grant_id, "good", "admin in castle", ends, "0 of 5", "admin", "local_write: plan.txt; any text",
    ]  # fmt: skip
    assert not cells(talker, grant_id, "--session", "elsewhere")
    run = ("run", script(says(AGAIN), final()), "--session", "castle")
    assert talker.cli(*run).returncode == 0
    assert "1 of 5" in cells(talker, grant_id)
    assert talker.cli("grants", "revoke", grant_id).stdout == f"revoked {grant_id}\n"
    assert talker.cli("grants", "revoke", grant_id).stdout == f"{grant_id} was revoked before\n"
    assert not cells(talker, grant_id)
    assert cells(talker, grant_id, "--all")[1] == "revoked"
    asked = talker.start(*run)
    until(asked, "[REVIEW]")
    asked.kill()
    asked.communicate()


def test_g1_a_grant_for_a_call_ends_with_its_task(talker: Served) -> None:
    """It says that it is only that call; once the task ended it is over, and only --all shows it."""
    task_id = paused(talker)
    grant_id = remembered(talker, task_id, scope="call")
    settled(talker, task_id, "result")
    assert not cells(talker, grant_id)
    assert cells(talker, grant_id, "--all") == [
        grant_id, "over", f"admin in {task_id}", "the task's end", "0", "admin",
        "local_write: plan.txt; only this very call",
    ]  # fmt: skip


@pytest.mark.deep
def test_who_may_not_revoke_a_grant_is_told_why(talker: Served) -> None:
    """An unknown grant, and somebody who neither gave it nor is covered by it, end in one sentence and 3."""
    refused(
        talker.cli("grants", "revoke", "g-none"), "There is no grant g-none.", "`cc-orchestrator grants list`", code=4
    )
    grant_id = remembered(talker, paused(talker), scope="task")
    token = talker.cli("people", "add", "eve", "--role", "submitter").stdout.strip()
    eve = {"CC_ORCHESTRATOR_TOKEN": token, "CC_ORCHESTRATOR_URL": talker.url}
    refused(cli(talker.home, "grants", "revoke", grant_id, **eve), "Only the person who gave a grant", code=3)
    nothing = cli(talker.home, "grants", "list", **eve)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "No grant can be used now; --all shows those that ended, too.\n"
    assert cli(talker.home, "grants", "list", "--all", **eve).stderr == "There are no grants.\n"
    assert json.loads(cli(talker.home, "grants", "list", "--json", **eve).stdout) == []


# -- requests ----------------------------------------------------------------------------


@pytest.mark.deep
def test_a_request_gets_more_time(talker: Served) -> None:
    """`requests extend --for` moves the time until which it waits; what is no later time is refused."""
    task_id = paused(talker)
    before = task_of(talker, task_id)["request"]
    request_id = before["request_id"]
    done = talker.cli("requests", "extend", request_id, "--for", "100h")
    assert done.stdout == f"request {request_id} waits 100h from now on; task {task_id} is Paused\n"
    after = task_of(talker, task_id)["request"]
    gained = datetime.fromisoformat(after["expires_at"]) - datetime.fromisoformat(before["expires_at"])
    assert after["request_id"] == request_id
    assert timedelta(hours=75) < gained < timedelta(hours=77)
    refused(talker.cli("requests", "extend", request_id, "--for", "1h"), "later than that already")
    refused(talker.cli("requests", "extend", request_id, "--for", "0"), "'0' is no time at all.", "10m or 1h30m")
    refused(talker.cli("requests", "extend", request_id, "--for", "soon"), "'soon' is not a span of time.")
    assert talker.cli("requests", "extend", request_id).returncode == 2
    assert set(json.loads(talker.cli("requests", "extend", request_id, "--for", "120h", "--json").stdout)) == {
        "task_id",
        "status",
    }


@pytest.mark.deep
def test_a_request_is_taken_back_and_the_task_goes_on(talker: Served) -> None:
    """`requests withdraw`: the call does not run, the task goes on to its next step; a second time is refused."""
    task_id = paused(talker)
    request_id = task_of(talker, task_id)["request"]["request_id"]
    done = talker.cli("requests", "withdraw", request_id)
    assert done.stdout.startswith(f"request {request_id} was taken back; task {task_id} is ")
    assert settled(talker, task_id, "result")["request"] is None
    refused(talker.cli("requests", "withdraw", request_id), "no longer open: it was withdrawn", code=3)
    refused(talker.cli("requests", "withdraw", "r-none"), "There is no", code=4)


@pytest.mark.deep
def test_what_nobody_answered_in_time_is_asked_again(tmp_path: Path) -> None:
    """A request that lapsed and left its task paused is raised anew by `requests renew`, under another id."""
    data = tmp_path / "data"
    data.mkdir()
    short = '[requests]\non_timeout = "stay_paused"\nexpires_s = { medium = 1, high = 1 }\n\n[[rules]]'
    (data / "policy.toml").write_text(DEFAULT_POLICY_TOML.replace("[[rules]]", short, 1))
    with talking(tmp_path, data) as server:
        task_id = paused(server)
        lapsed = settled(server, task_id, "lapsed_request")["lapsed_request"]
        done = server.cli("requests", "renew", lapsed)
        assert (done.returncode, done.stdout.startswith(f"task {task_id} asks again, in a new request")) == (0, True)
        again = settled(server, task_id, "request", "lapsed_request")
        assert (again["request"] or {}).get("request_id", again["lapsed_request"]) != lapsed
        refused(server.cli("requests", "renew", lapsed), "The request is no longer open", code=3)


# -- run ---------------------------------------------------------------------------------


@pytest.mark.deep
def test_p18_a_read_only_task_changes_nothing_and_asks_nobody(talker: Served) -> None:
    """`run --read-only`: what would change something is denied with plan_mode, and the task goes on."""
    ran = talker.cli("run", script(says(WRITE), final()), "--read-only")
    assert "[TOOL_RESULT] Denied by policy: plan_mode\n[STEP 2]\n" in ran.stdout
    assert "[REVIEW]" not in ran.stdout
    task_id = ran.stdout.split()[1]
    assert task_of(talker, task_id)["read_only"] is True


@pytest.mark.deep
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("then", "goes_on"), [("continue", True), ("cancel", False)])
def test_a_rejection_means_what_the_task_was_started_with(talker: Served, then: str, goes_on: bool) -> None:
    """`run --on-reject`: a rejection without more cancels the task or is told to the model."""
    follower = talker.start("run", script(says(WRITE), final()), "--on-reject", then)
    task_id = until(follower, "[REVIEW]").split()[1]
    request_id = task_of(talker, task_id)["request"]["request_id"]
    client = Client.of_environment(url=talker.url, data_dir=talker.data)
    client.request("POST", f"/v1/reject/{request_id}", {})
    client.close()
    told, _ = follower.communicate(timeout=HANG_S)
    assert ("[STEP 2]" in told) is goes_on
    assert (task_of(talker, task_id)["status"] == "Canceled") is not goes_on


def test_what_is_said_of_one_task_needs_one(talker: Served) -> None:
    """--on-reject is never dropped in silence: without a task it is usage."""
    refused(talker.cli("run", "--on-reject", "continue"), "--on-reject is for one task, and none is named.")
    assert talker.cli("run", "x", "--on-reject", "shrug").returncode == 2


def test_reviewers_share_a_request(talker: Served) -> None:
    """`claim`, `release`, `comment` and `escalate`; the list shows who looks at it, and the request what was said."""
    task_id = paused(talker)
    request_id = task_of(talker, task_id)["request"]["request_id"]
    assert talker.cli("requests", "claim", request_id).stdout.startswith(f"request {request_id} is yours for 10 min")
    assert "─ admin looks at it" in talker.cli("review", "--list").stdout
    assert (
        talker.cli("requests", "comment", request_id, "Is the chest empty?").stdout == f"said at request {request_id}\n"
    )
    assert "others decide it again" in talker.cli("requests", "release", request_id).stdout
    assert "went to the people who come next" in talker.cli("requests", "escalate", request_id).stdout
    refused(talker.cli("requests", "escalate", request_id), "escalated already", code=3)
    team = task_of(talker, task_id)["request"]["team"]
    assert (team["claimed_by"], team["escalated_to"]) == ("", "role:admin")
    assert [one["text"] for one in team["comments"]] == ["Is the chest empty?"]
    assert "─ escalated to somebody with the role admin" in talker.cli("review", "--list").stdout
    for what in ("claim", "release", "comment", "escalate"):
        more = ["x"] if what == "comment" else []
        assert set(
            json.loads(talker.cli("requests", what, request_id, *more, "--json").stdout or '{"task_id": 0}')
        ) <= {
            "task_id",
            "status",
        }


def test_stats_tell_how_people_decide(tmp_path: Path) -> None:
    """`requests stats`: the same figures as a table and as JSON, by rule, tool and person; for readers of the audit."""
    with talking(tmp_path, tmp_path / "data") as server:
        assert "No call that waited for people ended since" in server.cli("requests", "stats").stderr
        for decision in ("--approve", "--reject"):
            request_id = task_of(server, paused(server))["request"]["request_id"]
            assert server.cli("review", decision, request_id, "--yes").returncode == 0
        found = json.loads(server.cli("requests", "stats", "--days", "0.5", "--json").stdout)
        span = datetime.fromisoformat(found["now"]) - datetime.fromisoformat(found["since"])
        assert span == timedelta(hours=12)
        first, *lines = server.cli("requests", "stats").stdout.splitlines()
        assert first.startswith("How the calls ended that waited for people, since ")
        rows = [re.split("  +", line.strip()) for line in lines if line]
        assert [row[-1] for row in rows if row[0] == "CALLS"] == ["95%", "RULE", "TOOL", "PERSON"]
        told = [row for row in rows if row[0] != "CALLS"]
        assert [row[:6] for row in told] == [["2", "1", "1 (50%)", "0", "0", "0"]] * 4
        assert all(re.fullmatch(r"\d+:\d\d", time) for row in told for time in row[6:8])
        names = [found[by][0]["name"] for by in ("by_rule", "by_tool", "by_person")]
        assert [row[8] for row in told[1:]] == names == ["changing", "local_write", "admin"]
        assert server.cli("requests", "stats", "--days", "0").returncode == 2
        sam = server.cli("people", "add", "sam", "--role", "submitter").stdout.strip()
        asked = cli(tmp_path, "requests", "stats", CC_ORCHESTRATOR_TOKEN=sam, CC_ORCHESTRATOR_URL=server.url)
        refused(asked, "sam may not do this.", "reviewer", code=3)


def test_somebody_is_away_and_back(talker: Served) -> None:
    """`people away` says who decides and until when; `people back` ends it."""
    token = talker.cli("people", "add", "bob", "--role", "reviewer").stdout.strip()
    as_bob = {"CC_ORCHESTRATOR_TOKEN": token, "CC_ORCHESTRATOR_URL": talker.url}
    told = talker.cli("people", "away", "bob", "--to", "admin", "--for", "8h").stdout
    assert told.startswith("admin decides for bob until ")
    (bob,) = [one for one in talker.cli("people", "list").stdout.splitlines() if " bob " in one]
    assert " good   admin decides until 20" in bob
    assert "away: admin decides for you until 20" in cli(talker.home, "whoami", **as_bob).stdout
    assert "decides for: bob, who is away\n" in talker.cli("whoami").stdout
    refused(talker.cli("people", "away", "bob", "--to", "nobody", "--for", "8h"), "no person 'nobody'", code=4)
    assert talker.cli("people", "back", "bob").stdout == "nobody decides for bob\n"
    assert "away" not in cli(talker.home, "whoami", **as_bob).stdout + talker.cli("whoami").stdout
    assert json.loads(talker.cli("people", "back", "bob", "--json").stdout)["to"] is None
    assert (
        json.loads(talker.cli("people", "away", "bob", "--to", "admin", "--for", "8h", "--json").stdout)["to"]
        == "admin"
    )
