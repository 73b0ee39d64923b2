"""Authentication: bearer tokens, hashed at rest, and the right to decide."""

import hashlib
import secrets
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

from orchestrator.core.approval.deciders import Deciders, Saying
from orchestrator.core.approval.people import BUILT_IN_ROLES, Directory, Holder, Right
from orchestrator.core.approval.workflow import Step, Workflow
from orchestrator.core.errors import Forbidden, InvalidRequest, PolicyUnusable, Unauthenticated
from orchestrator.core.policy import ROLES, Policy, default_policy
from orchestrator.core.ports import Identity, Store, TokenRow
from orchestrator.core.task.facts import CallId
from orchestrator.core.task.items import Draft
from orchestrator.core.task.rehearsal import is_copy
from orchestrator.core.task.system_facts import LABELLED, OWNER, PAIRED
from orchestrator.core.task.task import AgentTask
from orchestrator.core.text.lookalikes import is_mark, why_not, why_not_beside
from orchestrator.core.values import ComputerId
from orchestrator.core.wire.cells import route_of

_NO_TOKEN = "Send a token: Authorization: Bearer TOKEN. The first start wrote one to admin.token in the data directory."


BY_PROVIDER: Final = "oidc:"
"""The text before the account of a provider, where others have the hash of a token. No token has a hash like it."""


def new_token(kind: str) -> str:
    """A token of 256 bits; its first letters say what it is for."""
    return f"cc{kind[0]}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """The part of a token that is kept: the same whatever cell it names."""
    return hashlib.sha256(route_of(token).bare.encode()).hexdigest()


def bearer_of(authorization: str | None) -> str:
    """The token of a header; empty: there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


