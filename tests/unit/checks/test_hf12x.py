"""HF120 to HF128: secrets and identities of backends, names of states, who shares and who reads them."""

from __future__ import annotations

import pytest
from checkouts import check, checkout, lines, messages, of, skips

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.checks.rules.backends.hf120_backend_credentials import RULE as SECRET
from holdfast.checks.rules.backends.hf121_backend_in_code import HF121 as IDENTITY
from holdfast.checks.rules.backends.hf121_backend_in_code import HF122 as PLACE
from holdfast.checks.rules.backends.hf123_state_name import RULE as NAME
from holdfast.checks.rules.backends.hf124_shared_states import HF124 as TWICE
from holdfast.checks.rules.backends.hf124_shared_states import HF125 as MIXED
from holdfast.checks.rules.backends.hf126_state_reads import HF126 as UNDECLARED
from holdfast.checks.rules.backends.hf126_state_reads import HF127 as ACROSS
from holdfast.checks.rules.backends.hf128_two_backends import RULE as DOUBLE


def block(type_: str, settings: str = "") -> str:
    return f'terraform {{\n  backend "{type_}" {{\n    {settings}\n  }}\n}}\n'


WHERE = {
    "s3": 'bucket = "b"\n    key = "k"',
    "azurerm": 'storage_account_name = "s"\n    container_name = "c"\n    key = "k"',
    "gcs": 'bucket = "b"',
    "http": 'address = "https://states.example.com/a"',
    "consul": 'path = "a"',
    "kubernetes": 'secret_suffix = "a"',
    "cos": 'bucket = "b"',
    "oss": 'bucket = "b"',
    "oci": 'bucket = "b"\n    namespace = "n"',
    "remote": 'organization = "o"',
}

# HF120: secrets.


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        ("s3", "secret_key"),
        ("s3", "token"),
        ("s3", "sse_customer_key"),
        ("azurerm", "access_key"),
        ("azurerm", "sas_token"),
        ("azurerm", "client_secret"),
        ("gcs", "access_token"),
        ("gcs", "encryption_key"),
        ("http", "password"),
        ("consul", "access_token"),
        ("kubernetes", "token"),
        ("cos", "secret_key"),
        ("oss", "security_token"),
        ("oci", "private_key"),
        ("remote", "token"),
    ],
)
def test_a_secret_that_is_written_out_is_found(type_: str, name: str) -> None:
    """At its line, without its value; one that is computed or empty is none."""
    report = check(SECRET, {"main.tf": block(type_, f'{WHERE[type_]}\n    {name} = "hunter2-hunter2"')})
    assert [one.message for one in of(report, SECRET)] == [
        f"`{name}` of the {type_} backend is a hard-coded secret"
    ]
    assert "hunter2" not in repr([(one.message, one.hint) for one in report.findings])
    for given in ("var.secret", '""', "null"):
        code = block(type_, f"{WHERE[type_]}\n    {name} = {given}")
        assert messages(check(SECRET, {"main.tf": code}), SECRET) == []


@pytest.mark.parametrize(
    ("type_", "setting"),
    [
        ("pg", 'conn_str = "postgres://tf:hunter2@db/tf"'),
        ("pg", 'conn_str = "host=db user=tf password=hunter2"'),
        ("http", 'address = "https://ci:hunter2@states.example.com/a"'),
        ("http", 'address = "https://states.example.com/a?token=hunter2"'),
        ("gcs", 'bucket = "b"\n    credentials = "{\\"private_key\\": \\"hunter2\\"}"'),
        (
            "s3",
            'bucket = "b"\n    key = "k"\n    assume_role_with_web_identity = { web_identity_token = "t" }',
        ),
    ],
)
def test_secrets_inside_other_settings_are_found(type_: str, setting: str) -> None:
    """In addresses, connection strings and nested settings."""
    assert len(of(check(SECRET, {"main.tf": block(type_, setting)}), SECRET)) == 1


@pytest.mark.parametrize(
    ("type_", "setting"),
    [
        ("pg", 'conn_str = "postgres://db/tf?sslmode=verify-full"'),
        ("pg", 'conn_str = "host=db user=tf"'),
        ("http", 'address = "https://states.example.com/a?project=1"'),
        ("http", 'address = "https://[broken"'),
        ("gcs", 'bucket = "b"\n    credentials = "/run/secrets/gcp.json"'),
    ],
)
def test_what_only_looks_like_a_secret_is_not_found(type_: str, setting: str) -> None:
    """Names of users, paths of files, other parts of an address."""
    assert messages(check(SECRET, {"main.tf": block(type_, setting)}), SECRET) == []


