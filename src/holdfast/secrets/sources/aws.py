"""`aws-sm:` and `aws-ssm:`: secrets in Secrets Manager and Parameter Store.

A separate process reads each batch with the caller's identity: keys, profile, web identity, SSO or the role
of the machine, whichever the AWS library finds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config.secret_refs import Locator, SecretRef
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.sources import aws_process, errors
from holdfast.secrets.sources.interface import (
    Answers,
    ReadSecret,
    Source,
    Timeouts,
    answers_for,
    parse_locator,
    select_value,
    whole_text,
)
from holdfast.system import aws_programs
from holdfast.system.environment import Environment

_PROGRAM = Path(aws_process.__file__)
_SERVICES = {"aws-sm": "secretsmanager", "aws-ssm": "ssm"}
_NAMES = {"aws-sm": "Secrets Manager", "aws-ssm": "Parameter Store"}
_NEEDS = {
    "aws-sm": "It needs secretsmanager:GetSecretValue on the secret, and kms:Decrypt if it has its own key.",
    "aws-ssm": "It needs ssm:GetParameter on the parameter, and kms:Decrypt if it has its own key.",
}
_MAY_CREATE = {
    "aws-sm": "It needs secretsmanager:CreateSecret. A secret that is being deleted must be restored.",
    "aws-ssm": "It needs ssm:PutParameter.",
}
_EXISTS = frozenset({"ResourceExistsException", "ParameterAlreadyExists"})
_NOT_FOUND = frozenset({"ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound"})
_BEING_DELETED = "InvalidRequestException"
_BUSY = frozenset({"ThrottlingException", "Throttling", "InternalServiceError", "InternalServerError"})
_DENIED = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "DecryptionFailure", "InvalidKeyId",
        "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException",
        "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature",
        "OptInRequired",
    }
)  # fmt: skip
_LOGIN_HINT = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role."
_METHODS = {"env": "keys in the environment", "iam-role": "the role of this machine"}
_TIMED_OUT = 124


class AwsSecrets(Source):
    """Keeps nothing between two calls: each starts its own process."""

    batches = True

    def fetch(self, refs: Sequence[SecretRef]) -> Answers:
        parsed = answers_for(refs, parse_locator)
        invalid = {ref: error for ref, error in parsed.items() if isinstance(error, HoldfastError)}
        locators = {ref: locator for ref, locator in parsed.items() if not isinstance(locator, HoldfastError)}
        return {**invalid, **self._read(locators)} if locators else invalid

    def create(self, ref: SecretRef, values: Mapping[str, str]) -> bool:
        """AWS itself refuses to create what exists. The value goes through a pipe."""
        if ref.locator.startswith("arn:"):
            return super().create(ref, values)
        request = {**_request(ref, parse_locator(ref)), "create": True}
        result = self._run([request], stdin=json.dumps([whole_text(values)]).encode())
        by = _describe_identity(result.get("identity") or {}, self.environment)
        answer = (result.get("answers") or [result.get("failed") or {}])[0]
        if answer.get("created") is True:
            return True
        code = str(answer.get("code"))
        if code in _EXISTS:
            return False
        if answer.get("kind") == "answer":
            detail = errors.quote(answer.get("detail"), *values.values())
            raise errors.not_written(ref, by=by, detail=f"{code}: {detail}", needs=_MAY_CREATE[ref.scheme])
        raise _error(ref, answer, by, self.timeouts)

    def _read(self, locators: Mapping[SecretRef, Locator]) -> Answers:
        result = self._run([_request(ref, locator) for ref, locator in locators.items()])
        by = _describe_identity(result.get("identity") or {}, self.environment)
        answers = result.get("answers") or [result.get("failed") or {}] * len(locators)
        return {
            ref: self._interpret(ref, locator, answer, by)
            for (ref, locator), answer in zip(locators.items(), answers, strict=True)
        }

    def _run(self, requests: list[dict[str, Any]], stdin: bytes | None = None) -> dict[str, Any]:
        timeouts = self.timeouts
        wanted = {
            "requests": requests,
            "identify": self.identify,
            "seconds": timeouts.request,
            "tries": timeouts.tries,
        }
        finished = aws_programs.run_program(
            _PROGRAM,
            self.environment.variables,
            folder=Path.cwd(),
            seconds=timeouts.total,
            extra={aws_process.WANTED: json.dumps(wanted)},
            stdin=stdin,
        )
        if finished.code == _TIMED_OUT:
            return {"failed": {"kind": "slow", "seconds": timeouts.total}}
        try:
            result = json.loads(finished.out) if finished.code == 0 else {}
        except ValueError:
            result = {}
        # Only the type of an unexpected error: its text may quote what was sent.
        last = finished.err.decode(errors="replace").strip().rpartition("\n")[2].partition(":")[0]
        return result or {
            "failed": {"kind": "broken", "detail": f"the AWS process exited with code {finished.code} {last}"}
        }

    def _interpret(
        self, ref: SecretRef, locator: Locator, answer: Mapping[str, Any], by: str
    ) -> ReadSecret | HoldfastError:
        try:
            if isinstance(text := answer.get("text"), str):
                version = answer.get("version")
                known = str(version) if version is not None else None
                return ReadSecret(select_value(ref, text, locator.field), by, known)
        except HoldfastError as error:
            return error
        return _error(ref, answer, by, self.timeouts)


def _request(ref: SecretRef, locator: Locator) -> dict[str, Any]:
    """An ARN contains its region."""
    parts = locator.name.split(":")
    of_arn = parts[3] if parts[0] == "arn" and len(parts) > 3 else None  # noqa: PLR2004 - arn:PARTITION:SERVICE:REGION
    return {
        "service": _SERVICES[ref.scheme],
        "name": locator.name,
        "region": locator.options.get("region") or of_arn,
        "version": locator.options.get("version"),
    }


def _describe_identity(identity: Mapping[str, Any], environment: Environment) -> str:
    """An ARN if AWS was asked for it, otherwise where the keys came from."""
    profile, method = identity.get("profile") or environment.get("AWS_PROFILE"), identity.get("method")
    source = f"profile {profile}" if profile else _METHODS.get(str(method), method)
    if arn := identity.get("arn"):
        return f"{arn} ({source})" if source else str(arn)
    return f"the AWS identity of {source}" if source else "an unknown AWS identity"


def _error(ref: SecretRef, answer: Mapping[str, Any], by: str, timeouts: Timeouts) -> HoldfastError:
    place, detail = _NAMES[ref.scheme], errors.quote(answer.get("detail"))
    error: HoldfastError
    match answer.get("kind"):
        case "answer":
            error = _refused(ref, str(answer.get("code")), detail, by)
        case "library":
            error = errors.boto_missing(ref)
        case "identity":
            error = errors.no_identity(ref, detail=detail or "there are no AWS credentials", hint=_LOGIN_HINT)
        case "region":
            hint = "Set AWS_REGION, or add `?region=…` to the reference."
            error = errors.invalid_setting(ref, detail="no AWS region is set", hint=hint)
        case "slow":
            error = errors.slow(ref, place=place, seconds=answer.get("seconds") or timeouts.request)
        case "unreachable":
            error = errors.unreachable(ref, place=place, reason=detail)
        case "binary":
            error = errors.unusable(ref, "is not UTF-8 text")
        case _:
            error = errors.unexpected(ref, place=place, detail=detail)
    return error


def _refused(ref: SecretRef, code: str, detail: str, by: str) -> HoldfastError:
    message = f"{code}: {detail}"
    if code in _NOT_FOUND or (code == _BEING_DELETED and "deletion" in detail):
        return errors.absent(ref, by=by, detail=message)
    if code in _DENIED:
        return errors.forbidden(ref, by=by, detail=message, needs=_NEEDS[ref.scheme])
    if code in _BUSY:
        return errors.unreachable(ref, place=_NAMES[ref.scheme], reason=message)
    return errors.unexpected(ref, place=_NAMES[ref.scheme], detail=message)
