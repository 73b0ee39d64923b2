"""The policy on the terminal UI: rules in words, a dry run, a file that cannot be used, grants."""

from pathlib import Path

import pytest

from orchestrator.core.policy import default_policy
from orchestrator.terminal.tui.policy import in_force_lines
from tests.harness.support import WRITE, Disk, Listening, final, says
from tests.harness.whole_server import connected, running
from tests.terminal.tui.driving import WIDE, asked, seated

BROKEN = '[[rules]]\nid = "x"\neffect = "maybe"\ntools = ["*"]\n'


@pytest.mark.deep
async def test_rules_are_told_in_words_and_a_call_is_tried(tmp_path: Path) -> None:
    """`t` asks what the policy would say: the verdict, the rules that matched, and why the others did not."""
    async with (
        running(tmp_path, model=Listening(final())) as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        await seat.press("5")
        await seat.sees("── Rule 1: looking", "because Looking changes nothing.")
        await seat.asks("up", "In force", "a tool that no rule covers is denied")
        await seat.asks("t", "Try a call", '"path": "startup.lua"')
        await seat.asks("enter", "ASK: A person would be asked first. Risk: high.", "── Rule 2: changing")
        await seat.sees("One person has to approve it: somebody who may decide.")
        await seat.press("end", "shift+home")
        await seat.type("cc_read")
        await seat.until(lambda: "content" not in seat.text.split("ASK")[0], "the arguments of another tool")
        await seat.press("tab")
        await seat.type("3")
        await seat.asks("ctrl+s", "ALLOW: It would run without asking.", "── Rule 1: looking")
        await seat.press("tab")
        await seat.type("[red]")
        await seat.asks("ctrl+s", "That is not JSON:")
        await seat.pilot.resize_terminal(*WIDE)
        await seat.press("f7", "delete")
        await seat.type('{"path": "rom/x", "path": "y"}')
        await seat.asks("ctrl+s", "It has the key 'path' twice.")
        await seat.asks("escape", "Esc once more drops what you wrote.", "Try a call")
        await seat.press("escape")
        await seat.until(lambda: "Try a call" not in seat.text, "left")
        tried = (await server.ask("GET", "/v1/audit?kind=tool_started")).json()["items"]
        assert tried == []


async def test_a_file_that_cannot_be_used_is_told_and_the_one_before_stays(tmp_path: Path) -> None:
    """`l` loads the file: what is wrong with it is said, what is in force is shown; who is no admin is refused."""
    async with running(tmp_path, model=Listening(final())) as server:
        bob = await server.person("bob", "submitter")
        file = tmp_path / "policy.toml"
        good = file.read_text("utf-8")
        async with seated(server) as seat:
            await seat.press("5")
            await seat.sees("── Rule 1: looking")
            file.write_text(BROKEN, "utf-8")
            await seat.asks("l", "and needs attention:", "ALERT: it needs attention")
            await seat.asks("up", "ALERT: the policy needs attention on this node.", "stays active.")
            file.write_text(f"{good}\n# more\n", "utf-8")
            await seat.asks("l", "Carried out: policy")
            await seat.until(lambda: "ALERT" not in seat.text, "all is well")
        async with seated(server, bob) as seat:
            await seat.press("5")
            await seat.sees("── Rule 1: looking")
            await seat.asks("l", "Not carried out:", "admin")


def test_a_file_that_is_only_another_is_not_called_unusable() -> None:
    """Of several nodes one's file may hold another policy than all have: it is told as that, and nothing else."""
    alert = "policy.toml holds another policy than the active one of all nodes."
    policy = default_policy().model_dump(mode="json")
    found = {"alert": alert, "policy": policy, "mode": "normal", "source": "policy apply by ann", "policy_version": "v"}
    told = "\n".join(line.text for line in in_force_lines(found))
    assert f"ALERT: the policy needs attention on this node.\n  {alert}\n── In force" in told


@pytest.mark.deep
async def test_a_standing_approval_is_listed_and_taken_back(tmp_path: Path) -> None:
    """`g` lists how far each reaches; `x` takes one back once that is confirmed, or says that it is too late."""
    async with asked(tmp_path, says(WRITE), final()) as (fixture, one):
        seat, server = fixture.seat, fixture.server
        await seat.press("5")
        await seat.sees("── Rule 1: looking")
        await seat.asks("g", "No grant: everything that the policy asks about")
        await seat.press("escape")
        (call,) = one.tool_calls
        decided = {"call_id": call.call_id, "action": "approve", "expected_digest": call.action_digest}
        body = {"decisions": [{**decided, "remember": {"scope": "session", "any_content": True}}]}
        answer = await server.ask("POST", f"/v1/resume/{one.request_id}", body)
        assert answer.status_code == 202, answer.text
        await seat.asks("g", "in force", "cc_write on 3: a.lua; any text", "calls like it, in its session")
        await seat.asks("x", "Take it back?", "running calls go on")
        await seat.asks("escape", "x takes it back")
        assert (await server.ask("GET", "/v1/grants")).json()["grants"][0]["usable"]
        await seat.agrees("x", "Take it back?", "Carried out: it is taken back.", "taken back")
        (grant,) = (await server.ask("GET", "/v1/grants")).json()["grants"]
        assert (grant["revoked"], grant["usable"]) == (True, False)
        await seat.asks("x", "there is nothing to take back")
