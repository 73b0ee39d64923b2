"""The commands about one's own PIN, which is typed in the game to review there."""

import sys

import typer

from orchestrator.terminal.cli.common import AsJson, DataDir, Url, client_of, print_json

pin_app = typer.Typer(no_args_is_help=True, help="The PIN by which you review in the game: set it, remove it.")


@pin_app.command("set", epilog="Example: cc-orchestrator pin set")
def pin_set(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Set the PIN that you type in the game for `cc review`: 6 to 12 digits.

    It is asked for twice and not shown; on a pipe it is the first line of standard input. The one before counts no
    more. The policy says at which computers a PIN counts (`in_game_review`).
    """
    if sys.stdin.isatty():
        pin = typer.prompt("PIN, 6 to 12 digits", hide_input=True, confirmation_prompt="The same again", err=True)
    else:
        pin = sys.stdin.readline().strip()
    with client_of(url, data_dir) as client:
        done = client.request("POST", "/v1/pin", {"pin": pin})
    print_json(done) if as_json else typer.echo("Your PIN is set.", err=True)


@pin_app.command("remove", epilog="Example: cc-orchestrator pin remove")
def pin_remove(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Remove your PIN: nobody reviews in the game by it any more."""
    with client_of(url, data_dir) as client:
        done = client.request("DELETE", "/v1/pin")
    print_json(done) if as_json else typer.echo("Your PIN is removed.", err=True)
