"""The simulated computer's `http` against real servers, in the words of the mod."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cc_client.simulator.options import parse
from tests.harness.player import tree
from tests.harness.simulating import Asked, answer, playing, printed, web

OWN_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUOmfX3rCNxUZPHkRPalXql2NTL80wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEyMTA0MTQ1NFoYDzIxMjYxMDI4
MDQxNDU0WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQYfBKyH3WYeCeRy6qVByX7i2A8sGQWGFOc4wvGK8gPi4qQsA2HN2XI
nQYybo5Hqxqy3pjSNFaeLdFL4Kpo/tQRo1MwUTAdBgNVHQ4EFgQUijqAKyV86Yzx
jJ4Vjf4lnze0iBQwHwYDVR0jBBgwFoAUijqAKyV86YzxjJ4Vjf4lnze0iBQwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBhodqGT1etyo+uVEoogJb8
71VRgfCC+Te2Z19Gh9sKkgIgEojWp23YH5qvzB2sOKuJ2GwxurOnimIbZA/B/S0T
Ct8=
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg1BIcghrVaHoKWS75
2PJLZ44S9QM7pHNbGrBivWRkaX6hRANCAAQYfBKyH3WYeCeRy6qVByX7i2A8sGQW
GFOc4wvGK8gPi4qQsA2HN2XInQYybo5Hqxqy3pjSNFaeLdFL4Kpo/tQR
-----END PRIVATE KEY-----
"""
"""Signed by nobody else, with its key, for 127.0.0.1: what a person makes at home."""


