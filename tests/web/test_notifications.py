"""Notifications: a whole server tells a real receiver what waits, to whom it may, and never where it goes."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters import messengers
from orchestrator.adapters.messengers import Messengers
from orchestrator.core.approval.notices import PAUSES_S
from orchestrator.engine import notifications
from orchestrator.engine.notifications import Notifier
from orchestrator.runtime import logs
from orchestrator.testing import ManualClock
from tests.harness.endpoints import ByPrompt, Writing
from tests.harness.receiver import PATH, Receiver, receiving
from tests.harness.support import WRITE
from tests.harness.whole_server import Installation, Opened, Server

ALL = ["waits_for_you", "question", "failed", "frozen", "finished"]
PAGE = "https://farm.example.org"
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
EVENING = datetime(2030, 1, 1, 22, 30, tzinfo=UTC)


async def rule(server: Server, receiver: Receiver | str, name: str = "hook", **more: Any) -> dict[str, Any]:
    """A new rule by an admin, as it was answered."""
    url = receiver if isinstance(receiver, str) else receiver.url
    body = {"name": name, "kinds": ALL, "url": url, **more}
    answer = await server.ask("POST", "/v1/notifications/rules", body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def states(server: Server, token: str | None = None) -> list[tuple[str, str, str]]:
    """Rule, kind and state of all messages that somebody sees, oldest first, once nothing is being sent."""
    await server.orchestrator.endpoints.notifier.idle()
    found = (await server.ask("GET", "/v1/notifications", token=token)).json()["notifications"]
    return [(one["rule"], one["kind"], one["state"]) for one in reversed(found)]


@asynccontextmanager
async def opened(
    directory: Path, model: Any = None, clock: ManualClock | None = None, **more: Any
) -> AsyncIterator[Opened]:
    async with Installation(directory).open(model or Writing(), clock=clock, **more) as server:
        yield server


@contextmanager
def looking_often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server looks often at what is due by the clock of the test."""
    with monkeypatch.context() as patched:
        patched.setattr(notifications, "LOOK_S", 0.05)
        yield


async def test_a_request_and_an_end_reach_a_signed_webhook(tmp_path: Path) -> None:
    """One message each, with a link that leads to the request, the signature of its rule, and no text of the task."""
    async with opened(tmp_path, public_url=PAGE) as server, receiving() as receiver:
        made = await rule(server, receiver)
        assert (made["to"], made["signing_key"][:6]) == ("http://127.0.0.1/…", "whsec_")
        task_id, request = await server.asked(prompt=f"farm with {TOKEN}")
        (first,) = await receiver.got(1)
        assert first.is_signed(made["signing_key"])
        assert not first.is_signed("whsec_" + "A" * 43 + "=")
        assert first.path == PATH
        told = first.told
        (event,) = told["events"]
        version = await server.version_of(request)
        assert (event["kind"], event["task_id"], event["id"]) == ("waits_for_you", task_id, f"{task_id}.{version}")
        assert event["link"] == f"{PAGE}/#/approvals/{request['request_id']}"
        assert event["text"] == "A task of admin waits for a decision: cc_write on 3 (risk: medium)."
        assert told["text"] == f"{event['text']} {event['link']}"
        assert "details" not in event
        assert TOKEN.encode() not in first.body
        assert first.headers["webhook-id"] == told["id"]
        await server.decide(request, "approve")
        _, second = await receiver.got(2)
        assert [one["kind"] for one in second.told["events"]] == ["finished"]
        assert second.told["id"] != told["id"]
        assert await states(server) == [("hook", "waits_for_you", "sent"), ("hook", "finished", "sent")]
        assert len(receiver.taken) == 2


async def test_details_come_where_they_are_asked_for_without_secrets(tmp_path: Path) -> None:
    async with opened(tmp_path) as server, receiving() as receiver:
        await rule(server, receiver, details=True)
        await server.asked(prompt=f"farm with {TOKEN}")
        (first,) = await receiver.got(1)
        (event,) = first.told["events"]
        assert "farm with [redacted " in event["details"]
        assert "+" in event["details"]
        assert TOKEN.encode() not in first.body


