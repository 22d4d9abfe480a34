"""HF505 to HF516: what looks bounded, named or tagged and is not."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from checkouts import check, lines, messages, of, skips

from holdfast.checks.engine import catalogue
from holdfast.checks.model.interface import Rule, Severity

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
GITHUB = "token.actions.githubusercontent.com"
OWN = """\
version: 1
company: acme
stacks:
  - { name: root, module: ., environment: prod, account: main, region: eu-west-1 }
checks:
  accounts: { main: "111122223333" }
"""


def rule(id_: str) -> Rule:
    found = catalogue.rule(id_)
    assert found is not None
    return found


def code(type_: str, argument: str, statement: Mapping[str, object]) -> str:
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}
    return f'resource "{type_}" "a" {{\n  {argument} = jsonencode({json.dumps(document)})\n}}\n'


def found(id_: str, text: str, config: str = OWN) -> list[tuple[Severity, str]]:
    one = rule(id_)
    report = check(one, {"main.tf": text}, config=config)
    assert not [other for other in report.findings if other.rule.id == "HF905"]
    return [(item.severity, item.message) for item in of(report, one)]


def levels(id_: str, text: str, config: str = OWN) -> list[Severity]:
    return [severity for severity, _ in found(id_, text, config)]


# HF505


@pytest.mark.parametrize(
    ("action", "resource", "expected"),
    [
        ("iam:PassRole", "arn:aws:iam::111122223333:role/*", [WARNING]),
        ("iam:PassRole", "arn:aws:iam::*:*", [WARNING]),
        ("iam:PassRole", "arn:${data.a.b.partition}:iam::${data.a.b.account_id}:role/*", [WARNING]),
        ("iam:*", "arn:aws:iam::*:user/*", [WARNING]),
        ("sts:AssumeRole", "arn:aws-cn:iam::*:role/*", [NOTE]),
        ("s3:*", "arn:aws:s3:::*", [WARNING]),
        ("secretsmanager:*", "arn:aws:secretsmanager:*:*:secret:*", [NOTE]),
        ("iam:PassRole", "arn:aws:iam::111122223333:role/app-*", []),
        ("iam:PassRole", "arn:aws:iam::111122223333:user/*", []),
        ("iam:*", "arn:aws:iam::*:server-certificate/*", []),
        ("iam:PassRole", "arn:aws:iam::111122223333:role/${var.a}*", []),
        ("kms:Decrypt", "arn:aws:s3:::*", []),
    ],
)
def test_all_of_a_kind_is_everything(action: str, resource: str, expected: list[Severity]) -> None:
    """HF505: every role is every role, whether it is written `*` or as an ARN."""
    statement = {"Action": action, "Resource": [resource, "arn:aws:iam::111122223333:role/a"]}
    assert levels("HF505", code("aws_iam_policy", "policy", statement)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"StringLike": {"iam:PassedToService": "*"}}, [WARNING]),
        ({"BoolIfExists": {"aws:MultiFactorAuthPresent": "true"}}, [WARNING]),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}, [WARNING]),
        ({"StringLike": {"aws:PrincipalArn": "arn:aws:iam::*:*"}}, [WARNING]),
        ({"StringEqualsIfExists": {"iam:PassedToService": "ec2.amazonaws.com"}}, []),
        ({"Bool": {"aws:MultiFactorAuthPresent": "true"}}, []),
        ({"StringNotEquals": {"aws:ResourceTag/a": "b"}}, []),
    ],
)
def test_a_condition_that_bounds_nothing_does_not_count(condition: object, expected: list[Severity]) -> None:
    """HF505: it matches everything, or holds where the key is missing."""
    statement = {"Action": "iam:PassRole", "Resource": "*", "Condition": condition}
    assert levels("HF505", code("aws_iam_policy", "policy", statement)) == expected


# HF508 and HF509


@pytest.mark.parametrize(
    ("principal", "condition", "counts"),
    [
        ({"Service": "*"}, {}, True),
        ({"CanonicalUser": "*"}, {}, True),
        ("*", {"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:*"}}, True),
        ("*", {"IpAddress": {"aws:SourceIp": ["0.0.0.0/1", "128.0.0.0/1"]}}, True),
        ("*", {"StringEquals": {"aws:PrincipalAccount": "$${aws:PrincipalAccount}"}}, True),
        ("*", {"StringEquals": {"${var.key}:SourceAccount": "111122223333"}}, False),
        ('${var.open ? "*" : ""}', {}, True),
    ],
)
def test_everyone_is_everyone(principal: object, condition: object, *, counts: bool) -> None:
    """HF508: as a service, behind a condition that everybody meets, on one side of a choice."""
    statement = {"Action": "sqs:SendMessage", "Resource": "*", "Principal": principal, "Condition": condition}
    text = code("aws_sqs_queue_policy", "policy", statement).replace('\\"', '"')
    assert bool(found("HF508", text)) is counts


@pytest.mark.parametrize(
    ("condition", "counts"),
    [
        ({"ArnLike": {"aws:SourceArn": "arn:aws:events:*:*:rule/*"}}, True),
        ({"ArnLikeIfExists": {"aws:SourceArn": "arn:aws:events:eu-west-1:111122223333:rule/a"}}, True),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:events:*:111122223333:rule/*"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:events:*:${var.account}:rule/*"}}, False),
    ],
)
def test_an_arn_of_any_account_names_no_sender(condition: object, *, counts: bool) -> None:
    """HF509: everybody has rules of EventBridge. What of the service is not known is shown as such."""
    who = {"Service": "events.${data.aws_partition.a.dns_suffix}"}
    statement = {"Action": "sqs:SendMessage", "Resource": "*", "Principal": who, "Condition": condition}
    said = found("HF509", code("aws_sqs_queue_policy", "policy", statement))
    assert said == ([(NOTE, "`events.…` is allowed for every account")] if counts else [])


def test_load_balancers_need_the_account_in_the_path() -> None:
    """HF509: without it every account's may write."""
    who = {"Service": "logdelivery.elasticloadbalancing.amazonaws.com"}
    for place, counts in (("AWSLogs/111122223333/*", False), ("AWSLogs/${var.a}/*", False), ("*", True)):
        statement = {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::logs/{place}", "Principal": who}
        assert bool(found("HF509", code("aws_s3_bucket_policy", "policy", statement))) is counts


# HF511 and HF512


def trust(host: str, condition: object) -> str:
    statement = {
        "Principal": {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{host}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": condition,
    }
    return code("aws_iam_role", "assume_role_policy", statement)


def asked(host: str, **tests: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Claims by operator, and the audience."""
    named = {
        operator.replace("__", ":"): {f"{host}:{claim}": value for claim, value in claims.items()}
        for operator, claims in tests.items()
    }
    audience = {f"{host}:aud": "sts.amazonaws.com"}
    return {**named, "StringEquals": {**named.get("StringEquals", {}), **audience}}


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ({"StringNotEquals": {"sub": "repo:evil/app:pull_request"}}, [ERROR]),
        ({"StringNotLike": {"sub": "repo:evil/*"}}, [ERROR]),
        ({"Null": {"sub": "false"}}, [ERROR]),
        ({"StringLike": {"repository": "*/app"}}, [ERROR]),
        ({"StringLike": {"job_workflow_ref": "*/app/.github/workflows/a.yml@*"}}, [ERROR]),
        ({"StringLike": {"repository_owner": "octo*"}}, [ERROR]),
        ({"StringEquals": {"sub": "environment:prod"}}, [ERROR]),
        ({"StringLike": {"sub": ["repo:octo/app:pull_request", "repo:*/${var.a}:*"]}}, [ERROR]),
        ({"ForAllValues__StringLike": {"sub": "repo:octo/app:pull_request"}}, [NOTE]),
        ({"ForAllValues__StringLike": {"sub": "repo:octo*"}}, [NOTE, ERROR]),
        ({"StringLike": {"repository": "octo/*"}}, []),
        ({"StringEquals": {"repository_owner_id": "12"}}, [WARNING]),
        ({"ForAnyValue__StringLike": {"sub": "repo:octo/app:ref:refs/heads/*"}}, []),
    ],
)
def test_a_github_trust_names_the_repository(
    tests: Mapping[str, Mapping[str, object]], expected: list[Severity]
) -> None:
    """HF511: what says who may not come, or what anybody can choose, says nothing."""
    assert levels("HF511", trust(GITHUB, asked(GITHUB, **tests))) == expected


def test_an_enterprise_is_not_everybody_and_still_many() -> None:
    """HF511: an issuer of one's own lets in all repositories of the enterprise."""
    host = f"{GITHUB}/acme"
    assert levels("HF511", trust(host, asked(host))) == [WARNING]
    assert levels("HF511", trust(host, asked(host, StringEquals={"sub": "repo:acme/a:pull_request"}))) == []


def test_a_key_with_a_hole_is_what_it_ends_with() -> None:
    """HF511: `${var.host}:sub` beside GitHub's provider is the subject."""
    hole = "${var.host}"
    fine = asked(hole, StringEquals={"sub": "repo:octo/app:pull_request"})
    wide = asked(hole, StringLike={"sub": "repo:*/app:pull_request"})
    assert levels("HF511", trust(GITHUB, fine)) == []
    assert levels("HF511", trust(GITHUB, wide)) == [ERROR]


EKS = "oidc.eks.eu-west-1.amazonaws.com/id/ABC"
TERRAFORM = "app.terraform.io"
COGNITO = "cognito-identity.amazonaws.com"


@pytest.mark.parametrize(
    ("host", "condition", "expected"),
    [
        ("gitlab.com", asked("gitlab.com", StringLike={"sub": "project_path:*"}), [ERROR]),
        ("gitlab.com", asked("gitlab.com", StringLike={"sub": "project_path:acme/*"}), []),
        (TERRAFORM, asked(TERRAFORM, StringLike={"sub": "organization:*:project:a:*"}), [ERROR]),
        (TERRAFORM, asked(TERRAFORM, StringNotLike={"sub": "organization:evil:*"}), [ERROR]),
        (TERRAFORM, {"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}, [ERROR]),
        ("git.acme.com", {"Bool": {"aws:SecureTransport": "true"}}, [ERROR]),
        ("git.acme.com", asked("git.acme.com"), []),
        ("git.acme.com/_services/token", asked("git.acme.com/_services/token"), [WARNING]),
        (COGNITO, {"ForAnyValue:StringLike": {f"{COGNITO}:amr": "authenticated"}}, [ERROR]),
        (COGNITO, asked(COGNITO), []),
        ("accounts.google.com", {"StringLike": {"accounts.google.com:sub": "*"}}, [ERROR]),
        (EKS, asked(EKS), [WARNING]),
        (EKS, asked(EKS, StringLike={"sub": "system:serviceaccount:*:deploy"}), [WARNING]),
        (EKS, asked(EKS, StringLike={"sub": "system:serviceaccount:apps:*"}), []),
    ],
)
def test_a_provider_of_many_needs_more_than_an_audience(
    host: str, condition: object, expected: list[Severity]
) -> None:
    """HF512: how much a condition says depends on for whom the provider signs."""
    assert levels("HF512", trust(host, condition)) == expected


def test_a_provider_that_is_a_reference_needs_a_condition() -> None:
    """HF512: whatever it is; where a condition names a subject of it, nothing is said."""
    text = trust("x", None).replace('"arn:aws:iam::111122223333:oidc-provider/x"', "module.a.provider_arn")
    assert levels("HF512", text.replace(', "Condition": null', "")) == [ERROR]
    subject = ', "Condition": {"StringEquals": {"${module.a.host}:sub": "system:serviceaccount:a:b"}}'
    assert levels("HF512", text.replace(', "Condition": null', subject)) == []


# HF513, HF515, HF516

TWO = """\
version: 1
stacks:
  - { name: root, module: ., environment: prod, account: main, region: eu-west-1 }
  - { name: dev, module: m, environment: dev, account: other, region: eu-west-1 }
checks:
  accounts: { main: "111122223333", other: "580247275435" }
"""


def test_layers_that_others_publish_are_theirs() -> None:
    """HF513: one of an account of the repository's own is not."""
    layer = {
        "Action": "lambda:GetLayerVersion",
        "Resource": "arn:aws:lambda:eu-west-1:580247275435:layer:a:1",
    }
    assert found("HF513", code("aws_iam_policy", "policy", layer)) == []
    files = {"main.tf": code("aws_iam_policy", "policy", layer), "m/main.tf": ""}
    report = check(rule("HF513"), files, config=TWO)
    assert len(of(report, rule("HF513"))) == 1


CONVENTION = OWN + '  names: { "aws_*": "{company}-{environment}-*" }\n  tags: { Owner: "*" }\n'


@pytest.mark.parametrize(
    ("argument", "counts"),
    [
        ('bucket_prefix = "other-"', True),
        ('name_prefix = "acme-prod-"', False),
        ('name_prefix = "acme-prod"', True),
        ('identifier_prefix = "acme-dev-"', True),
    ],
)
def test_the_beginning_of_a_name_follows_the_convention(argument: str, *, counts: bool) -> None:
    """HF515: the provider only adds to its end."""
    text = f'resource "aws_s3_bucket" "a" {{\n  {argument}\n}}\n'
    assert bool(found("HF515", text, CONVENTION)) is counts


def test_a_beginning_is_not_the_whole_name() -> None:
    """HF515: where the convention has an end, what the provider adds does not follow it."""
    text = 'resource "aws_s3_bucket" "a" {\n  bucket_prefix = "acme-logs"\n}\n'
    told = "`acme-logs…` does not follow the convention `acme-logs`"
    assert found("HF515", text, OWN + '  names: { "aws_*": acme-logs }\n') == [(WARNING, told)]


def test_a_name_that_is_not_known_is_reported_as_not_evaluated() -> None:
    """HF515 and HF516: with the addresses, once for a file."""
    text = "".join(
        f'resource "aws_s3_bucket" "{name}" {{\n  bucket = random_id.a.hex\n  tags = var.t\n}}\n'
        for name in "abcd"
    )
    listed = "aws_s3_bucket.a, aws_s3_bucket.b, aws_s3_bucket.c, …"
    for id_, what in (("HF515", "name"), ("HF516", "tags")):
        report = check(rule(id_), {"main.tf": text}, config=CONVENTION)
        assert skips(report, rule(id_)) == [f"only known at run time: the {what} of {listed}"]


def test_what_has_tags_needs_them_even_if_none_are_written() -> None:
    """HF516: a bucket without a word about tags has none."""
    text = 'resource "aws_s3_bucket" "a" {}\nresource "aws_s3_bucket_policy" "a" {}\n'
    assert found("HF516", text, CONVENTION) == [(WARNING, "the tag `Owner` is missing")]
    provided = 'provider "aws" {\n  default_tags {\n    tags = { Owner = "a" }\n  }\n}\n'
    assert found("HF516", text + provided, CONVENTION) == []


# Variables files

LIVE = """\
version: 1
stacks:
  - { variables: "live/{name}.tfvars", module: m, name: "{name}", environment: prod }
"""
PUBLIC = '{ Effect = "Allow", Principal = "*", Action = "sts:AssumeRole" }'


def test_a_policy_that_is_an_object_of_a_variables_file_is_checked() -> None:
    """Whoever uses it encodes it."""
    one = rule("HF508")
    text = f'trust_policy = {{ Version = "2012-10-17", Statement = [{PUBLIC}] }}\n'
    report = check(one, {"m/main.tf": "", "live/a.tfvars": text}, config=LIVE)
    assert messages(report, one) == ["this policy allows everyone, and no condition restricts the caller"]


def test_broken_json_in_a_variables_file_is_reported() -> None:
    """In a variable that is called a policy, with its line."""
    one = rule("HF501")
    text = 'key_policy = <<EOF\n{\n  "Statement": [}\nEOF\n'
    report = check(one, {"m/main.tf": "", "live/a.tfvars": text}, config=LIVE)
    assert lines(report, one) == [("live/a.tfvars", 3)]
    assert "not valid JSON" in messages(report, one)[0]


def test_a_template_beside_a_variables_file_is_reported_as_not_evaluated() -> None:
    """It is no JSON before Terraform has filled it in."""
    one = rule("HF501")
    template = '{"Statement": [%{ if open }{"Effect": "Allow"}%{ endif }]}'
    report = check(one, {"m/main.tf": "", "live/a.tfvars": "", "live/key-policy.json": template}, config=LIVE)
    assert of(report, one) == []
    assert skips(report, one) == [
        "only known at run time: the policy of live/key-policy.json; no HF5 rule checks it"
    ]
