"""The schemes of secret references, and what may follow each: a name, a field in it, options.

Options follow `?`, because `@` and `:` are valid in AWS names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_OPTION = re.compile(r"(?P<name>[a-z]+)=(?P<value>[A-Za-z0-9._:-]{1,128})")
_PLACEHOLDER = re.compile(r"\{[A-Za-z_][^{}]*\}")


class Scheme(NamedTuple):
    form: str
    name: str | None = None
    """The pattern of a name; None if only the source can check it."""
    options: tuple[str, ...] = ()
    needs_field: bool = False


SCHEMES: Mapping[str, Scheme] = {
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


class Locator(NamedTuple):
    name: str
    field: str | None
    options: Mapping[str, str]


def parse(scheme: str, locator: str) -> Locator:
    """Raises ValueError, whose text explains the mistake without quoting the locator."""
    rest, question, query = locator.partition("?")
    name, hash_, field = rest.partition("#")
    rules = SCHEMES[scheme]
    if not re.fullmatch(rules.name or ".+", name) or ".." in name.split("/"):
        raise ValueError(f"the text after `{scheme}:` is not a valid name")
    if not field and (hash_ or rules.needs_field):
        raise ValueError("`#` must be followed by the name of a field")
    return Locator(name=name, field=field or None, options=_options(scheme, query) if question else {})


def mistake(scheme: str, locator: str) -> str | None:
    """What is wrong with a locator as written in the configuration, with placeholders."""
    if SCHEMES[scheme].name is None:
        return None
    try:
        parse(scheme, _PLACEHOLDER.sub("x", locator))
    except ValueError as error:
        return str(error)
    return None


def _options(scheme: str, query: str) -> dict[str, str]:
    known, options = SCHEMES[scheme].options, {}
    for part in query.split("&"):
        option = _OPTION.fullmatch(part)
        if option is None or option["name"] not in known:
            supported = " and ".join(f"`{name}=`" for name in known) or "none"
            raise ValueError(
                f"an option after `?` that `{scheme}:` does not support (supported: {supported})"
            )
        options[option["name"]] = option["value"]
    return options
