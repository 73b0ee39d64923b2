"""The console's page: ``/`` and the files under ``/console/``, which came with the package.

Theory. What may be handed out is a list made once of what is there, so that no path can lead out of it:
a path that is not on it is no file. The headers forbid the page whatever it does not need; above all no
script runs that is not one of these files, and no text becomes one.

A slow line is waited for once: the page names all of its modules at its head, so that none waits for the one
that imports it, and asks for them below a name that is made of what they all say (``/console/@…/``), so that a
browser keeps them until they are others.
"""

import gzip
import hashlib
import re
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
}
_ASK_EACH_TIME: Final = "no-cache"
"""And be answered with 304: a new version of the server has its own page at once."""
_KEEP: Final = "public, max-age=31536000, immutable"
_BELOW: Final = "/console/"
_MODULES: Final = "<!-- modules -->"
"""Where the page names all of its modules."""
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
    packed: bytes | None
    """With gzip; None: that is no shorter."""


class PageEndpoints(Room):
    """``/`` and ``/console/``."""

    async def page(self, request: Request) -> Response:
        """``GET /``: the page for a browser; for others where things are."""
        self.browsers.place.check_host(request)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(dict(_ELSEWHERE), headers={"Vary": "Accept", "Cache-Control": _ASK_EACH_TIME})
        answer = _handed_out(request, console_files()[_PAGE], _ASK_EACH_TIME)
        answer.headers["Vary"] = "Accept, Accept-Encoding"
        return answer

    async def console_file(self, request: Request) -> Response:
        """``GET /console/{path}``: what the page is made of; below ``@`` and their common name it may be kept."""
        self.browsers.place.check_host(request)
        path: str = request.path_params["path"]
        name, _, below = path.partition("/")
        # The name of another version, whose page asks here, is answered with what there is, and that is not kept.
        found = console_files().get(below if name.startswith("@") else path)
        if found is None:
            raise NotFound("The console has no such file.", remedy="Load the page anew: GET /.")
        return _handed_out(request, found, _KEEP if name == f"@{common_name()}" else _ASK_EACH_TIME)


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """All files of the page, by their paths below ``/console/``; ``index.html`` as it is handed out."""
    found = dict(_found(files("orchestrator.web").joinpath("console"), ""))
    modules = sorted(path for path, one in found.items() if one.media.startswith("text/javascript"))
    named = "\n".join(f'<link rel="modulepreload" href="{_BELOW}{path}">' for path in modules)
    text = found[_PAGE].content.decode().replace(_MODULES, named)
    text = text.replace(f'"{_BELOW}', f'"{_BELOW}@{_name_of(found)}/')
    return {**found, _PAGE: _file(text.encode(), found[_PAGE].media)}


@cache
def common_name() -> str:
    """What the page's files are called together: another name as soon as one of them says something else."""
    return _name_of({path: one for path, one in console_files().items() if path != _PAGE})


def _name_of(found: Mapping[str, ConsoleFile]) -> str:
    lines = sorted(f"{path} {one.etag}" for path, one in found.items() if path != _PAGE)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _found(directory: Traversable, prefix: str) -> Iterator[tuple[str, ConsoleFile]]:
    for one in directory.iterdir():
        # A link could lead anywhere.
        if one.name.startswith((".", "_", "@")) or (isinstance(one, Path) and one.is_symlink()):
            continue
        if one.is_dir():
            yield from _found(one, f"{prefix}{one.name}/")
        elif (media := _TYPES.get(PurePath(one.name).suffix.lower())) is not None:
            yield prefix + one.name, _file(one.read_bytes(), media)


def _file(content: bytes, media: str) -> ConsoleFile:
    packed = gzip.compress(content, mtime=0)
    shorter = packed if len(packed) < len(content) else None
    return ConsoleFile(content, media, hashlib.sha256(content).hexdigest()[:32], shorter)


def _handed_out(request: Request, file: ConsoleFile, keeping: str) -> Response:
    packed = file.packed if _takes_gzip(request) else None
    etag = f'"{file.etag}"' if packed is None else f'"{file.etag}-gzip"'
    headers = {**_HEADERS, "Cache-Control": keeping, "ETag": etag, "Vary": "Accept-Encoding"}
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if known & {etag, "*"}:
        return Response(status_code=304, headers=headers)
    if packed is None:
        return Response(file.content, media_type=file.media, headers=headers)
    return Response(packed, media_type=file.media, headers={**headers, "Content-Encoding": "gzip"})


def _takes_gzip(request: Request) -> bool:
    """Whether it says so; a weight of 0 says that it does not (RFC 9110, section 12.5.3)."""
    for one in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() == "gzip":
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) is None
    return False
