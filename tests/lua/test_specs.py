"""Runs the Lua specs of the client: in lupa always, in a stock Lua 5.2 where there is one."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from lupa.lua52 import LuaRuntime

from tests import ROOT

SPECS = sorted(path.name.removesuffix("_spec.lua") for path in (ROOT / "tests" / "lua").glob("*_spec.lua"))
COSTLY = ("installing", "methods", "programs", "session", "sha256", "swap", "transfers")
"""They hash much or cut everything everywhere: most of the time that all of them take."""
PARTS = 5
"""All of them at once take longer than a test may where several runs share a processor."""
LUA = shutil.which("lua5.2")

RUN = b"""
local name = ...
package.path = "cc_client/lua/?.lua;tests/lua/?.lua;" .. package.path
local spec = require("spec")
dofile("tests/lua/" .. name .. "_spec.lua")
return spec.passed, table.concat(spec.failures, "\\n")
"""


@pytest.mark.parametrize("name", SPECS)
def test_spec_in_lupa(name: str) -> None:
    lua = LuaRuntime(encoding=None, register_eval=False, unpack_returned_tuples=True)
    with contextlib.chdir(ROOT):
        passed, failures = lua.execute(RUN, name.encode())
    assert failures == b"", failures.decode(errors="replace")
    assert passed > 0


def in_stock_lua(specs: Sequence[str], **more: str) -> None:
    """All of these hold in a Lua that no Python surrounds."""
    assert LUA is not None
    command, environment = [LUA, "tests/lua/run.lua", *specs], {**os.environ, **more}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 failed" in done.stdout


@pytest.mark.skipif(LUA is None, reason="lua5.2 is not installed")
def test_specs_in_stock_lua() -> None:
    """All but the costly ones, which lupa, the same Lua 5.2 in this process, runs each time; in depth these too."""
    in_stock_lua([name for name in SPECS if name not in COSTLY])


@pytest.mark.deep
@pytest.mark.skipif(LUA is None, reason="lua5.2 is not installed")
@pytest.mark.parametrize("part", range(PARTS))
def test_all_specs_in_stock_lua(part: int) -> None:
    in_stock_lua(SPECS[part::PARTS], CC_LONG="1")


def test_every_spec_is_in_the_list_of_the_stock_runner() -> None:
    listed = (ROOT / "tests" / "lua" / "run.lua").read_text(encoding="ascii")
    assert all(f'"{name}"' in listed for name in SPECS)
