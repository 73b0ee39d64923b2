"""A Starlette WebSocket as the hub and the reviewers' door take it."""

from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect


class StarletteSocket:
    """A Starlette WebSocket as the hub and the reviewers' door take it."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._closed = False

    async def receive(self) -> bytes | str | None:
        """The next frame; None when the connection is over."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        data: bytes | None = message.get("bytes")
        text: str | None = message.get("text")
        return data if data is not None else text

    async def send(self, frame: bytes | str) -> None:
        """Write one frame. Raises OSError when the connection is over."""
        try:
            if isinstance(frame, bytes):
                await self._websocket.send_bytes(frame)
            else:
                await self._websocket.send_text(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error) or "the connection is over") from error

    async def close(self, code: int, reason: str) -> None:
        """Close; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with suppress(RuntimeError, WebSocketDisconnect, OSError):
                await self._websocket.close(code, reason)
