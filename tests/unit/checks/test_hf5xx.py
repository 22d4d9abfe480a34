"""HF501 to HF516: policy documents, and names and tags after a convention."""

from __future__ import annotations

import json

import pytest
from checkouts import check, configuration, lines, messages, of, skips

from holdfast.checks.engine import catalogue
from holdfast.checks.model.interface import Rule, Severity
from holdfast.kernel.errors import ConfigError

GITHUB = "token.actions.githubusercontent.com"
PROVIDER = f"arn:aws:iam::111122223333:oidc-provider/{GITHUB}"
ARGUMENTS = {
    "identity": ("aws_iam_policy", "policy"),
    "role": ("aws_iam_role_policy", "policy"),
    "user": ("aws_iam_user_policy", "policy"),
    "group": ("aws_iam_group_policy", "policy"),
    "trust": ("aws_iam_role", "assume_role_policy"),
    "key": ("aws_kms_key", "policy"),
    "bucket": ("aws_s3_bucket_policy", "policy"),
    "queue": ("aws_sqs_queue_policy", "policy"),
    "endpoint": ("aws_vpc_endpoint", "policy"),
    "organization": ("aws_organizations_policy", "content"),
}


def rule(id_: str) -> Rule:
    found = catalogue.rule(id_)
    assert found is not None
    return found


def code(kind: str, *statements: object, version: str | None = "2012-10-17") -> str:
    type_, argument = ARGUMENTS[kind]
    document = {"Version": version, "Statement": list(statements)} if version else {"Statement": statements}
    return f'resource "{type_}" "a" {{\n  {argument} = jsonencode({json.dumps(document)})\n}}\n'


def allow(**more: object) -> dict[str, object]:
    return {"Effect": "Allow", **more}


def found(id_: str, text: str, config: str | None = None) -> list[tuple[Severity, str]]:
    one = rule(id_)
    report = check(one, {"main.tf": text}, config=config)
    assert not [other for other in report.findings if other.rule.id == "HF905"]
    return [(item.severity, item.message) for item in of(report, one)]


ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
UNKNOWN = {"Action": "${var.a}", "Resource": "${var.b}", "Principal": "${var.c}", "Condition": "${var.d}"}
JUDGES = [f"HF{number}" for number in (501, *range(503, 513))]


@pytest.mark.parametrize("id_", JUDGES)
@pytest.mark.parametrize("kind", sorted(ARGUMENTS))
def test_nothing_is_reported_about_what_is_not_known(id_: str, kind: str) -> None:
    """Every part of a statement may be a reference."""
    statement = allow(**UNKNOWN)
    if kind in ("identity", "role", "user", "group", "organization"):
        del statement["Principal"]
    if kind == "trust":
        del statement["Resource"]
    assert found(id_, code(kind, statement)) == []
    assert found(id_, code(kind, "${var.statement}")) == []


@pytest.mark.parametrize("id_", JUDGES)
def test_nothing_is_reported_where_there_is_no_policy(id_: str) -> None:
    """An argument that is missing is Terraform's to ask for."""
    text = "".join(f'resource "{type_}" "a" {{}}\n' for type_, _ in ARGUMENTS.values())
    assert found(id_, text) == []


def test_a_policy_that_only_terraform_knows_is_a_skip() -> None:
    """With the address, and once for a file."""
    one = rule("HF501")
    text = (
        'resource "aws_iam_policy" "a" { policy = var.a }\nresource "aws_iam_policy" "b" { policy = var.b }\n'
    )
    report = check(one, {"main.tf": text})
    assert of(report, one) == []
    assert skips(report, one) == [
        "only known at run time: the policy of aws_iam_policy.a, aws_iam_policy.b; no HF5 rule checks it"
    ]


def test_broken_json_has_a_place() -> None:
    """HF501 is said where the text breaks, per file."""
    one = rule("HF501")
    text = 'resource "aws_iam_policy" "a" {\n  policy = <<EOF\n{\n  "Version": ,\n}\nEOF\n}\n'
    report = check(one, {"main.tf": text})
    assert messages(report, one) == ["this policy is not valid JSON: expecting value"]
    assert lines(report, one) == [("main.tf", 4)]


def test_conditions_are_reported_with_what_was_meant_and_at_once() -> None:
    """HF501: an operator that is nearly one; a number without end takes no time."""
    tests = {"StringEqual": {"aws:a": "b"}, "NumericEquals": {"aws:b": "1" * 100_000 + "x"}}
    one = rule("HF501")
    said = of(
        check(one, {"main.tf": code("identity", allow(Action="a:b", Resource="*", Condition=tests))}), one
    )
    assert "Did you mean `StringEquals`?" in [item.hint for item in said]
    assert any(item.message.endswith("is not a number") for item in said)


