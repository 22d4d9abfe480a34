"""Policies in Rego, in `policy/`, by Conftest's conventions: asked about plans, and about every file of code.

They fail closed: policies that nobody can evaluate, or that evaluate to something that says neither yes nor
no, are an error. Somebody wrote them to be asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.checks.engine.running import NO_PLAN
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.tools.interface import Asked, Said, tool, words
from holdfast.checks.tools.rego.answers import Kind, Result
from holdfast.checks.tools.rego.files import policy_files
from holdfast.checks.tools.rego.interface import INSTALL, Document, NoAnswer
from holdfast.checks.tools.rego.policies import FOLDER, Policy, old_rules, rules_of, unknown_data
from holdfast.config.checks import Use
from holdfast.kernel.errors import Place

if TYPE_CHECKING:
    from holdfast.checks.tools.rego.evaluators import Evaluator

_LEVELS = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE}
_PLACE = frozenset({"file", "line", "_loc"})
_ADDRESS = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[(?:\d+|\"[\w ./:@-]*\")\])+")
_WHY = "A policy of this repository says so."


def look(asked: Asked) -> Iterator[Said]:
    checkout = asked.checkout
    found = policy_files(checkout.code)
    policies = tuple(Policy(path=path, text=checkout.text(path) or "") for path in found.paths)
    missing = [
        *(f"`{path}` is empty: is it a submodule that was not fetched?" for path in found.empty),
        *(f"`{path}` is a link to nothing" for path in found.lost),
        *(f"`{path}` cannot be read" for path in found.paths if checkout.content(path) is None),
    ]
    for one in missing:
        yield asked.failed(one, hint="Put the policies there, or take it away.")
    if missing:
        return
    if rules_of(policies):
        yield from _asked(asked, policies)
    elif nameless := [one.path for one in policies if one.plain.strip() and one.package is None]:
        yield asked.failed(f"no package is named in {', '.join(nameless)}", hint="Begin with `package main`.")
    elif asked.use is Use.ON:
        yield asked.failed(
            f"no policy in `{FOLDER}/` denies or warns, and `checks.tools.rego` is on",
            hint="Write one with a rule `deny contains msg if`, or say `auto`.",
        )
    elif policies:
        yield words("rego", "rego"), Skipped(reason=f"no policy in `{FOLDER}/` denies or warns")


def _asked(asked: Asked, policies: Sequence[Policy]) -> Iterator[Said]:
    from holdfast.checks.tools.rego import evaluators, forbidden_calls  # noqa: PLC0415 - most have no policies

    if (out := forbidden_calls.calls([one for one in policies if not one.is_test])) is not None:
        yield asked.failed(out, hint=forbidden_calls.HINT)
    elif old := list(old_rules(policies)):
        yield asked.failed(
            f"written in Rego before 1.0: {', '.join(old)}",
            hint="`opa fmt --write --v0-v1 policy/` rewrites them: `deny contains msg if`.",
        )
    elif unknown := list(unknown_data(policies)):
        yield asked.failed(
            f"no policy gives {', '.join(unknown)}, and no other data is loaded",
            hint=f"Write it as rules of a package in `{FOLDER}/`.",
        )
    elif (evaluator := evaluators.find(asked.root, asked.environment)) is None:
        yield asked.failed(f"nobody here can evaluate the policies in `{FOLDER}/`", hint=INSTALL)
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
        other = ", or install `opa`" if evaluator.name == "regopy" else ""
        yield asked.failed(
            str(error), hint=f"Mend the policy (`holdfast policy test` runs its tests){other}."
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
    """Metadata that says where and what to do goes where that is shown; the rest is told with the message.

    An address leads to an object, in reports and in waivers: what is none is told with the message.
    """
    metadata = result.metadata
    own = Severity.ERROR if result.kind is Kind.FAILURE else Severity.WARNING
    address, hint, severity = (metadata.get(key) for key in ("address", "hint", "severity"))
    known = {
        "address": isinstance(address, str) and _is_address(about, address),
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
        place=_place(checkout, about, metadata),
        address=str(address) if known["address"] else None,
        hint=str(hint) if known["hint"] else None,
        stack=about.stack,
        severity=_LEVELS.get(str(severity).lower(), own),
    )


def _is_address(about: Document, address: str) -> bool:
    """One of the plan; in code, what is written like one."""
    if about.path is not None:
        return _ADDRESS.fullmatch(address) is not None
    changes = about.value.get("resource_changes")
    return isinstance(changes, list) and any(
        isinstance(one, dict) and one.get("address") == address for one in changes
    )


def _place(checkout: Checkout, about: Document, metadata: Mapping[str, object]) -> Place | None:
    """What the metadata says, else the block of the address, else the file as a whole.

    The file is one of the repository: its line is shown.
    """
    loc = metadata.get("_loc")
    given = {**metadata, **loc} if isinstance(loc, dict) else metadata
    file = given.get("file")
    if not isinstance(file, str) or file not in checkout.files:
        file = about.path
    if file is None:
        return None
    line = given.get("line")
    if isinstance(line, int) and not isinstance(line, bool) and 0 < line <= len(checkout.lines(file)):
        return Place(file=file, line=line)
    address = given.get("address")
    if isinstance(address, str):
        folder = file.rpartition("/")[0] or "."
        for resource in checkout.module(folder).resources():
            if resource.address == address and resource.block.place.file == file:
                return resource.block.place
    return Place(file=file)


TOOL = tool("rego", look)
