"""The lock of a state on the server, who holds it, and who asks for it. Pure."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Permission
from holdfast.terraform.backend.http import Refusal
from holdfast.terraform.backend.rules import complete_info, lock_id

LEASE = timedelta(seconds=60)
"""A lease without a heartbeat for so long has expired. That alone does not end it."""
LONGEST_ID = 200
LONGEST_INFO = 16 << 10


class StateRefusal(Refusal):
    """A refusal with the code and the hint of its problem document."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str | None = None, body: bytes | None = None
    ) -> None:
        super().__init__(status, message, body=body)
        self.code = code
        self.hint = hint


class HolderKind(StrEnum):
    TERRAFORM = "terraform"
    RUN = "run"


class LockRequest(Struct, frozen=True, kw_only=True):
    id: str
    info: bytes
    """LockInfo, as the holder sent it."""
    kind: HolderKind = HolderKind.TERRAFORM
    who: str
    """The verified name of the caller."""
    holder: str = ""
    """The verified subject of the caller."""
    run: str | None = None


class StateLock(LockRequest, frozen=True, kw_only=True):
    number: int
    """The fencing number."""
    taken: datetime
    beat: datetime
    expires: datetime | None
    """None: an ordinary lock, held until it is released."""
    taken_from: str | None = None
    """Whose lease it was, and why it was taken over."""
    nested: str | None = None
    """The id of the lock that Terraform holds within the lease."""
    nested_info: bytes | None = None

    @property
    def writer(self) -> str:
        """The id that a write must name."""
        return self.nested or self.id

    def expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


class Lease(NamedTuple):
    """What the token of a run was created for."""

    run: str
    number: int


class Caller(Struct, frozen=True, kw_only=True):
    who: str
    subject: str = ""
    """Stands for the person or CI job; the name is for people."""
    admin: bool = False
    lease: Lease | None = None
    """Of the token of a run."""


def caller_of(principal: Principal) -> Caller:
    claims = principal.claims if principal.kind == RUN else {}
    return Caller(
        who=principal.name,
        subject=principal.subject,
        admin=principal.may(Permission.ADMINISTER),
        lease=Lease(claims["run"], int(claims["fence"])) if "fence" in claims else None,
    )


def is_holder(lock: StateLock, caller: Caller) -> bool:
    """Who took the lock, or the token that the run of this lease was given."""
    if caller.lease is not None:
        return (lock.run, lock.number) == caller.lease
    # A server of an earlier version recorded only the name.
    return lock.holder == caller.subject if lock.holder else lock.who == caller.who


def lock_request(info: bytes, caller: Caller) -> LockRequest:
    id_ = lock_id(info)
    if id_ is None or len(id_) > LONGEST_ID or not id_.isprintable():
        raise StateRefusal(
            400,
            "HF-STATE-42",
            "the lock request has no valid lock ID",
            hint='Send the LockInfo of Terraform: {"ID": "...", "Operation": "...", "Who": "...", ...}.',
        )
    return LockRequest(id=id_, info=complete_info(info), who=caller.who, holder=caller.subject)


def run_lease(run: str, id_: str, *, who: str, created: str, version: str, holder: str = "") -> LockRequest:
    """What a Holdfast run asks for; Terraform shows it to those who wait."""
    info = {
        "ID": id_,
        "Operation": "OperationTypeApply",
        "Info": f"Holdfast run {run}",
        "Who": who,
        "Version": version,
        "Created": created,
        "Path": "",
    }
    encoded = json.dumps(info).encode()
    return LockRequest(id=id_, info=encoded, kind=HolderKind.RUN, who=who, holder=holder, run=run)
