"""The endpoints by which a computer in the game joins: a code for a person to type, the installer, the client."""

import gzip
import hashlib
import logging
import posixpath
import re
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from orchestrator.core.approval.people import NO_GROUP, Owner
from orchestrator.core.connection_problems import PORTS, plain_http
from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound, OrchestratorError
from orchestrator.core.ports import Identity
from orchestrator.core.wire.cells import channel, named
from orchestrator.core.wire.identity import key_of
from orchestrator.core.wire.wire import Client, ComputerId
from orchestrator.engine.tasks import person
from orchestrator.web.answers.base import Elsewhere, PairedAnswer, PairingMade
from orchestrator.web.auth import token_hash
from orchestrator.web.base import Room, as_json
from orchestrator.web.bodies import MAX_OPEN_BYTES, PairBody, PairingBody, read_body
from orchestrator.web.computers import RefusingComputers, peer_of, remember
from orchestrator.web.directory import DirectoryEndpoints
from orchestrator.web.people import Pairings

# -- Who fetched the installer last, and whether a pairing followed: what stopped in between is seen nowhere else

KEPT: Final = 100


@dataclass
class Visit:
    """A computer in the game fetched the installer."""

    at: datetime
    peer: str
    """The address it came from: that of its Minecraft server."""
    paired: bool = False
    """Whether a computer was paired from there since."""


class Visits:
    """The last of them, in memory: they end with the process."""

    def __init__(self, kept: int = KEPT) -> None:
        self._last: deque[Visit] = deque(maxlen=kept)

    def add(self, at: datetime, peer: str) -> None:
        """Remember one; the oldest makes room."""
        self._last.append(Visit(at, peer))

    def paired(self, peer: str) -> None:
        """A computer was paired from an address: the downloads from there are explained."""
        for visit in self._last:
            visit.paired = visit.paired or visit.peer == peer

    def last(self) -> list[Visit]:
        """Those that are remembered, the newest first."""
        return list(reversed(self._last))


# -- The line that runs the installer only if it is the one that the server had when the line was made
#
# Theory. A computer in the game has no sha256, and one in Lua is longer than a line that the game can paste
# (PASTE_CHARS). So the line fetches the program that computes it, and checks that program first: as a polynomial over
# its bytes, modulo a prime, at secret points. The points are drawn for each line and are written nowhere else, so an
# attacker who changes the program on its way has to guess. Another program of the same length, at most 3,000 bytes,
# passes at one point with a chance of 2^-14, and at all five with one of 2^-70. A longer one could pass at more
# points, so the length is checked too. The program then computes the sha256 of the installer, which is in the line.
# The installer in its turn names the sha256 of the client.

PASTE_CHARS: Final = 512
"""The game cuts what is pasted at once."""
PRIME: Final = 2**26 - 5
"""So small that a product of two numbers below it, and a byte, is exact in Lua, whose numbers have 53 bits."""
POINTS: Final = 5
_LINE: Final = (
    'do local function g(n)return assert(http.get("{url}/"..n)).readAll()end local f,s=g"sha256.lua",g"install"'
    'for k,w in("{points}"):gmatch"(%d+) (%d+)"do local v=1 for i=1,#f do v=(v*k+f:byte(i))%(2^26-5)end '
    'f=v==w+0 and f or""end '
    'assert(#f=={size} and load(f)().hex(s)=="{sha256}","altered: not run")load(s,"=i","t",_ENV)"{code}"end'
)


def pinned(url: str, code: str, installer: str, hasher: str) -> str:
    """The line for the program ``lua`` of the game; ``hasher``: the text of ``/sha256.lua``."""
    points = (2 + secrets.randbelow(PRIME - 2) for _ in range(POINTS))
    pairs = " ".join(f"{point} {_value(hasher.encode('ascii'), point)}" for point in points)
    return _LINE.format(url=url, points=pairs, size=len(hasher), sha256=sha256_of(installer), code=code)


