"""The endpoints to groups, owners and freezes, and to what somebody may do themselves."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.core.approval.people import EVERYBODY, NO_GROUP, OF_GROUP, RIGHTS, Freeze, Group, Owner
from orchestrator.core.errors import Forbidden, InvalidRequest, NotFound
from orchestrator.core.ports import Identity, TaskRow
from orchestrator.core.task.states import TaskStatus
from orchestrator.core.task.system_facts import AwayValue, DirectoryChanged, FreezeValue, GroupValue, OwnerValue
from orchestrator.core.text.lookalikes import why_not
from orchestrator.core.wire.wire import ComputerId
from orchestrator.engine.directory import DirectoryKeeper
from orchestrator.engine.tasks import person
from orchestrator.history.class_export import archive
from orchestrator.web.answers.base import (
    AwayDone,
    FreezeAnswer,
    FreezeDone,
    FreezeEnded,
    FreezeList,
    GroupAnswer,
    GroupGone,
    GroupList,
    OwnerDone,
    WhoAmI,
)
from orchestrator.web.auth import check_name
from orchestrator.web.base import Room, no_computer, no_person
from orchestrator.web.bodies import AwayBody, FreezeBody, GroupBody, OwnerBody, UnfreezeBody, read_body, read_moment
from orchestrator.web.errors import redacted
from orchestrator.web.people import away_of

_OPEN: Final = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.PAUSED)
_MOST_OPEN: Final = 10_000


class DirectoryEndpoints(Room):
    """``/v1/whoami``, ``/v1/groups``, ``/v1/away``, ``/v1/freezes``, ``/v1/computers/{name}/owner``."""

    directory: DirectoryKeeper

    async def whoami(self, request: Request) -> WhoAmI:
        """``GET /v1/whoami``: the identity of the asker, and what they may do."""
        identity = await self.who(request, agents=True)
        rights = self.authorizer.holder(identity).rights
        present, now = self.directory.present, self.service.clock.now()
        person_ = present.person_of(identity.name)
        groups = present.groups_of(person_) - {NO_GROUP}
        freeze = present.frozen(person_)
        others = present.stood_in_for(identity.name, now) if identity.kind == "person" else ()
        shown = WhoAmI.made_from(
            identity,
            roles=sorted(identity.roles),
            rights=[one for one in RIGHTS if one in rights],
            groups=sorted(groups),
            owner=identity.owner or None,
            may=self.authorizer.deciders.told(
                kind=identity.kind, name=identity.name, roles=identity.roles, owner=identity.owner
            ),
            freeze=freeze and FreezeAnswer.made_from(freeze),
            away=away_of(present, identity.name, now),
            decides_for=sorted(name for name, _ in others),
        )
        return await redacted(shown)

    async def groups(self, request: Request) -> GroupList:
        """``GET /v1/groups``: the groups of the asker; all of them for an admin."""
        identity = await self.who(request, agents=True)
        holder = self.authorizer.holder(identity)
        present = self.directory.present
        own = present.groups_of(holder.name)
        shown = [
            GroupAnswer(
                name=name,
                # Others in a group are seen by those who may see their tasks.
                people=sorted(one for one in group.people if present.sees(holder, one)),
                computers=sorted(ComputerId(one) for one in group.computers),
            )
            for name, group in sorted(present.groups.items())
            if "everything" in holder.rights or name in own
        ]
        return GroupList(groups=shown)

    async def change_group(self, request: Request) -> GroupAnswer:
        """``POST /v1/groups/{group}``: add people and computers, or take them out; the first ones make the group."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        body = await read_body(request, GroupBody)
        name = request.path_params["group"]
        entry = f"group {name}"
        await self.directory.load()
        group = self.directory.present.groups.get(name)
        if group is None:
            if not (body.add_people or body.add_computers):
                raise _no_group(name)
            self._check_new(name)
        await self._check_known(body.add_people, body.add_computers)
        before = group or Group()
        people = sorted((before.people | {*body.add_people}) - {*body.remove_people})
        computers = sorted((before.computers | {*body.add_computers}) - {*body.remove_computers})
        value = GroupValue(people=tuple(people), computers=tuple(computers))
        fact = DirectoryChanged(about="group", name=name, value=value)
        await self._set(fact, identity, self.directory.number_of(entry))
        return GroupAnswer(name=name, people=people, computers=computers)

    async def remove_group(self, request: Request) -> GroupGone:
        """``DELETE /v1/groups/{group}``: its people are in it no more, and its computers belong to nobody."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        name = request.path_params["group"]
        await self.directory.load()
        if name not in self.directory.present.groups:
            raise _no_group(name)
        owned = sorted(one for one, owner in self.directory.present.owners.items() if owner.group == name)
        if owned:
            raise InvalidRequest(
                f"{', '.join(owned[:5])} belong{'s' if len(owned) == 1 else ''} to the group {name}.",
                remedy=f"Give each another owner first: `cc-orchestrator computers owner {owned[0]} PERSON`.",
            )
        await self._set(DirectoryChanged(about="group", name=name), identity, self.directory.number_of(f"group {name}"))
        return GroupGone(name=name)

    async def export_group(self, request: Request) -> Response:
        """``GET /v1/groups/{group}/export?since=``: what its people did, as a zip."""
        identity = await self.who(request)
        self.authorizer.must(identity, "audit")
        name, present = request.path_params["group"], self.directory.present
        holder = self.authorizer.holder(identity)
        if name not in present.groups or not ("everything" in holder.rights or name in present.groups_of(holder.name)):
            raise _no_group(name)
        people = {
            person: frozenset({person, *(one for one, owner in present.programs.items() if owner == person)})
            for person in present.groups[name].people
            if present.oversees(holder, person, "audit")
        }
        said = request.query_params.get("since")
        since = read_moment(said) if said else None
        made = await archive(self.service.store, name, people, since=since, now=self.service.clock.now())
        return Response(made, media_type="application/zip")

    async def freeze(self, request: Request) -> FreezeDone:
        """``POST /v1/freeze``: nothing of these people starts from now on, on any node."""
        identity = await self.who(request)
        self.authorizer.must(identity, "freeze")
        body = await read_body(request, FreezeBody)
        name = await self._to_freeze(identity, body)
        freeze = Freeze(name, identity.name, self.service.clock.now(), body.reason.strip())
        value = FreezeValue(by=freeze.by, reason=freeze.reason, at=freeze.at)
        fact = DirectoryChanged(about="freeze", name=name, value=value)
        await self._set(fact, identity, self.directory.number_of(f"freeze {name}"))
        await self.service.end_claims(person(identity))
        tasks = await self._tell_of(self.directory.present.frozen_users())
        return await redacted(FreezeDone.made_from(freeze, tasks=tasks))

    async def unfreeze(self, request: Request) -> FreezeEnded:
        """``POST /v1/unfreeze``: their tasks go on where they were."""
        identity = await self.who(request)
        self.authorizer.must(identity, "freeze")
        name = await self._to_freeze(identity, await read_body(request, UnfreezeBody))
        freeze = self.directory.present.freezes.get(name)
        own = freeze is not None and freeze.name == identity.name != freeze.by
        if own and "everything" not in self.authorizer.holder(identity).rights:
            raise Forbidden("Nobody ends their own freeze that somebody else set.", remedy="Ask an admin.")
        if freeze is not None:
            frozen = self.directory.present.frozen_users()
            # First: what waits could expire between the end of the freeze and this, also where the node is killed.
            await self._give_time_back(freeze, identity)
            fact = DirectoryChanged(about="freeze", name=name)
            await self._set(fact, identity, self.directory.number_of(f"freeze {name}"))
            await self._tell_of(frozen)
        whom = (freeze or Freeze(name, "", self.service.clock.now())).whom
        still = None if name == EVERYBODY or name.startswith(OF_GROUP) else self.directory.present.frozen(name)
        goes_on = None if still is None else FreezeAnswer.made_from(still)
        return await redacted(FreezeEnded(name=name, whom=whom, ended=freeze is not None, still=goes_on))

    async def freezes(self, request: Request) -> FreezeList:
        """``GET /v1/freezes``: those that the asker may end, and those that hold for them."""
        identity = await self.who(request, agents=True)
        holder, present = self.authorizer.holder(identity), self.directory.present
        own = {EVERYBODY, holder.name, *(f"{OF_GROUP}{one}" for one in present.groups_of(holder.name))}
        shown = [
            one for name, one in sorted(present.freezes.items()) if name in own or present.may_freeze(holder, name)
        ]
        return await redacted(FreezeList(freezes=[FreezeAnswer.made_from(one) for one in shown]))

    async def _to_freeze(self, identity: Identity, body: UnfreezeBody) -> str:
        """The name of a freeze. Raises InvalidRequest, NotFound for people out of reach, Forbidden for everybody."""
        if [body.person is not None, body.group is not None, body.everybody].count(True) != 1:
            raise InvalidRequest(
                "A freeze is of one person, one group, or everybody.", remedy="Name one of person, group, everybody."
            )
        await self.directory.load()
        name = body.person or (f"{OF_GROUP}{body.group}" if body.group else EVERYBODY)
        holder = self.authorizer.holder(identity)
        owner = self.directory.present.programs.get(name, "")
        if owner and self.directory.present.may_freeze(holder, owner):
            raise InvalidRequest(
                f"{name} is a program of {owner}, and people are frozen.",
                remedy=f"Name {owner}: what their programs do counts as theirs.",
            )
        reached = self.directory.present.may_freeze(holder, name)
        if name == EVERYBODY and not reached:
            raise Forbidden(f"{identity.name} may not freeze everybody.", remedy="Name a group of your own.")
        if body.person and (not reached or body.person not in self.directory.present.people):
            raise no_person(body.person)
        if body.group and (not reached or body.group not in self.directory.present.groups):
            raise _no_group(body.group)
        return name

    async def _give_time_back(self, freeze: Freeze, by: Identity) -> None:
        """Move the deadlines of what waits by the time of a freeze."""
        frozen = replace(self.directory.present, freezes={freeze.name: freeze}).frozen_users()
        for row in await self._open_tasks(frozen):
            await self.service.thaw(row.task_id, freeze.at, by)

    async def _tell_of(self, users: frozenset[str] | None) -> int:
        """Have pages look again at the open tasks of users; None: of all. How many there are."""
        rows = await self._open_tasks(users)
        for row in rows:
            self.service.bus.publish("tasks", {"task_id": row.task_id, "version": row.version})
        return len(rows)

    async def _open_tasks(self, users: frozenset[str] | None) -> list[TaskRow]:
        found = [await self.service.store.list_tasks(status=one, users=users, limit=_MOST_OPEN) for one in _OPEN]
        return [row for rows in found for row in rows]

    async def set_owner(self, request: Request) -> OwnerDone:
        """``POST /v1/computers/{name}/owner``: the person or the group that a computer belongs to from now on."""
        identity = await self.who(request)
        self.authorizer.must(identity, "everything")
        body = await read_body(request, OwnerBody)
        name = ComputerId(request.path_params["name"])
        if not await self.has_computer(name):
            raise no_computer(name)
        owner = Owner(body.person or "", body.group or "")
        await self.give(name, owner if owner != Owner() else None, identity)
        return OwnerDone(computer=name, person=body.person, group=body.group)

    async def go_away(self, request: Request) -> AwayDone:
        """``POST /v1/away``: another person decides for somebody until then, or nobody any more."""
        identity = await self.who(request)
        body = await read_body(request, AwayBody)
        name = body.person or identity.name
        if name != identity.name:
            self.authorizer.must(identity, "everything")
        await self._check_known([name, *([body.to] if body.to is not None else [])], ())
        await self.directory.load()
        number = self.directory.number_of(f"away {name}")
        if body.to is None:
            if number:
                await self._set(DirectoryChanged(about="away", name=name), identity, number)
            return AwayDone(person=name, to=None, until=None)
        if body.to == name:
            raise InvalidRequest("Nobody decides for themselves while they are away.", remedy="Name somebody else.")
        until = self.service.clock.now() + timedelta(seconds=body.seconds)
        fact = DirectoryChanged(about="away", name=name, value=AwayValue(to=body.to, until=until))
        await self._set(fact, identity, number)
        return AwayDone(person=name, to=body.to, until=until)

    async def give(self, computer: ComputerId, owner: Owner | None, by: Identity) -> None:
        """Give a computer to a person or a group; None: to nobody. Raises InvalidRequest, NotFound, Conflict."""
        await self.directory.load()
        if owner is not None and bool(owner.person) == bool(owner.group):
            raise InvalidRequest("A computer belongs to a person or to a group.", remedy="Name one of the two.")
        if owner is not None and owner.person:
            await self._check_known([owner.person], ())
        if owner is not None and owner.group and owner.group not in self.directory.present.groups:
            raise _no_group(owner.group)
        number = self.directory.number_of(f"owner {computer}")
        if owner is None and not number:
            return
        value = None if owner is None else OwnerValue(person=owner.person, group=owner.group)
        await self._set(DirectoryChanged(about="owner", name=computer, value=value), by, number)
        self.service.bus.publish("computers", {"computer": computer})

    def must_give(self, identity: Identity, owner: Owner) -> None:
        """Raises Forbidden unless somebody who pairs computers may give one to this owner."""
        holder, present = self.authorizer.holder(identity), self.directory.present
        if "everything" in holder.rights:
            return
        own_group = owner.group and owner.group in present.groups_of(holder.name)
        if not own_group and not (owner.person and present.oversees(holder, owner.person, "pair")):
            raise Forbidden(
                f"{identity.name} may not give a computer to {owner}.",
                remedy="Name a group of your own, or a person in it.",
            )

    async def _set(self, fact: DirectoryChanged, by: Identity, expected: int) -> None:
        note = self.service.draft(fact, person(by))
        await self.directory.set(note, self.service.bus, expected=expected)

    def _check_new(self, name: str) -> None:
        check_name(name)
        why = why_not(name, set(self.directory.present.groups))
        if why:
            raise InvalidRequest(why, remedy="Choose a name that nobody takes for another one.")

    async def _check_known(self, people: Sequence[str], computers: Sequence[str]) -> None:
        """Raises NotFound for a person or a computer that has no token."""
        rows = await self.service.store.list_tokens()
        has = {(row.kind, row.name) for row in rows if not row.revoked}
        for one in people:
            if ("person", one) not in has:
                raise no_person(one)
        for one in computers:
            if ("computer", one) not in has:
                raise no_computer(one)


def _no_group(name: str) -> NotFound:
    return NotFound(f"There is no group {name[:64]!r}.", remedy="`cc-orchestrator groups` lists them.")
