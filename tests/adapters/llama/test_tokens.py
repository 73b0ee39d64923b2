"""The estimates of tokens beside what the tokenizers of common models make of the same texts."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from orchestrator.core.model_view.prompt import estimate
from tests import ROOT
from tests.adapters.llama import DEEP
from tests.adapters.llama.running import Engines

pytestmark = DEEP

FAMILIES: Final = ("qwen2", "llama-bpe", "llama-spm", "deepseek-coder", "starcoder", "gemma-4")
FREE: Final = 0.05
"""The share of a window in which nobody plans to put anything (``core.model_view.window``)."""
PIECE: Final = 3000
"""Characters of one text: a result, or a program."""


def pieces(pattern: str, most: int = 12) -> list[str]:
    """The beginnings of files."""
    found = sorted(ROOT.glob(pattern))[:most]
    assert found
    return [path.read_text("utf-8")[:PIECE] for path in found]


def lua() -> list[str]:
    """Programs as people write them."""
    return pieces("cc_client/lua/**/*.lua") + pieces("tests/lua/*.lua")


def prose() -> list[str]:
    """What a task says, and what a person writes."""
    return pieces("docs/*.md")


def data() -> list[str]:
    """JSON as a model replies with it, and as tools tell it."""
    return pieces("tests/golden/**/*.json")


def figures() -> Iterator[str]:
    """What programs print of chests and places."""
    rows = [(number * 7919 % 1000, number * 104_729 % 100_000, number / 7) for number in range(120)]
    yield "\n".join(f"{one} {two} {three:.2f}" for one, two, three in rows)
    yield " ".join(str(two) for _, two, _ in rows)
    yield json.dumps([list(row) for row in rows])
    yield "\n".join(f"slot {one}: {two} x minecraft:stone" for one, two, _ in rows)
    yield "".join(str(two) for _, two, _ in rows)


TEXTS: Final[dict[str, Callable[[], Iterator[str] | list[str]]]] = {
    "Lua": lua,
    "prose": prose,
    "data": data,
    "figures": figures,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", TEXTS)
async def test_an_estimate_is_rather_too_many_than_too_few(engines: Engines, family: str, kind: str) -> None:
    """All texts of a kind together have no more tokens than were estimated, and at least half of them.

    No single one is out by more than what a window keeps free.
    """
    engine = engines.of(family, 512)
    texts = list(TEXTS[kind]())
    counted, estimated = [await engine.tokens(text) for text in texts], [estimate(text) for text in texts]
    assert sum(estimated) / 2 <= sum(counted) <= sum(estimated)
    shares = [tokens / guess for tokens, guess in zip(counted, estimated, strict=True)]
    assert max(shares) <= 1 / (1 - FREE), max(zip(shares, texts, strict=True))


async def test_a_blank_before_a_figure_is_counted_where_it_is_a_token(engines: Engines) -> None:
    """Tokenizers of Qwen's kind join it to no figure: without it, rows of figures came out an eighth too short."""
    text = next(figures())
    tokens = await engines.of("qwen2", 512).tokens(text)
    blanks = len(re.findall(" (?=[0-9])", text))
    assert estimate(text) - blanks < tokens <= estimate(text)
