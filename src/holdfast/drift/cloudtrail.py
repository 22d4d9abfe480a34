"""The event history of AWS CloudTrail, with the credentials of a stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.drift.authors import LookUp


class CloudTrailUnreadable(Exception):  # noqa: N818 - what is said of it
    """Why: text for a note, which quotes no answer."""


@contextmanager
def open_cloudtrail(environment: Mapping[str, str]) -> Iterator[LookUp]:
    """`LookupEvents` as a function. Every error inside becomes CloudTrailUnreadable."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

        from holdfast.system.aws import AwsCaller, AwsError, S3Timeouts  # noqa: PLC0415 - an extra
    except ImportError:
        raise CloudTrailUnreadable("CloudTrail needs the extra aws: pip install 'holdfast[aws]'") from None
    try:
        caller = AwsCaller(environment, timeouts=S3Timeouts(), service="cloudtrail")
        yield caller.client().lookup_events
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code") or "an error")
        raise CloudTrailUnreadable(f"CloudTrail answers {code} to LookupEvents") from None
    except (AwsError, BotoCoreError) as error:
        raise CloudTrailUnreadable(f"CloudTrail cannot be asked ({type(error).__name__})") from None
