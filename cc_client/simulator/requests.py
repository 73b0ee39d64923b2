"""HTTP requests as the mod gives them to Lua: each begins at once, and an event tells how it went."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from cc_client.simulator.rules import TIMED_OUT, NetError, Rules, friendly, read_http_url

if TYPE_CHECKING:
    import httpx2

MAX_RUNNING: Final = 16
"""Requests of one computer at once (CoreConfig.httpMaxRequests)."""
MAX_WAITING: Final = 512
MAX_REDIRECTS: Final = 16
MAX_UPLOAD_BYTES: Final = 4 * 1024 * 1024
MAX_DOWNLOAD_BYTES: Final = 16 * 1024 * 1024
_FORM: Final = "application/x-www-form-urlencoded; charset=utf-8"


@dataclass(frozen=True)
class Wanted:
    """What a program asks for."""

    url: bytes
    method: str
    headers: dict[str, str]
    body: bytes | None
    redirect: bool
    binary: bool
    timeout_s: float


@dataclass(frozen=True)
class Answer:
    """What a server answered, whatever its status."""

    status: int
    reason: str
    headers: bytes
    body: bytes


@dataclass
class Requests:
    """The requests of one boot.

    Args:
        queue_event: Queues an event of the computer.
        rules: What is permitted.
        user_agent: What the computer calls itself.
    """

    queue_event: Callable[..., None]
    rules: Rules
    user_agent: str
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_RUNNING))

    def check(self, url: bytes) -> tuple[bool, ...] | tuple[bool, bytes]:
        """``http.checkURLAsync``: whether the URL is well formed; the event says the rest."""
        try:
            read_http_url(url)
        except NetError as error:
            return (False, str(error).encode())
        self._begin(self._check(url))
        return (True,)

    def request(self, wanted: Wanted) -> tuple[bool | None, ...] | tuple[bool | None, bytes]:
        """Begin; False and a sentence when the URL is wrong, None and one for what the mod throws."""
        try:
            read_http_url(wanted.url)
        except NetError as error:
            return (False, str(error).encode())
        if len(self._tasks) >= MAX_RUNNING + MAX_WAITING:
            return (None, b"Too many ongoing HTTP requests")
        self._begin(self._perform(wanted))
        return (True,)

    async def close_all(self) -> None:
        """The boot has ended: nobody waits for an answer any more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, url: bytes) -> None:
        parts = read_http_url(url)
        try:
            await self.rules.address(parts, 443 if parts.scheme == "https" else 80)
        except NetError as error:
            self.queue_event(b"http_check", url, False, str(error).encode())
        else:
            self.queue_event(b"http_check", url, True)

    async def _perform(self, wanted: Wanted) -> None:
        import httpx2

        try:
            async with self._slots:
                answer = await self._follow(wanted)
        except httpx2.TimeoutException:
            self.queue_event(b"http_failure", wanted.url, TIMED_OUT.encode())
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, NetError, ValueError) as error:
            self.queue_event(b"http_failure", wanted.url, friendly(error).encode())
        else:
            fine = 200 <= answer.status < 400
            name = b"\0http_success" if fine else b"\0http_failure"
            reason = answer.reason.encode("latin-1", "replace")
            told = (answer.status, reason, answer.headers, answer.body, wanted.binary)
            self.queue_event(name, wanted.url, reason, *told)

    async def _follow(self, wanted: Wanted) -> Answer:
        """Ask, and ask where the answer sends us."""
        import httpx2

        url, method = wanted.url.decode("latin-1"), wanted.method
        timeout = httpx2.Timeout(wanted.timeout_s or None)
        async with httpx2.AsyncClient(trust_env=False, timeout=timeout) as client:
            for hop in range(MAX_REDIRECTS + 1):
                parts = read_http_url(url.encode("latin-1"))
                await self.rules.address(parts, 443 if parts.scheme == "https" else 80)
                request = self._request(wanted, method, url)
                response = await client.send(request, stream=True)
                try:
                    goal = _redirect(response, url) if wanted.redirect and hop < MAX_REDIRECTS else None
                    if goal is None:
                        return await _read(response)
                finally:
                    await response.aclose()
                method = "GET" if response.status_code == HTTPStatus.SEE_OTHER else method
                url = goal
        raise NetError("Could not connect")

    def _request(self, wanted: Wanted, method: str, url: str) -> "httpx2.Request":
        import httpx2

        headers = httpx2.Headers({"Accept-Charset": "UTF-8", "User-Agent": self.user_agent})
        if wanted.body is not None:
            headers["Content-Type"] = _FORM
        headers.update(wanted.headers)
        headers["Connection"] = "close"
        size = sum(len(name) + len(value) + 1 for name, value in headers.items()) + len(wanted.body or b"")
        if size > MAX_UPLOAD_BYTES:
            raise NetError("Request body is too large")
        # Built by hand, as a client's own adds headers that the mod does not send.
        return httpx2.Request(method, url, headers=headers, content=wanted.body)


def _redirect(response: "httpx2.Response", url: str) -> str | None:
    status = response.status_code
    location = response.headers.get("location")
    if location is None or not 300 <= status <= 307 or status in {304, 306}:
        return None
    goal = urljoin(url, location)
    return None if goal == url else goal


async def _read(response: "httpx2.Response") -> Answer:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_DOWNLOAD_BYTES:
            raise NetError("Response is too large")
    headers: dict[bytes, bytes] = {}
    for name, value in response.headers.raw:
        headers[name] = headers[name] + b"," + value if name in headers else value
    text = b"".join(name + b"\0" + value + b"\0" for name, value in headers.items())
    return Answer(response.status_code, response.reason_phrase, text, bytes(body))
