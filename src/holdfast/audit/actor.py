"""Who acts: a person as the operating system knows them, or a job of CI with what it says of itself.

Neither is proof. A claim counts as proved only where a token that its issuer signed was checked
(`audit.proof`); everything else is recorded as what it is, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from holdfast.system.environment import Environment

PERSON: Final = "person"
GITHUB_ACTIONS: Final = "github-actions"
CI: Final = "ci"

_BECAUSE: Final = MappingProxyType(
    {
        PERSON: "the operating system says so; nothing proves it",
        GITHUB_ACTIONS: "the variables of the job say so; no token was checked",
        CI: "the operating system of a CI runner says so; nothing proves it",
    }
)
CLAIMS: Final = (
    "actor", "triggering_actor", "repository", "run_id", "run_number", "run_attempt", "workflow",
    "workflow_ref", "job", "event_name", "ref", "sha",
)  # fmt: skip
"""Named as in GitHub's own tokens; the variables are these in capitals behind `GITHUB_`."""
_UNKNOWN: Final = "somebody"


class Who(Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    """A person's login; in GitHub Actions the actor."""
    host: str
    proved: bool
    because: str
    """Why it counts as proved, or why it does not."""
    claims: Mapping[str, str]

    @property
    def shown(self) -> str:
        """Short, for a column: `ada@laptop`, `ci:acme/infra#411`."""
        if self.kind == GITHUB_ACTIONS:
            return f"ci:{self.claims.get('repository', '?')}#{self.claims.get('run_number', '?')}"
        return f"{self.name}@{self.host}"

    def document(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.name,
            "shown": self.shown,
            "host": self.host,
            "proved": self.proved,
            "because": self.because,
            "claims": dict(self.claims),
        }


def current_actor(environment: Environment) -> Who:
    """From what the program was started with. Unproved, and it says so."""
    kind = _kind(environment)
    claims = _job(environment) if kind == GITHUB_ACTIONS else _login(environment)
    name = claims.get("actor") or _UNKNOWN if kind == GITHUB_ACTIONS else environment.user
    return Who(
        kind=kind, name=name, host=environment.host, proved=False, because=_BECAUSE[kind], claims=claims
    )


def _kind(environment: Environment) -> str:
    if environment.get("GITHUB_ACTIONS") or environment.get("GITHUB_REPOSITORY"):
        return GITHUB_ACTIONS
    return CI if environment.ci else PERSON


def _job(environment: Environment) -> dict[str, str]:
    found = {claim: environment.get(f"GITHUB_{claim.upper()}") for claim in CLAIMS}
    return {claim: value for claim, value in found.items() if value is not None}


def _login(environment: Environment) -> dict[str, str]:
    """What the variables say beside the system: who used `sudo`, or another name than the system's."""
    said = {
        "login": environment.get("USER") or environment.get("LOGNAME"),
        "sudo": environment.get("SUDO_USER"),
    }
    return {claim: value for claim, value in said.items() if value is not None and value != environment.user}
