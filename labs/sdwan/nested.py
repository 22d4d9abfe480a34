"""Attributes that are objects or lists of objects, which the `tf` package does not know, and their plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tf.gen import tfplugin_pb2 as pb
from tf.schema import Attribute
from tf.types import TfType, Unknown
from tf.utils import read_dynamic_value, to_dynamic_value

from provider.servicer import PluginServicer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MODES = {False: pb.Schema.Object.SINGLE, True: pb.Schema.Object.LIST}


class Field(Attribute):  # type: ignore[misc]  # the package has no types
    """An attribute that may have only some values."""

    def __init__(self, name: str, kind: TfType, *, one_of: Sequence[str] = (), **options: Any) -> None:
        super().__init__(name, kind, **options)
        self.one_of = one_of


class Nested(Field):
    """An attribute with attributes of its own: `many` is a list of such objects."""

    def __init__(self, name: str, fields: Sequence[Attribute], *, many: bool = False, **options: Any) -> None:
        super().__init__(name, _Objects(fields, many=many), **options)
        self.fields = fields
        self.many = many

    def to_pb(self) -> Any:
        shape = pb.Schema.Object(attributes=[each.to_pb() for each in self.fields], nesting=_MODES[self.many])
        return pb.Schema.Attribute(
            name=self.name,
            nested_type=shape,
            description=self.description or "",
            required=bool(self.required),
            optional=bool(self.optional),
            computed=bool(self.computed),
            sensitive=bool(self.sensitive),
        )


class _Objects(TfType):  # type: ignore[misc]  # the package has no types
    """On the wire an object is a map with every attribute, null where there is none."""

    def __init__(self, fields: Sequence[Attribute], *, many: bool) -> None:
        self._fields = fields
        self._many = many

    def encode(self, value: Any) -> Any:
        return self._each(value, lambda field: field.type.encode)

    def decode(self, value: Any) -> Any:
        return self._each(value, lambda field: field.type.decode)

    def tf_type(self) -> bytes:
        raise TypeError("a nested attribute has a nested type")

    def _each(self, value: Any, how: Callable[[Attribute], Callable[[Any], Any]]) -> Any:
        if value is None or value is Unknown:
            return value
        if self._many:
            return [self._one(each, how) for each in value]
        return self._one(value, how)

    def _one(self, value: Any, how: Callable[[Attribute], Callable[[Any], Any]]) -> Any:
        if value is None or value is Unknown:
            return value
        known = {field.name: value.get(field.name) for field in self._fields}
        return {
            field.name: each if (each := known[field.name]) is Unknown else how(field)(each)
            for field in self._fields
        }


class NestedServicer(PluginServicer):
    def PlanResourceChange(self, request: Any, context: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Defaults and values known after apply, also inside of objects, as the Go framework plans them."""
        answer = super().PlanResourceChange(request, context)
        planned = read_dynamic_value(answer.planned_state)
        if planned is None:
            return answer
        attributes = list(self._get_res_attrs(request.type_name).values())
        filled = _fill(attributes, planned, read_dynamic_value(request.config) or {})
        answer.planned_state.CopyFrom(to_dynamic_value(filled))
        return answer


def _fill(fields: Sequence[Attribute], planned: Any, config: Any) -> Any:
    if not isinstance(planned, dict):
        return planned
    given = config if isinstance(config, dict) else {}
    return {field.name: _planned(field, planned.get(field.name), given.get(field.name)) for field in fields}


def _planned(field: Attribute, planned: Any, given: Any) -> Any:
    if field.computed and given is None:
        return planned if field.default is Unknown and planned is not None else field.default
    if not isinstance(field, Nested) or planned is None or planned is Unknown:
        return planned
    if not field.many:
        return _fill(field.fields, planned, given)
    configs = given if isinstance(given, list) and len(given) == len(planned) else [None] * len(planned)
    return [_fill(field.fields, each, own) for each, own in zip(planned, configs, strict=True)]


def refuse_other_values(
    diags: Any, fields: Sequence[Attribute], config: Any, path: tuple[Any, ...] = ()
) -> None:
    """An error for each value that is not one of those its attribute allows."""
    if not isinstance(config, dict):
        return
    for field in fields:
        value, at = config.get(field.name), (*path, field.name)
        if isinstance(field, Nested):
            for place, each in enumerate(value if isinstance(value, list) else [value]):
                refuse_other_values(diags, field.fields, each, (*at, (place,)) if field.many else at)
        elif (
            isinstance(field, Field) and field.one_of and isinstance(value, str) and value not in field.one_of
        ):
            shown = " ".join(f'"{each}"' for each in field.one_of)
            name = ".".join(part for part in at if isinstance(part, str))
            diags.add_error(
                "Invalid Attribute Value Match",
                f'Attribute {name} value must be one of: [{shown}], got: "{value}"',
                path=list(at),
            )
