"""All rules in order of their ids: one line each, the name of the file in `rules/`.

HF1xx  boundary and backend          HF5xx  policy documents
HF2xx  secrets, files not for Git    HF6xx  format and validity
HF3xx  reproducible plans            HF7xx  variables, protection, versions
HF4xx  output contract               HF9xx  waivers and the checks themselves
"""

from __future__ import annotations

import functools
import importlib
from typing import Final

from holdfast.checks.model.interface import Rule

RULES: Final[tuple[str, ...]] = (
    "hf101_gitops_resource",
    "hf102_gitops_read",
    "hf103_gitops_provider",
    "hf111_no_backend",
    "hf112_local_backend",
    "hf113_unknown_backend",
    "hf114_no_lock",
    "hf115_dynamodb_lock",
    "hf116_no_encryption",
    "hf117_key_without_encrypt",
    "hf118_no_own_key",
    "hf119_disabled_safety_check",
    "hf120_backend_credentials",
    "hf121_identity_in_code",
    "hf122_location_in_code",
    "hf123_state_name",
    "hf124_shared_state",
    "hf125_mixed_environments",
    "hf126_undeclared_read",
    "hf127_read_across_production",
    "hf128_two_backends",
    "hf201_state_file_in_git",
    "hf202_plan_file_in_git",
    "hf203_terraform_folder_in_git",
    "hf204_crash_log_in_git",
    "hf205_private_key_in_git",
    "hf206_credentials_file_in_git",
    "hf207_known_secret",
    "hf208_random_literal",
    "hf209_password_literal",
    "hf210_unmarked_output",
    "hf211_unmarked_variable",
    "hf212_write_only_twin",
    "hf213_secret_in_state",
    "hf214_secret_read_into_state",
    "hf301_provisioner",
    "hf302_external_program",
    "hf303_http_data",
    "hf304_unpinned_module",
    "hf305_unpinned_provider",
    "hf306_no_lock_file",
    "hf307_stale_lock_file",
    "hf308_lock_file_platforms",
    "hf401_missing_output",
    "hf402_wrong_output",
    "hf403_unusable_contract",
    "hf501_invalid_policy",
    "hf502_large_policy",
    "hf503_old_policy_version",
    "hf504_every_action_allowed",
    "hf505_dangerous_on_everything",
    "hf506_not_action",
    "hf507_not_principal",
    "hf508_public_principal",
    "hf509_confused_deputy",
    "hf510_no_external_id",
    "hf511_github_trust",
    "hf512_unconditional_federation",
    "hf513_foreign_arn",
    "hf514_contradicting_variables",
    "hf515_name_convention",
    "hf516_tag_convention",
    "hf601_format",
    "hf602_validity",
    "hf703_undeclared_variable",
    "hf708_unprotected_resource",
    "hf709_no_required_version",
    "hf901_expired_waiver",
    "hf902_unused_waiver",
    "hf903_invalid_waiver",
    "hf904_unreadable_code",
    "hf905_crashed_rule",
    "hf906_stacks_not_found",
    "hf907_unknown_rule",
    "hf908_tool_without_result",
)


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
    return tuple(_load(name) for name in RULES)


def rule(id_: str) -> Rule | None:
    """The rule with this id in any case; loads no other rule."""
    wanted = f"{id_.lower()}_"
    return next((_load(name) for name in RULES if name.startswith(wanted)), None)


@functools.cache
def ids() -> tuple[str, ...]:
    return tuple(name.partition("_")[0].upper() for name in RULES)


def _load(name: str) -> Rule:
    found: Rule = importlib.import_module(f"holdfast.checks.rules.{name}").RULE
    return found
