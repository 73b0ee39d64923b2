"""Cases of which every run of the checks takes some, and the long proofs the rest."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], step: int) -> list[Any]:
    """The values of a ``parametrize`` with one argument: all but each ``step``-th are deep."""
    return [one if place % step == 0 else pytest.param(one, marks=pytest.mark.deep) for place, one in enumerate(cases)]


def thin(items: Iterable[pytest.Item]) -> None:
    """Of a test that is marked ``thinned(step)``, make all cases but each ``step``-th deep.

    Cases that are deep by themselves are not counted.
    """
    places = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("thinned")
        if mark is None or item.get_closest_marker("deep") is not None:
            continue
        test = item.nodeid.partition("[")[0]
        if places[test] % mark.args[0]:
            item.add_marker(pytest.mark.deep)
        places[test] += 1