def test_the_configuration_is_checked_too() -> None:
    """A secret in `settings` is found at the entry; a reference to one is right."""
    config = """
    version: 1
    stacks:
      - name: a
        module: .
        environment: prod
        backend: {{ type: http, settings: {{ address: "https://s.example.com", password: {} }} }}
    """
    files = {"main.tf": "locals {}\n"}
    report = check(SECRET, files, config=config.format("hunter2"))
    assert lines(report, SECRET) == [("holdfast.yaml", 4)]
    assert messages(check(SECRET, files, config=config.format("{ secret: 'env:P' }")), SECRET) == []


@pytest.mark.parametrize(
    ("type_", "variable"),
    [
        ("http", "TF_HTTP_PASSWORD: hunter2"),
        ("pg", "PG_CONN_STR: 'postgres://tf:hunter2@db/tf'"),
        ("pg", "PGPASSWORD: hunter2"),
        ("azurerm", "ARM_ACCESS_KEY: hunter2"),
        ("s3", "AWS_SECRET_ACCESS_KEY: hunter2"),
        ("consul", "CONSUL_HTTP_TOKEN: hunter2"),
    ],
)
def test_a_secret_in_a_variable_that_the_backend_reads_is_found(type_: str, variable: str) -> None:
    """By the variable's name, at the entry; one by reference is right."""
    config = "version: 1\nstacks:\n  - {{ name: a, module: ., environment: prod, env: {{ {env} }} }}\n"
    files = {"main.tf": block(type_)}
    name = variable.partition(":")[0]
    report = check(SECRET, files, config=config.format(env=variable))
    assert [(one.file, one.line, one.message.split("`")[1]) for one in of(report, SECRET)] == [
        ("holdfast.yaml", 3, name)
    ]
    assert "hunter2" not in repr([(one.message, one.hint) for one in report.findings])
    referred = config.format(env=f"{name}: {{ secret: 'env:A' }}")
    assert messages(check(SECRET, files, config=referred), SECRET) == []


def test_a_secret_of_digits_is_one_too() -> None:
    """A number is as good a password as a text."""
    report = check(SECRET, {"main.tf": block("http", WHERE["http"] + "\n    password = 12345678")})
    assert messages(report, SECRET) == ["`password` of the http backend is a hard-coded secret"]


def test_a_token_in_a_cloud_block_is_found() -> None:
    """In a stack, and in code that no stack uses."""
    code = 'terraform {\n  cloud {\n    organization = "o"\n    token = "hunter2"\n  }\n}\n'
    for config in (None, "version: 1\n"):
        assert lines(check(SECRET, {"main.tf": code}, config=config), SECRET) == [("main.tf", 4)]


def test_the_config_of_a_remote_state_is_checked() -> None:
    """With its address; and it can be waived there."""
    code = """\
    data "terraform_remote_state" "a" {
      backend = "s3"
      config  = { bucket = "b", key = "k", secret_key = "hunter2" }
    }
    data "terraform_remote_state" "b" {
      backend = var.x
      config  = { secret_key = "hunter2" }
    }
    """
    found = of(check(SECRET, {"main.tf": code}), SECRET)
    assert [(one.line, one.address) for one in found] == [(1, "data.terraform_remote_state.a")]
    waived = code.replace(
        'backend = "s3"', 'backend = "s3" # holdfast:ignore HF120 until=2027-01-01 reason=x'
    )
    assert [one.waived for one in of(check(SECRET, {"main.tf": waived}), SECRET)] == [True]


# HF121 and HF122: identities and places.


@pytest.mark.parametrize(
    ("type_", "setting"),
    [
        ("s3", 'profile = "p"'),
        ("s3", 'role_arn = "arn:aws:iam::123456789012:role/r"'),
        ("s3", 'assume_role = { role_arn = "arn:aws:iam::123456789012:role/r" }'),
        ("s3", 'assume_role {\n      role_arn = "arn:aws:iam::123456789012:role/r"\n    }'),
        ("s3", 'allowed_account_ids = ["123456789012"]'),
        ("azurerm", 'subscription_id = "x"'),
        ("azurerm", 'tenant_id = "x"'),
        ("gcs", 'impersonate_service_account = "a@b"'),
        ("http", 'username = "ci"'),
        ("oci", 'user_ocid = "ocid1"'),
    ],
)
def test_an_identity_in_the_code_is_found(type_: str, setting: str) -> None:
    """At its line, once."""
    report = check(IDENTITY, {"main.tf": block(type_, f"{WHERE[type_]}\n    {setting}")})
    at = 3 + WHERE[type_].count("\n") + 1
    assert lines(report, IDENTITY) == [("main.tf", at)]


