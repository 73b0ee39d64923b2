"""Text in fewer bytes, for a reader of thirty lines of Lua: what occurred before is named, not repeated.

Theory. The packed text is plain ASCII. A character stands for itself, but for 28 control characters
that no source has: each begins a reference, `length` characters from `distance` back. Its control
character says how long it is, two or three signs after it say how far back. It is LZ77 with tokens
of fixed form, so that the reader needs neither bits nor tables; the writer is slow and always gives
the same answer.
"""

from collections import defaultdict
from typing import Final

BASE: Final = 94
"""The signs of a number: 33 to 126."""
FIRST_SIGN: Final = 33
NEAR: Final = {length: 14 + place for place, length in enumerate(range(4, 22))}
"""Length to the control character of a reference with two signs."""
FAR: Final = dict(zip((5, 6, 7, 8, 9, 10, 12, 15, 20, 30), (1, 2, 3, 4, 5, 6, 7, 8, 11, 12), strict=True))
"""Length to the control character of a reference with three signs."""
_LONGEST: Final = 30
_TRIED: Final = 400
"""Earlier places that are looked at for one reference."""

READER: Final = """\
local function expand(packed)
local far={5,6,7,8,9,10,12,15,nil,nil,20,30}
local out,count,at={},0,1
while at<=#packed do
local sign=packed:byte(at)
if sign>=32 or sign==10 then
count=count+1
out[count]=packed:sub(at,at)
at=at+1
else
local first,second,third=packed:byte(at+1,at+3)
local length,distance=sign-10,(first-33)*94+second-33
at=at+3
if sign<14 then
length,distance=far[sign],distance*94+third-33
at=at+1
end
for place=count+1,count+length do
out[place]=out[place-distance]
end
count=count+length
end
end
return table.concat(out)
end
"""
"""The function ``expand`` in Lua."""


def pack(text: str) -> str:
    """The text as ``expand`` reads it. Raises ValueError for a character that it cannot carry."""
    if any(not (32 <= ord(char) <= 126 or char == "\n") for char in text):
        raise ValueError("Only printable ASCII and line feeds can be packed.")
    places: defaultdict[str, list[int]] = defaultdict(list)
    out: list[str] = []
    at = 0
    while at < len(text):
        length, distance = _best(text, at, places)
        later = _best(text, at + 1, places) if length else (0, 0)
        if not length or later[0] > length + 1:
            length, distance = 1, 0
        out.append(_reference(length, distance) if distance else text[at])
        for place in range(at, at + length):
            places[text[place : place + 4]].append(place)
        at += length
    return "".join(out)


def _best(text: str, at: int, places: defaultdict[str, list[int]]) -> tuple[int, int]:
    """The longest reference that may stand at a place, as length and distance; 0: none saves anything."""
    best = (0, 0)
    for place in reversed(places.get(text[at : at + 4], [])[-_TRIED:]):
        # Most places are like this one for no longer than the best so far: one look says it.
        if best[0] and text[place + best[0]] != text[at + best[0] : at + best[0] + 1]:
            continue
        distance = at - place
        longest = min(_LONGEST, distance)
        same = 4
        while same < longest and text[place + same : place + same + 1] == text[at + same : at + same + 1] != "":
            same += 1
        if same > distance:
            continue
        lengths = NEAR if distance < BASE**2 else FAR
        fitting = max((length for length in lengths if length <= same), default=0)
        if distance < BASE**3 and fitting > best[0]:
            best = (fitting, distance)
    return best


def _reference(length: int, distance: int) -> str:
    near = distance < BASE**2
    signs = []
    for _ in range(2 if near else 3):
        distance, sign = divmod(distance, BASE)
        signs.append(chr(FIRST_SIGN + sign))
    return chr((NEAR if near else FAR)[length]) + "".join(reversed(signs))
