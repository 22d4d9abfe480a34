"""Documents that are put together: every way that they may be is looked at, and what may be all is told."""

from __future__ import annotations

import pytest
from checkouts import check, checkout, of, skips

from holdfast.checks.engine import catalogue
from holdfast.checks.iam.collect import policies_of_module
from holdfast.checks.iam.policy_types import PolicyKind as Kind
from holdfast.checks.model.interface import Rule

ALL = '{ Effect = "Allow", Action = "*", Resource = "*" }'
SOME = '{ Effect = "Allow", Action = "s3:GetObject", Resource = "arn:aws:s3:::a/*" }'
VERSION = 'Version = "2012-10-17"'
FILE = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
TRUST = (
    '{"Version": "2012-10-17", "Statement": '
    '[{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "arn:aws:iam::${account}:root"}}]}'
)


def rule(id_: str) -> Rule:
    found = catalogue.rule(id_)
    assert found is not None
    return found


def policy(expression: str, more: str = "") -> str:
    return f'resource "aws_iam_policy" "a" {{\n  policy = {expression}\n}}\n{more}'


def statements(expression: str) -> str:
    return policy(f"jsonencode({{ {VERSION}, Statement = {expression} }})")


def data(inside: str, more: str = "") -> str:
    used = 'resource "aws_iam_policy" "a" {\n  policy = data.aws_iam_policy_document.a.json\n}\n'
    return f'data "aws_iam_policy_document" "a" {{\n{inside}\n}}\n{used}{more}'


def dynamic(each: str, actions: str) -> str:
    content = f'content {{\n actions = {actions}\n resources = ["*"]\n }}'
    return f'dynamic "statement" {{\n for_each = {each}\n {content}\n}}'


def other(actions: str) -> str:
    return f'data "aws_iam_policy_document" "b" {{\n{dynamic("[1]", actions)}\n}}\n'


DANGEROUS = {
    "a side of a statement": statements(f"[{SOME}, var.x ? {ALL} : {SOME}]"),
    "a side of all statements": statements(f"var.x ? [{ALL}] : []"),
    "a side of a list that is joined": statements(f"concat([{SOME}], var.x ? [{ALL}] : [])"),
    "an element of a for": statements('[for b in var.b : { Effect = "Allow", Action = "*", Resource = b }]'),
    "an element of a known for": statements(
        '[for a in ["s3:Get*", "*"] : { Effect = "Allow", Action = a, Resource = "*" }]'
    ),
    "lists in lists": statements(f"flatten([[{SOME}], [[{ALL}]], var.x])"),
    "a list of what a function is given": policy(
        f"jsonencode(merge([{{ {VERSION} }}, {{ Statement = [{ALL}] }}]...))"
    ),
    "a local that names itself": policy(
        "jsonencode(local.a)", f"locals {{\n a = {{ {VERSION}, Statement = [{ALL}, local.a] }}\n}}\n"
    ),
    "objects put together": statements(f"[merge({ALL}, var.x ? {{ Sid = null }} : {{}})]"),
    "an object over one that is not known": policy(
        f"jsonencode(merge(var.x, {{ {VERSION}, Statement = [{ALL}] }}))"
    ),
    "a side of the actions": statements(
        '[{ Effect = "Allow", Action = var.x ? ["*"] : ["s3:Get*"], Resource = "*" }]'
    ),
    "a side of the effect": statements(
        '[{ Effect = var.x ? "Allow" : "Deny", Action = "*", Resource = "*" }]'
    ),
    "a local in a local": policy(
        "jsonencode(local.a)",
        f"locals {{\n a = {{ {VERSION}, Statement = local.b }}\n b = [{ALL}, var.x]\n}}\n",
    ),
    "a file that is decoded": policy('jsonencode(jsondecode(file("p/all.json")))'),
    "the first of several": policy(f"try(var.x, jsonencode({{ {VERSION}, Statement = [{ALL}] }}))"),
    "a dynamic block": data(dynamic("var.x", '["*"]')),
    "a dynamic block of known elements": data(dynamic('[["*"]]', "statement.value")),
    "a dynamic block with a name of its own": data(
        dynamic('[["*"]]\n iterator = one', "one.value"),
    ),
    "a document brought along as text": data(
        f"source_policy_documents = [jsonencode({{ {VERSION}, Statement = [{ALL}] }})]"
    ),
    "a document brought along as a file": data('override_policy_documents = [file("p/all.json")]'),
    "a template with braces": policy('templatefile("t.tpl", {})'),
    "a name that is not known": policy('file("${path.module}/p/all${var.x}.json")'),
    "an object that nobody encodes": f'module "a" {{\n policy = {{ {VERSION}, Statement = [{ALL}] }}\n}}\n',
    "a file of a module's argument": 'module "a" {\n policy = file("${path.module}/p/all.json")\n}\n',
}
FILES = {"p/all.json": FILE, "t.tpl": FILE.replace('"*"}', '"${jsonencode({ a = "b" })}"}')}


