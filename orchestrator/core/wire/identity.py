"""Whether a connection with a computer's token comes from the computer that the store knows, with the disk that it had.

Theory. The store keeps for each computer the highest ``journal_seq`` that it has heard, the number that it has
allotted, and the connection that was welcome last. A journal only grows, and so does the number. A computer with an
older journal, or none, has an old disk again. A computer that has seen a higher number than the store has allotted
shows that the store is an old one. In both cases "it never ran" proves nothing, so the computer is *frozen*: nothing
is sent to it until a person releases it, and the outcome of calls that were open is unknown. A token that two living
computers use was copied with a world: this freezes too, and both are shown. A token that comes with another id was
copied with the client's folder: only the copy is turned away, and the computer that was paired goes on. A new token
in place of a revoked one is a person's decision already.
"""

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from orchestrator.core.policy import MAX_FORMER_LABELS
from orchestrator.core.task.system_facts import ComputerFrozen, ComputerSide, FreezeReason
from orchestrator.core.values import ComputerId, immutable

if TYPE_CHECKING:
    from orchestrator.core.wire.messages import Client, Hello

# -- The keys by which a computer knows that a client comes from the server that it was paired with
#
# Theory. Each store has one secret, which never leaves it. A computer's key is derived from that and from the
# hash of its token, so that every node can tell it and none has to keep it. It goes over the wire once, with the
# token, and never again; the token does with each connection, and so is not a key. What is signed names the boot
# that is welcomed: an offer that was overheard is worth nothing to the next one.


def key_of(secret: str, token_hash: str) -> str:
    """The key of the computer with this token, as text of 64 characters."""
    return _hmac(secret, f"computer {token_hash}")


def signed(client: "Client", key: str, boot: str) -> "Client":
    """The client as it is offered to a computer that said hello with this boot."""
    said = f"cc-orchestrator client\n{client.version}\n{client.size}\n{client.sha256}\n{boot}"
    return client.model_copy(update={"mac": _hmac(key, said)})


def _hmac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


# -- Whether who comes with a computer's token is the computer that the store knows, with the disk that it had


class Heard(NamedTuple):
    """The highest ``journal_seq`` that one boot of a computer has named; 0: none."""

    journal_seq: int = 0
    boot: str = ""


NOTHING_HEARD: Final = Heard()


@immutable
class ComputerRecord:
    """What the store keeps of one computer."""

    computer: ComputerId
    number: int = 0
    """The highest that was allotted."""
    heard: int = 0
    """The highest ``journal_seq`` that was heard of; 0: none since it was welcome again."""
    doubtful_below: int = 0
    """The outcome of open calls with a lower number is unknown, whatever the computer says."""
    known: ComputerSide | None = None
    """The boot that was welcomed last; None: nobody since the store keeps it, or since a release."""
    token: str = ""
    """The hash of the token with which that one came."""
    frozen: ComputerFrozen | None = None
    frozen_at: datetime | None = None
    released: bool = False
    """A person let it come back, and it has not come yet: the next computer with its token is welcome."""

    def heard_with(self, heard: Heard) -> int:
        """The highest ``journal_seq`` with what else was heard.

        That counts only of the boot that was welcome last: word of an earlier one may come late, from another node,
        when what was heard before counts no more.
        """
        counts = self.known is None or self.known.boot == heard.boot
        return max(self.heard, heard.journal_seq) if counts else self.heard


@immutable
class Verdict:
    """The verdict on a hello."""

    freeze: ComputerFrozen | None = None
    """None: it is welcome."""
    fresh: bool = False
    """Whether what was heard before counts no more."""
    doubt: bool = False
    """Whether what is open there now is unknown, whatever the computer says."""
    copy_of: int | None = None
    """It comes with a copied token and is turned away: the id of the computer whose token that is."""


def judge(
    record: ComputerRecord,
    hello: "Hello",
    side: ComputerSide,
    *,
    token: str,
    paired_anew: bool,
    paired_id: int | None,
) -> Verdict:
    """The verdict on a hello; ``record`` is not frozen.

    ``token``: the hash of the one that it comes with. ``paired_anew``: that is another than the last one, which is
    worth nothing any more. ``paired_id``: the id of the computer that got it for a code; None: not known.
    """
    genuine = _genuine(record, token, paired_anew=paired_anew, paired_id=paired_id)
    if genuine not in {None, side.computer_id}:
        return Verdict(copy_of=genuine)
    sign = _sign(record, hello, side)
    # A first boot whose welcome was lost looks the same as a lost journal of which nobody heard.
    nothing_heard = hello.found_seq == 0 and record.number > 0
    decided = record.released or paired_anew
    if sign is not None and not decided:
        return Verdict(freeze=frozen(sign, record, hello, side))
    return Verdict(fresh=decided, doubt=sign is not None or nothing_heard)


