"""Checks plans and every file of code with the Rego policies in `policy/`, by Conftest's conventions.

They fail closed: it is an error if they cannot be evaluated, or if a result is neither a message nor empty.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.checks.engine.running import NO_PLAN
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.tools.interface import ToolRequest, ToolResult, tool, tool_rule
from holdfast.checks.tools.rego.interface import (
    INSTALL,
    INSTALL_OPA,
    Document,
    EvaluationError,
    Result,
    ResultKind,
)
from holdfast.checks.tools.rego.policies import (
    FOLDER,
    PolicyFile,
    old_rules,
    policy_files,
    rules_of,
    unknown_data,
)
from holdfast.config.checks import Use
from holdfast.hcl.eval.old_tree import OldTree
from holdfast.kernel.errors import Place
from holdfast.system import files
from holdfast.terraform.workdirs.scratch import open_scratch_folder

if TYPE_CHECKING:
    from holdfast.checks.tools.rego.programs import Evaluator

_LEVELS = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE}
_PLACE = frozenset({"file", "line", "_loc"})
_ADDRESS = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[(?:\d+|\"[\w ./:@-]*\")\])+")


def check(request: ToolRequest) -> Iterator[ToolResult]:
    checkout = request.checkout
    listed = policy_files(checkout.code)
    policies = tuple(PolicyFile(path=path, text=checkout.text(path) or "") for path in listed.paths)
    missing = [
        *(f"`{path}` is empty: is it a submodule that was not fetched?" for path in listed.empty),
        *(f"`{path}` is a broken link" for path in listed.broken_links),
        *(f"`{path}` cannot be read" for path in listed.paths if checkout.content(path) is None),
    ]
    for message in missing:
        yield request.failed(message, hint="Add the policies, or remove the path.")
    if missing:
        return
    if rules_of(policies):
        yield from _check(request, policies)
    elif nameless := [policy.path for policy in policies if policy.plain.strip() and policy.package is None]:
        yield request.failed(
            f"no package in {', '.join(nameless)}", hint="Start the file with `package main`."
        )
    elif request.use is Use.ON:
        yield request.failed(
            f"no policy in `{FOLDER}/` denies or warns, and `checks.tools.rego` is `on`",
            hint="Add a rule `deny contains msg if`, or set `checks.tools.rego` to `auto`.",
        )
    elif policies:
        yield tool_rule("rego"), Skipped(reason=f"no policy in `{FOLDER}/` denies or warns")


def _check(request: ToolRequest, policies: Sequence[PolicyFile]) -> Iterator[ToolResult]:
    # Imported here because most repositories have no policies.
    from holdfast.checks.tools.rego import forbidden_calls, programs  # noqa: PLC0415

    tested = [policy for policy in policies if not policy.is_test]
    if (error := forbidden_calls.find_forbidden_calls(tested)) is not None:
        yield request.failed(error, hint=forbidden_calls.HINT)
    elif old := list(old_rules(policies)):
        yield request.failed(
            f"syntax before Rego 1.0: {', '.join(old)}",
            hint="Rewrite it with `opa fmt --write --v0-v1 policy/`: `deny contains msg if`.",
        )
    elif unknown := list(unknown_data(policies)):
        yield request.failed(
            f"no policy defines {', '.join(unknown)}, and no other data is loaded",
            hint=f"Write the data as rules of a package in `{FOLDER}/`.",
        )
    else:
        with _open_root(request, policies) as root:
            evaluator = programs.find_evaluator(root, request.environment)
            if evaluator is None:
                message = f"no evaluator is installed for the policies in `{FOLDER}/`"
                yield request.failed(message, hint=INSTALL)
            else:
                yield from _evaluate(request, evaluator, policies)


@contextlib.contextmanager
def _open_root(request: ToolRequest, policies: Sequence[PolicyFile]) -> Iterator[Path]:
    """Where the policy files are: in the repository, or, if they are old versions, in a private folder."""
    if not isinstance(request.checkout.code.tree, OldTree):
        yield request.root
        return
    with open_scratch_folder() as folder:
        for policy in policies:
            file = folder / policy.path
            file.parent.mkdir(parents=True, exist_ok=True)
            files.write(file, policy.text.encode(), durable=False)
        yield folder


def _evaluate(
    request: ToolRequest, evaluator: Evaluator, policies: Sequence[PolicyFile]
) -> Iterator[ToolResult]:
    if not request.plans:
        yield tool_rule("rego"), Skipped(reason=NO_PLAN, expected=True)
    documents: list[Document] = []
    for item in _documents(request):
        if isinstance(item, Document):
            documents.append(item)
        else:
            yield item
    try:
        by_document = evaluator.evaluate(policies, documents) if documents else []
    except EvaluationError as error:
        yield request.failed(str(error), hint=error.hint)
        return
    for document, results in zip(documents, by_document, strict=True):
        for result in results:
            yield _tool_result(request, document, result)


def _documents(request: ToolRequest) -> Iterator[Document | ToolResult]:
    from holdfast.checks.tools.source_documents import document_from_source  # noqa: PLC0415 - it loads the parser

    for name, plan in request.plans.items():
        yield Document(value=json.loads(plan.document), stack=name)
    for module in request.checkout.modules:
        for file in module.files:
            if file.problems:
                reason = "the file has syntax errors"
                yield tool_rule("rego"), Skipped(reason=reason, file=file.path)
                continue
            try:
                value = document_from_source(request.checkout.content(file.path) or b"", file.path)
            except (RecursionError, ValueError):
                reason = "the file is nested too deeply, or is not valid JSON"
                yield tool_rule("rego"), Skipped(reason=reason, file=file.path)
                continue
            yield Document(value=value, path=file.path)


def _tool_result(request: ToolRequest, document: Document, result: Result) -> ToolResult:
    name = ".".join(part for part in ("rego", result.package, result.rule) if part)
    if result.kind is ResultKind.ERROR:
        where = f" ({document.path})" if document.path is not None else ""
        hint = INSTALL_OPA if "regopy" in result.message else "Fix the policy."
        return request.failed(f"{name}: {result.message}{where}", hint=hint, stack=document.stack)
    rule = Rule(
        id=name,
        title="A policy in this repository",
        why="A policy in this repository reports it.",
        fix="",
        severity=Severity.ERROR,
        tool=request.name,
    )
    if result.kind is ResultKind.EXCEPTION:
        reason = f"exempted by the policy: {result.message}"
        return rule, Skipped(reason=reason, file=document.path, stack=document.stack)
    return rule, _finding(request.checkout, document, result)


def _finding(checkout: Checkout, document: Document, result: Result) -> Finding:
    """Known metadata fills the fields of the finding; the rest is added to the message.

    Reports and waivers match resources by address, so an invalid address is added to the message too.
    """
    metadata = result.metadata
    own = Severity.ERROR if result.kind is ResultKind.FAILURE else Severity.WARNING
    address, hint, severity = (metadata.get(key) for key in ("address", "hint", "severity"))
    known = {
        "address": isinstance(address, str) and _is_address(document, address),
        "hint": isinstance(hint, str),
        "severity": str(severity).lower() in _LEVELS,
    }
    rest = [
        f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted(metadata.items())
        if not known.get(key, key in _PLACE)
    ]
    return Finding(
        message=f"{result.message} ({', '.join(rest)})" if rest else result.message,
        place=_place(checkout, document, metadata),
        address=str(address) if known["address"] else None,
        hint=str(hint) if known["hint"] else None,
        stack=document.stack,
        severity=_LEVELS.get(str(severity).lower(), own),
    )


def _is_address(document: Document, address: str) -> bool:
    """In a plan an address of the plan; in code, anything of that form."""
    if document.path is not None:
        return _ADDRESS.fullmatch(address) is not None
    changes = document.value.get("resource_changes")
    return isinstance(changes, list) and any(
        isinstance(change, dict) and change.get("address") == address for change in changes
    )


def _place(checkout: Checkout, document: Document, metadata: Mapping[str, object]) -> Place | None:
    """The place in the metadata, else the block with that address, else the whole file."""
    loc = metadata.get("_loc")
    fields = {**metadata, **loc} if isinstance(loc, dict) else metadata
    file = fields.get("file")
    if not isinstance(file, str) or file not in checkout.files:
        file = document.path
    if file is None:
        return None
    line = fields.get("line")
    if isinstance(line, int) and not isinstance(line, bool) and 0 < line <= len(checkout.lines(file)):
        return Place(file=file, line=line)
    address = fields.get("address")
    if isinstance(address, str):
        folder = file.rpartition("/")[0] or "."
        for resource in checkout.module(folder).resources():
            if resource.address == address and resource.block.place.file == file:
                return resource.block.place
    return Place(file=file)


TOOL = tool("rego", check)
