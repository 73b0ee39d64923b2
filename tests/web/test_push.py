"""Pushes to browsers: a whole server sends them by its outbox, and a real push service on loopback decrypts them."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import orchestrator.adapters
from orchestrator.core.approval.notices import PAUSES_S
from orchestrator.testing import ManualClock
from tests.harness.push_service import Subscriber, claims_of
from tests.harness.receiver import PATH, receiving
from tests.harness.whole_server import Server
from tests.waiting import within
from tests.web.test_notifications import PAGE, TOKEN, looking_often, opened, rule, states

KINDS = ["waits_for_you", "question"]


async def rules(server: Server, token: str | None = None) -> dict[str, Any]:
    """What the page asks for: the rules, and the key for which browsers subscribe."""
    answer = await server.ask("GET", "/v1/notifications/rules", token=token)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_a_request_reaches_a_browser_signed_and_encrypted(tmp_path: Path) -> None:
    """With a link to the request, no text of the task, and nothing of the address anywhere but its scheme and host."""
    browser = Subscriber()
    async with opened(tmp_path, public_url=PAGE) as server, receiving(lambda _: "201 Created") as service:
        made = await rule(server, browser.address(service.url), "browser-1", kinds=KINDS)
        assert (made["to"], made["signing_key"]) == ("webpush:http://127.0.0.1/…", None)
        _, request = await server.asked(prompt=f"farm with {TOKEN}")
        (taken,) = await service.got(1)
        assert await states(server) == [("browser-1", "waits_for_you", "sent")]
        told = browser.opened(taken)
        assert told == {
            "id": told["id"],
            "text": "A task of admin waits for a decision: cc_write on 3 (risk: medium).",
            "route": f"/approvals/{request['request_id']}",
        }
        listed = await rules(server)
        claims = claims_of(taken, listed["push_key"], service)
        assert claims["sub"] == PAGE
        assert 0 < claims["exp"] - server.orchestrator.service.clock.now().timestamp() <= 86_400
        headers = taken.headers
        assert (headers["ttl"], headers["urgency"], headers["topic"]) == ("86400", "high", told["id"][-32:])
        shown = json.dumps(listed) + (await server.ask("GET", "/v1/audit")).text
        assert not any(secret in shown for secret in (PATH, *browser.keys.values()))


async def test_a_push_that_was_not_taken_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encrypted anew, with the topic of the first, by which the service keeps one of the two."""
    clock, browser = ManualClock(), Subscriber()
    answers = ("429 Busy", "201 Created")
    with looking_often(monkeypatch):
        async with opened(tmp_path, clock=clock) as server, receiving(lambda count: answers[count]) as service:
            await rule(server, browser.address(service.url), kinds=KINDS)
            await server.asked()
            await service.got(1)
            assert await states(server) == [("hook", "waits_for_you", "waiting")]
            clock.advance(PAUSES_S[0])
            first, second = await service.got(2)
            assert first.body != second.body
            assert browser.opened(first) == browser.opened(second)
            assert first.headers["topic"] == second.headers["topic"]
            claims = claims_of(first, (await rules(server))["push_key"], service)
            assert claims["sub"] == "mailto:cc-orchestrator@localhost"
            assert await states(server) == [("hook", "waits_for_you", "sent")]


