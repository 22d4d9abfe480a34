"""Policy documents that were found, with what each is used as."""

from __future__ import annotations

from msgspec import Struct

from holdfast.checks.iam.document import Malformed, Node
from holdfast.checks.iam.policy_types import Kind, Use
from holdfast.checks.iam.statements import Statement, statements


class Policy(Struct, frozen=True):
    """A document that was found."""

    document: Node
    use: Use
    text: str
    file: str
    address: str | None
    statements: tuple[Statement, ...]

    @property
    def kind(self) -> Kind:
        return self.use.kind


def policy_of(document: Node, use: Use, text: str, file: str, address: str | None = None) -> Policy:
    return Policy(document, use, text, file, address, statements(document))


class Broken(Struct, frozen=True):
    """What is meant as a document and is no JSON."""

    malformed: Malformed
    file: str
    address: str | None = None


class Policies(Struct, frozen=True):
    found: tuple[Policy, ...] = ()
    broken: tuple[Broken, ...] = ()
    untold: tuple[tuple[str, str], ...] = ()
    """File and address of what only Terraform knows."""
    partly: tuple[tuple[str, str], ...] = ()
    """File and address of what has holes in which anything may stand."""
    files: tuple[str, ...] = ()
    """The JSON files that were looked into, whatever they turned out to hold."""
