"""`aws-sm:` and `aws-ssm:`: secrets in Secrets Manager and the Parameter Store, read by a process of our own.

All that are wanted at once are read by one process, as the one who started Holdfast: by keys, profile, web
identity, SSO, or the role of the machine, whatever the AWS library finds.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config.locators import Locator
from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.sources import aws_reading, failures, values
from holdfast.secrets.sources.interface import Found, Patience, locator_of
from holdfast.system import processes
from holdfast.system.environment import Environment

_PROGRAM = Path(aws_reading.__file__)
_SERVICES = {"aws-sm": "secretsmanager", "aws-ssm": "ssm"}
_NAMES = {"aws-sm": "Secrets Manager", "aws-ssm": "the Parameter Store"}
_NEEDS = {
    "aws-sm": "It needs secretsmanager:GetSecretValue on the secret, and kms:Decrypt if it has its own key.",
    "aws-ssm": "It needs ssm:GetParameter on the parameter, and kms:Decrypt if it has its own key.",
}
_ABSENT = frozenset({"ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound"})
_GOING = "InvalidRequestException"
_BUSY = frozenset({"ThrottlingException", "Throttling", "InternalServiceError", "InternalServerError"})
_DENIED = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "DecryptionFailure", "InvalidKeyId",
        "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException",
        "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature",
        "OptInRequired",
    }
)  # fmt: skip
_WAYS = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role."
_METHODS = {"env": "keys in the environment", "iam-role": "the role of this machine"}
_ENDED = 124


class Aws:
    """The caller's way to AWS. Nothing is kept between two readings: each starts its own process."""

    batches = True

    def __init__(self, environment: Environment, patience: Patience, *, named: bool) -> None:
        self._environment = environment
        self._patience = patience
        self._named = named

    def fetch(self, refs: Sequence[SecretRef]) -> Mapping[SecretRef, Found | HoldfastError]:
        found: dict[SecretRef, Found | HoldfastError] = {}
        wanted: dict[SecretRef, Locator] = {}
        for ref in refs:
            try:
                wanted[ref] = locator_of(ref)
            except HoldfastError as error:
                found[ref] = error
        return {**found, **self._read(wanted)} if wanted else found

    def _read(self, wanted: Mapping[SecretRef, Locator]) -> dict[SecretRef, Found | HoldfastError]:
        told = self._told([_wish(ref, locator) for ref, locator in wanted.items()])
        by = _shown(told.get("who") or {}, self._environment)
        answers = told.get("answers") or [told.get("failed") or {}] * len(wanted)
        return {
            ref: self._meant(ref, locator, answer, by)
            for (ref, locator), answer in zip(wanted.items(), answers, strict=True)
        }

    def _told(self, wishes: list[dict[str, Any]]) -> dict[str, Any]:
        patience = self._patience
        wish = {"wishes": wishes, "named": self._named, "seconds": patience.request, "tries": patience.tries}
        variables = {name: value for name, value in self._environment.variables.items() if value}
        if region := variables.get("AWS_REGION"):
            # The library knows only the older name.
            variables["AWS_DEFAULT_REGION"] = region
        finished = processes.run(
            (sys.executable, "-I", "-S", str(_PROGRAM), os.pathsep.join(filter(None, sys.path))),
            folder=Path.cwd(),
            environment={**variables, aws_reading.WANTED: json.dumps(wish)},
            seconds=patience.whole,
        )
        if finished.code == _ENDED:
            return {"failed": {"kind": "slow", "seconds": patience.whole}}
        try:
            told = json.loads(finished.out) if finished.code == 0 else {}
        except ValueError:
            told = {}
        # Only the kind of an error that nobody foresaw: its text may quote what was sent.
        last = finished.err.decode(errors="replace").strip().rpartition("\n")[2].partition(":")[0]
        return told or {"failed": {"kind": "broken", "said": f"reading ended with {finished.code} {last}"}}

    def _meant(
        self, ref: SecretRef, locator: Locator, answer: Mapping[str, Any], by: str
    ) -> Found | HoldfastError:
        try:
            if isinstance(text := answer.get("text"), str):
                return Found(values.picked(ref, text, locator.field), by)
        except HoldfastError as error:
            return error
        return _failure(ref, answer, by, self._patience)


def _wish(ref: SecretRef, locator: Locator) -> dict[str, Any]:
    """An ARN names its region itself."""
    parts = locator.name.split(":")
    of_arn = parts[3] if parts[0] == "arn" and len(parts) > 3 else None  # noqa: PLR2004 - arn:PARTITION:SERVICE:REGION
    return {
        "service": _SERVICES[ref.scheme],
        "name": locator.name,
        "region": locator.options.get("region") or of_arn,
        "version": locator.options.get("version"),
    }


def _shown(who: Mapping[str, Any], environment: Environment) -> str:
    """Who asked, as far as it is known: an ARN where AWS was asked for it, else where the keys came from."""
    profile, method = who.get("profile") or environment.get("AWS_PROFILE"), who.get("method")
    source = f"profile {profile}" if profile else _METHODS.get(str(method), method)
    if arn := who.get("arn"):
        return f"{arn} ({source})" if source else str(arn)
    return f"the AWS identity of {source}" if source else "an AWS identity that is not known"


def _failure(ref: SecretRef, answer: Mapping[str, Any], by: str, patience: Patience) -> HoldfastError:
    place, said = _NAMES[ref.scheme], failures.quoted(answer.get("said"))
    error: HoldfastError
    match answer.get("kind"):
        case "answer":
            error = _refused(ref, str(answer.get("code")), said, by)
        case "library":
            error = failures.library_missing(ref)
        case "identity":
            error = failures.no_identity(ref, said=said or "no AWS credentials", hint=_WAYS)
        case "region":
            hint = "Set AWS_REGION, or add `?region=…` to the reference."
            error = failures.setting(ref, said="no AWS region is named", hint=hint)
        case "slow":
            error = failures.slow(ref, place=place, seconds=answer.get("seconds") or patience.request)
        case "unreachable":
            error = failures.unreachable(ref, place=place, reason=said)
        case "binary":
            error = failures.unusable(ref, "is not text in UTF-8")
        case _:
            error = failures.not_understood(ref, place=place, said=said)
    return error


def _refused(ref: SecretRef, code: str, said: str, by: str) -> HoldfastError:
    told = f"{code}: {said}"
    if code in _ABSENT or (code == _GOING and "deletion" in said):
        return failures.absent(ref, by=by, said=told)
    if code in _DENIED:
        return failures.forbidden(ref, by=by, said=told, needs=_NEEDS[ref.scheme])
    if code in _BUSY:
        return failures.unreachable(ref, place=_NAMES[ref.scheme], reason=told)
    return failures.not_understood(ref, place=_NAMES[ref.scheme], said=told)
