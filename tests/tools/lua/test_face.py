"""The package's face: small, and loaded when it is used."""

import subprocess
import sys

import pytest

from orchestrator.tools import lua


def test_importing_the_package_loads_no_module_of_it() -> None:
    package = "orchestrator.tools.lua"
    code = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_of_the_face_is_there() -> None:
    assert all(getattr(lua, name).__module__ for name in lua.__all__)


def test_no_other_name_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'parse_lua'"):
        _ = lua.parse_lua
