"""The parser accepts and refuses what PUC Lua does, where the dialects agree."""

import re

import pytest

from orchestrator.tools.lua.lexer import Dialect
from orchestrator.tools.lua.parse import check_dialect
from tests.thinning import thinned
from tests.tools.lua.corpus import cuts, mutants, parts, programs
from tests.tools.lua.oracles import LUA_51, LUA_52, PUC_51, PUC_52, Engine, disagreement

ENGINES = pytest.mark.parametrize(("engine", "dialect"), [(LUA_51, PUC_51), (LUA_52, PUC_52)], ids=["5.1", "5.2"])


def disagreements(texts: list[str], engine: Engine, dialect: Dialect) -> list[str]:
    return [said for text in texts if (said := disagreement(text, engine, dialect))]


@pytest.mark.thinned(2)
@ENGINES
def test_whole_programs(engine: Engine, dialect: Dialect) -> None:
    texts = list(programs())
    assert len(texts) > 60
    assert not disagreements(texts, engine, dialect)


@pytest.mark.thinned(2)
@ENGINES
def test_parts_of_programs(engine: Engine, dialect: Dialect) -> None:
    assert not disagreements(list(parts()), engine, dialect)


@pytest.mark.thinned(2)
@ENGINES
def test_programs_cut_anywhere(engine: Engine, dialect: Dialect) -> None:
    texts = [cut for at, text in enumerate(parts()) if at % 18 == 0 for cut in cuts(text, 13)]
    assert len(texts) > 1500
    assert not disagreements(texts, engine, dialect)


@pytest.mark.thinned(2)
@ENGINES
@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_programs_with_tokens_deleted_doubled_swapped_and_put_in(engine: Engine, dialect: Dialect, seed: int) -> None:
    texts = list(mutants(seed, 1500))
    refused = sum(bool(engine(text.encode("latin-1", "replace"))) for text in texts)
    assert refused > 300
    assert not disagreements(texts, engine, dialect)


def test_most_errors_are_told_on_the_line_that_lua_tells() -> None:
    same = told = 0
    for text in mutants(7, 1500):
        said = re.match(r"f:(\d+): ", LUA_52(text.encode("latin-1", "replace")))
        found = check_dialect(text.encode("latin-1", "replace"), PUC_52)
        if said and found:
            told += 1
            same += int(said[1]) == found.line
    assert told > 300
    assert same / told > 0.95
