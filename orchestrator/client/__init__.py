"""The client of the endpoints: REST with a token, a task's events, the reviewers' socket."""

from orchestrator.client.client import PATIENCE_S, SILENCE_S, Attempts, Client, trusted
from orchestrator.client.streams import (
    COMMENT,
    HINTS,
    Back,
    Event,
    Hint,
    Lost,
    ServerRefused,
    ServerSent,
    ServerUnreachable,
    checked,
    hint_of,
    sent_in,
    unless_it_closed,
)

__all__ = [
    "COMMENT", "HINTS", "PATIENCE_S", "SILENCE_S", "Attempts", "Back", "Client", "Event", "Hint", "Lost",
    "ServerRefused", "ServerSent", "ServerUnreachable", "checked", "hint_of", "sent_in", "trusted", "unless_it_closed",
]  # fmt: skip
