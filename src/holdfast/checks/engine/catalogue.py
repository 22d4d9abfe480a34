"""All rules in order of their ids: one line each, with the file in `rules/` that has it.

HF1xx  boundary and backend          HF5xx  policy documents
HF2xx  secrets, files not for Git    HF6xx  format and validity
HF3xx  reproducible plans            HF7xx  variables, protection, versions
HF4xx  output contract               HF9xx  waivers and the checks themselves
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Final

from holdfast.checks.model.interface import Rule

RULES: Final[Mapping[str, str]] = {
    "HF101": "hf101_gitops_resources",
    "HF102": "hf101_gitops_resources",
    "HF103": "hf103_gitops_provider",
    "HF111": "hf111_backend_type",
    "HF112": "hf111_backend_type",
    "HF113": "hf111_backend_type",
    "HF114": "hf114_state_lock",
    "HF115": "hf114_state_lock",
    "HF116": "hf116_state_encryption",
    "HF117": "hf116_state_encryption",
    "HF118": "hf116_state_encryption",
    "HF119": "hf119_disabled_safety_check",
    "HF120": "hf120_backend_credentials",
    "HF121": "hf121_backend_in_code",
    "HF122": "hf121_backend_in_code",
    "HF123": "hf123_state_name",
    "HF124": "hf124_shared_states",
    "HF125": "hf124_shared_states",
    "HF126": "hf126_state_reads",
    "HF127": "hf126_state_reads",
    "HF128": "hf128_two_backends",
    "HF201": "hf201_files_in_git",
    "HF202": "hf201_files_in_git",
    "HF203": "hf201_files_in_git",
    "HF204": "hf201_files_in_git",
    "HF205": "hf201_files_in_git",
    "HF206": "hf206_credentials_file_in_git",
    "HF207": "hf207_known_secret",
    "HF208": "hf208_secret_literals",
    "HF209": "hf208_secret_literals",
    "HF210": "hf210_unmarked_output",
    "HF211": "hf211_unmarked_variable",
    "HF212": "hf212_write_only_twin",
    "HF213": "hf213_secrets_in_state",
    "HF214": "hf213_secrets_in_state",
    "HF301": "hf301_programs_and_requests",
    "HF302": "hf301_programs_and_requests",
    "HF303": "hf301_programs_and_requests",
    "HF304": "hf304_pins",
    "HF305": "hf304_pins",
    "HF306": "hf306_lock_file",
    "HF307": "hf306_lock_file",
    "HF308": "hf306_lock_file",
    "HF401": "hf401_contract",
    "HF402": "hf401_contract",
    "HF403": "hf401_contract",
    "HF501": "hf501_policy_form",
    "HF502": "hf501_policy_form",
    "HF503": "hf501_policy_form",
    "HF504": "hf504_broad_statements",
    "HF505": "hf505_dangerous_on_everything",
    "HF506": "hf504_broad_statements",
    "HF507": "hf504_broad_statements",
    "HF508": "hf508_public_principal",
    "HF509": "hf509_confused_deputy",
    "HF510": "hf510_no_external_id",
    "HF511": "hf511_github_trust",
    "HF512": "hf512_unconditional_federation",
    "HF513": "hf513_foreign_arn",
    "HF514": "hf514_contradicting_variables",
    "HF515": "hf515_conventions",
    "HF516": "hf515_conventions",
    "HF601": "hf601_engine",
    "HF602": "hf601_engine",
    "HF703": "hf703_variables_and_version",
    "HF708": "hf708_unprotected_resource",
    "HF709": "hf703_variables_and_version",
    "HF901": "hf901_own_findings",
    "HF902": "hf901_own_findings",
    "HF903": "hf901_own_findings",
    "HF904": "hf904_unreadable_code",
    "HF905": "hf901_own_findings",
    "HF906": "hf901_own_findings",
    "HF907": "hf901_own_findings",
    "HF908": "hf901_own_findings",
}

REMOVED: Final = {
    "HF701": "terraform_unused_declarations",
    "HF702": "terraform_unused_declarations",
    "HF704": "terraform_deprecated_interpolation",
    "HF705": "terraform_typed_variables",
    "HF706": "terraform_documented_variables",
    "HF707": "terraform_documented_outputs",
}
"""Ids of rules that were removed, each with the TFLint rule to use instead. An id is never used again."""


def removal_note(id_: str) -> str | None:
    """The message for the id of a removed rule; None for any other id."""
    instead = REMOVED.get(id_.upper())
    return f"{id_.upper()} was removed: use TFLint (`{instead}`)" if instead else None


@functools.cache
def rules() -> tuple[Rule, ...]:
    return tuple(map(_load, RULES))


def rule(id_: str) -> Rule | None:
    """The rule with this id in any case; loads no other module of rules."""
    return _load(id_.upper()) if id_.upper() in RULES else None


def ids() -> tuple[str, ...]:
    return tuple(RULES)


def _load(id_: str) -> Rule:
    module = importlib.import_module(f"holdfast.checks.rules.{RULES[id_]}")
    return next(value for value in vars(module).values() if isinstance(value, Rule) and value.id == id_)
