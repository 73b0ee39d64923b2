"""The OpenAPI 3.1 document of the endpoints, drawn from their table and the models of bodies and answers.

It is made when somebody first asks for it.
The frames of the two sockets, for which OpenAPI has no place of its own, are among its schemas and are
named by ``x-messages``.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.core.undo.messages import Outcome, TaskChange, UndoLimit, UndoOffer, UndoPlace, UndoRequest
from orchestrator.core.wire import review, wire
from orchestrator.web.answers.base import Error, describe
from orchestrator.web.answers.history import AuditItems
from orchestrator.web.endpoint_table import ENDPOINTS, EVENTS, Answer, Endpoint, Param

_REF: Final = "#/components/schemas/"
_WIRE: Final = "computer."
"""Before the names of the computer channel's messages, of which some are those of other schemas too."""
_JOURNAL: Final = "journal."
"""Before the names of what items are made of: an old item lacks the fields that were added since."""
_INFO: Final = """Lets a language model work on ComputerCraft computers, with a person approving what it does.

Refusals come in this order: 401; 403 for a token of the wrong kind or role; 422; 404; 403 for the thing itself; 409.
A body has at most 1048576 bytes, or it is 422. Bodies refuse what they do not know; answers may get new fields in later
versions. GET decides nothing. docs/protocol.md says the rest."""
_TAGS: Final = {
    "tasks": "What the model is asked to do.",
    "decisions": "What waits for a person, and what the person says.",
    "policy": "What is allowed, asked and denied; standing approvals.",
    "audit": "What happened, and whether it was in order.",
    "people": "Who and which computer may come in.",
    "browsers": "The console's page, and browsers that are signed in: docs/protocol.md, section 3.6.",
    "backups": "What is kept of computers, and what goes in time.",
    "house": "The orchestrator itself.",
    "sockets": "The two channels, as WebSockets.",
}
_WHY: Final = {
    400: "",
    401: "`unauthenticated`: no token, or none that is good here",
    403: "`forbidden`",
    404: "`not_found`",
    405: "`method_not_allowed`: another method is meant",
    409: "",
    422: "`invalid_request`: the first thing that does not fit",
    426: "",
    429: "`too_many_tries`",
    502: "",
    503: "`store_busy`: another program keeps the store locked",
}
"""The code of each refusal, and what it means where the endpoint itself does not say."""
_NOTHING: Final = {"type": "null"}
_BEARER: Final[Mapping[str, list[str]]] = {"bearer": []}
_COOKIE: Final[Mapping[str, list[str]]] = {"cookie": []}
_SHOWN: Final[Mapping[str, list[Mapping[str, list[str]]]]] = {
    "anybody": [],
    "browser": [_COOKIE],
    "computer": [_BEARER],
}
"""The proofs that other endpoints take than a person's token: another token, or the cookie of a browser."""
_UNDOS: Final[Mapping[str, type[BaseModel]]] = {
    one.__name__: one for one in (Outcome, TaskChange, UndoLimit, UndoOffer, UndoPlace, UndoRequest)
}
"""The core's messages about an undo: the core reads no source, so their fields are described here."""
_SHARPER: Final[Mapping[str, Mapping[str, Any]]] = {
    "ResumeRequest": {
        "oneOf": [
            {
                "required": ["action"],
                "properties": {
                    "action": {"enum": ["approve", "reject", "check", "mark_done", "mark_failed", "retry"]},
                    "decisions": _NOTHING,
                },
            },
            {"required": ["decisions"], "properties": {"decisions": {"type": "array"}, "action": _NOTHING}},
        ]
    },
    "CallDecision": {
        "oneOf": [
            {
                "required": ["args"],
                "properties": {"action": {"const": "edit"}, "args": {"type": "object"}, "answer": _NOTHING},
            },
            {
                "required": ["answer"],
                "properties": {
                    "action": {"const": "respond"},
                    "answer": {"type": "string"},
                    "args": _NOTHING,
                    "remember": _NOTHING,
                },
            },
            {"properties": {"action": {"const": "approve"}, "args": _NOTHING, "answer": _NOTHING}},
            {
                "properties": {
                    "action": {"enum": ["reject", "check", "mark_done", "mark_failed", "retry"]},
                    "args": _NOTHING,
                    "answer": _NOTHING,
                    "remember": _NOTHING,
                }
            },
        ]
    },
}
"""What the validators of a model ask beyond the types of its fields."""
_SEGMENT: Final = re.compile(r"{([a-z_]+)}")


class OpenapiEndpoints:
    """``/v1/openapi.json``."""

    async def openapi(self, request: Request) -> Response:
        """``GET /v1/openapi.json``: for anybody, since it says nothing of this very orchestrator."""
        del request
        return Response(await asyncio.to_thread(_encoded), media_type="application/json")


@cache
def _encoded() -> bytes:
    return json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()


def document() -> dict[str, Any]:
    """The whole document; the same for the same version."""
    schemas = _Schemas(ENDPOINTS)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "cc-orchestrator",
            "version": "1",
            "description": _INFO,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": says} for name, says in _TAGS.items()],
        "security": [_BEARER, _COOKIE],
        "paths": paths,
        "components": {
            "schemas": schemas.definitions,
            "responses": {str(status): _refusal(why) for status, why in _WHY.items() if why},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token, as `POST /v1/tokens` and the first start give it out.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "cc_session",
                    "description": "A browser's that is signed in (`POST /v1/session`), from the console's own page, "
                    "with the header `X-CSRF-Token`, unless it is a GET. By https it is `__Host-cc_session`.",
                },
            },
        },
    }


