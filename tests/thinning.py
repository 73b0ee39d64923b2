"""Cases of which every run of the checks takes some, and the long proofs the rest."""

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], step: int) -> list[Any]:
    """The values of a ``parametrize`` with one argument: all but each ``step``-th are deep."""
    return [one if place % step == 0 else pytest.param(one, marks=pytest.mark.deep) for place, one in enumerate(cases)]
