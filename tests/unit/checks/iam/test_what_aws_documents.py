"""Policies as AWS, GitHub and Terraform document them: no rule calls them wrong. Facts, in our own words."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from checkouts import check

from holdfast.checks.engine import catalogue

OWN = """\
version: 1
stacks:
  - { name: root, module: ., environment: prod, account: main, region: eu-west-1 }
checks:
  accounts: { main: "111122223333" }
"""
ROOT = {"AWS": "arn:aws:iam::111122223333:root"}
GITHUB = "token.actions.githubusercontent.com"
EKS = "oidc.eks.eu-west-1.amazonaws.com/id/ABCDEF0123456789"
TERRAFORM = "app.terraform.io"
ARGUMENTS = {
    "key": ("aws_kms_key", "policy"),
    "bucket": ("aws_s3_bucket_policy", "policy"),
    "trust": ("aws_iam_role", "assume_role_policy"),
    "managed": ("aws_iam_policy", "policy"),
    "queue": ("aws_sqs_queue_policy", "policy"),
    "topic": ("aws_sns_topic_policy", "policy"),
    "repository": ("aws_ecr_repository_policy", "policy"),
    "secret": ("aws_secretsmanager_secret_policy", "policy"),
    "api": ("aws_api_gateway_rest_api_policy", "policy"),
    "file system": ("aws_efs_file_system_policy", "policy"),
    "endpoint": ("aws_vpc_endpoint", "policy"),
    "organization": ("aws_organizations_policy", "content"),
}


def provider(host: str) -> dict[str, str]:
    return {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{host}"}


def web(host: str, operator: str, subject: str, audience: str = "sts.amazonaws.com") -> dict[str, object]:
    equals: dict[str, object] = {f"{host}:aud": audience}
    tests: dict[str, dict[str, object]] = {"StringEquals": equals}
    tests.setdefault(operator, {})[f"{host}:sub"] = subject
    return {"Principal": provider(host), "Action": "sts:AssumeRoleWithWebIdentity", "Condition": tests}


def logs(service: str, **tests: Mapping[str, object]) -> dict[str, object]:
    place = "arn:aws:s3:::acme-logs/AWSLogs/111122223333/*"
    made: dict[str, object] = {"Principal": {"Service": service}, "Action": "s3:PutObject", "Resource": place}
    return {**made, "Condition": tests} if tests else made


ALLOWED: dict[str, tuple[str, dict[str, object]]] = {
    "the default policy of a key": ("key", {"Principal": ROOT, "Action": "kms:*", "Resource": "*"}),
    "grants for services": (
        "key",
        {
            "Principal": {"AWS": "111122223333"},
            "Action": ["kms:CreateGrant", "kms:ListGrants", "kms:RevokeGrant"],
            "Resource": "*",
            "Condition": {"Bool": {"kms:GrantIsForAWSResource": True}},
        },
    ),
    "a key by way of a service": (
        "key",
        {
            "Principal": {"AWS": "*"},
            "Action": ["kms:Decrypt", "kms:CreateGrant"],
            "Resource": "*",
            "Condition": {
                "StringEquals": {
                    "kms:ViaService": "ec2.eu-west-1.amazonaws.com",
                    "kms:CallerAccount": "111122223333",
                }
            },
        },
    ),
    "a key for logs": (
        "key",
        {
            "Principal": {"Service": "logs.eu-west-1.amazonaws.com"},
            "Action": ["kms:Encrypt*", "kms:Decrypt*"],
            "Resource": "*",
            "Condition": {
                "ArnLike": {"kms:EncryptionContext:aws:logs:arn": "arn:aws:logs:eu-west-1:111122223333:*"}
            },
        },
    ),
    "the bucket of a trail": (
        "bucket",
        logs(
            "cloudtrail.amazonaws.com",
            StringEquals={
                "s3:x-amz-acl": "bucket-owner-full-control",
                "aws:SourceArn": "arn:aws:cloudtrail:eu-west-1:111122223333:trail/all",
            },
        ),
    ),
    "the bucket of a load balancer": ("bucket", logs("logdelivery.elasticloadbalancing.amazonaws.com")),
    "the bucket of flow logs": (
        "bucket",
        logs(
            "delivery.logs.amazonaws.com",
            StringEquals={"aws:SourceAccount": "111122223333"},
            ArnLike={"aws:SourceArn": "arn:aws:logs:eu-west-1:111122223333:*"},
        ),
    ),
    "the bucket of a site behind CloudFront": (
        "bucket",
        {
            "Principal": {"Service": "cloudfront.amazonaws.com"},
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::acme-site/*",
            "Condition": {
                "StringEquals": {"AWS:SourceArn": "arn:aws:cloudfront::111122223333:distribution/EDFDVBD6"}
            },
        },
    ),
    "a bucket for an organization": (
        "bucket",
        {
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::acme-shared/*",
            "Condition": {"ForAnyValue:StringLike": {"aws:PrincipalOrgPaths": ["o-a1b2c3d4e5/r-ab12/*"]}},
        },
    ),
    "a queue for a bucket": (
        "queue",
        {
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "SQS:SendMessage",
            "Resource": "arn:aws:sqs:eu-west-1:111122223333:orders",
            "Condition": {
                "ArnLike": {"aws:SourceArn": "arn:aws:s3:*:*:acme-orders"},
                "StringEquals": {"aws:SourceAccount": "111122223333"},
            },
        },
    ),
    "the default policy of a topic": (
        "topic",
        {
            "Principal": {"AWS": "*"},
            "Action": ["SNS:Publish", "SNS:Subscribe"],
            "Resource": "arn:aws:sns:eu-west-1:111122223333:orders",
            "Condition": {"StringEquals": {"AWS:SourceOwner": "111122223333"}},
        },
    ),
    "images for functions of another account": (
        "repository",
        {
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            "Condition": {
                "StringLike": {"aws:sourceARN": "arn:aws:lambda:eu-west-1:111122223333:function:*"}
            },
        },
    ),
    "a secret for a role": (
        "secret",
        {
            "Principal": {"AWS": "arn:aws:iam::111122223333:role/app"},
            "Action": "secretsmanager:GetSecretValue",
            "Resource": "*",
        },
    ),
    "a file system through its mount targets": (
        "file system",
        {
            "Principal": {"AWS": "*"},
            "Action": ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
            "Condition": {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}},
        },
    ),
    "the default policy of an endpoint": ("endpoint", {"Principal": "*", "Action": "*", "Resource": "*"}),
    "everything within an organization": ("organization", {"Action": "*", "Resource": "*"}),
    "a role for machines": (
        "trust",
        {"Principal": {"Service": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}, "Action": "sts:AssumeRole"},
    ),
    "a role for pods by Pod Identity": (
        "trust",
        {
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        },
    ),
    "a role for pods": ("trust", web(EKS, "StringEquals", "system:serviceaccount:kube-system:aws-node")),
    "a role for jobs of GitHub": (
        "trust",
        web(GITHUB, "StringLike", "repo:octo/app:ref:refs/heads/release/*"),
    ),
    "a role for jobs of GitHub, by numbers": (
        "trust",
        web(GITHUB, "StringEquals", "repo:octo@1/app@2:environment:prod"),
    ),
    "a role for runs of Terraform Cloud": (
        "trust",
        web(
            TERRAFORM,
            "StringLike",
            "organization:acme:project:infra:workspace:prod:run_phase:*",
            "aws.workload.identity",
        ),
    ),
    "a role for people": (
        "trust",
        {
            "Principal": {"Federated": "arn:aws-us-gov:iam::111122223333:saml-provider/Okta"},
            "Action": ["sts:AssumeRoleWithSAML", "sts:TagSession"],
            "Condition": {"StringEquals": {"SAML:aud": "https://signin.amazonaws-us-gov.com/saml"}},
        },
    ),
    "a role for users of an application": (
        "trust",
        {
            "Principal": {"Federated": "cognito-identity.amazonaws.com"},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {"cognito-identity.amazonaws.com:aud": "eu-west-1:11111111-2222"},
                "ForAnyValue:StringLike": {"cognito-identity.amazonaws.com:amr": "authenticated"},
            },
        },
    ),
    "a role for a permission set": (
        "trust",
        {
            "Principal": {"AWS": "*"},
            "Action": "sts:AssumeRole",
            "Condition": {
                "ArnLike": {
                    "aws:PrincipalArn": "arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/*"
                }
            },
        },
    ),
    "a role given to one service": (
        "managed",
        {
            "Action": "iam:PassRole",
            "Resource": "*",
            "Condition": {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        },
    ),
    "batch jobs on buckets": (
        "managed",
        {"Action": "s3:DescribeJob", "Resource": "arn:aws:s3:eu-west-1:111122223333:job/*"},
    ),
}


def code(kind: str, *statements: Mapping[str, object]) -> str:
    type_, argument = ARGUMENTS[kind]
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return f'resource "{type_}" "a" {{\n  {argument} = jsonencode({document})\n}}\n'


def said(text: str) -> list[str]:
    judges = [rule for rule in catalogue.rules() if "HF501" <= rule.id <= "HF512"]
    report = check(judges, {"main.tf": text}, config=OWN)
    return [f"{one.rule.id} {one.message}" for one in report.findings]


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_documented_is_not_called_wrong(name: str) -> None:
    """Neither by the grammar nor by what it allows."""
    kind, statement = ALLOWED[name]
    assert said(code(kind, {"Effect": "Allow", **statement})) == []


def test_an_api_that_denies_all_but_some_is_not_public() -> None:
    """The documented way to open an API to a network: allow everyone, deny everyone else."""
    statement = {"Principal": "*", "Action": "execute-api:Invoke", "Resource": ["execute-api:/*"]}
    network = {"NotIpAddress": {"aws:SourceIp": ["203.0.113.0/24"]}}
    opened = {"Effect": "Allow", **statement}
    assert said(code("api", opened, {"Effect": "Deny", **statement, "Condition": network})) == []
    for useless in (
        {"NotIpAddress": {"aws:SourceIp": ["0.0.0.0/0"]}},
        {"NotIpAddress": {"aws:SourceIp": ["203.0.113.0/24"]}, "Bool": {"aws:SecureTransport": "false"}},
        {"ForAnyValue:StringNotEquals": {"aws:PrincipalOrgPaths": ["o-a1b2c3d4e5/*"]}},
        {"Bool": {"aws:SecureTransport": "false"}},
    ):
        denied = {"Effect": "Deny", **statement, "Condition": useless}
        assert [one[:5] for one in said(code("api", opened, denied))] == ["HF508"]
    elsewhere = {"Effect": "Deny", **statement, "Resource": ["execute-api:/prod/*"], "Condition": network}
    assert [one[:5] for one in said(code("api", opened, elsewhere))] == ["HF508"]


def test_what_bounds_resources_of_an_organization_names_everyone() -> None:
    """A resource control policy needs the principal that a service control policy must not have."""
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": "*",
        "Condition": {"StringNotEqualsIfExists": {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}},
    }
    text = code("organization", statement)
    assert [one[:5] for one in said(text)] == ["HF501"]
    assert said(text.replace("{\n", '{\n  type = "RESOURCE_CONTROL_POLICY"\n', 1)) == []


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ('resource "aws_iam_role" "r" {\n  permissions_boundary = aws_iam_policy.a.arn\n}\n', False),
        ('resource "aws_iam_role_policy_attachment" "r" {\n  policy_arn = aws_iam_policy.a.arn\n}\n', True),
        ("", True),
    ],
)
def test_a_permissions_boundary_only_bounds(more: str, *, found: bool) -> None:
    """Everything but a few services is how one is written; a policy that is attached is none."""
    text = code("managed", {"Effect": "Allow", "Action": ["*"], "Resource": "*"}) + more
    assert bool(said(text)) is found
    assert bool(
        said(
            text.replace("aws_iam_policy.a", "aws_iam_policy.boundary").replace(
                '"aws_iam_policy" "a"', '"aws_iam_policy" "boundary"'
            )
        )
    ) is ("policy_arn" in more)
