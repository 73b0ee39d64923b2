"""The console's page and its files: what is handed out, with which headers, and that nothing else is."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from orchestrator.web import install
from orchestrator.web.install import console_files
from tests.harness.browsing import as_it_stands, plain
from tests.harness.whole_server import Server, running
from tests.web.test_web import refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
CONSOLE = Path(install.__file__).parent / "console"
FIRST_VIEW_BYTES = 60_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types push"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One server: a page changes nothing."""
    async with running(tmp_path_factory.mktemp("page")) as server:
        yield server


async def test_a_browser_gets_the_page_and_everything_it_names(server: Server) -> None:
    """Without a token; every file with its type, an ETag and headers that forbid what it does not need."""
    answer = await plain(server, "GET", "/", **HTML)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["vary"] == "Accept, Accept-Encoding"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.content == console_files()["index.html"].content
    named = re.findall(r'(?:src|href)="(/[^"]+)"', answer.text)
    assert named
    script = "text/javascript; charset=utf-8"
    types = {"css": "text/css; charset=utf-8", "js": script, "mjs": script, "svg": "image/svg+xml"}
    for path in named:
        file = await plain(server, "GET", path)
        assert (file.status_code, file.headers["content-type"]) == (200, types[path.rpartition(".")[2]])
        for one in (answer, file):
            told = one.headers
            assert told["content-security-policy"] == POLICY
            assert told["x-content-type-options"] == "nosniff"
            assert told["referrer-policy"] == "no-referrer"
            assert told["cross-origin-opener-policy"] == "same-origin"
            assert "camera=()" in told["permissions-policy"]
            assert "set-cookie" not in told


async def test_the_page_names_all_of_its_modules_by_a_name_that_may_be_kept(server: Server) -> None:
    """None waits for the one that imports it; a browser keeps them until one of them says something else.

    The rarer views, and the library of the figures, come when they are looked at.
    """
    text = (await plain(server, "GET", "/", **HTML)).text
    ahead = re.findall(r'<link rel="modulepreload" href="/console/@([0-9a-f]{16})/([^"]+)">', text)
    modules = {path.relative_to(CONSOLE).as_posix() for path in CONSOLE.rglob("*") if path.suffix in (".js", ".mjs")}
    named = {path for _, path in ahead}
    later = [f"views/{one}.js" for one in ("approvals", "audit", "computer", "people", "policy", "task", "tasks")]
    assert {*later, "vendor/uplot/uplot.mjs"} <= modules - named
    assert_whole(named)
    views = [one.split() for one in re.findall('<meta name="later" content="([^"]+)">', text)]
    assert {first for first, *_ in views} >= set(later)
    for more in views:
        assert not named & set(more)
        assert_whole(named | set(more))
    (name,) = {name for name, _ in ahead}
    assert set(re.findall(r'"/console/(?!@)', text)) == set()
    for path in sorted(modules):
        kept = await plain(server, "GET", f"/console/@{name}/{path}")
        assert (kept.status_code, kept.content) == (200, (CONSOLE / path).read_bytes())
        assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    for path in ("app.js", "@0123456789abcdef/app.js", "@/app.js"):
        told = await plain(server, "GET", f"/console/{path}")
        assert (told.content, told.headers["cache-control"]) == ((CONSOLE / "app.js").read_bytes(), "no-cache")
    refused(await plain(server, "GET", f"/console/@{name}/nothing.js"), 404, "not_found")


def assert_whole(named: set[str]) -> None:
    """Nothing is missing of what these modules import."""
    for path in named:
        needs = re.findall(r'^(?:import|export)[^;"]*"(\.[^"]+)";', (CONSOLE / path).read_text("utf-8"), re.M)
        assert {(CONSOLE / path).parent.joinpath(one).resolve() for one in needs} <= {CONSOLE / one for one in named}


