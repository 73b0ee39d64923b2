"""The bundler: what it leaves out changes nothing, what it packs comes back, and each run gives the same."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa.lua52 import LuaRuntime

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
SOURCES = sorted((ROOT / "cc_client" / "lua").glob("*.lua")) + sorted((ROOT / "tests" / "lua").glob("*.lua"))


def script(name: str) -> ModuleType:
    """A module of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


lua_source: Any = script("lua_source")
lua_packing: Any = script("lua_packing")
bundle_client: Any = script("bundle_client")


@pytest.fixture(scope="module")
def compiled() -> Any:
    """A function that compiles Lua to what it compiles to."""
    lua = LuaRuntime(encoding=None)
    return lua.eval(b"function(text) return string.dump(assert(load(text, '=m'))) end")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_shortened_source_compiles_to_the_same_bytes(path: Path, compiled: Any) -> None:
    """Instructions, constants, names and the number of each line: all of it is the same."""
    text = path.read_text("ascii")
    assert "".join(token.text for token in lua_source.tokens(text)) == text
    short = lua_source.shorten(text)
    assert len(short) < len(text)
    assert compiled(short.encode()) == compiled(text.encode())


@pytest.mark.parametrize(
    ("source", "short"),
    [
        ("x = 1 -- one\n", "x=1\n"),
        ("-- nothing\n\n  x = 1\n", "\n\nx=1\n"),
        ("x = '-- no comment' --[[ a\ncomment ]] y = 2", "x='-- no comment'\ny=2\n"),
        ("x = [==[ -- ]] ]==] .. 'a\\'b'", "x=[==[ -- ]] ]==]..'a\\'b'\n"),
        ("return a - -b, 1 .. 2, a [ [[k]] ]", "return a- -b,1 .. 2,a[ [[k]]]\n"),
        ("local function f() end", "local function f()end\n"),
        ("a = b -- c\n(d)()", "a=b\n(d)()\n"),
        ("x = 0x1F y = 1e-3 z = .5", "x=0x1F y=1e-3 z=.5\n"),
    ],
)
def test_what_is_left_out(source: str, short: str, compiled: Any) -> None:
    """Comments and blanks go where they are no more than that; the lines stay."""
    assert lua_source.shorten(source) == short
    assert compiled(short.encode()) == compiled(source.encode())


@pytest.mark.parametrize("source", ["x = $", "x = [[ never closed", "x = 'open\n'"])
def test_what_is_no_lua_is_refused(source: str) -> None:
    """The bundler stops with a sentence."""
    with pytest.raises(lua_source.LuaError):
        lua_source.shorten(source)


PRINTABLE = st.text(st.sampled_from("\n ab()=xyz.\"'[]~!") | st.characters(min_codepoint=32, max_codepoint=126))


@given(st.lists(PRINTABLE, max_size=20).map(lambda parts: "".join(parts * 3)))
def test_what_is_packed_comes_back(text: str) -> None:
    """The reader in Lua gives back every text."""
    lua = LuaRuntime(encoding=None)
    expand = lua.execute((lua_packing.READER + "return expand").encode())
    assert expand(lua_packing.pack(text).encode()) == text.encode()


@pytest.mark.deep
def test_distant_and_long_repetitions_come_back() -> None:
    """Both forms of a reference are used and read: near ones, and those from over 8836 characters back."""
    phrase = "local function something(with, a, long, name) return nil end\n"
    text = phrase + "".join(f"{number:x} " for number in range(30_000)) + phrase * 3
    packed = lua_packing.pack(text)
    assert any(chr(sign) in packed for sign in lua_packing.FAR.values())
    assert any(chr(sign) in packed for sign in lua_packing.NEAR.values())
    lua = LuaRuntime(encoding=None)
    expand = lua.execute((lua_packing.READER + "return expand").encode())
    assert expand(packed.encode()) == text.encode()


@pytest.mark.parametrize("text", ["\t", "\r\n", "\x00", "é"])
def test_what_cannot_be_packed_is_refused(text: str) -> None:
    """Nothing is lost in silence."""
    with pytest.raises(ValueError, match="printable ASCII"):
        lua_packing.pack(text)


@pytest.mark.deep
def test_the_bundles_are_the_same_each_time_and_small() -> None:
    """The client fits a disk twice; each file has the modules that it needs and no others."""
    built = bundle_client.build()
    assert built == bundle_client.build()
    assert len(built["client.lua"]) <= bundle_client.MAX_BUNDLE_BYTES == 100_000
    assert set(bundle_client.modules("boot", {})) == {"boot", "disk", "slots", "trial"}
    assert not {"boot", "cc", "install", "startups"} & set(bundle_client.modules("main", {}))