SIZES = [
    ("user", 2048, ERROR),
    ("group", 5120, ERROR),
    ("role", 10240, ERROR),
    ("identity", 6144, ERROR),
    ("bucket", 20480, ERROR),
    ("key", 32768, ERROR),
    ("trust", 2048, WARNING),
    ("trust", 8192, ERROR),
]


@pytest.mark.parametrize(("kind", "limit", "severity"), SIZES)
def test_a_document_may_be_as_large_as_the_limit(kind: str, limit: int, severity: Severity) -> None:
    """White space does not count; one character more does."""
    bare = '{"Version":"2012-10-17","Statement":[{"Sid":""}]}'

    def of_size(size: int) -> str:
        text = bare.replace('""', '"' + "x" * (size - len(bare)) + '"').replace(",", " ,\n   ")
        type_, argument = ARGUMENTS[kind]
        return f'resource "{type_}" "a" {{\n  {argument} = <<EOF\n{text}\nEOF\n}}\n'

    before = found("HF502", of_size(limit))
    assert all(said is not severity for said, _ in before)
    assert [said for said, _ in found("HF502", of_size(limit + 1))] == [severity]


def test_what_is_not_known_has_no_size() -> None:
    """A hole counts as nothing."""
    assert found("HF502", code("user", allow(Action="s3:*", Resource="${var.a}"))) == []


def test_without_a_version_it_is_the_old_one() -> None:
    """Policy variables are plain text there, and that is said."""
    statement = allow(Action="s3:*", Resource="arn:aws:s3:::$${aws:username}")
    assert found("HF503", code("identity", statement, version=None)) == [
        (WARNING, "a policy without `Version` uses version 2008-10-17 (`${…}` is not expanded)")
    ]
    assert found("HF503", code("identity", statement)) == []


ALL = allow(Action=["s3:Get*", "*"], Resource="*")


@pytest.mark.parametrize(
    ("kind", "statement", "expected"),
    [
        ("identity", ALL, [(WARNING, "every action is allowed on every resource")]),
        ("identity", {**ALL, "Resource": "arn:aws:s3:::a"}, [(WARNING, "every action is allowed")]),
        ("identity", {**ALL, "Effect": "Deny"}, []),
        (
            "queue",
            {**ALL, "Principal": {"AWS": "111122223333"}},
            [(NOTE, "every action is allowed on every resource")],
        ),
        ("endpoint", {**ALL, "Principal": "*"}, []),
        ("organization", ALL, []),
        ("key", allow(Action="kms:*", Resource="*", Principal={"AWS": "111122223333"}), []),
    ],
)
def test_every_action(kind: str, statement: object, expected: list[tuple[Severity, str]]) -> None:
    """HF504: where an allowance is only a bound, it is none."""
    assert found("HF504", code(kind, statement)) == expected


@pytest.mark.parametrize(
    ("statement", "severity"),
    [
        (allow(Action="iam:PassRole", Resource="*"), WARNING),
        (allow(Action="IAM:*", Resource="*"), WARNING),
        (allow(Action=["iam:Put*"], Resource=["*"]), WARNING),
        (allow(Action="sts:AssumeRole", Resource="*"), NOTE),
        (allow(Action="secretsmanager:Get*", Resource="*"), NOTE),
        (allow(Action="kms:Decrypt", Resource="*"), NOTE),
        (
            allow(Action="iam:PassRole", Resource="*", Condition={"Bool": {"aws:SecureTransport": "true"}}),
            WARNING,
        ),
        (allow(Action="iam:PassRole", Resource="arn:aws:iam::111122223333:role/a"), None),
        (
            allow(
                Action="iam:PassRole", Resource="*", Condition={"StringEquals": {"iam:PassedToService": "a"}}
            ),
            None,
        ),
        ({"Effect": "Deny", "Action": "iam:PassRole", "Resource": "*"}, None),
        (allow(Action="s3:GetObject", Resource="*"), None),
        (allow(Action="*", Resource="*"), None),
    ],
)
def test_dangerous_actions(statement: object, severity: Severity | None) -> None:
    """HF505: on everything, without a bound."""
    expected = [] if severity is None else [severity]
    assert [said for said, _ in found("HF505", code("identity", statement))] == expected