@dataclass
class Seen:
    """A server that keeps what it was asked."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    async def __call__(self, asked: Asked) -> bytes:
        self.asked.append(asked)
        if asked.path == "/missing":
            return answer(b'{"why": "gone"}', "404 Not Found", X_Reason="gone")
        if asked.path == "/moved":
            return answer(b"", "302 Found", Location="/lines")
        if asked.path == "/slow":
            await asyncio.Event().wait()
        if asked.path == "/bytes":
            return answer(bytes(range(256)))
        return answer(b"one\r\ntwo\nthree", Content_Type="text/plain")


@pytest.fixture
async def seen() -> AsyncIterator[Seen]:
    """The server, listening."""
    server = Seen()
    async with web(server) as server.port:
        yield server


async def test_an_answer_is_read_in_pieces_and_by_lines(tmp_path: Path, seen: Seen) -> None:
    source = f"""
    local url = "http://127.0.0.1:{seen.port}/lines"
    local r = http.get(url, {{ ["X-Mine"] = "yes" }})
    print(r.getResponseCode())
    print(r.getResponseHeaders()["Content-Type"])
    print(r.readLine(), r.readLine(true) == "two\\n", r.read(2), r.readAll(), r.readAll() == "", r.readLine())
    r.close()
    print(pcall(r.readAll))
    r = http.get(url, nil, true)
    print(r.read(), r.read(2))
    local b = http.get({{ url = "http://127.0.0.1:{seen.port}/bytes", binary = true }}).readAll()
    print(#b, b:byte(1), b:byte(256))
    """
    assert await printed(tmp_path, source) == [
        "200 OK",
        "text/plain",
        "one true th ree true nil",
        "false attempt to use a closed file",
        "111 ne",
        "256 0 255",
    ]
    assert seen.asked[0].headers["X-Mine"] == "yes"
    assert seen.asked[0].headers["User-Agent"] == "computercraft/1.116.1"


async def test_a_post_sends_its_body_and_a_method_may_be_named(tmp_path: Path, seen: Seen) -> None:
    source = f"""
    local url = "http://127.0.0.1:{seen.port}/lines"
    http.post(url, "a=1").close()
    http.post({{ url = url, body = "{{}}", headers = {{ ["Content-Type"] = "application/json" }} }}).close()
    http.get({{ url = url, method = "DELETE" }}).close()
    print(pcall(http.get, {{ url = url, method = "CONNECT" }}))
    print(pcall(http.get, {{ url = url, timeout = 61 }}))
    """
    said = await printed(tmp_path, source)
    assert said[0].endswith("Unsupported HTTP method")
    assert said[-1].endswith("timeout out of range (61)")
    assert [(one.method, one.body) for one in seen.asked] == [("POST", b"a=1"), ("POST", b"{}"), ("DELETE", b"")]
    types = [one.headers.get("Content-Type") for one in seen.asked[:2]]
    assert types == ["application/x-www-form-urlencoded; charset=utf-8", "application/json"]


async def test_a_failing_answer_comes_as_the_third_value(tmp_path: Path, seen: Seen) -> None:
    source = f"""
    local r, why, failing = http.get("http://127.0.0.1:{seen.port}/missing")
    print(r, why, (failing.getResponseCode()), failing.getResponseHeaders()["X-Reason"])
    print(textutils.unserializeJSON(failing.readAll()).why)
    http.request("http://127.0.0.1:{seen.port}/missing")
    local name, url, said, handle = os.pullEvent("http_failure")
    print(said, handle.readAll())
    """
    assert await printed(tmp_path, source) == ["nil Not Found 404 gone", "gone", 'Not Found {"why": "gone"}']


async def test_a_redirect_is_followed_unless_it_is_not_wanted(tmp_path: Path, seen: Seen) -> None:
    source = f"""
    local url = "http://127.0.0.1:{seen.port}/moved"
    print((http.get(url).readLine()))
    print((http.get({{ url = url, redirect = false }}).getResponseCode()))
    """
    assert await printed(tmp_path, source) == ["one", "302"]


async def test_requests_run_beside_everything_else(tmp_path: Path, seen: Seen) -> None:
    """A server that never answers holds nothing up; the event of another request comes, and timers."""
    source = f"""
    http.request("http://127.0.0.1:{seen.port}/slow")
    http.request({{ url = "http://127.0.0.1:{seen.port}/lines" }})
    local name, url, handle = os.pullEvent("http_success")
    print(url:match("/%a+$"), handle.readLine())
    sleep(0.1)
    print(http.get({{ url = "http://127.0.0.1:{seen.port}/slow", timeout = 0.2 }}))
    """
    assert await printed(tmp_path, source) == ["/lines one", "nil Timed out nil"]


async def test_what_cannot_be_reached_is_said_in_the_words_of_the_mod(tmp_path: Path) -> None:
    async with web(Seen()) as port:
        pass
    source = f"""
    print(http.get("http://127.0.0.1:{port}/"))
    print(http.get("http://no-such-host.invalid/"))
    print(http.get("127.0.0.1"))
    print(http.checkURL("http://"))
    print(http.checkURL("http://a b"))
    print(http.checkURL("ftp://127.0.0.1"))
    print(http.checkURL("http://127.0.0.1:{port}"))
    print(http.websocket("ws://127.0.0.1:{port}/"))
    print(http.websocket("http://127.0.0.1:{port}/"))
    http.checkURLAsync("http://127.0.0.1:{port}/x")
    print(select(3, os.pullEvent("http_check")))
    """
    assert await printed(tmp_path, source) == [
        "nil Could not connect nil",
        "nil Unknown host nil",
        "nil Must specify http or https",
        "false URL malformed",
        "false URL malformed",
        "false Invalid protocol 'ftp'",
        "true nil",
        "false Could not connect",
        "false Invalid scheme 'http'",
        "true",
    ]


async def test_a_certificate_of_ones_own_is_not_trusted(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "own.pem").write_text(OWN_CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem")
    async with web(Seen(), tls=context) as port:
        source = f"""
        print(http.get("https://127.0.0.1:{port}/"))
        print(http.websocket("wss://127.0.0.1:{port}/"))
        """
        why = "Could not create a secure connection"
        assert await printed(disk, source) == [f"nil {why} nil", f"false {why}"]


async def test_the_rules_of_the_minecraft_server_hold(tmp_path: Path, seen: Seen) -> None:
    source = f"""
    print(http.get("http://127.0.0.1:{seen.port}/lines"))
    print(http.checkURL("http://192.168.1.2/"))
    print(http.websocket("ws://127.0.0.1:{seen.port}/"))
    """
    denied = "Domain not permitted"
    said = await printed(tmp_path, source, "--http-rule=deny-private")
    assert said == [f"nil {denied} nil", f"false {denied}", f"false {denied}"]
    assert seen.asked == []


async def test_a_computer_can_be_kept_to_its_orchestrator(tmp_path: Path, seen: Seen) -> None:
    """WebSockets to the one URL, with any query, and nothing else: no HTTP, no other path, host or port."""
    url = f"ws://127.0.0.1:{seen.port}/computer"
    source = f"""
    print(http.get("http://127.0.0.1:{seen.port}/lines"))
    print(http.checkURL("http://127.0.0.1:{seen.port}/computer"))
    for _, other in ipairs({{ "{url}/x", "{url[:-1]}", "ws://127.0.0.2:{seen.port}/computer", "wss://127.0.0.1/" }}) do
      print(http.websocket(other))
    end
    print(http.websocket("{url}?n=1"))
    """
    denied = "Domain not permitted"
    said = await printed(tmp_path, source, "--http-rule=orchestrator", f"--url={url}")
    assert said[:-1] == [f"nil {denied} nil", *[f"false {denied}"] * 5]
    assert said[-1].startswith("false ")
    assert denied not in said[-1]
    assert [one.path for one in seen.asked] == ["/computer?n=1"]


@pytest.mark.parametrize("url", [(), ("--url=http://127.0.0.1/",), ("--url=x",)])
def test_only_a_websocket_can_be_the_orchestrator(url: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--bare", "--disk=x", "--http-rule=orchestrator", *url])
    assert "needs the URL of a WebSocket" in capsys.readouterr().err


async def test_http_and_websockets_can_be_off(tmp_path: Path) -> None:
    assert await printed(tmp_path, "print(http)", "--http=off") == ["nil"]
    said = await printed(tmp_path, "print(pcall(http.websocketAsync, 'ws://127.0.0.1/'))", "--websockets=off")
    assert said == ["false Websocket connections are disabled"]


async def test_wget_downloads_a_file_and_runs_a_program_with_arguments(tmp_path: Path) -> None:
    async def serve(asked: Asked) -> bytes:
        if asked.path == "/hello.lua":
            return answer(b"print('hello', ..., shell ~= nil, require ~= nil) error('at last', 0)")
        return answer(b"", "404 Not Found")

    async with web(serve) as port:
        url = f"http://127.0.0.1:{port}"
        async with playing(tmp_path, f"--type=wget {url}/hello.lua", f"--type=wget run {url}/hello.lua you") as player:
            screen = await player.see("at last")
            assert "Downloaded as hello.lua" in screen
            assert "hello?you?true?true" in screen
            await player.do(f"type wget {url}/hello.lua")
            await player.see("File already exists")
            await player.do(f"type wget {url}/none")
            await player.see("Failed.")
            await player.do("type clear")
            await player.do(f"type wget run {url}/none")
            await player.do("type id")
            screen = await player.see("This is computer #0")
    # Nothing was run, and no file was made.
    assert screen.splitlines()[-3:] == ["> id", "This is computer #0", ">"]
    assert screen.splitlines()[-4].endswith("Failed.")
    assert {name for name in tree(tmp_path) if not name.startswith(".")} == {"hello.lua"}
    assert (tmp_path / "hello.lua").read_bytes().startswith(b"print('hello'")
