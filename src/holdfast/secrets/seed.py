"""The required secrets of a target: which exist, and creating those that do not.

A value is never shown and never overwritten. What a source answers to anything but "it does not exist" is an
error: nothing is created on a guess.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from holdfast.config.publishing import RequiredSecret
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.kernel.secret import Secret
from holdfast.secrets.sources.interface import (
    Answers,
    Timeouts,
    check_value,
    open_source,
    parse_locator,
    source_for,
)
from holdfast.system.environment import Environment

_ABSENT: Final = frozenset(("HF-SEC-3", "HF-SEC-8", "HF-SEC-10"))
"""A file, a variable of a file, or a secret that does not exist."""
_GENERATED_BYTES: Final = 32


class Value(Struct, frozen=True, kw_only=True):
    """A new value, and where it is from."""

    secret: Secret
    source: str


class Seeded(Struct, frozen=True, kw_only=True):
    name: str
    reference: str
    status: Literal["present", "created"]
    source: str | None = None


class _Group(Struct, frozen=True, kw_only=True):
    """Secrets that are fields of one."""

    ref: SecretRef
    secrets: tuple[RequiredSecret, ...]


def variable_name(name: str) -> str:
    """Under which a value is found: `coder-admin` is CODER_ADMIN."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def generate() -> Secret:
    return Secret(base64.urlsafe_b64encode(os.urandom(_GENERATED_BYTES)).decode().rstrip("="))


def missing_secrets(
    secrets: Sequence[RequiredSecret], answers: Answers
) -> tuple[tuple[RequiredSecret, ...], tuple[HoldfastError, ...]]:
    """Those that do not exist; and why it is not known of others, or why they cannot be used."""
    missing: list[RequiredSecret] = []
    unclear: list[HoldfastError] = []
    for secret in secrets:
        answer = answers[secret.secret]
        if isinstance(answer, HoldfastError):
            if answer.problem.code in _ABSENT:
                missing.append(secret)
            else:
                unclear.append(answer)
    return tuple(missing), tuple(unclear)


def choose_values(
    missing: Sequence[RequiredSecret], given: Mapping[str, Value], generated: Sequence[str]
) -> Mapping[str, Value]:
    """By name. Every missing secret has a value, or none is created."""
    values: dict[str, Value] = {}
    without: list[str] = []
    for secret in missing:
        name = secret.name
        value = given.get(name) or given.get(variable_name(name))
        if value is not None:
            check_value(secret.secret, value.secret.reveal())
            values[name] = value
        elif name in generated:
            values[name] = Value(secret=generate(), source="generated")
        else:
            without.append(name)
    if without:
        names = ", ".join(f"{name} ({variable_name(name)})" for name in without)
        raise UsageError(
            "HF-SEED-4",
            f"there is no value for {names}; nothing was created",
            hint=f"Add a line {variable_name(without[0])}=… to the file of --from, or use "
            f"--generate {without[0]} for a random value.",
        )
    return values


def create_secrets(
    missing: Sequence[RequiredSecret],
    values: Mapping[str, Value],
    environment: Environment,
    root: Path,
) -> tuple[Seeded, ...]:
    """One after the other. If one fails, the next seed goes on there."""
    seeded: list[Seeded] = []
    for group in _groups(missing):
        source = open_source(source_for(group.ref), environment, root, Timeouts(), identify=False)
        texts = {_field(secret.secret): values[secret.name].secret.reveal() for secret in group.secrets}
        if not source.create(group.ref, texts):
            names = ", ".join(secret.name for secret in group.secrets)
            raise Failed(
                "HF-SEED-5",
                f"{group.ref} exists, without a usable value for {names}; nothing is ever overwritten",
                hint="Add the value to it yourself, or correct the reference.",
            )
        seeded += [
            Seeded(
                name=secret.name,
                reference=str(secret.secret),
                status="created",
                source=values[secret.name].source,
            )
            for secret in group.secrets
        ]
    return tuple(seeded)


def _groups(secrets: Sequence[RequiredSecret]) -> list[_Group]:
    by_ref: dict[SecretRef, list[RequiredSecret]] = {}
    for secret in secrets:
        by_ref.setdefault(_split(secret.secret)[0], []).append(secret)
    return [_Group(ref=ref, secrets=tuple(group)) for ref, group in by_ref.items()]


def _field(ref: SecretRef) -> str:
    return _split(ref)[1]


def _split(ref: SecretRef) -> tuple[SecretRef, str]:
    """The whole secret and the field of it; the empty one for all of it. A path may contain any character."""
    if ref.scheme in {"env", "file"}:
        return ref, ""
    if ref.scheme == "dotenv":
        path, _, name = ref.locator.rpartition("#")
        return SecretRef(scheme=ref.scheme, locator=path), name
    locator = parse_locator(ref)
    if "version" in locator.options or (ref.scheme == "azure-kv" and locator.name.count("/") > 1):
        raise UsageError(
            "HF-SEED-1",
            f"a version of a secret cannot be created: {ref}",
            hint="Leave the version out of the reference.",
        )
    options = "&".join(f"{name}={value}" for name, value in locator.options.items())
    whole = locator.name + (f"?{options}" if options else "")
    return SecretRef(scheme=ref.scheme, locator=whole), locator.field or ""
