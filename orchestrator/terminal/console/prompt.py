"""One request at the prompt: the keys that a person types, and the decision that they make.

Theory. Only a key of this request does anything; whatever else is typed changes nothing and says what is possible.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from orchestrator.client import Client
from orchestrator.core.approval.approval import HitlResponse, RequestedCallView, ResumeRequest
from orchestrator.core.approval.grants import MAX_SESSION_S, SESSION_S, GrantScope, GrantSpec
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.task.facts import OnReject, RequestId
from orchestrator.core.text.visible import visible
from orchestrator.terminal.console.person import Person, prompted
from orchestrator.terminal.review.channel import MAX_ANSWER_CHARS, request_of
from orchestrator.terminal.review.edit import (
    MAX_REASON_CHARS,
    SCOPES,
    THEN,
    Choices,
    EditorFailed,
    an_hour_more,
    args_as_json,
    changed_lines,
    edited_text,
    ending_of,
    never_granted,
    parsed,
    pattern_lines,
    scope_lines,
    spec_of,
    text_argument,
    texts_of,
)
from orchestrator.terminal.review.request_view import Line, details, page, short, time_left

_LEAVE: Final = frozenset({"n", "next", "l", "leave"})
_ABOUT: Final[Mapping[str, tuple[str, str]]] = {
    "approve": ("[a]pprove", "let it run exactly as it is shown"),
    "edit": ("[e]dit", "change it in your editor, approve what you wrote"),
    "reject": ("[r]eject", "it does not run; say why, and what then"),
    "respond": ("res[p]ond", "it does not run; the model is told your text"),
    "remember": ("[g]rant", "approve it, and what is like it from now on"),
    "check": ("[c]heck again", "look at the computer once more"),
    "mark_done": ("mark [d]one", "it was carried out"),
    "mark_failed": ("mark [f]ailed", "it was not; the model is told that it failed"),
    "retry": ("re[t]ry", "ask for it again, as a new call"),
    "details": ("[d]etails", "all of it as JSON: digests, hashes, rules"),
    "whole": ("[w]hole", "fetch and show all of it"),
    "extend": ("e[x]tend", "an hour more before it expires"),
    "next": ("[n]ext", "leave it open"),
    "help": ("[h]elp", "this"),
}
"""Each word that can be typed: how the prompt names it, and what it does."""
_RARE: Final = frozenset({"remember", "extend"})
"""Keys that the help names and the prompt has no room for."""


class Deciding:
    """Asks a person about one request until they decide or leave it."""

    def __init__(self, person: Person, request: HitlResponse) -> None:
        self._person = person
        self._choices = Choices(request)
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

    @property
    def _request(self) -> HitlResponse:
        return self._choices.request

    # -- what can be typed ---------------------------------------------------------------

    def _words(self) -> list[str]:
        """The possible decisions on this request now."""
        return [*self._choices.words(), "next", "help"]

    def _key(self, word: str) -> str:
        return word[0] if word in ("next", "help") else self._choices.key(word)

    def _prompt(self) -> str:
        names = [self._name(word) for word in self._words() if word not in _RARE]
        count, chosen = len(self._request.tool_calls), self._choices.chosen
        if count > 1:
            names.insert(-1, "[0] all" if chosen is not None else f"[1-{count}] one")
        about = f"Call {chosen + 1}: " if chosen is not None else f"All {count}: " if count > 1 else "Decide: "
        return f"{about}{' '.join(names)} > "

    def _name(self, word: str) -> str:
        if word == "next":
            return self._person.leave
        return "[i]nfo" if word == "details" and self._choices.is_unknown else _ABOUT[word][0]

    def _heard(self, typed: str) -> ResumeRequest | None:
        if self._choose(typed):
            return None
        words = self._words()
        found = next((word for word in words if typed in (word, self._key(word))), None)
        if found is None and typed in _LEAVE:
            found = "next"
        if found is not None:
            act = self._acts.get(found)
            return act() if act is not None else self._choices.decision(found)
        self._refuse(typed, words)
        return None

    def _refuse(self, typed: str, words: list[str]) -> None:
        said = next((word for word in _ABOUT if typed and typed in (word, self._key(word))), None)
        match self._choices.refusal(said or ""):
            case "cut":
                self._person.tell("Not all of it was shown: [w] shows the whole, then it can be approved.")
            case "several":
                self._person.tell(f"Choose one call first: 1 to {len(self._choices.calls)}.")
            case _:
                keys = ", ".join(self._key(word) for word in words)
                self._person.tell(f"Type one of {keys}; nothing was decided.")

    def _choose(self, typed: str) -> bool:
        """Whether it named a call, which is then the one that keys act on; 0: all again."""
        count = len(self._request.tool_calls)
        if count < 2 or not (typed.isascii() and typed.isdigit()) or len(typed) > 4 or int(typed) > count:
            return False
        self._choices.chosen = int(typed) - 1 if int(typed) else None
        for call in self._choices.calls if self._choices.chosen is not None else ():
            self._person.tell(f"  [{typed}/{count}] {short(call)}")
        return True

    # -- what is decided -----------------------------------------------------------------

    def _edit(self) -> ResumeRequest | None:
        (call,) = self._choices.calls
        drafts = self._person.kept
        edited = edit_call(self._person, call, drafts.begin(self._request, call))
        if edited is None:
            drafts.drop(self._request, call)
            return None
        args, reason = edited
        drafts.keep(self._request, call, args)
        return self._choices.decision("edit", reason, args=args)

    def _reject(self) -> ResumeRequest | None:
        reason = self._person.typed("Reason (may be empty): ")
        if len(reason) > MAX_REASON_CHARS:
            self._person.tell(f"That is longer than {MAX_REASON_CHARS} characters; nothing was decided.")
            return None
        # Said in each case: Enter alone tells the model, whatever a rejection means that does not say it.
        then: dict[str, OnReject] = {**THEN, "": "continue"}
        typed = "?"
        while typed not in then:
            typed = self._person.typed("Then: [c]ontinue and tell the model, [s]top it; [n]o reject (Enter: c) > ")
            typed = typed.lower()
            if typed in ("n", "no"):
                self._person.tell("Nothing was decided.")
                return None
        return self._choices.decision("reject", reason, on_reject=then[typed])

    def _respond(self) -> ResumeRequest | None:
        answer = self._person.typed("The text for the model in place of a result (empty: decide nothing): ")
        if not answer or len(answer) > MAX_ANSWER_CHARS:
            long = f"That is longer than {MAX_ANSWER_CHARS} characters; n" if answer else "N"
            self._person.tell(f"{long}othing was decided.")
            return None
        return self._choices.decision("respond", answer=answer)

    def _remember(self) -> ResumeRequest | None:
        (call,) = self._choices.calls
        spec = ask_grant(self._person, self._request, call)
        return None if spec is None else self._choices.decision("approve", remember=spec)

    # -- what is only looked at ----------------------------------------------------------

    def _details(self) -> None:
        self._person.write(details(self._request, self._choices.calls))

    def _whole(self) -> None:
        if self._person.desk is None:
            self._person.tell("It cannot be fetched here: `cc-orchestrator review` can.")
            return
        try:
            whole = self._person.desk.whole(self._request.request_id)
        except OrchestratorError as error:
            self._person.tell(str(error))
            return
        self._choices = Choices(whole)
        self._person.write(page(whole, again=True, now=self._person.now()))

    def _extend(self) -> None:
        until, now = self._request.expires_at, self._person.now()
        if until is None or self._person.desk is None:
            self._person.tell("Its time cannot be changed here: `cc-orchestrator review` can.")
            return
        seconds = an_hour_more(until, now)
        try:
            self._person.desk.extend(self._request.request_id, seconds)
        except OrchestratorError as error:
            self._person.tell(str(error))
            return
        later = now + timedelta(seconds=seconds)
        self._choices.request = self._request.model_copy(update={"expires_at": later})
        self._person.tell(f"It now expires in {time_left(later, now)}.")

    def _leave(self) -> None:
        self._left = True

    def _help(self) -> None:
        self._person.write(
            Line(f"  {self._key(word)}  {word.replace('_', ' '):<12} {_ABOUT[word][1]}") for word in self._words()
        )
        count = len(self._request.tool_calls)
        if count > 1:
            self._person.tell(f"  1 to {count} choose one call for the next key, 0 all of them.")
        self._person.tell("  Ctrl-C leaves; undecided requests stay open.")


# -- A call's arguments in the person's own editor ---------------------------------------


def edit_call(person: Person, call: RequestedCallView, begin: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """All arguments as the person wants them, and why; None: they changed nothing, or dropped it.

    ``begin``: the arguments to begin with.
    """
    args = begin
    while True:
        args = _edited(person, call.tool, args)
        differs = changed_lines(call, args)
        if not differs:
            person.tell("Unchanged: nothing was decided.")
            return None
        person.write(differs)
        answer = reason = ""
        while answer not in ("y", "yes", "e", "n", "no") or (reason and not answer.startswith("y")):
            said = person.typed(
                "Approve it like this: [y]es (y REASON: the model is told), [e]dit again, [n]o, drop it > "
            )
            answer, _, reason = said.strip().partition(" ")
            answer = answer.lower()
        if answer != "e":
            return (args, reason[:MAX_REASON_CHARS]) if answer.startswith("y") else None


def _edited(person: Person, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments after one round in the editor; what could not be read leaves them as they were."""
    name = text_argument(tool, args)
    if name is None:
        return _edited_json(person, args)
    if visible(args[name]) != args[name]:
        person.tell("It has characters that an editor may not show; the page has them as escapes.")
    try:
        text = edited_text(args[name], ending_of(name, args))
    except EditorFailed as error:
        person.tell(f"{error} The text stays as it was.")
        text = args[name]
    new = {**args, name: text}
    others = {key: value for key, value in args.items() if key != name}
    if not others or not person.agrees(f"The other arguments ({', '.join(others)}) too?"):
        return new
    return {**_edited_json(person, others), name: text}


