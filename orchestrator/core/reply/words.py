"""The words around the objects of a reply: what in them makes a reading doubtful."""

import re
from typing import Any, Final, NoReturn

from orchestrator.core.reply.fillers import is_no_call
from orchestrator.core.reply.values import refuse

_CUT: Final = re.compile(r"<[|/]?[a-z_=|/]*\Z", re.IGNORECASE)
_INVENTED: Final = re.compile(
    r"tool[_ -]{0,3}(?:call[_ -])?(?:result|response|output)s?[*_`\"]{0,4}\s*[:=\]>]|^\W{0,9}+tool[_ ]result"
    r"|<\|?(?:tool_response|tool_result|tool_output|function_results?|function_response|observation|ipython)\b"
    r"|^[ \t*#>]{0,9}+observation\**\s*:|\[end of data\b",
    re.IGNORECASE | re.MULTILINE,
)
_TURN: Final = re.compile(
    r"^[\s*#>`\[]{0,9}+(?:(?:(?:the|expected|actual|sample|program|program's|command|function|shell|execution|console"
    r"|terminal|call|api|return) ){0,2}(?:results?|outputs?|response)|return value|stdout|stderr"
    r"|user|human|system|tool)\]?\**\s?:|<(?:output|results?|response|stdout|stderr|console|terminal)\b[^<>\n]{0,60}>|<\|(?:im_start|start_header_id|user|system)|\[INST\]|<start_of_turn>",
    re.IGNORECASE | re.MULTILINE,
)
"""What begins a turn that is not the model's to write."""
_SAID: Final = r"\b(?:Program|Command)\b[^\n]{0,200} executed successfully|\bWrote [0-9]{1,9} bytes to\b"
_BEFORE: Final = re.compile(rf"TOOL_RESULT|{_SAID}|(?i:</(?:output|results?|stdout|stderr|console|terminal)\s*>)")
_BEHIND: Final = re.compile(rf"TOOL_RESULT(?!\.?\Z)|{_SAID}")
"""How results of this project read: before a final or behind a call they were made up. Who asks for the
TOOL_RESULT with his last word has not made it up."""
_ASKED: Final = re.compile(
    r"\b(?:(?:wait|waiting) for|await|awaiting|provide(?: me(?: with)?)?|send(?: me)?) (?:(?:the|its|your|a) )?"
    r"TOOL_RESULT(?=(?: (?:before|so|to|and then|first)\b|[,.]? ?\Z))"
)
"""Nor has who says that he waits for it."""
_QUOTE: Final = re.compile(r"\"|(?<!\w)'|'(?!\w)")
"""No apostrophe inside a word."""
_PROGRAM: Final = re.compile(rf"{_QUOTE.pattern}|=")
_AROUND: Final = re.compile(
    r"(?:\s|>|</?s>|<\|[a-z_]{1,30}\|>|(?:json[5cl]?|javascript|js|text|txt|plaintext):)*", re.I
)
"""What frames a reply and says nothing: blanks, the language of a fence, the tokens of a template."""

_CALL: Final = frozenset({"tool", "tool_call", "tool_calls", "name", "function", "function_call"})
"""Keys of an object that is surely a call."""


def has_quote(words: str) -> bool:
    """Whether there is a quote in prose, such as the end of a string that ended too early leaves."""
    return _QUOTE.search(words) is not None


def like_program(words: str) -> bool:
    """Whether words between thoughts and a reply may be the rest of a program, by a quote or a ``=``."""
    return _PROGRAM.search(words) is not None


def only_frame(words: str) -> bool:
    """Whether the words say nothing: they frame a reply."""
    return _AROUND.fullmatch(words) is not None


def judge(before: str, behind: str, values: list[Any]) -> None:
    """Refuse what is cut behind the objects, and results and turns that the model made up.

    ``values`` are the objects as they were read. Raises ReplyRefused.
    """
    words = f"{before}\n{behind}"
    if _CUT.search(words[-40:]):
        incomplete()
    told = values and not _is_call(values) and _BEFORE.search(before)
    foretold = values and not _is_final(values) and _BEHIND.search(_ASKED.sub("", behind))
    if told or foretold or _INVENTED.search(words) or _TURN.search(behind):
        refuse(
            "Your reply has a tool result or a turn that you made up. Send one call, then stop: the real result "
            "comes back as TOOL_RESULT."
        )


def incomplete() -> NoReturn:
    """Refuse a reply that announces more than it has."""
    refuse("Your reply is incomplete: it ends behind a tag or a fence. Send the whole JSON object again.")


def _is_final(values: list[Any]) -> bool:
    return all(isinstance(value, dict) and "success" in value and not _calls(value) for value in values)


def _is_call(values: list[Any]) -> bool:
    return all(isinstance(value, dict) and _calls(value) for value in values)


def _calls(value: dict[str, Any]) -> bool:
    """Whether an object is surely a call: a field of that kind that is empty says nothing."""
    return any(key in _CALL and not is_no_call(one) for key, one in value.items())
