"""HF210, HF211, HF212, HF214: where code lets secrets through to outputs, plans and states."""

from __future__ import annotations

import pytest
from checkouts import check, messages, of, skips, the

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report

OUTPUT, VARIABLE, TWIN, READ = the("HF210"), the("HF211"), the("HF212"), the("HF214")
PASSWORD = 'variable "password" {\n  type      = string\n  sensitive = true\n}\n'
MODULE = {
    "m/main.tf": 'variable "given" {\n  type = string\n}\n'
    'resource "random_password" "a" {\n  length = 20\n}\n'
    'output "made" {\n  value     = random_password.a.result\n  sensitive = true\n}\n'
    'output "unsaid" {\n  value = random_password.a.result\n}\n'
    'output "passed" {\n  value = var.given\n}\n'
    'output "size" {\n  value = random_password.a.length\n}\n',
}


def output(value: str, before: str = PASSWORD, more: dict[str, str] | None = None) -> Report:
    return check(OUTPUT, {"main.tf": f'{before}output "o" {{\n  value = {value}\n}}\n', **(more or {})})


@pytest.mark.parametrize(
    ("value", "before", "source"),
    [
        ("var.password", PASSWORD, "var.password"),
        ('"app:${var.password}"', PASSWORD, "var.password"),
        ("local.a", PASSWORD + "locals {\n  a = { p = upper(var.password) }\n}\n", "var.password"),
        ("local.a.p", PASSWORD + "locals {\n  a = { p = var.password, q = 1 }\n}\n", "var.password"),
        ("merge({ a = 1 }, { b = var.password })", PASSWORD, "var.password"),
        ("var.password != null ? var.password : 0", PASSWORD, "var.password"),
        ("[for one in [var.password] : one]", PASSWORD, "var.password"),
        ('sensitive("a")', "", "sensitive(…)"),
        ("random_password.a.result", "", "random_password.a.result"),
        ("random_password.a", "", "random_password.a.bcrypt_hash"),
        ("random_password.a[*].result", "", "random_password.a.result"),
        ('random_password.a["x"].result', "", "random_password.a.result"),
        ("random_password.a[0].result", "", "random_password.a.result"),
        ("{ for k, v in random_password.a : k => v.result }", "", "random_password.a.result"),
        ("aws_mq_broker.a.user[0].password", "", "aws_mq_broker.a.user.password"),
        ("data.aws_secretsmanager_secret_version.a.secret_string", "",
         "data.aws_secretsmanager_secret_version.a.secret_string"),
        ('jsondecode(data.aws_secretsmanager_secret_version.a.secret_string)["user"]', "",
         "data.aws_secretsmanager_secret_version.a.secret_string"),
    ],
)  # fmt: skip
def test_an_output_that_carries_a_secret_must_say_so(value: str, before: str, source: str) -> None:
    """Through texts, local values, functions, loops and splats; the message names where it comes from."""
    certain = source.startswith(("var.", "sensitive("))
    then = "Terraform fails here" if certain else "Terraform may refuse this"
    expected = f"`o` contains {source} and is not marked `sensitive`: {then}"
    assert messages(output(value, before)) == [expected]


@pytest.mark.parametrize(
    ("value", "before"),
    [
        ("nonsensitive(var.password)", PASSWORD),
        ('"app:${nonsensitive(local.a)}"', PASSWORD + "locals {\n  a = var.password\n}\n"),
        ("local.a", PASSWORD + "locals {\n  a = nonsensitive(var.password)\n}\n"),
        ("nonsensitive(random_password.a.result)", ""),
    ],
)
def test_nonsensitive_does_not_make_a_secret_harmless(value: str, before: str) -> None:
    """Terraform no longer stops, and shows it: that is worse."""
    (found,) = messages(output(value, before))
    assert found.endswith("in plain text: `nonsensitive` removes its mark")


