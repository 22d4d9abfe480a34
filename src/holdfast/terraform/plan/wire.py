"""The shape of `show -json` of a plan, as far as Holdfast reads it. Unknown fields are stepped over.

Values of resources stay `Raw`: slices of the one buffer that was read, parsed only when somebody asks for
one. That is what keeps a plan of 100 MB near its own size in memory.
"""

from __future__ import annotations

from typing import Any

import msgspec

NULL = msgspec.Raw(b"null")
FALSE = msgspec.Raw(b"false")


class Importing(msgspec.Struct, frozen=True, gc=False):
    id: str | None = None
    identity: Any = None
    unknown: bool = False


class Change(msgspec.Struct, frozen=True, gc=False):
    """What an object is and becomes. The masks are `true`, or follow the shape of the value."""

    actions: tuple[str, ...] = ()
    before: msgspec.Raw = NULL
    after: msgspec.Raw = NULL
    after_unknown: msgspec.Raw = FALSE
    before_sensitive: msgspec.Raw = FALSE
    after_sensitive: msgspec.Raw = FALSE
    replace_paths: list[Any] | None = None
    importing: Importing | None = None
    generated_config: str | None = None

    def __repr__(self) -> str:
        return f"Change(actions={self.actions!r}, …)"


class ResourceChange(msgspec.Struct, frozen=True, gc=False):
    address: str
    change: Change
    mode: str = ""
    type: str = ""
    name: str = ""
    provider_name: str = ""
    module_address: str | None = None
    index: int | str | None = None
    deposed: str | None = None
    previous_address: str | None = None
    action_reason: str | None = None


class DeferredChange(msgspec.Struct, frozen=True, gc=False):
    resource_change: ResourceChange
    reason: str = ""


class LifecycleTrigger(msgspec.Struct, frozen=True, gc=False):
    triggering_resource_address: str | None = None
    action_trigger_event: str | None = None


class ActionInvocation(msgspec.Struct, frozen=True, gc=False):
    address: str
    type: str = ""
    name: str = ""
    provider_name: str = ""
    config_values: msgspec.Raw = NULL
    config_sensitive: msgspec.Raw = FALSE
    lifecycle_action_trigger: LifecycleTrigger | None = None

    def __repr__(self) -> str:
        return f"ActionInvocation(address={self.address!r}, …)"


class DeferredActionInvocation(msgspec.Struct, frozen=True, gc=False):
    action_invocation: ActionInvocation
    reason: str = ""


class CheckAddress(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    to_display: str = ""


class CheckProblem(msgspec.Struct, frozen=True, gc=False):
    message: str = ""


class CheckInstance(msgspec.Struct, frozen=True, gc=False):
    problems: list[CheckProblem] | None = None


class Check(msgspec.Struct, frozen=True, gc=False):
    address: CheckAddress = CheckAddress()
    status: str = "unknown"
    instances: list[CheckInstance] | None = None


class StateResource(msgspec.Struct, frozen=True, gc=False):
    mode: str = ""
    values: msgspec.Raw = NULL
    sensitive_values: msgspec.Raw = FALSE

    def __repr__(self) -> str:
        return f"StateResource(mode={self.mode!r}, …)"


class StateModule(msgspec.Struct, frozen=True, gc=False):
    resources: list[StateResource] | None = None
    child_modules: list[StateModule] | None = None


class StateOutput(msgspec.Struct, frozen=True, gc=False):
    value: msgspec.Raw = NULL
    sensitive: bool = False

    def __repr__(self) -> str:
        return f"StateOutput(sensitive={self.sensitive!r}, …)"


class StateValues(msgspec.Struct, frozen=True, gc=False):
    root_module: StateModule | None = None
    outputs: dict[str, StateOutput] | None = None


class PriorState(msgspec.Struct, frozen=True, gc=False):
    values: StateValues | None = None


class Variable(msgspec.Struct, frozen=True, gc=False):
    value: msgspec.Raw = NULL

    def __repr__(self) -> str:
        return "Variable(…)"


class ConfigVariable(msgspec.Struct, frozen=True, gc=False):
    default: msgspec.Raw = NULL
    sensitive: bool = False

    def __repr__(self) -> str:
        return f"ConfigVariable(sensitive={self.sensitive!r}, …)"


class ModuleCall(msgspec.Struct, frozen=True, gc=False):
    expressions: dict[str, msgspec.Raw] | None = None
    module: ConfigModule | None = None

    def __repr__(self) -> str:
        return "ModuleCall(…)"


class ConfigProvisioner(msgspec.Struct, frozen=True, gc=False):
    """The plan does not say whether it runs when an object is made or when it is deleted."""

    type: str = ""


class ConfigResource(msgspec.Struct, frozen=True, gc=False):
    address: str = ""
    """Inside its module, without the keys of instances."""
    provisioners: list[ConfigProvisioner] | None = None


class ConfigModule(msgspec.Struct, frozen=True, gc=False):
    resources: list[ConfigResource] | None = None
    variables: dict[str, ConfigVariable] | None = None
    module_calls: dict[str, ModuleCall] | None = None


class Configuration(msgspec.Struct, frozen=True, gc=False):
    root_module: ConfigModule | None = None


class Plan(msgspec.Struct, frozen=True, gc=False):
    format_version: str | None = None
    terraform_version: str = ""
    resource_changes: list[ResourceChange] | None = None
    resource_drift: list[ResourceChange] | None = None
    output_changes: dict[str, Change] | None = None
    deferred_changes: list[DeferredChange] | None = None
    action_invocations: list[ActionInvocation] | None = None
    deferred_action_invocations: list[DeferredActionInvocation] | None = None
    checks: list[Check] | None = None
    prior_state: PriorState | None = None
    variables: dict[str, Variable] | None = None
    configuration: Configuration | None = None
    errored: bool = False
    applyable: bool | None = None
    complete: bool | None = None

    def __repr__(self) -> str:
        return f"Plan(format_version={self.format_version!r}, …)"


class FormatOnly(msgspec.Struct, frozen=True, gc=False):
    format_version: str | None = None


PLAN = msgspec.json.Decoder(Plan)
FORMAT = msgspec.json.Decoder(FormatOnly)
