"""A plan as `show -json` prints it, decoded once: every change, its kind and its reason, and the counts.

An unknown format version is an error; unknown fields are skipped. An unknown action or reason is kept as text
and counts as not understood: it is shown, and the guard refuses it. Attribute values stay undecoded until
`plan.values` is asked for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.errors import EngineError
from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.addresses import Path, key_text, path_text
from holdfast.terraform.plan.actions import REASONS, VERBS, ChangeKind, because, change_kind
from holdfast.terraform.plan.configuration import FALSE, NULL, Configuration, PriorState, Variable

KNOWN_FORMATS: tuple[str, ...] = ("1.0", "1.1", "1.2")
_MODES = frozenset({"managed", "data"})
_REPLACEMENTS = frozenset({ChangeKind.DELETE_THEN_CREATE, ChangeKind.CREATE_THEN_DELETE})


class Import(msgspec.Struct, frozen=True, gc=False):
    """How an existing resource is named to be imported: by id, or by identity."""

    id: str | None = None
    identity: Any = None
    unknown: bool = False

    def __str__(self) -> str:
        identity = None if self.identity is None else msgspec.json.encode(self.identity).decode()
        return self.id or identity or "(known after apply)"


class Change(MaskedStruct, frozen=True, gc=False):
    """A resource before and after. The masks are `true`, or follow the shape of the value."""

    actions: tuple[str, ...] = ()
    before: msgspec.Raw = NULL
    after: msgspec.Raw = NULL
    after_unknown: msgspec.Raw = FALSE
    before_sensitive: msgspec.Raw = FALSE
    after_sensitive: msgspec.Raw = FALSE
    replace_paths: list[Any] | None = None
    importing: Import | None = None


class ResourceChange(MaskedStruct, frozen=True, gc=False):
    address: str
    change: Change
    mode: str = ""
    type: str = ""
    name: str = ""
    provider: str = msgspec.field(name="provider_name", default="")
    module: str | None = msgspec.field(name="module_address", default=None)
    index: int | str | None = None
    deposed: str | None = None
    """The key of an old instance of this address that a replacement left behind."""
    previous_address: str | None = None
    reason: str | None = msgspec.field(name="action_reason", default=None)
    """Terraform's `action_reason`, as text."""

    @property
    def actions(self) -> tuple[str, ...]:
        """As Terraform writes them."""
        return self.change.actions

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.change.actions)

    @property
    def importing(self) -> Import | None:
        return self.change.importing

    @property
    def replace_paths(self) -> tuple[Path, ...]:
        return tuple(
            tuple(step if isinstance(step, str | int) else str(step) for step in path)
            for path in self.change.replace_paths or ()
            if isinstance(path, list)
        )

    @property
    def understood(self) -> bool:
        """False when this version does not know something in it: the guard then refuses the plan."""
        return (
            self.kind is not ChangeKind.UNKNOWN
            and self.mode in _MODES
            and (self.reason is None or self.reason in REASONS)
        )

    @property
    def moved(self) -> bool:
        return self.previous_address is not None and self.previous_address != self.address

    @property
    def replaces(self) -> bool:
        return self.kind in _REPLACEMENTS

    @property
    def destroys(self) -> bool:
        """Whether an existing resource is destroyed: a delete or a replacement, known kind or not."""
        return "delete" in self.actions

    @property
    def loses(self) -> bool:
        """Whether an existing resource is destroyed or forgotten, known kind or not."""
        return "delete" in self.actions or "forget" in self.actions

    @property
    def has_effect(self) -> bool:
        """Terraform's own rule: an action, a move or an import."""
        return self.kind is not ChangeKind.NO_OP or self.moved or self.importing is not None

    @property
    def explanation(self) -> str:
        """A sentence without its subject: `replaced because `name` changes`."""
        doing = VERBS.get(self.kind) or (
            f"changed in a way that this version of Holdfast does not support ({', '.join(self.actions)})"
        )
        if self.reason is not None:
            paths = tuple(map(path_text, self.replace_paths))
            doing += f" because {because(self.reason, paths, key_text(self.index))}"
        also = [f"moved from {self.previous_address}"] if self.moved else []
        also += [f"imported from {self.importing}"] if self.importing is not None else []
        if self.deposed is not None:
            also.append(f"left over from an earlier replacement ({self.deposed})")
        return ", ".join(also if also and self.kind is ChangeKind.NO_OP else [doing, *also])


