"""Bundle the Lua client into one file that a computer can download.

Each module of cc_client/lua becomes a function in a table of its own `require`, so the bundle
needs nothing of the game's and defines no globals. Lines that are only comment are left out: the
disk of a computer is small. The result depends on the sources alone.
`--check` writes nothing and fails when the committed bundle differs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "cc_client" / "lua"
BUNDLE: Final = ROOT / "cc_client" / "client.lua"
MAX_BUNDLE_BYTES: Final = 125_000
"""An eighth of a computer's disk (1,000,000 bytes), and a floppy still takes it."""

HEAD: Final = """\
-- The cc-orchestrator client in one file. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one.
local preload, loaded = {}, {}

local function require(name)
  if loaded[name] == nil then
    loaded[name] = preload[name]()
  end
  return loaded[name]
end
"""


def code_lines(source: str) -> str:
    """The source without blank lines and without lines that are only a comment."""
    lines = (line.rstrip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("--"))


def bundle(sources: Path = SOURCES) -> str:
    """The bundle as text: every module in order of its name, then the call of ``main``."""
    parts = [HEAD]
    for path in sorted(sources.glob("*.lua")):
        source = code_lines(path.read_text(encoding="ascii"))
        parts.append(f'\npreload["{path.stem}"] = function()\n{source}\nend\n')
    parts.append('\nreturn require("main").run(...)\n')
    return "".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the bundle; 0 when it is (now) right, else 1."""
    parser = argparse.ArgumentParser(description="Bundle the Lua client into cc_client/client.lua.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the bundle is not up to date")
    arguments = parser.parse_args(argv)
    text = bundle()
    if len(text) > MAX_BUNDLE_BYTES:
        sys.stderr.write(f"The bundle has {len(text)} bytes, over {MAX_BUNDLE_BYTES}. Shorten the modules.\n")
        return 1
    if arguments.check:
        if BUNDLE.exists() and BUNDLE.read_text(encoding="ascii") == text:
            return 0
        sys.stderr.write("cc_client/client.lua is out of date. Run: python3 scripts/bundle_client.py\n")
        return 1
    BUNDLE.write_text(text, encoding="ascii", newline="\n")
    sys.stdout.write(f"cc_client/client.lua: {len(text)} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
