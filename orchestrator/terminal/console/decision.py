"""One request at the prompt: keys, what they ask for, and the decision that comes out of it.

Theory. Only a key of this request does anything; whatever else is typed changes nothing and says what
is possible. A decision carries the digest of what stood on the screen, so that it can be about nothing
else, and what was cut on the screen is not approved before it was shown whole (promise V3).
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from orchestrator.core.approval.approval import CallDecision, HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import DecisionAction, OnReject
from orchestrator.terminal.console.edit import MAX_REASON_CHARS, edit_call
from orchestrator.terminal.console.grant import ask_grant
from orchestrator.terminal.console.lines import Line
from orchestrator.terminal.console.person import Person
from orchestrator.terminal.console.request_view import details, page, short, time_left

MAX_ANSWER_CHARS: Final = 20_000
_HOUR_S: Final = 3600.0
_LONGEST_S: Final = 31_536_000.0
"""A year: what the server takes."""

_LEAVE: Final = frozenset({"n", "next", "l", "leave"})
_ABOUT: Final[Mapping[str, tuple[str, str, str]]] = {
    "approve": ("a", "[a]pprove", "let it run exactly as it is shown"),
    "edit": ("e", "[e]dit", "change it in your editor, approve what you wrote"),
    "reject": ("r", "[r]eject", "it does not run; say why, and what then"),
    "respond": ("p", "res[p]ond", "it does not run; the model is told your text"),
    "remember": ("g", "[g]rant", "approve it, and what is like it from now on"),
    "check": ("c", "[c]heck again", "look at the computer once more"),
    "mark_done": ("d", "mark [d]one", "it was carried out"),
    "mark_failed": ("f", "mark [f]ailed", "it was not; the model is told that it failed"),
    "retry": ("t", "re[t]ry", "ask for it anew, as a new call"),
    "details": ("d", "[d]etails", "all of it as JSON: digests, hashes, rules"),
    "whole": ("w", "[w]hole", "fetch and show all of it"),
    "extend": ("x", "e[x]tend", "an hour more before it expires"),
    "next": ("n", "[n]ext", "leave it open"),
    "help": ("h", "[h]elp", "this"),
}
"""Each word that can be typed: its key, how the prompt names it, and what it does."""
_UNKNOWN_DETAILS: Final = "i"
"""The key of the details where ``d`` marks a call as done."""
_ONE_CALL: Final = frozenset({"edit", "respond", "remember"})
"""What says something of one call."""
_RARE: Final = frozenset({"remember", "extend"})
"""What the help names and the prompt has no room for."""
_RUNS: Final = frozenset({"approve", "edit", "remember"})


def decision(
    request: HitlResponse,
    action: DecisionAction,
    reason: str = "",
    *,
    calls: Iterable[RequestedCallView] | None = None,
    **more: Any,
) -> ResumeRequest:
    """One action for every call of a request, or for these, each bound to the digest that was shown."""
    return ResumeRequest(
        decisions=tuple(
            CallDecision(
                call_id=call.call_id,
                action=action,
                reason=reason,
                # What was cut has none; then the server binds it to what it stored, and approves nothing.
                expected_digest=call.action_digest or None,
                **more,
            )
            for call in (request.tool_calls if calls is None else calls)
        )
    )


class Deciding:
    """Asks a person about one request until they decide or leave it."""

    def __init__(self, person: Person, request: HitlResponse) -> None:
        self._person = person
        self._request = request
        self._chosen: int | None = None
        self._left = False
        self._acts: Mapping[str, Callable[[], ResumeRequest | None]] = {
            "edit": self._edit,
            "reject": self._reject,
            "respond": self._respond,
            "remember": self._remember,
            "details": self._details,
            "whole": self._whole,
            "extend": self._extend,
            "next": self._leave,
            "help": self._help,
        }

    def run(self) -> ResumeRequest | None:
        """The decision; None: they leave it open. Raises Overtaken, InputEnded."""
        while not self._left:
            resume = self._heard(self._person.typed(self._prompt()).lower())
            if resume is not None:
                return resume
        return None

    # -- what can be typed ---------------------------------------------------------------

    def _words(self) -> list[str]:
        """What can be said of this request now."""
        calls = self._calls()
        cut = any(call.truncated for call in calls)
        words = [
            word
            for word in self._allowed()
            if not (word in _ONE_CALL and len(calls) > 1) and not (cut and word in _RUNS)
        ]
        more = (["whole"] if cut else []) + ["details"]
        return [*words, *more, *(["extend"] if self._request.expires_at else []), "next", "help"]

    def _allowed(self) -> list[str]:
        """What decides, as far as this request takes it."""
        verbs: set[str] = set(self._request.allowed_decisions)
        return [word for word in _ABOUT if word in verbs or (word == "remember" and "approve" in verbs)]

    def _key(self, word: str) -> str:
        marks = "mark_done" in self._request.allowed_decisions
        return _UNKNOWN_DETAILS if word == "details" and marks else _ABOUT[word][0]

    def _prompt(self) -> str:
        words = self._words()
        names = [self._name(word) for word in words if word not in _RARE]
        count = len(self._request.tool_calls)
        if count > 1:
            names.insert(-1, "[0] all" if self._chosen is not None else f"[1-{count}] one")
        about = (
            f"Call {self._chosen + 1}: " if self._chosen is not None else f"All {count}: " if count > 1 else "Decide: "
        )
        return f"{about}{' '.join(names)} > "

    def _name(self, word: str) -> str:
        if word == "next":
            return self._person.leave
        return "[i]nfo" if word == "details" and self._key(word) == _UNKNOWN_DETAILS else _ABOUT[word][1]

    def _heard(self, typed: str) -> ResumeRequest | None:
        if self._choose(typed):
            return None
        words = self._words()
        found = next((word for word in words if typed in (word, self._key(word))), None)
        if found is None and typed in _LEAVE:
            found = "next"
        if found is not None:
            act = self._acts.get(found)
            return act() if act is not None else decision(self._request, found, calls=self._calls())  # type: ignore[arg-type]
        self._refuse(typed, words)
        return None

    def _refuse(self, typed: str, words: list[str]) -> None:
        said = next((word for word in _ABOUT if typed and typed in (word, _ABOUT[word][0])), None)
        if said in _RUNS and any(call.truncated for call in self._calls()):
            self._person.tell("Not all of it was shown: [w] shows the whole, then it can be approved.")
        elif said in _ONE_CALL and said in self._allowed() and len(self._calls()) > 1:
            self._person.tell(f"Choose one call first: 1 to {len(self._calls())}.")
        else:
            keys = ", ".join(self._key(word) for word in words)
            self._person.tell(f"Type one of {keys}; nothing was decided.")

    def _choose(self, typed: str) -> bool:
        """Whether it named a call, which is then the one that keys act on; 0: all again."""
        count = len(self._request.tool_calls)
        if count < 2 or not (typed.isascii() and typed.isdigit()) or len(typed) > 4 or int(typed) > count:
            return False
        self._chosen = int(typed) - 1 if int(typed) else None
        for call in self._calls() if self._chosen is not None else ():
            self._person.tell(f"  [{typed}/{count}] {short(call)}")
        return True

    def _calls(self) -> tuple[RequestedCallView, ...]:
        """Those that keys act on."""
        calls = self._request.tool_calls
        return calls if self._chosen is None else (calls[self._chosen],)

    # -- what is decided -----------------------------------------------------------------

    def _edit(self) -> ResumeRequest | None:
        (call,) = self._calls()
        key = (self._request.request_id, call.call_id)
        edited = edit_call(self._person, call, self._person.kept.pop(key, None))
        if edited is None:
            return None
        self._person.kept[key], reason = edited
        return decision(self._request, "edit", reason, calls=(call,), args=edited[0])

    def _reject(self) -> ResumeRequest | None:
        reason = self._person.typed("Reason (may be empty): ")
        if len(reason) > MAX_REASON_CHARS:
            self._person.tell(f"That is longer than {MAX_REASON_CHARS} characters; nothing was decided.")
            return None
        then: dict[str, OnReject | None] = {"c": "continue", "s": "cancel", "": None}
        typed = "?"
        while typed not in then:
            usual = "it goes on" if self._request.on_reject == "continue" else "it stops"
            typed = self._person.typed(f"The task then: [c]ontinue, [s]top; [n]o reject (empty: {usual}) > ")
            typed = typed.lower()
            if typed in ("n", "no"):
                self._person.tell("Nothing was decided.")
                return None
        return decision(self._request, "reject", reason, calls=self._calls(), on_reject=then[typed])

    def _respond(self) -> ResumeRequest | None:
        answer = self._person.typed("What the model is told in place of a result (empty: decide nothing): ")
        if not answer or len(answer) > MAX_ANSWER_CHARS:
            long = f"That is longer than {MAX_ANSWER_CHARS} characters; n" if answer else "N"
            self._person.tell(f"{long}othing was decided.")
            return None
        return decision(self._request, "respond", calls=self._calls(), answer=answer)

    def _remember(self) -> ResumeRequest | None:
        (call,) = self._calls()
        spec = ask_grant(self._person, self._request, call)
        return None if spec is None else decision(self._request, "approve", calls=(call,), remember=spec)

    # -- what is only looked at ----------------------------------------------------------

    def _details(self) -> None:
        self._person.write(details(self._request, self._calls()))

    def _whole(self) -> None:
        if self._person.desk is None:
            self._person.tell("It cannot be fetched here: `cc-orchestrator review` can.")
            return
        try:
            whole = self._person.desk.whole(self._request.request_id)
        except OrchestratorError as error:
            self._person.tell(str(error))
            return
        self._request = whole
        self._chosen = None
        self._person.write(page(whole, again=True, now=self._person.now()))

    def _extend(self) -> None:
        until, now = self._request.expires_at, self._person.now()
        if until is None or self._person.desk is None:
            self._person.tell("Its time cannot be changed here: `cc-orchestrator review` can.")
            return
        seconds = min(max(0.0, (until - now).total_seconds()) + _HOUR_S, _LONGEST_S)
        try:
            self._person.desk.extend(self._request.request_id, seconds)
        except OrchestratorError as error:
            self._person.tell(str(error))
            return
        later = now + timedelta(seconds=seconds)
        self._request = self._request.model_copy(update={"expires_at": later})
        self._person.tell(f"It now expires in {time_left(later, now)}.")

    def _leave(self) -> None:
        self._left = True

    def _help(self) -> None:
        self._person.write(
            Line(f"  {self._key(word)}  {word.replace('_', ' '):<12} {_ABOUT[word][2]}") for word in self._words()
        )
        count = len(self._request.tool_calls)
        if count > 1:
            self._person.tell(f"  1 to {count} choose one call for the next key, 0 all of them.")
        self._person.tell("  Ctrl-C leaves; what was not decided stays open.")
