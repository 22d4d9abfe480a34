from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import backend_of_stack
from holdfast.checks.backends.state_naming import (
    expected_name,
    matches_convention,
    name_to_check,
    settings_with_convention,
)
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding
from holdfast.checks.model.subjects import ABSENT, CheckedStack
from holdfast.config.checks import StateNames


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
    why="People and permissions find states by name. A name with the wrong environment or region is how "
    "a permission for `dev` ends up covering `prod`.",
    fix="Rename it (move the state with `holdfast state`), or set your own convention in `checks.backend`.",
    severity=Severity.WARNING,
    stack=_check,
)
