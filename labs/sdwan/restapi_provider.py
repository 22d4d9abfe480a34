"""A provider that acts as `mastercard/restapi` 2.0: `restapi_object`, as far as our blueprint needs it.

Simulated: paths and methods of each operation, `object_id` and `id_attribute`, `data` and its variants,
`ignore_changes_to`, `ignore_all_server_changes`, `force_new`, `API_DATA_IS_SENSITIVE`, basic authentication,
headers, and where an answer is the object. The rest of the real schema is there, and refused when it is set.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from tf import iface
from tf.schema import Attribute, Schema
from tf.types import Bool, List, Map, Number, String, Unknown

from sdwan.client import Unreachable, send

State = dict[str, Any]

_METHODS = {"create": "POST", "read": "GET", "update": "PUT", "destroy": "DELETE"}
_PROVIDER_TEXTS = (
    "uri", "username", "password", "id_attribute", "create_method", "read_method", "update_method",
    "destroy_method",
)  # fmt: skip
_PROVIDER_FLAGS = ("insecure", "write_returns_object", "create_returns_object")
_NOT_SIMULATED: dict[str, Any] = {
    "use_cookies": Bool, "copy_keys": lambda: List(String()), "xssi_prefix": String, "rate_limit": Number,
    "test_path": String, "debug": Bool, "cert_string": String, "key_string": String, "cert_file": String,
    "key_file": String, "root_ca_file": String, "root_ca_string": String, "timeout": Number,
}  # fmt: skip
_OBJECT_TEXTS = (
    "create_path", "read_path", "update_path", "destroy_path",
    "create_method", "read_method", "update_method", "destroy_method", "id_attribute", "object_id",
)  # fmt: skip
_OBJECT_NOT_SIMULATED: dict[str, Any] = {
    "debug": Bool, "read_search": lambda: Map(String()), "query_string": String,
    "read_data": String,
}  # fmt: skip
_GONE = (404, 410)


class RestError(Exception):
    """Why a request did not do what was wanted."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class RestApiProvider(iface.Provider):  # type: ignore[misc]  # the package has no types
    def __init__(self) -> None:
        self.settings: State = {}

    def get_model_prefix(self) -> str:
        return "restapi_"

    def full_name(self) -> str:
        return "registry.terraform.io/mastercard/restapi"

    def get_provider_schema(self, diags: Any) -> Schema:  # noqa: ARG002 (the package's signature)
        return Schema(
            attributes=[
                *(Attribute(name, String(), optional=True) for name in _PROVIDER_TEXTS),
                *(Attribute(name, Bool(), optional=True) for name in _PROVIDER_FLAGS),
                Attribute("headers", Map(String()), optional=True),
                *(Attribute(name, kind(), optional=True) for name, kind in _NOT_SIMULATED.items()),
            ]
        )

    def validate_config(self, diags: Any, config: State) -> None:
        _refuse(diags, config, _NOT_SIMULATED)

    def configure_provider(self, diags: Any, config: State) -> None:
        names = {"uri": "REST_API_URI", "username": "REST_API_USERNAME", "password": "REST_API_PASSWORD"}
        given = {name: os.environ.get(variable) for name, variable in names.items()}
        self.settings = {**given, **{name: value for name, value in config.items() if value is not None}}
        if not self.settings.get("uri") or self.settings["uri"] is Unknown:
            diags.add_error("Missing uri", "Set it in the provider block, or REST_API_URI.", path=["uri"])

    def get_data_sources(self) -> list[type[iface.DataSource]]:
        return []

    def get_resources(self) -> list[type[iface.Resource]]:
        return [RestApiObject]

    def request(self, method: str, path: str, body: str | None) -> str:
        headers = {} if body is None else {"Content-Type": "application/json"}
        headers |= self.settings.get("headers") or {}
        username, password = self.settings.get("username"), self.settings.get("password")
        if username and password:
            code = base64.b64encode(f"{username}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {code}"
        try:
            status, text = send(
                method,
                self.settings["uri"].rstrip("/") + path,
                headers,
                None if body is None else body.encode(),
            )
        except Unreachable as error:
            raise RestError(str(error)) from error
        if not 200 <= status < 300:  # noqa: PLR2004 (success)
            raise RestError(f"unexpected response code '{status}': {text.strip()}", status)
        return text.strip() or "{}"


class RestApiObject(iface.Resource):  # type: ignore[misc]  # the package has no types
    def __init__(self, provider: RestApiProvider) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return "object"

    @classmethod
    def get_schema(cls) -> Schema:
        sensitive = os.environ.get("API_DATA_IS_SENSITIVE", "").lower() in ("1", "t", "true")
        return Schema(
            version=0,
            attributes=[
                Attribute("id", String(), computed=True),
                Attribute("path", String(), required=True),
                *(Attribute(name, String(), optional=True) for name in _OBJECT_TEXTS),
                Attribute("data", String(), required=True, sensitive=sensitive),
                Attribute("update_data", String(), optional=True, sensitive=sensitive),
                Attribute("destroy_data", String(), optional=True, sensitive=sensitive),
                Attribute("ignore_changes_to", List(String()), optional=True, sensitive=sensitive),
                Attribute("ignore_all_server_changes", Bool(), optional=True),
                Attribute("force_new", List(String()), optional=True, requires_replace=True),
                Attribute("api_data", Map(String()), computed=True, sensitive=sensitive),
                Attribute("api_response", String(), computed=True, sensitive=sensitive),
                Attribute("create_response", String(), computed=True, sensitive=sensitive),
                *(Attribute(name, kind(), optional=True) for name, kind in _OBJECT_NOT_SIMULATED.items()),
            ],
        )

    def validate(self, diags: Any, type_name: str, config: State) -> None:
        super().validate(diags, type_name, config)
        _refuse(diags, config, _OBJECT_NOT_SIMULATED)
        for name in ("data", "update_data", "destroy_data"):
            try:
                json.loads(config[name] if isinstance(config.get(name), str) else "{}")
            except ValueError as error:
                diags.add_error(f"{name} attribute is invalid JSON", str(error), path=[name])

    def plan(self, ctx: iface.PlanContext, current: State | None, planned: State) -> State | None:  # noqa: ARG002 (the package's)
        if ctx.changed_fields:
            planned |= {"api_data": Unknown, "api_response": Unknown}
        return planned

    def create(self, ctx: iface.CreateContext, planned: State) -> State | None:
        key = self._known_id(planned)
        returns = self._flag("write_returns_object") or self._flag("create_returns_object")
        if key is None and not returns:
            ctx.diagnostics.add_error("The object has no id", "Its data has none, and nothing returns it.")
            return None
        try:
            text = self._send("create", planned, key or "", planned["data"])
            if returns:
                key = key or _at(json.loads(text), self._id_attribute(planned))
            else:
                text = self._send("read", planned, str(key), None)
        except (RestError, ValueError) as error:
            ctx.diagnostics.add_error("The object was not created", str(error))
            return None
        if key is None:
            ctx.diagnostics.add_error("The object has no id", "It *may* have been created.")
            return None
        return {**planned, "id": key, **_answered(text), "create_response": text}

    def read(self, ctx: iface.ReadContext, current: State) -> State | None:
        """A 404 takes the object out of the state; what changed on the server shows as a change of `data`."""
        try:
            text = self._send("read", current, current["id"], None)
        except RestError as error:
            if error.status == _GONE[0]:
                return None
            ctx.diagnostics.add_error("The object was not read", str(error))
            return current
        read = {**current, **_answered(text)}
        if not current["ignore_all_server_changes"]:
            data, changed = _overlaid(
                json.loads(current["data"]), json.loads(text), current["ignore_changes_to"] or []
            )
            if changed:
                read["data"] = _as_go_writes(data)
        return read

    def update(self, ctx: iface.UpdateContext, current: State, planned: State) -> State | None:
        try:
            body = planned["data"] if planned["update_data"] is None else planned["update_data"]
            text = self._send("update", planned, planned["id"], body)
            if not self._flag("write_returns_object"):
                text = self._send("read", planned, planned["id"], None)
        except RestError as error:
            ctx.diagnostics.add_error("The object was not updated", str(error))
            return current
        return {**planned, **_answered(text)}

    def delete(self, ctx: iface.DeleteContext, current: State) -> State | None:
        try:
            self._send("destroy", current, current["id"], current["destroy_data"])
        except RestError as error:
            if error.status not in _GONE:
                ctx.diagnostics.add_error("The object was not deleted", str(error))
                return current
        return None

    def _send(self, operation: str, values: State, key: str, body: str | None) -> str:
        settings = self._provider.settings
        method = values[f"{operation}_method"] or settings.get(f"{operation}_method") or _METHODS[operation]
        path = values[f"{operation}_path"] or values["path"] + ("" if operation == "create" else "/{id}")
        return self._provider.request(method, path.replace("{id}", key), body)

    def _known_id(self, planned: State) -> str | None:
        if planned["object_id"] is not None:
            return str(planned["object_id"])
        return _at(json.loads(planned["data"]), self._id_attribute(planned))

    def _id_attribute(self, values: State) -> str:
        return str(values["id_attribute"] or self._provider.settings.get("id_attribute") or "id")

    def _flag(self, name: str) -> bool:
        return bool(self._provider.settings.get(name))


def _refuse(diags: Any, config: State, names: dict[str, Any]) -> None:
    for name in names:
        if config.get(name) is not None:
            diags.add_error(f"The lab does not simulate {name}", "The real provider has it.", path=[name])


def _at(values: Any, path: str) -> str | None:
    for part in path.split("/"):
        if not isinstance(values, dict) or part not in values:
            return None
        values = values[part]
    return str(values)


def _answered(text: str) -> State:
    """The first level of the answer as Go prints it, near enough: nested values are JSON here."""
    shown = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in json.loads(text).items()
    }
    return {"api_data": shown, "api_response": text}


def _overlaid(recorded: State, actual: State, ignored: list[str]) -> tuple[State, bool]:
    """What was recorded, with what differs on the server laid over it, and whether anything does."""
    overlaid: State = {}
    changed = False
    for key, value in recorded.items():
        other = actual.get(key)
        if key in ignored:
            overlaid[key] = value
        elif isinstance(value, dict) and isinstance(other, dict):
            below = [path.partition(".")[2] for path in ignored if path.partition(".")[0] == key]
            overlaid[key], deeper = _overlaid(value, other, below)
            changed |= deeper
        else:
            overlaid[key] = other
            changed |= value != other
    added = {key: value for key, value in actual.items() if key not in recorded and key not in ignored}
    return {**overlaid, **added}, changed or bool(added)


def _as_go_writes(value: State) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
