"""What a plan digest is made of. Pure. An approval names a digest; any part changed is another digest."""

from __future__ import annotations

import hashlib
import json

from msgspec import Struct
from msgspec.structs import asdict


class DigestParts(Struct, frozen=True, kw_only=True):
    plan: str
    """SHA-256 of the plan file."""
    lineage: str
    serial: int
    lock: str | None
    """SHA-256 of the lock file the plan was made with."""
    inputs: str
    """Over every file and value that went into the stack, variables among them."""
    made: str
    """An id of this one making: two plans of one second can have the same bytes, and are two plans."""
    policy: str
    """Over the rules that judged it, the built-in ones and the configuration's."""

    def digest(self) -> str:
        return hashlib.sha256(canonical(asdict(self))).hexdigest()


def canonical(document: object) -> bytes:
    """One text for one value, so that its digest means something."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
