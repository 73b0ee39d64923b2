"""Notifications of a closed page in a real browser, with its real service worker and a push service of the tests.

A browser without a network cannot subscribe, so the two calls of its ``PushManager`` are answered by a script. A push
comes to the service worker as the browser delivers it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Page, Route, Worker, expect

from tests.harness.push_service import Subscriber, claims_of
from tests.harness.receiver import Receiver, receiving
from tests.story.harness import Api, Server, final, tool
from tests.waiting import within
from tests.web.browser.seats import HIDE, Seat, Seats

pytestmark = pytest.mark.asyncio(loop_scope="session")

SUBSCRIBING = """
const given = GIVEN, kept = "of the test's push service";
const made = () => ({ endpoint: given.endpoint, toJSON: () => given,
  unsubscribe: async () => { localStorage.removeItem(kept); return true; } });
PushManager.prototype.subscribe = async (options) => {
  localStorage.setItem(kept, JSON.stringify(options));
  return made();
};
PushManager.prototype.getSubscription = async () => (localStorage.getItem(kept) ? made() : null);
"""
KEPT = """() => JSON.parse(localStorage.getItem("of the test's push service"))"""
SHOWN = """async () => (await (await navigator.serviceWorker.getRegistration("/console/")).getNotifications())
  .map(({ body, tag, data }) => ({ id: tag, text: body, route: data }))"""
SHOWING = """() => {
  const show = registration.showNotification.bind(registration), begun = [];
  self.allShown = new Promise((done) => {
    registration.showNotification = (...told) => {
      const work = show(...told);
      if (begun.push(work) === 3) done(Promise.all(begun));
      return work;
    };
  });
}"""
"""Three are shown when it says so: Chromium forgets a notification that is asked for while it comes."""
CLICK = """async (tag) => {
  clients.openWindow = async (url) => { self.went = url; };
  const [notification] = await registration.getNotifications({ tag });
  dispatchEvent(new NotificationEvent("notificationclick", { notification }));
}"""
"""A window opens only for a click of a person: the worker says where to."""
CHANGE = """async ([before, after, isGiven]) => {
  const made = { endpoint: after.endpoint, toJSON: () => after };
  PushManager.prototype.subscribe = async (options) => { self.options = options; return made; };
  let work;
  self.options = null;
  const event = new ExtendableEvent("pushsubscriptionchange");
  Object.assign(event, { oldSubscription: before && { endpoint: before }, newSubscription: isGiven ? made : null });
  event.waitUntil = (given) => { work = given; };
  dispatchEvent(event);
  await work;
  return self.options?.applicationServerKey ?? null;
}"""
"""The browser changes its subscription; the key that the worker subscribed with."""
ON = "This device notifies you, also while this page is closed."
COUNT_OWN = """() => { window.own = 0; window.Notification = class extends Notification {
  constructor(...told) { super(...told); window.own++; } }; }"""
"""Notifications of the page itself."""
OFF = "This device notifies you while this page is open."


async def subscribing(seats: Seats, server: Server, browser: Subscriber, service: Receiver) -> Seat:
    """An admin at the approvals, in a browser that has its push service on loopback."""
    seat = await seats.open(token=None, fresh=True, permissions=["notifications"])
    given = json.dumps({"endpoint": service.url, "keys": browser.keys})
    await seat.context.add_init_script(f"{{{SUBSCRIBING.replace('GIVEN', given)}}}")
    await seat.page.reload()
    await seat.sign_in(str(server.api().token))
    return seat


async def turn(seat: Seat, name: str, said: str) -> None:
    """Press a button in the dialog of the bell; what it says then."""
    await seat.go("approvals")
    await seat.button("Notifications").click()
    await seat.button(name).click()
    await expect(seat.page.get_by_role("dialog").get_by_role("status")).to_have_text(said)
    await seat.button("Close").click()


async def rules(api: Api) -> list[dict[str, Any]]:
    """The rules of all people."""
    return list((await api.ok("GET", "/v1/notifications/rules"))["rules"])


async def worker_of(page: Page) -> tuple[Worker, Callable[[object], Awaitable[object]]]:
    """The service worker that the page registered, and what pushes a message to it."""
    devtools = await page.context.new_cdp_session(page)
    found = asyncio.get_running_loop().create_future()

    def registered(event: dict[str, Any]) -> None:
        for one in event["registrations"] if not found.done() else ():
            found.set_result(one)

    devtools.on("ServiceWorker.workerRegistrationUpdated", registered)
    await devtools.send("ServiceWorker.enable")
    known = await within(found)
    (worker,) = page.context.service_workers
    assert known["scopeURL"] == worker.url.rpartition("/")[0] + "/"

    async def push(told: object) -> object:
        sent = {"registrationId": known["registrationId"], "data": json.dumps(told)}
        origin = known["scopeURL"].removesuffix("/console/")
        return await devtools.send("ServiceWorker.deliverPushMessage", {"origin": origin, **sent})

    return worker, push


async def test_a_device_is_notified_while_the_page_is_closed(server: Server, seats: Seats) -> None:
    """The switch makes a rule; the message comes by the push service; the worker shows it and leads to the thing."""
    api, browser = server.api(), Subscriber()
    async with receiving(lambda _: "201 Created") as service:
        seat = await subscribing(seats, server, browser, service)
        await turn(seat, "Notify me also while it is closed", ON)
        (rule,) = await rules(api)
        assert (rule["to"], rule["kinds"]) == ("webpush:http://127.0.0.1/…", ["question", "waits_for_you"])
        await seat.page.evaluate(COUNT_OWN)
        await seat.page.evaluate(HIDE, True)
        task_id = await api.submit(tool("ask_user", question="Which wall?"), final())
        asked = await api.first(task_id, "question_asked")
        (taken,) = await service.got(1)
        kept = await seat.page.evaluate(KEPT)
        claims_of(taken, kept["applicationServerKey"], service)
        assert kept["userVisibleOnly"]
        told = browser.opened(taken)
        assert told["route"] == f"/approvals/{asked.question_id}"
        await seat.go("tasks")
        worker, push = await worker_of(seat.page)
        # The same twice, and another.
        other = {**told, "id": "other"}
        await worker.evaluate(SHOWING)
        for one in (told, told, other):
            await push(one)
        await within(worker.evaluate("() => self.allShown.then(() => null)"))
        shown = await seat.page.evaluate(SHOWN)
        assert sorted(shown, key=lambda one: str(one["id"])) == [told, other]
        await worker.evaluate(CLICK, told["id"])
        await expect(seat.page.locator(f'[data-question="{asked.question_id}"]')).to_be_visible()
        assert await seat.page.evaluate(SHOWN) == [other]
        assert await seat.page.evaluate("window.own") == 0
        await seat.page.goto(f"{server.url}/healthz")
        await worker.evaluate(CLICK, "other")
        assert await worker.evaluate("self.went") == f"/#{told['route']}"


async def test_a_subscription_that_the_browser_changes_keeps_its_rule(server: Server, seats: Seats) -> None:
    """With what was set at it, for a new subscription of the worker's or of the browser's; not for another's."""
    api, browser = server.api(), Subscriber()
    async with receiving(lambda _: "201 Created") as service:
        seat = await subscribing(seats, server, browser, service)
        await turn(seat, "Notify me also while it is closed", ON)
        (made,) = await rules(api)
        await api.ok("DELETE", f"/v1/notifications/rules/{made['name']}")
        quiet = {"begin": "03:00", "end": "03:01", "zone": "Europe/Berlin"}
        body = {"name": made["name"], "kinds": ["question"], "quiet": quiet, "details": True}
        await api.ok("POST", "/v1/notifications/rules", {**body, "url": browser.address(service.url)})
        (first,) = await rules(api)
        key = (await seat.page.evaluate(KEPT))["applicationServerKey"]
        worker, _ = await worker_of(seat.page)
        before = service.url
        for other, is_given, used in (("/second", False, key), ("/third", True, None)):
            after: dict[str, Any] = {"endpoint": service.url + other, "keys": browser.keys}
            assert await within(worker.evaluate(CHANGE, [before, after, is_given])) == used
            (rule,) = await rules(api)
            assert rule == {**first, "name": rule["name"]}
            assert rule["name"] != first["name"]
            before = after["endpoint"]
        for unknown in (None, "https://push.example/of-nobody"):
            await within(worker.evaluate(CHANGE, [unknown, {**after, "endpoint": service.url + "/4"}, True]))
        assert await rules(api) == [rule]
        await api.submit(tool("ask_user", question="Which wall?"), final())
        (taken,) = await service.got(1)
        assert browser.opened(taken)["text"]


