"""A claim: one run has a stack for itself, until its end is known.

It is made before anything is changed and holds what the run meant to do; it goes when the run's outcome is
written. A claim whose run is gone is what tells the next one that nobody knows how that run ended.
"""

from __future__ import annotations

import json

from holdfast.kernel.values import dataclass, field
from holdfast.store.encrypted_blobs import EncryptedBlobs, packed
from holdfast.store.names import stack_of, word


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`intent` is the document of the one who claims; this room does not look into it."""

    stack: str
    run: str
    intent: dict[str, object] = field(repr=False)
    tag: str = ""


class Claims:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def take(self, claim: Claim) -> Claim:
        """The claim that holds: ours, or that of the one who was first."""
        document: dict[str, object] = {"stack": claim.stack, "run": claim.run, "intent": claim.intent}
        while True:
            if self._encrypted.create(_name(claim.stack), packed(document)):
                return claim
            holds = self.of(claim.stack)
            if holds is not None:
                return holds

    def of(self, stack: str) -> Claim | None:
        found = self._encrypted.read(_name(stack))
        if found is None:
            return None
        document = json.loads(found.data)
        return Claim(stack=document["stack"], run=document["run"], intent=document["intent"], tag=found.tag)

    def all(self) -> tuple[Claim, ...]:
        words = [name.split("/")[1] for name in self._encrypted.names("claims")]
        return tuple(claim for one in words if (claim := self.of(stack_of(one))) is not None)

    def release(self, stack: str, run: str) -> None:
        """Only the run's own claim goes."""
        claim = self.of(stack)
        if claim is not None and claim.run == run:
            self._encrypted.remove(_name(stack), tag=claim.tag)


def _name(stack: str) -> str:
    return f"claims/{word(stack)}"
