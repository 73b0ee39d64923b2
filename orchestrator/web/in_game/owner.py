"""The person for whom players ask at a computer."""

from orchestrator.core.errors import Forbidden, Unauthenticated
from orchestrator.core.ports import ComputerLine, TokenRow
from orchestrator.web.auth import TokenAuthorizer


async def token_at(authorizer: TokenAuthorizer, line: ComputerLine) -> TokenRow:
    """The token of a computer as it is now. Raises Unauthenticated."""
    row = await authorizer.store.find_token(line.fingerprint)
    if row is None or row.revoked or row.kind != "computer":
        raise Unauthenticated("The token of this computer is not good any more.", remedy=pair_again(line.computer))
    return row


def owner_at(authorizer: TokenAuthorizer, line: ComputerLine, row: TokenRow) -> str:
    """The name of the person to whom the computer belongs, or who paired it. ``row``: its token. Raises Forbidden."""
    owner = authorizer.owner_of(line.computer, row.owner)
    if not owner:
        raise Forbidden(
            "Nobody knows who paired this computer, so nobody can ask here.", remedy=pair_again(line.computer)
        )
    return owner


def pair_again(computer: str) -> str:
    """The remedy where a computer's token or owner does not count any more."""
    return f"Pair it again: `cc-orchestrator pair {computer}`, and type its line here."
