"""Whether the model of a task that names none can answer, at each of the servers that it may be asked at."""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from orchestrator.adapters.models.inspection import Seen, looked
from orchestrator.adapters.models.ollama_errors import missing
from orchestrator.adapters.models.ollama_server import Refusal
from orchestrator.adapters.models.openai_errors import refused
from orchestrator.adapters.models.openai_server import NO_MODELS, ModelServer
from orchestrator.adapters.models.options import DEFAULT_CTX, OllamaOptions, ServerOptions
from orchestrator.core.errors import ModelFailed
from orchestrator.terminal.doctor.findings import Finding, Patient

ASK_S: Final = 1.4
"""Each of the two questions in turn, within the time of one look."""
_OLLAMA: Final = "ollama:"
_SERVED: Final = "openai-chat:"


def model(patient: Patient) -> Finding | Sequence[Finding]:
    """The default model: Ollama's are asked about, at each server; others are only named."""
    name = str(patient.running("model"))
    where = str(patient.running("model_url")) or os.environ.get("OPENAI_BASE_URL", "")
    if name.startswith(_SERVED) and where:
        return _served(name.removeprefix(_SERVED), where, int(patient.running("num_ctx")))
    if not name.startswith(_OLLAMA):
        what = (
            "replays a script and thinks nothing"
            if name.startswith("scripted:")
            else "is not Ollama's; it was not asked"
        )
        remedy = ("For a model on this machine: cc-orchestrator serve --model ollama:NAME",)
        return Finding("model", "ok", f"The model {name} {what}.", remedy if name.startswith("scripted:") else ())
    wanted, num_ctx = name.removeprefix(_OLLAMA), int(patient.running("num_ctx"))
    where = str(patient.running("ollama_url")) or os.environ.get("OLLAMA_HOST", "")
    options = OllamaOptions(url=where, num_ctx=num_ctx, num_predict=1, connect_s=ASK_S, fact_s=ASK_S)
    return [_finding(wanted, num_ctx, one) for one in asyncio.run(looked(wanted, options))]


def _served(wanted: str, where: str, num_ctx: int) -> Finding:
    """A model of a server that speaks OpenAI's API."""
    own = None if num_ctx == DEFAULT_CTX else num_ctx
    options = ServerOptions(url=where, num_ctx=own, num_predict=1, connect_s=ASK_S, fact_s=ASK_S)
    server = ModelServer(options.url, options)
    try:
        facts = asyncio.run(server.facts(wanted))
    except Refusal as refusal:
        error = refused(refusal.status, refusal.body, model=wanted, url=server.url)
        return Finding("model", "fail", error.message, (error.remedy,))
    except ModelFailed as error:
        return Finding("model", "fail", f"No model server answers at {server.url}.", (error.message, error.remedy))
    except TimeoutError:
        remedy = ("It may be busy: try again.",)
        return Finding("model", "fail", f"The model server at {server.url} did not answer within {ASK_S:g} s.", remedy)
    if facts.program == "Ollama":
        remedy = (f"cc-orchestrator serve --model ollama:{wanted} --ollama-url {server.root}",)
        return Finding("model", "warn", f"What answers at {server.url} is Ollama, which cuts here silently.", remedy)
    program = f"{facts.program} at {server.url}" if facts.program else f"The model server at {server.url}"
    if not facts.names:
        return Finding("model", "warn", f"{program} names no models.", (NO_MODELS,))
    if wanted not in facts.names:
        # Some of them take any name, or load a model when it is asked for.
        known = f"Models there: {', '.join(facts.names[:10])}."
        return Finding("model", "warn", f"{program} names no model {wanted}.", (known,))
    window = options.within(facts.context).num_ctx
    if facts.context is None and own is None:
        remedy = ("Set --num-ctx to what it was started with.",)
        return Finding("model", "warn", f"{program} has {wanted}, and does not say how long its window is.", remedy)
    return Finding("model", "ok", f"{program} has {wanted}; the window is {window} tokens.")


def _finding(wanted: str, num_ctx: int, seen: Seen) -> Finding:
    url, trouble, facts = seen.url, seen.trouble, seen.facts
    if trouble is not None:
        return Finding("model", "fail", f"Ollama does not answer at {url}.", (trouble.message, trouble.remedy))
    if facts is None or seen.window is None:
        known = f"Models there: {', '.join(sorted(seen.names)[:10])}." if seen.names else "There are no models yet."
        remedies = (missing(wanted, url).remedy, f"ollama pull {wanted}", known)
        return Finding("model", "fail", f"Ollama at {url} has no model {wanted}.", remedies)
    if not facts.completes:
        remedy = ("Choose one that completes text: cc-orchestrator models list",)
        return Finding("model", "fail", f"{wanted} at {url} writes no text.", remedy)
    notes = []
    if facts.cloud:
        notes.append("It runs in Ollama's cloud: what it is sent leaves this network, and no form holds its replies.")
    if seen.window.num_ctx < num_ctx:
        length = seen.window.num_ctx
        sentence = f"{wanted} at {url} has a window of {length} tokens, and num_ctx is {num_ctx}."
        return Finding("model", "warn", sentence, (f"cc-orchestrator serve --num-ctx {length}", *notes))
    longest = f" The model was made for {facts.context}." if facts.context else ""
    sentence = f"Ollama at {url} has {wanted}; the window is {num_ctx} tokens.{longest}"
    return Finding("model", "warn" if facts.cloud else "ok", sentence, tuple(notes))
