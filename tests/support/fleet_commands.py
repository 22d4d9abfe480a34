"""`holdfast events`, `devices` and `blueprints` as one person uses them."""

from __future__ import annotations

from typing import Any

from fleet_made import SITE, EventClient
from program import Program, Ran

CODE = SITE.replace(
    'resource "terraform_data" "site" {',
    """resource "terraform_data" "site" {
  lifecycle {
    precondition {
      condition     = var.site_name != "boom"
      error_message = "The vendor does not accept this site."
    }
  }""",
)
"""A site called `boom` fails when it is planned."""


class Commands:
    def __init__(self, program: Program, client: EventClient) -> None:
        self._program = program
        self._env = {"HOLDFAST_URL": client.url, "HOLDFAST_TOKEN": client.token}

    def ok(self, *arguments: str, code: int = 0, stdin: str = "") -> Ran:
        return self._program.ok(*arguments, code=code, env=self._env, stdin=stdin)

    def json(self, *arguments: str, code: int = 0) -> Any:
        return self._program.json(*arguments, code=code, env=self._env)

    def submit(self, action: str, device: str, *arguments: str, code: int = 0) -> Any:
        """The document of the event."""
        return self.json("events", "submit", "site", action, device, *arguments, code=code)
