"""`holdfast blueprints rollout`: shows what it would do, asks, and runs wave after wave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import to_builtins

from holdfast.cli.command import Invocation
from holdfast.cli.confirmation import confirm_at_once
from holdfast.cli.server.events import open_fleet
from holdfast.cli.views.events import show_error
from holdfast.cli.views.state import show_rows
from holdfast.fleet.rollout import DeviceResult, Rollout, RolloutPlan, Wave, Waves, plan_rollout
from holdfast.kernel.errors import Exit, Failed, most_severe
from holdfast.kernel.server_hints import on_server
from holdfast.kernel.text import first_names, plural

_MOST_ROWS: Final = 20
_MOST_NAMES: Final = 5


class RolloutCommand:
    def __init__(self, invocation: Invocation, address: str | None, name: str) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._fleet = open_fleet(invocation, address)
        self._name = name
        self._option = self._fleet.client.login.option
        self._waves: list[Wave] = []

    def run(self, waves: Waves, most_failures: int, seconds: float, reason: str, *, yes: bool) -> Exit:
        blueprint = self._fleet.blueprint(self._name)
        plan = plan_rollout(blueprint, self._fleet.devices(blueprint=self._name), waves)
        self._show_plan(plan)
        if not plan.pending:
            return self._answer(plan)
        question = f"Update {plural(len(plan.pending), 'device')} to {self._version(plan)}?"
        if not confirm_at_once(self._console, question, yes=yes):
            self._console.say(" Nothing was changed.")
            return Exit.FAILED
        rollout = Rollout(self._fleet, blueprint, seconds=seconds, reason=reason or self._reason(plan))
        try:
            self._run_waves(rollout, plan, most_failures)
        except KeyboardInterrupt:
            again = on_server(f"Continue: holdfast blueprints rollout {self._name} --server", self._option)
            message = "interrupted; events that were submitted go on"
            raise Failed("HF-EVENT-16", message, hint=again) from None
        return self._answer(plan)

    def _run_waves(self, rollout: Rollout, plan: RolloutPlan, most_failures: int) -> None:
        for number, devices in enumerate(plan.waves, start=1):
            self._console.say(f" Wave {number} of {len(plan.waves)}: {plural(len(devices), 'device')}")
            failed = sum(wave.failures for wave in self._waves)
            wave = rollout.run(devices, most_failures=most_failures - failed, tell=self._tell)
            self._waves.append(wave)
            if not self._invocation.as_json:
                self._show_wave(wave)
            if failed + wave.failures > most_failures or wave.waiting:
                return

    def _tell(self, result: DeviceResult) -> None:
        """Only what a person must know before the end of the wave."""
        if result.failed and self._console.live:
            self._console.say(f"   {result.resource_id}: {result.status}")

    def _show_plan(self, plan: RolloutPlan) -> None:
        sizes = ", ".join(str(len(wave)) for wave in plan.waves)
        waves = f": {plural(len(plan.waves), 'wave')} of {sizes}" if plan.waves else ""
        self._console.say(
            f" {self._version(plan)}: {plan.done} of {plural(plan.total, 'device')}"
            f" {'has' if plan.done == 1 else 'have'} it{waves}"
        )
        if plan.skipped:
            names = first_names([device["resource_id"] for device in plan.skipped], _MOST_NAMES)
            incomplete = plural(len(plan.skipped), "incomplete device")
            self._console.warn(f"{incomplete} left out, because an event failed: {names}")

    def _show_wave(self, wave: Wave) -> None:
        results = sorted(wave.results, key=lambda result: result.resource_id)
        shown = (
            results
            if len(results) <= _MOST_ROWS
            else [each for each in results if each.status != "succeeded"]
        )
        show_rows(
            self._console,
            [
                (" ", each.resource_id, f"from {each.before or 'no version'}", each.status, each.event or "")
                for each in shown[:_MOST_ROWS]
            ],
        )
        for each in shown[:_MOST_ROWS]:
            if each.error is not None and each.failed:
                self._console.line(f"   {each.resource_id}:")
                show_error(self._console, each.error, self._option, indent="     ")
        done = sum(each.status == "succeeded" for each in results)
        self._console.line(f"   {done} of {plural(len(results) + wave.left, 'device')} updated")

    def _answer(self, plan: RolloutPlan) -> Exit:
        results = [result for wave in self._waves for result in wave.results]
        done = sum(result.status == "succeeded" for result in results)
        gone = sum(result.status == "gone" for result in results)
        left = len(plan.pending) - done - gone
        exit_code = most_severe([wave.exit for wave in self._waves])
        document = {
            "version": 1,
            "blueprint": plan.blueprint["name"],
            "blueprint_version": plan.blueprint["version"],
            "digest": plan.blueprint["digest"],
            "devices": plan.total - gone,
            "updated": done,
            "left": left,
            "skipped": [device["resource_id"] for device in plan.skipped],
            "waves": [{"devices": _documents(wave.results), "left": wave.left} for wave in self._waves],
        }
        lines = [f" {line}" for line in self._summary(plan, results, left)]
        return self._invocation.answer(document, *lines, exit_code=exit_code)

    def _summary(self, plan: RolloutPlan, results: Sequence[DeviceResult], left: int) -> list[str]:
        if not left:
            every = plural(plan.total, "device")
            return [f"{every} {'has' if plan.total == 1 else 'have'} {self._version(plan)}"]
        lines = [f"Stopped: {plural(left, 'device')} left to update"]
        if any(result.exit is Exit.WAITING for result in results):
            lines.append(f"Approve: holdfast events list --blueprint {self._name} --status waiting")
        if any(result.failed for result in results):
            lines.append(f"What failed: holdfast events list --blueprint {self._name} --dead-letters")
        lines.append(f"Then continue: holdfast blueprints rollout {self._name} --server")
        return [on_server(line, self._option) for line in lines]

    def _version(self, plan: RolloutPlan) -> str:
        return f"{self._name} {plan.blueprint['version']}"

    def _reason(self, plan: RolloutPlan) -> str:
        return f"rollout of {self._version(plan)}"


def _documents(results: Sequence[DeviceResult]) -> list[Mapping[str, Any]]:
    return [to_builtins(result) for result in results]
