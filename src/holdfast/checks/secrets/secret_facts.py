"""Tables of providers: attributes with secrets, write-only arguments, and remedies.

The tables are in `data/` and are read on first use. A path is `block.attribute`, without indexes; `*` matches
exactly one step, and everything below a listed path belongs to it.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.terraform.versions import Version

Steps = tuple[str, ...]

SENSITIVE = "sensitive"
"""The provider marks it: Terraform masks it on screen and stores it in plain text."""
POSSIBLE = "possible"
"""Not marked, but often contains a secret, which is then shown."""


class SecretAttribute(Struct, frozen=True):
    steps: Steps
    kind: str

    @property
    def path(self) -> str:
        return ".".join(self.steps)


class WriteOnlyTwin(Struct, frozen=True):
    """The write-only alternative of an argument, and the version argument that triggers an update."""

    steps: Steps
    name: str
    version: str | None

    @property
    def path(self) -> str:
        return ".".join((*self.steps[:-1], self.name))


def secret_attributes(mode: str, type_: str) -> tuple[SecretAttribute, ...]:
    """The attributes of a type that contain secrets, or may."""
    return _listed("data" if mode == "data" else "resources", type_)


@functools.cache
def _listed(table: str, type_: str) -> tuple[SecretAttribute, ...]:
    by_kind: Mapping[str, list[str]] = _table("secret-attributes")[table].get(type_, {})
    return tuple(
        SecretAttribute(steps=tuple(path.split(".")), kind=kind)
        for kind, paths in by_kind.items()
        for path in paths
    )


@functools.cache
def write_only_twins(type_: str) -> tuple[WriteOnlyTwin, ...]:
    rows = _table("write-only")["arguments"].get(type_, {})
    return tuple(
        WriteOnlyTwin(steps=tuple(path.split(".")), name=row["twin"], version=row["version"])
        for path, row in rows.items()
    )


@functools.cache
def write_only_since(provider: str) -> Version:
    """The first version of a provider with these arguments."""
    return Version.parse(_table("write-only")["since"].get(provider, "0"))


@functools.cache
def ephemeral_types() -> frozenset[str]:
    """Types that a provider also offers as `ephemeral`."""
    return frozenset(_table("write-only")["ephemeral"])


def remedy(mode: str, type_: str, paths: tuple[str, ...] = (), *, otherwise: str | None = None) -> str:
    """How to get the secrets of a type out of the state, simplest first.

    `otherwise`: for types without a remedy of their own.
    """
    remedies = [
        f"Set `{twin.path}` instead of `{path}` (write-only: it is never stored)."
        for path in paths
        for twin in write_only_twins(type_)
        if mode == "managed" and is_at_or_below(twin.steps, tuple(path.split(".")))
    ]
    if mode == "data" and type_ in ephemeral_types():
        remedies.append(f'Read it with `ephemeral "{type_}"`, which is never stored.')
    table = _table("remedies")
    known = next(
        (
            row["remedy"]
            for row in table["remedies"]
            if row.get("mode", mode) == mode
            and any(fnmatch.fnmatchcase(type_, kind) for kind in row["types"])
        ),
        None,
    )
    if known is not None or not remedies:
        last = table["otherwise"]["data" if mode == "data" else "managed"]
        remedies.append(known or (last if otherwise is None else otherwise))
    return " ".join(dict.fromkeys(remedies))


def is_at_or_below(listed_: Steps, steps: Steps) -> bool:
    """Whether the path is the listed one or below it."""
    return len(listed_) <= len(steps) and _steps_match(listed_, steps)


def overlaps(listed_: Steps, steps: Steps) -> bool:
    """The same, or the path is above the listed one and so contains it."""
    return _steps_match(listed_, steps)


def _steps_match(listed_: Steps, steps: Steps) -> bool:
    return all(want in ("*", has) for want, has in zip(listed_, steps, strict=False))


def parts(value: object, steps: Steps) -> Iterator[object]:
    """The values at a path inside a document; lists are transparent."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from parts(item, steps)
    elif not steps:
        yield value
    elif isinstance(value, Mapping):
        for name in value if steps[0] == "*" else (steps[0],):
            if name in value:
                yield from parts(value[name], steps[1:])


@functools.cache
def _table(name: str) -> Any:
    import msgspec  # noqa: PLC0415  only a check that asks needs the tables

    return msgspec.json.decode((Path(__file__).with_name("data") / f"{name}.json").read_bytes())