@dataclass
class TokenAuthorizer:
    """Authenticates tokens of the store. ``approvers``: requester, not_requester, or ``role:NAME``."""

    store: Store
    approvers: str = "requester"
    guests: Mapping[str, Identity] = field(default_factory=dict)
    """By the hash of a token that no store keeps: the copy of a rehearsal that comes with it."""
    policy: Callable[[], Policy] = default_policy
    """The active policy: its roles, and whether it says ``self_approval``. Raises PolicyUnusable."""
    directory: Callable[[], Directory] = Directory
    """The groups and owners of now."""

    @property
    def deciders(self) -> Deciders:
        """The rule of who decides, as it is now; a policy that cannot be used gives no rights."""
        try:
            return self._deciders_of(self.policy())
        except PolicyUnusable:
            return Deciders(self.approvers, directory=self.directory())

    def _deciders_of(self, policy: Policy) -> Deciders:
        now = self.store.clock.now()
        directory, limits = self.directory(), policy.role_limits
        return Deciders(self.approvers, policy.self_approval, policy.role_rights, directory, now, limits)

    def too_few(self, policy: Policy, workflow: Workflow | None = None) -> tuple[str, ...]:
        """What a policy asks of more people than there are now, a sentence each; ``workflow``: only this one of it."""
        deciders, told = self._deciders_of(policy), dict[str, None]()
        quorum = Workflow(steps=(Step(count=policy.requests.approvals),))
        asked = (workflow,) if workflow is not None else (quorum, *(one.workflow for one in policy.approvals))
        for one in asked:
            told.update(dict.fromkeys(deciders.too_few(one)))
        return tuple(told)

    def role_names(self) -> tuple[str, ...]:
        """The roles that somebody may have now."""
        return (*BUILT_IN_ROLES, *self.deciders.roles)

    def holder(self, identity: Identity) -> Holder:
        """Somebody who asks, with their rights now; a program has the reach of its owner's own things."""
        rights = self.deciders.rights(identity.roles)
        if identity.kind == "agent":
            return Holder(identity.owner or identity.name, rights & {"submit"})
        return Holder(identity.name, rights)

    def must(self, identity: Identity, right: Right) -> None:
        """Raises Forbidden unless the person, or the program, has a right."""
        if identity.kind not in ("person", "agent") or right not in self.holder(identity).rights:
            deciders = self.deciders
            named = [one for one in self.role_names() if right in deciders.rights([one])]
            raise Forbidden(f"{identity.name} may not do this.", remedy=f"This needs the role {' or '.join(named)}.")

    def sees_user(self, identity: Identity, user: str) -> bool:
        """Whether somebody may look at tasks of a user: a person or a program."""
        directory = self.directory()
        person = directory.person_of(user)
        return user == identity.name or any(directory.sees(one, person) for one in self._faces(identity))

    def _faces(self, identity: Identity) -> Iterator[Holder]:
        """Somebody who asks, and the people who are away and for whom they decide now: they look as these do."""
        yield self.holder(identity)
        if identity.kind == "person":
            for person, roles in self.directory().stood_in_for(identity.name, self.store.clock.now()):
                yield Holder(person, self.deciders.rights(roles))

    def reaches(self, identity: Identity, computer: ComputerId) -> bool:
        """Whether somebody may look at a computer, and use it where they may submit."""
        return self.directory().reaches(self.holder(identity), computer)

    def owner_of(self, computer: ComputerId, paired_by: str) -> str:
        """The person for whom players ask at a computer; empty: nobody.

        ``paired_by``: the person of its token, who counts where nobody set an owner, or set a group that they are in.
        """
        directory = self.directory()
        owner = directory.owners.get(computer)
        if owner is None or (owner.group and owner.group in directory.groups_of(paired_by)):
            return paired_by
        return owner.person

    def visible_users(self, identity: Identity) -> frozenset[str] | None:
        """The users whose tasks somebody may look at; None: those of everybody."""
        found = {identity.name}
        for one in self._faces(identity):
            users = self.directory().visible_to(one)
            if users is None:
                return None
            found |= users
        return frozenset(found)

    async def authenticate(self, authorization: str | None) -> Identity:
        """The holder of a bearer token. Raises Unauthenticated."""
        token = bearer_of(authorization)
        if not token:
            raise Unauthenticated("Nobody said who is asking.", remedy=_NO_TOKEN)
        guest = self.guests.get(token_hash(token))
        if guest is not None:
            return guest
        row = await self.store.find_token(token_hash(token))
        unknown = Unauthenticated("This token is not known or was revoked.", remedy="Ask an admin for a new one.")
        if row is None or row.revoked or row.kind == "pairing":
            raise unknown
        if row.kind == "pin" or (row.kind == "computer" and is_copy(row.name)):
            raise unknown
        owner = row.owner if row.kind == "agent" else ""
        return Identity(kind=row.kind, name=row.name, roles=row.rights, token_hash=row.token_hash, owner=owner)

    async def present(self, identity: Identity) -> Identity:
        """The present identity of a person that came in by a token.

        Raises Unauthenticated when the token was revoked.
        """
        row = await self.store.find_token(identity.token_hash)
        if row is None or row.revoked:
            raise Unauthenticated("Your token was revoked.", remedy="Ask an admin for a new one.")
        return replace(identity, name=row.name, roles=row.rights)

    async def roles_of(self, name: str) -> tuple[str, ...]:
        """The roles of a person, by their tokens that were not revoked; empty: they have no access."""
        rows = await self.store.tokens_of("person", name)
        return tuple(dict.fromkeys(role for one in rows if not one.revoked for role in one.rights))

    def may_decide(self, identity: Identity, task: AgentTask, action: Saying = "approve") -> bool:
        """Whether somebody may say this to a task, by the setting ``approvers`` and the request's workflow."""
        return self.deciders.may_say(task, action, kind=identity.kind, name=identity.name, roles=identity.roles)

    def stands_for(self, identity: Identity, task: AgentTask, said: Mapping[CallId, Saying]) -> str | None:
        """For whom somebody may say all of this of the calls: empty for themselves, None: for nobody."""
        kind, name, roles = identity.kind, identity.name, identity.roles
        return self.deciders.stands_for(task, said, kind=kind, name=name, roles=roles)

    def concerns(self, identity: Identity, task: AgentTask) -> bool:
        """Whether a task's request is one of those that somebody reviews, now or at another step of it."""
        return self.deciders.concerns(task, kind=identity.kind, name=identity.name, roles=identity.roles)

    def alike(self, task: AgentTask) -> Callable[[Identity], Hashable]:
        """A function that tells who may do the same to a task now."""
        alike = self.deciders.alike(task)
        return lambda identity: alike(identity.kind, identity.name, identity.roles)

    def is_admin(self, identity: Identity) -> bool:
        """Whether no claim of somebody else holds them up."""
        return "everything" in self.holder(identity).rights

    async def still_decides(self, name: str, task: AgentTask, since: datetime, call_id: CallId) -> bool:
        """Whether a person may now approve a call of a task, by a token of that time that was not revoked."""
        rows = await self.store.tokens_of("person", name)
        held = [one for one in rows if not one.revoked and one.created_at is not None and one.created_at <= since]
        roles = {role for one in held for role in one.rights}
        said: dict[CallId, Saying] = {call_id: "approve"}
        return self.deciders.stands_for(task, said, kind="person", name=name, roles=roles) is not None

    def who_decides(self, task: AgentTask) -> str:
        """The people who may approve what a task asks, in words."""
        return self.deciders.of(task)

    def sets_apart(self, identity: Identity, task: AgentTask) -> bool:
        """Whether somebody may not approve because they, or a program of theirs, submitted the task."""
        return identity.kind == "person" and self.deciders.sets_apart(task, identity.name)


