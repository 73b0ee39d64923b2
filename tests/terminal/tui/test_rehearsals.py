"""Tasks on the terminal UI beside the usual: rehearsed and asked for, with limits, kept, and asked anew."""

import asyncio
from pathlib import Path

import pytest

from orchestrator.core.policy.load import DEFAULT_POLICY_TOML
from tests.computers.test_transfers import gated
from tests.harness.support import WRITE, Disk, Listening, call, final, says
from tests.harness.whole_server import connected, running
from tests.terminal.tui.driving import Seat, seated
from tests.waiting import HANG_S

HOSTILE = "print('[red]x[/]\u202e')\n"


@pytest.mark.deep
async def test_a_rehearsal_is_shown_as_diffs_and_asked_for(tmp_path: Path) -> None:
    """`n` rehearses on a copy of one computer; `h` shows what changed there, `y` asks for all of it, once."""
    model = Listening(
        says(call("cc_write", path="a.lua", content=HOSTILE)), final("it went wrong", success=False), final()
    )
    async with running(tmp_path, model=model) as server, gated(server) as computer, seated(server) as seat:
        await server.orchestrator.rehearsals.open(f"{server.url.replace('http', 'ws', 1)}/computer")
        for _ in range(9):
            computer.gate.release()
        await seat.press("n")
        await seat.sees("A new task", "[x] 3", "[ ] it works on a copy first")
        await seat.type("tidy up")
        await seat.press("tab", "space", "tab", "down", "space")
        await seat.asks("ctrl+s", "A rehearsal works on a copy of one computer: pick one.")
        await seat.press("shift+tab", "space")
        await seat.asks("ctrl+s", "is submitted")
        await seat.sees("Failed")
        (task,) = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
        await shown(seat)
        await seat.sees("changed 3:a.lua", "-print('a')", "+print('[red]x[/]\\u{202e}')", "y ask for all of it")
        await seat.asks("y", "asks for all of it at once, and waits for approval.")
        await seat.sees("waiting: 1 request", "Apply the rehearsal")
        await seat.press("down")
        await seat.sees("> ✗ Failed")
        await seat.asks("h", "the task that asks for it")
        assert "y ask for all of it" not in seat.text
        await seat.press("o")
        applied = (await server.ask("GET", f"/v1/tasks/{task['task_id']}/rehearsal")).json()["applied_by"]
        await seat.sees(applied)


async def shown(seat: Seat) -> None:
    """Look at the rehearsal, again and again until its copy was compared."""
    async with asyncio.timeout(HANG_S):
        while True:
            await seat.asks("h", "The rehearsal")
            if "ask for all of it" in seat.text:
                return
            await seat.press("escape")


@pytest.mark.deep
async def test_a_new_task_has_a_model_a_session_and_limits(tmp_path: Path) -> None:
    """`Ctrl+O` in a new task says more about it; what is no number, and what is no rehearsal, is said."""
    async with running(tmp_path, model=Listening(final())) as server, seated(server) as seat:
        await seat.press("n")
        await seat.sees("A new task")
        await seat.type("count")
        await seat.asks("ctrl+o", "More about the task", "Session (joins")
        await seat.press("tab")
        await seat.type("castle")
        await seat.press("tab")
        await seat.type("many")
        await seat.asks("enter", "'many' is not a number from 1 to 1000.")
        await seat.press("ctrl+u")
        await seat.type("7")
        await seat.press("tab")
        await seat.type("90")
        await seat.asks("enter", "session_id castle, max_steps 7")
        await seat.asks("ctrl+o", "More about the task", "castle")
        await seat.press("escape")
        await seat.asks("ctrl+s", "is submitted")
        (row,) = (await server.ask("GET", "/v1/tasks")).json()["tasks"]
        task = (await server.ask("GET", f"/v1/tasks/{row['task_id']}")).json()
        assert (task["session_id"], task["max_steps"], task["max_wall_s"]) == ("castle", 7, 5400)
        await seat.sees("> ? Unverified")
        await seat.asks("r", "there is nothing to ask again.")
        await seat.asks("h", "is not a rehearsal.")


@pytest.mark.deep
async def test_a_task_is_kept_and_asked_anew(tmp_path: Path) -> None:
    """`p` keeps it whatever the retention says, and no longer; `r` asks anew what nobody answered in time."""
    short = '[requests]\non_timeout = "stay_paused"\nexpires_s = { medium = 1, high = 1 }\n\n[[rules]]'
    (tmp_path / "policy.toml").write_text(DEFAULT_POLICY_TOML.replace("[[rules]]", short, 1), "utf-8")
    async with (
        running(tmp_path, model=Listening(says(WRITE), final())) as server,
        connected(server, "3", Disk()),
        seated(server) as seat,
    ):
        task_id = await server.submit()
        await seat.sees("> ◆ Paused")
        await seat.asks("p", f"Task {task_id} is kept", ", kept")
        assert (await server.ask("GET", f"/v1/tasks/{task_id}")).json()["pinned"]
        await seat.asks("p", "is kept no longer than others.")
        await server.until(task_id, "request_ended")
        await seat.asks("r", "Carried out: it is asked again.")
        noted = (await server.ask("GET", f"/v1/audit?task={task_id}&kind=review_noted")).json()["items"]
        assert "renewed" in [one["fact"]["what"] for one in noted]
