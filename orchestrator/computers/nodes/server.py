"""Answers of this node to other nodes: calls and settles of its computers, its table, and news of connections."""

import base64
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal

from pydantic import Field

from orchestrator.computers.hub import Hub, Rival
from orchestrator.computers.nodes.messages import (
    Failure,
    FrozenTold,
    LabelConfirmed,
    Ops,
    OutputTold,
    Said,
    SettleAsked,
    YieldAnswer,
    YieldAsked,
    acks_of,
    acks_to,
    as_json,
    call_asked,
    output_of,
    requests_to,
)
from orchestrator.computers.nodes.seats import Seats
from orchestrator.computers.nodes.table import Presence
from orchestrator.core.errors import (
    CallLost,
    CallVoid,
    ComputerAway,
    ComputerFailed,
    InvalidRequest,
    OrchestratorError,
)
from orchestrator.core.ports import Answer, CallResult, Settlement
from orchestrator.core.ports.bus import End
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import ComputerId, RunId, SettledCall

# -- What becomes of a call or a settle, on its way from one node to another: results and errors, with their bytes


class ResultTold(Said):
    """What a computer answered, or the error that it answered with; its bytes go beside it."""

    data: dict[str, Any] = Field(default_factory=dict)
    failure: Failure | None = None
    size: int = 0
    """The size of its bytes, which follow those of the results before it."""


class SettlementTold(Said):
    """The outcome of one run."""

    call: SettledCall
    result: ResultTold | None = None


class Answered(Said):
    """The answer to a call, or to a settle."""

    failure: Failure | None = None
    """Why there is none."""
    data: dict[str, Any] = Field(default_factory=dict)
    settled: tuple[SettlementTold, ...] = ()
    heard: int = 0
    boot: str = ""
    """Of whom that was heard."""

    @property
    def named(self) -> Heard:
        """The ``journal_seq`` that the asked node has heard from the computer."""
        return Heard(self.heard, self.boot)


def failure_of(error: OrchestratorError) -> Failure:
    """An error as it is told."""
    told: dict[str, Any] = {"message": error.message, "remedy": error.remedy}
    match error:
        case ComputerAway():
            return Failure(kind="away", **told)
        case CallVoid():
            return Failure(kind="void", reason=error.reason, **told)
        case ComputerFailed():
            return Failure(kind="failed", reason=error.reason, data=error.data, **told)
        case CallLost():
            return Failure(kind="lost", **told)
        case InvalidRequest():
            return Failure(kind="refused", **told)
        case _:
            return Failure(kind="unknown", **told)


def error_of(failure: Failure, body: bytes = b"") -> OrchestratorError:
    """The error that was told. An unknown one may have come after a frame was written, so the call counts as lost."""
    match failure.kind:
        case "away":
            return ComputerAway(failure.message, remedy=failure.remedy)
        case "void":
            return CallVoid(failure.reason, failure.message)
        case "failed":
            return ComputerFailed(failure.reason, failure.message, failure.data, body)
        case "refused":
            return InvalidRequest(failure.message, remedy=failure.remedy)
        case _:
            return CallLost(failure.message, remedy=failure.remedy)


def failed(error: OrchestratorError) -> Answer:
    """The answer to a request that came to an error."""
    body = error.body if isinstance(error, ComputerFailed) else b""
    return Answer(Answered(failure=failure_of(error)).told(), body)


def answered(answer: Answer) -> Answered:
    """What another node answered. Raises what it came to, and CallLost where that cannot be read."""
    try:
        told = Answered.read(answer.payload)
    except InvalidRequest as error:
        raise CallLost(error.message) from None
    if told.failure is not None:
        raise error_of(told.failure, answer.body)
    return told


def call_told(result: CallResult, heard: Heard) -> Answer:
    """The result of a call, as it is told."""
    # As Answered reads it.
    return Answer({"data": result.data, "heard": heard.journal_seq, "boot": heard.boot}, result.body)


def called(answer: Answer) -> tuple[CallResult, Heard]:
    """What another node answered to a call, and what it heard. Raises as `answered` does.

    Every call to another node ends here. An answer without a fault does not become a model.
    """
    said = answer.payload
    data, heard, boot = said.get("data"), said.get("heard"), said.get("boot")
    well = said.get("failure") is None
    if well and isinstance(data, dict) and isinstance(heard, int) and isinstance(boot, str):
        return CallResult(data, answer.body), Heard(heard, boot)
    told = answered(answer)
    return CallResult(told.data, answer.body), told.named


def settled_told(settled: Mapping[RunId, Settlement], heard: Heard) -> Answer:
    """The outcome of runs, as it is told."""
    rows, parts = [], []
    for one in settled.values():
        result, body = _result_told(one.result)
        rows.append(SettlementTold(call=one.call, result=result))
        parts.append(body)
    told = Answered(settled=tuple(rows), heard=heard.journal_seq, boot=heard.boot)
    return Answer(told.told(), b"".join(parts))


def settled_of(answer: Answer) -> tuple[dict[RunId, Settlement], Heard]:
    """What another node says that became of runs, and what it heard. Raises as `answered` does."""
    told, body = answered(answer), answer.body
    settled, at = {}, 0
    for row in told.settled:
        size = row.result.size if row.result is not None else 0
        result = None if row.result is None else _result_of(row.result, body[at : at + size])
        settled[RunId(row.call.call_id)] = Settlement(row.call, result)
        at += size
    return settled, told.named


