"""The command line of one simulated computer."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

from cc_client.simulator.hardware import NEWEST, SIZES, read_version
from cc_client.simulator.rules import NetError, read_socket_url

DEFAULT_CAPACITY_BYTES: Final = 1_000_000
"""What a computer has in the mod's own settings."""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with 2 when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m cc_client.simulator",
        description="A simulated ComputerCraft computer: with the client on it, or with --bare as it comes.",
    )
    parser.add_argument("--url", help="the orchestrator, such as ws://127.0.0.1:8765/computer")
    parser.add_argument("--token", help="the computer's token; - reads it from the first line of standard input")
    parser.add_argument("--bare", action="store_true", help="install nothing: boot what is on the disk, as in the game")
    parser.add_argument("--shell", action="store_true", help="boot as in the game, with the client beside the shell")
    parser.add_argument("--disk", required=True, type=Path, help="host directory that is the computer's /")
    parser.add_argument("--id", type=int, default=0, help="os.getComputerID() (default 0)")
    parser.add_argument("--label", help="os.getComputerLabel() (default none)")
    parser.add_argument("--capacity", type=int, default=DEFAULT_CAPACITY_BYTES, help="bytes that fit on the disk")
    parser.add_argument("--family", choices=SIZES, default="advanced", help="the kind of computer (default advanced)")
    parser.add_argument("--cc-version", type=_version, default=NEWEST, help="the version of the mod that is played")
    parser.add_argument("--confined", action="store_true", help="start no other process, leave no core, bound files")
    _add_rules(parser)
    _add_player(parser)
    _add_world(parser)
    _add_faults(parser)
    arguments = parser.parse_args(argv)
    if not arguments.bare and (arguments.url is None or arguments.token is None):
        parser.error("--url and --token are needed, unless --bare leaves the computer as it comes")
    arguments.only = _only(parser, arguments)
    return arguments


def _only(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> SplitResult | None:
    """The one URL that may be reached; None: the rule is another."""
    if arguments.http_rule != "orchestrator":
        return None
    try:
        return read_socket_url(os.fsencode(arguments.url or ""))
    except NetError:
        parser.error("--http-rule orchestrator needs the URL of a WebSocket as --url")


def _version(text: str) -> tuple[int, int, int]:
    try:
        return read_version(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_rules(parser: argparse.ArgumentParser) -> None:
    rules = parser.add_argument_group("the Minecraft server's settings")
    rules.add_argument("--http", choices=("on", "off"), default="on", help="http.enabled (default on)")
    rules.add_argument("--websockets", choices=("on", "off"), default="on", help="http.websocket_enabled (default on)")
    rules.add_argument(
        "--http-rule",
        choices=("allow", "deny-private", "orchestrator"),
        default="allow",
        help="the mod's own default is deny-private; orchestrator permits WebSockets to --url, and nothing else",
    )
    rules.add_argument("--memory", type=int, metavar="BYTES", help="what Lua may take (default: no limit)")


def _add_player(parser: argparse.ArgumentParser) -> None:
    player = parser.add_argument_group("the player")
    player.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="TEXT",
        dest="typed",
        help="type a line when the computer asks for one; may be given several times",
    )
    player.add_argument(
        "--screen", metavar="FILE", help="keep the whole screen in a file, or - to print each new row of it"
    )


def _add_world(parser: argparse.ArgumentParser) -> None:
    world = parser.add_argument_group("the world")
    world.add_argument("--world", type=Path, metavar="FILE", help="JSON: peripherals, redstone, blocks, the turtle")
    world.add_argument(
        "--peripheral",
        action="append",
        default=[],
        metavar="NAME=TYPE[,KEY=VALUE…]",
        dest="peripherals",
        help="attach something, such as left=minecraft:chest,size=27,1=minecraft:coal*5",
    )
    world.add_argument("--latency", type=float, default=0.0, metavar="MS", help="what each frame of a socket takes")
    world.add_argument("--jitter", type=float, default=0.0, metavar="MS", help="what it takes more, at random")
    world.add_argument("--control", action="store_true", help="read commands from standard input (say help)")
    world.add_argument("--until-eof", action="store_true", help="end when standard input ends: with who started it")


def _add_faults(parser: argparse.ArgumentParser) -> None:
    faults = parser.add_argument_group("fault injection", "The process kills itself, as if the power went.")
    faults.add_argument("--die-at-change", type=int, metavar="N", help="before the Nth change of a file")
    faults.add_argument("--die-after-frame", type=int, metavar="N", help="after the Nth message was sent")
