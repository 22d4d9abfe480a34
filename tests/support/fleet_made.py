"""A server with blueprints, and a client of its events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from blueprints_made import make_blueprint
from program import Program
from served import serving

SITE = """
variable "site_name" {
  type = string
  validation {
    condition     = length(var.site_name) > 0
    error_message = "A site needs a name."
  }
}
variable "size" {
  type    = number
  default = 1
}
resource "terraform_data" "site" {
  input = { name = var.site_name, size = var.size }
}
output "site" {
  value = terraform_data.site.output
}
"""
SETTINGS = "name: site\nversion: 1.0.0\noutputs: [site]\ndeletion: allow\n"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any


class EventClient:
    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        fields = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        request = Request(f"{self.url}{path}", data=data, method=method, headers=fields)  # noqa: S310 - loopback
        try:
            answer: HTTPResponse
            with urlopen(request, timeout=120) as answer:  # noqa: S310 - loopback
                return Answer(answer.status, dict(answer.headers), json.loads(answer.read() or b"null"))
        except HTTPError as error:
            return Answer(error.code, dict(error.headers), json.loads(error.read() or b"null"))

    def submit(
        self,
        action: str,
        resource_id: str,
        payload: object = None,
        *,
        blueprint: str = "site",
        wait: float = 60,
        key: str | None = None,
        **more: object,
    ) -> Answer:
        body = {"blueprint": blueprint, "action": action, "resource_id": resource_id, **more}
        if payload is not None:
            body["payload"] = payload
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.request("POST", f"/api/v1/events?wait={wait:g}", body, headers)

    def ended(self, event: str, seconds: float = 60) -> Any:
        """Final, or waiting for an approval."""
        return self.request("GET", f"/api/v1/events/{event}?wait={seconds:g}").body

    def act(self, event: str, action: str, **body: object) -> Answer:
        return self.request("POST", f"/api/v1/events/{event}/{action}", body)

    def as_role(self, role: str, name: str, tenant: str = "default") -> EventClient:
        made = self.request("POST", "/api/v1/tokens", {"role": role, "name": name, "tenant": tenant})
        return EventClient(self.url, made.body["token"])


@contextmanager
def fleet(
    program: Program, folder: Path, *, settings: str = SETTINGS, code: str = SITE, workers: int = 1
) -> Iterator[EventClient]:
    """Served from this folder, with the token of an operator."""
    make_blueprint(folder / "blueprints" / "site", settings=settings, code=code)
    with fleet_of(program, folder, folder / "blueprints", workers=workers) as admin:
        yield admin.as_role("operator", "client")


@contextmanager
def fleet_of(program: Program, folder: Path, blueprints: Path, *, workers: int = 1) -> Iterator[EventClient]:
    data = folder / "data"
    with serving(program, data, workers=workers, blueprints=blueprints) as client:
        yield EventClient(str(client["HOLDFAST_URL"]), (data / "admin-token").read_text().strip())
