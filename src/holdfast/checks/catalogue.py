"""Every rule there is: one line each, the name of its file in `rules/`, in the order of ids.

HF1xx  boundary and backend          HF5xx  policy documents
HF2xx  secrets, files not for Git    HF6xx  format and validity
HF3xx  hermetic                      HF7xx  hygiene
HF4xx  output contract               HF9xx  waivers, and the checks themselves
"""

from __future__ import annotations

import functools
import importlib
from typing import Final

from holdfast.checks.interface import Rule

RULES: Final[tuple[str, ...]] = (
    "hf701_unused_variable",
    "hf702_unused_local",
    "hf703_undeclared_variable",
    "hf901_expired_waiver",
    "hf902_unused_waiver",
    "hf903_broken_waiver",
    "hf904_unreadable_code",
    "hf905_broken_rule",
    "hf906_stacks_not_found",
    "hf907_unknown_rule",
)


@functools.cache
def rules() -> tuple[Rule, ...]:
    return tuple(_load(name) for name in RULES)


def rule(id_: str) -> Rule | None:
    """The rule of this id, whatever the case of its letters; no other is loaded."""
    wanted = f"{id_.lower()}_"
    return next((_load(name) for name in RULES if name.startswith(wanted)), None)


def ids() -> tuple[str, ...]:
    return tuple(name.partition("_")[0].upper() for name in RULES)


def _load(name: str) -> Rule:
    found: Rule = importlib.import_module(f"holdfast.checks.rules.{name}").RULE
    return found
