"""The naming convention for buckets, lock tables and keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.checks.backends.backends import BackendView, backend_of_stack
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding
from holdfast.checks.model.subjects import ABSENT, CheckedStack
from holdfast.config.checks import ANY, StateNames
from holdfast.config.placeholders import Literal, Placeholder, parse
from holdfast.kernel.patterns import pattern


def _check(stack: CheckedStack) -> Iterator[CheckResult]:
    backend = backend_of_stack(stack)
    for setting in settings_with_convention(
        backend.type, stack.checkout.config.checks.state_names or StateNames()
    ):
        name = name_to_check(backend, setting.setting)
        if name is ABSENT:
            continue
        if not isinstance(name, str):
            yield backend.unknown(setting.setting)
        elif not matches_convention(name, setting.pattern, stack, backend):
            should = expected_name(setting.pattern, stack, backend)
            yield finding(
                backend.place_of(setting.setting), f"the {setting.what} `{name}` should be `{should}`"
            )


RULE = Rule(
    id="HF123",
    title="State name does not follow the convention",
    fix="Rename it (move the state with `holdfast state pull` and `state push`), or set your own convention "
    "in `checks.backend`.",
    severity=Severity.WARNING,
    needs="`checks.backend`",
    configured=lambda checkout: checkout.config.checks.state_names is not None,
    stack=_check,
)


_FREE: Final = r"[A-Za-z0-9._@+-]+"
_FREE_PATH: Final = rf"{_FREE}(?:/{_FREE})*"
_PATHS: Final = ("component", "name")
_ACCOUNT_OF_COS: Final = pattern(r"-[0-9]+$")


class NamedSetting(Struct, frozen=True):
    """A setting with a naming convention."""

    setting: str
    what: str
    pattern: str


def settings_with_convention(type_: str, names: StateNames) -> Iterator[NamedSetting]:
    """The settings of one backend type; the pattern `any` disables a convention."""
    table = {
        "s3": (
            NamedSetting("bucket", "bucket", names.bucket),
            NamedSetting("key", "key", names.key),
            NamedSetting("dynamodb_table", "lock table", names.lock_table),
        ),
        "gcs": (NamedSetting("bucket", "bucket", names.bucket),),
        "cos": (NamedSetting("bucket", "bucket", names.bucket), NamedSetting("key", "key", names.key)),
        "oss": (NamedSetting("bucket", "bucket", names.bucket), NamedSetting("key", "key", names.key)),
        "oci": (NamedSetting("bucket", "bucket", names.bucket), NamedSetting("key", "key", names.key)),
        "azurerm": (
            NamedSetting("storage_account_name", "storage account", names.storage_account),
            NamedSetting("container_name", "container", names.container),
            NamedSetting("key", "key", names.key),
        ),
    }
    return (setting for setting in table.get(type_, ()) if setting.pattern != ANY)


def name_to_check(backend: BackendView, setting: str) -> object:
    """The value to compare: the key includes its prefix, a bucket excludes its account suffix."""
    name = backend.value(setting)
    if not isinstance(name, str):
        return name
    if backend.type == "cos" and setting == "bucket":
        return _ACCOUNT_OF_COS.sub("", name)
    if backend.type in ("cos", "oss") and setting == "key":
        prefix = backend.text("prefix")
        return f"{prefix.strip('/')}/{name}" if prefix else name
    return name


def matches_convention(name: str, pattern: str, stack: CheckedStack, backend: BackendView) -> bool:
    """Ignores case, since buckets are lower case only."""
    known = _values(stack, backend)
    expression = _expand(
        pattern, lambda placeholder: re.escape(known.get(placeholder) or "") or _free(placeholder), re.escape
    )
    return re.fullmatch(expression, name, re.IGNORECASE) is not None


def expected_name(pattern: str, stack: CheckedStack, backend: BackendView) -> str:
    """The convention with the known values of this stack."""
    known = _values(stack, backend)
    return _expand(pattern, lambda placeholder: known.get(placeholder) or f"{{{placeholder}}}", str)


def _values(stack: CheckedStack, backend: BackendView) -> dict[str, str | None]:
    entry = stack.stack
    return {
        "company": stack.checkout.config.company,
        "environment": entry.environment,
        "region": entry.region or backend.text("region"),
        "account": entry.account,
        "target": entry.target.name if entry.target is not None else None,
        "name": entry.name,
    }


def _free(placeholder: str) -> str:
    return _FREE_PATH if placeholder in _PATHS else _FREE


def _expand(pattern: str, placeholder: Callable[[str], str], literal: Callable[[str], str]) -> str:
    parts: list[str] = []
    for part in parse(pattern).parts:
        match part:
            case Literal():
                parts.append(literal(part.text))
            case Placeholder():
                parts.append(placeholder(part.name))
    return "".join(parts)