def _edited_json(person: Person, args: dict[str, Any]) -> dict[str, Any]:
    text = args_as_json(args)
    while True:
        try:
            text = edited_text(text, ".json")
            return parsed(text)
        except EditorFailed as error:
            person.tell(str(error))
            if not person.agrees("Edit it again?"):
                person.tell("The arguments stay as they were.")
                return args


# -- Approve and remember ----------------------------------------------------------------


def ask_grant(person: Person, request: HitlResponse, call: RequestedCallView) -> GrantSpec | None:
    """The grant that the person wants, shown and agreed to; None: none."""
    if never := never_granted(call):
        person.tell(never)
        return None
    person.tell("Approve it, and from now on without asking:")
    person.write(scope_lines(call))
    scope = SCOPES.get(person.typed("Which (empty: none)? "))
    if scope is None:
        person.tell("Nothing was decided.")
        return None
    try:
        spec = spec_of(scope, **_reach(person, call, scope))
    except ValueError as error:
        person.tell(f"That cannot be granted: {error}. Nothing was decided.")
        return None
    person.write(pattern_lines(request, call, spec))
    if person.agrees("Approve this call and grant that?"):
        return spec
    person.tell("Nothing was decided.")
    return None


def _reach(person: Person, call: RequestedCallView, scope: GrantScope) -> dict[str, Any]:
    """The globs to which the person widens it; nothing by itself."""
    reach: dict[str, Any] = {}
    if scope == "call":
        return reach
    if call.grant_paths and (globs := person.typed("Other paths, as globs (empty: exactly those of this call): ")):
        reach["globs"] = globs
    if texts := texts_of(call):
        reach["any_content"] = person.agrees(f"With any text ({', '.join(texts)}), not only this one?")
    if scope == "session":
        most = MAX_SESSION_S // 3600
        reach["hours"] = person.typed(f"For how many hours (empty: {SESSION_S // 3600}, at most {most}): ")
    return reach


