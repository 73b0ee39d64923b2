"""The client of the doors: REST with a token, a task's events, the reviewers' socket."""

from orchestrator.client.answers import ServerRefused, ServerUnreachable, checked, unless_it_closed
from orchestrator.client.attempts import PATIENCE_S, Attempts
from orchestrator.client.client import SILENCE_S, Client, trusted
from orchestrator.client.streams import COMMENT, HINTS, Back, Event, Hint, Lost, ServerSent, hint_of, sent_in

__all__ = [
    "COMMENT", "HINTS", "PATIENCE_S", "SILENCE_S", "Attempts", "Back", "Client", "Event", "Hint", "Lost",
    "ServerRefused", "ServerSent", "ServerUnreachable", "checked", "hint_of", "sent_in", "trusted", "unless_it_closed",
]  # fmt: skip
