"""The actor: a user of the operating system, or a CI job with the claims of its variables.

Neither is verified. Only a signed token verifies claims (`audit.proof`); everything else is recorded as
unverified, with the reason, and counts as the user of its machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, convert
from msgspec.structs import asdict

from holdfast.system import os_user
from holdfast.system.environment import Environment

PERSON: Final = "person"
GITHUB_ACTIONS: Final = "github-actions"
CI: Final = "ci"

_REASONS: Final = MappingProxyType(
    {
        PERSON: "the operating-system user, not verified",
        GITHUB_ACTIONS: "the job's variables, without a verified token",
        CI: "the user of a CI runner, not verified",
    }
)
CLAIMS: Final = (
    "actor", "triggering_actor", "repository", "run_id", "run_number", "run_attempt", "workflow",
    "workflow_ref", "job", "event_name", "ref", "sha",
)  # fmt: skip
"""The names in GitHub's tokens; the variables are `GITHUB_` and the name in capitals."""
_UNKNOWN: Final = "unknown"


class Actor(Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    """A person's login; in GitHub Actions the actor."""
    host: str
    machine: str = ""
    """A digest of the machine's id."""
    uid: int | None = None
    """The user of the operating system on that machine."""
    verified: bool
    because: str
    """Why the identity is verified, or why not."""
    claims: Mapping[str, str]
    subject: str = ""
    """What a server compares: the same for all tokens of one person, and of no other."""

    @property
    def shown(self) -> str:
        """For a column: `ada@laptop`, `ci:acme/infra#411`."""
        if self.kind == GITHUB_ACTIONS:
            return f"ci:{self.claims.get('repository', '?')}#{self.claims.get('run_number', '?')}"
        return f"{self.name}@{self.host}"

    def document(self) -> dict[str, object]:
        return {**asdict(self), "shown": self.shown, "claims": dict(self.claims)}


def actor_from(document: Mapping[str, object]) -> Actor:
    """As a server verified it."""
    return convert({name: document[name] for name in Actor.__struct_fields__ if name in document}, Actor)


def current_actor(environment: Environment) -> Actor:
    """From the environment of the program: unverified."""
    get, host = environment.get, environment.host
    if get("GITHUB_ACTIONS") or get("GITHUB_REPOSITORY"):
        kind = GITHUB_ACTIONS
        claims = {claim: get(f"GITHUB_{claim.upper()}") for claim in CLAIMS}
        name = claims["actor"] or _UNKNOWN
    else:
        kind, name = CI if environment.ci else PERSON, environment.user
        logins = {"login": get("USER") or get("LOGNAME"), "sudo": get("SUDO_USER")}
        claims = {claim: login for claim, login in logins.items() if login != environment.user}
    known = {claim: value for claim, value in claims.items() if value is not None}
    return Actor(
        kind=kind,
        name=name,
        host=host,
        machine=os_user.machine(),
        uid=os_user.user_id(),
        verified=False,
        because=_REASONS[kind],
        claims=known,
    )
