"""From what a source keeps to the text that goes into a stack. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.config.valid import SecretRef
from holdfast.kernel.secret import Secret
from holdfast.secrets.references import MOST_BYTES
from holdfast.secrets.sources import failures


def picked(ref: SecretRef, text: str, field: str | None) -> Secret:
    """The secret itself, or one field of it where it is a JSON object."""
    if field is None:
        return checked(ref, text)
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, Mapping):
        raise failures.without_field(ref, field=field, there=None)
    return field_of(ref, document, field)


def field_of(ref: SecretRef, fields: Mapping[str, Any], field: str) -> Secret:
    if field not in fields:
        raise failures.without_field(ref, field=field, there=fields)
    value = fields[field]
    if value is None:
        raise failures.unusable(ref, "is null")
    return checked(ref, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def checked(ref: SecretRef, text: str) -> Secret:
    """An empty secret is a mistake that Terraform would tell much later."""
    if not text:
        raise failures.unusable(ref, "is empty")
    if "\0" in text:
        raise failures.unusable(ref, "holds a zero byte, which no variable can")
    if len(text.encode()) > MOST_BYTES:
        raise failures.unusable(ref, f"is larger than {MOST_BYTES} bytes")
    return Secret(text)
