"""The doors to the audit: what happened, whether it is as it was written, and whether it was in order.

Reviewers and admins read all of it; whoever submitted a task reads what was done for that. What is
given out is without secrets; the whole goes only to admins who ask for it (hitl.md A8).
"""

import asyncio
import contextlib
import re
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from orchestrator.audit import (
    Checkpoints,
    VerifyJob,
    as_written,
    check_store,
    heads_of,
    stories_of,
    streams_of,
    verify_store,
)
from orchestrator.core.audit import SYSTEM_STREAM
from orchestrator.core.audit_showing import Wanted
from orchestrator.core.errors import Forbidden, InvalidDecision, InvalidRequest, NotFound
from orchestrator.core.facts import RequestId, TaskId, TaskSubmitted
from orchestrator.core.items import AgentTaskItem
from orchestrator.core.redact import redact
from orchestrator.core.rights import reviews
from orchestrator.logs import SALT
from orchestrator.ports import Identity
from orchestrator.web.auth import must_have
from orchestrator.web.base import Room
from orchestrator.web.reading import read_number

_ALL: Final = 100_000
_SHA256: Final = re.compile("[0-9a-fA-F]{64}")
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
"""When what is written to at any time was written last."""
Time = tuple[datetime, str, int]
"""Where an item stands among those of all streams."""
_CURSOR: Final = re.compile("([0-9]{1,12}):(.{1,200})")


class AuditDoors(Room):
    """``/v1/audit``."""

    checkpoints: Checkpoints | None
    """None: the store has no directory to keep one in."""
    _verifying: VerifyJob | None = None

    async def audit(self, request: Request) -> Response:
        """``GET /v1/audit?task=&system=&request=&by=&kind=&since=&sha256=&after=&limit=&order=&whole=``."""
        identity = await self.who(request)
        whole = _is_on(request, "whole")
        if whole:
            must_have(identity, "admin")
        streams = await self._streams(request, identity)
        wanted, cursor, limit = _wanted(request), _cursor(request), int(read_number(request, "limit", 200, 1, 1000))
        if sha256 := request.query_params.get("sha256", ""):
            return JSONResponse(
                {"stories": await self._stories(streams, _digest(sha256), whole), "redacted": not whole}
            )
        read = self._newest if request.query_params.get("order") == "newest" else self._page
        found, after = await read(streams, wanted, cursor, limit)
        items = await asyncio.to_thread(_forms, found, whole=whole)
        return JSONResponse({"items": items, "next": after, "redacted": not whole})

    async def audit_verify(self, request: Request) -> Response:
        """``GET /v1/audit/verify?wait_s=``: streams against chains and the last checkpoint, and the tables beside them.

        One goes on at a time, for all who ask, and ends once nobody does.
        """
        must_have(await self.who(request), "reviewer")
        wait_s = read_number(request, "wait_s", -1.0, 0.0, 60.0)
        if self._verifying is None:
            store, checkpoints = self.service.store, self.checkpoints
            self._verifying = VerifyJob(lambda told: verify_store(store, checkpoints, told=told))
        found = await self._verifying.ask(None if wait_s < 0 else wait_s, _gone(request))
        if found is None:
            return JSONResponse({"done": self._verifying.done, "of": self._verifying.of}, status_code=202)
        return JSONResponse(found.model_dump(mode="json"))

    async def audit_check(self, request: Request) -> Response:
        """``GET /v1/audit/check?task=``: what ran and was not allowed, what was allowed and never ran."""
        identity = await self.who(request)
        findings = await check_store(self.service.store, await self._streams(request, identity))
        return JSONResponse({"findings": [one.model_dump(mode="json") for one in findings]})

    async def _streams(self, request: Request, identity: Identity) -> list[str]:
        """The streams that are asked about and that this person may read. Raises NotFound, Forbidden."""
        reads_all = reviews(identity.roles)
        if _is_on(request, "system"):
            must_have(identity, "reviewer")
            return [SYSTEM_STREAM]
        stream = await self._asked_about(request)
        if stream is not None:
            if not reads_all and await self._requester(stream) != identity.name:
                raise Forbidden(f"{identity.name} may not read the audit of this task.", remedy="Ask a reviewer.")
            return [stream]
        if reads_all:
            return sorted(await heads_of(self.service.store))
        rows = await self.service.store.list_tasks(limit=_ALL)
        return sorted(row.task_id for row in rows if row.user_id == identity.name)

    async def _asked_about(self, request: Request) -> str | None:
        """The one task that is named, or whose request is; None: no single one. Raises NotFound.

        Nothing is folded for it: of a journal that was tampered with the audit has to be read too.
        """
        if task_id := request.query_params.get("task"):
            if not await self.service.store.read(TaskId(task_id)):
                raise await self.service.no_task(TaskId(task_id))
            return task_id
        if request_id := request.query_params.get("request"):
            with contextlib.suppress(InvalidDecision, InvalidRequest):
                return (await self.service.for_request(RequestId(request_id))).task_id
        return None

    async def _requester(self, stream: str) -> str | None:
        """Whose task a stream is, as its first item says."""
        first = (await self.service.store.read(TaskId(stream)))[0].fact
        return first.user_id if isinstance(first, TaskSubmitted) else None

    async def _page(
        self, streams: list[str], wanted: Wanted, cursor: tuple[str, int], limit: int
    ) -> tuple[list[AgentTaskItem], str | None]:
        """The next items after a place, stream by stream, and the place to go on from; None: there is no more."""
        begin, version = cursor
        found: list[AgentTaskItem] = []
        async for told in streams_of(self.service.store, [one for one in streams if one >= begin]):
            after = version if told.stream == begin else 0
            found += [item for item in wanted.of(told.items) if item.version > after]
            if len(found) > limit:
                last = found[limit - 1]
                return found[:limit], f"{last.version}:{last.task_id}"
        return found, None

    async def _newest(
        self, streams: list[str], wanted: Wanted, cursor: tuple[str, int], limit: int
    ) -> tuple[list[AgentTaskItem], str | None]:
        """As ``_page``, the newest of all streams first.

        A task's row says when its last item was written: those that are older than a full page are not read.
        """
        written = {str(row.task_id): row.updated_at for row in await self.service.store.list_tasks(limit=_ALL)}
        end = await self._time_of(cursor)
        found: list[AgentTaskItem] = []
        for stream in sorted(streams, key=lambda one: written.get(one, _NEVER), reverse=True):
            if len(found) > limit and written.get(stream, _NEVER) < found[limit].at:
                break
            async for told in streams_of(self.service.store, [stream]):
                found += [item for item in wanted.of(told.items) if end is None or _time(item) < end]
            found = sorted(found, key=_time, reverse=True)[: limit + 1]
        last = found[limit - 1] if len(found) > limit else None
        return found[:limit], None if last is None else f"{last.version}:{last.task_id}"

    async def _time_of(self, cursor: tuple[str, int]) -> Time | None:
        """Where an item stands among all; None: none is named. Raises NotFound where it is gone."""
        stream, version = cursor
        if not stream:
            return None
        items = await self.service.store.read(TaskId(stream), version - 1)
        if not items or items[0].version != version:
            raise NotFound("The place to go on from is gone.", remedy="Begin again, without after.")
        return _time(items[0])

    async def _stories(self, streams: list[str], sha256: str, whole: bool) -> list[Any]:
        stories = [one.model_dump(mode="json") for one in await stories_of(self.service.store, streams, sha256=sha256)]
        return stories if whole else [await asyncio.to_thread(redact, one, salt=SALT) for one in stories]


