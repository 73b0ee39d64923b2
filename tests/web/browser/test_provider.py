"""Signing in with a provider in a real browser, for which the provider is another site."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.harness.oidc_provider import oidc_provider
from tests.web.browser.conftest import WITHIN_MS
from tests.web.test_oidc import with_provider

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_signs_in_with_the_provider_and_comes_back(chromium: Browser, tmp_path: Path) -> None:
    """To the place where they were; a refusal is a page that leads back, and signing out offers the provider again."""
    async with oidc_provider("localhost") as provider, with_provider(provider, tmp_path) as server:
        context = await chromium.new_context()
        context.set_default_timeout(WITHIN_MS)
        page = await context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        provider.person["groups"] = []
        await page.goto(f"{server.url}/#/tasks?status=Failed")
        await page.get_by_role("button", name="Sign in with localhost").click()
        await page.get_by_role("button", name="Continue as ann").click()
        await expect(page.get_by_role("alert")).to_contain_text("no role here")
        assert await context.cookies() == []
        provider.person["groups"] = ["teachers"]
        await page.get_by_role("link", name="Back to the sign-in").click()
        await page.get_by_role("button", name="Sign in with localhost").click()
        await page.get_by_role("button", name="Continue as ann").click()
        await expect(page.locator(".connection.live")).to_be_visible()
        await expect(page.get_by_text("None of these")).to_be_visible()
        assert page.url == f"{server.url}/#/tasks?status=Failed"
        (cookie,) = await context.cookies()
        assert (cookie.get("name"), cookie.get("httpOnly"), cookie.get("sameSite")) == ("cc_session", True, "Strict")
        await page.reload()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("button", name="Sign in with localhost")).to_be_visible()
        await expect(page.get_by_label("Your token")).to_be_visible()
        assert complaints == []
        await context.close()