def _result_told(result: CallResult | Exception | None) -> tuple[ResultTold | None, bytes]:
    match result:
        case CallResult():
            return ResultTold(data=result.data, size=len(result.body)), result.body
        case ComputerFailed():
            return ResultTold(failure=failure_of(result), size=len(result.body)), result.body
        case _:
            return None, b""


def _result_of(told: ResultTold, body: bytes) -> CallResult | Exception:
    return CallResult(told.data, body) if told.failure is None else error_of(told.failure, body)


# -- What this node answers to others: calls and settles of its own computers, its table, and who came elsewhere

logger = logging.getLogger(__name__)

_HINT_BYTES: Final = 4096
"""Bytes of output in one notification: in base 64, with the fields around them, they fit the 8 kB of a NOTIFY."""


class UnknownOp(InvalidRequest):
    """Another node asked for something that this version does not know."""

    code = "unknown_op"


class Serving:
    """Answers the requests of other nodes."""

    def __init__(self, hub: Hub, presence: Presence, seats: Seats, others: Ops) -> None:
        self._hub = hub
        self._seats = seats
        self._presence = presence
        self._bus = presence.bus
        self._ends: list[End] = []
        self._held: set[str] = set()
        """The runs whose outcome other nodes wait for."""
        self.ops: Ops = {
            **others,
            "call": self._call,
            "held": self._is_held,
            "settle": self._settle,
            "table": self._table,
            "yield": self._yield,
            "turn_away": self._turn_away,
            "confirm_label": self._confirm_label,
        }
        """What can be asked, by its name."""

    def open(self) -> None:
        """Answer from now on."""
        node = self._presence.node
        self._ends = [
            self._bus.serve(requests_to(node), self._answer),
            self._bus.subscribe(acks_to(node), self._acknowledge),
        ]

    def close(self) -> None:
        """Accept no more requests; those that were begun are finished."""
        for end in self._ends:
            end()
        self._ends = []

    async def _answer(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        """Answer one request; every error that can be explained is an answer."""
        op = str(payload.get("op", ""))
        try:
            serve = self.ops.get(op)
            if serve is None:
                # Nothing was done: a call that cannot be understood was not made.
                raise UnknownOp(f"This node does not know {op[:40]!r}.", remedy="Bring all nodes to one version.")
            if "acks" in payload:
                # First, so that they go out with the frame of this request: a write costs more than they do.
                self._acknowledge(payload)
            return await serve(payload, body)
        except InvalidRequest as error:
            logger.warning("another node's request %r is refused: %s", op[:40], error)
            return failed(CallVoid(error.code, error.message))
        except ComputerAway as error:
            self._seats.suspect(ComputerId(str(payload.get("computer", ""))))
            return failed(error)
        except OrchestratorError as error:
            return failed(error)

    async def _call(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        computer, run_id, task_id, number, method, params, has_body, wait_s, output = call_asked(payload)
        self._held.add(run_id)
        try:
            result = await self._hub.call(
                computer,
                run_id=run_id,
                task_id=task_id,
                number=number,
                method=method,
                params=params,
                body=body if has_body else None,
                wait_s=wait_s,
                on_output=partial(self._tell_output, run_id) if output else None,
            )
        except InvalidRequest as error:
            # A fault of the call itself, such as one that is too long: no frame was written, and none ever will be.
            return failed(error)
        finally:
            self._held.discard(run_id)
        return call_told(result, self._hub.heard(computer))

    async def _is_held(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del body
        return Answer(Answered(data={"held": payload.get("run_id") in self._held}).told())

    async def _settle(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del body
        asked = SettleAsked.read(payload)
        told = {run_id: partial(self._tell_output, run_id) for run_id in asked.output}
        settled = await self._hub.settle(asked.computer, run_ids=asked.run_ids, number=asked.number, on_output=told)
        return settled_told(settled, self._hub.heard(asked.computer))

    def _acknowledge(self, payload: Mapping[str, Any]) -> None:
        try:
            acks = acks_of(payload)
        except InvalidRequest as error:
            logger.warning("another node's acknowledgements are passed over: %s", error)
            return
        for computer, run_id, number in acks:
            self._hub.acknowledge(computer, run_id, number)

    async def _table(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del payload, body
        return Answer({}, as_json(self._presence.whole()))

    async def _yield(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del body
        asked = YieldAsked.read(payload)
        yielded = await self._hub.yield_to(Rival(asked.computer, asked.computer_id, asked.boot, asked.age_s))
        heard: Heard = yielded.heard
        outcome: Literal["ended", "newer", "lives"] = "newer" if yielded.newer else "ended"
        outcome = "lives" if yielded.lives else outcome
        return Answer(YieldAnswer(outcome=outcome, heard=heard.journal_seq, boot=heard.boot).told())

    async def _turn_away(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del body
        self._hub.turn_away(FrozenTold.read(payload).fact)
        return Answer({})

    async def _confirm_label(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        del body
        told = LabelConfirmed.read(payload)
        self._hub.confirm_label(told.computer, told.label)
        return Answer({})

    def _tell_output(self, run_id: RunId, offset: int, data: bytes) -> None:
        for at in range(0, max(1, len(data)), _HINT_BYTES):
            part = base64.b64encode(data[at : at + _HINT_BYTES]).decode("ascii")
            self._bus.publish(output_of(run_id), OutputTold(offset=offset + at, data=part).told())


__all__ = [
    "Answered",
    "Serving",
    "UnknownOp",
    "answered",
    "call_told",
    "called",
    "failed",
    "settled_of",
    "settled_told",
]
