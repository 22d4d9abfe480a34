"""`/openapi.json`: from the types of the routes, with what Litestar does not know of them."""

from __future__ import annotations

from typing import Any

from litestar import MediaType, Request, Router
from litestar.exceptions import NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from holdfast import __version__
from holdfast.server.guards import OPEN
from holdfast.server.problems import MEDIA_TYPE

PATH = "/openapi.json"
_TEXT = {"type": "string"}
_FIELDS = {
    "type": "object",
    "properties": {"path": _TEXT, "message": _TEXT},
    "required": ["path", "message"],
}
_PROBLEM = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "code", "message"), _TEXT),
        "status": {"type": "integer"},
        "hint": {"type": ["string", "null"]},
        "errors": {"type": "array", "items": _FIELDS},
    },
    "required": ["type", "title", "status", "detail", "code", "message", "hint", "errors"],
}


class _Json(JsonRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return self.render_json(request, completed(openapi_schema))


def openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Holdfast",
        version=__version__,
        components=Components(
            security_schemes={
                "token": SecurityScheme(type="http", scheme="bearer"),
                "password": SecurityScheme(type="http", scheme="basic"),
            }
        ),
        security=[{"token": []}, {"password": []}],
        render_plugins=[_Json(path="/", media_type=MediaType.JSON)],
        openapi_router=Router(
            path=PATH,
            route_handlers=[],
            opt=dict(OPEN),
            include_in_schema=False,
            before_request=_require_whole_path,
        ),
    )


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """Every failure is a problem document, and no request may have unknown fields."""
    schemas = {**document["components"]["schemas"], "Problem": _PROBLEM}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    paths: dict[str, Any] = {}
    for path, item in document["paths"].items():
        paths[path] = {}
        for method, operation in item.items():
            responses = {code: answer for code, answer in operation["responses"].items() if code < "4"}
            responses["default"] = {"description": "It failed", "content": content}
            paths[path][method] = {**operation, "responses": responses}
            if "parameters" in operation:
                paths[path][method]["parameters"] = list(map(_parameter, operation["parameters"]))
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if (name := body.get("schema", {}).get("$ref", "").rpartition("/")[2]) in schemas:
                schemas[name] = {**schemas[name], "additionalProperties": False}
    whole = {**document, "paths": paths, "components": {**document["components"], "schemas": schemas}}
    return {name: _with_patterns_of_json_schema(value) for name, value in whole.items()}


def _with_patterns_of_json_schema(value: Any) -> Any:
    r"""There `$` is the end, which is `\Z` in Python: its `$` also matches before a last line break."""
    if isinstance(value, list):
        return [_with_patterns_of_json_schema(item) for item in value]
    if not isinstance(value, dict):
        return value
    pattern = value.get("pattern")
    if isinstance(pattern, str) and pattern.endswith(r"\Z"):
        value = {**value, "pattern": pattern[:-2] + "$"}
    return {name: _with_patterns_of_json_schema(item) for name, item in value.items()}


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """A path in an address is text, and no address itself."""
    is_path = parameter["in"] == "path" and parameter["schema"].get("format") == "uri"
    return {**parameter, "schema": {"type": "string"}} if is_path else parameter


def _require_whole_path(request: Request[Any, Any, Any]) -> None:
    """Litestar serves a page for what is below."""
    if request.url.path.rstrip("/") != PATH:
        raise NotFoundException