def sha256_of(text: str) -> str:
    """As the computer computes it."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _value(data: bytes, point: int) -> int:
    value = 1
    for byte in data:
        value = (value * point + byte) % PRIME
    return value


# -- The endpoints by which a computer in the game joins: a code for a person to type, the installer, the client

logger = logging.getLogger(__name__)

_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
"""The characters that may be in a Host header; it is written into Lua between quotes."""
_GAME: Final = "computercraft"
"""The name by which the mod calls itself; another reader of the installer installs nothing."""
_VERSION: Final = re.compile(r"^-- The cc-orchestrator client (\S+) ")
"""The version in the client's first line."""


class InstallEndpoints(DirectoryEndpoints):
    """``/v1/pairings``, ``/v1/pair``, ``/install``, ``/sha256.lua`` and ``/client.lua``."""

    computers: RefusingComputers
    pairings: Pairings
    visits: Visits
    update_secret: str
    """The secret for the keys of updates; empty: computers get none."""
    public_url: str
    """Where the computers in the game reach this server; empty: the address that they used."""
    cell: str
    router: str
    """Where they find their cell; empty: at this server."""

    async def make_pairing(self, request: Request) -> PairingMade:
        """``POST /v1/pairings``: a code, and the line to type on the computer."""
        identity = await self.who(request)
        self.authorizer.must(identity, "pair")
        body = await read_body(request, PairingBody)
        owner = await self._wanted_owner(identity, body)
        player = identity.name if owner is None or owner.group else owner.person
        pairing = await self.pairings.make(
            body.computer or "", body.label or "", self.service.clock.now(), owner=player, by=person(identity)
        )
        if owner is not None:
            await self.give(ComputerId(body.computer or ""), owner, identity)
        url = self.public_url or _listening(request)
        installer = _installer(url)
        return PairingMade(
            code=pairing.code,
            expires_at=pairing.expires_at,
            computer=body.computer or None,
            line=f"wget run {url}/install {pairing.code}",
            url=url,
            sha256=sha256_of(installer),
            pinned=pinned(url, pairing.code, installer, _lua("sha256.lua")),
            warning=plain_http(url),
        )

    async def _wanted_owner(self, identity: Identity, body: PairingBody) -> Owner | None:
        """The new owner of the computer; None: it stays as it is. Raises InvalidRequest, Forbidden."""
        said, name = body.owner, ComputerId(body.computer or "")
        named = Owner(said.person or "", said.group or "") if said is not None else Owner()
        own = sorted(self.directory.present.groups_of(identity.name) - {NO_GROUP})
        owns, is_admin = (
            self.directory.present.owners.get(name),
            "everything" in self.authorizer.holder(identity).rights,
        )
        is_there = owns is not None or await self.has_computer(name)
        if is_there and not self.authorizer.reaches(identity, name):
            raise Forbidden(f"The name {name[:64]} is taken.", remedy="Choose another name.")
        if named == Owner() and not is_admin and not is_there and len(own) == 1:
            named = Owner(group=own[0])
        if named in (Owner(), owns):
            return None
        if is_there and not is_admin:
            raise Forbidden(
                f"The computer {name[:64]} is there, and only an admin gives it to somebody else.",
                remedy=f"Pair it as it is: `cc-orchestrator pair {name[:64]}`.",
            )
        if not body.computer:
            raise InvalidRequest(
                "A computer that gets an owner needs a name.", remedy="Name it: `cc-orchestrator pair NAME`."
            )
        self.must_give(identity, named)
        return named

    async def pair(self, request: Request) -> PairedAnswer:
        """``POST /v1/pair``: the code becomes the computer's token, once; no other token is needed."""
        body = await read_body(request, PairBody, MAX_OPEN_BYTES)
        url = self.public_url or _asked_for(request)
        peer, now = peer_of(request), self.service.clock.now()
        try:
            paired = await self.pairings.use(
                body.code, computer_id=body.computer_id, peer=peer, at=now, was=body.token or "", has=body.label or ""
            )
        except OrchestratorError as error:
            remember(self.computers.refusals, now, request, error)
            raise
        self.visits.paired(peer)
        logger.info("computer %s was paired from %s", paired.computer, peer, extra={"computer": paired.computer})
        self.service.bus.publish("computers", {"computer": paired.computer})
        if paired.replaced:
            await self.sockets.hang_up("computer", paired.computer)
        return PairedAnswer.made_from(
            paired,
            token=named(paired.token, self.cell),
            url=channel(self.router or url),
            update_key=key_of(self.update_secret, token_hash(paired.token)) if self.update_secret else "",
        )

    async def install(self, request: Request) -> Response:
        """``GET /install``: the installer, a Lua program that knows this server's address."""
        url = self.public_url or _asked_for(request)
        if request.headers.get("user-agent", "").startswith(_GAME):
            self.visits.add(self.service.clock.now(), peer_of(request))
        return _plain(_installer(url))

    async def hasher(self, request: Request) -> Response:
        """``GET /sha256.lua``: what computes a sha256 there, for a line that checks the installer."""
        del request
        return _plain(_lua("sha256.lua"))

    async def client(self, request: Request) -> Response:
        """``GET /client.lua``: the client, one file."""
        del request
        return _plain(_lua("client.lua"))


