"""A person's browser in a test: a context of its own, what it asked for, and what it complained about."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Error, Locator, Page, Request, expect

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
    is_kept: bool
    """Whether the next test uses the page, too."""
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Note what the page asks for, and what it complains about."""
        self.context.on("request", self._asks)
        self.page.on("console", self._says)
        self.page.on("pageerror", self._fails)
        self.page.on("dialog", self._interrupts)

    def listen_no_more(self) -> None:
        """What it does from now on is for another."""
        self.context.remove_listener("request", self._asks)
        self.page.remove_listener("console", self._says)
        self.page.remove_listener("pageerror", self._fails)
        self.page.remove_listener("dialog", self._interrupts)

    def _asks(self, request: Request) -> None:
        self.requests.append(request.url)

    def _says(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            self.complaints.append(f"{message.type}: {message.text}")

    def _fails(self, error: Error) -> None:
        self.complaints.append(f"error: {error}")

    def _interrupts(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")

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


class Pages:
    """The pages of one Chromium; one of them serves one test after the other.

    In a new page Chromium fetches and compiles all modules of the console anew, which is half of what a test needs.
    """

    def __init__(self, browser: Browser, within_ms: float) -> None:
        self._browser, self._within_ms = browser, within_ms
        self._kept: Page | None = None

    async def take(self, size: tuple[int, int], *, fresh: bool, **options: Any) -> Page:
        """The one that is kept, unless it is taken, or must be ``fresh``, or has options; else a new one."""
        page, width, height = self._kept, *size
        if page is not None and not fresh and not options:
            self._kept = None
            await page.set_viewport_size({"width": width, "height": height})
            return page
        context = await self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce", **options
        )
        context.set_default_timeout(self._within_ms)
        expect.set_options(timeout=self._within_ms)
        await context.add_init_script(_WATCH_CSP)
        return await context.new_page()

    async def give_back(self, page: Page, url: str) -> None:
        """Empty it for the next test; close it where there is one already, or where its server is gone."""
        context = page.context
        if self._kept is not None:
            await context.close()
            return
        try:
            for other in context.pages:
                if other is not page:
                    await other.close()
            await context.unroute_all()
            await page.unroute_all()
            await context.set_offline(False)
            # A place of the same server without a script, which could keep something as it goes.
            await page.goto(f"{url}/healthz")
            await page.evaluate("localStorage.clear(); sessionStorage.clear()")
            await context.clear_cookies()
            await page.emulate_media(color_scheme="light")
            await page.goto("about:blank")
        except Error:
            await context.close()
        else:
            self._kept = page


@dataclass
class Seats:
    """The browsers of one test."""

    pages: Pages
    server: Server
    within_ms: float
    _all: list[Seat] = field(default_factory=list)

    async def open(
        self,
        place: str = "tasks",
        *,
        token: str | None = "admin",
        size: tuple[int, int] = DESKTOP,
        fresh: bool = False,
        **options: Any,
    ) -> Seat:
        """A browser at a place; ``token`` None: nobody is signed in, ``admin``: the first one is.

        ``fresh``: a new one, which no later test uses, for what cannot be taken back: its clock, or scripts in it.
        """
        page = await self.pages.take(size, fresh=fresh, **options)
        seat = Seat(page.context, page, self.server, is_kept=not fresh and not options)
        self._all.append(seat)
        seat.listen()
        await seat.go(place)
        if token is not None:
            await seat.sign_in(token if token != "admin" else str(self.server.api().token))
        return seat

    async def close(self) -> None:
        """Leave all of them; fails where one complained, or asked another host for something."""
        for seat in self._all:
            if seat.is_kept:
                await self.pages.give_back(seat.page, seat.server.url)
            else:
                await seat.context.close()
            seat.listen_no_more()
            assert seat.complaints == [], "\n".join(seat.complaints)
            foreign = [one for one in seat.requests if not _is_ours(one, seat.server.url)]
            assert foreign == [], "a request left the host"


def _is_ours(url: str, server: str) -> bool:
    return urlsplit(url).netloc == urlsplit(server).netloc or urlsplit(url).scheme in ("data", "blob")
