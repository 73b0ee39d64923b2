"""Why a computer cannot connect is told in the same words by the client, by the orchestrator and by the page."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.connection_problems import TROUBLES, is_loopback, is_private, plain_http, port_of, told
from orchestrator.core.errors import InvalidRequest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN: list[dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "why.json").read_text("ascii"))
"""The Lua spec `why` reads the same."""


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['code']} at {case['url']}")
def test_the_orchestrator_has_the_words_of_the_client(case: dict[str, Any]) -> None:
    fault = told(case["code"], case["url"], said=case["filled"], remedy=case.get("server_remedy", ""))
    assert (fault.sentence, list(fault.remedy)) == (case["sentence"], case["remedy"])


def test_every_reason_has_a_golden_case() -> None:
    assert {case["code"] for case in GOLDEN} == set(TROUBLES)


def test_every_reason_stands_on_the_page_with_its_lines() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    for code, trouble in TROUBLES.items():
        assert f"### `{code}`\n" in page
        for line in trouble.remedy:
            shown = line.replace("{host}", "HOST").replace("{port}", "PORT").replace("{server}", "SERVER")
            assert f"\n{shown}\n" in page


def test_readme_leads_to_the_page() -> None:
    assert "(docs/troubleshooting.md)" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("host", "private", "loopback"),
    [
        ("127.0.0.1", True, True),
        ("::1", True, True),
        ("localhost", True, True),
        ("192.168.0.12", True, False),
        ("100.64.0.9", True, False),
        ("fd00::5", True, False),
        ("desk", True, False),
        ("desk.lan", True, False),
        ("8.8.8.8", False, False),
        ("farm.example.com", False, False),
    ],
)
def test_what_the_mod_refuses_by_default(host: str, private: bool, loopback: bool) -> None:
    assert (is_private(host), is_loopback(host)) == (private, loopback)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://192.168.0.12:8765", True),
        ("ws://desk:8765/computer", True),
        ("https://farm.example", False),
        ("http://127.0.0.1:8765", False),
        ("http://[::1]:8765", False),
    ],
)
def test_plain_http_is_one_sentence_with_what_to_do(url: str, said: bool) -> None:
    warning = plain_http(url)
    assert bool(warning) is said
    assert warning.count(". ") == 0
    assert not said or "`cc-orchestrator pair --pin`" in warning


def test_ports_that_an_address_leaves_out() -> None:
    assert [port_of(url) for url in ("http://a", "wss://a", "http://[::1]:8765", "ftp://a")] == [80, 443, 8765, 0]
    with pytest.raises(InvalidRequest):
        port_of("http://a:99999")
