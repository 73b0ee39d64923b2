"""What this node answers to others: calls and settles of its own computers, its table, and who came elsewhere."""

import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

from orchestrator.computers.hub import Hub, Rival
from orchestrator.computers.nodes.answers import call_told, failed, settled_told
from orchestrator.computers.nodes.messages import (
    FrozenTold,
    LabelConfirmed,
    OutputTold,
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
from orchestrator.computers.nodes.presence import Presence
from orchestrator.core.errors import CallVoid, InvalidRequest, OrchestratorError
from orchestrator.core.ports import Answer
from orchestrator.core.ports.bus import End
from orchestrator.core.wire.identity import Heard
from orchestrator.core.wire.wire import RunId

logger = logging.getLogger(__name__)

_HINT_BYTES: Final = 4096
"""Of output in one hint: in base 64, with what stands around it, it fits the 8 kB of a NOTIFY."""


class UnknownOp(InvalidRequest):
    """Another node asked for something that this version does not know."""

    code = "unknown_op"


class Serving:
    """Answers the requests of other nodes."""

    def __init__(self, hub: Hub, presence: Presence) -> None:
        self._hub = hub
        self._presence = presence
        self._bus = presence.bus
        self._ends: list[End] = []
        self.ops: dict[str, Callable[[Mapping[str, Any], bytes], Awaitable[Answer]]] = {
            "call": self._call,
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
        """Answer no more; what was begun is finished."""
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
        except OrchestratorError as error:
            return failed(error)

    async def _call(self, payload: Mapping[str, Any], body: bytes) -> Answer:
        computer, run_id, task_id, number, method, params, has_body, wait_s, output = call_asked(payload)
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
            # Of the call itself, such as one that is too long: no frame was written, and none ever will be.
            return failed(error)
        return call_told(result, self._hub.heard(computer))

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
