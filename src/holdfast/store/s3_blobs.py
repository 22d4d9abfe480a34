"""A blob store behind S3, Amazon's or any other that honours conditions: for runners that are thrown away.

An answer can be lost after the deed was done. Every write therefore carries a mark of its own; where S3 says
"somebody was first" or "it has changed", the mark tells whether that somebody was this very write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import dataclass
from holdfast.store.blobs import Item
from holdfast.store.s3_errors import (
    DRIVER_ERRORS,
    Verdict,
    client_error,
    translated,
    verdict,
    without_conditions,
)
from holdfast.system import clock
from holdfast.system.aws import AwsCaller, AwsError, Known, Patience

_T = TypeVar("_T")
_MARK = "holdfast-write"
_ADDRESS = re.compile(r"s3://([A-Za-z0-9][A-Za-z0-9._-]{1,254})(?:/(.*))?")
_NO_TAG = f'"{"0" * 32}"'


class S3Blobs:
    """Tags are S3's ETags. A false "somebody was first" is never given for what was our own doing."""

    def __init__(self, bucket: str, prefix: str, caller: AwsCaller, patience: Patience) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.shown = _shown(bucket, prefix)
        self._caller = caller
        self._patience = patience

    @classmethod
    def open(
        cls,
        address: str,
        variables: Mapping[str, str],
        *,
        known: Mapping[str, object] | None = None,
        patience: Patience | None = None,
    ) -> Self:
        """`variables` are the caller's, wherever this is. Nothing is asked of S3 before it is needed."""
        bucket, prefix = parse_address(address)
        patience = patience or Patience()
        caller = AwsCaller(
            variables,
            patience=patience,
            known=Known(**known) if known is not None else None,  # type: ignore[arg-type]
        )
        return cls(bucket, prefix, caller, patience)

    def described(self) -> dict[str, object]:
        """What another process needs to open it. Holds credentials: for a private channel only."""
        known = self._caller.known
        return {
            "kind": "s3",
            "address": self.shown,
            "variables": dict(self._caller.variables),
            "known": known.document() if known is not None else None,
        }

    def read(self, name: str) -> Item | None:
        def get(client: Any) -> Item:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(name))
            return Item(data=answer["Body"].read(), tag=answer["ETag"])

        try:
            return self._asked(get, expecting={Verdict.ABSENT})
        except _Said:
            return None

    def create(self, name: str, data: bytes) -> bool:
        return self._put(name, data, {"IfNoneMatch": "*"}) is not None

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self._put(name, data, {"IfMatch": tag})

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Of two writes without a condition, one that was held up on its way can still come last."""
        del durable
        self._asked(lambda client: client.put_object(Bucket=self.bucket, Key=self._key(name), Body=data))

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """Compared here, and again by an S3 that knows such conditions. Gone after a lost answer is ours."""
        found = self._look(name)
        if found is None or (tag is not None and found.tag != tag):
            return False
        place = {"Bucket": self.bucket, "Key": self._key(name)}
        if tag is not None:
            expecting = {Verdict.ABSENT, Verdict.OTHER, Verdict.WITHOUT_CONDITIONS}
            try:
                self._asked(lambda client: client.delete_object(**place, IfMatch=tag), expecting=expecting)
            except _Said as said:
                if said.verdict is not Verdict.WITHOUT_CONDITIONS:
                    return said.verdict is Verdict.ABSENT and said.tries > 1
            else:
                return True
        self._asked(lambda client: client.delete_object(**place))
        return True

    def names(self, folder: str) -> tuple[str, ...]:
        def every(client: Any) -> list[str]:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self._key(f"{folder}/")
            )
            return [one["Key"] for page in pages for one in page.get("Contents", ())]

        begin = len(self._key(""))
        return tuple(sorted(key[begin:] for key in self._asked(every) if not key.endswith("/")))

    def probe(self) -> None:
        """Before anything relies on it: a service that takes a write against its condition is refused."""
        name = f"probe/{clock.random_token()}"
        complaint = self._complaint(name)
        self.remove(name)
        if complaint is not None:
            raise without_conditions(self.shown, complaint)

    def _complaint(self, name: str) -> str | None:
        if self.replace(name, b"0", tag=_NO_TAG) is not None:
            return "it replaced (If-Match) something that was not there"
        if not self.create(name, b"1"):
            return "it did not create (If-None-Match) something that was not there"
        if self.create(name, b"2"):
            return "it created (If-None-Match: *) something that was there already"
        if self.replace(name, b"3", tag=_NO_TAG) is not None:
            return "it replaced (If-Match) something other than what was named"
        found = self.read(name)
        if found is None or found.data != b"1" or self.replace(name, b"4", tag=found.tag) is None:
            return "it did not replace (If-Match) what it had just named itself"
        return None

    def _put(self, name: str, data: bytes, condition: Mapping[str, str]) -> str | None:
        mark = clock.random_token()

        def put(client: Any) -> str:
            answer = client.put_object(
                Bucket=self.bucket, Key=self._key(name), Body=data, Metadata={_MARK: mark}, **condition
            )
            return str(answer["ETag"])

        try:
            return self._asked(put, expecting={Verdict.ABSENT, Verdict.OTHER})
        except _Said:
            found = self._look(name)
            return found.tag if found is not None and found.mark == mark else None

    def _look(self, name: str) -> _Look | None:
        """By GET: the answer to HEAD does not tell a missing bucket from a missing name."""

        def look(client: Any) -> _Look:
            answer = client.get_object(Bucket=self.bucket, Key=self._key(name))
            answer["Body"].close()
            return _Look(tag=answer["ETag"], mark=answer["Metadata"].get(_MARK))

        try:
            return self._asked(look, expecting={Verdict.ABSENT})
        except _Said:
            return None

    def _asked(self, do: Callable[[Any], _T], *, expecting: Iterable[Verdict] = ()) -> _T:
        """The answer; or `_Said`, where it is one that was expected; or an error of the store."""
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
                found = verdict(error)
                if found in expecting:
                    raise _Said(found, tries) from None
                if found is Verdict.EXPIRED and not renewed:
                    renewed = True
                    self._caller.discard(client)
                elif found is not Verdict.AGAIN or tries >= self._patience.tries:
                    raise translated(error, shown=self.shown, bucket=self.bucket, tries=tries) from None
            clock.pause(self._patience.pause_after(tries))

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name


class _Said(Exception):  # noqa: N818 - an answer, not an error
    def __init__(self, verdict_: Verdict, tries: int) -> None:
        super().__init__(verdict_)
        self.verdict = verdict_
        self.tries = tries


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    tag: str
    mark: str | None


def parse_address(address: str) -> tuple[str, str]:
    """Bucket and prefix. The address is shown in errors, but for one that may hold a password."""
    found = _ADDRESS.fullmatch(address)
    prefix = (found[2] or "").removesuffix("/") if found else ""
    words = prefix.split("/") if prefix else []
    if found is None or any(word in {"", ".", ".."} or re.search(r"[\s?#\\]", word) for word in words):
        shown = "the run store" if "@" in address else f"the run store {address}"
        raise UsageError(
            "HF-STORE-1",
            f"{shown} is not a place in S3",
            hint="Write `store: s3://bucket/prefix`; the endpoint and the keys come from the AWS variables.",
        )
    return found[1], prefix


def _shown(bucket: str, prefix: str) -> str:
    return f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