async def test_turning_it_off_and_signing_out_remove_the_rule(server: Server, seats: Seats) -> None:
    """And who signs in after somebody who did not sign out gets nothing of theirs, nor they on that device."""
    api = server.api()
    async with receiving(lambda _: "201 Created") as service:
        seat = await subscribing(seats, server, Subscriber(), service)
        await turn(seat, "Notify me also while it is closed", ON)
        turned = asyncio.Event()

        async def late(route: Route) -> None:
            answer = await route.fetch()
            await within(turned.wait())
            await route.fulfill(response=answer)

        await seat.page.route("**/v1/notifications/rules", late, times=1)
        await seat.page.reload()
        await seat.button("Notifications").click()
        await seat.button("Only while it is open").click()
        said = seat.page.get_by_role("dialog").get_by_role("status")
        await expect(said).to_have_text(OFF)
        # What the page read as it was opened is not how it stands now. It has taken it when a later answer is there.
        async with seat.page.expect_response("**/v1/notifications/rules"):
            turned.set()
        await seat.page.evaluate("fetch('/healthz').then((answer) => answer.text())")
        await expect(said).to_have_text(OFF)
        await seat.button("Close").click()
        assert (await rules(api), await seat.page.evaluate(KEPT)) == ([], None)
        await turn(seat, "Notify me also while it is closed", ON)
        assert len(await rules(api)) == 1
        await seat.button("Sign out").click()
        await expect(seat.page.get_by_label("Your token")).to_be_visible()
        assert (await rules(api), await seat.page.evaluate(KEPT)) == ([], None)
        await seat.sign_in(str(api.token))
        await turn(seat, "Notify me also while it is closed", ON)
        # Bob sees the rules of all people, and this is none of his.
        for name, role in (("bob", "admin"), ("sue", "reviewer")):
            person = await server.person(name, role)
            await seat.context.clear_cookies()
            await seat.page.reload()
            await seat.sign_in(str(person.token))
            await seat.page.wait_for_function(f"() => ({KEPT})() === null")
        await seat.go("approvals")
        await seat.button("Notifications").click()
        # The server refuses: only admins may use loopback.
        await seat.button("Notify me also while it is closed").click()
        await expect(seat.page.get_by_role("alert")).to_contain_text("Only admins")
        assert await seat.page.evaluate(KEPT) is None
        await seat.check_access("the notifications of this device")