async def test_each_module_imports_the_names_that_it_calls() -> None:
    """A name that was left behind when code moved fails only in front of a person."""
    texts = {path: path.read_text("utf-8") for path in CONSOLE.rglob("*.js") if "vendor" not in path.parts}
    shared = {
        name for text in texts.values() for name in re.findall(r"^export .*?(?:const|function) (\w+)", text, re.M)
    }
    for path, text in texts.items():
        named = re.findall(r'^(?:import|export)\s([^;"]*?) from "|(?:const|let|function|class) (\w+)', text, re.M)
        named += re.findall(r"(?:const|let) [\[{]([^=]*?)[\]}] =|\(([^()]*)\) =>", text)
        code = re.sub(r"//.*", "", text)
        called = set(re.findall(r"(?<![\w.])([a-z]\w*)\(", code)) | set(re.findall(r"<\$\{(\w+)\}", code))
        assert called & shared <= set(re.findall(r"\w+", str(named))), path


async def test_the_first_view_is_small(server: Server) -> None:
    """The page, its styles, its sign and all modules that it names at its head, as they are sent."""
    answer = await plain(server, "GET", "/", Accept_Encoding="gzip", **HTML)
    named = {"/", *re.findall(r'(?:src|href)="(/[^"]+)"', answer.text)}
    assert len(named) > 30
    sent = [await plain(server, "GET", path, Accept_Encoding="gzip", **HTML) for path in sorted(named)]
    assert sum(int(one.headers["content-length"]) for one in sent) <= FIRST_VIEW_BYTES


async def test_files_are_packed_for_who_takes_it(server: Server) -> None:
    """With gzip, each packing with an ETag of its own."""
    whole = (CONSOLE / "app.js").read_bytes()
    tags = set()
    for accepted, packed in (
        ("gzip, deflate, br", True), ("br;q=1.0, GZIP;q=0.5", True), ("gzip;q=0", False), ("gzip; q=0.000", False),
        ("identity", False), ("", False), ("x-gzip", False),
    ):  # fmt: skip
        answer = await plain(server, "GET", "/console/app.js", Accept_Encoding=accepted)
        assert (answer.content, answer.headers["vary"]) == (whole, "Accept-Encoding")
        assert ("content-encoding" in answer.headers, int(answer.headers["content-length"]) < len(whole)) == (
            packed,
            packed,
        )
        tags.add((packed, answer.headers["etag"]))
    assert len(tags) == len({tag for _, tag in tags}) == 2


async def test_the_page_keeps_its_own_rules(server: Server) -> None:
    """No script and no style but files of its own, nothing from another host, and no handler in the markup."""
    text = (await plain(server, "GET", "/", **HTML)).text
    assert not re.search(r"<script(?![^>]*\ssrc=\"/console/)[^>]*>|<style|\sstyle=|\son[a-z]+=", text, re.IGNORECASE)
    assert not re.search(r"(?:src|href)=\"(?!/console/|data:)", text)


async def test_what_is_known_is_not_sent_again(server: Server) -> None:
    """304 without a body, however the browser lists what it has; and a HEAD is a GET without its body."""
    for path, more in (("/", HTML), ("/console/app.js", {})):
        accept = {**more, "Accept_Encoding": "identity"}
        first = await plain(server, "GET", path, **accept)
        etag = first.headers["etag"]
        assert re.fullmatch('"[0-9a-f]{32}"', etag)
        for known in (etag, f'"x", W/{etag}', "*"):
            again = await plain(server, "GET", path, If_None_Match=known, **accept)
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
            assert again.headers["content-security-policy"] == POLICY
        assert (await plain(server, "GET", path, If_None_Match='"x"', **accept)).status_code == 200
        head = await plain(server, "HEAD", path, **accept)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(first.content)))


async def test_who_is_no_browser_is_told_where_things_are(server: Server) -> None:
    """As JSON; the page cannot be posted to."""
    for accept in ("*/*", "application/json"):
        answer = await plain(server, "GET", "/", Accept=accept)
        assert answer.json() == {
            "page": "/",
            "doors": "/v1/openapi.json",
            "health": "/healthz",
            "installer": "/install",
        }
        assert answer.headers["vary"] == "Accept"
        for path in ("/v1/openapi.json", "/healthz", "/install"):
            assert (await plain(server, "GET", path)).status_code == 200
    refused(await plain(server, "POST", "/", **HTML), 405, "method_not_allowed")


