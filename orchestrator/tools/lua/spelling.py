"""Which known name was probably meant."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that differs in upper case only, or by the fewest typing errors; None: none is near.

    Near is one error in a word of three or four letters, two in a longer one; an exchange of two neighbours is one
    error. Of several equally near the first in the alphabet.
    """
    allowed = min((len(word) - 1) // 2, 2)
    best: tuple[int, str] | None = None
    for other in sorted(known):
        if abs(len(other) - len(word)) > allowed or other == word:
            continue
        errors = 0 if other.lower() == word.lower() else distance(word, other)
        if errors <= allowed and (best is None or errors < best[0]):
            best = (errors, other)
    return best[1] if best else None


def distance(one: str, other: str) -> int:
    """How many letters to add, drop, replace or exchange with the next one lead from one word to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, its in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
