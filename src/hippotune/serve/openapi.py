"""The OpenAPI document of the table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from hippotune.serve.messages import ErrorBody, Item, PulseBody
from hippotune.serve.routes import Route
from hippotune.serve.version import VERSION

_ALWAYS = {401: "no token that is known", 403: "the role does not allow it", 413: "too large"}
_WORDS = {
    **_ALWAYS,
    404: "not known, or not open",
    409: "it contradicts what is there",
    410: "what was asked for is not kept any more: begin anew",
    421: "the request is for another host",
    422: "the request is not what is expected",
    426: "the client is too old",
    429: "too many requests",
    500: "the server failed",
    503: "not now: try again",
    507: "the disk is full: make room",
}
_ANY = (401, 403, 413, 421, 422, 426, 429)
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_TEMPLATE = "#/components/schemas/{name}"


def document(table: Sequence[Route]) -> dict[str, Any]:
    """Return the document."""
    kinds = [kind for route in table for kind in (route.body, route.answer) if kind not in (None, bytes)]
    schemas, components = msgspec.json.schema_components(
        [*kinds, ErrorBody, Item, PulseBody], ref_template=_TEMPLATE
    )
    by_kind = dict(zip(map(str, [*kinds, ErrorBody]), schemas, strict=False))
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hippo: a server for plans",
            "version": str(VERSION),
            "description": "Many clients, one tree. Errors are answered with a kind and words.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": route.text,
        "operationId": re.sub(r"\W+", "_", route.name).strip("_").lower(),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in re.findall(r"{(\w+)}", route.path)
        ]
        + [
            {
                "name": each.name,
                "in": "query",
                "description": each.text,
                "schema": {"type": "number" if each.kind is float else "integer", "minimum": 0},
            }
            for each in route.query
        ],
        "responses": {_success(route): {"description": "done", **_content(route, schemas)}},
    }
    if route.role != "none":
        found["security"] = [{"token": []}]
        found["description"] = f"Needs the role {route.role}."
    if route.body is not None:
        kind = "application/octet-stream" if route.body is bytes else "application/json"
        schema = {} if route.body is bytes else schemas[str(route.body)]
        found["requestBody"] = {"required": True, "content": {kind: {"schema": schema}}}
    for status in sorted({*_ANY, *route.statuses}):
        content = {"application/json": {"schema": schemas[str(ErrorBody)]}}
        found["responses"][str(status)] = {"description": _WORDS[status], "content": content}
    return found


def _success(route: Route) -> str:
    return "204" if route.content == "none" else "200"


def _content(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    match route.content:
        case "none":
            return {}
        case "bytes":
            return {"content": {"application/octet-stream": {}}}
        case "events":
            return {"content": _EVENTS}
        case "text":
            return {"content": {"text/plain": {"schema": {"type": "string"}}}}
        case _:
            content: dict[str, Any] = {"application/json": {"schema": schemas[str(route.answer)]}}
            return {"content": {**content, **(_EVENTS if route.follows else {})}}
