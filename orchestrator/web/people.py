"""The endpoints to tokens: who may come in."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.core.approval.rights import what_may
from orchestrator.core.errors import InvalidRequest
from orchestrator.core.ports import Identity
from orchestrator.core.task.system_facts import TokenIssued, TokenRevoked
from orchestrator.engine.tasks import person
from orchestrator.web.answers.base import TokenMade, TokensRevoked
from orchestrator.web.auth import issue_token, must_have
from orchestrator.web.base import Room
from orchestrator.web.bodies import TokenBody, read_body


class PeopleEndpoints(Room):
    """``/v1/tokens``."""

    async def add_token(self, request: Request) -> TokenMade:
        """``POST /v1/tokens``: shown once, kept as a hash."""
        identity = await self.who(request)
        must_have(identity, "admin")
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
        )
        self._computer_changed(body.kind, body.name)
        approvers = self.authorizer.approvers
        may = what_may(approvers, kind=body.kind, name=body.name, roles=body.roles, owner=owner)
        return TokenMade(kind=body.kind, name=body.name, token=token, may=may)

    async def tokens(self, request: Request) -> Response:
        """``GET /v1/tokens``: whom there are tokens for, never the tokens."""
        identity = await self.who(request)
        must_have(identity, "admin")
        rows = [row for row in await self.service.store.list_tokens() if row.kind != "pairing"]
        shown = [
            {
                "kind": row.kind,
                "name": row.name,
                "roles": [] if row.kind == "computer" else list(row.rights),
                "owner": row.owner or None,
                "created_at": row.created_at.isoformat() if row.created_at else None,
                "revoked": row.revoked,
                "yours": row.token_hash == identity.token_hash,
            }
            for row in rows
        ]
        return JSONResponse({"tokens": shown})

    async def revoke(self, request: Request) -> TokensRevoked:
        """``DELETE /v1/tokens/{kind}/{name}``: from now on."""
        identity = await self.who(request)
        must_have(identity, "admin")
        kind, name = request.path_params["kind"], request.path_params["name"]
        if kind == "person":
            # A program's tasks count as its owner's, so it ends with its owner; first, so that none outlives a crash.
            rows = await self.service.store.list_tokens()
            for program in {one.name for one in rows if one.kind == "agent" and one.owner == name and not one.revoked}:
                await self._revoked("agent", program, identity)
        return TokensRevoked(revoked=await self._revoked(kind, name, identity))

    async def _revoked(self, kind: str, name: str, by: Identity) -> int:
        """How many tokens of a holder were revoked."""
        note = self.service.draft(TokenRevoked(holder_kind=kind, name=name, count=0), person(by))
        count = await self.service.store.revoke_tokens(kind, name, note=note)
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
        rows = await self.service.store.list_tokens()
        held = [row for row in rows if (row.kind, row.name, row.revoked) == (body.kind, body.name, False)]
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
        """Who watches the list of computers reads it anew: it has those that have a token."""
        if kind == "computer":
            self.service.bus.publish("computers", {"computer": name})
