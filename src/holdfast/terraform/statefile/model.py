"""The state file, decoded once: format 4 of Terraform and OpenTofu, or OpenTofu's encrypted envelope.

`read_state` is the only decoder; `Contents`, differences, edits and the redactor work on its result. A file
that exists and is empty or unreadable is never "no state": the local backend leaves one when it is killed
while writing. Attributes and outputs stay undecoded, and no repr shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, assert_never

import msgspec

from holdfast.kernel.values import MaskedStruct
from holdfast.terraform.addresses import resource_text

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LABELS = ("id", "name")
"""The attributes by which Terraform names a resource in its `-json` output, where they are strings."""
_VERSION = 4
_NULL = msgspec.Raw(b"null")


class StateResource(MaskedStruct, frozen=True, kw_only=True, gc=False):
    """One resource instance of the state, current or deposed."""

    address: str
    module: str | None
    mode: str
    type: str
    name: str
    index: int | str | None
    provider: str
    deposed: str | None
    tainted: bool
    attributes: msgspec.Raw
    """Unencrypted JSON."""
    sensitive_paths: Any = None
    """The paths that Terraform marks as sensitive, as the file has them."""

    def read(self) -> Any:
        """The attributes as values, sensitive or not."""
        return msgspec.json.decode(self.attributes)

    @property
    def labels(self) -> dict[str, str]:
        """Those of `LABELS` that it has. Raises a msgspec error where the attributes are not an object."""
        attributes = _LABELLED.decode(self.attributes) or _Labelled()
        return {name: text for name in LABELS if isinstance(text := getattr(attributes, name), str) and text}

    @property
    def id(self) -> str | None:
        return self.labels.get("id")

    def same_as(self, other: StateResource) -> bool:
        """Whether both record the same resource. An attribute that is null may be missing."""
        return self.tainted == other.tainted and (
            bytes(self.attributes) == bytes(other.attributes) or _without_null(self) == _without_null(other)
        )


class StateOutput(MaskedStruct, frozen=True, kw_only=True, gc=False):
    name: str
    sensitive: bool
    value: msgspec.Raw

    def read(self) -> Any:
        """The value, sensitive or not."""
        return msgspec.json.decode(self.value)


class State(msgspec.Struct, frozen=True, kw_only=True):
    lineage: str
    """Empty, with serial 0, in what Terraform leaves of a first apply whose backend did not answer at all."""
    serial: int
    terraform_version: str | None = None
    """None where the state is encrypted, like the two below."""
    resources: tuple[StateResource, ...] | None = None
    outputs: tuple[StateOutput, ...] | None = None

    @property
    def encrypted(self) -> bool:
        return self.resources is None

    @property
    def managed(self) -> int | None:
        """How many managed resources it holds, deposed ones included. None: it is encrypted."""
        if self.resources is None:
            return None
        return sum(resource.mode == "managed" for resource in self.resources)

    @property
    def outline(self) -> tuple[object, ...]:
        """Everything but attributes and output values: two backends may write those differently."""
        return (
            [
                (resource.address, resource.mode, resource.provider, resource.deposed, resource.tainted)
                for resource in self.resources or ()
            ],
            [(output.name, output.sensitive) for output in self.outputs or ()],
            self.encrypted,
        )


class EmptyState(msgspec.Struct, frozen=True):
    """The file has no bytes."""


class UnreadableState(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    """Names what is wrong, never what the file holds."""
    resources: tuple[StateResource, ...] = ()
    outputs: tuple[StateOutput, ...] = ()
    """What could be decoded all the same: the redactor must know its secrets."""


StateFile = State | EmptyState | UnreadableState


class _Labelled(msgspec.Struct, frozen=True, gc=False):
    id: Any = None
    name: Any = None


class _Instance(msgspec.Struct, frozen=True, gc=False):
    index_key: int | str | None = None
    deposed: str | None = None
    status: str | None = None
    attributes: msgspec.Raw = _NULL
    attributes_flat: msgspec.Raw = _NULL
    sensitive_attributes: Any = None


class _Resource(msgspec.Struct, frozen=True, gc=False):
    mode: str
    type: str
    name: str
    module: str | None = None
    provider: str = ""
    instances: list[_Instance] | None = None


class _Output(msgspec.Struct, frozen=True, gc=False):
    value: msgspec.Raw = _NULL
    sensitive: bool = False


class _Document(msgspec.Struct, frozen=True, gc=False):
    version: int | None = None
    terraform_version: str | None = None
    serial: int | None = None
    lineage: str | None = None
    outputs: dict[str, _Output] | None = None
    resources: list[_Resource] | None = None
    encrypted_data: str | None = None


_DOCUMENT = msgspec.json.Decoder(_Document)
_OUTPUTS = msgspec.json.Decoder(dict[str, _Output])
_LABELLED = msgspec.json.Decoder(_Labelled | None)


def read_state(data: bytes) -> StateFile:
    """Never raises: a file that cannot be read is a result with a reason."""
    if not data:
        return EmptyState()
    if not data.strip(b" \t\r\n\0"):
        return UnreadableState(reason="it contains only whitespace or zero bytes")
    try:
        document = _DOCUMENT.decode(data)
    except DECODE_ERRORS as error:
        return UnreadableState(reason=str(error))
    resources = tuple(instance for resource in document.resources or () for instance in _instances(resource))
    outputs = _outputs(document.outputs or {})
    if (reason := _unreadable(document)) is not None or document.serial is None:
        return UnreadableState(reason=reason or "", resources=resources, outputs=outputs)
    if document.version is None:
        return State(lineage=document.lineage or "", serial=document.serial)
    return State(
        lineage=document.lineage or "",
        serial=document.serial,
        terraform_version=document.terraform_version,
        resources=resources,
        outputs=outputs,
    )


def _unreadable(document: _Document) -> str | None:
    encrypted = document.encrypted_data is not None and document.version is None
    if not encrypted and document.version != _VERSION:
        return f"its format version is {document.version}, not {_VERSION}"
    if document.serial is None or document.serial < 0:
        return "it has no serial"
    if not document.lineage and (encrypted or document.serial):
        return "it has no lineage"
    return None


def read_outputs(data: bytes) -> tuple[StateOutput, ...]:
    """What `output -json` prints; empty where it cannot be read."""
    try:
        return _outputs(_OUTPUTS.decode(data or b"{}"))
    except DECODE_ERRORS:
        return ()


def is_blank_state(data: bytes) -> bool:
    """What `state pull` prints for a remote backend without a state: a document without any content."""
    try:
        document = _DOCUMENT.decode(data)
    except DECODE_ERRORS:
        return False
    return (
        document.version == _VERSION
        and not (document.serial or document.lineage or document.resources or document.outputs)
        and document.encrypted_data is None
    )


def _outputs(outputs: dict[str, _Output]) -> tuple[StateOutput, ...]:
    return tuple(
        StateOutput(name=name, sensitive=output.sensitive, value=output.value)
        for name, output in outputs.items()
    )


def _instances(resource: _Resource) -> Iterator[StateResource]:
    module = resource.module or None
    for instance in resource.instances or ():
        flat = bytes(instance.attributes) == b"null"
        yield StateResource(
            address=resource_text(
                module=module,
                mode=resource.mode,
                type_=resource.type,
                name=resource.name,
                key=instance.index_key,
            ),
            module=module,
            mode=resource.mode,
            type=resource.type,
            name=resource.name,
            index=instance.index_key,
            provider=resource.provider,
            deposed=instance.deposed or None,
            tainted=instance.status == "tainted",
            attributes=instance.attributes_flat if flat else instance.attributes,
            sensitive_paths=instance.sensitive_attributes,
        )


def _without_null(resource: StateResource) -> object:
    attributes = resource.read()
    if not isinstance(attributes, dict):
        return attributes
    return {name: value for name, value in attributes.items() if value is not None}


# What a state holds under each address

_NONE: Mapping[str, StateResource] = MappingProxyType({})


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """`current` and `deposed` are empty where `unseen` says why the state could not be read."""

    lineage: str | None
    serial: int | None
    """Both are None where there is no state, and where it cannot be read."""
    unseen: str | None = None
    current: Mapping[str, StateResource] = _NONE
    deposed: Mapping[str, Mapping[str, StateResource]] = MappingProxyType({})

    @property
    def absent(self) -> bool:
        """The backend answered that there is no state."""
        return self.serial is None and self.unseen is None


NO_STATE = Contents(lineage=None, serial=None)


def read_contents(data: bytes | None) -> Contents:
    """Never raises. None: the backend answered that there is no state."""
    return contents_of(read_state(data) if data is not None else None)


def contents_of(file: StateFile | None) -> Contents:
    match file:
        case None:
            return NO_STATE
        case EmptyState():
            return Contents(lineage=None, serial=None, unseen="the state file is empty (0 bytes)")
        case UnreadableState():
            return Contents(lineage=None, serial=None, unseen=f"the state cannot be read: {file.reason}")
        case State(resources=None):
            return Contents(lineage=file.lineage, serial=file.serial, unseen="the state is encrypted")
        case State(resources=resources):
            return _contents(file, resources or ())
        case _:
            assert_never(file)


def _contents(state: State, resources: tuple[StateResource, ...]) -> Contents:
    current: dict[str, StateResource] = {}
    deposed: dict[str, dict[str, StateResource]] = {}
    try:
        for resource in resources:
            _ = resource.labels  # Attributes that are not an object make the state unreadable here.
            if resource.deposed:
                deposed.setdefault(resource.address, {})[resource.deposed] = resource
            else:
                current[resource.address] = resource
    except DECODE_ERRORS as error:
        return Contents(
            lineage=state.lineage, serial=state.serial, unseen=f"the state cannot be read: {error}"
        )
    return Contents(
        lineage=state.lineage,
        serial=state.serial,
        current=MappingProxyType(current),
        deposed=MappingProxyType(deposed),
    )
