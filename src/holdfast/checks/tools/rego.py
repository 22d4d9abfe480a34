"""Policies in Rego, in `policy/`, by Conftest's conventions: asked about plans, and about every file of code.

They fail closed: policies that nobody can evaluate, or that evaluate to something that says neither yes nor
no, are an error. Somebody wrote them to be asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.checks.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.running import NO_PLAN
from holdfast.checks.subjects import Checkout
from holdfast.checks.tools.interface import Asked, Said, tool, words
from holdfast.checks.tools.rego_answers import Kind, Result
from holdfast.checks.tools.rego_interface import INSTALL, Document, NoAnswer
from holdfast.checks.tools.rego_policies import FOLDER, Policy, is_policy, old_rules, rules_of
from holdfast.config.check_valid import Use
from holdfast.kernel.errors import Place

if TYPE_CHECKING:
    from holdfast.checks.tools.rego_engines import Evaluator

_LEVELS = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE}
_OWN = frozenset({"address", "hint", "file", "line", "severity", "_loc"})
_WHY = "A policy of this repository says so."


def policies_in(checkout: Checkout) -> tuple[Policy, ...]:
    return tuple(
        Policy(path=path, text=checkout.text(path) or "") for path in checkout.files if is_policy(path)
    )


def look(asked: Asked) -> Iterator[Said]:
    policies = policies_in(asked.checkout)
    if not rules_of(policies):
        if asked.use is Use.ON:
            yield asked.failed(
                f"no policy in `{FOLDER}/` denies or warns, and `checks.tools.rego` is on",
                hint="Write one with a rule `deny contains msg if`, or say `auto`.",
            )
        return
    from holdfast.checks.tools import rego_engines  # noqa: PLC0415 - most repositories have no policies

    evaluator = rego_engines.find(asked.root, asked.environment)
    if evaluator is None:
        yield asked.failed(f"nobody here can evaluate the policies in `{FOLDER}/`", hint=INSTALL)
    elif evaluator.name == "regopy" and (old := list(old_rules(policies))):
        yield asked.failed(
            f"written in Rego before 1.0, which regopy gets wrong: {', '.join(old)}",
            hint="`opa fmt --write --v0-v1 policy/` rewrites them: `deny contains msg if`.",
        )
    else:
        yield from _evaluated(asked, evaluator, policies)


def _evaluated(asked: Asked, evaluator: Evaluator, policies: Sequence[Policy]) -> Iterator[Said]:
    if not asked.plans:
        yield words("rego", "rego"), Skipped(reason=NO_PLAN)
    documents: list[Document] = []
    for one in _documents(asked):
        if isinstance(one, Document):
            documents.append(one)
        else:
            yield one
    try:
        found = evaluator.evaluate(policies, documents) if documents else []
    except NoAnswer as error:
        yield asked.failed(
            str(error), hint="Mend the policy (`holdfast policy test` runs its tests), or install `opa`."
        )
        return
    for about, results in zip(documents, found, strict=True):
        for result in results:
            yield _said(asked, about, result)


def _documents(asked: Asked) -> Iterator[Document | Said]:
    from holdfast.checks.tools.source_documents import document  # noqa: PLC0415 - it loads the parser

    for name, plan in asked.plans.items():
        yield Document(value=json.loads(plan.document), stack=name)
    for module in asked.checkout.modules:
        for file in module.files:
            if file.problems:
                reason = "a part of the file could not be read"
                yield words("rego", "rego"), Skipped(reason=reason, file=file.path)
                continue
            try:
                value = document(asked.checkout.content(file.path) or b"", file.path)
            except (RecursionError, ValueError):
                reason = "the file nests deeper than can be followed, or is no JSON"
                yield words("rego", "rego"), Skipped(reason=reason, file=file.path)
                continue
            yield Document(value=value, path=file.path)


def _said(asked: Asked, about: Document, result: Result) -> Said:
    name = ".".join(part for part in ("rego", result.package, result.rule) if part)
    if result.kind is Kind.ERROR:
        where = f" ({about.path})" if about.path is not None else ""
        hint = INSTALL if "regopy" in result.message else "Mend the policy."
        return asked.failed(f"{name}: {result.message}{where}", hint=hint, stack=about.stack)
    rule = Rule(
        id=name,
        title="A policy of this repository",
        why=_WHY,
        fix="",
        severity=Severity.ERROR,
        tool=asked.name,
    )
    if result.kind is Kind.EXCEPTION:
        reason = f"an exception of the policy holds: {result.message}"
        return rule, Skipped(reason=reason, file=about.path, stack=about.stack)
    return rule, _finding(asked.checkout, about, result)


def _finding(checkout: Checkout, about: Document, result: Result) -> Finding:
    """Metadata that says where and what to do goes where that is shown; the rest is told with the message."""
    metadata = result.metadata
    own = Severity.ERROR if result.kind is Kind.FAILURE else Severity.WARNING
    address = metadata.get("address")
    hint = metadata.get("hint")
    rest = [
        f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted(metadata.items())
        if key not in _OWN
    ]
    return Finding(
        message=f"{result.message} ({', '.join(rest)})" if rest else result.message,
        place=_place(checkout, about, metadata),
        address=address if isinstance(address, str) else None,
        hint=hint if isinstance(hint, str) else None,
        stack=about.stack,
        severity=_LEVELS.get(str(metadata.get("severity", "")).lower(), own),
    )


def _place(checkout: Checkout, about: Document, metadata: Mapping[str, object]) -> Place | None:
    """What the metadata says, else the block of the address, else the file as a whole."""
    loc = metadata.get("_loc")
    given = {**metadata, **loc} if isinstance(loc, dict) else metadata
    file = given.get("file") if isinstance(given.get("file"), str) else about.path
    if not isinstance(file, str) or checkout.content(file) is None:
        file = about.path
    if file is None:
        return None
    line = given.get("line")
    if isinstance(line, int) and not isinstance(line, bool) and line > 0:
        return Place(file=file, line=line)
    address = given.get("address")
    if isinstance(address, str):
        folder = file.rpartition("/")[0] or "."
        for resource in checkout.module(folder).resources():
            if resource.address == address and resource.block.place.file == file:
                return resource.block.place
    return Place(file=file)


TOOL = tool("rego", look)
