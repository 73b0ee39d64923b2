"""Whether the model of a task that names none can answer, at each of the servers that it may be asked at."""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from orchestrator.doctor.finding import Finding, Patient
from orchestrator.model.looking import Seen, looked
from orchestrator.model.ollama_errors import missing
from orchestrator.model.options import OllamaOptions

ASK_S: Final = 1.4
"""Each of the two questions in turn, within the time of one look."""
_OLLAMA: Final = "ollama:"


def model(patient: Patient) -> Finding | Sequence[Finding]:
    """The default model: Ollama's are asked about, at each server; others are only named."""
    name = str(patient.running("model"))
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