@cache
def client_offered() -> Client:
    """The client that ``/client.lua`` hands out."""
    text = _lua("client.lua")
    version = _VERSION.search(text)
    assert version is not None, "the bundled client names no version"
    data = text.encode()
    return Client(version=version[1], size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _installer(url: str) -> str:
    """The installer as the server at this address hands it out."""
    offer = client_offered()
    known = {
        "@SERVER@": url,
        "@CLIENT_BYTES@": str(offer.size),
        "@CLIENT_SHA256@": offer.sha256,
        "@CLIENT_VERSION@": offer.version,
    }
    text = _lua("install.lua")
    for place, value in known.items():
        text = text.replace(place, value)
    return text


@cache
def _lua(name: str) -> str:
    """A Lua file that came with the packages."""
    return files("cc_client").joinpath(name).read_text("utf-8")


def _plain(text: str) -> Response:
    return PlainTextResponse(text)


def _asked_for(request: Request) -> str:
    """The server's address as the one who asks wrote it. Raises InvalidRequest."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        raise InvalidRequest(
            "The Host header names no address.", remedy="Use the address that `cc-orchestrator pair` prints."
        )
    return _without_usual_port(f"{request.url.scheme}://{host}")


def _listening(request: Request) -> str:
    """The server's address at which this very request came in."""
    host, port = request.scope["server"]
    return _without_usual_port(f"{request.url.scheme}://{f'[{host}]' if ':' in host else host}:{port}")


def _without_usual_port(url: str) -> str:
    """An address as the asker writes it: the served file is the same then, byte for byte."""
    scheme, _, rest = url.partition("://")
    return url.removesuffix(f":{PORTS[scheme]}") if re.search(r":[0-9]+$", rest) else url


# -- The console's page: ``/`` and the files under ``/console/``, which came with the package
#
# Theory. The files that may be handed out are a list made once, so that no path can lead out of it: a path that is not
# on it is not a file. The headers forbid the page everything that it does not need; above all no script runs that is
# not one of these files, and no text becomes one.
#
# A slow line is waited for once: the page names its modules at its head, so that none waits for the one that imports
# it. It names those of the first view, which are fetched at once, and those of each view that is fetched when somebody
# looks at it. It asks for them below a name that is made of what they all say (``/console/@…/``), so that a browser
# keeps them until they are others.

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
"""The types of a file, by the end of its name; a licence has none. Others are not handed out."""
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
        # The one policy leads to the one service worker (``lib/push.js``).
        "trusted-types push",
    )
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Features that a console does not use, so that nothing that got into it has them either; the clipboard is for the
    # copy button.
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), "
    "serial=(), usb=(), clipboard-read=(), clipboard-write=(self)",
}
_ASK_EACH_TIME: Final = "no-cache"
"""And be answered with 304: a new version of the server has its own page at once."""
_KEEP: Final = "public, max-age=31536000, immutable"
_BELOW: Final = "/console/"
_MODULES: Final = "<!-- modules -->"
"""Where the page names its modules."""
_IMPORTS: Final = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)";', re.M)
"""The modules that a module needs at once; one that it fetches later is named in ``import("…")``."""
_LATER: Final = re.compile(r'\blater\("([^"]+)", ')
"""The views that are fetched when they are looked at (``lib/later.js``)."""
_ELSEWHERE: Final = Elsewhere(page="/", doors="/v1/openapi.json", health="/healthz", installer="/install")
"""Where things are, for a client that is not a browser."""