async def test_a_person_is_told_only_what_they_may_see_or_decide(tmp_path: Path) -> None:
    """A student hears of the ends of their own tasks, a reviewer of what they decide, an installation of all."""
    model = ByPrompt({"write": (WRITE,)})
    async with opened(tmp_path, model) as server, receiving() as own, receiving() as hers, receiving() as all_of_it:
        sam, sue = await server.person("sam"), await server.person("sue")
        rita = await server.person("rita", "reviewer")
        await rule(server, own, person="sam")
        await rule(server, hers, person="rita", kinds=["waits_for_you"])
        await rule(server, all_of_it, "everything", installation=True)
        waits = await server.submit(token=sue, prompt="write")
        await server.paused(waits)
        done = await server.submit(token=sue, prompt="nothing")
        mine = await server.submit(token=sam, prompt="nothing")
        await all_of_it.until(lambda one: len(one.events) == 3)
        # All rules that an event concerns get it in the transaction that takes it from the outbox.
        await own.got(1)
        assert [one["task_id"] for one in own.events] == [mine]
        assert sorted(one["task_id"] for one in all_of_it.events) == sorted([waits, done, mine])
        await hers.got(1)
        assert [one["task_id"] for one in hers.events] == [waits]
        assert await states(server, sam) == [("hook", "failed", "sent")]
        assert await states(server, rita) == [("hook", "waits_for_you", "sent")]
        assert await states(server, sue) == []
        assert len(await states(server)) == 5


async def test_a_person_who_is_revoked_is_told_nothing_more(tmp_path: Path) -> None:
    async with opened(tmp_path, ByPrompt({})) as server, receiving() as own, receiving() as all_of_it:
        sam = await server.person("sam")
        await rule(server, own, person="sam")
        await rule(server, all_of_it, installation=True)
        await server.submit(token=sam, prompt="nothing")
        await own.got(1)
        await server.ask("DELETE", "/v1/tokens/person/sam")
        agent = await server.agent("bot", owner="admin")
        await server.submit(token=agent, prompt="nothing")
        await all_of_it.until(lambda one: len(one.events) == 2)
        assert len(own.events) == 1


async def test_the_address_of_a_rule_is_nowhere_to_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is in no answer, no item and no line of the log, also where it is refused or cannot be reached."""
    caplog.set_level(logging.DEBUG)
    for library in logs._LIBRARIES:  # as `serve` has them
        caplog.set_level(logging.WARNING, logger=library)
    async with opened(tmp_path) as server, receiving(lambda _: "500 No") as receiver:
        made = await rule(server, receiver)
        plain = {"name": "x", "kinds": ALL, "url": receiver.url}
        refused = await server.ask("POST", "/v1/notifications/rules", {**plain, "name": "x y"})
        wrong = await server.ask("POST", "/v1/notifications/rules", {**plain, "kinds": ["no"]})
        wild = await server.ask("POST", "/v1/notifications/rules", {**plain, "url": f"http://[{PATH}"})
        assert [one.status_code for one in (refused, wrong, wild)] == [422, 422, 422]
        tried = await server.ask("POST", "/v1/notifications/test", {"name": "hook"})
        assert tried.json() == {"delivered": False, "message": "127.0.0.1 answered with status 500."}
        await server.asked()
        await receiver.got(2)
        assert await states(server) == [("hook", "waits_for_you", "waiting")]
        seen = [one.text for one in (refused, wrong, wild, tried)] + [json.dumps(made), caplog.text]
        for path in ("/v1/notifications", "/v1/notifications/rules", "/v1/audit/system/items"):
            seen.append((await server.ask("GET", path)).text)
        seen += [item.model_dump_json() for item in await server.system_items()]
        assert any("directory_changed" in one for one in seen)
        assert not [one for one in seen if PATH.rpartition("/")[2] in one]
        assert not [one for one in seen[4:] if made["signing_key"] in one and one != json.dumps(made)]


async def test_only_admins_reach_this_network_and_the_rules_of_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as server, receiving() as receiver:
        sam = await server.person("sam")
        await server.person("sue")

        async def status(url: str, **more: Any) -> int:
            body = {"name": "mine", "kinds": ALL, "url": url, **more}
            return (await server.ask("POST", "/v1/notifications/rules", body, token=sam)).status_code

        assert await status(receiver.url) == 422
        for host in ("127.0.0.1", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "[fd00::1]"):
            assert await status(f"https://{host}/x") == 422
        for url in ("http://h.example.org/x", "mailtos://u:p@m.example.org", "json://127.0.0.1/", "file:///x", "x"):
            assert await status(url) == 422
        assert await status("https://hooks.example.org/x", person="sue") == 403
        assert await status("https://hooks.example.org/x", installation=True) == 403
        # The name says nothing of where it leads: that is looked at before each attempt.
        port = receiver.port
        assert await status(f"https://localhost:{port}/x") == 201
        tried = (await server.ask("POST", "/v1/notifications/test", {"name": "mine"}, token=sam)).json()
        assert not tried["delivered"]
        assert "not public" in tried["message"]
        assert (receiver.taken, receiver.most_at_once) == ([], 0)
        gone = await server.ask("DELETE", "/v1/notifications/rules/mine?person=sue", token=sam)
        assert gone.status_code == 403
        listed = await server.ask("GET", "/v1/notifications/rules", token=sam)
        assert [one["name"] for one in listed.json()["rules"]] == ["mine"]


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with opened(tmp_path) as server, receiving() as inner:
        async with receiving(lambda _: f"302 Found\r\nLocation: {inner.url}") as receiver:
            await rule(server, receiver)
            tried = (await server.ask("POST", "/v1/notifications/test", {"name": "hook"})).json()
            assert tried["message"] == "127.0.0.1 answered with status 302. Redirects are not followed."
        assert inner.taken == []


async def test_a_receiver_that_fails_is_tried_again_and_then_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pauses grow; each attempt has the same id; one at a time; at last the message is dead, and shown."""
    clock = ManualClock()
    with looking_often(monkeypatch):
        async with opened(tmp_path, clock=clock) as server, receiving(lambda _: "503 Busy") as receiver:
            made = await rule(server, receiver)
            await server.asked()
            await receiver.got(1)
            for number, pause in enumerate(PAUSES_S, 2):
                assert await states(server) == [("hook", "waits_for_you", "waiting")]
                clock.advance(pause)
                await receiver.got(number)
            assert await states(server) == [("hook", "waits_for_you", "dead")]
            (dead,) = (await server.ask("GET", "/v1/notifications")).json()["notifications"]
            assert (dead["attempts"], dead["next_at"]) == (len(PAUSES_S) + 1, None)
            assert dead["why"] == "127.0.0.1 answered with status 503."
            assert len({one.headers["webhook-id"] for one in receiver.taken}) == 1
            assert all(one.is_signed(made["signing_key"]) for one in receiver.taken)
            assert receiver.most_at_once == 1


