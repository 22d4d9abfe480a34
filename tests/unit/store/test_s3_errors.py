"""Every way in which S3 and its library can fail has a verdict and an error of ours."""

from __future__ import annotations

import inspect

import botocore.exceptions
import pytest
from botocore.exceptions import ClientError

from holdfast.kernel.errors import HoldfastError
from holdfast.store.s3_errors import DRIVER_ERRORS, StoreUnreachable, Verdict, translated, verdict


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
            assert verdict(answer(status, code)) is not Verdict.ABSENT
    assert verdict(answer(404, "NoSuchKey")) is Verdict.ABSENT


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answer(412, "PreconditionFailed"), Verdict.OTHER),
        (answer(412, "412"), Verdict.OTHER),
        (answer(409, "ConditionalRequestConflict"), Verdict.AGAIN),
        (answer(503, "SlowDown"), Verdict.AGAIN),
        (answer(502, "502"), Verdict.AGAIN),
        (answer(429, "429"), Verdict.AGAIN),
        (answer(400, "RequestTimeout"), Verdict.AGAIN),
        (answer(501, "NotImplemented"), Verdict.WITHOUT_CONDITIONS),
        (answer(400, "ExpiredToken"), Verdict.EXPIRED),
        (answer(403, "AccessDenied"), Verdict.FINAL),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="x"), Verdict.AGAIN),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="x"), Verdict.AGAIN),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="x"), Verdict.AGAIN),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="x"), Verdict.AGAIN),
        (botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), Verdict.AGAIN),
        (botocore.exceptions.SSLError(endpoint_url="x", error="bad certificate"), Verdict.FINAL),
        (botocore.exceptions.ParamValidationError(report="x"), Verdict.FINAL),
    ],
)
def test_what_is_asked_again(error: Exception, expected: Verdict) -> None:
    """What may pass is tried again; what will not is said at once."""
    assert verdict(error) is expected


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
    found: HoldfastError = translated(error, shown="s3://acme/p", bucket="acme", tries=3)
    assert found.problem.code == code
    assert "s3://acme/p" in found.problem.message
    assert words in f"{found.problem.message} {found.problem.hint}"
    assert isinstance(found, StoreUnreachable) or code == "HF-STORE-8"
