"""Checks the gates of a target in parallel: which ones, in which environments, with which values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.gates import FACTS, OUTPUTS, Gate
from holdfast.config.problems import did_you_mean
from holdfast.config.secret_refs import SecretRef
from holdfast.config.settings import Target
from holdfast.deploy.cluster import open_cluster, opened_once
from holdfast.deploy.outputs import TargetOutputs, outputs_by_environment
from holdfast.gates.attempts import Unchecked
from holdfast.gates.catalogue import KINDS
from holdfast.gates.check import Follow, GateToCheck, RealTimer, Timer, check_gate
from holdfast.gates.interface import Tools, no_cluster
from holdfast.gates.result import GateResult, Verdict, redacted
from holdfast.gates.values import GateValues, MissingValue, NoOutput, filled, names_in
from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import Secret
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.plans.context import ChangeContext
from holdfast.plans.status import Status
from holdfast.runs.run import VERIFY, Run, new_run, write_run
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.environment import child_environment

_EVERYWHERE = ("environment", FACTS, OUTPUTS, "values.")
"""What is different from environment to environment."""


class ChosenGate(Struct, frozen=True, kw_only=True):
    gate: Gate
    environment: str | None


class Verification(Struct, frozen=True, kw_only=True):
    run: str
    target: str
    results: tuple[GateResult, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict is verdict for result in self.results)

    @property
    def passed(self) -> bool:
        """Everything was checked, and passed."""
        return bool(self.results) and self.count(Verdict.PASSED) == len(self.results)

    def document(self) -> dict[str, object]:
        return {
            "version": 1,
            "target": self.target,
            "run": self.run,
            "passed": self.passed,
            "gates": [result.document() for result in self.results],
            "summary": {verdict.value: self.count(verdict) for verdict in Verdict},
        }


def choose_gates(
    target: Target,
    environments: Sequence[str],
    *,
    names: Sequence[str] = (),
    only: str | None = None,
) -> tuple[ChosenGate, ...]:
    """Which gates are checked, in which environments. Never none: that would look like success. Pure."""
    if not target.gates:
        raise UsageError(
            "HF-GATE-1",
            f"the target {target.name} has no gates",
            hint=f"Add some to holdfast.yaml, below `targets.{target.name}.gates`: docs/gates.md.",
        )
    known = [gate.name for gate in target.gates]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"Its gates are {', '.join(known)}."
            raise UsageError("HF-GATE-2", f"the target {target.name} has no gate {name}", hint=hint)
    if only is not None and only not in environments:
        hint = (
            did_you_mean(only, environments) or f"Its environments are {', '.join(environments) or 'none'}."
        )
        raise UsageError("HF-GATE-3", f"the target {target.name} has no stacks in {only}", hint=hint)
    for gate in target.gates:
        for name in gate.environments:
            if name not in environments:
                hint = (
                    did_you_mean(name, environments)
                    or f"Its environments are {', '.join(environments) or 'none'}."
                )
                message = (
                    f"the gate {gate.name} is for {name}, in which the target {target.name} has no stacks"
                )
                raise UsageError("HF-GATE-3", message, hint=hint)
    chosen = [
        ChosenGate(gate=gate, environment=environment)
        for gate in target.gates
        if not names or gate.name in names
        for environment in _environments(target, gate, environments)
        if only is None or environment in {None, only}
    ]
    if not chosen:
        raise UsageError(
            "HF-GATE-4",
            f"no gate of {target.name} is left to check{f' in {only}' if only else ''}",
            hint="Check `environments` of its gates: they must be environments of its stacks.",
        )
    return tuple(chosen)


def _names(target: Target, gate: Gate) -> frozenset[str]:
    """The placeholders of a gate, those of its cluster included."""
    own = names_in(gate.settings)
    return own | names_in(target.kubernetes) if gate.asks_cluster else own


def _environments(target: Target, gate: Gate, environments: Sequence[str]) -> Sequence[str | None]:
    if gate.environments:
        return [name for name in environments if name in gate.environments]
    return in_environments(_names(target, gate), environments)


def in_environments(names: Iterable[str], environments: Sequence[str]) -> Sequence[str | None]:
    """Each environment, if the placeholders can differ between them; otherwise once. Pure."""
    by_environment = any(name.startswith(_EVERYWHERE) for name in names)
    return (environments or (None,)) if by_environment else (None,)


def environments_of(stacks: Iterable[Stack], target: Target) -> tuple[str, ...]:
    """Those of its stacks, and those that it has facts of."""
    own = {
        stack.environment for stack in stacks if stack.target is not None and stack.target.name == target.name
    }
    listed = target.facts.environments if target.facts is not None else ()
    return tuple(sorted({name for name in (*own, *listed) if name is not None}))


async def verify_target(
    context: ChangeContext,
    target: Target,
    chosen: Sequence[ChosenGate],
    *,
    timer: Timer | None = None,
    follow: Follow | None = None,
    decided: Callable[[GateResult], None] = lambda _: None,
    part_of: str | None = None,
) -> Verification:
    """Check the gates in parallel, and store what was observed as a run, unless it is `part_of` another."""
    run = new_run(None, VERIFY, context.identity, run=part_of, target=target.name)
    timer = timer or RealTimer()
    to_check = await prepare_gates(context, target, chosen)

    async def check(gate: GateToCheck) -> GateResult:
        result = await check_gate(gate, timer=timer, stop=context.control.stop, follow=follow)
        result = redacted(result, context.redactor.clean)
        decided(result)
        return result

    results = tuple(await asyncio.gather(*map(check, to_check)))
    verification = Verification(run=run.id, target=target.name, results=results)
    if part_of is None:
        write_run(context.store, finished_run(run, verification))
    return verification


def finished_run(run: Run, verification: Verification) -> Run:
    """The gates change nothing: a run whose gates all passed is `unchanged`."""
    run = replace(run.to(Status.PLANNING), gates=verification.results)
    return run.to(Status.UNCHANGED if verification.passed else Status.FAILED)


def gate_alerts(verification: Verification, now: datetime) -> tuple[Alert, ...]:
    """Raised for each gate that did not pass, resolved by one that did."""
    return tuple(_alert(verification, result, now) for result in verification.results)


def _alert(verification: Verification, result: GateResult, now: datetime) -> Alert:
    target = verification.target
    where = f" in {result.environment}" if result.environment else ""
    return Alert(
        kind=AlertKind.GATE_FAILED,
        key=f"gate:{target}/{result.environment or ''}/{result.name}",
        resolved=result.verdict is Verdict.PASSED,
        severity=Severity.ERROR,
        title=f"{target}: the gate {result.name} {_WHAT[result.verdict]}{where}",
        details=(result.reason,),
        next_step=f"holdfast verify {target} --gate {result.name}",
        since=now,
        environment=result.environment,
        target=target,
        run=verification.run,
    )


_WHAT = {Verdict.PASSED: "passed", Verdict.FAILED: "failed", Verdict.UNCHECKED: "could not be checked"}


async def prepare_gates(
    context: ChangeContext, target: Target, chosen: Sequence[ChosenGate]
) -> tuple[GateToCheck, ...]:
    """With their values filled in. One whose values are not known stays, and is reported as unchecked."""
    names = {name for one in chosen for name in _names(target, one.gate)}
    values = await values_by_environment(context, target, {one.environment for one in chosen}, names)
    tools = {environment: _tools(context, target, known) for environment, known in values.items()}
    return tuple(_prepared(target, one, values[one.environment], tools[one.environment]) for one in chosen)


async def values_by_environment(
    context: ChangeContext, target: Target, environments: Iterable[str | None], names: Iterable[str]
) -> Mapping[str | None, GateValues]:
    """Outputs are read only if one of the placeholders needs them."""
    wanted = tuple(environments)
    reads = any(name.startswith((FACTS, OUTPUTS)) for name in names)
    outputs = await outputs_by_environment(context, target, wanted) if reads else {}
    return {
        environment: GateValues(
            target=target.name,
            environment=environment,
            outputs=outputs.get(environment, TargetOutputs()).for_output,
            facts=outputs.get(environment, TargetOutputs()).for_fact,
            values=context.project.config.shared.values_of(environment),
        )
        for environment in wanted
    }


def _prepared(target: Target, chosen: ChosenGate, values: GateValues, tools: Tools) -> GateToCheck:
    gate, environment = chosen.gate, chosen.environment
    try:
        settings = filled(gate.settings, values.text_of)
    except MissingValue as missing:
        step = (
            f"Apply its stacks: holdfast apply target:{target.name}"
            if isinstance(missing, NoOutput)
            else None
        )
        return GateToCheck(
            gate=gate, environment=environment, unchecked=Unchecked(reason=str(missing), next_step=step)
        )
    return GateToCheck(gate=gate, environment=environment, probe=KINDS[gate.kind](settings, tools))


def _tools(context: ChangeContext, target: Target, values: GateValues) -> Tools:
    environment, cluster = values.environment, no_cluster
    if (settings := target.kubernetes) is not None:
        cluster = opened_once(lambda: open_cluster(context, settings, values))

    def read_secret(reference: SecretRef) -> Secret:
        secret = context.secrets.read(reference)
        context.redactor.register(secret)
        return secret

    variables = child_environment(
        caller=context.project.environment.variables,
        named={"TARGET_NAME": target.name, **({"ENVIRONMENT_NAME": environment} if environment else {})},
        credentials=None,
        scratch=str(context.engines.scratch),
    )
    return Tools(
        environment=context.project.environment,
        root=context.project.root,
        read_secret=read_secret,
        confinement=lambda: context.engines.confinement.rules_for_program(None),
        variables=variables,
        stop=context.control.stop,
        cluster=cluster,
    )
