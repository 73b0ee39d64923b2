"""Roles, groups and owners: the rights of a person, and whose tasks and computers they reach.

Theory. A role is a set of rights. The rights say what somebody may do, and the groups say to whose things. Everybody
reaches their own things. A right of a role reaches the things of the people who share a group with its holder; people
who are in no group share one without a name, so that an installation without groups works as one team. The right
``everything`` reaches all. One class answers both questions, for every endpoint, socket, stream and command.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Final, Literal, get_args

from orchestrator.core.errors import NotFound
from orchestrator.core.values import ComputerId, immutable

Right = Literal["view", "submit", "decide", "freeze", "pair", "audit", "everything"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
"""All rights, in the order in which they are told."""

TOLD_RIGHTS: Final[Mapping[Right, str]] = {
    "view": "see the tasks and computers of their groups",
    "submit": "submit tasks",
    "decide": "decide what tasks of their groups ask",
    "freeze": "freeze and unfreeze people of their groups",
    "pair": "pair computers",
    "audit": "read the audit of their groups",
    "everything": "do everything that there is to do",
}
"""What each right lets somebody do, as words that end a sentence."""

BUILT_IN_ROLES: Final[Mapping[str, frozenset[Right]]] = {
    "viewer": frozenset({"view"}),
    "submitter": frozenset({"submit"}),
    "reviewer": frozenset({"view", "decide", "audit"}),
    "admin": frozenset(RIGHTS),
}
"""The roles that every installation has. A policy may add others, and never changes these."""


class Unseen(NotFound):
    """A thing that there is and that the asker may not see: told as one that there is not, and written down."""


NO_GROUP: Final = ""
"""The group of those who are in none."""


def rights_of(roles: Iterable[str], custom: Mapping[str, Collection[Right]]) -> frozenset[Right]:
    """The rights of somebody with these roles; a role that is not known gives none. ``custom``: those of the policy."""
    found: set[Right] = set()
    for role in roles:
        found.update(BUILT_IN_ROLES.get(role) or custom.get(role, ()))
    return frozenset(found)


@immutable
class Holder:
    """Somebody who asks, as far as their reach depends on it. Of a program: its owner, who it works for."""

    name: str
    rights: frozenset[Right]


@immutable
class Group:
    """People who work together, and the computers that all of them may use."""

    people: frozenset[str] = frozenset()
    computers: frozenset[str] = frozenset()


@immutable
class Owner:
    """The person or the group that a computer belongs to; exactly one of the two is named."""

    person: str = ""
    group: str = ""

    def __str__(self) -> str:
        return self.person or f"group {self.group}"


EVERYBODY: Final = "*"
"""The name of a freeze of all people."""
OF_GROUP: Final = "group:"
"""The text before a group's name where a person's name may stand as well."""


@immutable
class Freeze:
    """Nothing of some people starts until somebody ends this."""

    name: str
    """A person, ``group:NAME``, or EVERYBODY."""
    by: str
    at: datetime
    reason: str = ""

    def __str__(self) -> str:
        # Sentences go on behind it: a full stop of the reason would be a second one.
        reason = self.reason.rstrip(" .")
        return f"Frozen by {self.by}: {reason}" if reason else f"Frozen by {self.by}"

    @property
    def whom(self) -> str:
        """The frozen people, in words."""
        if self.name == EVERYBODY:
            return "everybody"
        is_group = self.name.startswith(OF_GROUP)
        return f"group {self.name.removeprefix(OF_GROUP)}" if is_group else self.name


@immutable
class Away:
    """Somebody is away, and until then another person decides for them."""

    to: str
    until: datetime


@immutable
class Directory:
    """The groups, owners and freezes of an installation, as they are at one moment."""

    groups: Mapping[str, Group] = field(default_factory=dict)
    owners: Mapping[ComputerId, Owner] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    """The owner of each program; empty: nobody wrote it down."""
    people: frozenset[str] = frozenset()
    """Everybody who was ever given a token."""
    roles: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The present roles of people with a token."""
    away: Mapping[str, Away] = field(default_factory=dict)
    freezes: Mapping[str, Freeze] = field(default_factory=dict)
    """Each by its name."""

    def stood_in_for(self, name: str, now: datetime) -> Iterator[tuple[str, frozenset[str]]]:
        """The people who are away and for whom somebody decides now, with their roles; nobody whose token ended."""
        for person, away in self.away.items():
            if away.to == name and now < away.until and person in self.roles:
                yield person, self.roles[person]

    def frozen(self, user: str) -> Freeze | None:
        """The freeze that holds for a person, or for a program by its owner; None: they are free."""
        if not self.freezes:
            return None
        person = self.person_of(user)
        names = (EVERYBODY, person, *(f"{OF_GROUP}{one}" for one in sorted(self.groups_of(person))))
        return next((self.freezes[name] for name in names if name in self.freezes), None)

    def frozen_users(self) -> frozenset[str] | None:
        """The people and programs for whom a freeze holds; None: it holds for everybody."""
        if EVERYBODY in self.freezes:
            return None
        if not self.freezes:
            return frozenset()
        named = {name for name in self.freezes if not name.startswith(OF_GROUP)}
        people = named.union(self.people, self.programs, *(one.people for one in self.groups.values()))
        return frozenset(one for one in people if self.frozen(one))

    def may_freeze(self, holder: Holder, name: str) -> bool:
        """Whether the holder may freeze and unfreeze a person, a group (``group:NAME``) or EVERYBODY."""
        if "everything" in holder.rights:
            return True
        if name == EVERYBODY:
            return False
        if name.startswith(OF_GROUP):
            return "freeze" in holder.rights and name.removeprefix(OF_GROUP) in self.groups_of(holder.name)
        return self.oversees(holder, name, "freeze")

    def person_of(self, user: str) -> str:
        """The person whose things are those of a user: themselves, or the owner of a program."""
        return self.programs.get(user, "") or user

    def visible_to(self, holder: Holder) -> frozenset[str] | None:
        """The users whose tasks the holder may look at; None: those of everybody."""
        if "everything" in holder.rights or ("view" in holder.rights and not self.groups):
            return None
        users = {one: one for one in self.people} | {name: owner or name for name, owner in self.programs.items()}
        return frozenset({holder.name, *(user for user, person in users.items() if self.sees(holder, person))})

    def groups_of(self, person: str) -> frozenset[str]:
        """The groups that somebody is in; of those who are in none: NO_GROUP."""
        return frozenset(name for name, one in self.groups.items() if person in one.people) or frozenset({NO_GROUP})

    def groups_with(self, computer: ComputerId) -> frozenset[str]:
        """The groups whose people may all use a computer; NO_GROUP for one that belongs to nobody."""
        owner = self.owners.get(computer)
        found = {name for name, one in self.groups.items() if computer in one.computers}
        if owner is not None and owner.group:
            found.add(owner.group)
        return frozenset(found) if found or owner is not None else frozenset({NO_GROUP})

    def oversees(self, holder: Holder, person: str, right: Right) -> bool:
        """Whether the holder has a right, and it reaches the things of this person."""
        return right in holder.rights and self.shares_group(holder, person)

    def owners_of(self, computer: ComputerId) -> tuple[str, ...]:
        """The owners of a computer, as the policy names them: a person, and each group as ``group:NAME``."""
        owner = self.owners.get(computer)
        groups = sorted(f"group:{name}" for name in self.groups_with(computer) - {NO_GROUP})
        return (owner.person, *groups) if owner is not None and owner.person else tuple(groups)

    def shares_group(self, holder: Holder, person: str) -> bool:
        """Whether the holder's rights reach this person at all."""
        if "everything" in holder.rights or holder.name == person:
            return True
        return not self.groups_of(holder.name).isdisjoint(self.groups_of(person))

    def sees(self, holder: Holder, person: str) -> bool:
        """Whether the holder may look at tasks of this person."""
        return holder.name == person or self.oversees(holder, person, "view")

    def reaches(self, holder: Holder, computer: ComputerId) -> bool:
        """Whether the holder may look at a computer, and use it where they may submit."""
        owner = self.owners.get(computer)
        if "everything" in holder.rights or (owner is not None and owner.person == holder.name):
            return True
        if not self.groups_of(holder.name).isdisjoint(self.groups_with(computer)):
            return True
        return owner is not None and bool(owner.person) and self.oversees(holder, owner.person, "view")
