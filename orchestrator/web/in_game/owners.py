"""For whom a player at a computer asks, with the rights that this person has now."""

from typing import Final

from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.core.ports import ComputerLine, Identity, TaskPersistenceManager
from orchestrator.core.task.items import AT_COMPUTER

_PAIR: Final = "Pair it again: `cc-orchestrator pair {computer}`, and type its line here."


async def person_at(store: TaskPersistenceManager, line: ComputerLine) -> Identity:
    """The person who paired the computer. Raises Unauthenticated, Forbidden: each says to pair again.

    Looked up anew for each request: who was revoked, or lost a role, asks no more.
    """
    pair = _PAIR.format(computer=line.computer)
    row = await store.find_token(line.fingerprint)
    if row is None or row.revoked or row.kind != "computer":
        raise Unauthenticated("The token of this computer is not good any more.", remedy=pair)
    if not row.owner:
        raise Forbidden("Nobody knows who paired this computer, so nobody can ask here.", remedy=pair)
    rows = [one for one in await store.list_tokens() if one.kind == "person" and one.name == row.owner]
    roles = tuple(dict.fromkeys(role for one in rows if not one.revoked for role in one.roles))
    if not roles:
        raise Forbidden(f"{row.owner}, who paired this computer, has no access any more.", remedy=pair)
    return Identity(kind="person", name=row.owner, roles=roles, auth=f"{AT_COMPUTER}{line.computer}")


def must_submit(person: Identity) -> None:
    """Raises Forbidden unless this person may submit tasks."""
    if not {"submitter", "admin"} & set(person.roles):
        raise Forbidden(
            f"{person.name}, who paired this computer, may not submit tasks.",
            remedy="It takes the role submitter: ask an admin.",
        )
