"""What S3's answers mean, and which error each becomes. Only one of them means "it is not there"."""

from __future__ import annotations

from enum import Enum

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError, SSLError
from botocore.exceptions import ConnectionError as NoConnection
from botocore.parsers import ResponseParserError

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.system.aws import AwsError, NoCredentialsError

DRIVER_ERRORS = (BotoCoreError, ClientError, ResponseParserError)


class StoreUnreachable(Failed):
    """The run store gave no answer that can be used. What it was asked to do may have been done, or not."""


class Verdict(Enum):
    ABSENT = "absent"
    """There is no such name."""
    OTHER = "other"
    """What is there is not what the condition names."""
    AGAIN = "again"
    """No answer, or a busy service: the same question may be asked again."""
    EXPIRED = "expired"
    """The credentials were good once."""
    WITHOUT_CONDITIONS = "without conditions"
    """The service does not know the condition that came with the request."""
    FINAL = "final"


_AGAIN = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "InternalError"})
_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_DENIED = (
    frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"}) | _EXPIRED
)
_DENIED_STATUSES = frozenset({401, 403})
_TOO_MANY = 429
_CONDITION_FAILED = 412
_BROKEN = 500


def verdict(error: Exception) -> Verdict:
    if isinstance(error, ClientError):
        return _of_answer(_code(error), _status(error))
    if isinstance(error, SSLError):
        return Verdict.FINAL
    if isinstance(error, (NoConnection, HTTPClientError, IncompleteReadError, ResponseParserError)):
        return Verdict.AGAIN
    return Verdict.FINAL


def _of_answer(code: str, status: int) -> Verdict:
    if code == "NoSuchKey":
        return Verdict.ABSENT
    if code == "PreconditionFailed" or status == _CONDITION_FAILED:
        return Verdict.OTHER
    if code == "NotImplemented":
        return Verdict.WITHOUT_CONDITIONS
    if code in _EXPIRED:
        return Verdict.EXPIRED
    if code in _AGAIN or code in _CONFLICTS or status == _TOO_MANY or status >= _BROKEN:
        return Verdict.AGAIN
    return Verdict.FINAL


def translated(error: Exception, *, shown: str, bucket: str, tries: int) -> HoldfastError:
    """The error for the user: what S3 said, and what to do about it."""
    if not isinstance(error, ClientError):
        return StoreUnreachable(
            "HF-STORE-5",
            f"the run store {shown} cannot be reached{_after(tries)}: {error}",
            hint="Check the network, AWS_ENDPOINT_URL_S3 and the proxy; nothing is run without the store.",
        )
    code, status = _code(error), _status(error)
    said = f"S3 answered {status} {code}: {_message(error)}"
    if code == "NoSuchBucket":
        return StoreUnreachable(
            "HF-STORE-7",
            f"the run store {shown} has no bucket: {said}",
            hint=f"Create the bucket {bucket}, or mend `store:` in holdfast.yaml or AWS_ENDPOINT_URL_S3.",
        )
    if code == "NotImplemented":
        return without_conditions(shown, said)
    if code in _DENIED or status in _DENIED_STATUSES:
        return StoreUnreachable(
            "HF-STORE-6",
            f"the run store {shown} refuses these credentials: {said}",
            hint=f"They need s3:GetObject, s3:PutObject and s3:DeleteObject below {shown}, and s3:ListBucket "
            f"on {bucket}: without that one, S3 also says 403 of what is not there.",
        )
    return StoreUnreachable(
        "HF-STORE-5",
        f"the run store {shown} did not do what it was asked{_after(tries)}: {said}",
        hint="Try again when S3 is well; check AWS_REGION and AWS_ENDPOINT_URL_S3.",
    )


def client_error(error: AwsError, *, shown: str) -> StoreUnreachable:
    if isinstance(error, NoCredentialsError):
        return StoreUnreachable(
            "HF-STORE-6",
            f"no AWS credentials for the run store {shown}: {error}",
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or use a machine role.",
        )
    return StoreUnreachable(
        "HF-STORE-5",
        f"cannot reach the run store {shown}: {error}",
        hint="Check AWS_ENDPOINT_URL_S3 (it starts with https://) and AWS_REGION.",
    )


def without_conditions(shown: str, seen: str) -> UsageError:
    return UsageError(
        "HF-STORE-8",
        f"{shown} cannot be a run store: {seen}",
        hint="Use a service that honours If-None-Match and If-Match on PutObject: without them two runs "
        "could both believe that they were first.",
    )


def _after(tries: int) -> str:
    return f" (tried {tries} times)" if tries > 1 else ""


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", "")) or "no reason given"


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
