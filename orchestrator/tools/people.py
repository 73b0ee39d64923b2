"""The tools that speak to people.

In a running task the actor turns them into items of the journal;
called by hand they only say what would happen.
"""

from orchestrator.tools.deps import CCAgentDeps


async def send_status(deps: CCAgentDeps, *, message: str) -> str:
    """Tell the user how it goes."""
    del deps, message
    return "Status sent."


async def ask_user(deps: CCAgentDeps, *, question: str) -> str:
    """Ask the user; in stub mode nobody answers."""
    del deps
    return f"Nobody is here to answer: {question}"
