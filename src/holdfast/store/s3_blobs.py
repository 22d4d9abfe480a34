"""A blob store in S3, Amazon's or another service with conditional writes: for ephemeral runners.

An answer can be lost after a write succeeded. Each write therefore carries a random mark: when S3 reports a
conflict, the mark tells whether the other write was this one. Only one answer of S3 means "absent".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Self, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError, SSLError
from botocore.exceptions import ConnectionError as NoConnection
from botocore.parsers import ResponseParserError
from msgspec import Struct

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.store.blobs import StoredBlob
from holdfast.system import clock
from holdfast.system.aws import AwsCaller, AwsError, AwsSettings, NoCredentialsError, S3Timeouts

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
            hint="Check the network, AWS_ENDPOINT_URL_S3 and the proxy, then try again.",
        )
    code, status = _code(error), _status(error)
    answer = f"S3 returned {status} {code}: {_message(error)}"
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
            f"S3 rejected the credentials for the run store {shown}: {answer}",
            hint=f"They need s3:GetObject, s3:PutObject and s3:DeleteObject below {shown}, and s3:ListBucket "
            f"on {bucket}: without it, S3 returns 403 for a missing object.",
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
        f"{shown} cannot be used as a run store: {reason}",
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


_T = TypeVar("_T")
_MARK = "holdfast-write"
_ADDRESS = re.compile(r"s3://([A-Za-z0-9][A-Za-z0-9._-]{1,254})(?:/(.*))?")
_NO_TAG = f'"{"0" * 32}"'


class S3Blobs:
    """Tags are S3's ETags. A write never conflicts with its own earlier attempt."""

    def __init__(self, bucket: str, prefix: str, caller: AwsCaller, timeouts: S3Timeouts) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.shown = _shown(bucket, prefix)
        self._caller = caller
        self._timeouts = timeouts

    @classmethod
    def open(
        cls,
        address: str,
        variables: Mapping[str, str],
        *,
        known: Mapping[str, object] | None = None,
        timeouts: S3Timeouts | None = None,
    ) -> Self:
        """`variables` are the caller's. The first request is sent when it is needed."""
        bucket, prefix = parse_address(address)
        timeouts = timeouts or S3Timeouts()
        caller = AwsCaller(
            variables,
            timeouts=timeouts,
            known=AwsSettings(**known) if known is not None else None,  # type: ignore[arg-type]
        )
        return cls(bucket, prefix, caller, timeouts)

    def description(self) -> dict[str, object]:
        """For another process. Contains credentials: only for a private channel."""
        known = self._caller.known
        return {
            "kind": "s3",
            "address": self.shown,
            "variables": dict(self._caller.variables),
            "known": known.document() if known is not None else None,
        }

    def read(self, name: str) -> StoredBlob | None:
        def get(client: Any) -> StoredBlob:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(name))
            return StoredBlob(data=answer["Body"].read(), tag=answer["ETag"])

        try:
            return self._request(get, expecting={S3Answer.ABSENT})
        except _Expected:
            return None

    def create(self, name: str, data: bytes) -> bool:
        return self._put(name, data, {"IfNoneMatch": "*"}) is not None

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self._put(name, data, {"IfMatch": tag})

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """A delayed write can still arrive after a later one."""
        del durable
        self._request(lambda client: client.put_object(Bucket=self.bucket, Key=self._key(name), Body=data))

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """Compares the tag here, and again in S3 if it supports that. Absent after a retry means removed."""
        metadata = self._metadata(name)
        if metadata is None or (tag is not None and metadata.tag != tag):
            return False
        target = {"Bucket": self.bucket, "Key": self._key(name)}
        if tag is not None:
            expecting = {S3Answer.ABSENT, S3Answer.CONFLICT, S3Answer.NO_CONDITIONS}
            try:
                self._request(lambda client: client.delete_object(**target, IfMatch=tag), expecting=expecting)
            except _Expected as answer:
                if answer.kind is not S3Answer.NO_CONDITIONS:
                    return answer.kind is S3Answer.ABSENT and answer.tries > 1
            else:
                return True
        self._request(lambda client: client.delete_object(**target))
        return True

    def names(self, folder: str) -> tuple[str, ...]:
        def list_keys(client: Any) -> list[str]:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self._key(f"{folder}/" if folder else "")
            )
            return [item["Key"] for page in pages for item in page.get("Contents", ())]

        prefix = len(self._key(""))
        return tuple(sorted(key[prefix:] for key in self._request(list_keys) if not key.endswith("/")))

    def probe(self) -> None:
        """Refuses a service that ignores the condition of a write."""
        name = f"probe/{clock.random_token()}"
        fault = self._condition_fault(name)
        self.remove(name)
        if fault is not None:
            raise conditions_unsupported(self.shown, fault)

    def _condition_fault(self, name: str) -> str | None:
        if self.replace(name, b"0", tag=_NO_TAG) is not None:
            return "it replaced (If-Match) an object that does not exist"
        if not self.create(name, b"1"):
            return "it did not create (If-None-Match) an object that does not exist"
        if self.create(name, b"2"):
            return "it created (If-None-Match: *) an object that exists"
        if self.replace(name, b"3", tag=_NO_TAG) is not None:
            return "it replaced (If-Match) an object with another ETag"
        item = self.read(name)
        if item is None or item.data != b"1" or self.replace(name, b"4", tag=item.tag) is None:
            return "it did not replace (If-Match) an object with its own ETag"
        return None

    def _put(self, name: str, data: bytes, condition: Mapping[str, str]) -> str | None:
        mark = clock.random_token()

        def put(client: Any) -> str:
            answer = client.put_object(
                Bucket=self.bucket, Key=self._key(name), Body=data, Metadata={_MARK: mark}, **condition
            )
            return str(answer["ETag"])

        try:
            return self._request(put, expecting={S3Answer.ABSENT, S3Answer.CONFLICT})
        except _Expected:
            metadata = self._metadata(name)
            return metadata.tag if metadata is not None and metadata.mark == mark else None

    def _metadata(self, name: str) -> _Metadata | None:
        """With GET: HEAD does not tell a missing bucket from a missing object."""

        def get(client: Any) -> _Metadata:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(name))
            answer["Body"].close()
            return _Metadata(tag=answer["ETag"], mark=answer["Metadata"].get(_MARK))

        try:
            return self._request(get, expecting={S3Answer.ABSENT})
        except _Expected:
            return None

    def _request(self, do: Callable[[Any], _T], *, expecting: Iterable[S3Answer] = ()) -> _T:
        """The result. Raises `_Expected` for an expected answer, otherwise an error of the store."""
        renewed = False
        tries = 0
        while True:
            try:
                client = self._caller.client()
            except AwsError as error:
                raise client_error(error, shown=self.shown) from None
            tries += 1
            try:
                return do(client)
            except DRIVER_ERRORS as error:
                answer = classify(error)
                if answer in expecting:
                    raise _Expected(answer, tries) from None
                if answer is S3Answer.EXPIRED and not renewed:
                    renewed = True
                    self._caller.discard(client)
                elif answer is not S3Answer.RETRY or tries >= self._timeouts.tries:
                    raise store_error(error, shown=self.shown, bucket=self.bucket, tries=tries) from None
            clock.pause(self._timeouts.pause_after(tries))

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name


class _Expected(Exception):  # noqa: N818 - an answer, not an error
    def __init__(self, kind: S3Answer, tries: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.tries = tries


class _Metadata(Struct, frozen=True, kw_only=True):
    tag: str
    mark: str | None


def parse_address(address: str) -> tuple[str, str]:
    """Bucket and prefix. Errors show the address unless it may contain a password."""
    match = _ADDRESS.fullmatch(address)
    prefix = (match[2] or "").removesuffix("/") if match else ""
    parts = prefix.split("/") if prefix else []
    if match is None or any(part in {"", ".", ".."} or re.search(r"[\s?#\\]", part) for part in parts):
        shown = "the run store" if "@" in address else f"the run store {address}"
        raise UsageError(
            "HF-STORE-1",
            f"{shown} is not a valid S3 address",
            hint="Write `store: s3://bucket/prefix`; endpoint and credentials come from the AWS variables.",
        )
    return match[1], prefix


def _shown(bucket: str, prefix: str) -> str:
    return f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
