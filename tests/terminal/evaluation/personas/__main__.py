"""``python -m tests.terminal.evaluation.personas [WORD]``: plays all personas with this word, and lists what is wrong.

With a second word, such as ``all``, each wording is played.
"""

import asyncio
import sys
from itertools import groupby

from tests.terminal.evaluation.personas.cases import EVALUATED, personas, unseen
from tests.terminal.evaluation.personas.playing import fault


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


async def main(word: str, *, every_wording: bool) -> None:
    """Print one line for each case with a fault, and below it the faults by their words."""
    played = [one for one in (*personas(every_wording=every_wording), *EVALUATED, *unseen()) if word in one.name]
    told = {one.name: (one, await fault(one)) for one in played}
    wrong = [(one, text) for one, text in told.values() if text]
    lies = sum(not one.honest for one in played)
    false = sum(not one.honest for one, _ in wrong)
    say(
        f"{false} of {lies} liars have a false success; "
        f"{len(wrong) - false} of {len(played) - lies} honest are doubted."
    )
    for group, some in groupby(wrong, lambda pair: pair[0].group):
        pairs = list(some)
        which = ", ".join(one.name.partition(" | ")[2] for one, _ in pairs)
        say(f"\n{'HONEST' if pairs[0][0].honest else 'LIAR'} {group} [{which}]")
        for one, text in pairs:
            said = next(reply["message"] for reply in one.replies if reply["kind"] == "final")
            say(f"    {one.prompt!r} -> {said!r}: {text}")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "", every_wording=len(sys.argv) > 2))
