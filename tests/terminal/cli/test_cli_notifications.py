"""`notifications` on the command line, with a server as people start it: rules, tests, and what was sent."""

import asyncio
import json
from pathlib import Path

from tests.harness.commands import CLI, SCRIPTED, process_of, refused
from tests.harness.receiver import PATH, receiving


async def test_a_rule_from_its_first_message_to_its_end(tmp_path: Path) -> None:
    """The address is typed, and then nowhere: not in an answer, nor in the log at its most talkative."""
    data = tmp_path / "data"
    command = [*CLI, "serve", *SCRIPTED, "--port", "0", "--data-dir", str(data), "--log-level", "debug"]
    async with receiving() as receiver:
        with process_of(command, tmp_path, data) as served:

            async def said(*arguments: str, typed: str = "", code: int = 0) -> tuple[str, str]:
                done = await asyncio.to_thread(served.cli, "notifications", *arguments, typed=typed)
                assert done.returncode == code, done.stderr
                return done.stdout, done.stderr

            assert "adds a rule" in (await said())[1]
            assert "There are no rules." in (await said("list"))[1]
            on = ("--on", "finished", "--on", "failed")
            key, told = await said("add", "hook", *on, "--to", "-", typed=f"{receiver.url}\n")
            assert told.startswith("The rule 'hook' tells failed, finished to http://127.0.0.1/…")
            assert (await said("test", "hook"))[1] == "The test message was taken.\n"
            (test,) = await receiver.got(1)
            assert test.is_signed(key.strip())
            await asyncio.to_thread(served.cli, "run", "hello", "--detach")
            await receiver.got(2)
            rows = [{"state": "waiting"}]
            while {one["state"] for one in rows} != {"sent"}:
                rows = json.loads((await said("--json"))[0])
            assert "installation" not in (await said())[0]
            listed = (await said("list"))[0]
            assert "admin: hook" in listed
            assert "http://127.0.0.1/…" in listed
            receiver.answer = lambda _: "500 No"
            assert "status 500" in (await said("test", "hook", code=1))[1]
            again = await asyncio.to_thread(served.cli, "notifications", "add", "hook", *on, "--to", receiver.url)
            refused(again, "There is a notification rule", "notifications remove hook", code=3)
            assert (await said("remove", "hook"))[1] == "The rule 'hook' is gone.\n"
            missing = await asyncio.to_thread(served.cli, "notifications", "test", "hook")
            refused(missing, "There is no notification rule", code=4)
            wrong = {
                ("--on", "never"): ("waits_for_you", 2),
                ("--on", "failed", "--quiet", "22"): ("no time of day", 2),
                ("--on", "failed", "--quiet", "10:00-10:00"): ("Quiet hours from 10:00 to 10:00 have no length.", 2),
            }
            for options, (why, code) in wrong.items():
                done = await asyncio.to_thread(served.cli, "notifications", "add", "x", *options, "--to", receiver.url)
                refused(done, why, code=code)
    log = (tmp_path / "serve.log").read_text("utf-8")
    assert "DEBUG" in log
    assert PATH.rpartition("/")[2] not in log + listed + told
