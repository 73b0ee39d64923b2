"""The main job in one command: a server, a simulated computer, a task, and a person at the prompt."""

import contextlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from orchestrator.client import Client, unless_it_closed
from orchestrator.core.approval.approval import HitlResponse
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.task import facts
from orchestrator.core.task.choices import numbered
from orchestrator.core.task.transcript import Transcript
from orchestrator.core.text.visible import block, without_hidden
from orchestrator.runtime.program import bare_environment, left_in_order, program
from orchestrator.terminal.console import ClientDesk, Console
from orchestrator.terminal.review.channel import body_of
from orchestrator.terminal.review.edit import decision

PROMPT = "Write a hello world program and run it"
COMPUTER = "0"
_STOP_WITHIN_S = 10.0
_NOBODY = "Nobody is here to answer. Do what is simplest."
"""The words of the demo for a person who is not there."""


_NEXT: Final = (
    ("serve --model ollama:qwen2.5-coder", "the orchestrator, with a model on this machine"),
    ("pair", "connects a computer of your world; `simulate` makes some without the game"),
    ('run "…"', "a task, in your words"),
)
"""What to type after the demo, and what for."""


class PartFailed(OrchestratorError):
    """A process of the demo did not start, or ended too early."""

    code = "part_failed"


def run_demo(*, directory: Path | None, keep: bool, model: str, console: Console, ollama_url: str = "") -> int:
    """Play the demo; the exit code: 0 only when the task succeeded. Raises PartFailed, InvalidRequest."""
    try:
        return _run(directory, keep, model, ollama_url, console)
    except PartFailed as error:
        if directory is not None:
            raise
        raise PartFailed(error.message, remedy="With --dir its whole log is kept.") from None


def _run(directory: Path | None, keep: bool, model: str, ollama_url: str, console: Console) -> int:
    with contextlib.ExitStack() as stack:
        stack.enter_context(left_in_order())
        home = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cc-orchestrator-")))
        _make(home)
        console.say(f"Starting the orchestrator; its store, token and policy are in {home}")
        url = stack.enter_context(_server(home, model, ollama_url))
        client = Client(url, (home / "admin.token").read_text("utf-8").strip())
        stack.callback(client.close)
        console.say(f"Starting simulated computer {COMPUTER}; its disk is {home / 'computers' / COMPUTER}")
        stack.enter_context(_computer(client, url, home))
        if console.ask is None:
            console.say("There is no terminal, so the demo plays the reviewer itself and approves what it shows.")
        succeeded = _play(client, console)
        if keep:
            _keep(client, url, home, console)
    if succeeded and not keep:
        console.say("\nNext, each in a terminal of its own:")
        for typed, what_for in _NEXT:
            console.say(f"  {program()} {typed:38}  {what_for}")
    return 0 if succeeded else 1


def _make(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            f"The directory {home} cannot be made: {error.strerror or error}.", remedy="Choose another with --dir."
        ) from None


def _play(client: Client, console: Console) -> bool:
    console.say(f"Submitting: {PROMPT}")
    task = client.submit({"prompt": PROMPT, "computers": [COMPUTER]})
    transcript = Transcript()
    for item in client.events(task["task_id"]):
        for line in transcript.lines(item):
            console.say(block(line))
        if isinstance(item.fact, facts.ReviewRequested):
            with unless_it_closed():
                _review(client, console, item.fact.request_id)
        elif isinstance(item.fact, facts.QuestionAsked):
            with unless_it_closed():
                _answer(client, console, task["task_id"], item.fact)
        elif isinstance(item.fact, facts.TaskEnded):
            return item.fact.status == "Completed" and item.fact.verified is True
    return False


def _review(client: Client, console: Console, request_id: str) -> None:
    request = HitlResponse.model_validate(client.request("GET", f"/v1/requests/{request_id}"))
    console.desk = ClientDesk(client)
    console.show(request)
    if console.ask is None:
        resume = decision(request, request.allowed_decisions[0])
    else:
        while (chosen := console.decide(request)) is None:
            console.say("The demo has no other reviewer: approve or reject it.")
        resume = chosen
    client.request("POST", f"/v1/resume/{request_id}", body_of(resume))