class PlanEffect(NamedTuple):
    change: ResourceChange
    explanation: str
    state_only: bool = False
    """Only the state is written: the resource itself was changed or deleted by someone else."""


def _state_update_text(change: ResourceChange) -> str:
    if "delete" in change.actions:
        return "removed from the state because it was not found"
    return "updated in the state"


class OutputChange(MaskedStruct, frozen=True, kw_only=True):
    name: str
    change: Change

    @property
    def actions(self) -> tuple[str, ...]:
        return self.change.actions

    @property
    def kind(self) -> ChangeKind:
        return change_kind(self.change.actions)

    @property
    def removed(self) -> bool:
        return "delete" in self.change.actions


class DeferredChange(msgspec.Struct, frozen=True, gc=False):
    """A change that Terraform postpones to a later plan, and why."""

    change: ResourceChange = msgspec.field(name="resource_change")
    reason: str = ""


class _Trigger(msgspec.Struct, frozen=True, gc=False):
    triggering_resource_address: str | None = None
    action_trigger_event: str | None = None


InvocationKey = tuple[str, str | None, str | None, str | None]


class ActionInvocation(MaskedStruct, frozen=True, gc=False):
    """A provider's action with effects of its own, which is not a change of any resource."""

    address: str
    type: str = ""
    name: str = ""
    provider: str = msgspec.field(name="provider_name", default="")
    config_values: msgspec.Raw = NULL
    config_sensitive: msgspec.Raw = FALSE
    config_unknown: msgspec.Raw = FALSE
    trigger: _Trigger | None = msgspec.field(name="lifecycle_action_trigger", default=None)
    deferred: str | None = None
    """The reason why it is postponed, if it is."""

    @property
    def triggered_by(self) -> str | None:
        """The resource whose change triggers it; None when it was invoked directly."""
        return self.trigger.triggering_resource_address if self.trigger is not None else None

    @property
    def event(self) -> str | None:
        return self.trigger.action_trigger_event if self.trigger is not None else None

    @property
    def key(self) -> InvocationKey:
        """Equal for two invocations of the same action for the same reason."""
        return self.address, self.triggered_by, self.event, self.deferred


class _DeferredInvocation(msgspec.Struct, frozen=True, gc=False):
    action_invocation: ActionInvocation
    reason: str = ""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """A replacement counts once; imports and moves count in addition to the action."""

    create: int = 0
    update: int = 0
    replace: int = 0
    delete: int = 0
    forget: int = 0
    import_: int = msgspec.field(name="import", default=0)
    move: int = 0
    read: int = 0

    def document(self) -> dict[str, int]:
        counts: dict[str, int] = msgspec.to_builtins(self)
        return counts