@pytest.mark.parametrize("name", DANGEROUS)
def test_a_document_is_as_dangerous_as_its_most_dangerous_way(name: str) -> None:
    """Whichever side Terraform takes, somebody may be given everything."""
    one = rule("HF504")
    report = check(one, {"main.tf": DANGEROUS[name], **FILES})
    assert len(of(report, one)) == 1


def test_a_condition_that_is_known_has_one_side() -> None:
    """What a constant leaves out is nowhere."""
    for decided, found in (("true", 1), ("false", 0)):
        code = statements(f"[local.open ? {ALL} : {SOME}]") + f"locals {{\n  open = {decided}\n}}\n"
        assert len(of(check(rule("HF504"), {"main.tf": code}), rule("HF504"))) == found


def test_what_may_not_be_there_takes_nothing_back() -> None:
    """A denial that only some elements of a `for` have may be none."""
    allow = '{ Effect = "Allow", Action = "s3:*", Resource = "*", Principal = "*" }'
    deny = (
        '{ Effect = "Deny", Action = "s3:*", Resource = "*", Principal = "*", '
        'Condition = { StringNotEquals = { "aws:PrincipalOrgID" = "o-1234567890" } } }'
    )
    one = rule("HF508")
    for condition, found in (("true", 0), ("var.x", 1)):
        listed = f"concat([{allow}], [for a in [1] : {deny} if {condition}])"
        code = f"jsonencode({{ {VERSION}, Statement = {listed} }})"
        report = check(one, {"main.tf": f'resource "aws_s3_bucket_policy" "a" {{\n  policy = {code}\n}}\n'})
        assert len(of(report, one)) == found


ANYTHING = {
    "a variable for statements": statements(f"concat([{SOME}], var.x)"),
    "a variable over all": policy(f"jsonencode(merge({{ {VERSION}, Statement = [{SOME}] }}, var.x))"),
    "a variable over a statement": statements(f"[merge({SOME}, var.x)]"),
    "a variable for actions": statements(
        '[{ Effect = "Allow", Action = var.x, Resource = "arn:aws:s3:::a" }]'
    ),
    "a variable for the service": statements(
        '[{ Effect = "Allow", Action = "${var.x}:*", Resource = "arn:aws:s3:::a" }]'
    ),
    "a variable for the effect": statements('[{ Effect = var.x, Action = "s3:Get*", Resource = "*" }]'),
    "a variable for the resource of a dangerous action": statements(
        '[{ Effect = "Allow", Action = "iam:PassRole", Resource = var.x }]'
    ),
    "a variable for the condition of a dangerous action": statements(
        '[{ Effect = "Allow", Action = "iam:PassRole", Resource = "*", Condition = var.x }]'
    ),
    "a variable in a dynamic block": data(dynamic("var.x", "statement.value.actions")),
    "a variable for documents": data(f'statement {{\n actions = ["s3:Get*"]\n }}\n{"source_json = var.x"}'),
    "a variable for who": data(
        'statement {\n actions = ["s3:Get*"]\n principals {\n type = "AWS"\n identifiers = var.x\n }\n }'
    ).replace('aws_iam_policy" "a', 'aws_s3_bucket_policy" "a'),
    "a condition that may not be there": data(
        'statement {\n actions = ["s3:Get*"]\n principals {\n type = "*"\n identifiers = ["*"]\n }\n'
        ' dynamic "condition" {\n for_each = var.x\n content {\n test = "Bool"\n variable = "a:b"\n'
        " values = []\n }\n }\n }"
    ).replace('aws_iam_policy" "a', 'aws_s3_bucket_policy" "a'),
    "a provider that is not known": data(
        'statement {\n actions = ["sts:AssumeRoleWithWebIdentity"]\n principals {\n type = "Federated"\n'
        ' identifiers = [var.x]\n }\n condition {\n test = "StringEquals"\n variable = "${var.y}:aud"\n'
        ' values = ["a"]\n }\n }'
    ).replace('aws_iam_policy" "a" {\n  policy', 'aws_iam_role" "a" {\n  assume_role_policy'),
    "quotes of a heredoc": policy(
        '<<EOF\n{"Statement": [{"Effect": "Allow", "Action": "${var.x}", "Resource": "*"}]}\nEOF'
    ),
    "lines of a template": policy('templatefile("if.tpl", {})'),
}


@pytest.mark.parametrize("name", ANYTHING)
def test_a_document_that_may_be_anything_is_partly_evaluated(name: str) -> None:
    """Never silence: a variable may hold `*`."""
    one = rule("HF501")
    template = '{"Statement": [%{ if x }{}%{ endif }]}'
    report = check(one, {"main.tf": ANYTHING[name], "if.tpl": template})
    (reason,) = skips(report, one)
    assert reason.startswith("only known at run time")


