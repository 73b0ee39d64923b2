"""Imported last by the process that all others are forked from: what it has imported is garbage of none of them."""

from tests.fork_server import settle_garbage

settle_garbage()
