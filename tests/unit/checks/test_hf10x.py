"""HF101 to HF103: what belongs to GitOps, in code, plans and states."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checkouts import check, checkout, lines, messages, of, plan_of, skips, state_of
from plan_documents import change

from holdfast.checks.boundary.ownership import owner_of_type
from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.interface import Rule
from holdfast.checks.model.report import Report
from holdfast.checks.rules.backends.hf101_gitops_resources import HF101 as WRITES
from holdfast.checks.rules.backends.hf101_gitops_resources import HF102 as READS
from holdfast.checks.rules.backends.hf103_gitops_provider import RULE as PROVIDER
from holdfast.config.checks import BoundarySettings, Side

HELM = 'resource "helm_release" "a" {\n  name = "a"\n}\n'
KUBE = 'resource "kubernetes_namespace" "a" {}\n'
STACKS = """
version: 1
targets: { local: { owner: developers }, aws: { owner: ci } }
stacks:
  - { name: local, module: local, target: local, environment: prod }
  - { name: aws, module: aws, target: aws, environment: prod }
"""
CALL = 'module "argocd" {\n  source = "../argocd"\n}\n'


def boundary(text: str, stacks: str = STACKS) -> str:
    return f"{stacks}checks:\n  boundary: {text}\n"


@pytest.mark.parametrize(
    "type_",
    ["kubernetes_manifest", "helm_release", "kubectl_manifest", "argocd_application", "flux_bootstrap_git"],
)
def test_what_is_in_a_cluster_is_gitops_own(type_: str) -> None:
    """Every type of the built-in table is found, at its block."""
    report = check(WRITES, {"main.tf": f'resource "{type_}" "a" {{\n  x = 1\n}}\n'})
    assert lines(report, WRITES) == [("main.tf", 1)]
    assert of(report, WRITES)[0].address == f"{type_}.a"


def test_what_is_under_a_cluster_is_terraforms() -> None:
    """The cluster itself, its roles and its nodes are never found; nor is a block that takes one out."""
    code = 'resource "aws_eks_cluster" "a" {}\nresource "azurerm_kubernetes_cluster" "b" {}\n'
    code += "removed {\n  from = helm_release.a\n}\n"
    assert messages(check((WRITES, READS, PROVIDER), {"main.tf": code})) == []


def test_the_most_exact_pattern_decides() -> None:
    """A type by its name is nearer than a pattern, and a longer pattern than a shorter one."""
    table = BoundarySettings(
        types={
            "kubernetes_*": Side.TERRAFORM,
            "kubernetes_manifest": Side.GITOPS,
            "kubernetes_cluster_*": Side.GITOPS,
            "datadog_*": Side.GITOPS,
        }
    )
    assert owner_of_type("kubernetes_namespace", table) is Side.TERRAFORM
    assert owner_of_type("kubernetes_manifest", table) is Side.GITOPS
    assert owner_of_type("kubernetes_cluster_role", table) is Side.GITOPS
    assert owner_of_type("datadog_monitor", table) is Side.GITOPS
    assert owner_of_type("helm_release", table) is Side.GITOPS
    assert owner_of_type("datadog_monitor", BoundarySettings()) is Side.TERRAFORM


def test_the_table_of_the_configuration_counts() -> None:
    """A type that `checks.boundary.types` gives to Terraform is right; one that it takes is found."""
    config = boundary("{ types: { kubernetes_namespace: terraform, 'aws_*': gitops } }")
    files = {"local/main.tf": KUBE, "aws/main.tf": 'resource "aws_vpc" "a" {}\n'}
    assert lines(check(WRITES, files, config=config), WRITES) == [("aws/main.tf", 1)]


EXEMPT = boundary("{ exempt: [{ stack: 'target:local', reason: a laptop, types: [helm_release] }] }")


def test_an_exempt_stack_may_write_what_it_is_exempt_for() -> None:
    """Only the types of the exemption, and only the stacks that it names."""
    files = {"local/main.tf": HELM + KUBE, "aws/main.tf": HELM}
    report = check(WRITES, files, config=EXEMPT)
    assert lines(report, WRITES) == [("aws/main.tf", 1), ("local/main.tf", 4)]


def test_a_shared_module_is_right_only_if_all_its_stacks_are_exempt() -> None:
    """One stack that is not exempt makes the code of the module wrong."""
    both = {"local/main.tf": CALL, "aws/main.tf": CALL, "argocd/main.tf": HELM}
    assert lines(check(WRITES, both, config=EXEMPT), WRITES) == [("argocd/main.tf", 1)]
    one = {**both, "aws/main.tf": "locals {}\n"}
    assert lines(check(WRITES, one, config=EXEMPT), WRITES) == []


def test_a_stack_that_makes_none_of_a_shared_module_does_no_harm() -> None:
    """What the exempt stack may install, others can leave out by their values; one that does not is named."""
    module = 'variable "on" {}\n' + HELM.replace("{\n", "{\n  count = var.on ? 1 : 0\n", 1)
    calls = {f"{name}/main.tf": CALL.replace("}", "  on = true\n}") for name in ("local", "aws")}
    files = {**calls, "argocd/main.tf": module}
    found = of(check(WRITES, files, config=EXEMPT), WRITES)
    assert [(one.file, one.stack) for one in found] == [("argocd/main.tf", "aws")]
    for off in ("  on = false\n}", "  on = true\n  count = 0\n}", "  on = true\n  for_each = {}\n}"):
        assert messages(check(WRITES, {**files, "aws/main.tf": CALL.replace("}", off)}, config=EXEMPT)) == []
    both = {name: CALL.replace("}", "  on = false\n}") for name in calls}
    assert len(of(check(WRITES, {**both, "argocd/main.tf": module}, config=STACKS), WRITES)) == 1


def test_code_that_no_stack_uses_is_checked() -> None:
    """No stack, no exemption."""
    files = {"local/main.tf": "", "aws/main.tf": "", "old/main.tf": HELM}
    assert lines(check(WRITES, files, config=EXEMPT), WRITES) == [("old/main.tf", 1)]


def test_a_name_or_type_that_is_missing_does_not_stop_the_rule() -> None:
    """Half a block is not a finding of ours, and what follows it is still found."""
    code = 'resource {}\nresource "helm_release" {}\n' + HELM
    assert [one.line for one in of(check(WRITES, {"main.tf": code}), WRITES)] == [2, 3]


def test_a_count_that_is_unknown_or_none_changes_nothing() -> None:
    """What belongs to GitOps belongs to it however many there are."""
    code = 'variable "n" {}\nresource "helm_release" "a" {\n  count = var.n\n}\n'
    assert len(of(check(WRITES, {"main.tf": code}), WRITES)) == 1


def test_data_and_ephemeral_are_only_read() -> None:
    """They are HF102's, and resources are not."""
    code = 'data "kubernetes_service" "a" {}\nephemeral "kubernetes_token_request_v1" "b" {}\n'
    report = check((WRITES, READS), {"main.tf": code + HELM})
    assert [one.address for one in of(report, READS)] == [
        "data.kubernetes_service.a",
        "ephemeral.kubernetes_token_request_v1.b",
    ]
    assert [one.address for one in of(report, WRITES)] == ["helm_release.a"]


