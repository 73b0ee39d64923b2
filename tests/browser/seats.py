"""A person's browser in a test: a context of its own, what it asked for, and what it complained about."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect

from tests.story.harness import Server

PHONE = (390, 844)
DESKTOP = (1280, 800)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Whether the page is out of sight, as a browser says it."""
_EXPECTED = re.compile(r"Failed to load resource|WebSocket connection to .* failed|net::ERR_")
"""What a browser writes down itself when a server refuses or is away."""
_WATCH_CSP = """document.addEventListener("securitypolicyviolation",
    (event) => console.error("CSP", event.violatedDirective, event.blockedURI, event.sample));"""


@dataclass
class Seat:
    """One person's browser, with one page."""

    context: BrowserContext
    page: Page
    server: Server
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    async def go(self, place: str) -> None:
        """To a place in the page, such as ``tasks/t-1``."""
        await self.page.goto(f"{self.server.url}/#/{place}")

    async def sign_in(self, token: str) -> None:
        """With a token, as a person does."""
        await self.page.get_by_label("Your token").fill(token)
        await self.page.keyboard.press("Enter")
        await expect(self.page.locator(".connection.live")).to_be_visible()

    def button(self, name: str | re.Pattern[str], *, exact: bool = True) -> Locator:
        """A button by its name."""
        return self.page.get_by_role("button", name=name, exact=exact)

    def request(self, request_id: str = "") -> Locator:
        """The request that is shown, once it may be decided."""
        which = f'[data-request="{request_id}"]' if request_id else ""
        return self.page.locator(f'.request{which}[data-settled="true"]')

    async def told(self, outcome: Literal["done", "refused", "unsent"]) -> str:
        """What the page says became of a decision."""
        said = self.page.locator(f'[data-outcome="{outcome}"]').first
        await expect(said).to_be_visible()
        return await said.inner_text()

    async def check_access(self, of: str) -> None:
        """Nothing that axe would object to, in the light and in the dark, where only the colours are others."""
        await self._check(of, {"type": "tag", "values": RULES})
        await self.page.emulate_media(color_scheme="dark")
        await self._check(f"{of} in the dark", {"type": "rule", "values": ["color-contrast"]})
        await self.page.emulate_media(color_scheme="light")

    async def _check(self, of: str, only: dict[str, Any]) -> None:
        # The script is half a megabyte: it is given to a page once.
        axe = Axe("0") if await self.page.evaluate("typeof axe === 'object'") else Axe()
        found = await axe.run(self.page, options={"runOnly": only, "resultTypes": ["violations"]})
        assert found.violations_count == 0, f"{of}: {found.generate_report()}"


@dataclass
class Seats:
    """The browsers of one test."""

    browser: Browser
    server: Server
    within_ms: float
    _all: list[Seat] = field(default_factory=list)

    async def open(
        self,
        place: str = "tasks",
        *,
        token: str | None = "admin",
        size: tuple[int, int] = DESKTOP,
        **options: Any,
    ) -> Seat:
        """A new browser at a place; ``token`` None: nobody is signed in, ``admin``: the first one is."""
        width, height = size
        context = await self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce", **options
        )
        context.set_default_timeout(self.within_ms)
        expect.set_options(timeout=self.within_ms)
        await context.add_init_script(_WATCH_CSP)
        seat = Seat(context, await context.new_page(), self.server)
        self._all.append(seat)
        context.on("request", lambda request: seat.requests.append(request.url))
        seat.page.on("console", lambda message: _hear(seat, message))
        seat.page.on("pageerror", lambda error: seat.complaints.append(f"error: {error}"))
        seat.page.on("dialog", lambda dialog: seat.complaints.append(f"dialog: {dialog.message}"))
        await seat.go(place)
        if token is not None:
            await seat.sign_in(token if token != "admin" else str(self.server.api().token))
        return seat

    async def close(self) -> None:
        """Close all of them; fails where one complained, or asked another host for something."""
        for seat in self._all:
            await seat.context.close()
            assert seat.complaints == []
            foreign = [one for one in seat.requests if not _is_ours(one, seat.server.url)]
            assert foreign == [], "a request left the host"


def _is_ours(url: str, server: str) -> bool:
    return urlsplit(url).netloc == urlsplit(server).netloc or urlsplit(url).scheme in ("data", "blob")


def _hear(seat: Seat, message: ConsoleMessage) -> None:
    if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
        seat.complaints.append(f"{message.type}: {message.text}")
