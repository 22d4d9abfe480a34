"""HF501 to HF516 in every way: policy documents, names and tags."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from rule_cases import Case, Cases, Files, passing, reported, skipped

GITHUB = "token.actions.githubusercontent.com"
LIVE = """\
version: 1
stacks:
  - { variables: "live/{name}.tfvars", module: m, name: "{name}", environment: prod }
"""
VERSION = 'resource "aws_iam_policy" "a" {\n  policy = jsonencode({ %s, Statement = [{}] })\n}\n'
HOLES = {"Effect": "Allow", "Action": "${var.a}", "Resource": "${var.b}"}


def policy(statement: Mapping[str, object], type_: str = "aws_iam_policy", argument: str = "policy") -> str:
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return f'resource "{type_}" "a" {{\n  {argument} = jsonencode({json.dumps(document)})\n}}\n'


def trust(**more: object) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", **more}
    return policy(statement, "aws_iam_role", "assume_role_policy")


def beside(name: str, statement: Mapping[str, object], version: str = "2012-10-17") -> Files:
    """A document in a JSON file that lies beside a variables file."""
    document = json.dumps({"Version": version, "Statement": [statement]})
    return {"m/main.tf": "", "live/a.tfvars": "", f"live/{name}.json": document}


def resource(**more: object) -> dict[str, object]:
    return {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*", **more}


def judged(
    name: str,
    wrong: Mapping[str, object],
    *,
    missing: Case,
    unknown: Case,
    holes: Callable[[str], Case] = passing,
) -> Cases:
    """A rule that judges documents: in code by its own examples, and beside variables files by this.

    What has holes is only said to be unseen by HF501: for all of them.
    """
    harmless = {"Effect": "Deny", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/*"}
    who = {"Principal": {"AWS": "111122223333"}} if name == "policy" else {}
    right = {**harmless, **who}
    if "trust" in name:
        right = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    return Cases(
        passes=(passing(beside(name, right), LIVE),),
        fails=(reported(beside(name, wrong), LIVE),),
        missing=(passing('resource "aws_iam_policy" "a" {}\n'), missing),
        unknown=(holes(policy(HOLES)), unknown),
    )


HIDDEN = passing(trust(Principal="${var.who}", Condition="${var.when}"))
NO_CONDITION = trust(Principal={"Service": "ec2.amazonaws.com"})
OWN = """\
version: 1
stacks:
  - { name: root, module: ., environment: prod, account: main, region: eu-west-1 }
checks:
  accounts: { main: "111122223333" }
"""
OWN_LIVE = """\
version: 1
stacks:
  - { variables: "live/{account}/{name}.tfvars", module: m, account: "{account}", environment: prod }
"""
STRANGER = trust(Principal={"AWS": "999988887777"})
FOREIGN = resource(Resource="arn:aws:sqs:eu-west-1:444455556666:a", Principal={"AWS": "111122223333"})
HOME = resource(Resource="arn:aws:sqs:eu-west-1:111122223333:a", Principal={"AWS": "111122223333"})
QUEUE = "aws_sqs_queue_policy"


def live(statement: Mapping[str, object]) -> Files:
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    here = "live/111122223333"
    return {"m/main.tf": "", f"{here}/a.tfvars": "", f"{here}/policy.json": document}


VALUES: Files = {"live/one/a.tfvars": 'account = "two"\n', "m/main.tf": 'variable "account" {}\n'}
CONVENTION = """\
version: 1
company: acme
stacks:
  - { name: root, module: ., environment: prod }
checks:
  names: { "aws_*": "{company}-{environment}-*" }
  tags: { Owner: "*" }