def test_the_path_of_a_key_file_is_an_identity_and_its_content_a_secret() -> None:
    """Each is found by one of the two rules."""
    path = check(
        (SECRET, IDENTITY), {"main.tf": block("gcs", 'bucket = "b"\n    credentials = "../sa.json"')}
    )
    assert [one.rule.id for one in path.findings] == ["HF121"]
    held = check((SECRET, IDENTITY), {"main.tf": block("gcs", 'bucket = "b"\n    credentials = "{}"')})
    assert [one.rule.id for one in held.findings] == ["HF120"]


def test_an_identity_that_is_configured_or_computed_is_right() -> None:
    """The code holds only the backend's type; or OpenTofu asks a variable."""
    config = """
    version: 1
    stacks:
      - { name: a, module: ., environment: prod, backend: { settings: { bucket: b, key: k, profile: p } } }
    """
    for code in (block("s3"), block("s3", 'profile = "q"'), block("s3", "role_arn = var.r")):
        assert messages(check(IDENTITY, {"main.tf": code}, config=config), IDENTITY) == []
    waived = block("s3", 'profile = "q" # holdfast:ignore HF121 until=2027-01-01 reason=x')
    assert [one.waived for one in of(check(IDENTITY, {"main.tf": waived}), IDENTITY)] == [True]


def test_a_place_in_the_code_is_a_note() -> None:
    """One for the block, with what is fixed; what the configuration says, or nobody knows, is not."""
    code = block("s3", 'bucket = "b"\n    key = "k"\n    region = var.r')
    found = of(check(PLACE, {"main.tf": code}), PLACE)
    assert [(one.message, one.severity) for one in found] == [
        ("the location of the state is hard-coded: `bucket`, `key`", Severity.NOTE)
    ]
    assert messages(check(PLACE, {"main.tf": block("s3")}), PLACE) == []
    assert messages(check(PLACE, {"main.tf": block("local", 'path = "a"')}), PLACE) == []
    config = "version: 1\nstacks:\n  - { name: a, module: ., backend: { settings: { bucket: c, key: l } } }\n"
    assert messages(check(PLACE, {"main.tf": code}, config=config), PLACE) == []


# HF123: names.

NAMES = """
version: 1
company: acme
environments: {{ dev: {{ match: [dev] }} }}
stacks:
  - name: a
    module: .
    environment: {environment}
    region: eu-west-1
    backend: {{ type: {type}, settings: {settings} }}
checks: {{ backend: {convention} }}
"""


def named(settings: str, *, environment: str = "dev", type_: str = "s3", convention: str = "{}") -> Report:
    config = NAMES.format(settings=settings, environment=environment, type=type_, convention=convention)
    return check(NAME, {"main.tf": "locals {}\n"}, config=config)


def test_names_after_the_convention_are_right() -> None:
    """Bucket, lock table and key, as they are built in."""
    report = named(
        "{ bucket: acme-dev-tfstate-eu-west-1, dynamodb_table: acme-dev-tfstate-lock, "
        "key: net/vpc/terraform.tfstate }"
    )
    assert messages(report) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "{ bucket: acme-prod-tfstate-eu-west-1 }",
            "the bucket `acme-prod-tfstate-eu-west-1` should be `acme-dev-tfstate-eu-west-1`",
        ),
        ("{ bucket: states }", "the bucket `states` should be `acme-dev-tfstate-eu-west-1`"),
        ("{ dynamodb_table: locks }", "the lock table `locks` should be `acme-dev-tfstate-lock`"),
        (
            "{ key: terraform.tfstate }",
            "the key `terraform.tfstate` should be `{component}/terraform.tfstate`",
        ),
        (
            "{ key: a//terraform.tfstate }",
            "the key `a//terraform.tfstate` should be `{component}/terraform.tfstate`",
        ),
    ],
)
def test_another_name_is_found(settings: str, said: str) -> None:
    """With what it should be."""
    assert messages(named(settings), NAME) == [said]


