"""A real NATS server on loopback, until the pipe closes."""

from typing import Any

from bench.worker import answer_all, run
from tests.nats_servers import NatsServer


async def main() -> None:
    """Say where it is, whatever is asked."""
    with NatsServer() as server:

        async def handle(request: dict[str, Any]) -> dict[str, Any]:
            del request
            return {"url": server.url}

        await answer_all(handle)


if __name__ == "__main__":
    run(main)