@pytest.mark.parametrize(("rule", "prefix"), [(WRITES, ""), (READS, "data.")])
def test_the_configuration_can_waive_an_address(rule: Rule, prefix: str) -> None:
    """A waiver with an address covers that resource and no other."""
    config = f"""
    version: 1
    stacks: [{{ name: root, module: ., environment: prod }}]
    checks:
      waivers:
        - rule: {rule.id}
          address: "{prefix}helm_release.a"
          owner: us
          reason: moving
          until: 2027-01-01
    """
    code = "".join(
        f'{kind} "helm_release" "{name}" {{}}\n' for kind in ("resource", "data") for name in ("a", "b")
    )
    waived = {one.address: one.waived for one in of(check(rule, {"main.tf": code}, config=config), rule)}
    assert waived == {f"{prefix}helm_release.a": True, f"{prefix}helm_release.b": False}


# Providers.


def test_a_provider_is_found_where_it_is_set_up() -> None:
    """Every configuration of it, aliases too; the demand beside it is not said again."""
    code = """\
    terraform {
      required_providers {
        kubernetes = { source = "hashicorp/kubernetes" }
      }
    }
    provider "kubernetes" {}
    provider "kubernetes" {
      alias = "b"
    }
    """
    assert lines(check(PROVIDER, {"main.tf": code}), PROVIDER) == [("main.tf", 6), ("main.tf", 7)]


