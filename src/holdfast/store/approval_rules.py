"""Rules of a server about approvals, which no repository can weaken.

They come from server.yaml. The server writes them to the run store of its first tenant when it starts, so all
workers use the same ones, whatever files are on their machines.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.config.guard import RequiredApprovals
from holdfast.config.server import ServerSettings
from holdfast.store.blobs import EncryptedBlobs, to_json

_NAME: Final = "server/approval-rules"


class ApprovalRule(Struct, frozen=True, kw_only=True):
    tenant: str = "*"
    environments: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    """Patterns; without any, all."""
    count: int = 1
    role: str | None = None
    group: str | None = None

    def covers(self, stack: str, environments: Iterable[str | None]) -> bool:
        """`environments`: what the stack is, and what it was before. Without one it could be any of them."""
        return _any_matches((stack,), self.stacks) and (
            None in (names := set(environments)) or _any_matches(map(str, names), self.environments)
        )

    @property
    def required(self) -> RequiredApprovals:
        return RequiredApprovals(count=self.count, verified=True, role=self.role, group=self.group)


class ServerRules(Struct, frozen=True, kw_only=True):
    approvals: tuple[ApprovalRule, ...] = ()
    approval_lifetime: float = 24 * 3600.0
    """Seconds after which an approval no longer counts."""


def rules_from_settings(settings: ServerSettings) -> ServerRules:
    return ServerRules(
        approvals=tuple(
            ApprovalRule(**{name: getattr(rule, name) for name in ApprovalRule.__struct_fields__})
            for rule in settings.approvals
        ),
        approval_lifetime=settings.runs.approval_lifetime,
    )


def write_rules(encrypted: EncryptedBlobs, rules: ServerRules) -> None:
    if read_rules(encrypted) != rules:
        encrypted.write(_NAME, to_json(msgspec.to_builtins(rules)))


def read_rules(encrypted: EncryptedBlobs, tenant: str = "*") -> ServerRules:
    """Those for one tenant, or all."""
    blob = encrypted.read(_NAME)
    if blob is None:
        return ServerRules()
    rules = msgspec.json.decode(blob.data, type=ServerRules)
    if tenant == "*":
        return rules
    own = tuple(rule for rule in rules.approvals if fnmatchcase(tenant, rule.tenant))
    return msgspec.structs.replace(rules, approvals=own)


def _any_matches(names: Iterable[str], patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
