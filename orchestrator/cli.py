"""The command line ``cc-orchestrator``: a client of the port, and the server's start.

Exit codes: 0 success, 1 failed, canceled or unverified, 2 usage, 3 server unreachable or refusing.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.settings import DEFAULT_URL, ENV_PREFIX, default_data_dir

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Lets a language model work on ComputerCraft computers, with a person in charge.",
)
token_app = typer.Typer(no_args_is_help=True, help="Tokens of people and computers.")
app.add_typer(token_app, name="token")

Url = Annotated[str | None, typer.Option("--url", help=f"The server. Default: {ENV_PREFIX}URL, or {DEFAULT_URL}.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help=f"Default: {ENV_PREFIX}DATA_DIR, or ~/.local/share/cc-orchestrator."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """The entry point: errors are sentences, never tracebacks."""
    try:
        app()
    except OrchestratorError as error:
        typer.echo(f"cc-orchestrator: {error}", err=True)
        server = error.code in ("server_refused", "server_unreachable")
        sys.exit(3 if server else 2)
    except KeyboardInterrupt:
        sys.exit(130)


@app.command()
def serve(  # noqa: PLR0913, PLR0917 - one parameter for each flag
    host: Annotated[str | None, typer.Option(help="Default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Default 8765; 0: any free port.")] = None,
    data_dir: DataDir = None,
    store: Annotated[str | None, typer.Option(help="A store URL. Default: SQLite in the data directory.")] = None,
    bus: Annotated[str | None, typer.Option(help="A bus URL. Default local:.")] = None,
    model: Annotated[str | None, typer.Option(help="The model of tasks that name none.")] = None,
    policy: Annotated[Path | None, typer.Option(help="Default policy.toml in the data directory.")] = None,
    workers: Annotated[int | None, typer.Option(help="Tasks acted for at once. Default 4.")] = None,
    approvers: Annotated[str | None, typer.Option(help="requester, not_requester, or role:NAME.")] = None,
    insecure_bind: Annotated[bool | None, typer.Option("--insecure-bind", help="Bind elsewhere without TLS.")] = None,
) -> None:
    """Start the orchestrator; prints `listening on URL` when it is ready."""
    from orchestrator.app import Orchestrator
    from orchestrator.app import serve as serve_until_stopped
    from orchestrator.settings import load_settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    flags: dict[str, Any] = {
        "host": host,
        "port": port,
        "data_dir": data_dir,
        "store": store,
        "bus": bus,
        "model": model,
        "policy": policy,
        "workers": workers,
        "approvers": approvers,
        "insecure_bind": insecure_bind,
    }
    settings = load_settings(flags, os.environ)

    def ready(url: str, orchestrator: Orchestrator) -> None:
        if orchestrator.admin_token is not None:
            typer.echo(f"wrote the admin's token to {settings.token_path}", err=True)
        typer.echo(f"listening on {url}")
        sys.stdout.flush()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve_until_stopped(settings, ready=ready))


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server up afterwards.")] = False,
    directory: Annotated[Path | None, typer.Option("--dir", help="Keep store, token and disk here.")] = None,
    model: Annotated[str, typer.Option(help="The model to play it with.")] = "scripted:hello",
) -> None:
    """Play the main job: a server, a simulated computer, a task, an approval."""
    from orchestrator.console import Console
    from orchestrator.demo import run_demo

    raise typer.Exit(run_demo(directory=directory, keep=keep, model=model, console=Console.of_terminal()))


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to do.")],
    computer: Annotated[
        list[str] | None, typer.Option("--computer", help="A computer to work on; may be repeated.")
    ] = None,
    model: Annotated[str, typer.Option(help="Default: the server's.")] = "",
    max_steps: Annotated[int, typer.Option(help="Replies of the model at most.")] = 20,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Submit a task and follow it; decide with `review` in another terminal."""
    from orchestrator.core import facts
    from orchestrator.core.transcript import Transcript
    from orchestrator.core.visible import block

    with _client(url, data_dir) as client:
        body = {"prompt": prompt, "computers": computer or [], "model": model, "max_steps": max_steps}
        task = client.request("POST", "/v1/tasks", body)
        typer.echo(f"task {task['task_id']}")
        transcript = Transcript()
        for item in client.events(task["task_id"]):
            for line in transcript.lines(item):
                typer.echo(block(line))
            if isinstance(item.fact, facts.TaskEnded):
                raise typer.Exit(0 if item.fact.status == "Completed" and item.fact.verified is not False else 1)