@pytest.mark.parametrize(
    ("value", "before"),
    [
        ("random_password.a.length", ""),
        ("random_password.a[*].id", ""),
        ("[for one in random_password.a : one.id]", ""),
        (
            "{ for k, v in local.a : k => v.arn }",
            PASSWORD + "locals {\n  a = { x = { arn = 1, p = var.password } }\n}\n",
        ),
        ("aws_db_instance.a.endpoint", ""),
        ("aws_db_instance.a[0].master_user_secret", ""),
        ("local.a.q", PASSWORD + "locals {\n  a = { p = var.password, q = 1 }\n}\n"),
        ("nonsensitive(length(var.password))", PASSWORD),
        ('nonsensitive(var.password != "")', PASSWORD),
        ("nonsensitive(sha256(var.password))", PASSWORD),
        ('nonsensitive("a-${sha256(var.password)}")', PASSWORD),
        ("nonsensitive(data.aws_ssm_parameter.ami.value)", ""),
        ("keys(local.a)", PASSWORD + "locals {\n  a = { p = var.password }\n}\n"),
        ("issensitive(var.password)", PASSWORD),
        ("var.other", 'variable "other" {}\n'),
        ("var.missing", ""),
        ("module.elsewhere.x", 'module "elsewhere" {\n  source = "a/b/c"\n}\n'),
    ],
)
def test_an_output_without_a_secret_is_left_alone(value: str, before: str) -> None:
    """Only the part that is put out counts, and what the source does not show is not guessed."""
    assert messages(output(value, before)) == []


def test_a_secret_that_the_provider_does_not_mark_is_shown_at_once() -> None:
    """Terraform does not stop, for nothing tells it that this is one."""
    (found,) = messages(output("aws_directory_service_trust.a.trust_password", ""))
    assert found == (
        "`o` shows aws_directory_service_trust.a.trust_password in plain text: the provider does not mark it"
    )


@pytest.mark.parametrize("mark", ["sensitive = true", "ephemeral = true"])
def test_a_sensitive_output_is_not_reported(mark: str) -> None:
    """It was thought of."""
    assert messages(output(f"var.password\n  {mark}")) == []


def test_whether_an_output_is_marked_may_not_be_known() -> None:
    """A mark that is computed is said to be unseen, not taken for either."""
    report = output("var.password\n  sensitive = var.hide")
    assert messages(report) == []
    assert "`sensitive` of `o` is computed" in skips(report, OUTPUT)


@pytest.mark.parametrize(
    ("name", "found"), [("made", True), ("unsaid", True), ("passed", True), ("size", False), ("none", False)]
)
def test_outputs_of_local_modules_are_followed(name: str, *, found: bool) -> None:
    """What a module puts out, marked or not, and what it is given and hands back."""
    call = PASSWORD + 'module "m" {\n  source = "./m"\n  given  = var.password\n}\n'
    said = [one for one in of(output(f"module.m.{name}", call, MODULE), OUTPUT) if one.file == "main.tf"]
    assert [one.message.split(" and ")[0] for one in said] == (
        [f"`o` contains module.m.{name}"] if found else []
    )


def test_in_a_module_that_is_called_it_is_a_note() -> None:
    """Terraform passes the mark on: nothing is shown yet."""
    report = output("1", 'module "m" {\n  source = "./m"\n}\n', MODULE)
    assert [(one.message, one.severity) for one in of(report, OUTPUT)] == [
        (
            "`unsaid` contains random_password.a.result and is not marked `sensitive` for its callers",
            Severity.NOTE,
        )
    ]


def test_modules_and_local_values_that_call_each_other_come_to_an_end() -> None:
    """Terraform refuses circles; a check must not fall over them."""
    circle = "locals {\n  a = local.b\n  b = local.a\n}\n"
    assert messages(output("local.a", circle)) == []


@pytest.mark.parametrize(
    "block",
    ['variable "db_password" {}', 'variable "api_token" {\n  type = string\n}',
     'variable "client_secret" {\n  type = string\n  default = null\n}',
     'variable "db_password" {\n  type = string\n  sensitive = false\n}'],
)  # fmt: skip
def test_a_variable_that_sounds_secret_must_be_marked(block: str) -> None:
    """Else its value stands in every plan."""
    (found,) = messages(check(VARIABLE, {"main.tf": block + "\n"}))
    assert found.endswith("sounds like a secret and is not marked `sensitive`")


@pytest.mark.parametrize(
    "block",
    ['variable "db_password" {\n  sensitive = true\n}', 'variable "db_password" {\n  ephemeral = true\n}',
     'variable "secret_name" {\n  type = string\n}', 'variable "token_ttl" {\n  type = number\n}',
     'variable "create_password" {\n  type = bool\n}',
     'variable "manage_master_user_password" {\n  default = true\n}',
     'variable "image_pull_secret" {\n  default = "regcred"\n}',
     'variable "secrets" {\n  type = map(string)\n}',
     'variable "private_key_algorithm" {\n  type = string\n}', 'variable "region" {\n  type = string\n}'],
)  # fmt: skip
def test_a_variable_that_is_marked_or_only_about_a_secret_is_left_alone(block: str) -> None:
    """Names of secrets, switches and numbers are shown to be read."""
    assert messages(check(VARIABLE, {"main.tf": block + "\n"})) == []