def check_approvers(approvers: str) -> str:
    """The setting as it is. Raises InvalidRequest when it has none of the three forms."""
    if approvers in ("requester", "not_requester", *(f"role:{role}" for role in ROLES)):
        return approvers
    raise InvalidRequest(
        f"approvers cannot be {approvers!r}.", remedy=f"Use requester, not_requester, or role: with {', '.join(ROLES)}."
    )


async def issue_token(
    store: Store,
    *,
    kind: Literal["person", "computer", "agent"],
    name: str,
    roles: tuple[str, ...],
    at: datetime,
    note: Draft | None = None,
    owner: str = "",
    paired_id: int | None = None,
    paired_label: str = "",
    known: Collection[str] = ROLES,
) -> str:
    """A new token for a person, a computer or an agent; only its hash is kept. Raises InvalidRequest.

    ``owner``: of a computer, the person for whom players ask there; empty: they cannot. Of an agent, the person whose
    tasks its tasks count as. ``known``: the roles that there are. ``paired_id``: of a computer, its own id in the
    game, ``paired_label``: its label then; ``note`` says both among the roles (:func:`paired_roles`). ``note`` is
    recorded in the same transaction; None: nobody is accountable, as in a test.
    """
    check_name(name)
    if kind != "computer":
        await check_unlike(store, kind, name)
    odd = sorted(set(roles) - set(known))
    fits = {"person": bool(roles), "computer": not roles, "agent": set(roles) <= {"submitter"}}
    if odd or not fits[kind]:
        people = f"People have some of {', '.join(known)}; computers none; an agent submitter or none."
        raise InvalidRequest("The roles do not fit.", remedy=people)
    token = new_token(kind)
    roles = (*roles, *paired_roles(paired_id, paired_label))
    if owner:
        roles = (*roles, OWNER + owner)
    await store.add_token(
        TokenRow(token_hash=token_hash(token), kind=kind, name=name, roles=roles, created_at=at), note=note
    )
    return token


def paired_roles(paired_id: int | None, label: str = "") -> tuple[str, ...]:
    """The part in the roles of a computer's token about its id and about the label that it had when it was paired."""
    known = () if paired_id is None else (f"{PAIRED}{paired_id}",)
    return (*known, f"{LABELLED}{label}") if label else known


async def check_unlike(store: Store, kind: Literal["person", "agent"], name: str) -> None:
    """Raises InvalidRequest where people would take the name for another one that was ever given, or that is reserved.

    A program and a person never have the same name: names tell who decided, and whose task it is.
    """
    other: Literal["person", "agent"] = "agent" if kind == "person" else "person"
    rows = await store.list_tokens()
    why = why_not(name, {row.name for row in rows if row.kind == kind})
    if why := why or why_not_beside(
        name, {row.name for row in rows if row.kind == other}, "program" if other == "agent" else other
    ):
        raise InvalidRequest(why, remedy="Choose a name that nobody takes for another one.")


def check_name(name: str) -> None:
    """Raises InvalidRequest unless a person or a computer may have this name.

    ``.`` and ``..`` are steps of a path in an address, and clients remove them before they ask.
    """
    if name in (".", ".."):
        raise InvalidRequest(
            f"Nobody can be named {name!r}, which is a way in an address.", remedy="Use a letter or a digit as well."
        )
    if not name or len(name) > 64 or not all(map(_fits_a_name, name)):
        raise InvalidRequest(f"The name {name[:64]!r} does not fit.", remedy="Use up to 64 letters, digits, - _ and .")


def _fits_a_name(char: str) -> bool:
    return char.isalnum() or char in "-_." or is_mark(char)
