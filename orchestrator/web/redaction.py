"""What leaves the endpoints leaves without secrets: the journal keeps them, since what runs needs them (promise V4)."""

import asyncio
import json
from typing import Any, Final

from orchestrator.core.text.redact import redact
from orchestrator.runtime.logs import SALT

_AT_ONCE: Final = 20_000
"""Characters that are looked through on the event loop: a few milliseconds at the worst."""


def part_without_secrets(value: Any) -> Any:
    """A small part of what is being written, as JSON; a secret that is cut by its end is not seen."""
    return redact(value, salt=SALT)


async def without_secrets(value: Any) -> Any:
    """JSON without its secrets; what is long is looked through away from the event loop."""
    if len(json.dumps(value)) < _AT_ONCE:
        return redact(value, salt=SALT)
    return await asyncio.to_thread(redact, value, salt=SALT)