def test_a_provider_that_is_only_required_is_reported_too() -> None:
    """By its source, whatever it is called here; one whose source is not told goes by its name."""
    code = """\
    terraform {
      required_providers {
        k    = { source = "hashicorp/kubernetes", version = "~> 2" }
        helm = "~> 2"
        kubectl = local.x
        kubernetes = { source = "acme/orders" }
        aws  = { source = "hashicorp/aws" }
      }
    }
    """
    found = of(check(PROVIDER, {"main.tf": code}), PROVIDER)
    assert [(one.line, one.message.split("`")[1]) for one in found] == [
        (3, "kubernetes"),
        (4, "helm"),
        (5, "kubectl"),
    ]


def test_a_provider_that_terraform_needs_is_right() -> None:
    """Where the table or an exemption lets the stack write a type of it, it needs the provider."""
    provider = 'provider "kubernetes" {}\n'
    config = boundary("{ types: { kubernetes_namespace: terraform } }")
    files = {"local/main.tf": provider + KUBE, "aws/main.tf": provider, "old/main.tf": provider + KUBE}
    assert lines(check(PROVIDER, files, config=config), PROVIDER) == [("aws/main.tf", 1)]
    helm = 'provider "helm" {}\n'
    files = {"local/main.tf": helm + CALL, "argocd/main.tf": HELM, "aws/main.tf": helm}
    assert lines(check(PROVIDER, files, config=EXEMPT), PROVIDER) == [("aws/main.tf", 1)]


# Plans and states.


def planned(files: dict[str, str], *changes: dict[str, Any], rule: Rule = WRITES) -> Report:
    made = checkout(files)
    document = {"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": list(changes)}
    plan = plan_of(made, json.dumps(document).encode())
    return check(rule, made, inputs=CheckInputs(plans=Available(items=(plan,))))


def test_a_plan_shows_what_modules_from_outside_make() -> None:
    """Their code is not in the repository: the finding has the address, once for all its instances."""
    made = [
        {**change("helm_release.a", "create"), "address": f"module.eks.helm_release.a[{index}]"}
        for index in (0, 1)
    ]
    found = of(planned({"main.tf": 'module "eks" {\n  source = "acme/eks/aws"\n}\n'}, *made), WRITES)
    assert [(one.file, one.address, one.stack) for one in found] == [
        (None, "module.eks.helm_release.a", "root")
    ]


def test_what_the_code_shows_is_not_reported_again_by_the_plan() -> None:
    """Plan and code agree on the place: one finding, and a waiver on the line covers both."""
    files = {"main.tf": 'module "m" {\n  source = "./m"\n}\n', "m/main.tf": HELM}
    made = {**change("helm_release.a", "create"), "address": "module.m.helm_release.a"}
    assert lines(planned(files, made), WRITES) == [("m/main.tf", 1)]
    files["m/main.tf"] = "# holdfast:ignore HF101 until=2027-01-01 reason=moving\n" + HELM
    assert [one.waived for one in of(planned(files, made), WRITES)] == [True]