@pytest.mark.parametrize(
    ("browser", "said"),
    [
        ("delete window.Notification", "This browser has no notifications."),
        (
            "Object.defineProperty(Notification, 'permission', { value: 'denied' })",
            "This browser blocks the notifications of this page; its settings for this site allow them.",
        ),
        ("delete window.PushManager", f"{OFF} This browser has no notifications of closed pages."),
        (
            "Object.defineProperty(window, 'isSecureContext', { value: false })",
            f"{OFF} For notifications while it is closed, open this page by https.",
        ),
    ],
)
async def test_where_it_is_not_possible_the_page_says_why(seats: Seats, browser: str, said: str) -> None:
    """One sentence, and no button that does nothing."""
    seat = await seats.open(token=None, fresh=True, permissions=["notifications"])
    await seat.context.add_init_script(browser)
    await seat.page.reload()
    await seat.sign_in(str(seat.server.api().token))
    await seat.go("approvals")
    await seat.button("Notifications").click()
    dialog = seat.page.get_by_role("dialog")
    await expect(dialog.get_by_role("status")).to_have_text(said)
    await expect(dialog.get_by_role("button")).to_have_text(["Close"])


async def test_a_browser_that_does_not_subscribe_is_said(seats: Seats, server: Server) -> None:
    """As a real one here, in a private window; nothing is left behind."""
    seat = await seats.open("approvals", fresh=True, permissions=["notifications"])
    await seat.button("Notifications").click()
    await seat.button("Notify me also while it is closed").click()
    await expect(seat.page.get_by_role("alert")).to_contain_text("The browser did not subscribe to notifications.")
    await expect(seat.page.get_by_role("dialog").get_by_role("status")).to_have_text(OFF)
    assert await rules(server.api()) == []
    assert all("incognito" in one for one in seat.complaints)
    seat.complaints.clear()
