"""One server and one token: calls over REST, a task's events, the reviewers' socket."""

import os
import random
import re
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import httpx2

from orchestrator.client.streams import (
    COMMENT,
    Back,
    Event,
    Hint,
    Lost,
    ServerRefused,
    ServerUnreachable,
    checked,
    hint_of,
    refusal_of,
    sent_in,
)
from orchestrator.core.errors import InvalidRequest, OrchestratorError
from orchestrator.runtime.program import DEFAULT_URL, ENV_PREFIX, default_data_dir

if TYPE_CHECKING:
    # Most commands are one call over REST: the items, and the reviewers' socket, cost them half of their start.

    pass
    from websockets.asyncio.client import ClientConnection

    from orchestrator.core.task.items import AgentTaskItem
    from orchestrator.core.wire.review import Snapshot

# -- What time it is at the server -------------------------------------------------------

_SAME_TIME: Final = timedelta(seconds=3)
"""Clocks that differ by less are one: a header tells whole seconds, and takes a moment to come."""


class ServerClock:
    """The time at the server, as its answers tell it: events there are shown in its time."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """The time there."""
        return datetime.now(UTC) + self._ahead

    def heard(self, response: httpx2.Response) -> None:
        """An answer came."""
        try:
            there = parsedate_to_datetime(response.headers.get("date", ""))
        except ValueError:
            return
        if there.tzinfo is not None:
            ahead = there - datetime.now(UTC)
            self._ahead = ahead if abs(ahead) > _SAME_TIME else timedelta(0)


# -- How long a server that went away is looked for, and how often -----------------------

PATIENCE_S: Final = 90.0
"""How long a follower looks for a server that went away: a restart takes seconds, an update a minute."""
_LIVED_S = 5.0
"""A connection that lasted so long counts as one; a connection that ends sooner, again and again, does not."""
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.2, 5.0


class Attempts:
    """How long a follower has been without a server, and how long it waits before the next attempt."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._began = 0.0
        self._failing_since: float | None = None
        self._delay_s = _FIRST_DELAY_S
        self._told_lost = False

    def begin(self) -> None:
        """An attempt begins."""
        self._began = time.monotonic()

    def lost(self) -> bool:
        """The connection is lost; whether nobody has been told yet."""
        told, self._told_lost = self._told_lost, True
        return not told

    def back(self) -> bool:
        """A connection stands; whether it was told to be lost."""
        told, self._told_lost = self._told_lost, False
        return told

    def heard(self) -> None:
        """Something came: the connection is one."""
        self._failing_since, self._delay_s = None, _FIRST_DELAY_S

    def delay(self, lost: OrchestratorError) -> float:
        """Seconds until the next attempt, with jitter. Raises ``lost`` when the patience is over."""
        now = time.monotonic()
        if now - self._began > _LIVED_S:
            self.heard()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since >= self._patience_s:
            raise lost
        self._delay_s = min(self._delay_s * 2, _LONGEST_DELAY_S)
        return self._delay_s * random.uniform(0.5, 1.0)


# -- One server and one token: calls over REST, a task's events, the reviewers' socket

_THERE_S: Final = 5.0
_LAST_PORT: Final = 65_535
_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
_HUNG_UP = "it ended the connection"
_SENT_AWAY: Final = 1008
"""The code with which a socket is closed whose token was revoked."""
SILENCE_S = 60.0
"""A stream that brings nothing for so long, not even a comment, is opened again: its peer may be gone."""


