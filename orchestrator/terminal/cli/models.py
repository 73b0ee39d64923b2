"""The commands about Ollama's models: which there are, what is known of one, and getting one.

`show` and `pull` speak to Ollama itself; `list` asks the orchestrator, and Ollama where none answers.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orchestrator.core.errors import InvalidRequest, ModelFailed
from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import (
    AsJson,
    DataDir,
    Url,
    client_of,
    complain,
    is_alone,
    print_json,
    quoted,
    settings_of,
)

if TYPE_CHECKING:
    from orchestrator.adapters.models.kept_models import KeptModel, Progress, Seen
    from orchestrator.adapters.models.ollama_server import ModelFacts
    from orchestrator.adapters.models.options import OllamaOptions, ServerOptions
    from orchestrator.terminal.meter import Meter
    from orchestrator.terminal.output import Screen

models_app = typer.Typer(invoke_without_command=True, help="List Ollama's models, look at one, or get one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="As Ollama names it, such as qwen2.5-coder:7b.")]
OllamaUrl = Annotated[
    str | None, typer.Option("--ollama-url", help="Where Ollama listens. Default: as `serve --ollama-url`.")
]
ModelUrl = Annotated[
    str | None,
    typer.Option("--model-url", help="Where a server speaks OpenAI's API. Default: as `serve --model-url`."),
]
_LOOK_S: Final = 0.2
"""How often a person's Ctrl-C is looked for while Ollama says nothing."""


