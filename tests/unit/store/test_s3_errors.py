"""Every way in which S3 and its library can fail has a verdict and an error of ours."""

from __future__ import annotations

import inspect

import botocore.exceptions
import pytest
from botocore.exceptions import ClientError

from holdfast.kernel.errors import HoldfastError
from holdfast.store.s3_blobs import DRIVER_ERRORS, S3Answer, StoreUnreachable, classify, store_error


def answer(status: int, code: str) -> ClientError:
    said = {"Error": {"Code": code, "Message": "words"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(said, "GetObject")


def test_no_error_of_the_library_escapes() -> None:
    """Whatever it raises is caught where S3 is asked; a new kind that is not would show here."""
    about_its_own_files = botocore.exceptions.UndefinedModelAttributeError
    kinds = [
        kind
        for _, kind in inspect.getmembers(botocore.exceptions, inspect.isclass)
        if issubclass(kind, Exception) and not issubclass(kind, (Warning, about_its_own_files))
    ]
    assert len(kinds) > 50
    assert [kind.__name__ for kind in kinds if not issubclass(kind, DRIVER_ERRORS)] == []


def test_only_a_missing_key_is_absent() -> None:
    """Of all answers there are, one says that there is nothing."""
    for status in range(300, 600):
        for code in ("", "404", "NotFound", "NoSuchBucket", "AccessDenied", "NoSuchUpload", "SlowDown"):
            assert classify(answer(status, code)) is not S3Answer.ABSENT
    assert classify(answer(404, "NoSuchKey")) is S3Answer.ABSENT


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answer(412, "PreconditionFailed"), S3Answer.CONFLICT),
        (answer(412, "412"), S3Answer.CONFLICT),
        (answer(409, "ConditionalRequestConflict"), S3Answer.RETRY),
        (answer(503, "SlowDown"), S3Answer.RETRY),
        (answer(502, "502"), S3Answer.RETRY),
        (answer(429, "429"), S3Answer.RETRY),
        (answer(400, "RequestTimeout"), S3Answer.RETRY),
        (answer(501, "NotImplemented"), S3Answer.NO_CONDITIONS),
        (answer(400, "ExpiredToken"), S3Answer.EXPIRED),
        (answer(403, "AccessDenied"), S3Answer.FINAL),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="x"), S3Answer.RETRY),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="x"), S3Answer.RETRY),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="x"), S3Answer.RETRY),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="x"), S3Answer.RETRY),
        (botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), S3Answer.RETRY),
        (botocore.exceptions.SSLError(endpoint_url="x", error="bad certificate"), S3Answer.FINAL),
        (botocore.exceptions.ParamValidationError(report="x"), S3Answer.FINAL),
    ],
)
def test_what_is_asked_again(error: Exception, expected: S3Answer) -> None:
    """What may pass is tried again; what will not is said at once."""
    assert classify(error) is expected


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (answer(403, "AccessDenied"), "HF-STORE-6", "s3:ListBucket"),
        (answer(403, "RequestTimeTooSkewed"), "HF-STORE-6", "words"),
        (answer(404, "NoSuchBucket"), "HF-STORE-7", "Create the bucket acme"),
        (answer(501, "NotImplemented"), "HF-STORE-8", "If-None-Match"),
        (answer(301, "PermanentRedirect"), "HF-STORE-5", "AWS_REGION"),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="http://x"), "HF-STORE-5", "http://x"),
    ],
)
def test_each_error_names_the_store_and_a_way_out(error: Exception, code: str, words: str) -> None:
    """The store, what S3 said, and what to do."""
    found: HoldfastError = store_error(error, shown="s3://acme/p", bucket="acme", tries=3)
    assert found.problem.code == code
    assert "s3://acme/p" in found.problem.message
    assert words in f"{found.problem.message} {found.problem.hint}"
    assert isinstance(found, StoreUnreachable) or code == "HF-STORE-8"