def test_what_is_not_known_of_a_stack_may_be_anything() -> None:
    """Without company, environment and region only the shape counts; the backend's region does."""
    config = "version: 1\nstacks: [{ name: a, module: . }]\n"
    for bucket, found in (("x-y-tfstate-z", 0), ("x-y-states-z", 1)):
        files = {"main.tf": block("s3", f'bucket = "{bucket}"')}
        assert len(of(check(NAME, files, config=config), NAME)) == found
    files = {"main.tf": block("s3", 'bucket = "x-y-tfstate-eu-west-1"\n    region = "us-east-1"')}
    assert len(of(check(NAME, files, config=config), NAME)) == 1


def test_the_convention_can_be_changed() -> None:
    """By pattern, for Azure too; `any` asks for nothing."""
    own = '{ bucket: "tf-{environment}-{name}", key: any }'
    assert messages(named("{ bucket: tf-dev-a, key: x }", convention=own), NAME) == []
    assert len(of(named("{ bucket: tf-prod-a, key: x }", convention=own), NAME)) == 1
    azure = '{ storage_account: "acme{environment}", container: "tfstate-{environment}" }'
    settings = "{ storage_account_name: acmedev, container_name: tfstate-prod, key: a/terraform.tfstate }"
    report = named(settings, type_="azurerm", convention=azure)
    assert messages(report, NAME) == ["the container `tfstate-prod` should be `tfstate-dev`"]


def test_other_stores_follow_the_same_convention() -> None:
    """A bucket of COS ends in its account, and a prefix is a part of the key."""
    settings = "{ bucket: acme-dev-tfstate-eu-west-1-1250000000, prefix: net, key: terraform.tfstate }"
    assert messages(named(settings, type_="cos"), NAME) == []
    assert len(of(named("{ bucket: states }", type_="gcs"), NAME)) == 1
    assert messages(named("{ address: 'https://x.example.com' }", type_="http"), NAME) == []


def test_a_name_that_is_computed_is_a_skip_and_one_that_is_missing_nothing() -> None:
    """Nobody can compare it."""
    report = check(NAME, {"main.tf": block("s3", "bucket = var.b")})
    assert messages(report, NAME) == []
    assert skips(report, NAME) == ["`bucket` of the s3 backend is computed, so its value is not known"]


# HF124: one state twice.


def test_a_copied_backend_block_is_found() -> None:
    """In a folder that no entry names; not in one with a key of its own, or a key that is not told."""
    config = "version: 1\nstacks: [{ name: net, module: net }]\n"
    same = block("s3", 'bucket = "b"\n    key = "net"')
    files = {
        "net/main.tf": same,
        "copy/main.tf": same,
        "other/main.tf": block("s3", 'bucket = "b"\n    key = "other"'),
        "open/main.tf": block("s3"),
        "none/main.tf": "locals {}\n",
    }
    report = check(TWICE, files, config=config)
    assert lines(report, TWICE) == [("copy/main.tf", 2)]
    assert messages(report, TWICE) == ["`copy` uses the state of `net` (s3 backend: bucket b, key net)"]
    files["copy/main.tf"] = same.replace(
        "{\n    b", "{ # holdfast:ignore HF124 until=2027-01-01 reason=x\n    b"
    )
    assert [one.waived for one in of(check(TWICE, files, config=config), TWICE)] == [True]


def test_a_place_that_opentofu_computes_is_evaluated() -> None:
    """From the variables of each stack; a value that is not known has a reason."""
    config = """
version: 1
stacks:
  - { name: a, module: net, variables: { key: one } }
  - { name: b, module: net, variables: { key: one } }
  - { name: c, module: net, variables: { key: two } }
"""
    code = 'variable "key" {}\n' + block("s3", 'bucket = "b"\n    key = "net/${var.key}"')
    report = check(TWICE, {"net/main.tofu": code}, config=config)
    assert messages(report, TWICE) == ["`b` uses the state of `a` (s3 backend: bucket b, key net/one)"]
    assert skips(report, TWICE) == []
    report = check(TWICE, {"net/main.tofu": code}, config=config.replace("{ key: two }", "{}"))
    assert skips(report, TWICE) == ["the location of its state is not known"]


TWO = """
version: 1
stacks:
  - {{ name: a, module: a, backend: {{ type: {type}, settings: {a} }} }}
  - {{ name: b, module: b, backend: {{ type: {type}, settings: {b} }} }}
"""


