"""The guard's answer: a closed union with reasons. What falls through is refused."""

from __future__ import annotations

from holdfast.kernel.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    code: str
    message: str
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedApproval:
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    reasons: tuple[Reason, ...]


Decision = Allow | NeedApproval | Deny
NAMES: dict[type[Decision], str] = {Allow: "allow", NeedApproval: "approval", Deny: "deny"}
