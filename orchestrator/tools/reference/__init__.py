"""The offline reference of ComputerCraft: its Lua API by version, and a search over it.

The facts are in ``data/*.json``, one file for each part of the API, for people to read and fix.
"""

from orchestrator.tools.reference.answers import cc_docs_text, search_docs
from orchestrator.tools.reference.entries import Entry, Module, Version, modules, version_of
from orchestrator.tools.reference.words import NamesHere, names_for

__all__ = [
    "Entry",
    "Module",
    "NamesHere",
    "Version",
    "cc_docs_text",
    "modules",
    "names_for",
    "search_docs",
    "version_of",
]
