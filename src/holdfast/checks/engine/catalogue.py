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
    "HF101": "backends.hf101_gitops_resources",
    "HF102": "backends.hf101_gitops_resources",
    "HF103": "backends.hf103_gitops_provider",
    "HF111": "backends.hf111_backend_type",
    "HF112": "backends.hf111_backend_type",
    "HF113": "backends.hf111_backend_type",
    "HF114": "backends.hf114_state_lock",
    "HF115": "backends.hf114_state_lock",
    "HF116": "backends.hf116_state_encryption",
    "HF117": "backends.hf116_state_encryption",
    "HF118": "backends.hf116_state_encryption",
    "HF119": "backends.hf119_disabled_safety_check",
    "HF120": "backends.hf120_backend_credentials",
    "HF121": "backends.hf121_backend_in_code",
    "HF122": "backends.hf121_backend_in_code",
    "HF123": "backends.hf123_state_name",
    "HF124": "backends.hf124_shared_states",
    "HF125": "backends.hf124_shared_states",
    "HF126": "backends.hf126_state_reads",
    "HF127": "backends.hf126_state_reads",
    "HF128": "backends.hf128_two_backends",
    "HF201": "secrets.hf201_files_in_git",
    "HF202": "secrets.hf201_files_in_git",
    "HF203": "secrets.hf201_files_in_git",
    "HF204": "secrets.hf201_files_in_git",
    "HF205": "secrets.hf201_files_in_git",
    "HF206": "secrets.hf206_credentials_file_in_git",
    "HF207": "secrets.hf207_known_secret",
    "HF208": "secrets.hf208_secret_literals",
    "HF209": "secrets.hf208_secret_literals",
    "HF210": "secrets.hf210_unmarked_output",
    "HF211": "secrets.hf211_unmarked_variable",
    "HF212": "secrets.hf212_write_only_twin",
    "HF213": "secrets.hf213_secrets_in_state",
    "HF214": "secrets.hf213_secrets_in_state",
    "HF301": "code.hf301_programs_and_requests",
    "HF302": "code.hf301_programs_and_requests",
    "HF303": "code.hf301_programs_and_requests",
    "HF304": "code.hf304_pins",
    "HF305": "code.hf304_pins",
    "HF306": "code.hf306_lock_file",
    "HF307": "code.hf306_lock_file",
    "HF308": "code.hf306_lock_file",
    "HF309": "code.hf309_links_out",
    "HF401": "code.hf401_contract",
    "HF402": "code.hf401_contract",
    "HF403": "code.hf401_contract",
    "HF404": "code.hf404_copied_fact",
    "HF501": "policies.hf501_policy_form",
    "HF502": "policies.hf501_policy_form",
    "HF503": "policies.hf501_policy_form",
    "HF504": "policies.hf504_broad_statements",
    "HF505": "policies.hf505_dangerous_on_everything",
    "HF506": "policies.hf504_broad_statements",
    "HF507": "policies.hf504_broad_statements",
    "HF508": "policies.hf508_public_principal",
    "HF509": "policies.hf509_confused_deputy",
    "HF510": "policies.hf510_no_external_id",
    "HF511": "policies.hf511_github_trust",
    "HF512": "policies.hf512_unconditional_federation",
    "HF513": "policies.hf513_foreign_arn",
    "HF514": "policies.hf514_contradicting_variables",
    "HF515": "policies.hf515_conventions",
    "HF516": "policies.hf515_conventions",
    "HF601": "code.hf601_engine",
    "HF602": "code.hf601_engine",
    "HF703": "code.hf703_variables_and_version",
    "HF708": "code.hf708_unprotected_resource",
    "HF709": "code.hf703_variables_and_version",
    "HF901": "code.hf901_own_findings",
    "HF902": "code.hf901_own_findings",
    "HF903": "code.hf901_own_findings",
    "HF904": "code.hf904_unreadable_code",
    "HF905": "code.hf901_own_findings",
    "HF906": "code.hf901_own_findings",
    "HF907": "code.hf901_own_findings",
    "HF908": "code.hf901_own_findings",
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
