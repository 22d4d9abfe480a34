"""The grammar of policies, each kind by its own: what AWS documents as right, and what it refuses."""

from __future__ import annotations

import json

import pytest

from holdfast.checks.iam.document import Malformed, Node, read_document
from holdfast.checks.iam.grammar import grammar_issues
from holdfast.checks.iam.policy_types import PolicyKind as Kind

GITHUB = "token.actions.githubusercontent.com"


def read(text: str) -> Node:
    found = read_document(text)
    assert not isinstance(found, Malformed)
    return found


def said(text: str, kind: Kind) -> list[str]:
    return [one.message for one in grammar_issues(read(text), kind, text)]


def policy(*statements: object, **more: object) -> str:
    return json.dumps({"Version": "2012-10-17", **more, "Statement": list(statements)})


def identity(**more: object) -> dict[str, object]:
    return {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/*", **more}


def trust(**more: object) -> dict[str, object]:
    return {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "111122223333"}, **more}


def bucket(**more: object) -> dict[str, object]:
    return {**identity(), "Principal": {"AWS": "111122223333"}, **more}


def without(statement: dict[str, object], *keys: str) -> dict[str, object]:
    return {key: value for key, value in statement.items() if key not in keys}


RIGHT = {
    "a list of objects in a bucket": (Kind.IDENTITY, policy(identity())),
    "one statement without its list": (Kind.IDENTITY, json.dumps({"Statement": identity()})),
    "the old version": (
        Kind.IDENTITY,
        json.dumps({"Version": "2008-10-17", "Statement": [identity()]}),
    ),
    "all but one service": (
        Kind.IDENTITY,
        policy(without(identity(NotAction="iam:*", Resource="*"), "Action")),
    ),
    "a denial with NotResource": (
        Kind.IDENTITY,
        policy(without(identity(Effect="Deny", NotResource=["arn:aws:s3:::a"]), "Resource")),
    ),
    "a home folder by a policy variable": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:aws:s3:::home/${aws:username}/*")),
    ),
    "the year and the address asked for": (
        Kind.IDENTITY,
        policy(
            identity(
                Condition={
                    "DateGreaterThan": {"aws:CurrentTime": "2026-04-01T00:00:00Z"},
                    "NumericLessThanEquals": {"s3:max-keys": "10"},
                    "IpAddress": {"aws:SourceIp": ["203.0.113.0/24", "2001:db8::/32"]},
                    "Bool": {"aws:MultiFactorAuthPresent": "true"},
                    "Null": {"aws:TokenIssueTime": "false"},
                    "ForAnyValue:StringLike": {"aws:PrincipalOrgPaths": ["o-a/r-b/*"]},
                    "StringEqualsIfExists": {"ec2:InstanceType": ["t3.micro", "${aws:PrincipalTag/size}"]},
                }
            )
        ),
    ),
    "all users of IAM by a wildcard": (
        Kind.IDENTITY,
        policy(identity(Action="iam:GetUser", Resource=["arn:aws:iam::111122223333:user/*", "*"])),
    ),
    "everything of IAM in one account": (
        Kind.IDENTITY,
        policy(identity(Action="iam:Get*", Resource="arn:aws:iam::111122223333:*")),
    ),
    "an access point, which has a region": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:aws:s3:eu-west-1:111122223333:accesspoint/reports/object/*")),
    ),
    "China and the government": (
        Kind.IDENTITY,
        policy(identity(Resource=["arn:aws-cn:s3:::a", "arn:aws-us-gov:s3:::a", "arn:*:s3:::a"])),
    ),
    "a service takes on a role": (
        Kind.TRUST,
        policy(trust(Principal={"Service": "ec2.amazonaws.com"})),
    ),
    "another account with an external id": (
        Kind.TRUST,
        policy(trust(Condition={"StringEquals": {"sts:ExternalId": "12345"}})),
    ),
    "an external id of the longest kind": (
        Kind.TRUST,
        policy(trust(Condition={"StringEquals": {"sts:ExternalId": "aA1+=,.@:/-" + "x" * 1213}})),
    ),
    "a session's tags": (Kind.TRUST, policy(trust(Action=["sts:AssumeRole", "sts:TagSession"]))),
    "jobs of GitHub": (
        Kind.TRUST,
        policy(
            trust(
                Action="sts:AssumeRoleWithWebIdentity",
                Principal={"Federated": f"arn:aws:iam::111122223333:oidc-provider/{GITHUB}"},
                Condition={"StringEquals": {f"{GITHUB}:aud": "sts.amazonaws.com"}},
            )
        ),
    ),
    "people by SAML": (
        Kind.TRUST,
        policy(
            trust(
                Action="sts:AssumeRoleWithSAML",
                Principal={"Federated": "arn:aws:iam::111122223333:saml-provider/office"},
                Condition={"StringEquals": {"SAML:aud": "https://signin.aws.amazon.com/saml"}},
            )
        ),
    ),
    "people by Cognito": (
        Kind.TRUST,
        policy(
            trust(
                Action="sts:AssumeRoleWithWebIdentity",
                Principal={"Federated": "cognito-identity.amazonaws.com"},
            )
        ),
    ),
    "a role that was deleted": (Kind.TRUST, policy(trust(Principal={"AWS": "AROAIIZKPBKS2LEXAMPLE"}))),
    "the key policy that KMS makes itself": (
        Kind.KEY,
        policy(
            {
                "Sid": "Enable IAM User Permissions",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
                "Action": "kms:*",
                "Resource": "*",
            },
            Id="key-default-1",
        ),
    ),
    "a bucket without plain HTTP": (
        Kind.BUCKET,
        policy(
            bucket(
                Effect="Deny",
                Principal="*",
                Action="s3:*",
                Condition={"Bool": {"aws:SecureTransport": "false"}},
            )
        ),
    ),
    "a canonical user of a bucket": (
        Kind.BUCKET,
        policy(bucket(Principal={"CanonicalUser": "ab" * 32})),
    ),
    "CloudFront's old identity": (
        Kind.BUCKET,
        policy(
            bucket(
                Principal={
                    "AWS": "arn:aws:iam::cloudfront:user/CloudFront Origin Access Identity EH1HDMB1FH2TC"
                }
            )
        ),
    ),
    "an API by its short form": (
        Kind.RESOURCE,
        policy(bucket(Action="execute-api:Invoke", Resource="execute-api:/*/GET/*")),
    ),
    "a registry's repository, which names no resource": (
        Kind.RESOURCE,
        policy(without(bucket(Action=["ecr:GetDownloadUrlForLayer"]), "Resource")),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_aws_documents_as_right_is_right(name: str) -> None:
    """Nothing is said about a document of a form that AWS's own pages show."""
    kind, text = RIGHT[name]
    assert said(text, kind) == []


WRONG = {
    "a list": (Kind.IDENTITY, "[]", "a JSON object"),
    "no statement": (Kind.IDENTITY, '{"Version": "2012-10-17"}', "`Statement` is missing"),
    "no statements": (Kind.IDENTITY, policy(), "`Statement` is empty"),
    "a statement of text": (Kind.IDENTITY, policy("all"), "a statement must be an object"),
    "another version": (
        Kind.IDENTITY,
        json.dumps({"Version": "2012-10-18", "Statement": [identity()]}),
        "`Version` is `2012-10-18`",
    ),
    "a key of its own": (
        Kind.IDENTITY,
        policy(identity(), Comment="a"),
        "`Comment` is not a key of a policy",
    ),
    "a key in small letters": (
        Kind.IDENTITY,
        policy(identity(effect="Allow")),
        "`effect` is not a key of a",
    ),
    "an id where there is none": (Kind.IDENTITY, policy(identity(), Id="a"), "`Id` is not allowed"),
    "an id that is a number": (Kind.BUCKET, policy(bucket(), Id=1), "`Id` must be a string"),
    "a Sid with a space": (Kind.IDENTITY, policy(identity(Sid="a b")), "only contain letters and digits"),
    "a Sid with a dash in a trust policy": (
        Kind.TRUST,
        policy(trust(Sid="a-b")),
        "only contain letters and",
    ),
    "one Sid twice": (
        Kind.BUCKET,
        policy(bucket(Sid="a"), bucket(Sid="a")),
        "two statements have the Sid",
    ),
    "no effect": (Kind.IDENTITY, policy(without(identity(), "Effect")), "`Effect` is missing"),
    "an effect in small letters": (
        Kind.IDENTITY,
        policy(identity(Effect="allow")),
        "`Effect` is `allow`",
    ),
    "no action": (
        Kind.IDENTITY,
        policy(without(identity(), "Action")),
        "needs `Action` or `NotAction`",
    ),
    "both of Action": (Kind.IDENTITY, policy(identity(NotAction="s3:*")), "or `NotAction`, not both"),
    "no actions": (Kind.IDENTITY, policy(identity(Action=[])), "`Action` is empty"),
    "an action that is a number": (Kind.IDENTITY, policy(identity(Action=[1])), "`Action` must be a string"),
    "an action without a service": (
        Kind.IDENTITY,
        policy(identity(Action="GetObject")),
        "has no service",
    ),
    "an action with two colons": (
        Kind.IDENTITY,
        policy(identity(Action="s3:Get:Object")),
        "than one colon",
    ),
    "a service with a space": (
        Kind.IDENTITY,
        policy(identity(Action="s 3:Get")),
        "not a service name",
    ),
    "an action with a space": (
        Kind.IDENTITY,
        policy(identity(Action="s3:Get Object")),
        "not an action name",
    ),
    "no resource": (Kind.IDENTITY, policy(without(identity(), "Resource")), "needs `Resource` or"),
    "both of Resource": (
        Kind.IDENTITY,
        policy(identity(NotResource="*")),
        "or `NotResource`, not both",
    ),
    "a resource that is a name": (
        Kind.IDENTITY,
        policy(identity(Resource="bucket")),
        "neither `*` nor",
    ),
    "a partition that is none": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:awz:s3:::a")),
        "no partition `awz`",
    ),
    "a resource without its service": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:aws::::a")),
        "has no service",
    ),
    "a bucket with a region": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:aws:s3:eu-west-1::a")),
        "has no region",
    ),
    "a role with a region": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:aws:iam:eu-west-1:111122223333:role/a")),
        "have no region",
    ),
    "a thing that IAM does not have": (
        Kind.IDENTITY,
        policy(identity(Resource="arn:aws:iam::111122223333:rolle/a")),
        "IAM has no resource",
    ),
    "a principal in an identity policy": (
        Kind.IDENTITY,
        policy(identity(Principal="*")),
        "`Principal` is not allowed in an identity policy",
    ),
    "a principal in an organization's": (
        Kind.ORGANIZATION,
        policy(identity(NotPrincipal={"AWS": "*"})),
        "`NotPrincipal` is not allowed",
    ),
    "a trust policy of nobody": (
        Kind.TRUST,
        policy(without(trust(), "Principal")),
        "of a trust policy needs `Principal`",
    ),
    "a bucket policy of nobody": (
        Kind.BUCKET,
        policy(identity()),
        "of a bucket policy needs `Principal`",
    ),
    "a key policy of nobody": (Kind.KEY, policy(identity()), "of a key policy needs `Principal`"),
    "a resource in a trust policy": (
        Kind.TRUST,
        policy(trust(Resource="*")),
        "`Resource` is not allowed in",
    ),
    "every action in a trust policy": (Kind.TRUST, policy(trust(Action="*")), "only `sts:` actions"),
    "another action in a trust policy": (
        Kind.TRUST,
        policy(trust(Action="s3:GetObject")),
        "actions are",
    ),
    "another action in a bucket policy": (
        Kind.BUCKET,
        policy(bucket(Action="ec2:Run*")),
        "actions are",
    ),
    "another resource in a bucket policy": (
        Kind.BUCKET,
        policy(bucket(Resource="arn:aws:sqs:eu-west-1:111122223333:a")),
        "is neither a bucket",
    ),
    "both of Principal": (Kind.BUCKET, policy(bucket(NotPrincipal="*")), "or `NotPrincipal`, not both"),
    "a principal that is a text": (
        Kind.TRUST,
        policy(trust(Principal="111122223333")),
        "must be `*` or an object",
    ),
    "a principal that is a list": (Kind.TRUST, policy(trust(Principal=["*"])), "must be `*` or an object"),
    "no principals": (Kind.TRUST, policy(trust(Principal={})), "names no principal"),
    "no principals of a type": (Kind.TRUST, policy(trust(Principal={"AWS": []})), "names no principal"),
    "a principal that is a number": (
        Kind.TRUST,
        policy(trust(Principal={"AWS": 111122223333})),
        "must be a string",
    ),
    "a type of principal that is none": (
        Kind.TRUST,
        policy(trust(Principal={"User": "a"})),
        "not a principal type",
    ),
    "a principal's wildcard": (
        Kind.TRUST,
        policy(trust(Principal={"AWS": "arn:aws:iam::111122223333:role/*"})),
        "cannot have a wildcard",
    ),
    "an account of eleven digits": (
        Kind.TRUST,
        policy(trust(Principal={"AWS": "11112222333"})),
        "not an AWS principal",
    ),
    "an ARN with an account of eleven digits": (
        Kind.TRUST,
        policy(trust(Principal={"AWS": "arn:aws:iam::11112222333:root"})),
        "is not an account id",
    ),
    "a queue as a principal": (
        Kind.TRUST,
        policy(trust(Principal={"AWS": "arn:aws:sqs:eu-west-1:111122223333:a"})),
        "is not an AWS principal",
    ),
    "a service without its domain": (
        Kind.TRUST,
        policy(trust(Principal={"Service": "ec2"})),
        "not a service",
    ),
    "a provider that is a role": (
        Kind.TRUST,
        policy(trust(Principal={"Federated": "arn:aws:iam::111122223333:role/a"})),
        "is not an identity provider",
    ),
    "a canonical user in a key policy": (
        Kind.KEY,
        policy(bucket(Action="kms:*", Resource="*", Principal={"CanonicalUser": "ab" * 32})),
        "is not allowed in a key policy",
    ),
    "a canonical user by name": (
        Kind.BUCKET,
        policy(bucket(Principal={"CanonicalUser": "me"})),
        "64 hexadecimal",
    ),
    "a condition that is a list": (
        Kind.IDENTITY,
        policy(identity(Condition=[])),
        "`Condition` must be an object",
    ),
    "an operator that is none": (
        Kind.IDENTITY,
        policy(identity(Condition={"StringIs": {"a:b": "c"}})),
        "no condition operator `StringIs`",
    ),
    "Null cannot be left open": (
        Kind.IDENTITY,
        policy(identity(Condition={"NullIfExists": {"a:b": "true"}})),
        "no condition operator `NullIfExists`",
    ),
    "an operator without keys": (
        Kind.IDENTITY,
        policy(identity(Condition={"StringEquals": "a"})),
        "`StringEquals` must be an object",
    ),
    "a condition on an object": (
        Kind.IDENTITY,
        policy(identity(Condition={"StringEquals": {"a:b": {"c": "d"}}})),
        "must compare with a string",
    ),
    "a condition on null": (
        Kind.IDENTITY,
        policy(identity(Condition={"StringEquals": {"a:b": [None]}})),
        "must compare with a string",
    ),
    "a bool that is none": (
        Kind.IDENTITY,
        policy(identity(Condition={"Bool": {"aws:SecureTransport": "no"}})),
        "neither true nor false",
    ),
    "a number that is none": (
        Kind.IDENTITY,
        policy(identity(Condition={"NumericEquals": {"s3:max-keys": "ten"}})),
        "is not a number",
    ),
    "a date that is none": (
        Kind.IDENTITY,
        policy(identity(Condition={"DateEquals": {"aws:CurrentTime": "tomorrow"}})),
        "is not a date",
    ),
    "a range that is none": (
        Kind.IDENTITY,
        policy(identity(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/33"}})),
        "not an IP range",
    ),
    "an external id of one character": (
        Kind.TRUST,
        policy(trust(Condition={"StringEquals": {"sts:ExternalId": "1"}})),
        "2 to 1224",
    ),
    "an external id that is too long": (
        Kind.TRUST,
        policy(trust(Condition={"StringEquals": {"sts:ExternalId": "x" * 1225}})),
        "2 to 1224",
    ),
    "an external id with a space": (
        Kind.TRUST,
        policy(trust(Condition={"StringEquals": {"sts:externalId": "a b"}})),
        "2 to 1224",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_aws_rejects_is_reported(name: str) -> None:
    """Each breach of the grammar is said once, and nothing else with it."""
    kind, text, expected = WRONG[name]
    found = said(text, kind)
    assert len(found) == 1, found
    assert expected in found[0]


def test_a_duplicate_key_is_found_at_any_depth() -> None:
    """The reader of Python's library keeps the last and says nothing; here the second one has a place."""
    text = (
        '{"Version": "2012-10-17",\n "Statement": [{"Effect": "Deny",\n "Effect": "Allow", "Action": "a:b",\n'
    )
    text += ' "Resource": "*", "Condition": {"Bool": {"a:b": "true",\n "a:b": "false"}}}]}'
    found = list(grammar_issues(read(text), Kind.IDENTITY, text))
    assert [(one.message, one.at.line, one.at.column) for one in found] == [
        ("the key `Effect` occurs twice in one object (first on line 2)", 3, 2),
        ("the key `a:b` occurs twice in one object (first on line 4)", 5, 2),
    ]


@pytest.mark.parametrize(("character", "allowed"), [("\t", True), ("ÿ", True), ("Ā", False), ("\x7f", True)])
def test_only_some_characters_may_stand_in_a_policy_of_iam(character: str, *, allowed: bool) -> None:
    """Tab, line ends and U+0020 to U+00FF."""
    text = policy(identity(Resource=f"arn:aws:s3:::a{character}")).replace("\\t", "\t")
    text = json.dumps(json.loads(text, strict=False), ensure_ascii=False)
    assert bool(said(text, Kind.IDENTITY)) is not allowed


def test_other_services_allow_more_characters() -> None:
    """IAM's own bounds are not those of a bucket."""
    text = json.dumps(json.loads(policy(bucket(Sid="Ā b"))), ensure_ascii=False)
    assert said(text, Kind.BUCKET) == []


def test_of_an_unclear_kind_only_common_requirements_apply() -> None:
    """A document whose kind cannot be told may be of any kind."""
    for statement in (identity(), trust(), bucket()):
        assert said(policy(statement), Kind.UNCLEAR) == []
