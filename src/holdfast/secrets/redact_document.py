"""Redaction of documents: values are redacted, and the structure that programs rely on stays.

Keys never change. Neither do structural fields: names, enums, addresses, digests, places. A secret that
equals the name of a stack must not make its document unusable, and masking it there would hide nothing, since
the name is in the repository. A table lists these fields with the reason; all others are redacted.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from holdfast.secrets.redact import MASK, Redactor

_LONGEST_FIELD = 2


class Structure(Struct, frozen=True, kw_only=True):
    fields: Mapping[str, str]
    """From a field, or `parent.field`, to the reason to keep it. The items of a list have the list's name."""
    values: frozenset[str]
    """Fields with foreign content: nothing below them is structural, and numbers are redacted too."""


def reasons_by_field(reasons: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType({field: why for why, fields in reasons.items() for field in fields.split()})


OURS: Final = Structure(
    fields=reasons_by_field(
        {
            "a name from the configuration": "name stack stacks environment account region target lane"
            " workspace depends_on backend.type",
            "a place in the repository or on this machine": "file path root home module variables",
            "one of a closed set": "status decision code kind product actions operation severity rule"
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
    fields=reasons_by_field(
        {
            "a name in the code": "name type mode index deposed",
            "the address of a resource": "address previous_address module_address to_display",
            "the address of a provider": "provider_name provider_config_key full_name source",
            "one of a closed set": "actions action_reason status kind severity",
            "a version": "format_version terraform_version schema_version version_constraint",
        }
    ),
    values=frozenset({"value", "values", "before", "after", "constant_value", "default", "config_values"}),
)
"""The output of `terraform … -json`."""


def clean_document(redactor: Redactor, document: object, structural: Structure = OURS) -> object:
    """The document without secrets. What is not JSON becomes text."""
    return _DocumentRedactor(redactor, structural).value(document, (), foreign=False)


def clean_value(redactor: Redactor, name: str, value: object) -> object:
    """Foreign content with a name, such as an output."""
    return _DocumentRedactor(redactor, OURS).value(value, (name,), foreign=True)


class _DocumentRedactor:
    def __init__(self, redactor: Redactor, structural: Structure) -> None:
        self._redactor = redactor
        self._structural = structural

    def value(self, value: object, path: tuple[str, ...], *, foreign: bool) -> object:
        match value:
            case None | bool():
                return value
            case str():
                return value if self._is_structural(path, foreign=foreign) else self._redact(value, path)
            case Mapping():
                return {
                    key: self.value(
                        item, (*path, str(key)), foreign=foreign or str(key) in self._structural.values
                    )
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.value(item, path, foreign=foreign) for item in value]
            case numbers.Number():
                return MASK if foreign and self._redactor.clean(str(value)) == MASK else value
            case _:
                return value if self._is_structural(path, foreign=foreign) else self._redact(str(value), path)

    def _is_structural(self, path: tuple[str, ...], *, foreign: bool) -> bool:
        fields = self._structural.fields
        return not foreign and any(
            ".".join(path[-size:]) in fields for size in range(1, _LONGEST_FIELD + 1) if len(path) >= size
        )

    def _redact(self, text: str, path: tuple[str, ...]) -> str:
        """The name of a value is the nearest key that is not a generic one such as `value`."""
        names = [part for part in path if part not in self._structural.values]
        return self._redactor.clean_field(names[-1] if names else "", text)
