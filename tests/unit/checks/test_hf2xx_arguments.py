"""HF209: arguments that hold nothing but a secret, and what is written out for them."""

from __future__ import annotations

import pytest
from checkouts import check, lines, of, the

from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets import secret_facts

TEXTS = [the(id_) for id_ in ("HF207", "HF208", "HF209")]
WRITTEN = the("HF209")


def found_in(code: str) -> list[tuple[str, str, Severity]]:
    report = check(TEXTS, {"main.tf": code})
    return [(one.rule.id, one.message.split("`")[1], one.severity) for one in report.findings]


@pytest.mark.parametrize(
    ("type_", "body", "path"),
    [
        ("github_actions_secret", 'secret_name = "A"\nplaintext_value = "w7Kq2Xw9Lp4"', "plaintext_value"),
        ("github_actions_environment_secret", 'plaintext_value = "w7Kq2Xw9Lp4"', "plaintext_value"),
        ("github_dependabot_organization_secret", 'value = "w7Kq2Xw9Lp4"', "value"),
        ("gitlab_project_variable", 'key = "X"\nvalue = "w7Kq2Xw9Lp4"\nmasked = true', "value"),
        ("tfe_variable", 'key = "x"\nvalue = "w7Kq2Xw9Lp4"\nsensitive = true', "value"),
        ("datadog_webhook_custom_variable", 'value = "w7Kq2Xw9Lp4"\nis_secret = true', "value"),
        ("azurerm_api_management_named_value", 'value = "w7Kq2Xw9Lp4"\nsecret = true', "value"),
        ("aws_db_instance", 'password_wo = "w7Kq2Xw9Lp4"', "password_wo"),
        ("aws_db_instance", 'password = var.a == null ? "w7Kq2Xw9Lp4" : var.a', "password"),
        ("aws_vpn_connection", 'tunnel1_preshared_key = "w7Kq2Xw9Lp4"', "tunnel1_preshared_key"),
        ("aws_elasticache_user", 'passwords = ["w7Kq2Xw9Lp4"]', "passwords"),
        (
            "aws_cloudwatch_event_connection",
            'auth_parameters {\napi_key {\nvalue = "w7Kq2Xw9Lp4"\n}\n}',
            "auth_parameters.api_key.value",
        ),
        ("helm_release", 'set_sensitive {\nname = "a"\nvalue = "w7Kq2Xw9Lp4"\n}', "set_sensitive.value"),
        ("azurerm_data_factory_linked_service_azure_function", 'key = "w7Kq2Xw9Lp4"', "key"),
        (
            "google_compute_router_peer",
            'md5_authentication_key {\nkey = "a1"\n}',
            "md5_authentication_key.key",
        ),
        ("kubernetes_secret", 'data = {\npassword = "w7Kq2Xw9Lp4"\nusername = "app"\n}', "data.password"),
        ("kubernetes_secret_v1", 'data_wo = { token = "w7Kq2Xw9Lp4" }', "data_wo.token"),
        (
            "azurerm_container_group",
            'container {\nsecure_environment_variables = { DB_PASSWORD = "w7Kq2Xw9Lp4" }\n}',
            "container.secure_environment_variables.DB_PASSWORD",
        ),
        (
            "aws_secretsmanager_secret_version",
            'secret_string = jsonencode({ password = "w7Kq2Xw9Lp4", port = "5432" })',
            "secret_string.password",
        ),
        (
            "aws_secretsmanager_secret_version",
            'secret_string = <<E\n{"db": {"password": "summer7!"}}\nE',
            "secret_string.db.password",
        ),
        ("vault_kv_secret_v2", 'data_json = "{\\"token\\": \\"w7Kq2Xw9Lp4\\"}"', "data_json.token"),
    ],
)  # fmt: skip
def test_a_secret_is_found_in_the_argument_that_holds_it(type_: str, body: str, path: str) -> None:
    """By the provider's own mark, by a write-only name, or because the code itself says that it is one."""
    code = f'resource "{type_}" "a" {{\n{body}\n}}\n'
    assert found_in(code) == [("HF209", path, Severity.ERROR)]


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("github_actions_secret", 'secret_name = "AWS_REGION"\nplaintext_value = "eu-central-1"'),
        ("github_actions_secret", 'secret_name = "ROLE_ARN"\nplaintext_value = "arn:aws:iam::1:role/a"'),
        ("github_actions_secret", 'secret_name = "X"\nplaintext_value = var.x'),
        ("github_actions_variable", 'variable_name = "X"\nvalue = "eu"'),
        ("gitlab_project_variable", 'key = "TOKEN_TTL"\nvalue = "3600"'),
        ("tfe_variable", 'key = "x"\nvalue = "eu"\nsensitive = false'),
        ("azurerm_key_vault_secret", 'name = "storage-account-name"\nvalue = "stacme"'),
        ("azurerm_linux_function_app", 'site_config {\napplication_insights_key = "a1b2"\n}'),
        ("kubernetes_secret", 'data = {\nname = "prod"\nserver = "https://k"\nsecretKey = "password"\n}'),
        (
            "aws_secretsmanager_secret_version",
            'secret_string = jsonencode({\npassword = "begin"\n})\nlifecycle {\nignore_changes = all\n}',
        ),
        ("aws_secretsmanager_secret_version", 'secret_string = "{}"'),
        ("aws_db_instance", 'password = "${var.a}b"'),
        ("aws_appconfig_hosted_configuration_version", 'content = "level: info"'),
    ],
)
def test_what_a_store_holds_beside_secrets_is_left_alone(type_: str, body: str) -> None:
    """A region, a name, a reference, a value to begin with: usual code gives no error."""
    assert found_in(f'resource "{type_}" "a" {{\n{body}\n}}\n') == []


