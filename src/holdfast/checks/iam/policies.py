"""The policy documents of variables files and JSON files, and what each document is used as."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.iam.document import (
    Malformed,
    Node,
    encode_json,
    is_heredoc,
    node_from_value,
    possible_parts,
    read_document,
)
from holdfast.checks.iam.policy_types import PolicyKind, PolicyUse, guess_use, looks_like_policy
from holdfast.checks.iam.statements import Statement, statements
from holdfast.checks.model.subjects import Checkout, VariablesFile
from holdfast.hcl.eval.worktree import Worktree
from holdfast.hcl.nodes import Expression, Literal, Object, walk
from holdfast.hcl.reader import constant
from holdfast.kernel.patterns import pattern

_ADMINISTERS: Final = pattern(
    r"admin|devops|deploy|provision|pipeline|terraform|engineer|develop|master|super|power|bootstrap|infra|github|gitlab|atlantis|spacelift|automation|operator|owner|break.?glass|runner"
    r"|boundary|(?:^|[^a-z])(?:ci|cd|cicd|tf)(?:[^a-z]|$)",
    re.IGNORECASE,
)


class IamPolicy(Struct, frozen=True, dict=True):
    """A policy document and where it is."""

    document: Node
    use: PolicyUse
    text: str
    file: str
    address: str | None
    statements: tuple[Statement, ...]
    certain: bool = True
    """False: one of several documents that an expression may be, or a file that no code names."""

    @functools.cached_property
    def possible_parts(self) -> frozenset[int]:
        return possible_parts(self.document)

    @property
    def kind(self) -> PolicyKind:
        return self.use.kind

    @property
    def is_administrative(self) -> bool:
        """Whether its names say that its holder administers or deploys, so that broad rights are intended."""
        names = f"{self.address} {self.file.rpartition('/')[2].partition('.')[0]}"
        return _ADMINISTERS.search(names) is not None

    @property
    def allowing(self) -> Iterator[Statement]:
        """The statements that allow something."""
        return (statement for statement in self.statements if statement.allows)


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


# Policies in JSON files, and those in, named by or beside variables files.


MARK: Final = b"Statement"
_NOT_POLICIES: Final = (".tf.json", ".tofu.json", ".tfvars.json")
_FOREIGN: Final = (b'"acs:', b".aliyuncs.com", b'"qcs:', b'"trn:')
"""Policies of Alibaba, Tencent and Volcengine have another grammar."""
_CALLED_POLICY = pattern(r"policy|policies|trust|assume.?role", re.IGNORECASE)


def may_be_policy(path: str) -> bool:
    return path.endswith(".json") and not path.endswith(_NOT_POLICIES)


def policies_in_file(checkout: Checkout, path: str, name: str = "") -> Policies:
    """The policy in a JSON file, by its content; a malformed one by its name or `name`."""
    content = checkout.content(path) if may_be_policy(path) else None
    called = f"{name} {path.rpartition('/')[2]}"
    named = _CALLED_POLICY.search(called) is not None
    if content is None or not (named or MARK in content) or any(mark in content for mark in _FOREIGN):
        return Policies()
    text = checkout.text(path) or ""
    document = checkout.code.once(("policy file", path), lambda: read_document(text))
    if isinstance(document, Node):
        fits = MARK in content and looks_like_policy(document)
        policy = make_policy(document, guess_use(called, document), text, path)
        return Policies((replace(policy, certain=bool(name)),) if fits else ())
    if "${" in text or "%{" in text:
        return Policies(unresolved=((path, path),)) if MARK in content else Policies()
    return Policies(malformed=(MalformedPolicy(document, path),)) if named else Policies()


def read_variables_policies(variables: VariablesFile) -> Policies:
    """Those in it, in the JSON files that it names, and beside it."""
    checkout, tree = variables.checkout, variables.checkout.code.tree
    parts: list[Policies] = []
    paths: dict[str, str] = {}
    for attribute in variables.file.body.attributes:
        for part in walk(attribute.expression):
            text = part.value if isinstance(part, Literal) and isinstance(part.value, str) else ""
            if '"Statement"' in text:
                parts.append(_inline_policies(variables, attribute.name, text, part))
            elif isinstance(part, Object) and has_statement(part):
                parts.append(_object_policies(variables, attribute.name, part))
            elif (path := _named_file(variables, text)) is not None:
                paths[path] = attribute.name
    folder = posixpath.dirname(variables.path) or "."
    for path in checkout.code.once(("JSON files", folder), lambda: _json_files(tree, folder)):
        paths.setdefault(path, "")
    parts.extend(policies_in_file(checkout, path, name) for path, name in paths.items())
    return Policies(
        tuple(policy for part in parts for policy in part.policies),
        tuple(broken for part in parts for broken in part.malformed),
        tuple(place for part in parts for place in part.unresolved),
        files=tuple(sorted(filter(may_be_policy, paths))),
    )


def _json_files(tree: Worktree, folder: str) -> tuple[str, ...]:
    return tuple(filter(may_be_policy, (tree.join(folder, name) for name in tree.names(folder))))


def has_statement(part: Object) -> bool:
    return any(isinstance(key, Literal) and key.value == "Statement" for key, _ in part.items)


def _inline_policies(variables: VariablesFile, name: str, text: str, at: Expression) -> Policies:
    below = is_heredoc(variables.checkout.lines(variables.path), at.line, at.column)
    document = read_document(text, line=at.line + 1 if below else at.line, columns=False)
    address = f"var.{name}"
    if isinstance(document, Malformed):
        broken = MalformedPolicy(document, variables.path, address)
        return Policies(malformed=(broken,)) if _CALLED_POLICY.search(name) else Policies()
    return _policies_in(variables, name, document, text)


def _object_policies(variables: VariablesFile, name: str, part: Object) -> Policies:
    """An object that is encoded where it is used."""
    document = node_from_value(constant(part), part.line, part.column)
    return _policies_in(variables, name, document, encode_json(document))


def _policies_in(variables: VariablesFile, name: str, document: Node, text: str) -> Policies:
    if not looks_like_policy(document):
        return Policies()
    return Policies((make_policy(document, guess_use(name, document), text, variables.path, f"var.{name}"),))


def _named_file(variables: VariablesFile, text: str) -> str | None:
    """The JSON file that a value names, relative to its folder, a root module or the root."""
    if not text.endswith(".json") or text.endswith(_NOT_POLICIES) or len(text) > 1000:  # noqa: PLR2004 - no path
        return None
    folders = (
        posixpath.dirname(variables.path) or ".",
        *(stack.stack.module for stack in variables.stacks),
        ".",
    )
    for folder in dict.fromkeys(folders):
        path = posixpath.normpath(posixpath.join(folder, text))
        if not path.startswith(("..", "/")) and variables.checkout.content(path) is not None:
            return path
    return None
