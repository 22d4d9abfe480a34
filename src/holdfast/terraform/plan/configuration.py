"""The parts of `show -json` beside the changes that Holdfast reads: prior state and configuration.

Values stay `Raw`: slices of the buffer that was read, decoded only on demand. That keeps a plan of 100 MB
near its own size in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.kernel.values import MaskedStruct

NULL = msgspec.Raw(b"null")
FALSE = msgspec.Raw(b"false")
_ABSENT = msgspec.Raw()


class PriorResource(MaskedStruct, frozen=True, gc=False):
    address: str = ""
    mode: str = ""
    type: str = ""
    values: msgspec.Raw = NULL
    sensitive_values: msgspec.Raw = FALSE


class PriorModule(msgspec.Struct, frozen=True, gc=False):
    resources: list[PriorResource] | None = None
    child_modules: list[PriorModule] | None = None


class PriorOutput(MaskedStruct, frozen=True, gc=False):
    value: msgspec.Raw = NULL
    sensitive: bool = False


class PriorValues(msgspec.Struct, frozen=True, gc=False):
    root_module: PriorModule | None = None
    outputs: dict[str, PriorOutput] | None = None


class PriorState(msgspec.Struct, frozen=True, gc=False):
    values: PriorValues | None = None

    def resources(self) -> Iterator[PriorResource]:
        modules = [self.values.root_module] if self.values is not None and self.values.root_module else []
        while modules:
            module = modules.pop()
            yield from module.resources or ()
            modules.extend(module.child_modules or ())

    def outputs(self) -> Iterator[PriorOutput]:
        if self.values is not None:
            yield from (self.values.outputs or {}).values()


class Variable(MaskedStruct, frozen=True, gc=False):
    value: msgspec.Raw = NULL


class ConfigVariable(MaskedStruct, frozen=True, gc=False):
    default: msgspec.Raw = NULL
    sensitive: bool = False


class ModuleCall(MaskedStruct, frozen=True, gc=False):
    expressions: dict[str, msgspec.Raw] | None = None
    module: ConfigModule | None = None


class ConfigProvisioner(msgspec.Struct, frozen=True, gc=False):
    """The plan does not say whether it runs on create or on destroy."""

    type: str = ""
    expressions: msgspec.Raw = NULL
    """Without those of `connection` blocks, which no plan has."""


class ConfigResource(msgspec.Struct, frozen=True, gc=False):
    address: str = ""
    """Inside its module, without instance keys."""
    expressions: msgspec.Raw = NULL
    provisioners: list[ConfigProvisioner] | None = None


class ConfigModule(msgspec.Struct, frozen=True, gc=False):
    resources: list[ConfigResource] | None = None
    variables: dict[str, ConfigVariable] | None = None
    outputs: dict[str, msgspec.Raw] | None = None
    module_calls: dict[str, ModuleCall] | None = None


class ProviderConfig(MaskedStruct, frozen=True, gc=False):
    name: str = ""
    full_name: str = ""
    module_address: str = ""
    """Without instance keys; empty for the root module."""
    expressions: msgspec.Raw = _ABSENT

    @property
    def type(self) -> str:
        """The last part of its source: the prefix of its resource types."""
        return self.full_name.rpartition("/")[2] or self.name

    @property
    def configured(self) -> bool:
        """It has a provider block with arguments; otherwise the calling module passes it."""
        return self.expressions is not _ABSENT


class Configuration(msgspec.Struct, frozen=True, gc=False):
    root_module: ConfigModule | None = None
    provider_config: dict[str, ProviderConfig] | None = None

    def modules(self) -> Iterator[tuple[str, ConfigModule]]:
        """Each module with the prefix of its addresses: empty for the root module, else `module.a.`."""
        modules = [("", self.root_module)] if self.root_module is not None else []
        while modules:
            prefix, module = modules.pop()
            yield prefix, module
            for name, call in (module.module_calls or {}).items():
                if call.module is not None:
                    modules.append((f"{prefix}module.{name}.", call.module))

    def addresses(self) -> Iterator[str]:
        """Of every resource, without instance keys."""
        for prefix, module in self.modules():
            yield from (f"{prefix}{resource.address}" for resource in module.resources or ())
