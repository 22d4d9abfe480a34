"""What is said about a place of a document. The rules make findings of it."""

from __future__ import annotations

from msgspec import Struct

from holdfast.checks.iam.document import Node


class Said(Struct, frozen=True):
    message: str
    at: Node
    hint: str | None = None
    grave: bool = True
    """False: it is one step less grave than the rule itself says."""
