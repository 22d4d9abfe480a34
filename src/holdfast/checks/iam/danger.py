"""Actions that lead to more privileges or to secrets if they are allowed on every resource."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from holdfast.checks.iam.arns import parse_arn
from holdfast.checks.iam.document import HOLE
from holdfast.checks.iam.statements import covers

_TABLES: Final = msgspec.json.decode(
    Path(__file__).with_name("dangerous_actions.json").read_bytes(), type=dict[str, dict[str, str]]
)
ESCALATING: Final = _TABLES["escalating"]
REVEALING: Final = _TABLES["revealing"]
"""Actions with their consequences, the most dangerous first."""

_OF: Final[Mapping[str, str]] = {
    "lambda": "function",
    "kms": "key",
    "s3": "",
    "secretsmanager": "secret",
    "ssm": "parameter",
}
_OF_IAM: Final = ("Role", "User", "Group", "Policy")


def most_dangerous_action(
    pattern: str, table: Mapping[str, str], resource: str = "*"
) -> tuple[str, str] | None:
    """The most dangerous action that a pattern covers on this resource, and its consequence."""
    return next(
        (
            (action, why)
            for action, why in table.items()
            if covers(pattern, action) and covers_all_resources(resource, action)
        ),
        None,
    )


def covers_all_resources(resource: str, action: str) -> bool:
    """Whether it covers every resource of an action: `*`, or `arn:aws:iam::111122223333:role/*`."""
    if not resource.strip("*"):
        return True
    arn = parse_arn(resource)
    if arn is None or not arn.resource.endswith("*") or HOLE in arn.resource:
        return False
    service = action.partition(":")[0]
    kind = _kind(action)
    named = covers(arn.service, "iam" if service == "sts" else service)
    return named and arn.resource.rstrip("*?") in ("", kind, f"{kind}/", f"{kind}:")


def _kind(action: str) -> str:
    """The prefix of the ARNs of an action's resources."""
    service, _, name = action.partition(":")
    if service == "sts":
        return "role"
    if service != "iam":
        return _OF.get(service, service)
    if name in ("CreateAccessKey", "CreateLoginProfile", "UpdateLoginProfile"):
        return "user"
    if name == "AddUserToGroup":
        return "group"
    return next(kind.lower() for kind in _OF_IAM if kind in name)