class Client:
    """One server, one token. Raises InvalidRequest when either cannot be one."""

    def __init__(self, url: str, token: str) -> None:
        if not (token.isascii() and token.isprintable()):
            raise InvalidRequest("The token has characters that no token has.", remedy="Copy it again, whole.")
        self.url = url.rstrip("/")
        self._token = token
        try:
            base = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise _no_address(url, error) from None
        if base.scheme not in ("http", "https") or not base.host:
            raise _no_address(url, "it has no http:// and host")
        if base.port is not None and base.port > _LAST_PORT:
            raise _no_address(url, f"there is no port {base.port}, the last is {_LAST_PORT}")
        self.shown = f"{base.scheme}://{base.netloc.decode('ascii')}"  # Without a password that is in it.
        self.verify = trusted() if base.scheme == "https" else False
        """The authorities that may say that the server is the server.

        Without TLS there are none: they take long to read.
        """
        self.clock = ServerClock()
        self._http = httpx2.Client(
            base_url=base,
            headers=self.authorization,
            timeout=70.0,
            trust_env=False,
            verify=self.verify,
            event_hooks={"response": [self.clock.heard]},
        )

    @classmethod
    def of_environment(cls, *, url: str | None = None, token: str | None = None, data_dir: Path | None = None) -> Self:
        """The server and token that were given, else those of the environment, else the defaults.

        Raises ServerUnreachable where there is no token and no server either, else InvalidRequest for the token.
        """
        where = url or os.environ.get(f"{ENV_PREFIX}URL") or DEFAULT_URL
        try:
            return cls(where, token or _token(data_dir))
        except InvalidRequest:
            cls(where, "none").must_answer()
            raise

    @property
    def authorization(self) -> Mapping[str, str]:
        """The header that says who asks."""
        return {"Authorization": f"Bearer {self._token}"}

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def must_answer(self) -> None:
        """Raises ServerUnreachable unless something listens at the address; closes the client."""
        with closing(self), self._reachable():
            self._http.get("/healthz", timeout=httpx2.Timeout(_THERE_S))

    def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call; the answer's JSON. Raises ServerRefused, ServerUnreachable."""
        with self._reachable():
            response = self._http.request(method, path, json=body, params=query or None)
        return checked(response.status_code, response.content, self.shown)

    def request_long(self, method: str, path: str, body: Any = None) -> Any:
        """One call whose answer may take minutes, such as a whole computer that is read. Raises as :meth:`request`."""
        with self._reachable():
            response = self._http.request(method, path, json=body, timeout=httpx2.Timeout(70.0, read=None))
        return checked(response.status_code, response.content, self.shown)

    def download(self, path: str, **query: Any) -> bytes:
        """The bytes of an answer that is no JSON, which may take minutes. Raises as :meth:`request`."""
        with self._reachable():
            response = self._http.request("GET", path, params=query or None, timeout=httpx2.Timeout(70.0, read=None))
        if response.status_code >= 300:
            checked(response.status_code, response.content, self.shown)
        return response.content

    def submit(
        self, body: Mapping[str, Any], *, patience_s: float = PATIENCE_S, pause: Callable[[float], object] = time.sleep
    ) -> Any:
        """Begin one task, once: where the answer is lost the server is asked again, with the same key.

        ``patience_s``: for how many seconds it is looked for then. Raises ServerRefused, and ServerUnreachable at once
        where nothing was sent.
        """
        keyed = {"idempotency_key": uuid.uuid4().hex, **body}
        attempts = Attempts(patience_s)
        lost = False
        while True:
            attempts.begin()
            try:
                return self.request("POST", "/v1/tasks", keyed)
            except ServerUnreachable as error:
                lost = lost or error.may_have_arrived
                if not lost:
                    raise
                pause(attempts.delay(error))

    def is_new(self, session_id: str) -> bool:
        """Whether a session has no task yet. Raises ServerRefused, ServerUnreachable."""
        return not self.request("GET", "/v1/tasks", session_id=session_id, limit=1)["tasks"]

    def events(self, task_id: str, after: int = 0) -> Iterator["AgentTaskItem"]:
        """The task's items after a version, then each as it comes, until the task has ended."""
        for event in self._stream(task_id, after, read_timeout_s=None):
            if event is not None and not isinstance(event, Hint):
                yield event

    def follow(
        self,
        task_id: str,
        after: int = 0,
        *,
        patience_s: float = PATIENCE_S,
        pause: Callable[[float], object] = time.sleep,
        leaving: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """As :meth:`events` with the notifications, over connections that drop: each opens again at the last version.

        ``pause`` waits between two attempts; ``leaving`` is asked with everything that comes, comments too.
        Ends with the item that ends the task. Raises ServerRefused, and ServerUnreachable after
        ``patience_s`` seconds without a connection.
        """
        attempts = Attempts(patience_s)
        while not leaving():
            attempts.begin()
            for event in self._until_lost(task_id, after):
                if isinstance(event, ServerUnreachable):
                    if attempts.lost():
                        yield Lost()
                    pause(attempts.delay(event))
                    break
                if attempts.back():
                    yield Back()
                if leaving():
                    return
                if event is None:
                    continue
                attempts.heard()
                yield event
                if not isinstance(event, Hint):
                    after = event.version
                    if event.fact.kind == "task_ended":
                        return

    def _until_lost(self, task_id: str, after: int) -> Iterator["AgentTaskItem | Hint | ServerUnreachable | None"]:
        """One connection's events, and at last how it was lost; nothing at last where it was only silent."""
        try:
            yield from self._stream(task_id, after, read_timeout_s=SILENCE_S)
        except _Silent:
            return
        except ServerUnreachable as error:
            yield error
        except ServerRefused as error:
            if error.status < 500:
                raise
            yield self.unreachable(error.message)
        else:
            yield self.unreachable(_HUNG_UP)

    def _stream(
        self, task_id: str, after: int, *, read_timeout_s: float | None
    ) -> Iterator["AgentTaskItem | Hint | None"]:
        """One connection's events; None once it stands and for comments. Raises _Silent after ``read_timeout_s``."""
        from orchestrator.core.task.items import decode_item

        headers = {"Last-Event-ID": str(after)}
        timeout = httpx2.Timeout(20.0, read=read_timeout_s)
        with (
            self._reachable(),
            self._http.stream("GET", f"/v1/tasks/{task_id}/events", headers=headers, timeout=timeout) as response,
        ):
            if response.status_code != 200:
                checked(response.status_code, response.read(), self.shown)
            yield None
            try:
                for kind, data in sent_in(response.iter_bytes()):
                    hint = hint_of(kind, data)
                    yield None if kind == COMMENT else decode_item(data) if hint is None else hint
            except httpx2.ReadTimeout:
                raise _Silent from None

    def screen(
        self, computer: str, of: str, *, patience_s: float = PATIENCE_S, pause: Callable[[float], object] = time.sleep
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """What a computer's screen shows, as kind and data of each event, over connections that drop, without end.

        ``patience_s``: how long a server that went away is looked for. Raises ServerRefused, ServerUnreachable.
        """
        attempts = Attempts(patience_s)
        while True:
            attempts.begin()
            try:
                for kind, data in self._screen(computer, of):
                    attempts.heard()
                    yield kind, data
                raise self.unreachable(_HUNG_UP)
            except _Silent:
                continue
            except ServerUnreachable as error:
                pause(attempts.delay(error))

    def _screen(self, computer: str, of: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """One connection's events. Raises _Silent."""
        path, timeout = f"/v1/computers/{computer}/screen", httpx2.Timeout(20.0, read=SILENCE_S)
        with (
            self._reachable(),
            self._http.stream("GET", path, params={"of": of}, timeout=timeout) as response,
        ):
            if response.status_code != 200:
                checked(response.status_code, response.read(), self.shown)
            try:
                for kind, data in sent_in(response.iter_bytes()):
                    if kind != COMMENT:
                        yield kind, checked(200, data.encode(), self.shown)
            except httpx2.ReadTimeout:
                raise _Silent from None

    def waiting(self) -> "Snapshot":
        """All requests and questions that wait for the person of this token.

        Raises ServerRefused, ServerUnreachable.
        """
        from websockets.exceptions import InvalidStatus, WebSocketException
        from websockets.sync.client import connect

        from orchestrator.core.wire.review import Snapshot, decode_to_reviewer

        try:
            with connect(self._reviewer_url(), open_timeout=20, proxy=None, max_size=None, **self._offer()) as socket:
                message = decode_to_reviewer(str(socket.recv(timeout=20)))
        except InvalidStatus as error:
            raise refusal_of(error, self.shown) from None
        except (OSError, WebSocketException) as error:
            raise self.unreachable(error) from None
        if not isinstance(message, Snapshot):
            raise self.unreachable("it began with no snapshot")
        return message

    @asynccontextmanager
    async def reviewer(self) -> AsyncIterator["ClientConnection"]:
        """The reviewers' socket. Raises ServerRefused, ServerUnreachable, also when the server hangs up."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

        try:
            connection = await connect(self._reviewer_url(), max_size=None, proxy=None, **self._offer())
        except InvalidStatus as error:
            raise refusal_of(error, self.shown) from None
        except (OSError, WebSocketException) as error:
            raise self.unreachable(error) from None
        async with connection:
            try:
                yield connection
            except ConnectionClosed as error:
                if error.rcvd is not None and error.rcvd.code == _SENT_AWAY:
                    said = {"code": "unauthenticated", "message": f"The server ended it: {error.rcvd.reason}."}
                    raise ServerRefused(401, said) from None
                raise self.unreachable(error) from None

    def hung_up(self) -> ServerUnreachable:
        """The sentence for a connection that the server ended, as when it stops."""
        return self.unreachable(_HUNG_UP)

    def _reviewer_url(self) -> str:
        return "ws" + self.url.removeprefix("http") + "/reviewer"

    def _offer(self) -> dict[str, Any]:
        """The facts in a reviewer's handshake."""
        from orchestrator.core.wire.review import REVIEWER_SUBPROTOCOL, REVIEWER_SUBPROTOCOL_1_1

        protocols = [REVIEWER_SUBPROTOCOL_1_1, REVIEWER_SUBPROTOCOL]
        return {"additional_headers": self.authorization, "subprotocols": protocols, "compression": None}

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.RemoteProtocolError, httpx2.ReadError):
            unreachable = self.unreachable(_HUNG_UP)
            unreachable.may_have_arrived = True
            raise unreachable from None
        except httpx2.ReadTimeout:
            # It took the connection and the call: something is there, and is busy.
            slow = ServerUnreachable(
                f"The orchestrator at {self.shown} has not answered in time. It may be busy, and do it still.",
                remedy="Ask again in a while; `cc-orchestrator doctor` looks at what it is busy with.",
            )
            slow.may_have_arrived = True
            raise slow from None
        except httpx2.RequestError as error:
            unreachable = self.unreachable(error)
            unreachable.may_have_arrived = not isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
            raise unreachable from None

    def unreachable(self, error: Exception | str) -> ServerUnreachable:
        """The sentence for a server that does not answer, and why."""
        return ServerUnreachable(
            f"No orchestrator answers at {self.shown}: {_ERRNO.sub('', str(error)).rstrip('.')}.",
            remedy="Start one with `cc-orchestrator serve`, or name another with --url.",
        )


class _Silent(Exception):
    """A stream brought nothing for a long time."""


def _token(data_dir: Path | None) -> str:
    token = os.environ.get(f"{ENV_PREFIX}TOKEN", "").strip()
    if token:
        return token
    where = data_dir or Path(os.environ.get(f"{ENV_PREFIX}DATA_DIR") or default_data_dir(os.environ))
    with suppress(OSError, UnicodeDecodeError):
        if token := (where / "admin.token").read_text("utf-8").strip():
            return token
    raise InvalidRequest(
        f"There is no token: {ENV_PREFIX}TOKEN is not set and {where / 'admin.token'} cannot be read, or is empty.",
        remedy="Set it, name the server's --data-dir, or start one with `cc-orchestrator serve`.",
    )


def trusted() -> ssl.SSLContext | bool:
    """The authorities that this host trusts, or those that OpenSSL's own variables name, such as a school's."""
    named = any(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return ssl.create_default_context() if named else True


def _no_address(url: str, why: object) -> InvalidRequest:
    return InvalidRequest(
        f"{url!r} is not an address of a server: {why}.", remedy="Give one like http://127.0.0.1:8765."
    )
