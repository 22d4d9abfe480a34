"""An error needs strong evidence in code that is in use; clear dangers there stay errors."""

from __future__ import annotations

import json

import pytest
from checkouts import check, lines, messages, of, the

from holdfast.checks.engine.running import CheckInputs
from holdfast.checks.model.interface import Severity

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
BACKEND = 'terraform {\n  backend "s3" {\n    bucket = "states"\n    key = "%s"\n  }\n}\n'
OPEN: dict[str, object] = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
ENVIRONMENTS = "version: 1\nenvironments: { dev: { production: false }, prod: { production: true } }\n"


def levels(
    id_: str, files: dict[str, str], config: str | None = None, *, planned: bool = False
) -> list[Severity]:
    report = check(the(id_), files, config=config, inputs=CheckInputs(planned=planned))
    return [one.severity for one in of(report, the(id_))]


def document(*statements: dict[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def trust(policy: str) -> str:
    return f'resource "aws_iam_role" "a" {{\n  assume_role_policy = {policy}\n}}\n'


OPEN_ROLE = trust(f"jsonencode({document(OPEN)})")


def stack(module: str, more: str = "") -> str:
    return f"{ENVIRONMENTS}stacks: [{{ name: a, module: {module}{more} }}]\n"


@pytest.mark.parametrize(
    ("folder", "more", "planned", "expected"),
    [
        ("live", "", False, ERROR),
        ("live", ", environment: dev", False, ERROR),
        ("sandbox", "", False, WARNING),
        ("sandbox", ", environment: dev", False, WARNING),
        ("sandbox", ", environment: prod", False, ERROR),
        ("sandbox", "", True, ERROR),
        ("accounts/acme-sandbox/roles", "", False, WARNING),
        ("examples/roles", "", False, WARNING),
        ("service-template", "", False, WARNING),
        ("contests/roles", "", False, ERROR),
    ],
)
def test_names_of_folders(folder: str, more: str, *, planned: bool, expected: Severity) -> None:
    """A sandbox that is clearly production, or is planned, is in use."""
    files = {f"{folder}/main.tf": OPEN_ROLE}
    assert levels("HF508", files, stack(folder, more), planned=planned) == [expected]


def test_code_without_a_stack() -> None:
    """With a backend it is in use, and so is what it calls; a module that nothing calls may not be."""
    calling = BACKEND % "a" + 'module "a" {\n  source = "../a"\n}\n'
    inner = 'module "b" {\n  source = "../b"\n}\n'
    assert levels("HF508", {"live/main.tf": BACKEND % "a" + OPEN_ROLE}, "") == [ERROR]
    assert levels("HF508", {"live/main.tf": calling, "a/main.tf": inner, "b/main.tf": OPEN_ROLE}, "") == [
        ERROR
    ]
    assert levels("HF508", {"a/main.tf": inner, "b/main.tf": OPEN_ROLE}, "") == [WARNING]
    assert levels("HF114", {"live/main.tf": BACKEND % "a"}, "") == [WARNING]


SIDES = 'variable "open" {}\nprovider "aws" {}\n'


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (trust(f"var.open ? jsonencode({document(OPEN)}) : jsonencode({document()})"), [WARNING]),
        (trust(f"jsonencode(var.open ? {document(OPEN)} : {document()})"), [WARNING]),
        (trust(f"jsonencode({document({**OPEN, 'Condition': '?'})})").replace('"?"', "{}"), [ERROR]),
        (
            trust(f"jsonencode({document({**OPEN, 'Condition': '?'})})").replace(
                '"?"', 'var.open ? {} : { StringEquals = { "aws:PrincipalOrgID" = "o-a1b2c3d4e5" } }'
            ),
            [WARNING],
        ),
        (trust('file("trust.json")'), [ERROR]),
        ("", [WARNING]),
    ],
)
def test_what_only_may_be(code: str, expected: list[Severity]) -> None:
    """One side of a conditional, or a file that no code names."""
    files = {"main.tf": SIDES + code}
    if not code or "trust.json" in code:
        files["trust.json"] = document(OPEN)
    assert levels("HF508", files) == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("SNS:Endpoint", "arn:aws:sqs:*:111122223333:*", []),
        ("SNS:Endpoint", "*@acme.example", []),
        ("SNS:Endpoint", "arn:aws:sqs:*:*:*", [ERROR]),
        ("SNS:Endpoint", "*", [ERROR]),
        ("SNS:Protocol", "https", [ERROR]),
        ("ses:Recipients", "ops@acme.example", []),
    ],
)
def test_who_receives_is_a_restriction(key: str, value: str, expected: list[Severity]) -> None:
    """HF508: whoever subscribes can only name these receivers."""
    statement = {**OPEN, "Action": "sns:Subscribe", "Condition": {"StringLike": {key: value}}}
    code = f'resource "aws_sns_topic_policy" "a" {{\n  policy = {json.dumps(document(statement))}\n}}\n'
    assert levels("HF508", {"main.tf": code}) == expected