async def _gone(request: Request) -> None:
    """Until whoever asks has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _time(item: AgentTaskItem) -> Time:
    return item.at, item.task_id, item.version


def _forms(items: list[AgentTaskItem], *, whole: bool) -> list[dict[str, Any]]:
    return [_form(item, whole=whole) for item in items]


def _form(item: AgentTaskItem, *, whole: bool) -> dict[str, Any]:
    """An item as it was written, or without its secrets and with whether there were any: its hash is over them."""
    value = as_written(item)
    if whole:
        return value
    shown = redact(value["fact"], salt=SALT)
    return {**value, "fact": shown, "redacted": shown != value["fact"]}


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    since = query.get("since")
    return Wanted(
        request_id=query.get("request", ""),
        by=query.get("by", ""),
        kind=query.get("kind", ""),
        since=None if not since else _moment(since),
    )


def _moment(text: str) -> datetime:
    try:
        # A plus sign of an offset that was not escaped arrives as a blank.
        moment = datetime.fromisoformat(text.replace(" ", "+", 1) if text.count(" ") == 1 and "T" in text else text)
    except ValueError:
        raise InvalidRequest(
            f"since is a time like 2026-11-20 or 2026-11-20T18:00:00Z, not {text[:40]!r}.", remedy="Say it like that."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _digest(text: str) -> str:
    if not _SHA256.fullmatch(text):
        raise InvalidRequest("sha256 has 64 hexadecimal digits.", remedy="`sha256sum FILE` prints it.")
    return text.lower()


def _cursor(request: Request) -> tuple[str, int]:
    text = request.query_params.get("after", "")
    found = _CURSOR.fullmatch(text)
    if text and found is None:
        raise InvalidRequest("after is no place that this door gave out.", remedy="Send the last answer's next.")
    return ("", 0) if found is None else (found[2], int(found[1]))


def _is_on(request: Request, name: str) -> bool:
    return request.query_params.get(name, "") in ("1", "true")
