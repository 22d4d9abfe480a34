"""Secret references: `{ secret: "scheme:locator" }` says where a value comes from, never the value itself.

SCHEMES is the one table of known schemes. Options of a locator follow `?`, because `@` and `:` are characters
of names in AWS.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from holdfast.config.problems import Problems, closest, listed
from holdfast.config.yaml import BrokenNode, MapNode, Node, ScalarNode


class SecretRef(Struct, frozen=True, kw_only=True):
    scheme: str
    locator: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.locator}"


Scalar = str | int | float | bool
Value = Scalar | SecretRef | None | tuple["Value", ...] | Mapping[str, "Value"]
"""A value from the configuration. Mappings are read-only; text may contain placeholders."""


def frozen(value: Mapping[str, Value] | None = None) -> Mapping[str, Value]:
    return MappingProxyType(dict(value or {}))


class Scheme(NamedTuple):
    form: str
    name: str | None = None
    """The pattern of a name; None if only the source can check it."""
    options: tuple[str, ...] = ()
    needs_field: bool = False


SCHEMES: Final[Mapping[str, Scheme]] = {
    "env": Scheme("env:NAME"),
    "file": Scheme("file:PATH"),
    "dotenv": Scheme("dotenv:PATH#NAME"),
    "aws-sm": Scheme(
        "aws-sm:NAME[#KEY][?version=…&region=…]", r"[A-Za-z0-9/_+=.@!:-]{1,2048}", ("version", "region")
    ),
    "aws-ssm": Scheme("aws-ssm:NAME[#KEY][?region=…]", r"[A-Za-z0-9/_.:-]{1,2048}", ("region",)),
    "azure-kv": Scheme(
        "azure-kv:VAULT/NAME[/VERSION][#KEY]",
        r"[A-Za-z][A-Za-z0-9-]{0,62}/[A-Za-z0-9-]{1,127}(?:/[A-Za-z0-9]{1,64})?",
    ),
    "vault": Scheme(
        "vault:MOUNT/PATH#FIELD[?version=…]", r"[^/\s?#]+(?:/[^/\s?#]+)+", ("version",), needs_field=True
    ),
}
SECRET_KEY: Final = "secret"  # noqa: S105 - the name of the key in holdfast.yaml
REFERENCE_PATTERN: Final = rf"(?:{'|'.join(SCHEMES)}):[^\x00-\x1f]+"

_OPTION: Final = r"(?P<name>[a-z]+)=(?P<value>[A-Za-z0-9._:-]{1,128})"
_PLACEHOLDER: Final = r"\{[A-Za-z_][^{}]*\}"


class Locator(NamedTuple):
    name: str
    field: str | None
    options: Mapping[str, str]


def parse_locator(scheme: str, locator: str) -> Locator:
    """Raises ValueError, whose text explains the mistake without quoting the locator."""
    rules = SCHEMES[scheme]
    rest, question, query = locator.partition("?")
    name, hash_, field = rest.partition("#")
    if not re.fullmatch(rules.name or ".+", name) or ".." in name.split("/"):
        raise ValueError(f"the text after `{scheme}:` is not a valid name")
    if not field and (hash_ or rules.needs_field):
        raise ValueError("`#` must be followed by the name of a field")
    return Locator(name=name, field=field or None, options=_options(scheme, query) if question else {})


def _options(scheme: str, query: str) -> dict[str, str]:
    known, options = SCHEMES[scheme].options, {}
    for text in query.split("&"):
        option = re.fullmatch(_OPTION, text)
        if option is None or option["name"] not in known:
            valid = " and ".join(f"`{name}=`" for name in known) or "none"
            raise ValueError(f"an option after `?` that `{scheme}:` does not support (supported: {valid})")
        options[option["name"]] = option["value"]
    return options


def forbidden_locator(scheme: str, locator: str) -> str | None:
    """Why a reference is refused: it would give a stack the key of Holdfast, or the memory of a process."""
    if scheme == "env" and locator.startswith("HOLDFAST_"):
        return "variables of Holdfast itself are not for stacks"
    if scheme in {"file", "dotenv"} and f"{posixpath.normpath(locator)}/".startswith(("/proc/", "//proc/")):
        return "files of running processes (/proc) are not for stacks"
    return None


def locator_mistake(scheme: str, locator: str) -> str | None:
    """What is wrong with a locator in the configuration, where it may contain placeholders."""
    if forbidden := forbidden_locator(scheme, locator):
        return forbidden
    if SCHEMES[scheme].name is None:
        return None
    try:
        parse_locator(scheme, re.sub(_PLACEHOLDER, "x", locator))
    except ValueError as error:
        return str(error)
    return None


def is_reference(node: Node) -> bool:
    """Any mapping with the key `secret` is meant as a reference, valid or not."""
    return isinstance(node, MapNode) and any(entry.key == SECRET_KEY for entry in node.entries)


def read_reference(node: MapNode, *, where: str, problems: Problems) -> SecretRef | None:
    """None after adding what is wrong. The text may be a secret by mistake, so no message repeats it."""
    for entry in node.entries:
        if entry.key != SECRET_KEY:
            problems.add(
                "HF-CONF-13",
                f"`{entry.key}` next to `secret` in {where}: a secret reference has only that one key",
                place=entry.place,
                hint="Put a mapping of your own that has a key `secret` in a variables file.",
            )
            return None
    value = node.entries[0].value
    if isinstance(value, BrokenNode):
        return None
    text = value.value if isinstance(value, ScalarNode) else None
    if not isinstance(text, str) or not re.fullmatch(REFERENCE_PATTERN, text):
        mistake = _form_mistake(text)
        hint = f"Write scheme:locator; the schemes are {listed(SCHEMES)}."
    else:
        scheme, _, locator = text.partition(":")
        wrong = locator_mistake(scheme, locator)
        if wrong is None:
            return SecretRef(scheme=scheme, locator=locator)
        mistake, hint = f"is not valid: {wrong}", f"Write {SCHEMES[scheme].form}; see docs/secrets.md."
    problems.add("HF-CONF-13", f"the secret reference in {where} {mistake}", place=value.place, hint=hint)
    return None


def _form_mistake(text: object) -> str:
    if not isinstance(text, str):
        return "must be text"
    scheme, colon, _ = text.partition(":")
    if not colon:
        return "has no scheme"
    if scheme in SCHEMES:
        return f"has no locator after `{scheme}:`"
    near = closest(scheme, SCHEMES)
    return f"has an unknown scheme{f'; did you mean `{near}:`?' if near else ''}"
