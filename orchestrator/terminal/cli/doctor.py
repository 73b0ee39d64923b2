"""The command ``doctor``: looks at everything that has to be right, and says how to fix what is not."""

import os
import sys
from typing import Final

import typer

from orchestrator.core.text.visible import one_line
from orchestrator.terminal.cli.common import AsJson, DataDir, Url, print_json

_MARKS: Final = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def doctor(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Find what is wrong with the set-up, and how to fix it.

    It looks at the data directory, the store, the policy, the prompt, the port, the address that the game reaches, the
    model, and at who was turned away. It changes nothing, works without a server too, and ends with 1 if something
    failed.
    """
    from orchestrator.terminal.doctor import examine

    found = examine(url, data_dir, os.environ)
    if as_json:
        print_json([one.as_json() for one in found])
    else:
        for one in found:
            typer.echo(f"{_MARKS[one.state]}  {one.check:14}  {one_line(one.sentence, limit=600)}")
            for line in one.remedy:
                typer.echo(f"{'':22}{one_line(line, limit=600)}")
    sys.stdout.flush()
    if any(one.state == "fail" for one in found):
        raise typer.Exit(1)
