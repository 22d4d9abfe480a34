"""The findings of the base of a change, for `holdfast check --since`: what it has as well is not new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from holdfast.changes.old_repository import OldRepository
from holdfast.changes.repository import Repository
from holdfast.checks.engine.catalogue import rules
from holdfast.checks.engine.inputs import build_checkout
from holdfast.checks.engine.novelty import mark_existing
from holdfast.checks.engine.running import Available, CheckInputs, run_checks
from holdfast.checks.model.baseline import BaselineEntry
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import Checkout, EngineOutput, VariablesFile
from holdfast.cli.checks import inputs
from holdfast.config.checks import CheckSettings
from holdfast.config.settings import Config
from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.worktree import PathKind
from holdfast.plans.base_rules import BaseRules
from holdfast.stacks.stack import Stack


class BaseChecks(Struct, frozen=True, kw_only=True):
    repository: Repository
    before: OldRepository
    """At the commit that the change is based on."""
    rules: BaseRules | None
    selected: tuple[Stack, ...]

    def compare(
        self,
        report: Report,
        checkout: Checkout,
        engine: Available[EngineOutput],
        baseline: Iterable[BaselineEntry],
    ) -> Report:
        """The report with what the base has as well marked as existing.

        The old code is checked with the settings of the change, so that a stricter setting makes no finding
        new, and with those of the base where its findings count too. Only rules that found something run
        again.
        """
        found = {finding.rule.id for finding in report.findings if not finding.waived}
        settings = [checkout.config.checks]
        if self.rules is not None and self.rules.sealed.checks:
            settings.append(self.rules.config.checks)
        bases = [
            (self._run(old, found, engine), old)
            for old in (self._checkout(checkout, some) for some in settings if found)
        ]
        return mark_existing(report, checkout, bases, baseline)

    def _run(self, checkout: Checkout, found: set[str], engine: Available[EngineOutput]) -> Report:
        """Terraform formatted only the current files: it tells the same of those that did not change."""
        wanted = tuple(rule for rule in rules() if rule.id in found)
        unchanged = tuple(
            structs.replace(
                output,
                problems=(),
                warnings=(),
                formatted={
                    path: text for path, text in output.formatted.items() if path not in self.before.old
                },
            )
            for output in engine.items
        )
        given = CheckInputs(
            states=inputs.readable_states(self.repository, checkout, wanted),
            engine=structs.replace(engine, items=unchanged),
        )
        return run_checks(checkout, wanted, given)

    def _checkout(self, now: Checkout, settings: CheckSettings) -> Checkout:
        """The same folders and variables files as now, with the stacks that they had."""
        before, tree = self.before, self.before.tree
        config, stacks = self._config_and_stacks()
        files, tracked = inputs.repository_files(self.repository)
        old = frozenset(path for path, content in before.old.items() if content is not None)
        checkout = build_checkout(
            structs.replace(config, checks=settings),
            before.code,
            stacks=stacks if now.whole else tuple(self._selected(stacks)),
            all_stacks=stacks,
            files=old.union(path for path in files if tree.kind(path) is PathKind.FILE),
            tracked=None if tracked is None else (tracked - before.old.keys()) | old,
            today=now.today,
            whole=now.whole,
            count_authors=now.count_authors,
        )
        folders = {module.folder for module in checkout.modules}
        modules = (checkout.module(module.folder) for module in now.modules if module.folder not in folders)
        checkout.modules += tuple(module for module in modules if module.code.exists)
        paths = {file.path for file in checkout.variables_files}
        checkout.variables_files += tuple(
            VariablesFile(checkout=checkout, path=file.path, file=then)
            for file in now.variables_files
            if file.path not in paths and (then := before.code.file(file.path)) is not None
        )
        return checkout

    def _config_and_stacks(self) -> tuple[Config, tuple[Stack, ...]]:
        """Of the base; if it has no readable configuration, those of the change."""
        stacks = self.before.stacks
        if stacks is None:
            return self.repository.config, self.repository.stacks
        return self.before.config, tuple(stacks.values())

    def _selected(self, stacks: tuple[Stack, ...]) -> Iterator[Stack]:
        """By name, or the stack of the same folder under another name."""
        names = {stack.name for stack in self.selected}
        folders = {stack.module for stack in self.selected if stack.kind is RuleKind.FOLDER}
        for stack in stacks:
            if stack.name in names or (stack.kind is RuleKind.FOLDER and stack.module in folders):
                yield stack
