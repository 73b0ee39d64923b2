"""Whether the journal bears out a success that a model claims: small models say "done" and nothing was written.

Theory. Three things are kept of the finished steps. An **effect** is a change or a run that succeeded;
it stands until a change or a run fails, is denied or rejected. A **sight** is anything else that
succeeded: what was read, listed, or answered by the user. A **gap** is a look that failed; what is done or
seen after it closes it, but for a list, which shows that there are files and not what is in them.

A task that asks for something to be done needs an effect; one that only asks for knowledge needs a
sight, and so does a task that may only look. With an open gap there is no success at all. What a task
asks for is read off its words, and where they say nothing it counts as work: a doubt costs the user one
look at the result, a false success costs the result.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from orchestrator.core.call_states import CallState
from orchestrator.core.facts import ToolCall
from orchestrator.core.policy import BUILT_IN_CATALOG

_SHOWN_CHARS: Final = 160
_NO_SIGHT: Final = frozenset({"send_status"})
_NO_CLOSURE: Final = frozenset({"cc_list", "ask_user", "cc_docs"})


@dataclass(frozen=True)
class Evidence:
    """What the finished steps of a task show."""

    effect: bool = False
    """A change or a run succeeded, and none failed after it."""
    sight: bool = False
    """Something was looked at, or the user was asked."""
    failure: str = ""
    """The last change or run that failed, while nothing made up for it; empty: there is none."""
    gap: str = ""
    """The last look that failed, while nothing made up for it; empty: there is none."""


NOTHING: Final = Evidence()
"""Of a task without a finished step."""


class Over(Protocol):
    """A call that is over, as the fold keeps it."""

    @property
    def call(self) -> ToolCall:
        """The call."""

    @property
    def state(self) -> CallState:
        """How it ended."""

    @property
    def ok(self) -> bool | None:
        """Whether it succeeded."""

    @property
    def result(self) -> str | None:
        """What the model was told."""

    @property
    def mutates(self) -> bool:
        """Whether it changes or runs something."""


def after(evidence: Evidence, calls: Iterable[Over]) -> Evidence:
    """The evidence once these calls of one step are over, in the order of the reply."""
    done: set[str] = set()
    for record in calls:
        if record.state is CallState.DENIED and record.call.call_digest in done:
            # The same call stood twice in the reply, and the first one counted.
            continue
        evidence = _after(evidence, record)
        if record.ok:
            done.add(record.call.call_digest)
    return evidence


def _after(evidence: Evidence, record: Over) -> Evidence:
    tool = record.call.tool
    if tool not in BUILT_IN_CATALOG or tool in _NO_SIGHT:
        return evidence
    if not record.mutates:
        if not record.ok:
            return replace(evidence, gap=_named(record))
        return replace(evidence, sight=True, gap=evidence.gap if tool in _NO_CLOSURE else "")
    if record.state is CallState.ANSWERED:
        # What a person gave instead of a result changed nothing.
        return evidence
    if record.ok:
        return replace(evidence, effect=True, failure="", gap="")
    return replace(evidence, effect=False, failure=_named(record))


def _named(record: Over) -> str:
    said = (record.result or "").strip().partition("\n")[0][:_SHOWN_CHARS].rstrip()
    return f"{record.call.tool}: {said}{'' if said.endswith(('.', '!', '?')) else '.'}"


def doubt(evidence: Evidence, *, prompt: str, read_only: bool) -> str | None:
    """What a claimed success lacks, as a sentence for the model; None: the journal bears it out."""
    if evidence.gap:
        return f"You say success, but this failed and nothing made up for it: {evidence.gap} {_OTHERWISE}"
    if read_only or asks_only(prompt):
        if evidence.sight or evidence.effect:
            return None
        return f"You say success, but you have looked at nothing. Look at what your answer rests on. {_OTHERWISE}"
    if evidence.effect:
        return None
    if evidence.failure:
        return f"You say success, but the last change or run failed: {evidence.failure} {_OTHERWISE}"
    return f"You say success, but nothing was changed or run. Do what the task asks for first. {_OTHERWISE}"


_OTHERWISE: Final = "If it cannot be done, send a final with success false that says why."


# -- what a task asks for ------------------------------------------------------------------

_QUESTION: Final = re.compile(
    r"\A\W*(?:(?:please|can you|could you|would you|i want to know|i would like to know|bitte|kannst du)\W+)*"
    r"(?:why|what|which|who|whose|when|where|how|is|are|was|were|does|do|did|has|have|had|should"
    r"|tell|explain|describe|list|show|read|find|look|check|count|compare|summari[sz]e|analy[sz]e|inspect|review|report"
    r"|warum|wieso|weshalb|was|welche[rsn]?|wer|wann|wo|wie|ist|sind|hat|erkl[aä]r\w*|zeig\w*|lies|such\w*|pr[uü]f\w*"
    r"|pourquoi|quel(?:le)?s?|qui|quand|o[uù]|comment|combien|explique\w*|montre\w*"
    r"|por qu[eé]|qu[eé]|cu[aá]l(?:es)?|qui[eé]n|cu[aá]ndo|d[oó]nde|c[oó]mo|explica\w*|muestra\w*)\b",
    re.IGNORECASE,
)
_WORK: Final = re.compile(
    r"\b(?:fix|repair|mend|write|rewrite|create|make|build|add|append|change|edit|modify|update|improve|optimi[sz]e|refactor"
    r"|delete|remove|clean|rename|move|copy|save|store|put|set up|install|uninstall|run|execute|launch|restart"
    r"|on (?:the|a|my) (?:monitor|screen)|implement|convert|translate|replace|insert|generate|print|draw|dig|mine"
    r"|craft|place|turn (?:on|off|it)|set the"
    r"|schreib\w*|erstell\w*|mach\w*|baue?|reparier\w*|behebe?|[aä]nder\w*|l[oö]sch\w*|starte?|f[uü]hr\w*"
    r"|[eé]cris|cr[eé]e\w*|fais|r[eé]par\w*|corrig\w*|modifi\w*|supprim\w*|lance"
    r"|escrib\w*|cre[ae]|haz|arregl\w*|corrig\w*|cambi\w*|borr\w*|ejecut\w*)\b",
    re.IGNORECASE,
)
_ASKING: Final = re.compile(
    r"\A\W*(?:why|what|which|who|whose|when|where|how|warum|wieso|weshalb|wer|wann|wo|wie|pourquoi|comment|combien"
    r"|por qu[eé]|c[oó]mo|cu[aá]ndo|d[oó]nde)\b",
    re.IGNORECASE,
)
"""What begins so is a question also without its mark."""
_ASIDE: Final = re.compile(
    r"\b(?:that|which|who)\s+(?:\w+\s+)?\w+|\bhow (?:do|can|could|would|should|to)\b[^.?!\n]*"
    r"|\b(?:do not|don't|dont|never|without)\s+\w+[^.?!,;\n]*",
    re.IGNORECASE,
)
"""Clauses in which a word of work is none: how something is done, and what must not be done."""


def asks_only(prompt: str) -> bool:
    """Whether a task asks for knowledge and for nothing to be done, as far as its words say.

    It begins like a question or a request to look, and no other sentence of it asks for work: "Why does it
    crash? Fix it." is work. Words of English, and the commonest of German, French and Spanish; what none of
    them tells is a question when it ends like one.
    """
    sentences = [one for one in re.split(r"(?<=[.?!\n;])\s+|\n|\bthen\b|,\s*and\b", prompt.strip()) if one.strip()]
    return bool(sentences) and all(_is_question(one) for one in sentences)


def _is_question(sentence: str) -> bool:
    asks = _QUESTION.match(sentence) is not None
    if not asks and not sentence.rstrip().endswith("?"):
        return False
    if asks and (sentence.rstrip().endswith("?") or _ASKING.match(sentence)):
        return True
    return _WORK.search(_ASIDE.sub("", sentence)) is None
