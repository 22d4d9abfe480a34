r"""Repositories made of texts, and what rules say about them: nothing is read from a disk.

    report = check(UNUSED, {"main.tf": 'variable "a" {}\n'})
    assert messages(report) == ["nothing reads the variable `a`"]

Without a `holdfast.yaml` among the files there is one stack, `root`, of the folder `.`, in production. With
`config=""` there are no stacks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from msgspec.structs import replace

from holdfast.checks.engine.catalogue import rule, rules
from holdfast.checks.engine.inputs import build_checkout
from holdfast.checks.engine.running import CheckInputs, run_checks
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.checks.model.subjects import CheckedPlan, CheckedState, Checkout, Module
from holdfast.config import read as config_read
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import PathKind, Worktree
from holdfast.hcl.reader import read, values
from holdfast.stacks.backend import code_backend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import ListedTree
from holdfast.stacks.reads.remote_states import derived_dependencies
from holdfast.stacks.stack import Stack, matches
from holdfast.terraform.plan.model import read_plan
from holdfast.terraform.statefile.model import contents_of, read_state

TODAY = date(2026, 6, 15)
ROOT = Path("/repository")
ONE_STACK = "version: 1\nstacks:\n  - name: root\n    module: .\n    environment: prod\n"


def the(id_: str) -> Rule:
    """The rule of this id."""
    found = rule(id_)
    assert found is not None
    return found


def levels(id_: str, files: Mapping[str, str | bytes], config: str | None = None) -> list[Severity]:
    """The severities of what one rule reports."""
    return [one.severity for one in of(check(the(id_), {"main.tf": "", **files}, config=config), the(id_))]


class MemoryTree(Worktree):
    """The same questions, answered from names alone. A file with the content `-> TARGET` is a link."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(ROOT)
        self._tree = ListedTree(files)
        self._all = files
        self._links = {path: text[3:].decode() for path, text in files.items() if text.startswith(b"-> ")}

    def _names(self, folder: str) -> tuple[str, ...]:
        listing = self._tree.listing(folder)
        return tuple(sorted((*listing.files, *listing.folders))) if listing is not None else ()

    def _kind(self, path: str) -> PathKind:
        if path in self._all:
            return PathKind.FILE
        return PathKind.FOLDER if self._tree.listing(path) is not None else PathKind.MISSING

    def read_bytes(self, path: str, limit: int = -1) -> bytes:
        return self._all[path] if limit < 0 else self._all[path][:limit]

    def _follow_links(self, path: str) -> str:
        target = self._links.get(path)
        return f"{ROOT}/{path}".removesuffix("/.") if target is None else target


class MemoryCode(Code):
    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(ROOT)
        self.tree = MemoryTree(files)
        self._bytes = files

    def _read_bytes(self, path: str) -> bytes | OSError | None:
        return self._bytes.get(self.tree.real(path) or path)


def configuration(text: str = ONE_STACK) -> Config:
    written = textwrap.dedent(text) or "version: 1\n"
    return config_read.parse(written, file="holdfast.yaml", root=ROOT, path=ROOT / "holdfast.yaml")


def checkout(
    files: Mapping[str, str | bytes],
    *,
    config: str | None = None,
    select: Sequence[str] = (),
    changed: Sequence[str] = (),
    tracked: Sequence[str] | None = None,
    today: date = TODAY,
) -> Checkout:
    """`select`: names or filters of stacks; none: everything. `tracked`: what Git keeps, if not all of it."""
    content = {
        path: text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        for path, text in files.items()
    }
    given = config if config is not None else str(files.get("holdfast.yaml", ONE_STACK))
    loaded = configuration(given)
    code = MemoryCode(content)
    stacks: tuple[Stack, ...] = discover(
        loaded,
        files=ListedTree(content),
        read_values=lambda path: values(read(content[path], path)),
        code_backend=lambda stack: code_backend(code, stack.module),
        derive=lambda stacks: derived_dependencies(lambda _: code, stacks),
    )
    chosen = [one for one in stacks if not select or any(matches(one, name) for name in select)]
    return build_checkout(
        loaded,
        code,
        stacks=chosen,
        all_stacks=stacks,
        files=content,
        tracked=frozenset(content if tracked is None else tracked),
        today=today,
        whole=not select and not changed,
        changed=changed,
    )


def _unread(module: Module) -> Iterator[Finding | Skipped]:
    if any(file.problems for file in module.files):
        yield Skipped(reason="a file could not be read in full")
        return
    text = "".join(module.checkout.text(path) or "" for path in module.paths)
    for block in module.blocks("variable"):
        name = block.labels[0] if block.labels else ""
        if f"var.{name}" not in text:
            yield finding(block, f"nothing reads the variable `{name}`", address=f"var.{name}")


UNUSED = Rule(
    id="HF700",
    title="A variable that nothing reads",
    why="Why.",
    fix="Remove it.",
    severity=Severity.WARNING,
    source=_unread,
)
"""A small rule for tests of the engine."""


def check(
    rule: Rule | Sequence[Rule],
    files: Mapping[str, str | bytes] | Checkout,
    *,
    config: str | None = None,
    inputs: CheckInputs | None = None,
    select: Sequence[str] = (),
    only_configured: bool = False,
) -> Report:
    """What this rule (or these) and the ones about waivers and the checks themselves say.

    Rules that need configuration run without it, unless `only_configured`.
    """
    made = files if isinstance(files, Checkout) else checkout(files, config=config, select=select)
    wanted = (rule,) if isinstance(rule, Rule) else tuple(rule)
    if not only_configured:
        wanted = tuple(replace(one, configured=None) if one.configured else one for one in wanted)
    own = tuple(one for one in rules() if one.id.startswith("HF9") and one not in wanted)
    return run_checks(made, (*wanted, *own), inputs or CheckInputs())


def plan_of(made: Checkout, document: bytes, stack: str = "root") -> CheckedPlan:
    """A plan at hand, from the bytes of `show -json`."""
    found = next(one for one in made.stacks if one.name == stack)
    return CheckedPlan(stack=found, plan=read_plan(document), document=document)


def state_of(made: Checkout, data: bytes, stack: str = "root") -> CheckedState:
    """A state at hand, from the bytes of a state file."""
    found = next(one for one in made.stacks if one.name == stack)
    file = read_state(data)
    return CheckedState(stack=found, contents=contents_of(file), file=file)


def of(report: Report, rule: Rule) -> list[ReportedFinding]:
    """The findings of one rule."""
    return [one for one in report.findings if one.rule.id == rule.id]


def messages(report: Report, rule: Rule | None = None) -> list[str]:
    return [one.message for one in report.findings if rule is None or one.rule.id == rule.id]


def lines(report: Report, rule: Rule) -> list[tuple[str | None, int | None]]:
    return [(one.file, one.line) for one in of(report, rule)]


def skips(report: Report, rule: Rule) -> list[str]:
    return [one.reason for one in report.skipped if one.rule == rule.id]