async def test_a_task_reads_no_list_of_all_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one for each computer: a submission, a request and its decision cost the same with many."""
    async with opened(tmp_path) as server:
        store, read = server.orchestrator.store, list[str]()
        list_tokens = store.list_tokens

        async def noted() -> Any:
            read.append("tokens")
            return await list_tokens()

        monkeypatch.setattr(store, "list_tokens", noted)
        _, request = await server.asked()
        await server.orchestrator.endpoints.notifier.look()
        assert (await server.decide(request, "approve")).status_code == 202
        await server.orchestrator.endpoints.notifier.look()
        assert read == []


async def test_a_receiver_that_says_nothing_holds_up_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messengers, "SEND_S", 20.0)
    async with opened(tmp_path) as server, receiving(lambda _: "") as slow, receiving() as quick:
        await rule(server, slow, "a-slow")
        await rule(server, quick, "b-quick")
        await server.asked()
        await slow.got(1)
        await quick.got(1)
        found = (await server.ask("GET", "/v1/notifications")).json()["notifications"]
        assert [(one["state"], one["why"]) for one in found if one["rule"] == "a-slow"] == [("waiting", "")]


async def test_what_comes_in_quiet_hours_goes_afterwards_as_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    clock.advance((EVENING - clock.now()).total_seconds())
    quiet = {"begin": "22:00", "end": "07:00", "zone": "UTC"}
    with looking_often(monkeypatch):
        async with opened(tmp_path, ByPrompt({}), clock=clock) as server, receiving() as night, receiving() as day:
            await rule(server, night, "night", quiet=quiet)
            await rule(server, day, "day")
            tasks = [await server.submit(prompt="nothing") for _ in range(2)]
            await day.until(lambda one: len(one.events) == 2)
            waiting = [one for one in await states(server) if one[0] == "night"]
            assert waiting == [("night", "failed", "waiting")] * 2
            assert night.taken == []
            clock.advance(timedelta(hours=8, minutes=30).total_seconds())
            (message,) = await night.got(1)
            assert sorted(one["task_id"] for one in message.told["events"]) == sorted(tasks)
            assert message.told["text"].startswith("2 events came in your quiet hours:\n")
            assert [one[2] for one in await states(server)] == ["sent"] * 4
            assert len(night.taken) == 1


@pytest.mark.parametrize(
    "quiet",
    [
        {"begin": "25:00", "end": "07:00", "zone": "UTC"},
        {"begin": "22:00", "end": "7", "zone": "UTC"},
        {"begin": "10:00", "end": "10:00", "zone": "UTC"},
        {"begin": "22:00", "end": "07:00", "zone": "Mars/Olympus"},
        {"begin": "22:00", "end": "07:00", "zone": "../../etc/passwd"},
    ],
)
async def test_wrong_quiet_hours_are_refused(tmp_path: Path, quiet: dict[str, str]) -> None:
    async with opened(tmp_path, computer=False) as server:
        body = {"name": "a", "kinds": ALL, "url": "https://h.example.org/", "quiet": quiet}
        answer = await server.ask("POST", "/v1/notifications/rules", body)
        assert answer.status_code == 422
        assert answer.json()["error"]["remedy"]


async def test_a_removed_rule_sends_nothing_and_leaves_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    with looking_often(monkeypatch):
        both = receiving(lambda _: "500 No"), receiving()
        async with opened(tmp_path, clock=clock) as server, both[0] as gone, both[1] as stays:
            await rule(server, gone, "gone")
            assert (await rule_again(server, gone.url)) == 409
            await server.asked()
            await gone.got(1)
            await server.orchestrator.endpoints.notifier.idle()
            done = await server.ask("DELETE", "/v1/notifications/rules/gone")
            assert done.json() == {"name": "gone"}
            assert list(await server.store.kept_rows("secrets")) == []
            await rule(server, stays, "stays")
            clock.advance(PAUSES_S[0])
            await server.asked()
            await stays.got(1)
            while any(one[0] == "gone" for one in await states(server)):
                await server.orchestrator.endpoints.notifier.look()
            assert len(gone.taken) == 1
            missing = await server.ask("DELETE", "/v1/notifications/rules/gone")
            assert missing.status_code == 404


async def rule_again(server: Server, url: str) -> int:
    body = {"name": "gone", "kinds": ALL, "url": url}
    return (await server.ask("POST", "/v1/notifications/rules", body)).status_code


async def test_two_nodes_that_both_believe_to_have_the_job_send_each_message_once(tmp_path: Path) -> None:
    async with opened(tmp_path, ByPrompt({})) as server, receiving() as receiver:
        await rule(server, receiver, kinds=["failed"])
        parts = server.orchestrator.endpoints
        others = [Notifier(server.orchestrator.service, parts.directory, Messengers(), "") for _ in range(3)]
        tasks = [await server.submit(prompt="nothing") for _ in range(6)]
        while len(receiver.taken) < len(tasks):
            await asyncio.gather(*(one.look() for one in (*others, parts.notifier)))
            await asyncio.gather(*(one.idle() for one in (*others, parts.notifier)))
        assert sorted(one["task_id"] for one in receiver.events) == sorted(tasks)
        assert await states(server) == [("hook", "failed", "sent")] * len(tasks)


async def test_programs_have_no_rules(tmp_path: Path) -> None:
    async with opened(tmp_path, computer=False) as server:
        bot = await server.agent()
        for path in ("/v1/notifications", "/v1/notifications/rules"):
            assert (await server.ask("GET", path, token=bot)).status_code == 403


# -- apprise -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")
async def test_apprise_sends_by_its_url_and_follows_no_redirect(tmp_path: Path) -> None:
    pytest.importorskip("apprise", reason="the extra notify is not installed")
    async with opened(tmp_path) as server, receiving() as receiver:
        url = f"json://127.0.0.1:{receiver.port}{PATH}?redirect=yes"
        made = await rule(server, url)
        assert (made["to"], made["signing_key"]) == ("json://…", None)
        _, request = await server.asked()
        (taken,) = await receiver.got(1)
        assert f"#/approvals/{request['request_id']}" in taken.told["message"]
        assert await states(server) == [("hook", "waits_for_you", "sent")]
        receiver.answer = lambda _: f"307 Moved\r\nLocation: {receiver.url}"
        tried = (await server.ask("POST", "/v1/notifications/test", {"name": "hook"})).json()
        assert tried == {"delivered": False, "message": "The service did not take the message."}
        assert len(receiver.taken) == 2


async def test_without_apprise_an_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    async with opened(tmp_path, computer=False) as server:
        body = {"name": "a", "kinds": ALL, "url": "discord://1234567890/abcdefghijk"}
        answer = await server.ask("POST", "/v1/notifications/rules", body)
        assert answer.status_code == 422
        assert "cc-orchestrator[notify]" in answer.json()["error"]["remedy"]
