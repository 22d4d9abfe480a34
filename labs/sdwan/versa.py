"""The part of Versa Director's REST API that sites with IPsec and BGP need, in memory. Loopback only.

    GET              /api/config/devices/template/T                 (below: T = this path)
    GET, PUT, DELETE T/config/orgs/org-services/ORG/ipsec/vpn-profile/NAME
    GET, PUT, DELETE T/config/routing-instances/routing-instance/VR/protocols/bgp/rti-bgp/ID/group/NAME
    GET              either without the name: all of them; PATCH with `group`: adds groups
    POST             /vnms/template/applyTemplate/TEMPLATE/devices  answers the id of a task
    GET              /vnms/tasks/task/ID

    GET /templates, GET /devices    what is staged, and what was committed to devices
    PUT, DELETE /outside            change, or take away, what is at `path` outside Terraform

and what every simulator has: calls, counts, faults and release (labs/simulator.py).
`python labs/sdwan/versa.py --port 0` prints the address. VERSA_USERNAME and VERSA_PASSWORD, or else `lab` and
`lab-password`, are let in.

A GET without `?deep=true` answers only what is not nested, and keys and passwords never come back as they
were sent: so it is with other products on the same configuration database. Neither was seen on a Director.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import sys
from copy import deepcopy
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulator import Answer, Request, Simulator, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Values = dict[str, Any]
Place = tuple[str, ...]
Staged = dict[Place, Values]

USERNAME = "lab"
PASSWORD = "lab-password"  # noqa: S105 (a made-up one)
_SECRETS = frozenset({"key", "password"})


class VersaDirector(Simulator):
    """`templates` exist from the start; nothing here makes more of them.

    A task is in progress for the first `polls` times that it is asked about.
    """

    name: ClassVar = "versa"
    operations: ClassVar = frozenset(
        {"read", "put-vpn-profile", "put-group", "delete-vpn-profile", "delete-group", "commit", "task"}
    )

    def __init__(
        self,
        port: int = 0,
        *,
        username: str = USERNAME,
        password: str = PASSWORD,
        templates: Iterable[str] = ("BRANCH",),
        polls: int = 1,
    ) -> None:
        super().__init__(port)
        self._authorization = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        self._templates: dict[str, Staged] = {name: {} for name in templates}
        self._devices: dict[str, Values] = {}
        self._tasks: dict[str, Values] = {}
        self._polls = polls
        self._numbers = itertools.count(201)

    def templates(self) -> dict[str, dict[str, Values]]:
        """What is staged in each template, by its path below `config`, with secrets as they were sent."""
        with self._lock:
            return {
                name: {"/".join(place): deepcopy(value) for place, value in staged.items()}
                for name, staged in self._templates.items()
            }

    def devices(self) -> dict[str, dict[str, Values]]:
        """What the last commit brought to each device."""
        with self._lock:
            return deepcopy(self._devices)

    def change(self, template: str, path: str, **values: Any) -> None:
        """Change what is staged as another administrator would: drift."""
        with self._lock:
            self._templates[template][tuple(path.split("/"))].update(values)

    def remove(self, template: str, path: str) -> None:
        with self._lock:
            del self._templates[template][tuple(path.split("/"))]

    def respond(self, request: Request) -> Answer:
        if request.path[:1] in {("api",), ("vnms",)}:
            if request.headers.get("authorization") != self._authorization:
                return HTTPStatus.UNAUTHORIZED, {"code": 4001, "message": "Unauthenticated"}
            return self._rest(request)
        return super().respond(request)

    def controls(self, request: Request) -> dict[tuple[str, str], Callable[[], Any]]:
        where = request.body
        return {
            **super().controls(request),
            ("GET", "templates"): lambda: {"templates": self.templates()},
            ("GET", "devices"): lambda: {"devices": self.devices()},
            ("PUT", "outside"): lambda: self.change(where["template"], where["path"], **where["values"]),
            ("DELETE", "outside"): lambda: self.remove(where["template"], where["path"]),
        }

    def _rest(self, request: Request) -> Answer:
        match request.method, request.path:
            case method, ("api", "config", "devices", "template", template, "config", *place):
                return self._configuration(method, template, tuple(place), request)
            case "GET", ("api", "config", "devices", "template", template):
                return self.perform("read", lambda: self._template(template), name=template)
            case "POST", ("vnms", "template", "applyTemplate", template, "devices"):
                return self.perform(
                    "commit", lambda: self._commit(template, request.body), name=template, gone=request.gone
                )
            case "GET", ("vnms", "tasks", "task", task):
                return self.perform("task", lambda: self._task(task), id=task)
        return HTTPStatus.NOT_FOUND, _error(f"{request.method} /{'/'.join(request.path)} is not simulated")

    def _configuration(self, method: str, template: str, place: Place, request: Request) -> Answer:
        kind, name = _kind_and_name(place)
        if kind is None:
            return HTTPStatus.NOT_FOUND, _error(f"config/{'/'.join(place)} is not simulated")

        def work() -> Answer:
            staged = self._templates.get(template)
            if staged is None:
                return HTTPStatus.NOT_FOUND, _error(f"template {template} does not exist")
            if name is None:
                return _on_list(method, staged, place, kind, request)
            return _on_entry(method, staged, place, kind, request)

        operation = "read" if method == "GET" else f"{'delete' if method == 'DELETE' else 'put'}-{kind}"
        return self.perform(operation, work, id="/".join(place), name=name, gone=request.gone)

    def _template(self, template: str) -> Answer:
        if template not in self._templates:
            return HTTPStatus.NOT_FOUND, _error(f"template {template} does not exist")
        return HTTPStatus.OK, {"template": {"name": template}}

    def _commit(self, template: str, body: Values) -> Answer:
        if template not in self._templates:
            return HTTPStatus.NOT_FOUND, _error(f"template {template} does not exist")
        wanted = body["versanms.templateRequest"]
        devices = wanted["device-list"]
        for device in devices:
            kept = self._devices.get(device, {}) if wanted["mode"] == "merge" else {}
            self._devices[device] = {**kept, **self.templates()[template]}
        task = str(next(self._numbers))
        self._tasks[task] = {"polls": self._polls, "devices": devices}
        answer = {"taskId": task, "message": f"Apply of the template {template} has been started"}
        return HTTPStatus.OK, {"versanms.templateResponse": answer}

    def _task(self, task: str) -> Answer:
        known = self._tasks.get(task)
        if known is None:
            return HTTPStatus.NOT_FOUND, _error(f"task {task} does not exist")
        known["polls"] -= 1
        status, done = ("IN_PROGRESS", 50) if known["polls"] >= 0 else ("COMPLETED", 100)
        fields = {"id": int(task), "task-status": status, "percentage-completion": done}
        return HTTPStatus.OK, {"versa-tasks.task": {f"versa-tasks.{k}": v for k, v in fields.items()}}


def _kind_and_name(place: Place) -> tuple[str | None, str | None]:
    match place:
        case ("orgs", "org-services", _, "ipsec", "vpn-profile" as kind, *name):
            pass
        case (
            "routing-instances",
            "routing-instance",
            _,
            "protocols",
            "bgp",
            "rti-bgp",
            _,
            "group" as kind,
            *name,
        ):
            pass
        case _:
            return None, None
    return (None, None) if len(name) > 1 else (kind, name[0] if name else None)


def _on_list(method: str, staged: Staged, place: Place, kind: str, request: Request) -> Answer:
    match method:
        case "GET":
            return HTTPStatus.OK, {kind: [_shown(v) for at, v in staged.items() if at[:-1] == place]}
        case "PATCH" if kind == "group":
            for group in request.body[kind]:
                at = (*place, group["name"])
                staged[at] = {**staged.get(at, {}), **group}
            return HTTPStatus.NO_CONTENT, ""
    return HTTPStatus.METHOD_NOT_ALLOWED, _error(f"{method} is not possible here")


def _on_entry(method: str, staged: Staged, place: Place, kind: str, request: Request) -> Answer:
    if method == "PUT":
        value = request.body.get(kind)
        if not isinstance(value, dict) or value.get("name") != place[-1]:
            return HTTPStatus.BAD_REQUEST, _error(f"the body is a {kind} with the name of the path")
        status = HTTPStatus.NO_CONTENT if place in staged else HTTPStatus.CREATED
        staged[place] = value
        return status, ""
    if place not in staged:
        return HTTPStatus.NOT_FOUND, _error(f"{place[-1]} does not exist")
    if method == "DELETE":
        del staged[place]
        return HTTPStatus.NO_CONTENT, ""
    if method == "GET":
        value = _shown(staged[place])
        return HTTPStatus.OK, {kind: value if request.query.get("deep") == "true" else _shallow(value)}
    return HTTPStatus.METHOD_NOT_ALLOWED, _error(f"{method} is not possible here")


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _sealed(each) if key in _SECRETS else _shown(each) for key, each in value.items()}


def _sealed(secret: Any) -> str:
    return "$4$" + hashlib.sha256(str(secret).encode()).hexdigest()[:24]


def _shallow(value: Values) -> Values:
    return {key: each for key, each in value.items() if not isinstance(each, dict | list)}


def _error(message: str) -> Values:
    return {"errors": {"error": [{"error-message": message, "error-tag": "invalid-value"}]}}


def _start(port: int) -> VersaDirector:
    return VersaDirector(
        port,
        username=os.environ.get("VERSA_USERNAME", USERNAME),
        password=os.environ.get("VERSA_PASSWORD", PASSWORD),
    )


if __name__ == "__main__":
    serve("Simulate the part of Versa Director that sites need, on this machine only.", _start)
