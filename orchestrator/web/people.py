"""The endpoints to tokens of people, programs and computers."""

import asyncio
import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.requests import Request

from orchestrator.core.approval.people import Directory
from orchestrator.core.audit.tables import CODE_LIFE
from orchestrator.core.connection_problems import TROUBLES
from orchestrator.core.errors import InvalidRequest, Unauthenticated
from orchestrator.core.ports import Identity, TokenRow
from orchestrator.core.task.items import SYSTEM, Actor, Draft
from orchestrator.core.task.system_facts import DirectoryChanged, TokenIssued, TokenRevoked
from orchestrator.core.wire.cells import named
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.directory import SUBJECT as DIRECTORY
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.tasks import TaskService, person
from orchestrator.web.answers.base import AwayAnswer, TokenAnswer, TokenList, TokenMade, TokensRevoked
from orchestrator.web.auth import check_name, issue_token, paired_roles, token_hash
from orchestrator.web.base import Room
from orchestrator.web.bodies import TokenBody, read_body
from orchestrator.web.peers import Tries, counted_as

# -- The endpoints to tokens: who may come in --------------------------------------------


def away_of(directory: Directory, person_: str, now: datetime) -> AwayAnswer | None:
    """Who decides for a person who is away now; None: they are here."""
    away = directory.away.get(person_)
    return AwayAnswer.made_from(away) if away is not None and now < away.until else None


class PeopleEndpoints(Room):
    """``/v1/tokens``."""

    directory: DirectoryKeeper
    cell: str
    """The name of this server's cell; empty: there is one cell."""

    async def add_token(self, request: Request) -> TokenMade:
        """``POST /v1/tokens``: shown once, kept as a hash."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        body = await read_body(request, TokenBody)
        owner = await self._owner(body, identity)
        await self._check_first(body, owner)
        issued = TokenIssued(holder_kind=body.kind, name=body.name, roles=body.roles, owner=owner)
        token = await issue_token(
            self.service.store,
            kind=body.kind,
            name=body.name,
            roles=body.roles,
            at=self.service.clock.now(),
            note=self.service.draft(issued, person(identity)),
            owner=owner,
            known=self.authorizer.role_names(),
        )
        self._computer_changed(body.kind, body.name)
        await self.people_changed()
        may = self.authorizer.deciders.told(kind=body.kind, name=body.name, roles=body.roles, owner=owner)
        shown = named(token, self.cell) if body.kind == "computer" else token
        return TokenMade(kind=body.kind, name=body.name, token=shown, may=may)

    async def tokens(self, request: Request) -> TokenList:
        """``GET /v1/tokens``: whom there are tokens for, never the tokens."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        rows = [row for row in await self.service.store.list_tokens() if row.kind not in ("pairing", "pin")]
        now = self.service.clock.now()
        shown = [
            TokenAnswer.made_from(
                row,
                roles=[] if row.kind == "computer" else row.rights,
                owner=row.owner or None,
                yours=row.token_hash == identity.token_hash,
                away=away_of(self.directory.present, row.name, now) if row.kind == "person" else None,
            )
            for row in rows
        ]
        return TokenList(tokens=shown)

    async def revoke(self, request: Request) -> TokensRevoked:
        """``DELETE /v1/tokens/{kind}/{name}``: from now on."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        kind, name = request.path_params["kind"], request.path_params["name"]
        if kind == "person":
            return TokensRevoked(revoked=await self.revoke_person(name, person(identity)))
        return TokensRevoked(revoked=await self._revoked(kind, name, person(identity)))

    async def revoke_person(
        self, name: str, by: Actor, *, programs: bool = True, then: tuple[TokenRow, Draft] | None = None
    ) -> int:
        """Revoke all tokens of a person, and those of their programs; how many of their own there were.

        ``then``: the token that they have from then on, with its note, in the same write as the revocation of theirs.
        """
        if programs:
            # A program's tasks count as its owner's, so it ends with its owner; first, so that none outlives a crash.
            rows = await self.service.store.list_tokens()
            for program in {one.name for one in rows if one.kind == "agent" and one.owner == name and not one.revoked}:
                await self._revoked("agent", program, by)
            # Somebody else may get the name.
            await self._revoked("pin", name, by)
            if name in self.directory.present.away:
                number = self.directory.number_of(f"away {name}")
                back = self.service.draft(DirectoryChanged(about="away", name=name), by)
                await self.directory.set(back, self.service.bus, expected=number)
        count = await self._revoked("person", name, by, then)
        await self.people_changed()
        await self.service.end_claims(by, revoked=name)
        return count

    async def people_changed(self) -> None:
        """Know at once, and let the other nodes know, the people and programs that have tokens."""
        await self.directory.load()
        self.service.bus.publish(DIRECTORY, {})

    async def _revoked(self, kind: str, name: str, by: Actor, then: tuple[TokenRow, Draft] | None = None) -> int:
        """How many tokens of a holder were revoked."""
        note = self.service.draft(TokenRevoked(holder_kind=kind, name=name, count=0), by)
        count = await self.service.store.revoke_tokens(kind, name, note=note, then=then)
        await self.sockets.hang_up(kind, name)
        self._computer_changed(kind, name)
        return count

    async def _owner(self, body: TokenBody, identity: Identity) -> str:
        """To whom the token's holder belongs; empty: a person. Raises InvalidRequest."""
        if body.owner is None:
            return "" if body.kind == "person" else identity.name
        if body.kind != "agent":
            raise InvalidRequest(f"A {body.kind} has no owner to name.", remedy="Leave owner out.")
        rows = await self.service.store.list_tokens()
        if not any(one.kind == "person" and one.name == body.owner and not one.revoked for one in rows):
            raise InvalidRequest(
                f"There is no person {body.owner[:64]!r} to own it.",
                remedy="Name one of `people list`, or leave it out.",
            )
        return body.owner

    async def _check_first(self, body: TokenBody, owner: str) -> None:
        """Raises InvalidRequest where a person or an agent has a token with other rights.

        A second token with other roles would leave the rights of the first one.
        """
        held = [row for row in await self.service.store.tokens_of(body.kind, body.name) if not row.revoked]
        asked = (set(body.roles), owner)
        if body.kind == "computer" or all((set(row.rights), row.owner) == asked for row in held):
            return
        roles = ", ".join(sorted({role for row in held for role in row.rights})) or "none"
        agent = " --agent" if body.kind == "agent" else ""
        owned = f" and the owner {held[-1].owner}" if held[-1].owner else ""
        raise InvalidRequest(
            f"{body.name} has a token already, with the roles {roles}{owned}.",
            remedy=f"To change that, say `people revoke {body.name}{agent}` first. One more token has the same roles"
            " and the same owner.",
        )

    def _computer_changed(self, kind: str, name: str) -> None:
        """A page that watches the list of computers reads it again: it has those that have a token."""
        if kind == "computer":
            self.service.bus.publish("computers", {"computer": name})