# -- The console of one terminal: shows a request, and takes a decision at a prompt ------


@dataclass(eq=False, repr=False)
class Console(Person):
    """Where a person decides."""

    overtaken: Callable[[], bool] = lambda: False
    """Whether what is being asked needs no answer any more; a terminal's prompt then ends."""

    @classmethod
    def of_terminal(cls) -> "Console":
        """The terminal this program runs in; without one there is nobody to ask."""
        interactive = sys.stdin.isatty() and sys.stdout.isatty()
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        console = cls(color=color, columns=columns)
        if interactive:
            console.ask = lambda prompt: prompted(prompt, console.overtaken)
        return console

    def show(self, request: HitlResponse) -> None:
        """The whole request, every call in full; the goal of its task only the first time."""
        lines = page(request, again=request.task_id in self.told, now=self.now())
        self.told.add(request.task_id)
        self.write(lines)

    def decide(self, request: HitlResponse) -> ResumeRequest | None:
        """The person's decision, bound to what was shown; None: they leave it open. Raises Overtaken, InputEnded."""
        return None if self.ask is None else Deciding(self, request).run()


@dataclass(eq=False, repr=False)
class ClientDesk:
    """What a prompt asks the server for, over the client."""

    client: Client

    def whole(self, request_id: RequestId) -> HitlResponse:
        """See Desk."""
        return request_of(self.client.request("GET", f"/v1/requests/{request_id}"))

    def extend(self, request_id: RequestId, seconds: float) -> None:
        """See Desk."""
        self.client.request("POST", f"/v1/requests/{request_id}/extend", {"seconds": seconds})
