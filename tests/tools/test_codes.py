"""The error codes of a computer: the page, the sentences for the model and the client name the same ones."""

import re

from orchestrator.tools.computer.commands import SENTENCES
from tests import ROOT

ROW = re.compile(r"^\| `([a-z_]+)` \| (?:[^|]+) \| (.+) \|$", re.MULTILINE)


def documented() -> dict[str, str]:
    """Each code of the page with its sentence."""
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    table = page.partition("what the model is told (`{shown}`")[2].partition("### 1.7")[0]
    return {code: sentence for code, sentence in ROW.findall(table) if code != "code"}


def test_the_page_has_each_code_with_its_sentence() -> None:
    """The table of docs/protocol.md is that of the code, word for word."""
    assert documented() == dict(SENTENCES)


def test_every_code_that_the_client_raises_is_in_the_table() -> None:
    """What a module of the client hands to `failure.raise` is a code of the page."""
    raised = set()
    for module in (ROOT / "cc_client" / "lua").glob("*.lua"):
        raised |= set(re.findall(r'failure\.raise\(\s*"([a-z_]+)"', module.read_text("ascii")))
    assert raised - set(SENTENCES) == set()
    assert {"no_such_peripheral", "no_space_for_safe_write", "bad_path", "stale"} <= raised
