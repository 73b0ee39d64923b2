"""The tests. They follow the rooms of ``orchestrator``; ``contract`` and ``story`` hold the promises."""

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parent
ROOT: Final = TESTS.parent