class Plan(MaskedStruct, frozen=True, dict=True):
    """The document as Terraform writes it. A field that is null is an error: it might not mean "none"."""

    format_version: str | None = None
    terraform_version: str = ""
    """The version of the engine that made it; OpenTofu writes its own number here."""
    changes: tuple[ResourceChange, ...] = msgspec.field(name="resource_changes", default=())
    drift: tuple[ResourceChange, ...] = msgspec.field(name="resource_drift", default=())
    output_changes: dict[str, Change] = msgspec.field(default_factory=dict)
    deferred: tuple[DeferredChange, ...] = msgspec.field(name="deferred_changes", default=())
    invoked: tuple[ActionInvocation, ...] = msgspec.field(name="action_invocations", default=())
    deferred_action_invocations: tuple[_DeferredInvocation, ...] = ()
    prior_state: PriorState = PriorState()
    variables: dict[str, Variable] = msgspec.field(default_factory=dict)
    configuration: Configuration = Configuration()
    errored: bool = False
    applyable: bool | None = None
    """None where the engine does not say: OpenTofu, and Terraform before 1.8."""
    complete: bool | None = None
    """False after `-target` or with deferred changes; None where the engine does not say."""

    @cached_property
    def outputs(self) -> tuple[OutputChange, ...]:
        return tuple(OutputChange(name=name, change=change) for name, change in self.output_changes.items())

    @cached_property
    def action_invocations(self) -> tuple[ActionInvocation, ...]:
        """With those that Terraform postpones."""
        deferred = (
            msgspec.structs.replace(postponed.action_invocation, deferred=postponed.reason)
            for postponed in self.deferred_action_invocations
        )
        return (*self.invoked, *deferred)

    @cached_property
    def prior_resources(self) -> int:
        """How many managed resources the state holds before apply, refreshed, imported ones included."""
        return sum(resource.mode == "managed" for resource in self.prior_state.resources())

    @cached_property
    def missing(self) -> tuple[ResourceChange, ...]:
        """Resources in the state that the refresh did not find: an apply removes them from the state."""
        return tuple(change for change in self.drift if "delete" in change.actions)

    @property
    def state_updates(self) -> tuple[ResourceChange, ...]:
        """What a refresh-only plan writes to the state. Any other plan lists every resource as a change."""
        return self.drift if not self.changes else ()

    @property
    def effects(self) -> tuple[PlanEffect, ...]:
        """What an apply does to resources or, with a refresh-only plan, to the state."""
        updates = self.state_updates if self.has_changes else ()
        return (
            *(PlanEffect(change, change.explanation) for change in self.changes if change.has_effect),
            *(PlanEffect(change, _state_update_text(change), state_only=True) for change in updates),
        )

    @cached_property
    def provisioners(self) -> Mapping[str, tuple[str, ...]]:
        """By address without instance keys: the types of provisioners in the configuration."""
        return {
            f"{prefix}{resource.address}": tuple(dict.fromkeys(item.type for item in resource.provisioners))
            for prefix, module in self.configuration.modules()
            for resource in module.resources or ()
            if resource.provisioners
        }

    @property
    def understood(self) -> bool:
        """Every action and reason of every change and output is known to this version."""
        return (
            all(change.understood for change in self.changes)
            and all(change.understood for change in self.drift)
            and all(deferred.change.understood for deferred in self.deferred)
            and all(output.kind is not ChangeKind.UNKNOWN for output in self.outputs)
        )

    @property
    def has_changes(self) -> bool:
        """Whether applying it would do anything, including an update of the state alone.

        OpenTofu does not say whether a plan can be applied. A refresh-only plan has drift and no planned
        resource, so that counts as a change there.
        """
        if (
            self.applyable
            or any(change.has_effect for change in self.changes)
            or any(output.kind is not ChangeKind.NO_OP for output in self.outputs)
            or any(invocation.deferred is None for invocation in self.action_invocations)
        ):
            return True
        return self.applyable is None and bool(self.state_updates)

    @cached_property
    def counts(self) -> Counts:
        return count(self.changes)


def count(changes: Iterable[ResourceChange]) -> Counts:
    """Of an unknown list of actions, each known action is counted."""
    counter: Counter[str] = Counter()
    for change in changes:
        counter.update(("replace",) if change.replaces else change.actions)
        counter["move"] += change.moved
        counter["import_"] += change.importing is not None
    return Counts(**{name: counter[name] for name in Counts.__struct_fields__})


class _FormatOnly(msgspec.Struct, frozen=True, gc=False):
    format_version: str | None = None


_PLAN = msgspec.json.Decoder(Plan)
_FORMAT = msgspec.json.Decoder(_FormatOnly)


def read_plan(data: bytes) -> Plan:
    """Read `show -json` of a saved plan. The plan keeps `data` alive and does not copy it."""
    try:
        plan = _PLAN.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _require_known_format(_format_of(data))
        # The reason names a place in the document and a type, never a value.
        raise EngineError(
            "HF-PLAN-2",
            f"Holdfast cannot read the plan's JSON: {error}",
            hint="This is a bug of the engine or of Holdfast. Nothing was changed.",
        ) from None
    _require_known_format(plan.format_version)
    return plan


def _format_of(data: bytes) -> str | None:
    try:
        return _FORMAT.decode(data).format_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return KNOWN_FORMATS[-1]


def _require_known_format(version: str | None) -> None:
    if version not in KNOWN_FORMATS:
        raise EngineError(
            "HF-PLAN-1",
            f"the plan has format {version or '(none)'}, which this version of Holdfast does not support",
            hint=f"Supported: {', '.join(KNOWN_FORMATS)}. Upgrade Holdfast or use another engine version.",
        )
