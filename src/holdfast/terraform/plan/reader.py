"""Reads `show -json` of a plan of Terraform or OpenTofu: exactly, or not at all.

A format version that is not known here is an error. Fields that are not known are stepped over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.kernel.errors import EngineError
from holdfast.terraform.plan import wire
from holdfast.terraform.plan.model import (
    ActionInvocation,
    Check,
    DeferredChange,
    Import,
    OutputChange,
    Plan,
    ResourceChange,
    change_kind,
)

KNOWN_FORMATS: tuple[str, ...] = ("1.0", "1.1", "1.2")


def read_plan(data: bytes) -> Plan:
    """Read `show -json` of a saved plan. `data` is kept alive by the answer, and not copied."""
    try:
        document = wire.PLAN.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _require_known_format(_format_of(data))
        # The reason names a place in the document and a type, never a value.
        raise EngineError(
            "HF-PLAN-2",
            f"the plan's JSON cannot be read: {error}",
            hint="This is a fault of the engine or of Holdfast; nothing was changed.",
        ) from None
    return _plan(document, _require_known_format(document.format_version))


def _plan(document: wire.Plan, format_version: str) -> Plan:
    return Plan(
        terraform_version=document.terraform_version,
        format_version=format_version,
        changes=tuple(_resource(change) for change in document.resource_changes or ()),
        drift=tuple(_resource(change) for change in document.resource_drift or ()),
        outputs=tuple(
            OutputChange(name=name, actions=change.actions, kind=change_kind(change.actions), change=change)
            for name, change in (document.output_changes or {}).items()
        ),
        deferred=tuple(
            DeferredChange(change=_resource(deferred.resource_change), reason=deferred.reason)
            for deferred in document.deferred_changes or ()
        ),
        action_invocations=(
            *(_invocation(action, None) for action in document.action_invocations or ()),
            *(
                _invocation(deferred.action_invocation, deferred.reason)
                for deferred in document.deferred_action_invocations or ()
            ),
        ),
        checks=tuple(_check(check) for check in document.checks or ()),
        errored=document.errored,
        applyable=document.applyable,
        complete=document.complete,
        prior_resources=sum(resource.mode == "managed" for resource in prior_resources(document)),
        provisioners=dict(_provisioners(document)),
        document=document,
    )


def prior_resources(document: wire.Plan) -> Iterable[wire.StateResource]:
    values = document.prior_state.values if document.prior_state is not None else None
    modules = [values.root_module] if values is not None and values.root_module is not None else []
    while modules:
        module = modules.pop()
        yield from module.resources or ()
        modules.extend(module.child_modules or ())


def _provisioners(document: wire.Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each resource of the configuration that has any, modules included."""
    root = document.configuration.root_module if document.configuration is not None else None
    modules = [("", root)] if root is not None else []
    while modules:
        prefix, module = modules.pop()
        for resource in module.resources or ():
            if resource.provisioners:
                kinds = dict.fromkeys(one.type for one in resource.provisioners)
                yield f"{prefix}{resource.address}", tuple(kinds)
        for name, call in (module.module_calls or {}).items():
            if call.module is not None:
                modules.append((f"{prefix}module.{name}.", call.module))


def _resource(found: wire.ResourceChange) -> ResourceChange:
    change = found.change
    return ResourceChange(
        address=found.address,
        module=found.module_address,
        mode=found.mode,
        type=found.type,
        name=found.name,
        index=found.index,
        provider=found.provider_name,
        deposed=found.deposed,
        actions=change.actions,
        kind=change_kind(change.actions),
        reason=found.action_reason,
        previous_address=found.previous_address,
        importing=_import(change.importing) if change.importing is not None else None,
        replace_paths=tuple(
            tuple(step if isinstance(step, str | int) else str(step) for step in path)
            for path in change.replace_paths or ()
            if isinstance(path, list)
        ),
        generated_config=change.generated_config,
        change=change,
    )


def _import(found: wire.Importing) -> Import:
    identity = None if found.identity is None else msgspec.json.encode(found.identity).decode()
    return Import(id=found.id, identity=identity, unknown=found.unknown)


def _invocation(found: wire.ActionInvocation, deferred: str | None) -> ActionInvocation:
    trigger = found.lifecycle_action_trigger or wire.LifecycleTrigger()
    return ActionInvocation(
        address=found.address,
        type=found.type,
        name=found.name,
        provider=found.provider_name,
        triggered_by=trigger.triggering_resource_address,
        event=trigger.action_trigger_event,
        deferred=deferred,
    )


def _check(found: wire.Check) -> Check:
    problems = (problem.message for instance in found.instances or () for problem in instance.problems or ())
    return Check(
        address=found.address.to_display,
        kind=found.address.kind,
        status=found.status,
        problems=tuple(problems),
    )


def _format_of(data: bytes) -> str | None:
    try:
        return wire.FORMAT.decode(data).format_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return KNOWN_FORMATS[-1]


def _require_known_format(version: str | None) -> str:
    if version in KNOWN_FORMATS:
        return version
    raise EngineError(
        "HF-PLAN-1",
        f"the plan is written in format {version or '(none)'}, which this version of Holdfast does not know",
        hint=f"Known formats: {', '.join(KNOWN_FORMATS)}. Use a newer Holdfast, or an engine that it knows.",
    )
