"""The meaning of S3's answers, and the error for each. Only one of them means "absent"."""

from __future__ import annotations

from enum import Enum

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError, SSLError
from botocore.exceptions import ConnectionError as NoConnection
from botocore.parsers import ResponseParserError

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.system.aws import AwsError, NoCredentialsError

DRIVER_ERRORS = (BotoCoreError, ClientError, ResponseParserError)


class StoreUnreachable(Failed):
    """The run store gave no usable answer. The request may have succeeded or not."""


class S3Answer(Enum):
    ABSENT = "absent"
    CONFLICT = "conflict"
    """The condition is not met."""
    RETRY = "retry"
    """No answer, or a busy service."""
    EXPIRED = "expired"
    """The credentials have expired."""
    NO_CONDITIONS = "no conditions"
    """The service does not support the condition of the request."""
    FINAL = "final"


_RETRIED = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException", "InternalError"})
_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_DENIED = (
    frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"}) | _EXPIRED
)
_DENIED_STATUSES = frozenset({401, 403})
_TOO_MANY = 429
_PRECONDITION_FAILED = 412
_SERVER_ERROR = 500


def classify(error: Exception) -> S3Answer:
    if isinstance(error, ClientError):
        return _classify_answer(_code(error), _status(error))
    if isinstance(error, SSLError):
        return S3Answer.FINAL
    if isinstance(error, (NoConnection, HTTPClientError, IncompleteReadError, ResponseParserError)):
        return S3Answer.RETRY
    return S3Answer.FINAL


def _classify_answer(code: str, status: int) -> S3Answer:
    if code == "NoSuchKey":
        return S3Answer.ABSENT
    if code == "PreconditionFailed" or status == _PRECONDITION_FAILED:
        return S3Answer.CONFLICT
    if code == "NotImplemented":
        return S3Answer.NO_CONDITIONS
    if code in _EXPIRED:
        return S3Answer.EXPIRED
    if code in _RETRIED or code in _CONFLICTS or status == _TOO_MANY or status >= _SERVER_ERROR:
        return S3Answer.RETRY
    return S3Answer.FINAL


def store_error(error: Exception, *, shown: str, bucket: str, tries: int) -> HoldfastError:
    if not isinstance(error, ClientError):
        return StoreUnreachable(
            "HF-STORE-5",
            f"cannot reach the run store {shown}{_after(tries)}: {error}",
            hint="Check the network, AWS_ENDPOINT_URL_S3 and the proxy. Nothing runs without the store.",
        )
    code, status = _code(error), _status(error)
    answer = f"S3 answered {status} {code}: {_message(error)}"
    if code == "NoSuchBucket":
        return StoreUnreachable(
            "HF-STORE-7",
            f"the bucket of the run store {shown} does not exist: {answer}",
            hint=f"Create the bucket {bucket}, or correct `store:` in holdfast.yaml or AWS_ENDPOINT_URL_S3.",
        )
    if code == "NotImplemented":
        return conditions_unsupported(shown, answer)
    if code in _DENIED or status in _DENIED_STATUSES:
        return StoreUnreachable(
            "HF-STORE-6",
            f"the run store {shown} refuses these credentials: {answer}",
            hint=f"They need s3:GetObject, s3:PutObject and s3:DeleteObject below {shown}, and s3:ListBucket "
            f"on {bucket}: without it, S3 answers 403 for a missing object.",
        )
    return StoreUnreachable(
        "HF-STORE-5",
        f"a request to the run store {shown} failed{_after(tries)}: {answer}",
        hint="Check AWS_REGION and AWS_ENDPOINT_URL_S3 and the status of S3, then try again.",
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


def conditions_unsupported(shown: str, reason: str) -> UsageError:
    return UsageError(
        "HF-STORE-8",
        f"{shown} cannot be a run store: {reason}",
        hint="Use a service that honours If-None-Match and If-Match on PutObject: without them, two runs "
        "could claim the same stack.",
    )


def _after(tries: int) -> str:
    return f" (tried {tries} times)" if tries > 1 else ""


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", "")) or "no reason given"


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
