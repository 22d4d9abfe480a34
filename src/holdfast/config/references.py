"""Secret references: `{ secret: "scheme:locator" }` says where a value is to be had, never the value."""

from __future__ import annotations

import re
from typing import Final

from holdfast.config import locators
from holdfast.config.problems import Problems, closest, listed
from holdfast.config.valid import SECRET_SCHEMES, SecretRef
from holdfast.config.yaml import BrokenNode, MapNode, Node, ScalarNode

KEY: Final = "secret"
PATTERN: Final = rf"(?:{'|'.join(SECRET_SCHEMES)}):[^\x00-\x1f]+"


def is_reference(node: Node) -> bool:
    """A mapping with the key `secret` is meant as a reference, right or wrong."""
    return isinstance(node, MapNode) and any(entry.key == KEY for entry in node.entries)


def read_reference(node: MapNode, *, where: str, problems: Problems) -> SecretRef | None:
    """The reference, or None after saying what is wrong. What stands there may be secret: it is not told."""
    for entry in node.entries:
        if entry.key != KEY:
            problems.add(
                "HF-CONF-13",
                f"`{entry.key}` beside `secret` in {where}: a secret reference has that one key only",
                place=entry.place,
                hint="A mapping of your own with a key `secret` belongs in a variables file.",
            )
            return None
    value = node.entries[0].value
    if isinstance(value, BrokenNode):
        return None
    text = value.value if isinstance(value, ScalarNode) else None
    scheme, _, locator = text.partition(":") if isinstance(text, str) else ("", "", "")
    if isinstance(text, str) and re.fullmatch(PATTERN, text):
        return _checked(SecretRef(scheme=scheme, locator=locator), value, where, problems)
    problems.add(
        "HF-CONF-13",
        _what_is_wrong(text, scheme, where),
        place=value.place,
        hint=f"Write scheme:locator; the schemes are {listed(SECRET_SCHEMES)}.",
    )
    return None


def _checked(reference: SecretRef, node: Node, where: str, problems: Problems) -> SecretRef | None:
    """What a source could never find is said here, with its place, and not when a run needs it."""
    wrong = locators.mistake(reference.scheme, reference.locator)
    if wrong is None:
        return reference
    problems.add(
        "HF-CONF-13",
        f"the secret reference in {where} cannot be one: {wrong}",
        place=node.place,
        hint=f"Write {locators.SCHEMES[reference.scheme].form}; docs/secrets.md has examples.",
    )
    return None


def _what_is_wrong(text: object, scheme: str, where: str) -> str:
    if not isinstance(text, str):
        return f"the secret reference in {where} must be text"
    if ":" not in text:
        return f"the secret reference in {where} has no scheme"
    if scheme in SECRET_SCHEMES:
        return f"the secret reference in {where} does not say where after `{scheme}:`"
    near = closest(scheme, SECRET_SCHEMES)
    meant = f", did you mean `{near}:`?" if near else ""
    return f"the secret reference in {where} has a scheme that is not known{meant}"
