"""A claim reserves a stack for one run until the run's outcome is recorded.

It is written before anything changes and contains the run's intent. A claim whose run is dead tells the next
run that the outcome is unknown.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from holdfast.kernel.secret import masked_repr
from holdfast.store.blobs import EncryptedBlobs, decode_name, encode_name, to_json


class StoredClaim(NamedTuple):
    """`intent` is a document that only `runs/claims.py` reads: the supervisor needs no more than the run."""

    stack: str
    run: str
    intent: dict[str, object]
    tag: str = ""

    def __repr__(self) -> str:
        return masked_repr(self)


class Claims:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def take(self, claim: StoredClaim) -> StoredClaim:
        """The claim in force: this one, or that of the run that was first."""
        document: dict[str, object] = {"stack": claim.stack, "run": claim.run, "intent": claim.intent}
        while True:
            if self._encrypted.create(_name(claim.stack), to_json(document)):
                return claim
            existing = self.of(claim.stack)
            if existing is not None:
                return existing

    def of(self, stack: str) -> StoredClaim | None:
        blob = self._encrypted.read(_name(stack))
        if blob is None:
            return None
        document = json.loads(blob.data)
        return StoredClaim(
            stack=document["stack"], run=document["run"], intent=document["intent"], tag=blob.tag
        )

    def all(self) -> tuple[StoredClaim, ...]:
        names = [name.split("/")[1] for name in self._encrypted.names("claims")]
        return tuple(claim for name in names if (claim := self.of(decode_name(name))) is not None)

    def release(self, stack: str, run: str) -> None:
        """Removes only the run's own claim."""
        claim = self.of(stack)
        if claim is not None and claim.run == run:
            self._encrypted.remove(_name(stack), tag=claim.tag)


def _name(stack: str) -> str:
    return f"claims/{encode_name(stack)}"