def refusals_of(endpoint: Endpoint) -> dict[int, str]:
    """Each status that an endpoint refuses with, and why."""
    needs_token = endpoint.who != "anybody"
    if endpoint.tag == "sockets":
        return dict(endpoint.refusals)
    reads = endpoint.body is not None or any(one.strict for one in endpoint.takes)
    implied = {
        401: needs_token,
        403: needs_token and endpoint.who != "program",
        404: "{" in endpoint.path,
        405: True,
        422: reads,
        503: endpoint.stored,
    }
    found = {status: "" for status, applies in implied.items() if applies}
    return dict(sorted({**found, **endpoint.refusals}.items()))


# -- one operation -----------------------------------------------------------------------


def _operation(endpoint: Endpoint, schemas: "_Schemas") -> dict[str, Any]:
    path_params = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[^/]+$"}}
        for name in _SEGMENT.findall(endpoint.path)
    ]
    made: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.tag],
        "summary": endpoint.says,
        "parameters": [*path_params, *(_parameter(one) for one in endpoint.takes)],
        "responses": {
            **{str(status): _answer(one, schemas) for status, one in endpoint.answers.items()},
            **{str(status): _refused(status, why) for status, why in refusals_of(endpoint).items()},
        },
    }
    if endpoint.body is not None:
        required = any(field.is_required() for field in endpoint.body.model_fields.values())
        content = {"application/json": {"schema": schemas.ref(endpoint.body)}}
        made["requestBody"] = {"required": required, "content": content}
    if endpoint.who in _SHOWN:
        made["security"] = _SHOWN[endpoint.who]
    elif endpoint.tag != "sockets":
        made["x-role"] = endpoint.who
    return {**made, **schemas.messages(endpoint)}


def _parameter(one: Param) -> dict[str, Any]:
    return {"name": one.name, "in": one.where, "description": one.says, "schema": dict(one.schema)}


def _answer(one: Answer, schemas: "_Schemas") -> dict[str, Any]:
    made: dict[str, Any] = {"description": one.says}
    refs = [schemas.ref(model) for model in one.models]
    told = refs[0] if len(refs) == 1 else {"anyOf": refs}
    if one.media == EVENTS:
        events = told if refs else {"$ref": f"{_REF}{_JOURNAL}Item"}
        made["content"] = {one.media: {"schema": {"type": "string"}, "x-event-data": events}}
    elif refs:
        made["content"] = {one.media: {"schema": told}}
    elif one.media:
        made["content"] = {one.media: {"schema": {"type": "object" if one.media.endswith("json") else "string"}}}
    return made


def _refused(status: int, why: str) -> dict[str, Any]:
    if not why:
        return {"$ref": f"#/components/responses/{status}"}
    code = _WHY[status].split(":")[0]
    return _refusal(why if not code or "`" in why else f"{code}: {why}")


def _refusal(says: str) -> dict[str, Any]:
    return {"description": f"{says}.", "content": {"application/json": {"schema": {"$ref": f"{_REF}Error"}}}}


# -- schemas -----------------------------------------------------------------------------

_Model = type[BaseModel]
_Mode = Literal["validation", "serialization"]


class _Schemas:
    """The schemas of all models, by name, and where each model is among them."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._ways = {
            "/reviewer": (_members(review.ToReviewer), _members(review.FromReviewer)),
            "/computer": (_members(wire.ToComputer), _members(wire.FromComputer)),
        }
        to_reviewer, from_reviewer = self._ways["/reviewer"]
        answered = {model for endpoint in endpoints for one in endpoint.answers.values() for model in one.models}
        taken = {endpoint.body for endpoint in endpoints if endpoint.body is not None}
        journal: set[_Model] = {AuditItems}
        out: set[_Model] = {Error, *answered, *to_reviewer}
        into: set[_Model] = {*taken, *from_reviewer}
        self.definitions: dict[str, Any] = {}
        self._refs: dict[_Model, dict[str, Any]] = {}
        self._add({**_in_mode(out - journal, "serialization"), **_in_mode(into, "validation")})
        self._add(_in_mode(journal, "validation"), _JOURNAL)
        self._add(_in_mode({one for way in self._ways["/computer"] for one in way}, "validation"), _WIRE)

    def _add(self, models: Mapping[_Model, _Mode], prefix: str = "") -> None:
        refs, whole = models_json_schema(list(models.items()), ref_template=f"{_REF}{prefix}{{model}}")
        for name, one in whole["$defs"].items():
            if name in _UNDOS:
                describe(one, _UNDOS[name])
            self.definitions[prefix + name] = {**_tidy(one), **_SHARPER.get(prefix + name, {})}
        self._refs |= {model: dict(refs[model, mode]) for model, mode in models.items()}

    def ref(self, model: _Model) -> dict[str, Any]:
        """Where a model stands."""
        return self._refs[model]

    def messages(self, endpoint: Endpoint) -> dict[str, Any]:
        """The messages of an endpoint that stays open; empty for any other."""
        if endpoint.path not in self._ways:
            return {}
        from_server, from_client = ([self.ref(one) for one in way] for way in self._ways[endpoint.path])
        return {"x-messages": {"from_server": from_server, "from_client": from_client}}


def _in_mode(models: Iterable[_Model], mode: _Mode) -> dict[_Model, _Mode]:
    return dict.fromkeys(sorted(models, key=lambda model: model.__name__), mode)


def _members(union: Any) -> tuple[_Model, ...]:
    members: tuple[_Model, ...] = get_args(get_args(union)[0])
    return members


def _tidy(schema: Any) -> Any:
    """A schema without the titles that only repeat a name."""
    if isinstance(schema, list):
        return [_tidy(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _tidy(one) for name, one in schema.items() if not (name == "title" and isinstance(one, str))}