@pytest.mark.parametrize(
    ("type_", "a", "b", "found"),
    [
        ("gcs", "{ bucket: x, prefix: net }", "{ bucket: x, prefix: net2 }", 0),
        ("http", "{ address: 'https://S.example.com/a' }", "{ address: 'https://s.example.com/a/' }", 1),
        ("http", "{ address: 'https://s.example.com/a?x=1' }", "{ address: 'https://t.example.com/a' }", 0),
        (
            "azurerm",
            "{ storage_account_name: Acme, container_name: c, key: k }",
            "{ storage_account_name: acme, container_name: c, key: k }",
            1,
        ),
    ],
)
def test_one_place_that_is_written_in_two_ways_is_found(type_: str, a: str, b: str, found: int) -> None:
    """A slash or a capital letter makes no other state."""
    files = {"a/main.tf": "locals {}\n", "b/main.tf": "locals {}\n"}
    report = check(TWICE, files, config=TWO.format(type=type_, a=a, b=b))
    assert [one.stack for one in of(report, TWICE)] == ["b"] * found


def test_a_folder_with_the_name_of_a_stack_is_not_the_stack() -> None:
    """The stack `net` lives elsewhere; the folder `net` is on the state of another."""
    config = "version: 1\nstacks:\n  - { name: net, module: far }\n  - { name: app, module: app }\n"
    files = {
        "far/main.tf": block("s3", 'bucket = "b"\n    key = "far"'),
        "app/main.tf": block("s3", 'bucket = "b"\n    key = "app"'),
        "net/main.tf": block("s3", 'bucket = "b"\n    key = "app"'),
    }
    found = of(check(TWICE, files, config=config), TWICE)
    assert [(one.file, one.stack) for one in found] == [("net/main.tf", None)]
    on_its_namesake = {**files, "net/main.tf": files["far/main.tf"]}
    assert lines(check(TWICE, on_its_namesake, config=config), TWICE) == [("net/main.tf", 2)]


def test_states_that_holdfast_keeps_are_never_the_same() -> None:
    """They go by the names of stacks."""
    config = "version: 1\nstacks: [{ name: a, module: . }, { name: b, module: . }]\n"
    report = check(TWICE, {"main.tf": "locals {}\n"}, config=config)
    assert (messages(report), skips(report, TWICE)) == ([], [])


def test_a_state_whose_place_is_computed_is_a_skip() -> None:
    """It may be anybody's."""
    report = check(TWICE, {"main.tf": block("s3", 'bucket = "b"\n    key = var.k')})
    assert skips(report, TWICE) == ["the location of its state is not known"]


def test_what_was_not_selected_is_not_reported() -> None:
    """But what was is compared with everything."""
    files = {f"{name}/main.tf": "locals {}\n" for name in "abc"}
    same = ("{ address: 'https://S.acme.io/a' }", "{ address: 'https://s.acme.io/a/' }")
    config = TWO.format(type="http", a=same[0], b=same[1])
    config += "  - { name: c, module: c }\n"
    for selected, found in (("a", 1), ("b", 1), ("c", 0)):
        made = checkout(files, config=config, select=[selected])
        assert len(of(check(TWICE, made), TWICE)) == found


# HF125: environments in one bucket.

MIX = """
version: 1
environments: {{ dev: {{ match: [dev] }}, test: {{ match: [test] }} }}
stacks:
  - {{ name: a, module: ., environment: {one}, backend: {{ type: s3, settings: {{ bucket: {x}, key: a }} }} }}
  - {{ name: b, module: ., environment: {two}, backend: {{ type: s3, settings: {{ bucket: {y}, key: b }} }} }}
{more}
"""


def mixed(one: str, two: str, x: str = "x", y: str = "x", more: str = "", code: str = "") -> Report:
    config = MIX.format(one=one, two=two, x=x, y=y, more=more)
    return check(MIXED, {"main.tf": code or "locals {}\n"}, config=config)


@pytest.mark.parametrize(
    ("one", "two", "severity"),
    [
        ("prod", "dev", Severity.ERROR),
        ("test", "prod", Severity.ERROR),
        ("dev", "test", Severity.WARNING),
        ("dev", "elsewhere", Severity.WARNING),
        ("prod", "live", Severity.WARNING),
    ],
)
def test_a_bucket_is_for_one_environment(one: str, two: str, severity: Severity) -> None:
    """Production beside what is not is an error; one finding for a bucket."""
    assert [found.severity for found in of(mixed(one, two), MIXED)] == [severity]