def test_whether_a_variable_is_marked_may_not_be_known() -> None:
    """Terraform refuses a computed mark; the rule says that it could not look."""
    report = check(VARIABLE, {"main.tf": 'variable "db_password" {\n  sensitive = local.hide\n}\n'})
    assert skips(report, VARIABLE) == ["`sensitive` of `db_password` is computed"]


@pytest.mark.parametrize(
    ("body", "path", "twin"),
    [
        ('"aws_db_instance" "a" {\n  password = var.x\n}', "password", "password_wo"),
        ('"aws_db_instance" "a" {\n  password = random_password.a.result\n}', "password", "password_wo"),
        (
            '"google_alloydb_cluster" "a" {\n  initial_user {\n    password = var.x\n  }\n}',
            "initial_user.password",
            "password_wo",
        ),
        ('"aws_ssm_parameter" "a" {\n  type = "SecureString"\n  value = var.x\n}', "value", "value_wo"),
        ('"helm_release" "a" {\n  set_sensitive {\n    value = var.x\n  }\n}', "set_sensitive", "set_wo"),
    ],
)
def test_an_argument_with_a_write_only_twin_is_named(body: str, path: str, twin: str) -> None:
    """Known or not, its value ends in the state; the twin's does not."""
    (found,) = of(check(TWIN, {"main.tf": f"resource {body}\n"}), TWIN)
    assert found.message == f"`{path}` is stored in the state in plain text; `{twin}` is not"
    assert "Set `" in (found.hint or "")


@pytest.mark.parametrize(
    "body",
    ['"aws_db_instance" "a" {\n  username = "a"\n}', '"aws_db_instance" "a" {\n  password = null\n}',
     '"aws_db_instance" "a" {\n  password_wo = var.x\n  password_wo_version = 1\n}',
     '"aws_ssm_parameter" "a" {\n  type = "String"\n  value = "x"\n}',
     '"aws_s3_bucket" "a" {\n  password = "x"\n}'],
)  # fmt: skip
def test_an_argument_that_is_missing_or_has_no_twin_is_left_alone(body: str) -> None:
    """Nothing is kept, or nothing can be done here."""
    assert messages(check(TWIN, {"main.tf": f"resource {body}\n"})) == []


def test_a_parameter_whose_type_is_not_known_is_reported_as_not_evaluated() -> None:
    """It may be a secret, and it may be a setting."""
    code = 'resource "aws_ssm_parameter" "a" {\n  type = var.type\n  value = var.x\n}\n'
    assert skips(check(TWIN, {"main.tf": code}), TWIN) == ["the type of aws_ssm_parameter.a is computed"]


def test_a_secret_that_is_read_or_made_is_noted_with_a_remedy() -> None:
    """The note names the ephemeral block that leaves nothing behind."""
    code = (
        'data "aws_secretsmanager_secret_version" "a" {\n  secret_id = "x"\n}\n'
        'resource "random_password" "a" {\n  length = 20\n}\n'
    )
    found = of(check(READ, {"main.tf": code}), READ)
    assert [(one.address, one.severity) for one in found] == [
        ("data.aws_secretsmanager_secret_version.a", Severity.NOTE),
        ("random_password.a", Severity.NOTE),
    ]
    assert all("ephemeral" in (one.hint or "") for one in found)


@pytest.mark.parametrize(
    "block",
    ['ephemeral "aws_secretsmanager_secret_version" "a" {}', 'data "aws_secretsmanager_secret" "a" {}',
     'data "aws_ssm_parameter" "a" {\n  name = "/aws/service/ami-amazon-linux-latest/al2023"\n}',
     'data "aws_ssm_parameter" "a" {\n  name = "/x"\n  with_decryption = false\n}',
     'resource "random_id" "a" {}', 'resource "aws_iam_access_key" "a" {\n  pgp_key = "keybase:x"\n}'],
)  # fmt: skip
def test_what_leaves_no_secret_behind_is_left_alone(block: str) -> None:
    """Ephemeral blocks, names of secrets, AWS's own parameters."""
    assert messages(check(READ, {"main.tf": block + "\n"})) == []


def test_whether_a_parameter_is_decrypted_may_not_be_known() -> None:
    """Then the rule says so."""
    code = 'data "aws_ssm_parameter" "a" {\n  name = var.name\n  with_decryption = var.open\n}\n'
    assert skips(check(READ, {"main.tf": code}), READ) == [
        "`with_decryption` of data.aws_ssm_parameter.a is computed"
    ]
