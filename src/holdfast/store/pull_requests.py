"""Plans made for pull requests: which stacks each would change, and what was applied since.

A plan job writes them, so they count without a signature and only inform: nothing is decided by them. Records
that cannot be read or are old are skipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from holdfast.kernel.errors import HoldfastError
from holdfast.store.blob_cipher import PULL_REQUESTS
from holdfast.store.blobs import EncryptedBlobs, to_json
from holdfast.system import clock

MAX_AGE = 30 * 86400.0
_MAX_READ = 200


class AppliedSince(Struct, frozen=True, kw_only=True):
    """An apply of a stack after it was planned for a pull request."""

    run: str
    at: str
    pull_request: int | None = None
    """The pull request that was applied."""


class RequestPlan(Struct, frozen=True, kw_only=True):
    """The last plan for one pull request, by one job."""

    host: str
    repository: str
    number: int
    comment: str
    """The key of the job's comment."""
    age: tuple[int, int]
    """The run of the job: `CiRun.age`."""
    who: str
    at: str
    stacks: tuple[str, ...]
    """Those with changes."""
    applied: Mapping[str, AppliedSince] = field(default_factory=dict)

    def is_for(self, host: str, repository: str | None) -> bool:
        return (self.host, self.repository) == (host, repository)


class RequestPlans:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def write(self, plan: RequestPlan) -> None:
        """Replaces the one of the job's last run. Without changes there is nothing to record."""
        if plan.stacks:
            document = msgspec.to_builtins(plan)
            self._encrypted.write(_name(plan), to_json(document), durable=False)
        else:
            self.remove(plan)

    def remove(self, plan: RequestPlan) -> None:
        self._encrypted.remove(_name(plan))

    def all(self) -> tuple[RequestPlan, ...]:
        """The newest first."""
        plans = []
        for name in sorted(self._encrypted.names(PULL_REQUESTS), key=_order, reverse=True)[:_MAX_READ]:
            plan = self._read(name)
            if plan is not None and _name(plan) == name and clock.seconds_since(plan.at) < MAX_AGE:
                plans.append(plan)
        return tuple(plans)

    def _read(self, name: str) -> RequestPlan | None:
        try:
            document = self._encrypted.document(name)
            return msgspec.convert(document, RequestPlan) if document is not None else None
        except (HoldfastError, ValueError):  # A ValidationError is a ValueError.
            return None


def _name(plan: RequestPlan) -> str:
    place = hashlib.sha256(f"{plan.host}\0{plan.repository}".encode()).hexdigest()[:16]
    return f"{PULL_REQUESTS}/{place}/{plan.number}-{plan.comment}"


def _order(name: str) -> int:
    number = name.rpartition("/")[2].partition("-")[0]
    return int(number) if number.isdecimal() else 0