@models_app.callback()
def models(
    context: typer.Context,
    as_json: AsJson = False,
    url: OllamaUrl = None,
    model_url: ModelUrl = None,
    server: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the models of each model server; of Ollama `models show` tells more of one, `models pull` gets one."""
    if is_alone(context):
        _list(as_json, url, model_url, data_dir, server)


@models_app.command("list", epilog="Example: cc-orchestrator models list --model-url http://127.0.0.1:1234/v1")
def list_models(
    as_json: AsJson = False,
    url: OllamaUrl = None,
    model_url: ModelUrl = None,
    server: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the models that tasks can use.

    These are Ollama's, and those of the server that speaks OpenAI's API where one is set.

    With --ollama-url or --model-url, and where no orchestrator answers, it asks from here. Ollama is left out then
    where only the other one is set.
    """
    _list(as_json, url, model_url, data_dir, server)


@models_app.command(epilog="Example: cc-orchestrator models show qwen2.5-coder:7b")
def show(name: Name, as_json: AsJson = False, url: OllamaUrl = None, data_dir: DataDir = None) -> None:
    """Show what is known of a model.

    Its context, what it can, whether it runs in the cloud, and the window that a task would have, at each server.
    """
    import asyncio

    from orchestrator.adapters.models.kept_models import looked

    options = _options(url, data_dir)
    found = asyncio.run(looked(_plain(name), options))
    if as_json:
        print_json([_as_json(one) for one in found])
    troubles = 0
    for seen in found:
        try:
            facts = seen.must_have(_plain(name))
        except ModelFailed as error:
            troubles += 1
            complain(error)
            continue
        if as_json:
            continue
        for line in _told(seen, facts, options):
            typer.echo(one_line(line, limit=600))
    if troubles == len(found):
        raise typer.Exit(3 if all(one.trouble is not None for one in found) else 4)


@models_app.command(epilog="Example: cc-orchestrator models pull qwen2.5-coder:7b")
def pull(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is done as lines of JSON.")] = False,
    url: OllamaUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Get a model, at each Ollama server that does not have it.

    It asks first. The fetched part stays when it is broken off: the same command goes on where it stopped. A server
    that does not answer is named and left out.
    """
    from orchestrator.adapters.models.kept_models import has

    name = _plain(name)
    there: dict[str, list[KeptModel]] = {}
    for one in _options(url, data_dir).endpoints:
        _kept(one.url, there)
    for where, kept in there.items():
        if has(kept, name):
            _is_there(where, name, as_json, "already")
        elif yes or _sure(name, where, _size(name, there)):
            _pull(where, name, as_json)
        else:
            typer.echo("Nothing was fetched.", err=True)
            raise typer.Exit(1)
    if not there:
        raise typer.Exit(3)


def _kept(url: str, there: "dict[str, list[KeptModel]]") -> bool:
    """Note the models of a server; False: it does not tell, and that was said."""
    import asyncio

    from orchestrator.adapters.models.kept_models import kept_models

    try:
        there[url] = asyncio.run(kept_models(url))
    except ModelFailed as error:
        complain(error)
        return False
    return True


def _is_there(where: str, name: str, as_json: bool, since: str) -> None:
    if as_json:
        print_json({"model": name, "url": where, "there": since})
    else:
        typer.echo(f"{one_line(name)} is at {where} {since}.")


def _pull(where: str, name: str, as_json: bool) -> None:
    from orchestrator.adapters.models.ollama_errors import AskAnother
    from orchestrator.terminal.output import Screen

    screen = Screen.of()
    showing = _Lines(name, where) if as_json else _Showing(one_line(name), screen)
    try:
        for progress in _fetched(where, name):
            showing.tell(progress)
    except KeyboardInterrupt:
        screen.close()
        typer.echo("\nStopped. The fetched part stays: the same command goes on where it stopped.", err=True)
        raise
    except ModelFailed as error:
        screen.close()
        complain(error)
        raise typer.Exit(3 if isinstance(error, AskAnother) else 1) from None
    screen.close()
    _is_there(where, name, as_json, "now")


def _fetched(where: str, name: str) -> "Iterator[Progress]":
    """How far a pull has come, until it has ended. Raises ModelFailed.

    The wait for Ollama is another thread's: Ctrl-C must not have to wait for its next word.
    """
    from queue import Empty, SimpleQueue
    from threading import Thread

    from orchestrator.adapters.models.kept_models import pull as fetch

    heard: SimpleQueue[Progress | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            fetch(where, name, heard.put)
            heard.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            heard.put(error)

    # A daemon: the connection closes with the program, and Ollama stops fetching then.
    Thread(target=work, daemon=True).start()
    while True:
        try:
            step = heard.get(timeout=_LOOK_S)
        except Empty:
            continue
        if step is None:
            return
        if isinstance(step, BaseException):
            raise step
        yield step


def _options(url: str | None, data_dir: Any) -> "OllamaOptions":
    """How a server would ask Ollama. Raises InvalidRequest."""
    from orchestrator.adapters.models.options import OllamaOptions

    chosen = settings_of(data_dir=data_dir, ollama_url=url)
    return OllamaOptions(
        url=chosen.ollama_url or os.environ.get("OLLAMA_HOST", ""),
        num_ctx=chosen.num_ctx,
        num_predict=chosen.num_predict,
        concurrency=chosen.ollama_concurrency,
    )


def _plain(name: str) -> str:
    """A model's name without what says where it is from. Raises InvalidRequest."""
    plain = name.strip().removeprefix("ollama:")
    if plain.startswith("openai-chat:"):
        raise InvalidRequest(
            f"{quoted(name)} is not a model of Ollama.",
            remedy="`cc-orchestrator models list` names the models of other servers, `doctor` looks at the one in use.",
        )
    if not plain or plain.startswith("scripted:"):
        raise InvalidRequest(f"{quoted(name)} is not a model of Ollama.", remedy="Say it like qwen2.5-coder:7b.")
    return plain


# -- list ----------------------------------------------------------------------------------


def _list(as_json: bool, url: str | None, model_url: str | None, data_dir: Any, server: str | None) -> None:
    from orchestrator.terminal.output import Screen, sized, table

    there: dict[str, list[KeptModel]] = {}
    told = None if url or model_url else _told_by_server(server, data_dir)
    answered = _asked_here(url, model_url, data_dir, there) if told is None else any(_of_server(told, there))
    found = [(where, kept) for where, models in there.items() for kept in models]
    if as_json:
        print_json([{"url": where, **vars(kept)} for where, kept in found])
    elif found:
        rows = [(one_line(one.name), sized(one.size) if one.size else "-", _made(one), where) for where, one in found]
        for line in table(("MODEL", "SIZE", "MADE OF", "AT"), rows, columns=Screen.of().columns):
            typer.echo(line)
    elif answered:
        typer.echo("There are no models yet. Get one with `cc-orchestrator models pull qwen2.5-coder:7b`.", err=True)
    if not answered:
        raise typer.Exit(3)


def _told_by_server(server: str | None, data_dir: Any) -> Any:
    """What the orchestrator says of its models; None: none answers that can say it, and that was said.

    Raises ServerUnreachable, ServerRefused and InvalidRequest where one was named.
    """
    from orchestrator.client.streams import ServerRefused, ServerUnreachable

    try:
        with client_of(server, data_dir) as client:
            told = client.request("GET", "/v1/models", look="1")
    except (InvalidRequest, ServerRefused, ServerUnreachable) as error:
        if server:
            raise
        typer.echo(f"Asked from here, without the orchestrator: {one_line(error.message)}", err=True)
        return None
    typer.echo(f"Asked: the orchestrator at {client.shown}, whose tasks use {one_line(told['model'])}.", err=True)
    return told


def _of_server(told: Any, there: "dict[str, list[KeptModel]]") -> list[bool]:
    """Note what the orchestrator says; whether each of its model servers answered it."""
    from orchestrator.adapters.models.kept_models import KeptModel

    for one in told["servers"]:
        if one["trouble"]:
            typer.echo(f"cc-orchestrator: {one_line(one['trouble'], limit=2000)}", err=True)
            continue
        there[one["url"]] = [
            KeptModel(**{**model, "name": model["name"].removeprefix("ollama:")}) for model in one["models"]
        ]
    return [not one["trouble"] for one in told["servers"]]


def _asked_here(url: str | None, model_url: str | None, data_dir: Any, there: "dict[str, list[KeptModel]]") -> bool:
    """Note what the model servers say that the settings here name.

    Whether one of them answered, and one of each kind that the command names.
    """
    served = _served(model_url, data_dir)
    openai = [_served_models(served, there)] if served is not None else []
    asks_ollama = served is None or url or _ollama_is_set(data_dir)
    ollama = [_kept(one.url, there) for one in _options(url, data_dir).endpoints] if asks_ollama else []
    return any(openai + ollama) and (any(openai) or not model_url) and (any(ollama) or not url)


def _served(model_url: str | None, data_dir: Any) -> "ServerOptions | None":
    """How a server would be asked that speaks OpenAI's API; None: no address is set. Raises InvalidRequest."""
    from orchestrator.adapters.models.options import ServerOptions

    chosen = settings_of(data_dir=data_dir, model_url=model_url)
    options = ServerOptions(url=chosen.model_url or os.environ.get("OPENAI_BASE_URL", ""))
    return options if options.url else None


def _ollama_is_set(data_dir: Any) -> bool:
    return bool(settings_of(data_dir=data_dir).ollama_url or os.environ.get("OLLAMA_HOST"))


def _served_models(options: "ServerOptions", there: "dict[str, list[KeptModel]]") -> bool:
    """Note the models of a server that speaks OpenAI's API; False: it does not tell, and that was said."""
    import asyncio

    from orchestrator.adapters.models.kept_models import KeptModel
    from orchestrator.adapters.models.openai_server import listed

    try:
        facts = asyncio.run(listed(options))
    except ModelFailed as error:
        complain(error)
        return False
    there[options.url] = [KeptModel(f"openai-chat:{name}", 0, "", "") for name in facts.names]
    return True


def _made(kept: "KeptModel") -> str:
    return one_line(", ".join(filter(None, (kept.parameters, kept.quantization))) or "-")


# -- show ----------------------------------------------------------------------------------


def _as_json(seen: "Seen") -> Mapping[str, Any]:
    facts, window = seen.facts, seen.window
    return {
        "url": seen.url,
        "there": facts is not None,
        "trouble": str(seen.trouble) if seen.trouble is not None else None,
        "version": seen.version or None,
        "context": facts.context if facts else None,
        "num_ctx": window.num_ctx if window else None,
        "num_predict": window.num_predict if window else None,
        "capabilities": sorted(facts.capabilities) if facts else [],
        "cloud": facts.cloud if facts else None,
        "remote_host": (facts.remote_host or None) if facts else None,
        "parameters": (facts.size or None) if facts else None,
        "quantization": (facts.quantization or None) if facts else None,
    }


def _told(seen: "Seen", facts: "ModelFacts", options: "OllamaOptions") -> Iterator[str]:
    window = options.within(facts.context)
    made = ", ".join(filter(None, (facts.family, facts.size, facts.quantization)))
    yield f"at {seen.url}{f', Ollama {seen.version}' if seen.version else ''}"
    yield f"  made of   {made or 'not said'}"
    yield f"  can       {', '.join(sorted(facts.capabilities)) or 'not said'}"
    yield f"  context   {f'{facts.context} tokens' if facts.context else 'not said'}"
    shorter = "" if window.num_ctx == options.num_ctx else f", less than the {options.num_ctx} of num_ctx"
    yield f"  a task    has a window of {window.num_ctx} tokens{shorter}, of them {window.num_predict} for a reply"
    if facts.cloud:
        yield (
            f"  runs      in Ollama's cloud{f' ({facts.remote_host})' if facts.remote_host else ''}: "
            "what it is sent leaves this network, and nothing holds its replies to their form"
        )
    if not facts.completes:
        yield "  careful   it writes no text, so no task can use it"


# -- pull ----------------------------------------------------------------------------------


def _size(name: str, there: "Mapping[str, list[KeptModel]]") -> str:
    """How large a model is, where one of the servers has it."""
    from orchestrator.adapters.models.kept_models import has
    from orchestrator.terminal.output import sized

    sizes = [one.size for kept in there.values() for one in kept if one.size and has([one], name)]
    return f" It has {sized(sizes[0])}." if sizes else ""


def _sure(name: str, where: str, size: str) -> bool:
    """Whether somebody at the terminal wants it. Raises InvalidRequest without a terminal."""
    what = f"{one_line(name)} is not at {where}.{size}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidRequest(what, remedy="Say --yes to have it fetched without being asked.")
    typer.echo(f"{what} Pull it now? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@dataclass
class _Lines:
    """The progress of a pull as lines of JSON: one for each thing that is done, and one a second of what takes long."""

    name: str
    where: str
    _status: str = ""
    _told_at: float = 0.0

    def tell(self, progress: "Progress") -> None:
        """How far it has come now."""
        now = time.monotonic()
        if progress.status != self._status or now - self._told_at >= 1.0:
            self._status, self._told_at = progress.status, now
            print_json({"hint": "pull", "model": self.name, "url": self.where, **vars(progress)})


@dataclass
class _Showing:
    """The progress of a pull: a bar on a terminal, else a line for each tenth."""

    name: str
    screen: "Screen"
    meter: "Meter" = field(init=False)
    _status: str = ""

    def __post_init__(self) -> None:
        from orchestrator.terminal.meter import Meter

        self.meter = Meter(self.name, self.screen, say=_line, apart_s=0.0)

    def tell(self, progress: "Progress") -> None:
        """How far it has come now."""
        from orchestrator.terminal.output import sized

        if progress.status != self._status and not (progress.total and progress.status.startswith("pulling ")):
            self._status = progress.status
            if not self.screen.moves and progress.status != "success":
                typer.echo(f"{self.name}: {one_line(progress.status)}")
        if not progress.total:
            self.screen.status(f"{self.name}  {one_line(progress.status)}")
            return
        amount = f"{sized(progress.done)} of {sized(progress.total)}"
        busy = "" if progress.done < progress.total else f"  {one_line(progress.status)}"
        self.meter.tell(progress.done, progress.total, amount, progress.done, busy=busy)


def _line(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()
