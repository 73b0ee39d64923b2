"""Whether the model of a task that names none can answer."""

from typing import Any, Final

import httpx2

from orchestrator.doctor.finding import Finding, Patient
from orchestrator.model.options import ollama_url

ASK_S: Final = 2.0
_OLLAMA: Final = "ollama:"


def model(patient: Patient) -> Finding:
    """The default model: Ollama's are asked about, others are only named."""
    name, url = str(patient.running("model")), ollama_url(str(patient.running("ollama_url")))
    if not name.startswith(_OLLAMA):
        what = (
            "replays a script and thinks nothing"
            if name.startswith("scripted:")
            else "is not Ollama's; it was not asked"
        )
        remedy = ("For a model on this machine: cc-orchestrator serve --model ollama:NAME",)
        return Finding("model", "ok", f"The model {name} {what}.", remedy if name.startswith("scripted:") else ())
    wanted = name.removeprefix(_OLLAMA)
    try:
        there = [str(one["name"]) for one in _asked(f"{url}/api/tags")["models"]]
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, LookupError, TypeError):
        remedy = ("Start it with `ollama serve`, or say where it listens: OLLAMA_HOST or --ollama-url.",)
        return Finding("model", "fail", f"Ollama does not answer at {url}.", remedy)
    if wanted not in there and f"{wanted}:latest" not in there:
        known = f"Models there: {', '.join(sorted(there)[:10])}." if there else "There are no models yet."
        return Finding("model", "fail", f"Ollama at {url} has no model {wanted}.", (f"ollama pull {wanted}", known))
    window, length = int(patient.running("num_ctx")), _context(url, wanted)
    if length is not None and length < window:
        remedy = (f"cc-orchestrator serve --num-ctx {length}",)
        return Finding("model", "warn", f"{wanted} has a window of {length} tokens, and num_ctx is {window}.", remedy)
    return Finding("model", "ok", f"Ollama at {url} has {wanted}; the window is {window} tokens.")


def _context(url: str, name: str) -> int | None:
    """The longest window of a model; None: Ollama does not tell."""
    try:
        info = _asked(f"{url}/api/show", {"model": name})["model_info"]
        return next((int(value) for key, value in info.items() if key.endswith(".context_length")), None)
    except (httpx2.HTTPError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _asked(url: str, body: dict[str, Any] | None = None) -> Any:
    """Raises httpx2.HTTPError, ValueError."""
    answer = httpx2.request("POST" if body else "GET", url, json=body, timeout=ASK_S, trust_env=False)
    answer.raise_for_status()
    return answer.json()