@pytest.mark.parametrize(
    ("type_", "argument", "more"),
    [("aws_db_instance", "password", "manage_master_user_password"), ("github_actions_secret", "value", "")],
)
def test_the_hint_starts_with_the_change_to_the_code(type_: str, argument: str, more: str) -> None:
    """Out of the code it must in any case; what its type offers beside comes after."""
    (found,) = check(
        WRITTEN, {"main.tf": f'resource "{type_}" "a" {{\n  {argument} = "summer"\n}}\n'}
    ).findings
    assert (found.hint or "").startswith(WRITTEN.fix)
    assert more in (found.hint or "")


def test_a_secret_is_followed_to_where_it_is_written() -> None:
    """A name between the argument and the text hides nothing; the finding stands at the text, once."""
    files = {
        "main.tf": 'resource "aws_db_instance" "a" {\n  password = local.a\n}\n'
        'resource "aws_db_instance" "b" {\n  password = var.b\n}\n'
        'resource "aws_rds_cluster" "c" {\n  master_password = var.b\n}\n',
        "names.tf": 'locals {\n  a = local.c\n  c = "summer"\n}\nvariable "b" {\n  default = "winter"\n}\n',
    }
    assert lines(check(TEXTS, files), WRITTEN) == [("names.tf", 3), ("names.tf", 6)]


def test_a_file_of_one_line_hides_nothing() -> None:
    """JSON that a program wrote: every secret is told, though all stand on one line."""
    both = '{"aws_db_instance": {"a": {"password": "summer"}, "b": {"password": "winter"}}}'
    assert len(of(check(TEXTS, {"main.tf.json": f'{{"resource": {both}}}'}), WRITTEN)) == 2


def test_every_argument_of_the_table_that_a_name_gives_away_is_found() -> None:
    """Each attribute that a provider marks and whose name says `password`, `secret`, `token` or `key`."""
    missed = []
    for type_ in secret_facts._table("secret-attributes")["resources"]:
        for one in secret_facts.secret_attributes("managed", type_):
            name = one.steps[-1]
            ends = name.endswith(("password", "_secret", "_token", "api_key", "access_key", "private_key"))
            if one.kind != secret_facts.SENSITIVE or not ends:
                continue
            opened = "".join(f"{step if step != '*' else 'x'} {{\n" for step in one.steps[:-1])
            inside = f'{opened}{name} = "summer"\n{"}" * (len(one.steps) - 1)}'
            code = f'resource "{type_}" "a" {{\n{inside}\n}}\n'.replace("}}", "}\n}")
            if not of(check(WRITTEN, {"main.tf": code}, config=""), WRITTEN):
                missed.append(f"{type_}.{one.path}")
    assert missed == []


@pytest.mark.parametrize(
    ("code", "id_", "name"),
    [
        ('provider "datadog" {\n  app_key = "3f1a9c7e5b2d4f6a8c0e1b3d"\n}\n', "HF208", "app_key"),
        ('locals {\n  tokens = { web = "q7Rz2Lw9Xk4Tn8Vb3Md6" }\n}\n', "HF208", "tokens"),
        ('locals {\n  db_pass = "summer"\n}\n', "HF209", "db_pass"),
        ('module "a" {\n  source = "a/b/c"\n  env = [{ key = "DB_PASSWORD", value = "summer" }]\n}\n',
         "HF209", "DB_PASSWORD"),
    ],
)  # fmt: skip
def test_more_names_say_that_a_text_is_a_secret(code: str, id_: str, name: str) -> None:
    """Datadog's second key, a map of tokens, the short form of `password`, entries by `key`."""
    assert [(one, two) for one, two, _ in found_in(code)] == [(id_, name)]


@pytest.mark.parametrize(
    "line",
    ['map_key = "x7f9a2b3c4d"', 'bypass = "x7f9a2b3c4d"', 'secrets = { db = "orders/db-7f9a2b3c" }',
     'hash_key = "LockID7f9a2b"', 'tokens = { issuer = "x7f9a2b3c4d" }'],
)  # fmt: skip
def test_names_that_only_look_like_these_are_left_alone(line: str) -> None:
    """A key of a map, a name of a secret."""
    assert found_in(f"locals {{\n  {line}\n}}\n") == []
