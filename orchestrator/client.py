"""The client of the doors: REST with a token, a task's events, the reviewers' socket."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.core.items import AgentTaskItem, decode_item
from orchestrator.core.wire import REVIEWER_SUBPROTOCOL


class ServerRefused(OrchestratorError):
    """The server answered with an error; ``status`` is its HTTP status."""

    code = "server_refused"

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "The server refused.")), remedy=str(error.get("remedy", "")))
        self.status = status
        self.reason = str(error.get("code", ""))


class ServerUnreachable(OrchestratorError):
    """Nothing answers at the server's address."""

    code = "server_unreachable"


class Client:
    """One server, one token. Raises InvalidRequest when either cannot be one."""

    def __init__(self, url: str, token: str) -> None:
        if not (token.isascii() and token.isprintable()):
            raise InvalidRequest("The token has characters that no token has.", remedy="Copy it again, whole.")
        self.url = url.rstrip("/")
        self._token = token
        try:
            headers = {"Authorization": f"Bearer {token}"}
            self._http = httpx2.Client(base_url=self.url, headers=headers, timeout=70.0, trust_env=False)
        except httpx2.InvalidURL as error:
            raise _no_address(url, error) from None
        if self._http.base_url.scheme not in ("http", "https") or not self._http.base_url.host:
            raise _no_address(url, "it has no http:// and host")

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call; the answer's JSON. Raises ServerRefused, ServerUnreachable."""
        with self._reachable():
            response = self._http.request(method, path, json=body, params=query or None)
        return _checked(response.status_code, response.content)

    def events(self, task_id: str, after: int = 0) -> Iterator[AgentTaskItem]:
        """The task's items after a version, then each as it comes, until the task has ended."""
        headers = {"Last-Event-ID": str(after)}
        with (
            self._reachable(),
            self._http.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers, timeout=None) as response,
        ):
            if response.status_code != 200:
                _checked(response.status_code, response.read())
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield decode_item(line.removeprefix("data: "))

    @asynccontextmanager
    async def reviewer(self) -> AsyncIterator[ClientConnection]:
        """The reviewers' socket. Raises ServerRefused, ServerUnreachable, also when the server hangs up."""
        url = "ws" + self.url.removeprefix("http") + "/reviewer"
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            connection = await connect(
                url,
                additional_headers=headers,
                subprotocols=[REVIEWER_SUBPROTOCOL],  # type: ignore[list-item]  # a NewType of str
                compression=None,
                max_size=None,
                proxy=None,
            )
        except InvalidStatus as error:
            _checked(error.response.status_code, bytes(error.response.body or b""))
            raise
        except (OSError, WebSocketException) as error:
            raise self._unreachable(error) from None
        async with connection:
            try:
                yield connection
            except ConnectionClosed as error:
                raise self._unreachable(error) from None

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"No orchestrator answers at {self.url}: {str(error).rstrip('.')}.",
            remedy="Start one with `cc-orchestrator serve`, or name another with --url.",
        )


def _no_address(url: str, why: object) -> InvalidRequest:
    return InvalidRequest(f"{url!r} is no address of a server: {why}.", remedy="Give one like http://127.0.0.1:8765.")


def _checked(status: int, content: bytes) -> Any:
    try:
        value = json.loads(content or b"{}")
    except ValueError:
        value = {
            "error": {"message": f"The server answered {status} without JSON.", "remedy": "Is it cc-orchestrator?"}
        }
    if status >= 400 or (isinstance(value, dict) and set(value) == {"error"}):
        error = value.get("error") if isinstance(value, dict) else None
        raise ServerRefused(status, error if isinstance(error, dict) else {})
    return value
