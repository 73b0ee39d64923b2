"""The schema of a reply becomes a grammar in the engine, whichever tools there are."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from pydantic import BaseModel

from orchestrator.adapters.models.ollama_errors import refused
from orchestrator.core.policy import BUILT_IN_CATALOG
from orchestrator.core.reply.response import TOOL_ARGS
from orchestrator.core.reply.schema import reply_schema
from tests.adapters.llama import DEEP
from tests.adapters.llama.running import Engine
from tests.core.test_schema import Digging, Nothing

pytestmark = DEEP

Tools = Mapping[str, type[BaseModel]]


def those(**wanted: Any) -> Tools:
    """The tools whose line in the catalog says so."""
    return {
        name: TOOL_ARGS[name]
        for name, spec in BUILT_IN_CATALOG.items()
        if not spec.planned and all(getattr(spec, key) == value for key, value in wanted.items())
    }


SUBSETS: Final[dict[str, Tools]] = {
    "all": TOOL_ARGS,
    "what a task with --read-only has": those(recovery="pure"),
    "what changes by state": those(recovery="by_state"),
    "what is done once": those(recovery="once"),
    "the computer's": those(plugin="cc"),
    "this host's": those(plugin="local"),
    "people's": those(plugin="people"),
    "somebody else's": {"dig": Digging, "rest": Nothing},
    "all and somebody else's": {**TOOL_ARGS, "dig": Digging, "rest": Nothing},
}


async def answer(engine: Engine, schema: Mapping[str, Any]) -> tuple[int, str]:
    """What the engine says to a request with this schema: its status and its words."""
    response = await engine.asked("/completion", prompt="x", json_schema=schema, n_predict=1)
    return response.status_code, response.text


@pytest.mark.parametrize("name", SUBSETS)
async def test_the_schema_of_a_reply_converts(name: str, babbler: Engine) -> None:
    status, said = await answer(babbler, reply_schema(SUBSETS[name]))
    assert status == 200, said


@pytest.mark.parametrize("tool", TOOL_ARGS)
async def test_the_schema_of_every_tool_alone_converts(tool: str, babbler: Engine) -> None:
    status, said = await answer(babbler, reply_schema({tool: TOOL_ARGS[tool]}))
    assert status == 200, said


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "#/$defs/nowhere"}], ids=["type", "reference"])
async def test_a_schema_that_does_not_convert_is_an_error_that_is_known(schema: Any, babbler: Engine) -> None:
    """So that what converts above means something; and the engine's words lead to the sentence for them."""
    status, said = await answer(babbler, schema)
    assert status == 400
    told = refused(status, {"error": said}, model="random", url="there")
    assert "cannot hold the model to the form of a reply" in told.message
