"""Rules about the output contract: in code, in plans and in states."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checkouts import check, checkout, lines, messages, of, plan_of, skips, state_of, the

from holdfast.checks.engine.running import NO_PLAN, NO_STATE, Available, CheckInputs
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report

HF401, HF402, HF403 = the("HF401"), the("HF402"), the("HF403")
CONFIG = """\
    version: 1
    targets:
      aws: { owner: ci, contract: { schema: contract.yaml } }
    stacks:
      - { name: root, module: ., environment: prod, target: aws }
    """
CONTRACT = """\
    version: 1
    name: acme
    outputs:
      name: string
      address: { type: address, says: where it is reached }
      gateways:
        type: object
        keys:
          prod: { type: address, aliases: [production] }
    """
GOOD = """\
    output "name" {
      value = "a"
    }
    output "address" {
      value = "192.0.2.1"
    }
    output "gateways" {
      value = { production = "gateway.example.com" }
    }
    """


def source(code: str, *, contract: str = CONTRACT, config: str = CONFIG) -> Report:
    return check((HF401, HF402, HF403), {"outputs.tf": code, "contract.yaml": contract}, config=config)


def test_outputs_that_hold_the_contract_pass() -> None:
    """Nothing is found, and nothing is left unlooked-at but plan and state."""
    report = source(GOOD)
    assert not report.findings
    assert {one.reason for one in report.skipped} == {NO_PLAN, NO_STATE}


def test_an_output_that_is_missing_is_found() -> None:
    """Which, what is wanted, and what it is for; in the file where it would stand."""
    report = source(GOOD.replace('output "address"', 'output "adress"'))
    assert messages(report) == [
        "`address` is missing; expected an IP address or a host name (where it is reached) (acme)"
    ]
    assert lines(report, HF401) == [("outputs.tf", None)]
    assert of(report, HF401)[0].address == "output.address"
    assert of(report, HF401)[0].stack == "root"


def test_a_key_that_is_missing_is_found_at_its_output() -> None:
    """With the line of the value."""
    report = source(GOOD.replace("production =", "test ="))
    assert messages(report) == ["`gateways.prod` is missing; expected an IP address or a host name (acme)"]
    assert lines(report, HF401) == [("outputs.tf", 8)]


def test_an_output_of_another_type_is_found() -> None:
    """Which, what is wanted, and what there is."""
    report = source(GOOD.replace('"192.0.2.1"', "[1]"))
    assert messages(report) == ["`address` must be an IP address or a host name, but is a list (acme)"]
    assert lines(report, HF402) == [("outputs.tf", 5)]


def test_values_are_those_of_the_stack() -> None:
    """Variables and locals are followed as everywhere."""
    code = GOOD.replace('"192.0.2.1"', "local.a") + 'locals {\n  a = "not an address"\n}\n'
    assert "`not an address`" in messages(source(code))[0]


def test_a_sensitive_value_is_never_shown() -> None:
    """Its kind is enough to mend it."""
    report = source(GOOD.replace('value = "192.0.2.1"', 'sensitive = true\n  value = "hush hush"'))
    assert messages(report) == ["`address` must be an IP address or a host name, but is a string (acme)"]


def test_an_override_file_is_laid_over_an_output() -> None:
    """What it does not say stays: a value with another's mark, a mark with another's value."""
    files = {"outputs.tf": GOOD, "contract.yaml": CONTRACT}
    override = 'output "address" {\n  sensitive = true\n}\n'
    report = check((HF401, HF402), {**files, "a_override.tf": override}, config=CONFIG)
    assert not report.findings
    assert {one.reason for one in report.skipped} == {NO_PLAN, NO_STATE}
    wrong = {**files, "outputs.tf": GOOD.replace("192.0.2.1", "hush hush"), "a_override.tf": override}
    report = check((HF401, HF402), wrong, config=CONFIG)
    assert messages(report) == ["`address` must be an IP address or a host name, but is a string (acme)"]
    other = override.replace("sensitive = true", 'value = "not an address"')
    report = check((HF401, HF402), {**files, "a_override.tf": other}, config=CONFIG)
    assert lines(report, HF402) == [("a_override.tf", 2)]


def test_an_unknown_value_is_skipped_and_does_not_pass() -> None:
    """All of it in one line."""
    report = source(GOOD.replace('"192.0.2.1"', "aws_eip.a.public_ip").replace('"a"', "var.name"))
    assert not report.findings
    assert skips(report, HF402)[0] == "not known until it is planned: `name`, `address`"


def test_an_output_without_a_value_is_terraforms_to_refuse() -> None:
    """It is there; what it is cannot be told."""
    report = source(GOOD.replace('value = "a"', 'description = "a"'))
    assert not report.findings
    assert skips(report, HF402)[0] == "not known until it is planned: `name`"


def test_a_file_that_cannot_be_read_may_hold_the_output() -> None:
    """So none is said to be missing."""
    report = source(GOOD.replace('output "name" {\n', 'output "name" {\n  = ='))
    assert not of(report, HF401)
    assert "outputs.tf could not be read in full" in skips(report, HF401)


@pytest.mark.parametrize(
    "config",
    [
        CONFIG.replace(", contract: { schema: contract.yaml }", ""),
        CONFIG.replace(", target: aws", ""),
        CONFIG.replace("schema: contract.yaml", "stacks: [other]"),
    ],
)
def test_a_stack_that_without_a_contract_is_not(config: str) -> None:
    """Its target names none, it has no target, or it is not one of those that are named."""
    assert not of(source("", config=config), HF401)


def test_the_contract_of_the_platform_is_built_in() -> None:
    """`contract: {}` is enough; every output of it is wanted."""
    report = source("", config=CONFIG.replace("schema: contract.yaml", ""))
    assert {one.address for one in of(report, HF401)} == {
        "output.cluster_name",
        "output.cluster_type",
        "output.kube_context",
        "output.cluster_gateway_public_address",
        "output.env_gateway_public_addresses",
        "output.dns_challenge_identities",
        "output.secrets_source_uri",
    }


def test_findings_can_be_waived_on_the_line_and_in_the_configuration() -> None:
    """Like those of any other rule."""
    mark = "# holdfast:ignore HF402 until=2027-01-01 reason=a test"
    on_line = source(GOOD.replace('"192.0.2.1"', f"[1] {mark}"))
    waiver = (
        "checks:\n  waivers:\n    - { rule: HF401, stack: root, owner: me, reason: a, until: 2027-01-01 }\n"
    )
    in_config = source("", config=CONFIG.replace("    ", "", 1).replace("\n    ", "\n") + waiver)
    assert [one.waived for one in of(on_line, HF402)] == [True]
    assert {one.waived for one in of(in_config, HF401)} == {True}


# Plans and states.


def planned(
    outputs: dict[str, Any], changes: tuple[str, ...] = (), declared: dict[str, Any] | None = None
) -> Report:
    made = checkout({"outputs.tf": GOOD, "contract.yaml": CONTRACT}, config=CONFIG)
    document = {
        "format_version": "1.2",
        "output_changes": outputs,
        "configuration": {"root_module": {"outputs": declared}} if declared is not None else {},
        "resource_changes": [
            {"address": f"a.b{index}", "mode": "managed", "type": "a", "change": {"actions": [action]}}
            for index, action in enumerate(changes)
        ],
    }
    plan = plan_of(made, json.dumps(document).encode())
    return check((HF401, HF402), made, inputs=CheckInputs(plans=Available(items=(plan,))))


def after(value: object, **more: object) -> dict[str, Any]:
    return {"actions": ["create"], "after": value, "after_unknown": False, **more}


RIGHT = {"name": after("a"), "address": after("192.0.2.1"), "gateways": after({"prod": "192.0.2.2"})}


def test_the_outputs_of_a_plan_are_compared() -> None:
    """Right ones pass; missing and wrong ones are told where they stand, or would."""
    assert not planned(RIGHT).findings
    report = planned({"name": after(5), "gateways": after({"prod": None})})
    assert {(one.rule.id, one.address, one.file) for one in report.findings} == {
        ("HF402", "output.name", "outputs.tf"),
        ("HF401", "output.address", "outputs.tf"),
        ("HF401", "output.gateways", "outputs.tf"),
    }
    assert all(one.severity is Severity.ERROR and one.stack == "root" for one in report.findings)


def test_an_output_that_a_plan_takes_away_is_missing() -> None:
    """It is there now, and will not be."""
    report = planned({**RIGHT, "name": {"actions": ["delete"], "before": "a", "after": None}}, ("create",))
    assert "`name` is missing" in messages(report)[0]


def test_an_output_that_is_known_after_apply_is_skipped() -> None:
    """Nothing unlooked-at is reported as fine."""
    report = planned({**RIGHT, "address": after(None, after_unknown=True)})
    assert not report.findings
    assert "not known until it is applied: `address`" in skips(report, HF402)


def test_outputs_that_a_plan_of_a_part_leaves_out_are_skipped() -> None:
    """With `--target` Terraform plans only outputs of what it was told: the others are there all the same."""
    report = planned({"gateways": RIGHT["gateways"]}, declared={name: {} for name in RIGHT})
    assert not report.findings
    assert "not known until it is applied: `name`, `address`" in skips(report, HF401)
    gone = planned({"gateways": RIGHT["gateways"]}, declared={"name": {}})
    assert [one.address for one in of(gone, HF401)] == ["output.address"]
    null = {"actions": ["delete"], "before": "a", "after": None}
    report = planned({**RIGHT, "name": null}, ("create",), declared={name: {} for name in RIGHT})
    assert [one.address for one in of(report, HF401)] == ["output.name"]


def test_a_sensitive_output_of_a_plan_is_never_shown() -> None:
    """Its mark stands beside it."""
    report = planned({**RIGHT, "address": after("hush hush", after_sensitive=True)})
    assert "hush" not in messages(report)[0]


def test_a_plan_that_destroys_the_stack_owes_nothing() -> None:
    """It is a skip, not a pass."""
    report = planned({"name": {"actions": ["delete"], "before": "a", "after": None}}, ("delete", "delete"))
    assert not report.findings
    assert "the plan deletes everything" in skips(report, HF401)


def applied(document: dict[str, Any] | bytes, code: str = GOOD) -> Report:
    made = checkout({"outputs.tf": code, "contract.yaml": CONTRACT}, config=CONFIG)
    whole: dict[str, Any] = {"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "l"}
    data = document if isinstance(document, bytes) else json.dumps({**whole, **document}).encode()
    state = state_of(made, data)
    return check((HF401, HF402), made, inputs=CheckInputs(states=Available(items=(state,))))


APPLIED = {
    "name": {"value": "a", "type": "string"},
    "address": {"value": "::1", "type": "string"},
    "gateways": {"value": {"prod": "a.example.com"}, "type": ["object", {"prod": "string"}]},
}


def test_what_was_applied_is_compared_where_the_code_does_not_show_it() -> None:
    """The code decides; what it leaves open is in the state."""
    assert not applied({"outputs": APPLIED, "resources": []}).findings
    wrong = {**APPLIED, "address": {"value": "nowhere at all", "type": "string", "sensitive": True}}
    assert not applied({"outputs": wrong, "resources": []}).findings
    computed = GOOD.replace('"192.0.2.1"', "aws_eip.a.public_ip\n      sensitive = true")
    report = applied({"outputs": wrong, "resources": []}, computed)
    assert messages(report) == ["`address` must be an IP address or a host name, but is a string (acme)"]


def test_an_output_that_was_added_since_the_last_apply_is_not_missing() -> None:
    """And one that was removed from the code is, although the state still has it."""
    older = {name: value for name, value in APPLIED.items() if name != "address"}
    assert not applied({"outputs": older, "resources": []}).findings
    computed = GOOD.replace('"192.0.2.1"', "aws_eip.a.public_ip")
    assert not applied({"outputs": older, "resources": []}, computed).findings
    removed = GOOD.replace('output "address"', 'output "other"')
    report = applied({"outputs": APPLIED, "resources": []}, removed)
    assert [one.address for one in of(report, HF401)] == ["output.address"]


def test_a_state_without_anything_is_skipped() -> None:
    """Nothing was applied yet, so nothing is broken."""
    report = applied({"outputs": {}, "resources": []})
    assert not report.findings
    assert "nothing has been applied yet" in skips(report, HF402)


def test_a_state_that_cannot_be_read_is_skipped() -> None:
    """With the reason."""
    for data in (b"{", b"", b'{"version": 4, "serial": 1, "lineage": "l", "outputs": {"a": 1}}'):
        report = applied(data)
        assert not report.findings
        assert any(one.startswith("the state") for one in skips(report, HF402))


# Contracts that cannot be used.


def test_a_contract_with_mistakes_is_found_at_their_lines() -> None:
    """All of them at once, and nothing is compared with it."""
    report = source(GOOD, contract="version: 1\noutputs:\n  a: adress\n  b: { typ: string }\n")
    assert [one.line for one in of(report, HF403)] == [3, 4, 4]
    assert "HF-CONTRACT-2 there is no type `adress`" in messages(report)[0]
    assert of(report, HF403)[0].hint == "Did you mean `address`?"
    assert "the contract contract.yaml cannot be used" in skips(report, HF401)


def test_a_contract_that_is_not_there_is_found_in_the_configuration() -> None:
    """Where it is named."""
    report = source(GOOD, config=CONFIG.replace("contract.yaml", "contracts/other.yaml"))
    assert lines(report, HF403) == [("holdfast.yaml", 3)]
    assert "HF-CONTRACT-1" in messages(report)[0]


def test_a_contract_that_holds_for_no_stack_is_found() -> None:
    """A misspelt name would leave the stack that was meant unlooked-at."""
    report = source(GOOD, config=CONFIG.replace("schema: contract.yaml", "stacks: [rot]"))
    assert "no stack of the target `aws` matches `rot`" in messages(report)[0]


def test_a_contract_can_be_waived_in_the_configuration() -> None:
    """While it is being written."""
    waiver = "checks:\n  waivers:\n    - { rule: HF403, owner: me, reason: a, until: 2027-01-01 }\n"
    config = CONFIG.replace("    ", "", 1).replace("\n    ", "\n") + waiver
    assert [one.waived for one in of(source(GOOD, contract="version: 1\n", config=config), HF403)] == [True]