@pytest.mark.parametrize("action", ["delete", "forget"])
def test_what_is_on_its_way_out_is_no_finding(action: str) -> None:
    """Taking it away is the remedy."""
    assert messages(planned({"main.tf": ""}, change("helm_release.a", action)), WRITES) == []
    assert len(of(planned({"main.tf": ""}, change("helm_release.a", "no-op")), WRITES)) == 1


def test_a_read_during_the_apply_is_reported() -> None:
    """A data source of a module from elsewhere shows in the plan."""
    made = {**change("kubernetes_service.a", "read"), "mode": "data", "address": "data.kubernetes_service.a"}
    report = planned({"main.tf": ""}, made, rule=READS)
    assert [one.address for one in of(report, READS)] == ["data.kubernetes_service.a"]


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (boundary("{}"), ["module.eks.provider.kubernetes"]),
        (boundary("{ exempt: [{ stack: aws, reason: moving }] }"), []),
        (boundary("{ types: { 'kubernetes_*': terraform, 'tls_*': gitops } }"), ["module.eks.provider.tls"]),
    ],
)
def test_a_plan_shows_providers_that_modules_from_outside_set_up(config: str, found: list[str]) -> None:
    """Not those that are only asked for, nor those of code that is here: that has a line."""
    made = checkout({"local/main.tf": "", "aws/main.tf": CALL, "argocd/main.tf": ""}, config=config)
    kubernetes = {"name": "k", "full_name": "registry.terraform.io/hashicorp/kubernetes", "expressions": {}}
    tls = {"name": "tls", "full_name": "registry.terraform.io/hashicorp/tls", "expressions": {}}
    helm = {"name": "helm", "full_name": "registry.terraform.io/hashicorp/helm"}
    providers = {
        "module.eks:k": {**kubernetes, "module_address": "module.eks"},
        "module.eks:tls": {**tls, "module_address": "module.eks"},
        "module.eks:helm": {**helm, "module_address": "module.eks"},
        "k": kubernetes,
        "module.argocd:k": {**kubernetes, "module_address": "module.argocd"},
    }
    document = {"format_version": "1.2", "configuration": {"provider_config": providers}}
    plan = plan_of(made, json.dumps(document).encode(), "aws")
    report = check(PROVIDER, made, inputs=CheckInputs(plans=Available(items=(plan,))))
    assert [one.address for one in of(report, PROVIDER)] == found


def kept(files: dict[str, str], data: bytes, rule: Rule = WRITES) -> Report:
    made = checkout(files)
    return check(rule, made, inputs=CheckInputs(states=Available(items=(state_of(made, data),))))


def state(*resources: dict[str, Any]) -> bytes:
    document = {"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "l", "outputs": {}}
    return json.dumps({**document, "resources": list(resources)}).encode()


def held(mode: str, type_: str, **more: Any) -> dict[str, Any]:
    provider = 'provider["registry.terraform.io/hashicorp/helm"]'
    instance = {"schema_version": 0, "attributes": {"id": "a"}, "index_key": "x"}
    return {
        "mode": mode,
        "type": type_,
        "name": "a",
        "provider": provider,
        "instances": [instance],
        **more,
    }


def test_a_state_shows_what_the_code_no_longer_does() -> None:
    """With its address, whichever module and instance it is of."""
    data = state(
        held("managed", "helm_release", module='module.eks["b.c"]'),
        held("managed", "aws_vpc"),
        held("data", "kubernetes_service"),
    )
    found = of(kept({"main.tf": ""}, data), WRITES)
    assert [(one.file, one.address) for one in found] == [(None, "module.eks.helm_release.a")]
    found = of(kept({"main.tf": ""}, data, READS), READS)
    assert [one.address for one in found] == ["data.kubernetes_service.a"]


def test_a_state_that_cannot_be_read_is_a_skip() -> None:
    """Nobody looked: that is said with the reason."""
    assert skips(kept({"main.tf": ""}, b"{"), WRITES)[-1].startswith("the state cannot be read")
