"""`plan`, `apply` and `destroy` on a server: upload, submit, follow, and show what a local run would show."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.changes.dependencies import needs, reversed_dependencies
from holdfast.changes.repository import open_repository
from holdfast.cli.changes.change import exit_if_blocked, require_answer
from holdfast.cli.changes.screen import ChangeScreen, Results
from holdfast.cli.command import Invocation
from holdfast.cli.confirmation import confirm_at_once, confirm_destruction
from holdfast.cli.server.connection import StoredPlans, open_server
from holdfast.cli.server.following import Detached, Following
from holdfast.cli.server.upload import pack_repository
from holdfast.kernel.errors import Exit, Failed, HoldfastError, Refused, UsageError
from holdfast.kernel.server_hints import on_server
from holdfast.kernel.text import plural
from holdfast.plans.result import StackResult, exit_code, planned_later, result_on_server
from holdfast.plans.status import Status
from holdfast.plans.variables import variable_values
from holdfast.runs.checks_document import report_from_document
from holdfast.runs.document import stacks_document
from holdfast.runs.read_document import result_from_document, unfinished_document
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.model import Plan

_MOST_STACKS = 1000
"""In one request."""
_MOST_RUNS = 20
"""Whose ids are listed."""
_APPLICABLE = frozenset({Status.PLANNED, Status.WAITING, Status.REFUSED})


class ServerChange:
    def __init__(
        self,
        invocation: Invocation,
        address: str,
        stacks: list[str] | None = None,
        changed: list[str] | None = None,
        since: str | None = None,
        *,
        dependents: bool = False,
        dependencies: bool = False,
        detach: bool = False,
    ) -> None:
        """The stacks are selected here: the server has no history of an upload."""
        self.invocation = invocation
        self.console = invocation.console
        self.server = open_server(invocation, address)
        self._option = self.server.client.login.option
        self.detach = detach
        self._repository = open_repository(invocation.config, invocation.environment)
        self._repository.tune(self.console.redactor)
        self._repository.require_stacks()
        selection = self._repository.select(
            *(stacks or [], changed or [], since), dependents=dependents, dependencies=dependencies
        )
        if selection.base is not None and selection.base.weakened:
            raise Refused(
                "HF-USE-44",
                f"this change weakens the rules of {since}: {'; '.join(selection.base.weakened)}",
                hint="An upload is judged by its own rules only. Plan without --server, or a pull request.",
            )
        self.names = tuple(selected.stack.name for selected in selection.selected)
        self.console.say(f" {selection.headline()}")
        if selection.removed:
            gone = ", ".join(stack.name for stack in selection.removed)
            self.console.warn(f"Removed stacks are not run on the server: {gone}")
        self._upload: str | None = None
        self._change: str | None = None
        """The newest that was submitted."""
        self._shown: set[str] = set()
        """Stacks whose plan the user has seen."""
        self._destroys: frozenset[str] = frozenset()

    @functools.cached_property
    def _stored_plans(self) -> StoredPlans:
        return StoredPlans(self.invocation, self.server)

    def plan(self, options: PlanOptions, *, detailed: bool, full: bool, reason: str | None) -> Exit:
        screen = self._screen(full=full)
        results = self._run(screen, "plan", options, reason)
        return Exit.DONE if results is None else exit_code(results, detailed=detailed)

    def apply(self, options: PlanOptions, *, yes: bool, allow_blocked: bool, reason: str | None) -> Exit:
        """Without `yes`, the plans are shown first, and exactly these are applied."""
        require_answer(yes=yes)
        blocked = exit_if_blocked(allow=allow_blocked)
        if yes:
            results = self._run(self._screen(), "apply", options, reason)
            return Exit.DONE if results is None else exit_code(results, blocked=blocked)
        return self._apply_shown(options, reason, self._confirm_apply, blocked)

    def destroy(self, confirmed: frozenset[str], reason: str | None) -> Exit:
        """The user types the name of each stack that is not confirmed yet, below its plan."""
        self._destroys = frozenset(self.names)
        if self._destroys <= confirmed:
            results = self._run(self._screen(), "destroy", PlanOptions(), reason)
            return Exit.DONE if results is None else exit_code(results, blocked=Exit.FAILED)
        confirm = partial(self._confirm_destroy, confirmed)
        return self._apply_shown(PlanOptions(destroy=True), reason, confirm, Exit.FAILED)

    def _apply_shown(
        self, options: PlanOptions, reason: str | None, confirm: Callable[[Results], bool], blocked: Exit
    ) -> Exit:
        """Show the plans, ask, and let the server apply these and no others."""
        planned = self._run(self._screen(), "plan", options, reason, detach=False) or ()
        if not any(result.status in {Status.PLANNED, Status.WAITING} for result in planned):
            return exit_code(planned, blocked=blocked)
        # One that the guard refuses waits for an override, and what depends on it waits with it.
        shown = tuple(result for result in planned if result.status in _APPLICABLE and result.digest)
        if not confirm(shown):
            self.console.say(" Nothing was changed.")
            return Exit.FAILED
        self._shown |= {result.stack.name for result in shown}
        plans = {str(result.run): str(result.digest) for result in shown}
        results = self._follow(
            self._screen(),
            self.server.apply_plans(str(self._change), plans, reason or ""),
            detach=self.detach,
        )
        left_out = tuple(result for result in planned if result not in shown)
        return Exit.DONE if results is None else exit_code((*results, *left_out), blocked=blocked)

    def _confirm_apply(self, shown: Results) -> bool:
        question = f"Apply {plural(len(shown), 'plan')} on the server, exactly as shown?"
        return confirm_at_once(self.console, question, yes=False)

    def _confirm_destroy(self, confirmed: frozenset[str], shown: Results) -> bool:
        names = (result.stack.name for result in shown)
        return all(name in confirmed or confirm_destruction(self.console, name) for name in names)

    def _screen(self, *, full: bool = False) -> ChangeScreen:
        screen = ChangeScreen(self.invocation)
        screen.full, screen.destroys, screen.server = full, self._destroys, self._option
        return screen

    def _run(
        self,
        screen: ChangeScreen,
        operation: str,
        options: PlanOptions,
        reason: str | None,
        *,
        detach: bool | None = None,
    ) -> tuple[StackResult, ...] | None:
        """The results, shown; None if they are not waited for."""
        if not self.names:
            self._show(screen, None, [])
            return ()
        change = self._submit(operation, options, reason)
        return self._follow(screen, change, detach=self.detach if detach is None else detach)

    def _follow(
        self, screen: ChangeScreen, change: dict[str, Any], *, detach: bool
    ) -> tuple[StackResult, ...] | None:
        self._change = change["id"]
        if detach:
            self._show_submitted(change)
            return None
        stacks = {run["id"]: run["stack"] for run in change["runs"]}
        show_plans = partial(self._show_started, screen, stacks)
        following = Following(self.server, self.console, change["id"], show_plans)
        with following.patient():
            try:
                change = following.until_over()
            except Detached:
                hint = f"holdfast runs watch {change['id']} {self._option}"
                raise Failed(
                    "HF-RUN-35",
                    f"the change {change['id']} continues on the server",
                    hint=f"Follow it: {hint}",
                ) from None
            if change["error"] is not None and not change["runs"]:
                error = change["error"]
                hint = on_server(error.get("hint") or "", self._option)
                raise Failed(error["code"], error["message"], hint=hint)
            return self._show(screen, change["id"], change["runs"], change["error"])

    def _show_started(self, screen: ChangeScreen, stacks: Mapping[str, str], started: set[str]) -> None:
        """The plans of applies that have begun, as soon as they are stored; the others at the end."""
        wanted = [run for run in started if stacks.get(run) not in self._shown]
        if self.invocation.as_json or self.console.quiet or not wanted:
            started.clear()
            return
        runs = [
            {"id": run, "stack": stacks[run], "status": Status.PLANNED} for run in wanted if run in stacks
        ]
        with contextlib.suppress(HoldfastError):
            for run, stored in self._stored_plans.several(runs):
                started.discard(run)
                self._shown.add(stacks[run])
                stack = self._repository.by_name[stacks[run]]
                screen.show_plan(StackResult(stack=stack, status=Status.PLANNED, run=run, plan=stored.plan))

    def _submit(self, operation: str, options: PlanOptions, reason: str | None) -> dict[str, Any]:
        if len(self.names) > _MOST_STACKS:
            raise UsageError(
                "HF-USE-45",
                f"{len(self.names)} stacks are selected; one change on a server has at most {_MOST_STACKS}",
                hint="Select fewer, for example with env:NAME.",
            )
        if self._upload is None:
            content = pack_repository(self._repository.config.root, self.invocation.environment, self.console)
            self._upload = self.server.upload(content)
        return self.server.submit(
            {
                "operation": operation,
                "stacks": list(self.names),
                "source": {"upload": self._upload},
                "variables": variable_values(options.variables),
                "target": list(options.targets),
                "replace": list(options.replace),
                "refresh_only": options.refresh_only,
                "destroy": options.destroy,
                "reason": reason or "",
            }
        )

    def _show_submitted(self, change: Mapping[str, Any]) -> None:
        url = self.server.client.url
        document = {
            "version": 1,
            "change": change["id"],
            "runs": [{name: run[name] for name in ("id", "stack", "phase")} for run in change["runs"]],
            "url": url,
        }
        lines = [f" {run['id']}  {run['stack']}: {run['phase']}" for run in change["runs"]]
        watch = f" Follow it: holdfast runs watch {change['id']} {self._option}"
        self.invocation.answer(document, *lines, watch)

    def _show(
        self,
        screen: ChangeScreen,
        change: str | None,
        runs: list[dict[str, Any]],
        error: Mapping[str, Any] | None = None,
    ) -> tuple[StackResult, ...]:
        stored = self.server.results(change) if change is not None else {}
        follows = self._follows(runs)
        # A worker may have died before it had the whole result. The status is what the run is now.
        current = []
        for run in runs:
            document = {**unfinished_document(run, error), **(stored.get(run["id"]) or {})}
            if error is not None and run["status"] == Status.CANCELLED:
                document["error"] = unfinished_document(run, error)["error"]
            blocked_by = follows.get(run["stack"]) or document["blocked_by"]
            current.append({**document, "status": run["status"], "blocked_by": blocked_by})
        # An apply that outlived its worker has no result of its own, but its plan is stored.
        plans = self._plans(
            run
            for document, run in zip(current, runs, strict=True)
            if document["resources"] or run["status"] == Status.APPLIED
        )
        results = tuple(
            result_on_server(result_from_document(document, plan=plans.get(run["id"])), self._option)
            for document, run in zip(current, runs, strict=True)
        )
        checks = self.server.checks(change) if change is not None else None
        later = planned_later(results)
        if self.invocation.as_json:
            self.invocation.document(
                stacks_document(current, change=change, checks=checks, planned_later=later)
            )
            return results
        screen.planned_later = later
        if checks is not None:
            screen.take_findings(report_from_document(checks))
        for result in results:
            # Its results alone do not show what it did.
            if result.status is Status.APPLIED and result.stack.name not in self._shown:
                screen.show_plan(replace(result, status=Status.PLANNED, outcomes={}, outputs={}))
        screen.show(results, weakened=(), cleaned=None)
        self._show_next(change, results, runs)
        return results

    def _show_next(self, change: str | None, results: Results, runs: Sequence[Mapping[str, Any]]) -> None:
        """The ids, and who must decide what."""
        if change is not None:
            self.console.line(f" Change {change}")
        told = [result for result in results if result.status is not Status.UNCHANGED]
        for result in told[:_MOST_RUNS]:
            self.console.line(f"   run {result.run}  {result.stack.name}")
        if len(told) > _MOST_RUNS:
            self.console.line(
                f"   … and {len(told) - _MOST_RUNS} more: holdfast runs watch {change} {self._option}"
            )
        for result, run in zip(results, runs, strict=True):
            if run["phase"] == "waiting":
                action = "approve" if result.status is Status.WAITING else "override"
                command = f"holdfast runs {action} {result.run} --reason TEXT {self._option}"
                self.console.line(f" {action.capitalize()}: {command}")

    def _follows(self, runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """For each stack that is still in the queue, the one that it waits for."""
        queued = {run["stack"] for run in runs if run["status"] is None}
        chosen = [self._repository.by_name[run["stack"]] for run in runs]
        waits = needs(chosen, self._repository.stacks) if queued else {}
        if any(run["operation"] == "destroy" for run in runs):
            waits = reversed_dependencies(waits)
        open_ = queued | {run["stack"] for run in runs if run["phase"] == "waiting"}
        return {name: other for name in queued for other in waits[name] if other in open_}

    def _plans(self, runs: Iterable[Mapping[str, Any]]) -> dict[str, Plan]:
        """Only to show them: a document needs none."""
        if self.invocation.as_json:
            return {}
        plans = StoredPlans(self.invocation, self.server)  # Without what it was told a moment ago.
        return {run: stored.plan for run, stored in plans.several(runs)}


def refuse_options(**given: object) -> None:
    """Options that only work without a server, by name."""
    for name, value in given.items():
        if value:
            option = f"--{name.rstrip('_').replace('_', '-')}"
            raise UsageError(
                "HF-USE-4",
                f"{option} cannot be combined with --server",
                hint=f"Leave {option} out, or run without --server.",
            )
