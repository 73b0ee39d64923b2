"""Pages of others in a browser that is signed in here: it asks for whatever they say, and nothing comes of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from playwright.async_api import expect

from tests.story.harness import Server, tool
from tests.web.browser.seats import Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE: Final = """<!doctype html><title>other</title><body><script>
const at = TARGET, token = TOKEN, told = {};
const answer = (asking) => asking.then((one) => one.type, () => "nothing");
const seen = (one) => new Promise((done) => {
  one.onload = one.onopen = () => done("SEEN");
  one.onerror = () => done("nothing");
});
const put = (name, more) => Object.assign(document.createElement(name), more);
const asked = (path, more) => answer(fetch(at + path, { credentials: "include", ...more }));
(async () => {
  told.read = await asked("/v1/tasks");
  told.blind = await asked("/v1/tasks", { mode: "no-cors" });
  told.stop = await asked("/v1/stop", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  told.stopBlind = await asked("/v1/stop", { method: "POST", mode: "no-cors", body: "{}" });
  told.signIn = await asked("/v1/session", { method: "POST", mode: "no-cors", body: JSON.stringify({ token }) });
  told.signOut = await asked("/v1/session", { method: "DELETE" });
  told.socket = await seen(new WebSocket(at.replace("http", "ws") + "/reviewer", ["cc-orchestrator.review.v1"]));
  told.events = await seen(new EventSource(at + "/v1/watch", { withCredentials: true }));
  for (const path of ["/console/app.js", "/v1/openapi.json", "/client.lua"]) {
    const script = put("script", { src: at + path });
    told[path] = seen(script);
    document.head.append(script);
    told[path] = await told[path];
  }
  const image = put("img", { src: at + "/console/icon.svg" });
  told.image = await seen(image);
  const frame = put("iframe", { name: "inside", src: at + "/" });
  document.body.append(frame);
  await seen(frame);
  told.frame = frame.contentWindow.length ? "SEEN" : "nothing";
  const form = put("form", { method: "POST", action: at + "/v1/stop", enctype: "text/plain", target: "inside" });
  form.append(put("input", { name: '{"reason":"', value: '"}' }));
  document.body.append(form);
  form.submit();
  await seen(frame);
  window.told = told;
})();
</script>"""


@asynccontextmanager
async def page_of_another(text: str) -> AsyncIterator[int]:
    """A server on another port of this host that has this one page; its port."""

    async def hand_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = text.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(hand_out, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("localhost", marks=pytest.mark.deep)])
async def test_nothing_comes_of_what_another_page_asks(server: Server, seats: Seats, host: str) -> None:
    """From another port of our very name, where the cookie goes along, and from another name."""
    api = server.api()
    task_id = await api.submit(tool("ask_user", question="?"))
    await api.first(task_id, "question_asked")
    otto = await server.person("otto", "submitter")
    seat = await seats.open("tasks")
    text = PAGE.replace("TARGET", json.dumps(server.url)).replace("TOKEN", json.dumps(otto.token))
    async with page_of_another(text) as port:
        own = list(seat.requests)
        other = await seat.context.new_page()
        await other.goto(f"http://{host}:{port}/")
        told = await (await other.wait_for_function("window.told")).json_value()
        await other.close()
        # What the other page asked for is no request of the console's.
        seat.requests[:] = own
    assert set(told.values()) == {"nothing"}, told
    assert (await api.task(task_id))["status"] == "Paused"
    await seat.page.reload()
    await expect(seat.page.locator(".person .who")).to_contain_text("admin")
