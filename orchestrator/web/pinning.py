"""The line that runs the installer only if it is the one that the server had when the line was made.

Theory. A computer in the game knows no sha256, and one in Lua is longer than what the game pastes (PASTE_CHARS). So the
line fetches the program that computes it, and checks that first: as a polynomial over its bytes, modulo a prime, at
secret points. The points are drawn for each line and stand nowhere else, so whoever changes the program on its way
has to guess: of the same length, 3,000 bytes at most, it passes at one point with a chance of 2^-14, and at all five
with one of 2^-70. A longer one could pass at more points, so the length is checked too. The program then
computes the sha256 of the installer, which stands in the line. The installer in its turn names the client's.
"""

import hashlib
import secrets
from typing import Final

PASTE_CHARS: Final = 512
"""The game cuts what is pasted at once."""
PRIME: Final = 2**26 - 5
"""So small that a product of two numbers below it, and a byte, is exact in Lua, whose numbers have 53 bits."""
POINTS: Final = 5
_LINE: Final = (
    'do local function g(n)return assert(http.get("{url}/"..n)).readAll()end local f,s=g"sha256.lua",g"install"'
    'for k,w in("{points}"):gmatch"(%d+) (%d+)"do local v=1 for i=1,#f do v=(v*k+f:byte(i))%(2^26-5)end '
    'f=v==w+0 and f or""end '
    'assert(#f=={size} and load(f)().hex(s)=="{sha256}","altered: not run")load(s,"=i","t",_ENV)"{code}"end'
)


def pinned(url: str, code: str, installer: str, hasher: str) -> str:
    """The line for the program ``lua`` of the game; ``hasher``: the text of ``/sha256.lua``."""
    points = (2 + secrets.randbelow(PRIME - 2) for _ in range(POINTS))
    pairs = " ".join(f"{point} {_value(hasher.encode('ascii'), point)}" for point in points)
    return _LINE.format(url=url, points=pairs, size=len(hasher), sha256=sha256_of(installer), code=code)


def sha256_of(text: str) -> str:
    """As the computer computes it."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _value(data: bytes, point: int) -> int:
    value = 1
    for byte in data:
        value = (value * point + byte) % PRIME
    return value