SEEN = {
    "objects of Terraform": statements(
        '[{ Effect = "Allow", Action = "kms:Decrypt", Resource = aws_kms_key.a.arn }]'
    ),
    "objects of Terraform in a heredoc": policy(
        '<<EOF\n{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "kms:Decrypt", '
        '"Resource": "${aws_kms_key.a.arn}"}]}\nEOF'
    ),
    "a part of a resource": statements(
        '[{ Effect = "Allow", Action = "s3:GetObject", Resource = "${var.x}/*" }]'
    ),
    "what is denied": statements('[{ Effect = "Deny", Action = var.x, Resource = "*" }]'),
    "who, of Terraform": policy(
        'jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", '
        "Principal = { AWS = [aws_iam_role.b.arn] } }] })"
    ).replace('aws_iam_policy" "a" {\n  policy', 'aws_iam_role" "a" {\n  assume_role_policy'),
    "a document of a data source that is decoded": data(
        'statement {\n actions = ["s3:GetObject"]\n resources = ["arn:aws:s3:::a/*"]\n }',
        policy(
            f"jsonencode({{ {VERSION}, Statement = "
            "concat(jsondecode(data.aws_iam_policy_document.a.json).Statement, []) })"
        ).replace('"a"', '"b"'),
    ),
    "documents of the module brought along": data(
        "source_policy_documents = [data.aws_iam_policy_document.b.json]",
        other('["s3:GetObject"]'),
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_cannot_be_everything_is_no_gap(name: str) -> None:
    """The ARN of an object is never `*`."""
    one = rule("HF501")
    report = check(one, {"main.tf": SEEN[name]})
    assert skips(report, one) == []
    assert of(report, one) == []


def test_a_document_that_is_brought_along_is_of_the_kind_of_the_whole() -> None:
    """What bounds an organization may begin with everything."""
    code = data(
        "source_policy_documents = [data.aws_iam_policy_document.b.json]",
        other('["*"]'),
    ).replace('"aws_iam_policy" "a" {\n  policy', '"aws_organizations_policy" "a" {\n  content')
    found = policies_of_module(checkout({"main.tf": code}).module(".")).policies
    assert {one.kind for one in found} == {Kind.ORGANIZATION}
    assert of(check(rule("HF504"), {"main.tf": code}), rule("HF504")) == []


def test_files_of_which_one_is_meant_are_each_of_their_own_kind() -> None:
    """`policies/*.json` for the rights, `policies/*-trust.json` for the trust."""
    code = (
        'resource "aws_iam_policy" "a" {\n  policy = file("policies/${each.key}.json")\n}\n'
        'resource "aws_iam_role" "a" {\n'
        '  assume_role_policy = templatefile("policies/${each.key}-trust.json", { account = "1" })\n}\n'
    )
    files = {
        "main.tf": code,
        "policies/a.json": FILE,
        "policies/a-trust.json": TRUST,
        "policies/b.json": "{}",
    }
    found = policies_of_module(checkout(files).module("."))
    assert {(one.file, one.kind) for one in found.policies} == {
        ("policies/a.json", Kind.IDENTITY),
        ("policies/a-trust.json", Kind.TRUST),
    }
    assert found.unresolved == ()


def test_a_provider_is_recognized_by_its_url() -> None:
    """A reference to it is its ARN, in conditions its host; a local in between changes nothing."""
    code = (
        'resource "aws_iam_openid_connect_provider" "a" {\n'
        '  url = "https://token.actions.githubusercontent.com"\n}\n'
        'locals {\n  host = replace(aws_iam_openid_connect_provider.a.url, "https://", "")\n}\n'
        'resource "aws_iam_role" "a" {\n  assume_role_policy = jsonencode({\n    Version = "2012-10-17"\n'
        '    Statement = [{\n      Effect = "Allow"\n      Action = "sts:AssumeRoleWithWebIdentity"\n'
        "      Principal = { Federated = aws_iam_openid_connect_provider.a%s }\n"
        '      Condition = { StringEquals = { "${local.host}:aud" = "sts.amazonaws.com" } }\n'
        "    }]\n  })\n}\n"
    )
    one = rule("HF511")
    for reference in (".arn", "[0].arn"):
        report = check(one, {"main.tf": code % reference})
        assert len(of(report, one)) == 1
        assert "any GitHub repository" in of(report, one)[0].message


def test_a_few_lines_do_not_make_a_document_without_end() -> None:
    """Locals that double each other, and a `for` in a `for` in a `for`."""
    doubling = "".join(f"  a{number} = [local.a{number + 1}, local.a{number + 1}]\n" for number in range(40))
    numbers = ", ".join(map(str, range(30)))
    nested = "[for a in [N] : [for b in [N] : [for c in [N] : [for d in [N] : var.x]]]]".replace("N", numbers)
    code = (
        f"locals {{\n{doubling}  a40 = [{ALL}, var.x]\n}}\n"
        + statements("flatten(local.a0)")
        + statements(f"flatten({nested})").replace('"a"', '"b"')
    )
    made = policies_of_module(checkout({"main.tf": code}).module("."))
    assert {address for _, address in (*made.unresolved, *made.partial)} == {
        "aws_iam_policy.a",
        "aws_iam_policy.b",
    }