def _answer(client: Client, console: Console, task_id: str, asked: facts.QuestionAsked) -> None:
    """Answer a question of the model; a script asks none, another model may."""
    shown = block(numbered(asked.question, asked.options))
    answer = _NOBODY
    if console.ask is not None:
        while not without_hidden(answer := console.ask(f"{shown}\nYour answer: ")):
            console.say("The task waits for an answer: type one.")
    body = {"question_id": asked.question_id, "answer": answer}
    client.request("POST", f"/v1/tasks/{task_id}/answer", body)


def _keep(client: Client, url: str, home: Path, console: Console) -> None:
    line = client.request("POST", "/v1/pairings", {})["line"]
    token = shlex.quote(str((home / "admin.token").resolve()))
    with contextlib.suppress(KeyboardInterrupt):
        console.say("To add a computer of your own world, type this on it within 15 minutes:")
        console.say(f"  {line}")
        console.say(f"The orchestrator stays up at {url} until you press Ctrl-C.")
        console.say("To use it from another terminal:")
        console.say(f"  export CC_ORCHESTRATOR_URL={url} CC_ORCHESTRATOR_TOKEN=$(cat {token})")
        console.say(f'  {program()} run "{PROMPT}" --computer {COMPUTER}')
        while True:
            time.sleep(3600)
    console.say("\nStopping the computer and the orchestrator.")


@contextlib.contextmanager
def _server(home: Path, model: str, ollama_url: str) -> Iterator[str]:
    command = [sys.executable, "-m", "orchestrator", "serve", "--port", "0", "--data-dir", str(home)]
    # An empty one would hide what the environment says.
    where = ["--ollama-url", ollama_url] if ollama_url else []
    with _process([*command, "--model", model, *where], home / "server.log") as process:
        yield _await_line(process, "listening on ", home / "server.log")


@contextlib.contextmanager
def _computer(client: Client, url: str, home: Path) -> Iterator[None]:
    client.request("DELETE", f"/v1/tokens/computer/{COMPUTER}")
    token = client.request("POST", "/v1/tokens", {"kind": "computer", "name": COMPUTER})["token"]
    disk = home / "computers" / COMPUTER
    disk.mkdir(parents=True, exist_ok=True)
    socket = "ws" + url.removeprefix("http") + "/computer"
    command = [sys.executable, "-m", "cc_client.simulator", "--url", socket, "--token=-"]
    log = home / "computer.log"
    with _process([*command, "--disk", str(disk), "--id", COMPUTER], log, token, bare_environment()) as process:
        _await_line(process, "computer ", log)
        yield


@contextlib.contextmanager
def _process(
    command: list[str], log: Path, said: str = "", environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process of its own group, so that Ctrl-C at the prompt reaches only the demo, ended with it.

    ``said``: what it reads on standard input, where nobody sees it who lists the processes of this machine.
    ``environment``: what it gets; None: this one's.
    """
    pipe = subprocess.PIPE
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, text=True, start_new_session=True
        )
    try:
        assert process.stdin is not None, "asked for above"
        with process.stdin, contextlib.suppress(BrokenPipeError):
            process.stdin.write(said + "\n" if said else "")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _await_line(process: "subprocess.Popen[str]", start: str, log: Path) -> str:
    for line in process.stdout or ():
        if line.startswith(start):
            return line.removeprefix(start).strip()
    code = process.wait()
    tail = log.read_text("utf-8", "replace").strip().splitlines()[-5:] if log.exists() else []
    what = process.args[2] if isinstance(process.args, list) else "A part"
    said = " ".join(line.removeprefix("cc-orchestrator: ") for line in tail) or "it said nothing."
    raise PartFailed(
        f"{what} ended with code {code} before it was ready: {said}",
        remedy=f"Look at {log}.",
    )
