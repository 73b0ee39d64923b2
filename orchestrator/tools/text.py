"""Bytes of a computer as text and back, and how much of a text the model is told."""

from typing import Final

from orchestrator.tools.deps import Encoding

MAX_RESULT_CHARS: Final = 12_000
"""What of an output the model is told: about 4,000 tokens, head and tail."""


def decode_text(data: bytes) -> str:
    """Bytes of a computer as text: UTF-8 when valid, else latin-1."""
    return data.decode(encoding_of(data))


def encoding_of(data: bytes) -> Encoding:
    """How the bytes of a file are read as text: UTF-8 when valid, else latin-1."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def fits_latin1(text: str) -> bool:
    """Whether latin-1 has every character of the text."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def wire_word(word: str) -> str:
    """A word of an argument list as a byte string: each byte of its UTF-8 as one character."""
    return word.encode().decode("latin-1")


def shown_name(name: str) -> str:
    """A byte string of a computer, such as a file's name, as text."""
    try:
        return name.encode("latin-1").decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        return name


def shown_part(part: str) -> str:
    """A byte string that was cut out of a file, as text: a character that was cut through is left out."""
    start = next((at for at in range(min(4, len(part))) if not "\x80" <= part[at] <= "\xbf"), 0)
    for end in range(len(part), max(len(part) - 4, 0), -1):
        half = part[end:]
        if half and half[0] < "\xc0":
            continue
        try:
            return part[start:end].encode("latin-1").decode()
        except (UnicodeDecodeError, UnicodeEncodeError):
            continue
    return part


def text_lines(text: str) -> list[str]:
    """The lines with their line feeds; only the last one may have none."""
    *ended, last = text.split("\n")
    lines = [f"{line}\n" for line in ended]
    return [*lines, last] if last else lines


def capped(text: str) -> str:
    """Text as the model is told it: head and tail, with the cut visible."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def capped_lines(text: str, first: int = 1) -> str:
    """Text of a file as the model is told it; the cut says which lines it hides, so that they can be asked for.

    ``first`` is the number of the text's first line in the file.
    """
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    start, end = first + text[:half].count("\n"), first + text[:-half].count("\n")
    cut = f"{len(text) - 2 * half} characters left out, in lines {start}-{end}"
    return f"{text[:half]}\n[… {cut}: read them with start_line and max_lines …]\n{text[-half:]}"