def test_one_file_used_as_two_kinds_of_policy_is_one_finding() -> None:
    """HF508: for a queue and for a bucket."""
    code = "".join(
        f'resource "{type_}" "a" {{\n  policy = templatefile("p.json", {{ a = "{type_}" }})\n}}\n'
        for type_ in ("aws_sqs_queue_policy", "aws_sns_topic_policy")
    )
    statement = {**OPEN, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::${a}/*"}
    files = {"a/main.tf": code, "a/p.json": document(statement), "b/main.tf": code.replace("p.", "../a/p.")}
    config = "version: 1\nstacks: [{ name: a, module: a }, { name: b, module: b }]\n"
    assert lines(check(the("HF508"), files, config=config), the("HF508")) == [("a/p.json", 1)]


# Locks.


def two(first: str, second: str, environments: tuple[str, str] = ("prod", "prod")) -> list[Severity]:
    files = {"a/main.tf": BACKEND % f'a"\n{first} #', "b/main.tf": BACKEND % f'b"\n{second} #'}
    names = zip("ab", environments, strict=True)
    entries = ", ".join(f"{{ name: {name}, module: {name}, environment: {env} }}" for name, env in names)
    return levels("HF114", files, f"{ENVIRONMENTS}stacks: [{entries}]\n")


def test_a_repository_that_never_locks_has_one_finding() -> None:
    """It is one decision. If one locks, each other is a mistake."""
    assert two("", "") == [ERROR]
    assert two("", "", ("dev", "prod")) == [ERROR]
    assert two("", "", ("dev", "dev")) == [WARNING]
    assert two("use_lockfile = true", "") == [ERROR]
    assert two("use_lockfile = true", "", ("prod", "dev")) == [WARNING]
    files = {"a/main.tf": BACKEND % "a", "b/main.tf": BACKEND % "b"}
    entries = "[{ name: a, module: a, environment: dev }, { name: b, module: b, environment: prod }]"
    report = check(the("HF114"), files, config=f"{ENVIRONMENTS}stacks: {entries}\n")
    assert lines(report, the("HF114")) == [("b/main.tf", 2)]


def test_a_store_that_may_not_lock_gets_a_note() -> None:
    """HF114: not every S3-compatible store can."""
    code = BACKEND % 'a"\nendpoints = { s3 = "https://store.acme.example" } #'
    assert levels("HF114", {"main.tf": code}) == [NOTE]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat > live/backend.tf <<END", []),
        ("cat <<END > backend.tf", []),
        ('echo x | tee "$ROOT/live/backend.tf"', []),
        ("cp ci.tf ${{ env.FOLDER }}/backend.tf && ls", []),
        ("sed -i s/a/b/ ./live/backend.tf", []),
        ("terraform fmt live/backend.tf", [ERROR]),
        ("cat > other/backend.tf", [ERROR]),
        ("cp live/backend.tf copy.tf", [ERROR]),
    ],
)
def test_a_file_that_a_pipeline_writes(command: str, expected: list[Severity]) -> None:
    """HF114: what Terraform reads is not what is in Git."""
    files = {"live/backend.tf": BACKEND % "a", ".github/workflows/a.yml": f"- run: |\n    {command}\n"}
    assert levels("HF114", files, stack("live")) == expected


# Links, and code that cannot be read.


def test_links_that_no_stack_reads_are_one_note() -> None:
    """HF309: those of an editor, for example; each one that a stack reads counts."""
    hidden = {f".cursor/rules/{name}": "-> /outside" for name in "abc"}
    read = 'locals {\n  a = file("data/a")\n  b = file("data/b")\n}\n'
    report = check(
        the("HF309"), {"main.tf": read, **hidden, "data/a": "-> /outside", "data/b": "-> /outside"}
    )
    assert [(one.file, one.severity) for one in of(report, the("HF309"))] == [
        (".cursor/rules/a", NOTE),
        ("data/a", ERROR),
        ("data/b", ERROR),
    ]


def test_numbers_with_exponents_are_read() -> None:
    """HF904: `1e+09` is a number of Terraform."""
    assert messages(check(the("HF904"), {"main.tf": "locals {\n  a = 1e+09\n  b = [2.5E-3]\n}\n"})) == []
    assert levels("HF904", {"main.tf": "locals {\n  a = 1e+09\n  b = [\n}\n"}) == [ERROR]