@app.command()
def review(url: Url = None, data_dir: DataDir = None) -> None:
    """Decide what waits for a person, here in the terminal."""
    from orchestrator.console import Console, ReviewLoop

    with _client(url, data_dir) as client:
        asyncio.run(ReviewLoop(client, Console.of_terminal()).run(until_empty=not sys.stdin.isatty()))


@app.command()
def tasks(
    status: Annotated[str | None, typer.Option(help="Only these.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the newest tasks."""
    from orchestrator.core.visible import one_line

    with _client(url, data_dir) as client:
        found = client.request("GET", "/v1/tasks", **({"status": status} if status else {}))["tasks"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    for task in found:
        typer.echo(f"{task['task_id']}  {task['status']:<9}  {one_line(task['prompt'], limit=60)}")


@app.command()
def cancel(task_id: str, reason: str = "", url: Url = None, data_dir: DataDir = None) -> None:
    """Stop a task."""
    with _client(url, data_dir) as client:
        task = client.request("POST", f"/v1/tasks/{task_id}/cancel", {"reason": reason})
    typer.echo(f"task {task['task_id']} is {task['status']}")


@app.command()
def answer(task_id: str, text: str, url: Url = None, data_dir: DataDir = None) -> None:
    """Answer a task's question."""
    with _client(url, data_dir) as client:
        question = client.request("GET", f"/v1/tasks/{task_id}")["question"]
        if question is None:
            raise typer.BadParameter("The task asks nothing now.")
        body = {"question_id": question["question_id"], "answer": text}
        task = client.request("POST", f"/v1/tasks/{task_id}/answer", body)
    typer.echo(f"task {task['task_id']} is {task['status']}")


@app.command()
def computers(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the computers."""
    from orchestrator.core.visible import one_line

    with _client(url, data_dir) as client:
        found = client.request("GET", "/v1/computers")["computers"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    for one in found:
        state = "online" if one["online"] else "away"
        typer.echo(
            f"{one['computer']}  {state:<6}  {one_line(one.get('label') or '')}  {one_line(one.get('host') or '')}"
        )


@token_app.command("computer")
def token_computer(name: str, url: Url = None, data_dir: DataDir = None) -> None:
    """Make a token for a computer; it is shown once."""
    _add_token({"kind": "computer", "name": name}, url, data_dir)


@token_app.command("person")
def token_person(
    name: str,
    role: Annotated[
        list[str] | None, typer.Option("--role", help="submitter, reviewer, admin; may be repeated.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Make a token for a person; it is shown once."""
    _add_token({"kind": "person", "name": name, "roles": role or ["submitter"]}, url, data_dir)


@token_app.command("revoke")
def token_revoke(kind: str, name: str, url: Url = None, data_dir: DataDir = None) -> None:
    """Revoke all tokens of a person or a computer."""
    with _client(url, data_dir) as client:
        count = client.request("DELETE", f"/v1/tokens/{kind}/{name}")["revoked"]
    if not count:
        raise InvalidRequest(
            f"There is no token of {kind} {name!r} to revoke.", remedy="The kinds are person and computer."
        )
    typer.echo(f"revoked {count}")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop where it exists: 10 to 57 % less work for each call; None: what asyncio itself has."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _add_token(body: dict[str, Any], url: str | None, data_dir: Path | None) -> None:
    with _client(url, data_dir) as client:
        typer.echo(client.request("POST", "/v1/tokens", body)["token"])


@contextmanager
def _client(url: str | None, data_dir: Path | None) -> Iterator[Any]:
    from orchestrator.client import Client

    client = Client(url or os.environ.get(f"{ENV_PREFIX}URL") or DEFAULT_URL, _token(data_dir))
    try:
        yield client
    finally:
        client.close()


def _token(data_dir: Path | None) -> str:
    token = os.environ.get(f"{ENV_PREFIX}TOKEN")
    if token:
        return token.strip()
    where = data_dir or Path(os.environ.get(f"{ENV_PREFIX}DATA_DIR") or default_data_dir(os.environ))
    try:
        return (where / "admin.token").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(
            f"There is no token: {ENV_PREFIX}TOKEN is not set and {where / 'admin.token'} cannot be read.",
            remedy="Set it, name the server's --data-dir, or start one with `cc-orchestrator serve`.",
        ) from None


if __name__ == "__main__":
    main()