@dataclass(frozen=True)
class ConsoleFile:
    """A file of the page."""

    content: bytes
    media: str
    etag: str
    packed: bytes | None
    """With gzip; None: that is not shorter."""


class PageEndpoints(Room):
    """``/`` and ``/console/``."""

    async def page(self, request: Request) -> Response:
        """``GET /``: the page for a browser; for others where things are."""
        self.browsers.place.check_host(request)
        if "text/html" not in request.headers.get("accept", ""):
            elsewhere = as_json(_ELSEWHERE, 200)
            elsewhere.headers.update({"Vary": "Accept", "Cache-Control": _ASK_EACH_TIME})
            return elsewhere
        answer = _handed_out(request, console_files()[_PAGE], _ASK_EACH_TIME)
        answer.headers["Vary"] = "Accept, Accept-Encoding"
        return answer

    async def console_file(self, request: Request) -> Response:
        """``GET /console/{path}``: the files of the page; below ``@`` and their common name they may be kept."""
        self.browsers.place.check_host(request)
        path: str = request.path_params["path"]
        name, _, below = path.partition("/")
        # The name of another version, whose page asks here, is answered with what there is, and that is not kept.
        found = console_files().get(below if name.startswith("@") else path)
        if found is None:
            raise NotFound("The console has no such file.", remedy="Reload the page: GET /.")
        return _handed_out(request, found, _KEEP if name == f"@{common_name()}" else _ASK_EACH_TIME)


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """All files of the page, by their paths below ``/console/``; ``index.html`` as it is handed out.

    Not Starlette's StaticFiles: it compresses nothing, and its ETag is made of size and time, which differ between the
    nodes that serve one page.
    """
    found = dict(_found(files("orchestrator.web").joinpath("console"), ""))
    at_once = _needed(found, "app.js")
    lines = [f'<link rel="modulepreload" href="{_BELOW}{path}">' for path in sorted(at_once)]
    for path in sorted({one for module in at_once for one in _LATER.findall(found[module].content.decode())}):
        more = sorted(_needed(found, path) - at_once - {path})
        lines.append(f'<meta name="later" content="{" ".join([path, *more])}">')
    text = found[_PAGE].content.decode().replace(_MODULES, "\n".join(lines))
    text = text.replace(f'"{_BELOW}', f'"{_BELOW}@{_name_of(found)}/')
    return {**found, _PAGE: _file(text.encode(), found[_PAGE].media)}


def _needed(found: Mapping[str, ConsoleFile], first: str) -> set[str]:
    """A module, and all that it imports at once."""
    needed, left = set[str](), [first]
    while left:
        path = left.pop()
        needed.add(path)
        below = [posixpath.normpath(posixpath.join(posixpath.dirname(path), one)) for one in _imports(found[path])]
        left += [one for one in below if one not in needed]
    return needed


def _imports(module: ConsoleFile) -> list[str]:
    return _IMPORTS.findall(module.content.decode())


@cache
def common_name() -> str:
    """The common name of the page's files: another one as soon as one of them changes."""
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
    """Whether the header accepts it; a weight of 0 says that it does not (RFC 9110, section 12.5.3)."""
    for one in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() == "gzip":
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) is None
    return False
