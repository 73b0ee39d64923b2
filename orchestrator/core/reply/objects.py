"""The objects of a text and the text around them.

The text is passed once, from left to right. Thoughts and programs in code blocks of their own are
skipped. A brace that begins like JSON is read as JSON, and a fault in it refuses the reply:
a broken object beside a whole one leaves two readings. Other braces are prose, such as a Lua table, and
so is a table of plain strings before the reply, since no JSON looks like it. They must be in balance,
and behind the reply no quote may be among them, since ``"}}}`` behind a complete object is what
remains when a quote in a program ended its string too early. For the same reason a tag that ends thoughts
is believed only where no string of a broken reply can hold it.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from orchestrator.core.errors import ReplyRefused
from orchestrator.core.reply import fences
from orchestrator.core.reply import fences as tags
from orchestrator.core.reply import scanner as values
from orchestrator.core.reply import surroundings as standing
from orchestrator.core.reply import surroundings as words
from orchestrator.core.reply.scanner import Scanner, place, refuse
from orchestrator.core.reply.shapes import CALL_AND_FINAL, SAME_TWICE, Tools, native
from orchestrator.core.reply.surroundings import calls_of, no_echo

# -- The objects of a text and the text around them -----------------------------------

_NAMED: Final = r"(?:=\s*|\s+name\s*=\s*)[\"']?\s*(?P<named>[\w.:/-]{1,100})\s*[\"']?\s*>"
_BEGINS: Final = r"\s*(?:[\"'“”\\]|[A-Za-z_$][\w$]*\s*:|//|/\*|\#\s|\Z)"
"""The text behind the brace of an object."""
_EVENT: Final = re.compile(
    rf"{fences.TAG}"
    rf"|(?P<begun>{fences.MARKS})|(?P<ended>{fences.ENDS})"
    r"|^[ \t>]*(?P<ticks>`{3,}|~{3,})[ \t]*(?P<tag>[A-Za-z0-9_+.#-]*)"
    rf"|(?P<object>\{{(?={_BEGINS}))|(?P<list>\[(?=\s*\{{))|(?P<braces>(?:\}}|\{{(?!{_BEGINS}))+)"
    rf"|<(?:function|invoke){_NAMED}|(?P<called></?tool_call>)",
    re.IGNORECASE | re.MULTILINE,
)
_FOREIGN: Final = re.compile(r"[\[{\s]+['A-Za-z_$]")
"""How an object begins that is not JSON: its first key has single quotes or none."""
_MAX_FOUND: Final = 16
"""A text with more objects is not a reply, whatever it says: one said twice, or a batch in tags, has a few."""


@dataclass(frozen=True)
class Found:
    """One object or list of a text; ``mark`` is ``call`` when a tag says that it is one."""

    value: Any
    mark: Literal["", "call"] = ""


class Finder:
    """One pass over one text: ``thought`` and ``code`` tell whether such was skipped."""

    def __init__(self, text: str) -> None:
        self.thought = False
        self.code = False
        self._text = text
        self._scanner = Scanner(text)
        self._events = 0
        self._found: list[Found] = []
        self._drafts: list[Found] = []
        self._before: list[str] = []
        self._behind: list[str] = []
        self._forgiven = False
        self._read_to = 0
        self._level = 0
        self._first_brace: int | None = None
        """Where the first brace is behind the reply."""
        self._begun = 0
        """The place behind the last thoughts that never began."""
        self._doubt: Literal["", "program", "words"] = ""
        """A text that makes it doubtful that thoughts ended, if it is between them and the next object."""
        self._between: list[str] = []
        self._due: Literal["", "call", "block", "args"] = ""
        """The part that was announced and has not come yet: a call, the content of a block, or arguments."""
        self._name = ""

    def run(self) -> list[Found]:
        """What there is, in order. Raises ReplyRefused when something makes every reading doubtful."""
        at = 0
        while (event := _EVENT.search(self._text, at)) is not None:
            self._events += 1
            self._prose(self._text[at : event.start()])
            at = self._step(event)
        self._prose(self._text[at:])
        self._judge()
        return self._found

    @property
    def steps(self) -> int:
        """How much work it was, for the proof that time is linear."""
        return 1 + self._events + self._scanner.steps

    @property
    def words(self) -> str:
        """The text that is neither an object nor skipped."""
        return "\n".join(self._before + self._behind)

    def _prose(self, piece: str) -> None:
        (self._behind if self._found else self._before).append(piece)
        if self._doubt:
            self._between.append(piece)

    def _step(self, event: re.Match[str]) -> int:
        """Where to read on. Text that cannot be read may be a thought; a later end of thoughts shows that."""
        try:
            return self._event(event)
        except ReplyRefused:
            # Asked once, so that time stays linear: an object that fails behind that end fails for good.
            asked = self._forgiven or event.group("named") or event.group("begun")
            tag = None if asked else fences.stray_end(self._text, event.start())
            if tag is None or self._in_string(event.start(), tag.begin):
                raise
        self._forgiven = self.thought = True
        self._begin_again(tag.end, "words")
        return tag.end

    def _in_string(self, at: int, tag: int) -> bool:
        """Whether a tag may be in a string of the object that failed at ``at``, rather than behind it."""
        if self._due == "block" and fences.ends_early(self._text, at, tag):
            return False
        scanner = self._scanner
        before = self._text[self._begun : tag]
        return scanner.in_string or scanner.reached > tag or fences.odd_quotes(before, scanner.quote)

    def _event(self, event: re.Match[str]) -> int:
        if event.lastgroup == "braces":
            return self._brace(event)
        at = event.start()
        if event.group("ticks"):
            return self._fence(event)
        if event.group("object") or event.group("list"):
            return self._read(at)
        if event.group("named"):
            return self._tagged(event)
        if event.group("called"):
            return self._called(event)
        self.thought = True
        if event.group("over") or event.group("past") or event.group("ended"):
            inline = not fences.alone(self._text, at, event.end())
            self._begin_again(event.end(), "program" if inline else self._doubted(self._begun, at))
            return event.end()
        if event.group("empty"):
            return event.end()
        end = fences.end_of_thoughts(self._text, at)
        thought = self._text[event.end() : end.begin]
        sure = fences.alone(self._text, end.begin, end.end) and fences.drafts_are_closed(thought)
        self._doubt, self._between = "" if sure else self._doubted(event.end(), end.end), []
        return end.end

    def _doubted(self, begin: int, end: int) -> Literal["", "program"]:
        """The reason to doubt the end of these thoughts: it may be in a string of a reply drafted in them."""
        return "program" if fences.may_hold_draft(self._text[begin:end]) else ""

    def _begin_again(self, at: int, doubt: Literal["", "program", "words"]) -> None:
        """Thoughts end that never began: the template wrote their beginning, so all up to here was thought."""
        self._drafts += self._found
        self._found = []
        self._before, self._behind, self._between = [], [], []
        self._level, self._due, self._first_brace = 0, "", None
        self._begun, self._doubt = at, doubt

    def _believed(self, at: int) -> None:
        """Refuse an object if it, or the text between it and the end of thoughts, says that they did not end.

        In a string of a draft, as a program that was written there, it would have no double quotes.
        """
        between = "".join(self._between)
        framed = self._doubt != "words" or words.only_frame(between)
        if self._doubt and (not framed or words.like_program(between) or _FOREIGN.match(self._text, at)):
            self._no_end_of_thoughts()
        self._doubt, self._between = "", []

    def _no_end_of_thoughts(self) -> NoReturn:
        refuse("Where the thoughts of your reply end is in doubt. Send only the JSON object, without thoughts.")

    def _fence(self, event: re.Match[str]) -> int:
        tag = event.group("tag")
        if self._due in ("", "block"):
            self._due = "block" if tag else ""
        self._prose(f"\n{tag}:" if tag else "")  # a block of output says so by its language
        if event.start() < self._read_to:
            return event.end()
        behind, self._read_to, whole = fences.past_code(self._text, event.group("ticks"), tag, event.end())
        if behind != event.end():
            self.code = True
            if self._found and (not whole or fences.hides_rest(self._text[event.end() : behind])):
                refuse(
                    "Behind the JSON object of your reply there is a code block that may be the rest of a string in "
                    r"it. Send only one JSON object; inside a string write \" for a quote."
                )
            self._due = "" if self._due == "block" else self._due
        return behind

    def _brace(self, event: re.Match[str]) -> int:
        at, end = event.span()
        braces = event.group()
        if not self._found:
            self._level += 0 if standing.in_ticks(self._text, at, end) else braces.count("{") - braces.count("}")
            return end
        self._first_brace = at if self._first_brace is None else self._first_brace
        for brace in braces:
            self._level += 1 if brace == "{" else -1
            if self._level < 0:
                self._astray()
        if braces[0] == "{" and standing.begins_line(self._text, at):  # on a line of its own it is an object
            self._astray()
        return end

    def _astray(self) -> NoReturn:
        refuse(
            f"Behind the JSON object of your reply there is a brace, at {place(self._text, self._first_brace or 0)}. "
            r"Send only one JSON object; inside a string write \" for a quote, or use single quotes or [[ ]] in Lua."
        )

    def _called(self, event: re.Match[str]) -> int:
        if self._due == "call":
            refuse("Your reply has a tool_call tag without a call in it. Send the call as one JSON object.")
        self._due = "" if event.group("called").startswith("</") else "call"
        return event.end()

    def _tagged(self, event: re.Match[str]) -> int:
        self._believed(event.start())
        call = tags.call_in_tags(self._text, event.end())
        self._due = "args"
        self._name = event.group("named")
        if call.args is not None:
            tags.no_other_end(self._text, call.end)
            self._add(call.args)
        return call.end

    def _read(self, at: int) -> int:
        table = at if self._found or self._due else standing.past_strings(self._text, at)
        if table != at:
            self._prose(self._text[at:table])
            return table
        if self._level:
            refuse(
                f"The JSON object of your reply stands inside other braces, at {place(self._text, at)}. Send one JSON "
                "object and nothing else."
            )
        self._believed(at)
        led = standing.led(self._text, at)
        value, end = self._scanner.value(at)
        behind = end if led else standing.past_surplus(self._text, at, end, value, tagged=bool(self._due))
        if behind == end:
            standing.followed(self._text, end)
        end = behind
        if led:
            standing.whole(value)
        if self._due == "args":
            tags.no_other_end(self._text, tags.past_end(self._text, end))
        self._add(value)
        return end

    def _add(self, value: Any) -> None:
        if len(self._found) == _MAX_FOUND:
            refuse("Your reply has many JSON objects. Send only one JSON object, with 2 to 4 calls in its tool_calls.")
        if self._due == "args":
            value = {"tool": self._name, "args": value}
        self._found.append(Found(value, "call" if self._due in ("call", "args") else ""))
        self._due = ""

    def _judge(self) -> None:
        """Refuse what the words around the objects make doubtful."""
        before, behind = "\n".join(self._before), "\n".join(self._behind)
        if self._due:
            words.incomplete()
        if self._first_brace is not None and (self._level or words.has_quote(behind)):
            self._astray()
        if self._forgiven and not words.only_frame(behind):
            self._no_end_of_thoughts()
        words.judge(before, behind, [one.value for one in self._found])
        if any(draft != one for draft in self._drafts for one in self._found):
            refuse("The JSON object in your thoughts is another than the one behind them. Send only one JSON object.")


# -- The one reply of a text, spelled as ours and not yet validated ----------------------

_ESCAPED: Final = re.compile(r"\{\s*\\(?:\"|n\s*\\?)")
"""How an object begins that was escaped as if it stood in a string."""

_PARENS: Final = re.compile(
    r"(?:<\|python_tag\|>)?\s*(?P<room>(?:functions?|tools?|default_api)\.)?(?P<name>[A-Za-z0-9_-]{1,60})\(\s*(?=\{)"
)
"""A call as in a program, with an object as what it gets."""
_PARENS_END: Final = re.compile(r"(?:\s*[}\]])*\s*\)\s*;?\s*(?:<\|[a-z_]{1,30}\|>)?\Z")


def reply_in(text: str, tools: Tools) -> dict[str, Any]:
    """The one reply of a text.

    ``text`` is stripped and not empty. Raises ReplyRefused when there is none, or more than one.
    """
    if values.has_surrogates(text):
        values.half_character()
    try:
        value = values.strict(text)
    except ValueError:
        if _ESCAPED.match(text) and text.endswith("}"):
            reply = native(_unescaped(f'"{text}"'), tools, load)
        elif (call := _PARENS.match(text)) and (call.group("room") or call.group("name") in tools):
            reply = native(_parens(text, call), tools, load)
        else:
            reply = _chosen(Finder(text), tools)
    else:
        wrapped = isinstance(value, str) and value.lstrip().startswith("{")
        reply = native(load(value) if wrapped else value, tools, load)
    no_echo(reply)
    return reply


def load(text: str) -> Any:
    """The one value of a text that has nothing else, repaired where nothing is lost.

    Closing brackets too many behind it are passed over. Raises ReplyRefused when it is incomplete, wrong, or
    followed by more.
    """
    return _value(text, surplus=True)


def _value(text: str, *, surplus: bool = False) -> Any:
    try:
        return values.strict(text)
    except ValueError:
        scanner = Scanner(text)
        value, end = scanner.value(0)
        if scanner.gap(end) != len(text) and not (surplus and standing.SURPLUS_ONLY.match(text, end)):
            refuse("A string in your reply has more than one JSON object in it. Send the object itself, not as a text.")
        return value


def _unescaped(literal: str) -> Any:
    try:
        text = json.loads(literal, strict=False)
    except ValueError:
        refuse('Your reply is JSON with its quotes escaped. Send the JSON object itself, with plain " quotes.')
    if values.has_surrogates(text):
        values.half_character()
    return _value(text)


def _parens(text: str, call: re.Match[str]) -> dict[str, Any]:
    """The call that is the whole text, from its name to the parenthesis that closes."""
    args, end = Scanner(text).value(call.end())
    if _PARENS_END.match(text, end) is None:
        refuse(
            "Your reply is a call with more than one JSON object in it, or without its end. Send the call as one JSON "
            "object, with all its arguments in args."
        )
    return {"tool": call.group("name"), "args": args}


def _chosen(finder: Finder, tools: Tools) -> dict[str, Any]:
    found = finder.run()
    if not found:
        _nothing(finder)
    if len(found) > 1 and all(one.mark for one in found):
        return _batch(found, tools)
    if len(found) == 1:
        return native(found[0].value, tools, load)
    replies = _replies(found, tools)
    if len({_asked(reply) for reply in replies}) > 1:
        kinds = {reply["kind"] for reply in replies}
        refuse(
            CALL_AND_FINAL
            if len(kinds) > 1
            else "Your reply has several JSON objects that differ. Send one: several calls go into its tool_calls."
        )
    return replies[0]


def _replies(found: list[Found], tools: Tools) -> list[dict[str, Any]]:
    """The replies among several objects; the other objects only repeat the arguments of a call of theirs."""
    replies, others = [], []
    for one in found:
        try:
            replies.append(native(one.value, tools, load))
        except ReplyRefused:
            others.append(one.value)
    said = {_text(call.get("args")) for reply in replies for call in calls_of(reply) if isinstance(call, dict)}
    if any(_text(value) not in said for value in others):
        # It is not passed over: it may be a result that was made up, or what should have been the reply.
        refuse("Your reply has several JSON objects, and one of them is no reply. Send only one JSON object.")
    return replies


def _batch(found: list[Found], tools: Tools) -> dict[str, Any]:
    """Calls in tags of their own, side by side, are one batch."""
    replies = [native(one.value, tools, load) for one in found]
    if any(reply["kind"] == "final" for reply in replies):
        refuse(CALL_AND_FINAL)
    if any(reply.keys() != {"kind", "tool_call"} for reply in replies):
        refuse("Your reply has several requests. Send one JSON object with all the calls in its tool_calls.")
    calls = [reply["tool_call"] for reply in replies]
    if len({_text(call) for call in calls}) < len(calls):
        refuse(SAME_TWICE)
    return {"kind": "tool", "tool_calls": calls}


def _asked(reply: dict[str, Any]) -> str:
    """What a reply asks for, without its explanation: other words of it do not make another request."""
    return _text({key: one for key, one in reply.items() if key != "explanation" or not isinstance(one, str)})


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _nothing(finder: Finder) -> NoReturn:
    if finder.thought and not finder.code and not finder.words.strip():
        refuse("Your reply has only thoughts. Send the JSON object behind them.")
    refuse(
        "Your reply has no JSON object. Send one, such as a request for a tool; a program goes into the content of a "
        "call, prose into explanation or message."
    )
