"""Imported last by the process that stories are forked from, which imports nothing more."""

from tests.fork_server import settle_garbage

settle_garbage()
