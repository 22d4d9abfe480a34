"""HF213, and HF210 in plans and states: secrets that Terraform keeps in clear."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checkouts import check, checkout, of, plan_of, skips, state_of, the

from holdfast.checks.engine.running import NO_PLAN, NO_STATE, Available, CheckInputs
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.checks.secrets import secret_facts

HELD, OUTPUT = the("HF213"), the("HF210")
SECRET = "q7Rz2Lw9Xk4Tn8Vb3Md6"
FILES = {"main.tf": "# nothing\n"}


def state(
    type_: str,
    attributes: dict[str, Any],
    *,
    mode: str = "managed",
    marked: list[Any] | None = None,
    outputs: dict[str, Any] | None = None,
    config: str | None = None,
) -> Report:
    instance = {"schema_version": 0, "attributes": attributes, "sensitive_attributes": marked or []}
    resource = {"mode": mode, "type": type_, "name": "a", "provider": "p", "instances": [instance]}
    document = {
        "version": 4,
        "terraform_version": "1.9.0",
        "serial": 1,
        "lineage": "l",
        "outputs": outputs or {},
        "resources": [resource],
    }
    made = checkout(FILES, config=config)
    seen = Available(items=(state_of(made, json.dumps(document).encode()),))
    return check([HELD, OUTPUT], made, inputs=CheckInputs(states=seen))


def plan(type_: str, change: dict[str, Any], *, outputs: dict[str, Any] | None = None) -> Report:
    document = {
        "format_version": "1.2",
        "terraform_version": "1.9.0",
        "resource_changes": [
            {
                "address": f"{type_}.a",
                "mode": "managed",
                "type": type_,
                "name": "a",
                "provider_name": "p",
                "change": {"actions": ["create"], "before": None, **change},
            }
        ],
        "output_changes": outputs or {},
    }
    made = checkout(FILES)
    seen = Available(items=(plan_of(made, json.dumps(document).encode()),))
    return check([HELD, OUTPUT], made, inputs=CheckInputs(plans=seen))


def said(report: Report) -> list[tuple[str | None, str]]:
    return [(one.address, one.message) for one in of(report, HELD)]


def test_a_secret_in_a_state_is_reported_by_path_and_never_shown() -> None:
    """Address, attribute and remedy; the value stands in no word of it."""
    (found,) = of(state("aws_db_instance", {"id": "x", "password": SECRET}), HELD)
    assert (found.address, found.message) == (
        "aws_db_instance.a",
        "the state contains `password`",
    )
    assert "`password_wo`" in (found.hint or "")
    assert "manage_master_user_password" in (found.hint or "")
    assert found.severity is Severity.WARNING
    assert SECRET not in f"{found}"


@pytest.mark.parametrize(
    ("type_", "attributes"),
    [
        ("aws_db_instance", {"id": "x"}),
        ("aws_db_instance", {"id": "x", "password": None}),
        ("aws_db_instance", {"id": "x", "password": ""}),
        ("aws_ssm_parameter", {"type": "String", "value": "info"}),
        (
            "aws_lambda_function",
            {"environment": [{"variables": {"LOG_LEVEL": "info", "TOKEN_URL": "https://x/y"}}]},
        ),
        ("aws_s3_bucket", {"id": "q7Rz2Lw9Xk4Tn8Vb3Md6", "arn": "arn:aws:s3:::x"}),
        ("aws_iam_access_key", {"id": "AKIA" + "7QW2ERTY9UIOP3LK"}),
    ],
)
def test_a_state_without_a_secret_is_left_alone(type_: str, attributes: dict[str, Any]) -> None:
    """An attribute that is missing, null or empty holds nothing; ids and settings are no secrets."""
    assert said(state(type_, attributes)) == []


def test_a_secret_that_nothing_marks_is_an_error() -> None:
    """Terraform shows it in every plan: environments and texts of a known format."""
    attributes = {"environment": [{"variables": {"API_TOKEN": SECRET, "URL": "https://x"}}]}
    (found,) = of(state("aws_lambda_function", attributes), HELD)
    path = "`environment.variables.API_TOKEN`"
    assert found.message == f"the state contains {path}; not marked sensitive: {path}"
    assert found.severity is Severity.ERROR
    token = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"
    (other,) = of(state("x_thing", {"notes": [{"text": f"use {token}"}]}), HELD)
    assert "`notes.text`" in other.message
    assert token not in other.message


def test_what_a_state_marks_itself_counts_for_types_no_table_lists() -> None:
    """A mark is the word of a provider or of whoever wrote the code."""
    marked = [[{"type": "get_attr", "value": "pin"}], [{"type": "get_attr", "value": "empty"}]]
    report = state("x_thing", {"pin": "1234", "empty": None, "name": "n"}, marked=marked)
    assert said(report) == [("x_thing.a", "the state contains `pin`")]


def test_a_data_source_has_its_ephemeral_twin_for_a_remedy() -> None:
    """What is read so is never kept."""
    report = state("aws_secretsmanager_secret_version", {"secret_string": SECRET}, mode="data")
    (found,) = of(report, HELD)
    assert found.address == "data.aws_secretsmanager_secret_version.a"
    assert 'ephemeral "aws_secretsmanager_secret_version"' in (found.hint or "")


def test_a_state_that_cannot_be_read_is_not_fine() -> None:
    """An encrypted or broken state is skipped with its reason."""
    made = checkout(FILES)
    seen = Available(items=(state_of(made, b"{"),))
    report = check(HELD, made, inputs=CheckInputs(states=seen))
    assert any("cannot be read" in reason for reason in skips(report, HELD))


def test_without_a_plan_or_a_state_the_rule_is_skipped() -> None:
    """Nothing unlooked-at is reported as fine."""
    assert skips(check(HELD, FILES), HELD) == [NO_PLAN, NO_STATE]


@pytest.mark.parametrize(
    "change",
    [
        {"after": {"password": SECRET}, "after_sensitive": {"password": True}},
        {"after": {}, "after_unknown": {"password": True}, "after_sensitive": {"password": True}},
    ],
)
def test_secrets_that_a_plan_adds_to_the_state_are_reported(change: dict[str, Any]) -> None:
    """A value that is only known after apply ends in the state as well."""
    assert said(plan("aws_db_instance", change)) == [
        ("aws_db_instance.a", "the plan and the next state contain `password`")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"after": {"password": None}, "after_sensitive": {"password": True}},
        {"after": {"password_wo": None}, "after_sensitive": {"password_wo": True}},
        {"actions": ["delete"], "before": {"password": SECRET}, "after": None},
    ],
)
def test_a_plan_that_leaves_no_secret_behind_is_left_alone(change: dict[str, Any]) -> None:
    """Nothing given, given write-only, or gone after it."""
    assert said(plan("aws_db_instance", change)) == []


OLD = {"password": SECRET, "tags": {"a": "1"}}
MARK = {"password": True}


@pytest.mark.parametrize(
    "change",
    [
        {"actions": ["no-op"], "after": OLD},
        {"actions": ["update"], "after": {**OLD, "tags": {"a": "2"}}},
    ],
)
def test_a_plan_does_not_repeat_what_it_leaves_as_it_is(change: dict[str, Any]) -> None:
    """The secret is in the state already: that is found once, where the state is looked at."""
    marks = {"before_sensitive": MARK, "after_sensitive": MARK}
    assert said(plan("aws_db_instance", {"before": OLD, **marks, **change})) == []


@pytest.mark.parametrize(
    "change",
    [
        {"actions": ["update"], "after": {"password": f"{SECRET}2"}},
        {"actions": ["update"], "after": {}, "after_unknown": MARK},
        {"actions": ["delete", "create"], "after": OLD},
        {"actions": ["no-op"], "after": OLD, "importing": {"id": "db-1"}},
        {"actions": ["update"], "before": {"password": None}, "after": OLD},
    ],
)
def test_only_new_secrets_of_a_plan_are_reported(change: dict[str, Any]) -> None:
    """Another value, a new object in the place of the old, one that is taken over."""
    marks = {"before_sensitive": MARK, "after_sensitive": MARK}
    (found,) = said(plan("aws_db_instance", {"before": OLD, **marks, **change}))
    assert found == ("aws_db_instance.a", "the plan and the next state contain `password`")


def test_a_secret_that_loses_its_mark_is_reported_again() -> None:
    """From then on Terraform shows it."""
    value = {"environment": [{"variables": {"API_TOKEN": SECRET}}]}
    marked = {"environment": [{"variables": {"API_TOKEN": True}}]}
    change = {"actions": ["update"], "before": value, "after": {**value, "memory_size": 1}}
    kept = {**change, "before_sensitive": marked, "after_sensitive": marked}
    assert said(plan("aws_lambda_function", kept)) == []
    (found,) = of(plan("aws_lambda_function", {**change, "before_sensitive": marked}), HELD)
    assert found.severity is Severity.ERROR


def test_an_output_that_shows_a_secret_is_found_in_plan_and_state() -> None:
    """`nonsensitive` in a module that nobody can look into shows here at the latest."""
    change = {"after": {"password": SECRET}, "after_sensitive": {"password": True}}
    outputs = {
        "open": {"actions": ["create"], "before": None, "after": f"app:{SECRET}", "after_sensitive": False},
        "shut": {"actions": ["create"], "before": None, "after": SECRET, "after_sensitive": True},
        "other": {"actions": ["create"], "before": None, "after": "app", "after_sensitive": False},
        "later": {"actions": ["create"], "before": None, "after_unknown": True, "after_sensitive": False},
    }
    found = of(plan("aws_db_instance", change, outputs=outputs), OUTPUT)
    assert [one.message for one in found] == ["the output `open` will show a secret of this plan"]
    kept = {
        "open": {"value": {"login": SECRET}, "type": ["object", {"login": "string"}]},
        "shut": {"value": SECRET, "type": "string", "sensitive": True},
    }
    found = of(state("aws_db_instance", {"password": SECRET}, outputs=kept), OUTPUT)
    assert [one.message for one in found] == ["the output `open` shows a secret of this state"]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"actions": ["no-op"], "before": SECRET, "after": SECRET}, 0),
        ({"actions": ["no-op"], "before": SECRET, "after": SECRET, "before_sensitive": True}, 1),
        ({"actions": ["update"], "before": "x", "after": SECRET}, 1),
    ],
)
def test_unchanged_outputs_of_a_plan_are_not_reported(change: dict[str, Any], number: int) -> None:
    """They are in the state already, and every plan would tell them again; one that loses its mark is new."""
    held = {"after": {"password": SECRET}, "after_sensitive": {"password": True}}
    report = plan("aws_db_instance", held, outputs={"o": {"after_sensitive": False, **change}})
    assert len(of(report, OUTPUT)) == number


def test_a_secret_in_a_state_is_waived_by_its_address() -> None:
    """It stands in no file: the configuration waives it."""
    config = (
        "version: 1\nstacks:\n  - name: root\n    module: .\n    environment: prod\nchecks:\n  waivers:\n"
        "    - {rule: HF213, address: aws_db_instance.*, reason: a move, owner: me, until: 2027-01-01}\n"
    )
    (found,) = of(state("aws_db_instance", {"password": SECRET}, config=config), HELD)
    assert found.waived


def test_every_listed_type_has_a_remedy_and_readable_paths() -> None:
    """The tables are read as they are shipped: no path is empty, and each type is answered in sentences."""
    table = secret_facts._table("secret-attributes")
    for mode, name in (("managed", "resources"), ("data", "data")):
        for type_ in table[name]:
            assert secret_facts.remedy(mode, type_).endswith("."), type_
            assert all(all(one.steps) for one in secret_facts.secret_attributes(mode, type_)), type_


def test_every_write_only_twin_is_next_to_a_listed_secret() -> None:
    """Both tables speak of the same arguments: a twin of something nobody lists would never be offered."""
    table = secret_facts._table("write-only")
    for type_ in table["arguments"]:
        listed = secret_facts.secret_attributes("managed", type_)
        for twin in secret_facts.write_only_twins(type_):
            assert any(secret_facts.overlaps(one.steps, twin.steps) for one in listed), (type_, twin)


@pytest.mark.parametrize(
    ("listed", "steps", "covered", "met"),
    [
        (("a", "b"), ("a", "b"), True, True),
        (("a",), ("a", "b"), True, True),
        (("a", "b"), ("a",), False, True),
        (("a", "*", "c"), ("a", "x", "c"), True, True),
        (("a", "*"), ("b", "x"), False, False),
    ],
)
def test_paths_are_compared_step_by_step(
    listed: tuple[str, ...], steps: tuple[str, ...], *, covered: bool, met: bool
) -> None:
    """What is below a listed path belongs to it; what is above holds it."""
    assert (secret_facts.is_at_or_below(listed, steps), secret_facts.overlaps(listed, steps)) == (
        covered,
        met,
    )