# -- Pairing: a code that a person types into a computer, and that becomes the computer's token, once
#
# Theory. A code is 40 bits, lives for 15 minutes and works once; of it only a hash is kept, as a token row of the
# kind ``pairing``. Using it up is revoking that row: of two who try, one is told 1. All computers of one
# Minecraft server have one address, and any of them can say any id. So wrong codes are counted for each computer
# and for each address, and after too many a code is looked at only after a pause: a right one is still taken, and
# with ``EACH`` connections an address makes 512 guesses a second, half a million of 2^40 while a code lives. One
# code that is sent again and again is not a guess, and is bounded for itself.

MAX_LABEL_CHARS: Final = 32
"""The most that the game takes."""
MOST_OF_ADDRESS: Final = 100
"""Wrong codes of all computers behind one address within a minute, before its codes have to wait."""
MOST_OF_CODE: Final = 30
"""Times that one code is looked at within a minute, from all senders together."""
SLOW_S: Final = 0.25
"""How long a code waits then."""
NAMING: Final = "naming"
"""The singleton job that gives a name: of two requests at two nodes, one comes after the other."""
NAMING_S: Final = 10.0
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""32 signs without I, L, O and U, so that no two look alike."""
_LOOKS_LIKE: Final = str.maketrans("OIL", "011")


class CodeUnknown(Unauthenticated):
    """A pairing code that was never made here."""

    code = "code_unknown"


class CodeUsed(Unauthenticated):
    """A pairing code that a computer has used."""

    code = "code_used"


class CodeExpired(Unauthenticated):
    """A pairing code that nobody used in time."""

    code = "code_expired"


@dataclass(frozen=True)
class Pairing:
    """A new code."""

    code: str
    expires_at: datetime


@dataclass(frozen=True)
class Paired:
    """The result of a code."""

    computer: str
    token: str
    label: str
    """The label that the computer gets if it has none; empty: none."""
    replaced: bool
    """Whether another computer may have had this name until now."""


class Pairings:
    """Makes codes and turns each into a computer's token once."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._store = service.store
        again = "type the code again or make a new one"
        self._of_address = Tries("codes", again, most=MOST_OF_ADDRESS)
        self._of_computer = Tries("codes", again, "this computer")
        self._of_code = Tries("tries", again, "computers that sent this code", MOST_OF_CODE)
        self._naming = asyncio.Lock()
        """Two computers that pair here at once are named one after the other."""

    async def make(self, computer: str, label: str, at: datetime, *, owner: str = "", by: Actor = SYSTEM) -> Pairing:
        """A new code; ``computer`` empty: it will be named by its id. Raises InvalidRequest.

        ``owner``: the person who makes it; a player at the computer asks as this person. Empty: players cannot ask
        there. ``by``: how that was proved, for the audit.
        """
        if computer:
            check_name(computer)
        _check_label(label)
        code = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        name, roles = "p-" + secrets.token_hex(8), (computer, label, owner)
        # A code that nobody is said to have made lets a computer in until it is verified: so it has an item, too.
        issued = self._service.draft(TokenIssued(holder_kind="pairing", name=name, roles=roles), by)._replace(at=at)
        row = TokenRow(token_hash=_hash(code), kind="pairing", name=name, roles=roles, created_at=at)
        await self._store.add_token(row, note=issued)
        return Pairing(f"{code[:4]}-{code[4:]}", at + CODE_LIFE)

    async def use(
        self, code: str, *, computer_id: int, peer: str, at: datetime, was: str = "", has: str = ""
    ) -> Paired:
        """The token of a code. Raises CodeUnknown, CodeUsed, CodeExpired, TooManyTries.

        ``was``: the token that the computer has from an earlier pairing; where the code names no computer, it stays
        the computer that it is. With a copied folder the token of another comes: that one keeps its name. ``has``: the
        label that it has; rules by label look at it.
        """
        now = asyncio.get_running_loop().time()
        hashed, address = _hash(_read(code)), counted_as(peer)
        computer = f"{address} {computer_id}"
        self._of_code.count(hashed, now)
        if self._of_address.full(address, now) or self._of_computer.full(computer, now):
            await asyncio.sleep(SLOW_S)
        row = await self._store.find_token(hashed)
        if row is None or row.kind != "pairing":
            self._of_computer.count(computer, now)
            self._of_address.count(address, now)
            raise _refusal(CodeUnknown)
        await self._use_up(row, at)
        chosen, label, *_ = row.roles
        async with self._naming, self._service.duties.held(NAMING, NAMING_S):
            name = chosen or await self._name_of(was, computer_id)
            paired = Actor(kind="computer", id=name or str(computer_id), auth="pairing")
            revoked = self._service.draft(TokenRevoked(holder_kind="computer", name=name, count=0), paired)
            replaced = bool(name) and await self._store.revoke_tokens("computer", name, note=revoked) > 0
            name = name or await self._free_name(computer_id)
            roles = paired_roles(computer_id, has)
            fact = TokenIssued(holder_kind="computer", name=name, roles=roles, owner=row.owner)
            token = await issue_token(
                self._store,
                kind="computer",
                name=name,
                roles=(),
                at=at,
                note=self._service.draft(fact, paired),
                owner=row.owner,
                paired_id=computer_id,
                paired_label=has,
            )
        return Paired(name, token, label, replaced)

    async def _use_up(self, row: TokenRow, at: datetime) -> None:
        """Use a code, once. Raises CodeUsed, CodeExpired."""
        if not row.revoked and (row.created_at is None or at - row.created_at >= CODE_LIFE):
            raise _refusal(CodeExpired)
        used = TokenRevoked(holder_kind="pairing", name=row.name, count=1)
        note = self._service.draft(used, Actor(kind="computer", id=row.roles[0], auth="pairing"))
        if row.revoked or await self._store.revoke_tokens("pairing", row.name, note=note) != 1:
            raise _refusal(CodeUsed)

    async def _name_of(self, token: str, computer_id: int) -> str:
        """The computer that holds a token; empty: none does, or another one of which this is a copy."""
        row = await self._store.find_token(token_hash(token)) if token else None
        if row is None or row.kind != "computer" or row.revoked:
            return ""
        record = await self._store.computer(ComputerId(row.name))
        was_welcome = record.known is not None and record.token in {"", row.token_hash}
        genuine = record.known.computer_id if record.known is not None and was_welcome else row.paired_id
        return row.name if genuine in {None, computer_id} else ""

    async def _free_name(self, computer_id: int) -> str:
        """The id, or the id and a number, that no computer has a token for."""
        rows = await self._store.list_tokens()
        taken = {row.name for row in rows if row.kind == "computer" and not row.revoked}
        names = (str(computer_id) if n == 1 else f"{computer_id}-{n}" for n in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)


def _check_label(label: str) -> None:
    """Raises InvalidRequest for what the game does not keep; a line feed would break the installer's record."""
    if len(label) > MAX_LABEL_CHARS or not (label.isascii() and label.isprintable()):
        raise InvalidRequest(
            f"The label {label[:64]!r} does not fit.",
            remedy=f"Use up to {MAX_LABEL_CHARS} letters, digits and signs of ASCII, all on one line.",
        )


def _refusal(kind: type[Unauthenticated]) -> Unauthenticated:
    trouble = TROUBLES[kind.code]
    return kind(trouble.sentence, remedy=" ".join(trouble.remedy))


def _read(typed: str) -> str:
    """A code as typed: letter case, blanks and dashes do not matter, nor do signs that look alike."""
    return "".join(typed.upper().split()).replace("-", "").translate(_LOOKS_LIKE)


def _hash(code: str) -> str:
    # Marked, so that a code is never the hash of a bearer token.
    return hashlib.sha256(f"pairing {code}".encode()).hexdigest()