@pytest.mark.parametrize("answer", ["404 Not Found", "410 Gone"])
async def test_a_subscription_that_is_gone_takes_its_rule_along(tmp_path: Path, answer: str) -> None:
    """By an item of the system; nothing is tried again, and the address is forgotten."""
    async with opened(tmp_path) as server, receiving(lambda _: answer) as service, receiving(lambda _: answer) as hook:
        await rule(server, Subscriber().address(service.url), "browser-1", kinds=KINDS)
        await rule(server, hook, kinds=KINDS)
        await server.asked()
        await service.got(1)
        await hook.got(1)
        assert await states(server) == [("hook", "waits_for_you", "waiting")]
        assert [one["name"] for one in (await rules(server))["rules"]] == ["hook"]
        assert len(await server.store.kept_rows("secrets")) == 1
        items = (await server.ask("GET", "/v1/audit")).json()["items"]
        (gone,) = [one for one in items if one["fact"].get("about") == "notify" and one["fact"].get("value") is None]
        assert (gone["fact"]["name"], gone["actor"]["kind"]) == ("admin/browser-1", "system")
        await rule(server, Subscriber().address(service.url), "browser-2", kinds=KINDS)
        tried = (await server.ask("POST", "/v1/notifications/test", {"name": "browser-2"})).json()
        assert tried == {"delivered": False, "message": "The browser's subscription at 127.0.0.1 is over."}
        assert [one["name"] for one in (await rules(server))["rules"]] == ["hook"]
        assert len(service.taken) == 2


async def test_a_rule_that_was_replaced_in_an_attempt_stays(tmp_path: Path) -> None:
    """The push service says of the old subscription that it is gone."""
    asked, replaced = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await replaced.wait()
        writer.write(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with opened(tmp_path, computer=False) as server, await asyncio.start_server(serve, "127.0.0.1", 0) as service:
        endpoint = f"http://127.0.0.1:{service.sockets[0].getsockname()[1]}/x"
        await rule(server, Subscriber().address(endpoint), "phone", kinds=KINDS)
        trying = asyncio.create_task(server.ask("POST", "/v1/notifications/test", {"name": "phone"}))
        await within(asked.wait())
        assert (await server.ask("DELETE", "/v1/notifications/rules/phone")).status_code == 200
        await rule(server, Subscriber().address(endpoint), "phone", kinds=KINDS)
        replaced.set()
        assert not (await trying).json()["delivered"]
        assert [one["name"] for one in (await rules(server))["rules"]] == ["phone"]


async def test_a_browser_belongs_to_its_person_alone(tmp_path: Path) -> None:
    """Others neither see nor remove it; where it leads inside, nothing is sent."""
    async with opened(tmp_path) as server, receiving() as service:
        sam, sue = await server.person("sam"), await server.person("sue")
        body = {"name": "browser-1", "kinds": KINDS, "url": Subscriber().address(service.url)}
        assert (await server.ask("POST", "/v1/notifications/rules", body, token=sam)).status_code == 422
        body["url"] = Subscriber().address(f"https://localhost:{service.port}/x")
        assert (await server.ask("POST", "/v1/notifications/rules", body, token=sam)).status_code == 201
        tried = (await server.ask("POST", "/v1/notifications/test", {"name": "browser-1"}, token=sam)).json()
        assert "not public" in tried["message"]
        assert service.most_at_once == 0
        assert (await rules(server, sue))["rules"] == []
        path = "/v1/notifications/rules/browser-1"
        assert (await server.ask("DELETE", path, token=sue)).status_code == 404
        assert (await server.ask("DELETE", f"{path}?person=sam", token=sue)).status_code == 403
        assert [one["name"] for one in (await rules(server, sam))["rules"]] == ["browser-1"]
        assert (await server.ask("DELETE", path, token=sam)).status_code == 200
        assert (await rules(server, sam))["rules"] == []


async def test_without_its_package_the_page_is_told_that_there_are_no_pushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    monkeypatch.delitem(sys.modules, "orchestrator.adapters.web_push", raising=False)
    monkeypatch.delattr(orchestrator.adapters, "web_push", raising=False)
    async with opened(tmp_path, computer=False) as server:
        assert (await rules(server))["push_key"] is None
        body = {"name": "a", "kinds": KINDS, "url": Subscriber().address("https://push.example.org/x")}
        answer = await server.ask("POST", "/v1/notifications/rules", body)
        assert answer.status_code == 422
        assert "cc-orchestrator[notify]" in answer.json()["error"]["remedy"]
