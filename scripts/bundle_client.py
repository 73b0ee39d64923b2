"""Bundle the Lua of a computer: the client, the programs beside it, and the installer, each in one file.

A bundle has a `require` of its own for the modules of cc_client/lua that its program needs, so it needs
nothing of the game's and defines no globals. Comments and needless blanks are left out, because the
disk of a computer is small; names stay, and so do the numbers of the lines (lua_source.py). The client
is packed besides (lua_packing.py): each of its modules is compiled under its own name when it is first
required, so a traceback says `link.lua:57` and means that line of cc_client/lua/link.lua. The installer
carries the programs that it writes. The module sha256 is a file of its own besides.
The results depend on the sources alone.
`--check` writes nothing and fails when a committed file differs.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lua_packing import READER, pack
from lua_source import required, shorten

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "cc_client" / "lua"
BUILT: Final = ROOT / "cc_client"
MAX_BUNDLE_BYTES: Final = 100_000
"""A tenth of a computer's disk (1,000,000 bytes): two of them, while one replaces the other, are a fifth."""
CARRIED: Final = "installer_programs"
"""The module that holds the texts of the programs that the installer writes."""

HEAD: Final = """\
-- %s in one file. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one.
local preload,loaded={},{}
local function require(name)
if loaded[name]==nil then
loaded[name]=preload[name]()
end
return loaded[name]
end
"""
VERSION: Final = re.compile(r'^main\.VERSION = "([^"]+)"$', re.MULTILINE)
CLIENT: Final = """\
-- The cc-orchestrator client %s in one file, packed. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one. It expands to those files, line by line, without their comments.
local packed=[%s[
%s]%s]
%slocal text,sources,at=expand(packed),{},1
for name,size in ("%s"):gmatch("(%%S+) (%%d+)") do
sources[name]=text:sub(at,at+size-1)
at=at+size
end
local loaded,env={},assert(load(sources.kept,"=kept.lua","t",_ENV))()(_ENV)
function env.require(name)
if loaded[name]==nil then
loaded[name]=assert(load(sources[name],"="..name..".lua","t",env))()
end
return loaded[name]
end
local require=env.require
return require("main").run(...)
"""
HASHER: Final = "-- SHA-256, for the line of `cc-orchestrator pair --pin`. Made by scripts/bundle_client.py.\n"
TITLES: Final = {
    "boot": "What starts the cc-orchestrator client",
    "cc": "The command of the cc-orchestrator client",
    "install": "The installer of the cc-orchestrator client",
}


def modules(entry: str, known: dict[str, str]) -> dict[str, str]:
    """The sources of a program's modules by name, itself included. Raises FileNotFoundError."""
    found: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = known[name] if name in known else (SOURCES / f"{name}.lua").read_text(encoding="ascii")
            waiting += required(found[name])
    return found


def bundle(entry: str, known: dict[str, str] | None = None) -> str:
    """A program as one text: its modules in order of their names, then the call of its ``run``."""
    parts = [HEAD % TITLES[entry]]
    for name, source in sorted(modules(entry, known or {}).items()):
        parts.append(f'preload["{name}"]=function()\n{shorten(source)}end\n')
    parts.append(f'return require("{entry}").run(...)\n')
    return "".join(parts)


def client() -> str:
    """The client as one packed text."""
    sources = sorted({**modules("main", {}), **modules("kept", {})}.items())
    short = {name: shorten(source) for name, source in sources}
    packed = pack("".join(short.values()))
    level = "="
    while f"]{level}]" in packed:
        level += "="
    sizes = " ".join(f"{name} {len(source)}" for name, source in short.items())
    version = VERSION.findall(dict(sources)["main"])[0]
    return CLIENT % (version, level, packed, level, READER, sizes)


def build() -> dict[str, str]:
    """Every file by name."""
    boot, cc = bundle("boot"), bundle("cc")
    assert "]==]" not in boot + cc, "a program cannot be carried between these brackets"
    carried = f"return{{boot=[==[\n{boot}]==],cc=[==[\n{cc}]==]}}\n"
    return {
        "client.lua": client(),
        "boot.lua": boot,
        "cc.lua": cc,
        "install.lua": bundle("install", {CARRIED: carried}),
        "sha256.lua": HASHER + shorten((SOURCES / "sha256.lua").read_text(encoding="ascii")).lstrip("\n"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the files; 0 when they are (now) right, else 1."""
    parser = argparse.ArgumentParser(description="Bundle the Lua client, its programs and its installer.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    arguments = parser.parse_args(argv)
    built = build()
    size = len(built["client.lua"])
    if size > MAX_BUNDLE_BYTES:
        sys.stderr.write(f"The client has {size} bytes, over {MAX_BUNDLE_BYTES}. Shorten the modules.\n")
        return 1
    for name, text in built.items():
        path = BUILT / name
        if path.exists() and path.read_text(encoding="ascii") == text:
            continue
        if arguments.check:
            sys.stderr.write(f"cc_client/{name} is out of date. Run: python3 scripts/bundle_client.py\n")
            return 1
        path.write_text(text, encoding="ascii", newline="\n")
    sys.stdout.write("".join(f"cc_client/{name}: {len(text)} bytes\n" for name, text in built.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
