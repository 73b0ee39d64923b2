"""Keys that stand twice in one object of a JSON text, which two readers would read differently."""

import json


def doubled_key(text: str | bytes) -> str | None:
    """The first key that one object of the text names twice, at any depth; None: there is none.

    ``text`` has been read as JSON before, so that it is JSON and not too deep; bytes are UTF-8.
    """
    doubled: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        names = set[str]()
        for name, _ in pairs:
            if name in names and not doubled:
                doubled.append(name)
            names.add(name)

    # Numbers stay text: one of a million digits takes its time to become a number.
    json.loads(_text(text), object_pairs_hook=look, parse_int=str, parse_float=str, parse_constant=str)
    return doubled[0] if doubled else None


def _text(text: str | bytes) -> str:
    return text.decode("utf-8") if isinstance(text, bytes) else text