def test_all_but() -> None:
    """HF506 and HF507: only where they allow."""
    statement = {"NotAction": "iam:*", "NotResource": "*", "NotPrincipal": {"AWS": "111122223333"}}
    assert len(found("HF506", code("queue", allow(**statement)))) == 2
    assert len(found("HF507", code("queue", allow(**statement)))) == 1
    for id_ in ("HF506", "HF507"):
        assert found(id_, code("queue", {"Effect": "Deny", **statement})) == []


@pytest.mark.parametrize(
    ("kind", "principal", "condition", "counts"),
    [
        ("bucket", "*", None, True),
        ("bucket", {"AWS": "*"}, None, True),
        ("queue", {"AWS": ["111122223333", "*"]}, None, True),
        ("trust", {"AWS": "*"}, None, True),
        ("bucket", "*", {"Bool": {"aws:SecureTransport": "true"}}, True),
        ("bucket", "*", {"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}}, True),
        ("bucket", "*", {"StringEqualsIfExists": {"aws:PrincipalOrgID": "o-a"}}, True),
        ("bucket", "*", {"StringEquals": {"aws:PrincipalOrgID": "o-a"}}, False),
        ("bucket", "*", {"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}, False),
        ("key", {"AWS": "*"}, {"StringEquals": {"kms:CallerAccount": "111122223333"}}, False),
        ("queue", "*", {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::a"}}, False),
        ("queue", {"AWS": "111122223333"}, None, False),
        ("endpoint", "*", None, False),
    ],
)
def test_everyone(kind: str, principal: object, condition: object, *, counts: bool) -> None:
    """HF508: unless a condition that must hold says who or from where."""
    statement = allow(Principal=principal, Action="a:b", Resource="*")
    if condition is not None:
        statement["Condition"] = condition
    assert bool(found("HF508", code(kind, statement))) is counts


def test_a_denial_may_be_for_everyone() -> None:
    """HF508: no plain HTTP, for nobody."""
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}
    assert found("HF508", code("bucket", statement)) == []


@pytest.mark.parametrize(
    ("kind", "service", "condition", "severity"),
    [
        ("queue", "s3.amazonaws.com", None, NOTE),
        ("bucket", "cloudtrail.amazonaws.com", None, NOTE),
        ("queue", "s3.amazonaws.com", {"ArnLike": {"aws:SourceArn": "*"}}, NOTE),
        ("queue", "s3.amazonaws.com", {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::a"}}, None),
        ("queue", "s3.amazonaws.com", {"StringEquals": {"aws:SourceAccount": "111122223333"}}, None),
        ("key", "logs.eu-west-1.amazonaws.com", None, NOTE),
        ("key", "logs.amazonaws.com", {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": "arn:a"}}, None),
        ("trust", "ecs-tasks.amazonaws.com", None, NOTE),
        ("trust", "ec2.amazonaws.com", None, None),
    ],
)
def test_services(kind: str, service: str, condition: object, severity: Severity | None) -> None:
    """HF509: who sent it."""
    statement = allow(Principal={"Service": service}, Action="sts:AssumeRole", Resource="*")
    if condition is not None:
        statement["Condition"] = condition
    expected = [] if severity is None else [severity]
    assert [said for said, _ in found("HF509", code(kind, statement))] == expected


OWN = """\
version: 1
stacks:
  - { name: root, module: ., environment: prod, account: main }
checks:
  accounts: { main: "111122223333", other: "444455556666" }
"""


@pytest.mark.parametrize(
    ("principal", "condition", "counts"),
    [
        ("999988887777", None, True),
        ("arn:aws:iam::999988887777:root", None, True),
        ("arn:aws:iam::999988887777:root", {"StringLike": {"sts:ExternalId": "*"}}, True),
        ("arn:aws:iam::999988887777:root", {"StringEquals": {"sts:ExternalId": "abc"}}, False),
        ("arn:aws:iam::999988887777:root", {"StringEquals": {"sts:ExternalId": "${var.id}"}}, False),
        ("arn:aws:iam::999988887777:root", {"StringEquals": {"aws:PrincipalOrgID": "o-a"}}, False),
        ("arn:aws:iam::111122223333:root", None, False),
        ("444455556666", None, False),
        ("${var.a}", None, False),
    ],
)
def test_strangers(principal: str, condition: object, *, counts: bool) -> None:
    """HF510: whoever is not one's own gives an external id."""
    statement = allow(Principal={"AWS": principal}, Action="sts:AssumeRole")
    if condition is not None:
        statement["Condition"] = condition
    assert bool(found("HF510", code("trust", statement), OWN)) is counts


def test_whose_accounts_they_are_must_be_known() -> None:
    """HF510 is off where no account is known to be one's own."""
    one = rule("HF510")
    files = {"main.tf": code("trust", allow(Principal={"AWS": "999988887777"}, Action="sts:AssumeRole"))}
    assert of(check(one, files, only_configured=True), one) == []
    assert len(of(check(one, files, config=OWN, only_configured=True), one)) == 1


AUD = {f"{GITHUB}:aud": "sts.amazonaws.com"}
MAIN = "repo:octo/app:ref:refs/heads/main"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"StringEquals": {**AUD, f"{GITHUB}:sub": MAIN}}, []),
        ({"StringEquals": {**AUD, f"{GITHUB}:sub": "repo:octo@1/app@2:environment:prod"}}, []),
        ({"StringEquals": AUD, "StringLike": {f"{GITHUB}:sub": "repo:octo/app:ref:refs/heads/*"}}, []),
        ({"StringEquals": {**AUD, f"{GITHUB}:repository_id": "2"}}, []),
        ({"StringEquals": {**AUD, f"{GITHUB}:sub": "${var.sub}"}}, []),
        ({"StringEquals": AUD}, [(ERROR, "any GitHub repository")]),
        ({"StringEquals": {**AUD, f"{GITHUB}:repository_owner": "octo"}}, [(WARNING, "of the owner")]),
        ({"StringEquals": {f"{GITHUB}:sub": MAIN}}, [(NOTE, "no condition on")]),
        (
            {"StringEquals": {f"{GITHUB}:aud": "sts.amazon.com", f"{GITHUB}:sub": MAIN}},
            [(WARNING, "audience")],
        ),
        ({"StringEquals": AUD, "StringLike": {f"{GITHUB}:sub": "repo:octo/*"}}, [(WARNING, "more than one")]),
        ({"StringEquals": AUD, "StringLike": {f"{GITHUB}:sub": "repo:octo*"}}, [(ERROR, "other owners")]),
        ({"StringEquals": {**AUD, f"{GITHUB}:sub": "repo:octo/app:*"}}, [(WARNING, "only StringLike")]),
        (
            {"StringEquals": AUD, "ForAllValues:StringLike": {f"{GITHUB}:sub": MAIN}},
            [(NOTE, "no such claim")],
        ),
        (
            {"StringEquals": AUD, "StringLikeIfExists": {f"{GITHUB}:sub": MAIN}},
            [(NOTE, "no such claim")],
        ),
    ],
)
def test_jobs_of_github(condition: object, expected: list[tuple[Severity, str]]) -> None:
    """HF511: who is let in by the subject, in both formats."""
    statement = allow(
        Principal={"Federated": PROVIDER}, Action="sts:AssumeRoleWithWebIdentity", Condition=condition
    )
    said = found("HF511", code("trust", statement))
    assert [severity for severity, _ in said] == [severity for severity, _ in expected]
    assert all(words in message for (_, words), (_, message) in zip(expected, said, strict=True))


def test_a_trust_of_github_without_conditions() -> None:
    """HF511: the gravest of all, and HF512 leaves it alone."""
    statement = allow(Principal={"Federated": PROVIDER}, Action="sts:AssumeRoleWithWebIdentity")
    assert [severity for severity, _ in found("HF511", code("trust", statement))] == [NOTE, ERROR]
    assert found("HF512", code("trust", statement)) == []


@pytest.mark.parametrize(
    ("host", "condition", "counts"),
    [
        ("gitlab.com", None, True),
        ("gitlab.com", {"StringEquals": {"gitlab.com:aud": "https://gitlab.com"}}, True),
        ("gitlab.com", {"StringLike": {"gitlab.com:sub": "*"}}, True),
        ("app.terraform.io", {"StringEqualsIfExists": {"app.terraform.io:sub": "organization:a"}}, True),
        ("gitlab.com", {"StringLike": {"gitlab.com:sub": "project_path:acme/*"}}, False),
        ("gitlab.com", "${var.condition}", False),
        ("gitlab.acme.example", {"StringEquals": {"gitlab.acme.example:aud": "sts"}}, False),
        ("${var.provider}", {"StringEquals": {"gitlab.com:aud": "https://gitlab.com"}}, False),
    ],
)
def test_providers_that_sign_for_everybody(host: str, condition: object, *, counts: bool) -> None:
    """HF512: an audience says who is asked, not who asks."""
    statement = allow(
        Principal={"Federated": f"arn:aws:iam::111122223333:oidc-provider/{host}"},
        Action="sts:AssumeRoleWithWebIdentity",
    )
    if condition is not None:
        statement["Condition"] = condition
    assert bool(found("HF512", code("trust", statement))) is counts


def test_github_is_recognised_by_its_claims() -> None:
    """HF511: the provider is most often a reference."""
    statement = allow(
        Principal={"Federated": "${var.provider}"},
        Action="sts:AssumeRole",
        Condition={"StringLike": {**AUD, f"{GITHUB}:sub": "*"}},
    )
    said = sorted(message for _, message in found("HF511", code("trust", statement)))
    assert len(said) == 2
    assert any("sts:AssumeRoleWithWebIdentity" in message for message in said)


ELSEWHERE = """\
version: 1
environments: { prod: { production: true }, dev: {} }
stacks:
  - { name: root, module: ., environment: prod, account: main, region: eu-west-1 }
  - { name: dev, module: dev, environment: dev, account: "444455556666", region: eu-west-1 }
checks:
  accounts: { main: "111122223333" }
"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (allow(Action="sqs:*", Resource="arn:aws:sqs:eu-west-1:111122223333:a"), None),
        (allow(Action="sqs:*", Resource="arn:aws:sqs:eu-west-1:${var.a}:a"), None),
        (allow(Action="sqs:*", Resource="arn:aws:s3:::a"), None),
        (allow(Action="sqs:*", Resource="arn:aws:iam::aws:policy/a"), None),
        (
            allow(Action="sqs:*", Resource="arn:aws:sqs:eu-west-1:444455556666:${var.a}"),
            "account 444455556666",
        ),
        (allow(Action="sts:AssumeRole", Resource="arn:aws:iam::444455556666:role/a"), None),
        (allow(Action="s3:*", Resource="arn:aws-cn:s3:::a"), "partition aws-cn"),
        (allow(Action="s3:*", Resource="*", Principal={"AWS": "444455556666"}), "environment dev"),
        (allow(Action="s3:*", Resource="*", Principal={"AWS": "999988887777"}), None),
    ],
)
def test_arns_of_elsewhere(statement: object, expected: str | None) -> None:
    """HF513: accounts and partitions that are not the stack's."""
    one = rule("HF513")
    report = check(one, {"main.tf": code("queue", statement), "dev/main.tf": ""}, config=ELSEWHERE)
    said = of(report, one)
    assert [item.stack for item in said] == ([] if expected is None else ["root"])
    assert all((expected or "") in item.message for item in said)


def test_an_account_without_a_number_cannot_be_compared() -> None:
    """HF513 is skipped, with the reason."""
    one = rule("HF513")
    statement = allow(Action="sqs:*", Resource="arn:aws:sqs:eu-west-1:444455556666:a")
    report = check(one, {"main.tf": code("queue", statement)})
    assert of(report, one) == []
    assert "`checks.accounts`" in skips(report, one)[0]


def test_a_policy_file_beside_the_values_of_another_account() -> None:
    """HF513 looks at JSON files too, and says which file and stack."""
    one = rule("HF513")
    statement = allow(Action="sqs:*", Resource="arn:aws:sqs:eu-west-1:444455556666:a")
    entry = "{ variables: 'live/{account}/{name}.tfvars', module: m, account: '{account}' }"
    report = check(
        one,
        {
            "live/111122223333/a.tfvars": "",
            "live/111122223333/policy.json": json.dumps({"Statement": [statement]}, indent=1),
            "m/main.tf": "",
        },
        config=f"version: 1\nstacks:\n  - {entry}\n",
    )
    (said,) = of(report, one)
    assert (said.file, said.line) == ("live/111122223333/policy.json", 6)


VALUES = """\
version: 1
stacks:
  - { variables: "live/{account}/{name}.tfvars", module: m, account: "{account}", region: r1 }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('account = "one"\nregion = "r1"\n', []),
        ('account = "two"\n', [("live/one/a.tfvars", 1)]),
        ('\naws_region = "r2"\n', [("live/one/a.tfvars", 2)]),
        ('account = "111122223333"\n', []),
        ("", []),
    ],
)
def test_values_agree_with_the_stack(text: str, expected: list[tuple[str, int]]) -> None:
    """HF514: a copied file that was half changed; a number cannot be compared with a name."""
    one = rule("HF514")
    variables = "".join(f'variable "{name}" {{}}\n' for name in ("account", "region", "aws_region"))
    report = check(one, {"live/one/a.tfvars": text, "m/main.tf": variables}, config=VALUES)
    assert lines(report, one) == expected


CONVENTION = """\
version: 1
company: acme
stacks:
  - { name: root, module: ., environment: prod }
checks:
  names: { "aws_*": "*", aws_s3_bucket: "{company}-{environment}-*", aws_sqs_queue: "{region}-*" }
  tags: { Owner: "*", Environment: "{environment}" }
"""


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ('resource "aws_s3_bucket" "a" { bucket = "acme-prod-a" }', False),
        ('resource "aws_s3_bucket" "a" { bucket = "${local.b}-a" }\nlocals { b = "acme-dev" }', True),
        ('resource "aws_s3_bucket" "a" { bucket = var.b }\nvariable "b" {}', False),
        ('resource "aws_s3_bucket" "a" {}', False),
        ('resource "aws_sqs_queue" "a" { name = "b" }', False),
        ('resource "aws_db_instance" "a" { identifier = "b" }', False),
    ],
)
def test_names_follow_the_convention(text: str, *, counts: bool) -> None:
    """HF515: of the type, filled in for the stack; what the stack has not cannot be asked for."""
    assert bool(found("HF515", text + "\n", CONVENTION)) is counts
    assert found("HF515", text + "\n") == []


PROVIDED = 'provider "aws" {\n  default_tags {\n    tags = %s\n  }\n}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('resource "a_b" "a" { tags = { Owner = "me", Environment = "prod" } }', []),
        ('resource "a_b" "a" { tags = { Environment = "dev" } }', ["Owner", "Environment"]),
        ('resource "a_b" "a" { tags = { Owner = var.a, Environment = var.b } }', []),
        ('resource "a_b" "a" { tags = var.tags }', []),
        ('resource "a_b" "a" {}', []),
        ('resource "a_b" "a" { tags = { Owner = "me" } }\n' + PROVIDED % '{ Environment = "prod" }', []),
        (f'resource "a_b" "a" {{ tags = {{}} }}\n{PROVIDED % "var.tags"}', []),
    ],
)
def test_tags_follow_the_convention(text: str, expected: list[str]) -> None:
    """HF516: missing or different; what the provider adds counts."""
    said = [message for _, message in found("HF516", text + "\n", CONVENTION)]
    assert len(said) == len(expected)
    assert all(any(f"`{name}`" in message for message in said) for name in expected)
    assert found("HF516", text + "\n") == []


@pytest.mark.parametrize("id_", [f"HF{number}" for number in range(501, 517)])
def test_a_waiver_of_the_configuration_applies(id_: str) -> None:
    """By path: a JSON file has no room for a comment."""
    one = rule(id_)
    statement = allow(
        Principal={"AWS": ["*", "999988887777"], "Service": "s3.amazonaws.com"},
        NotPrincipal={"AWS": "*"},
        Action=["*", "iam:PassRole"],
        NotAction="a:b",
        Resource=["*", "arn:aws:sqs:eu-west-1:444455556666:" + "x" * 7000],
    )
    federated = allow(Principal={"Federated": ["gitlab.com", PROVIDER]}, Action="sts:AssumeRole")
    config = OWN + (
        '  names: { "*": "x" }\n  tags: { Owner: "*" }\n'
        f"  waivers:\n    - {{ rule: {id_}, path: main.tf, owner: me, reason: a test, until: 2027-01-01 }}\n"
    )
    text = (
        code(
            "identity",
            {key: value for key, value in statement.items() if "Principal" not in key},
            version=None,
        )
        + code("queue", statement)
        + code("trust", statement, federated)
        + 'resource "a_b" "a" {\n  name = "y"\n  tags = {}\n}\nvariable "account" { default = "z" }\n'
    )
    report = check(one, {"main.tf": text}, config=config)
    assert of(report, one)
    assert all(item.waived for item in of(report, one))


@pytest.mark.parametrize(
    "setting",
    [
        "accounts: { main: '1234' }",
        'names: { aws_s3_bucket: "{team}-*" }',
        'tags: { Owner: "********* " }',
    ],
)
def test_a_convention_that_cannot_be_is_a_mistake_of_the_configuration(setting: str) -> None:
    """An account has twelve digits; a placeholder is one of the stack's own parts."""
    with pytest.raises(ConfigError) as caught:
        configuration(f"version: 1\nchecks:\n  {setting}\n")
    assert caught.value.problems[0].code == "HF-CONF-6"
