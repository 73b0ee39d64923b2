"""People on the terminal UI: added with a token that is shown once, and revoked."""

from pathlib import Path

import pytest

from orchestrator.client import ServerUnreachable
from orchestrator.terminal.tui.lines_view import why_not
from tests.harness.support import Listening, call, final, says
from tests.harness.whole_server import running
from tests.terminal.tui.driving import WIDE, seated


@pytest.mark.deep
async def test_somebody_is_added_and_revoked(tmp_path: Path) -> None:
    """The token closes by no slip, and works; the revoked one ends at once; the last admin is warned; or too late."""
    async with running(tmp_path, model=Listening(final())) as server, seated(server) as seat:
        await seat.press("7")
        await seat.sees("admin (you)", "n adds somebody")
        await seat.asks("n", "Add somebody")
        await seat.asks("enter", "Say a name, above.")
        await seat.type("dora")
        await seat.press("tab", "tab", "down", "space")
        await seat.asks("enter", "A person needs a role.")
        await seat.press("down", "space")
        await seat.asks("enter", "The token of dora", "shown this once")
        token = next(word for word in seat.text.split() if word.startswith("ccp_"))
        await seat.asks("escape", "It cannot be shown again", token)
        await seat.asks("y", "dora may come in", "reviewer")
        assert token not in seat.text
        assert (await server.ask("GET", "/v1/tasks", token=token)).status_code == 200
        await server.ask("POST", "/v1/away", {"person": "admin", "to": "dora"})
        await seat.press("1", "7", "home")
        await seat.sees("admin (you) (away)", "dora decides for them until 20")
        await server.ask("POST", "/v1/away", {"person": "admin"})
        await seat.press("end")
        await seat.agrees("x", "Revoke 1 token of person dora?", "Carried out: 1 token of dora revoked.", "revoked")
        assert (await server.ask("GET", "/v1/tasks", token=token)).status_code == 401
        await seat.asks("x", "are revoked already")
        await seat.press("home")
        await seat.asks("x", "THIS IS YOU", "Nobody else is an admin here.")
        await seat.press("enter")
        await seat.asks("escape", "admin (you)")
        assert (await server.ask("GET", "/v1/tokens")).status_code == 200
        await seat.asks("n", "Add somebody")
        await seat.type("robot")
        await seat.press("tab", "space", "enter")
        await seat.sees("The token of robot", "which count as tasks of admin")
        await seat.asks("y", "agent", "robot")
        await seat.press("down")
        await seat.asks("x", "Revoke 1 token of agent robot?", "The program is refused")
        assert (await server.ask("DELETE", "/v1/tokens/agent/robot")).json()["revoked"] == 1
        await seat.asks("y", "Too late: there was no token left to revoke.")
        tokens = (await server.ask("GET", "/v1/tokens")).json()["tokens"]
        assert [one["roles"] for one in tokens if one["name"] == "robot"] == [["submitter"]]


async def test_a_person_is_frozen_and_let_go_on(tmp_path: Path) -> None:
    """`z` is offered with the right `freeze` alone; it asks why, says who froze, and the server's refusal is said."""
    asks = Listening(says(call("ask_user", question="Go on?")))
    async with running(tmp_path, model=asks) as server:
        with (tmp_path / "policy.toml").open("a", encoding="utf-8") as file:
            file.write('\n[roles.teacher]\nmay = ["view", "freeze"]\n')
        assert (await server.ask("POST", "/v1/policy/reload", {})).status_code == 200
        sam, tom, bob = [await server.person(*one) for one in (("sam",), ("tom", "teacher"), ("bob", "reviewer"))]
        await server.submit((), token=sam)
        async with seated(server, bob, WIDE) as seat:
            await seat.sees("Paused, for an answer")
            await seat.asks("z", "This needs the right freeze: ask an admin.")
            assert "z freeze" not in seat.text
            await seat.asks("question_mark", "keep it, or no longer")
            assert "freeze or unfreeze" not in seat.text
        async with seated(server, tom, WIDE) as seat:
            await seat.sees("Paused, for an answer", "z freeze or unfreeze its person")
            await seat.asks("question_mark", "freeze or unfreeze its person")
            await seat.press("escape")
            await seat.asks("z", "Freeze sam: nothing of theirs starts")
            await seat.type("we talk now")
            await seat.asks("enter", "sam is frozen. Open tasks that wait because of it: 1.")
            (freeze,) = (await server.ask("GET", "/v1/freezes")).json()["freezes"]
            assert (freeze["name"], freeze["by"], freeze["reason"]) == ("sam", "tom", "we talk now")
            await seat.asks("z", "End the freeze of sam?", "Frozen by tom since", "we talk now")
            await seat.asks("y", "The freeze of sam is over.")
            assert (await server.ask("GET", "/v1/freezes")).json()["freezes"] == []
            await seat.asks("z", "Freeze sam: nothing of theirs starts")
            await server.ask("POST", "/v1/groups/class-7c", {"add_people": ["sam"]})
            await seat.asks("enter", "Not carried out: ")


async def test_a_freeze_that_holds_for_more_and_one_of_a_program_are_said(tmp_path: Path) -> None:
    """`z` says which other freeze holds, before and after its own; a program's task is its owner's."""
    asks = Listening(*[says(call("ask_user", question="Go on?"))] * 2)
    async with running(tmp_path, model=asks) as server:
        await server.submit((), token=await server.person("sam"))
        async with seated(server, size=WIDE) as seat:
            await seat.sees("Paused, for an answer")
            everybody = {"everybody": True}
            await server.ask("POST", "/v1/freeze", everybody)
            await seat.asks("z", "sam is frozen with everybody by admin. `cc-orchestrator unfreeze --all` ends it.")
            await server.ask("POST", "/v1/unfreeze", everybody)
            await seat.asks("z", "Freeze sam: nothing of theirs starts")
            await seat.asks("enter", "sam is frozen. Open tasks that wait because of it: 1.")
            await seat.asks("z", "End the freeze of sam?")
            await server.ask("POST", "/v1/freeze", everybody)
            await seat.asks("y", "The freeze of sam is over. sam is frozen with everybody by admin.")
            await server.ask("POST", "/v1/unfreeze", everybody)
            robot = {"kind": "agent", "name": "robot", "roles": ["submitter"], "owner": "sam"}
            made = (await server.ask("POST", "/v1/tokens", robot)).json()
            task_id = await server.submit((), token=made["token"])
            await seat.until(lambda: seat.text.count("Paused, for an answer") == 2, "the task of the program")
            await seat.press("home")
            await seat.sees(task_id)
            await seat.asks("z", "Freeze sam (the owner of robot): nothing of theirs starts")


def test_what_nobody_heard_of_is_not_said_to_have_failed() -> None:
    """Where only the answer is lost, nobody says that it was not carried out."""
    lost = ServerUnreachable("No orchestrator answers.")
    assert why_not("POST", lost) == "Not carried out: No orchestrator answers."
    lost.may_have_arrived = True
    assert why_not("DELETE", lost) == "Not heard whether it was carried out: No orchestrator answers."
    assert why_not("GET", lost) == "No orchestrator answers."
