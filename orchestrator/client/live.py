"""The client of the endpoints inside an event loop: a call or stream ends as soon as its caller stops waiting."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, Self, TypeAlias

import httpx2

from orchestrator.client import (
    COMMENT,
    SILENCE_S,
    Attempts,
    Back,
    Client,
    Event,
    Lost,
    ServerRefused,
    ServerSent,
    ServerUnreachable,
    checked,
    hint_of,
)
from orchestrator.core.task.items import AgentTaskItem, decode_item

_FAULT: Final = 500
"""An HTTP status from here on is the server's own trouble, or that of something before it, and may pass."""
_AT_ONCE: Final = 40
"""Connections: the streams that are looked at, and a few calls beside them."""

Told: TypeAlias = "tuple[str, str] | Lost | Back"
"""One event of a stream, its kind and its data; or that the connection went, or came."""


class Live:
    """One server and token, asked from an event loop. Use it as a context."""

    def __init__(self, client: Client) -> None:
        self.client = client
        limits = httpx2.Limits(max_connections=_AT_ONCE)
        self._http = httpx2.AsyncClient(
            base_url=client.url,
            headers=dict(client.authorization),
            timeout=httpx2.Timeout(20.0, read=70.0),
            trust_env=False,
            verify=client.verify,
            limits=limits,
            event_hooks={"response": [self._answered]},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def _answered(self, response: httpx2.Response) -> None:
        self.client.clock.heard(response)

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call; the answer's JSON. Raises ServerRefused, ServerUnreachable."""
        async with self._reachable():
            response = await self._http.request(method, path, json=body, params=query or None)
        return checked(response.status_code, response.content, self.client.shown)

    async def ask_long(self, method: str, path: str, body: Any = None) -> Any:
        """As :meth:`ask`, of what may take minutes, such as a whole computer that is read."""
        timeout = httpx2.Timeout(70.0, read=None)
        async with self._reachable():
            response = await self._http.request(method, path, json=body, timeout=timeout)
        return checked(response.status_code, response.content, self.client.shown)

    async def hear(
        self, path: str, *, headers: Callable[[], dict[str, str]] = dict, **query: Any
    ) -> AsyncGenerator[Told, None]:
        """The events of a stream, over connections that drop, for as long as somebody listens.

        ``headers``: those of the next connection. Raises ServerRefused where the server will not tell.
        """
        attempts = Attempts(float("inf"))
        while True:
            attempts.begin()
            lost: ServerUnreachable | ServerRefused = self.client.hung_up()
            try:
                async with aclosing(self._stream(path, headers(), query)) as events:
                    async for one in events:
                        if attempts.back():
                            yield Back()
                        attempts.heard()
                        if one is not None:
                            yield one
            except (ServerUnreachable, ServerRefused) as error:
                if isinstance(error, ServerRefused) and error.status < _FAULT:
                    raise
                lost = error
            if attempts.lost():
                yield Lost()
            await asyncio.sleep(attempts.delay(lost))

    async def follow(self, task_id: str) -> AsyncGenerator[Event, None]:
        """The task's items and notifications, over connections that drop, until its last item. Raises ServerRefused."""
        after = 0
        told = self.hear(f"/v1/tasks/{task_id}/events", headers=lambda: {"Last-Event-ID": str(after)})
        async with aclosing(told):
            async for one in told:
                if isinstance(one, Lost | Back):
                    yield one
                    continue
                event = hint_of(*one) or decode_item(one[1])
                yield event
                if isinstance(event, AgentTaskItem):
                    after = event.version
                    if event.fact.kind == "task_ended":
                        return

    async def _stream(
        self, path: str, headers: dict[str, str], query: dict[str, Any]
    ) -> AsyncGenerator[tuple[str, str] | None, None]:
        """One connection's events; None once it stands and for comments."""
        timeout = httpx2.Timeout(20.0, read=SILENCE_S)
        async with (
            self._reachable(),
            self._http.stream("GET", path, headers=headers, params=query or None, timeout=timeout) as response,
        ):
            if response.status_code != httpx2.codes.OK:
                checked(response.status_code, await response.aread(), self.client.shown)
            yield None
            sent = ServerSent()
            async for chunk in response.aiter_bytes():
                for kind, data in sent.feed(chunk):
                    yield None if kind == COMMENT else (kind, data)

    @asynccontextmanager
    async def _reachable(self) -> AsyncIterator[None]:
        try:
            yield
        except (httpx2.RemoteProtocolError, httpx2.ReadError):
            raise self.client.hung_up() from None
        except httpx2.RequestError as error:
            raise self.client.unreachable(error) from None


def as_object(data: str) -> dict[str, Any]:
    """The data of an event; empty where it is not an object."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