@pytest.mark.parametrize(
    "path",
    ["", "nothing.js", "..", "../page.py", "..%2fpage.py", "%2e%2e/page.py", "%2e%2e%2f%2e%2e%2fapp.py", "..\\page.py",
     "..%5cpage.py", "%2fetc%2fpasswd", "//etc/passwd", "./app.js", "app.js/", "app.js%00.html", "APP.JS", ".", "%00",
     "x/../app.js", "app.js?/../../page.py#", "%252e%252e/page.py", "\xff", "%ff", "index.html%20", "__init__.py"],
)  # fmt: skip
async def test_no_path_leads_anywhere_else(server: Server, path: str) -> None:
    """Sent as it stands: no client tidies it up before."""
    answer = await as_it_stands(server, f"GET /console/{path} HTTP/1.1", "Host: 127.0.0.1")
    status, body = answer.partition(b"\r\n")[0], answer.partition(b"\r\n\r\n")[2]
    if path == "app.js?/../../page.py#":
        assert b" 200 " in status
        assert body == console_files()["app.js"].content
    else:
        assert b" 404 " in status or b" 400 " in status, answer
        assert b"def " not in body


async def test_only_files_of_known_types_that_are_no_links_are_found(tmp_path: Path) -> None:
    """Neither hidden ones nor links to what is elsewhere, nor those through a linked directory."""
    (tmp_path / "secret.js").write_text("secret")
    console = tmp_path / "console"
    (console / "vendor" / "deep").mkdir(parents=True)
    for name in (
        "index.html",
        "vendor/deep/htm.mjs",
        "vendor/LICENSE",
        "a.PNG",
        ".hidden.js",
        "_x.js",
        "a.py",
        "a.map",
    ):
        (console / name).write_text(name)
    (console / "link.js").symlink_to(tmp_path / "secret.js")
    (console / "linked").symlink_to(tmp_path)
    found = dict(install._found(console, ""))
    assert {name: one.content.decode() for name, one in found.items()} == {
        name: name for name in ("index.html", "vendor/deep/htm.mjs", "vendor/LICENSE", "a.PNG")
    }
    assert found["vendor/LICENSE"].media == "text/plain; charset=utf-8"
    assert found["a.PNG"].media == "image/png"


async def test_every_file_is_handed_out() -> None:
    """What stands in the directory is of a type that is known: else the page would miss it."""
    there = {path.relative_to(CONSOLE).as_posix() for path in CONSOLE.rglob("*") if path.is_file()}
    assert there == set(console_files())


ANSWERS = [
    ("GET", "/v1/tasks", 200),
    ("HEAD", "/v1/tasks", 200),
    ("GET", "/v1/session", 401),
    ("GET", "/v1/tasks/%3Cscript%3Ealert(1)%3C%2Fscript%3E", 404),
    ("GET", "/v1/openapi.json", 200),
    ("GET", "/metrics", 200),
    ("GET", "/healthz", 200),
    ("GET", "/install", 200),
    ("GET", "/client.lua", 200),
    ("GET", "/console/nothing.js", 404),
    ("GET", "/nowhere", 404),
    ("GET", "/computer", 426),
    ("POST", "/", 405),
    ("OPTIONS", "/v1/tasks", 405),
    ("POST", "/v1/tasks", 422),
]


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
async def test_no_answer_of_an_endpoint_is_a_page_or_kept(server: Server, method: str, path: str, status: int) -> None:
    """Whatever it says and whoever is led to it: no frame, no script, no guess at its type, nothing in a cache."""
    answer = await server.ask(method, path, Accept="text/html")
    assert answer.status_code == status, answer.text
    assert_forbidding(answer.headers)


def assert_forbidding(told: Mapping[str, str]) -> None:
    """All that an answer forbids of itself."""
    policy = told["content-security-policy"]
    assert policy == "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    assert told["x-content-type-options"] == "nosniff"
    assert told["referrer-policy"] == "no-referrer"
    assert told["cross-origin-opener-policy"] == told["cross-origin-resource-policy"] == "same-origin"
    assert told["cache-control"] == "no-store"


async def test_a_defect_and_a_shut_socket_forbid_it_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers for those is outside of all endpoints."""

    async def broken(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(server.orchestrator.service, "list_tasks", broken)
    answer = await plain(server, "GET", "/healthz")
    assert answer.status_code == 500
    assert_forbidding(answer.headers)
    for path in ("/reviewer", "/computer", "/nowhere"):
        with pytest.raises(InvalidStatus) as denied:
            async with connect(server.url.replace("http", "ws", 1) + path, proxy=None):
                pass
        assert_forbidding(denied.value.response.headers)
