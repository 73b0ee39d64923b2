"""What we claim of the engine below Ollama, tried on the engine itself.

``scripts/engine.py`` builds it, models with random weights run in it, and the server of
``tests.harness.ollama_server`` stands in front of it where Ollama would: each request for a reply goes to the engine.
"""

from typing import Final

import pytest

DEEP: Final = [pytest.mark.deep, pytest.mark.timeout(2400)]
"""Of every test here; the time is that of the first one on a new machine, which builds the engine."""
