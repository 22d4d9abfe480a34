"""Actions that lead to more privileges or to secrets if they are allowed on every resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.checks.iam.arns import parse_arn
from holdfast.checks.iam.document import HOLE
from holdfast.checks.iam.statements import covers

ESCALATING: Final[Mapping[str, str]] = {
    "iam:PassRole": "any role of the account can be given to a service and used through it",
    "sts:AssumeRole": "any role that trusts the account can be taken on",
    "iam:CreateAccessKey": "keys can be made for any user",
    "iam:CreateLoginProfile": "a password can be set for any user",
    "iam:UpdateLoginProfile": "the password of any user can be changed",
    "iam:AttachUserPolicy": "any policy can be attached to any user",
    "iam:AttachGroupPolicy": "any policy can be attached to any group",
    "iam:AttachRolePolicy": "any policy can be attached to any role",
    "iam:PutUserPolicy": "any rights can be written into any user",
    "iam:PutGroupPolicy": "any rights can be written into any group",
    "iam:PutRolePolicy": "any rights can be written into any role",
    "iam:CreatePolicyVersion": "any policy can be rewritten",
    "iam:SetDefaultPolicyVersion": "an older, wider version of any policy can be made to count",
    "iam:AddUserToGroup": "any user can be put into any group",
    "iam:UpdateAssumeRolePolicy": "anyone can be let into any role",
    "iam:DeleteRolePermissionsBoundary": "the bounds of any role can be taken away",
    "iam:PutRolePermissionsBoundary": "the bounds of any role can be moved",
    "lambda:UpdateFunctionCode": "the code of any function can be replaced, and runs with that one's rights",
    "lambda:AddPermission": "anyone can be let call any function",
    "kms:PutKeyPolicy": "the policy of any key can be rewritten",
    "kms:CreateGrant": "any key can be handed to anyone",
    "kms:ScheduleKeyDeletion": "any key can be destroyed, and all that it encrypts with it",
    "s3:PutBucketPolicy": "any bucket can be opened to anyone",
    "organizations:LeaveOrganization": "the account can be taken out of its organization's bounds",
}
REVEALING: Final[Mapping[str, str]] = {
    "secretsmanager:GetSecretValue": "every secret can be read",
    "ssm:GetParameter": "every parameter can be read, secret ones too",
    "kms:Decrypt": "whatever any key encrypts can be read",
}


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