def _genuine(record: ComputerRecord, token: str, *, paired_anew: bool, paired_id: int | None) -> int | None:
    """The id of the computer whose token this is; None: that cannot be told, or a person lets any come."""
    if record.released:
        return None
    if record.known is None or paired_anew:
        return paired_id
    # Another token of the same name is not a copy of anything.
    return record.known.computer_id if record.token in {"", token} else None


def former_labels(known: ComputerSide | None, label: str, *, paired_anew: bool) -> tuple[str, ...]:
    """The other labels of a computer that comes with ``label``: a rule by label holds for them, too.

    A player at the computer can rename it. A new pairing, which an admin allows, begins with the label at that time.
    """
    return () if known is None or paired_anew else former_of(label, (*known.former_labels, known.label))


def former_of(label: str, seen: Iterable[str]) -> tuple[str, ...]:
    """The former labels of a computer that has ``label`` now and had all that were ``seen``, as many as are kept."""
    return tuple(one for one in dict.fromkeys(seen) if one != label)[:MAX_FORMER_LABELS]


def labelled(known: ComputerSide, label: str, also: Iterable[str], *, confirmed: bool) -> ComputerSide | None:
    """The labels that are kept of a computer that has ``label`` now, and had those in ``also`` beside the known ones.

    ``confirmed``: an admin says that this label is the only one that counts. None: nothing of it is new, or as many
    are kept already as there may be, and then no label frees the computer of a rule.
    """
    if not confirmed and len(known.former_labels) >= MAX_FORMER_LABELS:
        return None
    former = () if confirmed else former_of(label, (*known.former_labels, known.label, *also))
    side = known.model_copy(update={"label": label, "former_labels": former})
    return None if labels_of(side) == labels_of(known) else side


def labels_of(side: ComputerSide) -> frozenset[str]:
    """All labels that are kept of a computer: that of now and the former ones."""
    return frozenset((side.label, *side.former_labels))


def frozen(reason: FreezeReason, record: ComputerRecord, hello: "Hello", side: ComputerSide) -> ComputerFrozen:
    """The fact, with what was compared and both sides."""
    compared = {"heard": record.heard, "number": record.number, "highest": hello.highest}
    if hello.found_seq is not None:
        compared["found_seq"] = hello.found_seq
    sides = (side,) if record.known is None else (record.known, side)
    return ComputerFrozen(computer=record.computer, reason=reason, facts=compared, sides=sides)


def _sign(record: ComputerRecord, hello: "Hello", side: ComputerSide) -> FreezeReason | None:
    if record.known is not None and record.known.computer_id != side.computer_id:
        return "other_computer"
    if hello.found_seq is not None and hello.found_seq < record.heard:
        return "disk_restored" if hello.found_seq else "journal_lost"
    # A store that never met the computer has nothing open there: it may be new, and the computer not.
    if hello.highest > record.number and record.number:
        return "store_restored"
    return None


_REASONS: Final[dict[FreezeReason, str]] = {
    "disk_restored": "its disk was put back to an older state: it knows less of its calls than was heard from it",
    "journal_lost": "its journal is gone, although it had one",
    "store_restored": "the orchestrator's store was put back to an older state: the computer has seen more than it",
    "other_computer": "its token came from a computer with another id, which a copied disk or world would explain",
    "two_computers": "two computers live with its identity, which a copied world would explain",
    "moved": "it is in another cell now",
}
COPIES: Final = frozenset({"other_computer", "two_computers"})
"""The reasons for which there are two sides to choose from."""


def copied_sentence(computer: ComputerId, genuine: int, came: int) -> str:
    """Why a copy is turned away, for the player who sits there."""
    return (
        f"The client's folder here is a copy: it has the token of computer {computer}, which is number {genuine} in "
        f"the game, and this is number {came}. Nothing is sent here; {computer} goes on."
    )


def copied_remedy(computer: ComputerId) -> str:
    """What a person does about it."""
    return (
        "For a name of its own make a code with `cc-orchestrator pair` and type its line here. If this is to be "
        f"{computer} from now on, make it with `cc-orchestrator pair {computer}`."
    )


def why_frozen(reason: FreezeReason) -> str:
    """The reason as a part of a sentence."""
    return _REASONS[reason]


def frozen_sentence(fact: ComputerFrozen) -> str:
    """A sentence about it for people."""
    where = f", {fact.cell}" if fact.cell else ""
    return f"Computer {fact.computer} is frozen: {why_frozen(fact.reason)}{where}. Nothing is sent to it."


def frozen_remedy(fact: ComputerFrozen) -> str:
    """What a person does about it."""
    release = f"cc-orchestrator computers release {fact.computer}"
    if fact.reason == "moved":
        return (
            f"It finds that cell by itself. To give its name to another computer here: `{release}`, then pair that one."
        )
    if fact.reason in COPIES:
        return (
            f"Switch off the one that is not to have this name, or pair it anew under another; then `{release}`: "
            "the next that dials stays."
        )
    return f"Look at its files, then `{release}`; what was under way there is then shown as unknown."
