"""The console's page: ``/`` and the files under ``/console/``, which came with the package.

Theory. What may be handed out is a list made once of what is there, so that no path can lead out of it:
a path that is not on it is no file. The headers forbid the page whatever it does not need; above all no
script runs that is not one of these files, and no text becomes one.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.errors import NotFound
from orchestrator.web.base import Room

_PAGE: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    "": "text/plain; charset=utf-8",
}
"""What a file may be, by the end of its name; a licence has none. Others are not handed out."""
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # What a console has no use for, so that nothing that got into it has either; the clipboard is for the copy button.
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), "
    "serial=(), usb=(), clipboard-read=(), clipboard-write=(self)",
    # Asked for each time, and answered with 304: a new version of the server has its own page at once.
    "Cache-Control": "no-cache",
}
_ELSEWHERE: Final[Mapping[str, str]] = {
    "page": "/",
    "doors": "/v1/openapi.json",
    "health": "/healthz",
    "installer": "/install",
}
"""Where things are, for who is no browser."""


@dataclass(frozen=True)
class ConsoleFile:
    """A file of the page."""

    content: bytes
    media: str
    etag: str


class PageDoors(Room):
    """``/`` and ``/console/``."""

    async def page(self, request: Request) -> Response:
        """``GET /``: the page for a browser; for others where things are."""
        self.browsers.place.check_host(request)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(dict(_ELSEWHERE), headers={"Vary": "Accept", "Cache-Control": "no-cache"})
        answer = _handed_out(request, console_files()[_PAGE])
        answer.headers["Vary"] = "Accept"
        return answer

    async def console_file(self, request: Request) -> Response:
        """``GET /console/{path}``: what the page is made of."""
        self.browsers.place.check_host(request)
        found = console_files().get(request.path_params["path"])
        if found is None:
            raise NotFound("The console has no such file.", remedy="Load the page anew: GET /.")
        return _handed_out(request, found)


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """All files of the page, by their paths below ``/console/``."""
    return dict(_found(files("orchestrator.web").joinpath("console"), ""))


def _found(directory: Traversable, prefix: str) -> Iterator[tuple[str, ConsoleFile]]:
    for one in directory.iterdir():
        # A link could lead anywhere.
        if one.name.startswith((".", "_")) or (isinstance(one, Path) and one.is_symlink()):
            continue
        if one.is_dir():
            yield from _found(one, f"{prefix}{one.name}/")
        elif (media := _TYPES.get(PurePath(one.name).suffix.lower())) is not None:
            content = one.read_bytes()
            yield prefix + one.name, ConsoleFile(content, media, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _handed_out(request: Request, file: ConsoleFile) -> Response:
    headers = {**_HEADERS, "ETag": file.etag}
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if known & {file.etag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media, headers=headers)
