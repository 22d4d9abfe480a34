"""The policy documents of a module or variables file, and what each is used as."""

from __future__ import annotations

from msgspec import Struct

from holdfast.checks.iam.document import Malformed, Node
from holdfast.checks.iam.policy_types import PolicyKind, PolicyUse
from holdfast.checks.iam.statements import Statement, statements


class IamPolicy(Struct, frozen=True):
    """A policy document and where it is."""

    document: Node
    use: PolicyUse
    text: str
    file: str
    address: str | None
    statements: tuple[Statement, ...]

    @property
    def kind(self) -> PolicyKind:
        return self.use.kind


def make_policy(
    document: Node, use: PolicyUse, text: str, file: str, address: str | None = None
) -> IamPolicy:
    return IamPolicy(document, use, text, file, address, statements(document))


class MalformedPolicy(Struct, frozen=True):
    """A policy document that is not valid JSON."""

    error: Malformed
    file: str
    address: str | None = None


class Policies(Struct, frozen=True):
    policies: tuple[IamPolicy, ...] = ()
    malformed: tuple[MalformedPolicy, ...] = ()
    unresolved: tuple[tuple[str, str], ...] = ()
    """File and address of documents whose content only Terraform knows."""
    partial: tuple[tuple[str, str], ...] = ()
    """File and address of documents with unknown parts that may matter to a rule."""
    files: tuple[str, ...] = ()
    """The JSON files that were searched, with or without a policy."""