def test_a_bucket_of_its_own_is_right() -> None:
    """Other buckets, or one environment in both."""
    assert messages(mixed("prod", "dev", y="y")) == []
    assert messages(mixed("dev", "dev")) == []


def test_a_bucket_that_is_missing_or_computed_is_compared_with_nothing() -> None:
    """Two that are not known are not one."""
    config = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks:
      - { name: a, module: a, environment: prod, backend: { type: s3, settings: { key: a } } }
      - { name: b, module: b, environment: dev }
      - { name: c, module: b, environment: prod, workspace: c }
    """
    files = {"a/main.tf": "locals {}\n", "b/main.tf": block("s3", 'bucket = var.b\n    key = "k"')}
    assert messages(check(MIXED, files, config=config)) == []


def test_a_mixed_bucket_can_be_waived() -> None:
    """In the configuration, for the stack that is the guest."""
    waiver = "{ rule: HF125, stack: b, owner: us, reason: moving, until: 2027-01-01 }"
    report = mixed("prod", "dev", more=f"checks: {{ waivers: [{waiver}] }}")
    assert [one.waived for one in of(report, MIXED)] == [True]


# HF126 and HF127: reads.

READS = """
version: 1
environments: {{ dev: {{ match: [dev] }} }}
stacks:
  - {{ name: app, module: app, environment: {app}{depends} }}
  - {{ name: net, module: net, environment: prod }}
"""
NET = block("s3", 'bucket = "b"\n    key = "net/terraform.tfstate"')
APP = block("s3", 'bucket = "b"\n    key = "app/terraform.tfstate"')


def remote(config: str, more: str = "", kind: str = '"s3"') -> str:
    return f'data "terraform_remote_state" "net" {{\n  backend = {kind}\n  config = {config}\n  {more}\n}}\n'


RIGHT = remote('{ bucket = "b", key = "net/terraform.tfstate", region = "eu-west-1" }')


def reads(read: str, depends: str = "", app: str = "prod", **more: str) -> Report:
    files = {"net/main.tf": NET, "app/main.tf": APP, "app/read.tf": read, **more}
    config = READS.format(app=app, depends=depends)
    return check((UNDECLARED, ACROSS), files, config=config)


def test_a_read_of_another_stack_is_right() -> None:
    """Declared or not: the dependency follows from the read."""
    assert messages(reads(RIGHT)) == messages(reads(RIGHT, ", depends_on: [net]")) == []


OWN = remote('{ bucket = "b", key = "app/terraform.tfstate" }')


def test_a_read_of_its_own_state_is_found() -> None:
    """At the data source; and it can be waived there."""
    found = of(reads(OWN), UNDECLARED)
    assert [(one.file, one.line, one.stack, one.address) for one in found] == [
        ("app/read.tf", 1, "app", "data.terraform_remote_state.net")
    ]
    assert found[0].message == "`app` reads its own state"
    waived = f"# holdfast:ignore HF126 until=2027-01-01 reason=x\n{OWN}"
    assert [one.waived for one in of(reads(waived), UNDECLARED)] == [True]


def test_stacks_that_read_each_others_state_are_reported_at_both() -> None:
    """Holdfast cannot apply them in order; a stack that reads only one of them is right."""
    found = of(reads(RIGHT, **{"net/read.tf": OWN}), UNDECLARED)
    assert [(one.file, one.stack, one.severity) for one in found] == [
        ("app/read.tf", "app", Severity.WARNING),
        ("net/read.tf", "net", Severity.WARNING),
    ]
    assert "`app` and `net` read each other's state" in found[0].message


def test_values_of_the_stack_are_followed() -> None:
    """Through variables, locals, modules and `for_each`."""
    variable = 'variable "key" {\n  default = "app"\n}\n'
    by_variable = variable + remote('{ bucket = "b", key = "${var.key}/terraform.tfstate" }')
    assert len(of(reads(by_variable), UNDECLARED)) == 1
    call = 'module "m" {\n  source = "../m"\n  key = "app"\n}\n'
    report = reads(call, **{"m/main.tf": by_variable})
    assert lines(report, UNDECLARED) == [("m/main.tf", 4)]
    each = remote(
        '{ bucket = "b", key = "${each.key}/terraform.tfstate" }', 'for_each = toset(["net", "app"])'
    )
    assert messages(reads(each), UNDECLARED) == ["`app` reads its own state"]


def test_a_read_that_is_never_made_is_none() -> None:
    """`count = 0`, of the read itself or of the module around it."""
    never = remote('{ bucket = "b", key = "net/terraform.tfstate" }', "count = 0")
    assert messages(reads(never)) == []
    call = 'module "m" {\n  source = "../m"\n  count = 0\n}\n'
    assert messages(reads(call, **{"m/main.tf": RIGHT})) == []


def test_a_state_of_another_repository_is_a_note() -> None:
    """Another key, another workspace, another repository."""
    for read in (
        remote('{ bucket = "b", key = "dns/terraform.tfstate" }'),
        remote('{ bucket = "b", key = "net/terraform.tfstate" }', 'workspace = "blue"'),
    ):
        assert [one.severity for one in of(reads(read), UNDECLARED)] == [Severity.NOTE]


@pytest.mark.parametrize(
    "read",
    [
        remote('{ bucket = "b", key = aws_s3_object.a.key }'),
        remote('{ bucket = "b" }'),
        remote("var.unknown"),
        remote('{ bucket = "b", key = "net/terraform.tfstate" }', kind="var.unknown"),
        remote('{ bucket = "b", key = "net/terraform.tfstate" }', "workspace = var.unknown"),
        'data "terraform_remote_state" "net" {}\n',
    ],
)
def test_a_read_that_is_not_known_is_a_skip(read: str) -> None:
    """With its address."""
    report = reads(read)
    assert messages(report) == []
    assert skips(report, UNDECLARED) == ["the state that data.terraform_remote_state.net reads is not known"]


def test_production_is_not_read_from_outside() -> None:
    """Declared or not; within production it is right, and a read of nobody's state says nothing."""
    report = reads(RIGHT, ", depends_on: [net]", app="dev")
    assert messages(report) == ["`app` is not production and reads the state of `net`, which is production"]
    assert lines(report, ACROSS) == [("app/read.tf", 1)]
    assert messages(reads(RIGHT), ACROSS) == []
    assert messages(reads(remote('{ bucket = "b", key = var.k }'), app="dev"), ACROSS) == []
    waived = f"# holdfast:ignore HF127 until=2027-01-01 reason=x\n{RIGHT}"
    report = reads(waived, ", depends_on: [net]", app="dev")
    assert [one.waived for one in of(report, ACROSS)] == [True]


