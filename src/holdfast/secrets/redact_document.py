"""Documents without secrets: values are cleaned, and what a machine relies on stays as it is.

Keys are never touched. Neither are structural fields: names, enums, addresses, digests, places. A secret that
equals the name of a stack must not make the stack's document unusable, and hiding it there would hide
nothing, for the name stands in the repository. A table lists these fields with the reason; all others are
cleaned.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from holdfast.kernel.values import dataclass
from holdfast.secrets.redact import MASK, Redactor

_DEEPEST_NAME = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    fields: Mapping[str, str]
    """From a field, or `parent.field`, to why it is left alone. Items of a list stand under its name."""
    values: frozenset[str]
    """Below these stands what somebody else wrote: nothing there is structural, and numbers count too."""


def _because(reasons: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({field: why for why, fields in reasons.items() for field in fields.split()})


OURS: Final = Structure(
    fields=_because(
        {
            "a name of the configuration": "name stack stacks environment account region target lane"
            " workspace depends_on backend.type",
            "a place in the repository or on this machine": "file path root home module variables",
            "a word out of a closed set": "status decision code kind product actions operation severity rule"
            " resources.reason",
            "the address of a resource": "address previous_address resources removed_resources",
            "an id or a digest": "id run digest lineage deposed key change store",
            "a version": "engine.version tools.version tool.version engines.version holdfast python",
            "a time": "started ended created at",
        }
    ),
    values=frozenset({"value"}),
)
TERRAFORM: Final = Structure(
    fields=_because(
        {
            "a name in the code": "name type mode index deposed",
            "the address of a resource": "address previous_address module_address to_display",
            "the address of a provider": "provider_name provider_config_key full_name source",
            "a word out of a closed set": "actions action_reason status kind severity",
            "a version": "format_version terraform_version schema_version version_constraint",
        }
    ),
    values=frozenset({"value", "values", "before", "after", "constant_value", "default", "config_values"}),
)
"""What `terraform … -json` prints."""


def clean_document(redactor: Redactor, document: object, structural: Structure = OURS) -> object:
    """The document as it may leave. Everything that is not JSON becomes text, as it would when written."""
    return _Cleaning(redactor, structural).value(document, (), inside=False)


def clean_value(redactor: Redactor, name: str, value: object) -> object:
    """A value that somebody else wrote, under its name: an output, say."""
    return _Cleaning(redactor, OURS).value(value, (name,), inside=True)


class _Cleaning:
    def __init__(self, redactor: Redactor, structural: Structure) -> None:
        self._redactor = redactor
        self._structural = structural

    def value(self, value: object, path: tuple[str, ...], *, inside: bool) -> object:
        """`inside`: below what somebody else wrote."""
        match value:
            case None | bool():
                return value
            case str():
                return value if self._keeps(path, inside=inside) else self._text(value, path)
            case Mapping():
                return {
                    key: self.value(
                        one, (*path, str(key)), inside=inside or str(key) in self._structural.values
                    )
                    for key, one in value.items()
                }
            case list() | tuple():
                return [self.value(one, path, inside=inside) for one in value]
            case numbers.Number():
                return MASK if inside and self._redactor.clean(str(value)) == MASK else value
            case _:
                return value if self._keeps(path, inside=inside) else self._text(str(value), path)

    def _keeps(self, path: tuple[str, ...], *, inside: bool) -> bool:
        fields = self._structural.fields
        return not inside and any(
            ".".join(path[-size:]) in fields for size in range(1, _DEEPEST_NAME + 1) if len(path) >= size
        )

    def _text(self, text: str, path: tuple[str, ...]) -> str:
        """A value is known by the name of what it is the value of."""
        named = [part for part in path if part not in self._structural.values]
        return self._redactor.clean_field(named[-1] if named else "", text)