"""


def named(argument: str) -> str:
    return f'resource "aws_s3_bucket" "a" {{\n  {argument}\n}}\nvariable "b" {{}}\n'


LARGE = resource(Resource=["arn:aws:sqs:eu-west-1:111122223333:" + "x" * 7000])

CASES_BY_RULE: Mapping[str, Cases] = {
    "HF501": judged(
        "trust-policy",
        {"Effect": "allow"},
        missing=passing('resource "aws_iam_role" "a" {}\n'),
        unknown=skipped('resource "aws_iam_policy" "a" {\n  policy = var.p\n}\n'),
        holes=skipped,
    ),
    "HF502": Cases(
        passes=(passing(policy(HOLES)), passing(beside("trust", resource()), LIVE)),
        fails=(
            reported(policy({key: value for key, value in LARGE.items() if key != "Principal"})),
            reported(beside("trust-policy", LARGE), LIVE),
        ),
        missing=(passing('resource "aws_iam_policy" "a" {}\n'),),
        unknown=(passing(policy(HOLES)),),
    ),
    "HF503": Cases(
        passes=(passing(beside("policy", resource()), LIVE),),
        fails=(reported(beside("policy", resource(), "2008-10-17"), LIVE),),
        missing=(reported(VERSION % 'Id = "a"'),),
        unknown=(passing(VERSION % "Version = var.v"),),
    ),
    "HF504": judged(
        "identity",
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        missing=passing(policy({"Effect": "Allow", "Resource": "*"})),
        unknown=passing(policy({"Effect": "${var.e}", "Action": "*", "Resource": "*"})),
    ),
    "HF505": judged(
        "identity",
        {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*"},
        missing=passing(policy({"Effect": "Allow", "Action": "iam:PassRole"})),
        unknown=passing(
            policy({"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*", "Condition": "${var.c}"})
        ),
    ),
    "HF506": judged(
        "identity",
        {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"},
        missing=passing(policy({"NotAction": "iam:*", "Resource": "*"})),
        unknown=passing(policy({"Effect": "${var.e}", "NotAction": "iam:*", "Resource": "*"})),
    ),
    "HF507": judged(
        "policy",
        resource(NotPrincipal={"AWS": "111122223333"}),
        missing=passing(policy(resource(), QUEUE)),
        unknown=passing(policy(resource(NotPrincipal="${var.p}"), QUEUE)),
    ),
    "HF508": judged(
        "policy",
        resource(Principal="*"),
        missing=passing(policy(resource(), QUEUE)),
        unknown=passing(policy(resource(Principal="*", Condition="${var.c}"), QUEUE)),
    ),
    "HF509": judged(
        "policy",
        resource(Principal={"Service": "s3.amazonaws.com"}),
        missing=passing(policy(resource(), QUEUE)),
        unknown=passing(
            policy(resource(Principal={"Service": "s3.amazonaws.com"}, Condition="${var.c}"), QUEUE)
        ),
    ),
    "HF510": Cases(
        passes=(
            passing(trust(Principal={"AWS": "111122223333"}), OWN),
            passing({"main.tf": "", "a.tfvars": ""}, OWN),
        ),
        fails=(
            reported(STRANGER, OWN),
            reported(
                {
                    "main.tf": "",
                    "x/a.tfvars": "",
                    "x/trust.json": json.dumps(
                        {
                            "Version": "2012-10-17",
                            "Statement": [
                                {
                                    "Effect": "Allow",
                                    "Principal": {"AWS": "999988887777"},
                                    "Action": "sts:AssumeRole",
                                }
                            ],
                        }
                    ),
                },
                OWN,
            ),
        ),
        missing=(passing('resource "aws_iam_role" "a" {}\n', OWN),),
        unknown=(
            passing(trust(Principal={"AWS": "${var.a}"}), OWN),
            passing(
                trust(
                    Principal={"AWS": "999988887777"},
                    Condition={"StringEquals": {"sts:ExternalId": "${var.x}"}},
                ),
                OWN,
            ),
        ),
    ),
    "HF511": judged(
        "trust",
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{GITHUB}"},
        },
        missing=passing(NO_CONDITION),
        unknown=HIDDEN,
    ),
    "HF512": judged(
        "trust",
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": {"Federated": "arn:aws:iam::111122223333:oidc-provider/gitlab.com"},
        },
        missing=passing(NO_CONDITION),
        unknown=HIDDEN,
    ),
    "HF513": Cases(
        passes=(passing(policy(HOME, QUEUE), OWN), passing(live(HOME), OWN_LIVE)),
        fails=(reported(policy(FOREIGN, QUEUE), OWN), reported(live(FOREIGN), OWN_LIVE)),
        missing=(passing(f'resource "{QUEUE}" "a" {{}}\n', OWN), skipped(policy(FOREIGN, QUEUE))),
        unknown=(passing(policy(resource(Resource="arn:aws:sqs:eu-west-1:${var.a}:a"), QUEUE), OWN),),
    ),
    "HF514": Cases(
        passes=(passing({**VALUES, "live/one/a.tfvars": 'account = "one"\n'}, OWN_LIVE),),
        fails=(reported(VALUES, OWN_LIVE),),
        missing=(passing({**VALUES, "live/one/a.tfvars": ""}, OWN_LIVE),),
        unknown=(passing({**VALUES, "live/one/a.tfvars": "account = upper(local.x)\n"}, OWN_LIVE),),
    ),
    "HF515": Cases(
        passes=(passing(named('bucket = "acme-prod-a"'), CONVENTION),),
        fails=(reported(named('bucket = "mine"'), CONVENTION),),
        missing=(passing(named(""), CONVENTION), passing(named('bucket = "mine"'))),
        unknown=(skipped(named("bucket = var.b"), CONVENTION),),
    ),
    "HF516": Cases(
        passes=(passing(named('tags = { Owner = "me" }'), CONVENTION),),
        fails=(reported(named("tags = {}"), CONVENTION),),
        missing=(
            reported(named(""), CONVENTION),
            passing('resource "aws_route" "a" {}\n', CONVENTION),
            passing(named("tags = {}")),
        ),
        unknown=(
            skipped(named("tags = var.b"), CONVENTION),
            passing(named("tags = { Owner = var.b }"), CONVENTION),
            skipped(named("tags = { Owner = var.b }"), CONVENTION.replace('Owner: "*"', "Owner: me")),
            skipped(
                named("tags = {}") + 'provider "aws" {\n  default_tags {\n    tags = var.b\n  }\n}\n',
                CONVENTION,
            ),
        ),
    ),
}