def test_an_input_from_the_other_side_of_production_is_found() -> None:
    """At `inputs` of the entry: it reads that state, too."""
    inputs = ", inputs: { v: { output: net.vpc } }"
    report = reads("", inputs, app="dev")
    assert messages(report) == [
        "`app` is not production and its input v is an output of `net`, which is production"
    ]
    assert lines(report, ACROSS) == [("holdfast.yaml", 5)]
    assert messages(reads("", inputs)) == []


# HF128: two backends.


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"main.tf": block("s3"), "backend.tf": block("gcs")}, [("main.tf", 2)]),
        ({"main.tf": 'terraform {\n  backend "s3" {}\n  cloud {}\n}\n'}, [("main.tf", 3)]),
        ({"main.tf.json": '{"terraform": {"backend": {"s3": {}, "gcs": {}}}}'}, [("main.tf.json", 1)]),
        ({"main.tf": block("s3") * 3}, [("main.tf", 7), ("main.tf", 12)]),
        ({"main.tf": block("s3"), "a_override.tf": block("gcs") * 2}, [("a_override.tf", 7)]),
        ({"main.tofu": block("s3"), "backend.tf": block("gcs")}, [("main.tofu", 2)]),
    ],
)
def test_a_second_backend_is_found(files: dict[str, str], found: list[tuple[str, int]]) -> None:
    """In whichever file and syntax it stands, each beyond the first."""
    report = check(DOUBLE, files)
    assert lines(report, DOUBLE) == found
    assert "is a second backend" in messages(report, DOUBLE)[0]


def test_one_backend_that_takes_the_place_of_another_is_right() -> None:
    """That of an override file, and OpenTofu's own file instead of Terraform's."""
    for other in ("override.tf", "a_override.tf.json", "main.tofu"):
        text = '{"terraform": {"cloud": {}}}' if other.endswith("json") else block("gcs")
        assert messages(check(DOUBLE, {"main.tf": block("s3"), other: text})) == []
