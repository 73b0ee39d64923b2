"""Makes the pictures of the README in ``docs/img`` from a real run: ``.venv/bin/python scripts/pictures.py``.

A server, simulated computers with the real client, ``run`` on a terminal and the page in Chromium are real. Only the
model is not: a small model server plays the replies below, so that the pictures do not depend on a model's mood.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from playwright.async_api import async_playwright
from recording import Recording, svg

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.harness.ollama_server import Wire, ollama  # noqa: E402 - needs the line above

PICTURES: Final = ROOT / "docs" / "img"
MODEL: Final = "qwen2.5-coder"
WITHIN_S: Final = 60.0
PROGRAM: Final = """\
-- Counts the wheat in the chests of the farm.
local chests = {12, 9, 21}

local wheat = 0
for chest = 1, #chests - 1 do
  wheat = wheat + chests[chest]
end
print("There is " .. wheat .. " wheat")
"""
TASK: Final = "farm.lua forgets the last chest: fix it"


def _calls(explanation: str, name: str, **args: Any) -> dict[str, Any]:
    return {"kind": "tool", "explanation": explanation, "tool_call": {"tool": name, "args": args}}


REPLIES: Final[tuple[Mapping[str, Any], ...]] = (
    _calls("I look at the program first.", "cc_read", path="farm.lua"),
    _calls(
        "The loop ends one chest too early: it must run to #chests.",
        "cc_edit",
        path="farm.lua",
        old="for chest = 1, #chests - 1 do",
        new="for chest = 1, #chests do",
    ),
    _calls("I run it to see the sum of all three chests.", "cc_run_program", path="farm.lua", args=[]),
    {
        "kind": "final",
        "explanation": "The program counts every chest.",
        "success": True,
        "message": "farm.lua now counts all three chests and prints 42 wheat.",
    },
)


async def _reply(wire: Wire) -> None:
    """The reply that is due in this task, as fast as a model on a good machine writes."""
    place = sum(message["role"] == "assistant" for message in wire.asked["messages"])
    text = json.dumps(REPLIES[min(place, len(REPLIES) - 1)])
    await wire.head()
    for start in range(0, len(text), 9):
        content = text[start : start + 9]
        await wire.line({"message": {"role": "assistant", "content": content}, "done": False})
        await asyncio.sleep(0.03)
    await wire.done()


@contextlib.contextmanager
def started(command: list[str], environment: Mapping[str, str], word: str) -> Iterator[str]:
    """A process of the product, from the line that begins with a word until the block ends; that line."""
    program = [sys.executable, "-m", "orchestrator", *command]
    process = subprocess.Popen(program, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield next(line for line in process.stdout if line.startswith(word))
    finally:
        process.terminate()
        process.wait(WITHIN_S)


def record(environment: Mapping[str, str], where: Path) -> str:
    """`run` from the typed line to the report, with both approvals."""
    shell = ["bash", "--norc", "--noprofile"]
    recording = Recording.of(shell, {**environment, "PS1": "$ ", "TERM": "xterm-256color"}, cwd=where)
    try:
        recording.until(r"\$ ", WITHIN_S)
        recording.type("cat programs/farm.lua\r")
        recording.stand(2.5)
        recording.type(f'cc-orchestrator run "{TASK}" --computer sim-1\r')
        for needle in ("cc_edit", "cc_run_program"):
            recording.until(rf"(?s){needle}.*\n\S*.*> *\n? *$", WITHIN_S)
            recording.stand(4.0)
            recording.type("a\r")
            recording.until("Decided|decided|approve", WITHIN_S)
        recording.until(r"\[FINAL\].*(?s:.*)\$ ", WITHIN_S)
        recording.stand(6.0)
    finally:
        recording.process.kill()
        recording.end(WITHIN_S)
    return svg(recording.frames, f"A terminal: cc-orchestrator run, two approvals, and a fixed program. {TASK}")


@contextlib.asynccontextmanager
async def seat(url: str, token: str) -> AsyncIterator[Any]:
    """A browser that is signed in."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("cc-orchestrator: Chromium shows the page and is not on PATH; install it, then run this again")
    options = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=options)
        page = await browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
        await page.goto(url)
        await page.get_by_label("Your token").fill(token)
        await page.keyboard.press("Enter")
        await page.locator(".connection.live").wait_for()
        yield page
        await browser.close()


async def photograph(url: str, token: str) -> None:
    """A request with its diff, and the computers."""
    http = httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    async with http, seat(url, token) as page:
        task = (await http.post("/v1/tasks", json={"prompt": TASK, "computers": ["sim-2"]})).raise_for_status().json()
        await page.goto(f"{url}/#/approvals")
        # It can be pressed when the request was shown for half a second.
        await page.locator('button[data-key="a"][aria-disabled="false"]').wait_for()
        await page.wait_for_function("document.getAnimations().length === 0")
        await page.screenshot(path=PICTURES / "approval.png")
        await page.goto(f"{url}/#/computers")
        await page.get_by_text("sim-6").first.wait_for()
        await page.screenshot(path=PICTURES / "computers.png", clip={"x": 0, "y": 0, "width": 1280, "height": 460})
        await http.post(f"/v1/tasks/{task['task_id']}/cancel")


async def main() -> None:
    """All pictures."""
    PICTURES.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cc-orchestrator-")))
        (home / "programs").mkdir()
        (home / "programs" / "farm.lua").write_text(PROGRAM, "utf-8")
        async with ollama(_reply, models=(MODEL,)) as server:
            serve = ["serve", "--port=0", f"--data-dir={home / 'data'}", f"--model=ollama:{MODEL}"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home)}
            environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
            line = await asyncio.to_thread(
                stack.enter_context, started([*serve, f"--ollama-url={server.url}"], environment, "listening on ")
            )
            url, token = line.split()[-1], (home / "data" / "admin.token").read_text("utf-8").strip()
            environment |= {"CC_ORCHESTRATOR_URL": url, "CC_ORCHESTRATOR_TOKEN": token}
            families = ("advanced", "turtle", "pocket", "advanced-turtle", "computer", "advanced-pocket")
            simulate = ["simulate", "--count=6", f"--files={home / 'programs'}"]
            simulate += [f"--family={one}" for one in families]
            await asyncio.to_thread(stack.enter_context, started(simulate, environment, "sim-6"))
            await photograph(url, token)
            drawn = await asyncio.to_thread(record, environment, home)
            (PICTURES / "run.svg").write_text(drawn, "utf-8")
            await asyncio.to_thread(stack.close)
    for picture in sorted(PICTURES.iterdir()):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    asyncio.run(main())
