"""The game's characters, and what people type as a computer takes it."""

import unicodedata

import pytest

from orchestrator.core.errors import InvalidRequest
from orchestrator.core.text.visible import CHARSET, as_byte, as_cells, is_typed
from orchestrator.core.wire.screen_messages import KEY_NAMES, MAX_STROKES, of_keys, of_text


def test_every_byte_is_one_character_that_has_a_width() -> None:
    """None is a control character or a mark on another, so that cells stay cells wherever they are shown."""
    assert len(CHARSET) == 256
    assert as_cells(bytes(range(256))) == CHARSET
    assert all(unicodedata.category(char)[0] not in "CM" for char in CHARSET)
    assert all(not unicodedata.combining(char) for char in CHARSET)


def test_characters_look_as_in_the_game() -> None:
    """ASCII and Latin-1 are themselves; the teletext blocks are told by their six parts, the full half by its own."""
    assert CHARSET[32:127] == "".join(map(chr, range(32, 127)))
    assert CHARSET[161:173] + CHARSET[174:] == "".join(map(chr, (*range(161, 173), *range(174, 256))))
    assert as_cells(b"\x03\x1e\x81\x95\x9f\x80\xad\xa0\x00\n") == "\u2665\u25b2\U0001fb00\u258c\U0001fb1d -   "
    assert len(set(CHARSET[1:9] + CHARSET[14:32] + CHARSET[33:128] + CHARSET[129:160])) == 8 + 18 + 95 + 31


def test_a_character_is_the_byte_that_looks_like_it() -> None:
    """A blank is a blank and a hyphen a hyphen, though other bytes look like them; what the game has not is None."""
    assert [as_byte(char) for char in " -~\xe9\xad\u2665\U0001fb00\u4e2d"] == [32, 45, 126, 233, 173, 3, 129, None]
    assert all(
        as_byte(char) == byte for byte, char in enumerate(CHARSET) if char not in " -\u00b6\u00a7" and byte != 173
    )
    typed = [byte for byte in range(256) if is_typed(byte)]
    assert typed == [*range(32, 127), *range(160, 256)]


def test_texts_are_pasted_and_single_characters_typed() -> None:
    """Line by line, with Enter between; the bytes are those of the game."""
    assert of_text("ls") == [{"paste": "ls"}]
    assert of_text("a\r\nb c\n\n") == [
        *({"char": "a"}, {"key": "enter"}, {"paste": "b c"}, {"key": "enter"}, {"key": "enter"}),
    ]
    assert of_text("gr\u00fcn") == [{"paste": "gr\xfcn"}]


def test_keys_have_names_or_are_characters() -> None:
    assert of_keys(["enter", "f12", "x", "terminate"]) == [
        *({"key": "enter"}, {"key": "f12"}, {"char": "x"}, {"terminate": True}),
    ]
    assert len(of_keys(KEY_NAMES[:MAX_STROKES])) == len(KEY_NAMES)
    assert not {"reboot", "shutdown"} & set(KEY_NAMES)


@pytest.mark.parametrize("text", ["\u4e2d", "a\tb", "\u2665", "\x7f", "\x00", "\U0001f600 hi"])
def test_what_no_keyboard_of_the_game_makes_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="has no key for"):
        of_text(text)


def test_other_keys_and_too_many_are_refused() -> None:
    """Each with a sentence; nothing of it is typed."""
    for names in (["escape"], ["reboot"], [""], ["Enter"]):
        with pytest.raises(InvalidRequest, match="There is no key"):
            of_keys(names)
    for wanted in ([], ["x"] * (MAX_STROKES + 1)):
        with pytest.raises(InvalidRequest, match="go at once"):
            of_keys(wanted)
    with pytest.raises(InvalidRequest, match="go at once"):
        of_text("\n" * (MAX_STROKES + 1))
    with pytest.raises(InvalidRequest, match="go at once"):
        of_text("")
