"""The port of what the nodes of one store have in common: the policy, exclusive duties, and what they agreed on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from orchestrator.core.task.items import AgentTaskItem, Draft

MOST_DUTY_S: Final = 7200.0
"""No duty is taken for longer at once."""


@dataclass(frozen=True)
class PolicyRow:
    """The policy in force, as the store has it."""

    version: int
    """Rises by one with each policy that comes into force."""
    sha256: str
    """Of its bytes, which are kept as a blob."""
    source: str
    """Where it came from, such as a file's path."""
    loaded_at: datetime
    by: str
    """Who put it into force."""
    judged: int = 0
    """The newest version by which everything that waited was judged again."""


class Common(Protocol):
    """What several nodes of one store share beside the tasks."""

    @property
    def shared(self) -> bool:
        """Whether several nodes may have this store open at once."""

    async def policy_in_force(self) -> PolicyRow | None:
        """The row of the policy in force; None: there is none."""

    async def policy_item(self) -> AgentTaskItem | None:
        """The newest ``policy_loaded`` of the system stream, which says what is in force; None: there is none.

        Raises Unreadable where it does not stand in its chain: somebody put it there.
        """

    async def set_policy(self, expected_version: int, content: bytes, *, note: Draft) -> PolicyRow:
        """Put a policy into force: its bytes, its row and ``note``, a ``policy_loaded``, in one transaction.

        ``expected_version``: of the policy in force; 0: none ever was. Raises Conflict when it is another, with nothing
        written; InvalidRequest for a note that is no ``policy_loaded`` of these bytes.
        """

    async def judged_policy(self, version: int) -> None:
        """Keep that everything that waited was judged by this version; a newer one that is kept stays."""

    async def take_duty(self, name: str, holder: str, for_s: float) -> bool:
        """Take or renew an exclusive duty for so many seconds of the store's clock; False: another holder has it.

        One that would last longer than MOST_DUTY_S from now is nobody's: none of us took it.
        """

    async def leave_duty(self, name: str, holder: str) -> None:
        """Give a duty back at once; one that another holder has stays theirs."""

    async def agree(self, name: str, value: str) -> str:
        """What was said first under a name: ``value``, where nothing was, with an item of it. It stays for ever."""
