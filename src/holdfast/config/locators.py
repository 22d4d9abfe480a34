"""What stands after the scheme of a secret reference, taken apart: a name, a field in it, options.

    aws-sm:NAME[#KEY][?version=…&region=…]        aws-ssm:NAME[#KEY][?region=…]
    azure-kv:VAULT/NAME[/VERSION][#KEY]           vault:MOUNT/PATH#FIELD[?version=…]

`env:`, `file:` and `dotenv:` have their own, simpler forms. Options stand behind `?` because `@` and `:` are
letters of names in AWS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

FORMS: Mapping[str, str] = {
    "aws-sm": "aws-sm:NAME[#KEY][?version=…&region=…]",
    "aws-ssm": "aws-ssm:NAME[#KEY][?region=…]",
    "azure-kv": "azure-kv:VAULT/NAME[/VERSION][#KEY]",
    "vault": "vault:MOUNT/PATH#FIELD[?version=…]",
}
"""How a reference of each kind is written: the kinds that are read over a network."""

_NAMES: Mapping[str, str] = {
    "aws-sm": r"[A-Za-z0-9/_+=.@!:-]{1,2048}",
    "aws-ssm": r"[A-Za-z0-9/_.:-]{1,2048}",
    "azure-kv": r"[A-Za-z][A-Za-z0-9-]{0,62}/[A-Za-z0-9-]{1,127}(?:/[A-Za-z0-9]{1,64})?",
    "vault": r"[^/\s?#]+(?:/[^/\s?#]+)+",
}
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "aws-sm": ("version", "region"),
    "aws-ssm": ("region",),
    "azure-kv": (),
    "vault": ("version",),
}
_OPTION = re.compile(r"(?P<name>[a-z]+)=(?P<value>[A-Za-z0-9._:-]{1,128})")
_PLACEHOLDER = re.compile(r"\{[A-Za-z_][^{}]*\}")


class Locator(NamedTuple):
    name: str
    field: str | None
    options: Mapping[str, str]


def parse(scheme: str, locator: str) -> Locator:
    """Raises ValueError, whose text says what is wrong without quoting."""
    rest, question, query = locator.partition("?")
    name, hash_, field = rest.partition("#")
    if not re.fullmatch(_NAMES[scheme], name) or ".." in name.split("/"):
        raise ValueError(f"what stands after `{scheme}:` cannot be a name there")
    if (hash_ and not field) or (scheme == "vault" and not field):
        raise ValueError("it does not say which field is meant after `#`")
    return Locator(name=name, field=field or None, options=_options(scheme, query) if question else {})


def mistake(scheme: str, locator: str) -> str | None:
    """What is wrong with a locator as the configuration writes it, placeholders and all."""
    if scheme not in FORMS:
        return None
    try:
        parse(scheme, _PLACEHOLDER.sub("x", locator))
    except ValueError as error:
        return str(error)
    return None


def _options(scheme: str, query: str) -> dict[str, str]:
    known, found = _OPTIONS[scheme], {}
    for one in query.split("&"):
        option = _OPTION.fullmatch(one)
        if option is None or option["name"] not in known:
            there = " and ".join(f"`{name}=`" for name in known) or "none"
            raise ValueError(f"an option after `?` that `{scheme}:` does not have (there: {there})")
        found[option["name"]] = option["value"]
    return found
