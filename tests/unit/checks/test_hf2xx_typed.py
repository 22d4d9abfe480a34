"""HF208, HF209: passwords that are typed in scripts, templates and texts that the code hands on."""

from __future__ import annotations

import pytest
from checkouts import check, lines, messages, skips, the

from holdfast.checks.model.interface import Rule

RANDOM, WRITTEN = the("HF208"), the("HF209")
TEXTS = [the("HF207"), RANDOM, WRITTEN]
TYPED = [
    "mysql -u root -p{} -h db app < dump.sql",
    "/usr/bin/mysqldump -uroot -p'{}' app",
    "PGPASSWORD={} psql -h db",
    "export MYSQL_PWD={}",
    "PASSWORD={}",
    "password: {}",
    "DB_PASS={} ./start",
    "mysqladmin --password={} ping",
    "tool --db-password {}",
    "curl -sS -u admin:{} https://host/api",
    'curl --user "admin:{}" https://host/api',
    "docker login -u bob -p {} registry.acme.corp",
    "az login --service-principal -u x -p {} --tenant y",
    "echo 'app:{}' | sudo chpasswd",
    "sshpass -p {} ssh host",
    "redis-cli -h db -a {} ping",
    "mongosh -u root -p {} db",
    "ldapsearch -x -w {} -D cn=admin",
    "sqlcmd -S db -U sa -P {}",
    "openssl rsa -passin pass:{} -in a",
    "helm upgrade a b --set db.password={}",
    "kubectl create secret generic x --from-literal=password={}",
    "adminPassword: {}",
    '{{"name": "DB_PASSWORD", "value": "{}"}}',
]
NOT_TYPED = """\
#!/bin/bash
PASSWORD=$(aws secretsmanager get-secret-value --secret-id orders/db)
export PGPASSWORD="$PASSWORD"
export DB_PASSWORD="$${DB_PASSWORD}"
export MYSQL_PWD=`cat /run/pw`
mysql -u root -p"$PASSWORD" -h db
mysql -u root -p -h db
mysql --user=root --password=${random_password.x.result} app
psql -h db -p 5432 -U app
curl -u "admin:$PASSWORD" https://host
curl -u user:pass https://host
curl -u $USER:$PASSWORD https://host
curl -sS -u :"$TOKEN" https://host
aws ecr get-login-password | docker login --username AWS --password-stdin 123.dkr.ecr.amazonaws.com
docker login -u AWS -p $(aws ecr get-login-password) x
docker run -p 8080:80 -e POSTGRES_PASSWORD=$PW nginx
ssh -p 2222 -i ~/.ssh/id_ed25519 host
sshpass -e ssh host
sshpass -f /run/pw9 ssh host
redis-cli -a "$REDIS_PASSWORD" ping
kubectl create secret generic db --from-file=password=./pw9
echo "app:$PW" | chpasswd
echo 'app:$6$x9$y' | chpasswd -e
sed -i "s/password=.*/password=$PW/" /etc/app.conf
ansible-playbook --ask-pass --vault-password-file /run/vault9 site.yml
grep -q password= /etc/x
case $1 in --password=*) P="$${1#*=}";; --password) P=$2;; esac
tool --password PASSWORD
PASSWORD=changeme
password=args.password
export DB_PASSWORD=module.db.result9
connect(password=None)
db_password: {{ lookup('env', 'X9') }}
password: required
passwordKey: admin-password9
{"name": "DB_PASSWORD", "value": "${var.password}"}
{"name": "DB_PASSWORD_FILE", "value": "/run/secrets/db9X2k7Q"}
{"name": "TOKEN_ISSUER", "value": "https://login.acme.corp/9x"}
"""


@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_is_found_anywhere(line: str) -> None:
    """In a heredoc, in a template, in a script; a weak one is a warning, a random one an error."""
    for password, found in (("Summer2024", WRITTEN), ("q7Rz2Lw9Xk4Tn8Vb3Md6", RANDOM)):
        text = line.format(password)
        files = {
            "main.tf": f'resource "x_y" "a" {{\n  user_data = <<-EOT\n    {text}\n  EOT\n}}\n',
            "init.sh": f"#!/bin/sh\n{text}\n",
            "init.tftpl": f"{text}\n",
        }
        report = check(TEXTS, files)
        assert lines(report, found) == [("init.sh", 2), ("init.tftpl", 1), ("main.tf", 3)]
        assert len(report.findings) == 3
        assert all(password not in f"{one.message}{one.hint}{one.source}" for one in report.findings)


def test_what_a_shell_or_a_template_puts_in_is_not_typed() -> None:
    """Variables, commands, files, standard input, and what stands for a password."""
    files = {
        "main.tf": f'resource "x_y" "a" {{\n  user_data = <<-EOT\n{NOT_TYPED}\n  EOT\n}}\n',
        "init.sh.tpl": NOT_TYPED,
    }
    assert messages(check(TEXTS, files)) == []


def test_what_terraform_fetched_is_not_checked_and_code_is_checked_once() -> None:
    """Modules below `.terraform/` are other people's; JSON that is code is no document beside it."""
    script = "#!/bin/sh\nPGPASSWORD=Summer2024 psql\n"
    code = '{"locals": {"db_password": "Summer2024"}}\n'
    report = check(TEXTS, {".terraform/modules/a/init.sh": script, "main.tf.json": code})
    assert lines(report, WRITTEN) == [("main.tf.json", 1)]


def test_a_command_in_a_quoted_text_is_found() -> None:
    """A provisioner, one line of a list, and the JSON syntax; a name of the code is told once."""
    files = {
        "main.tf": """\
            resource "null_resource" "a" {
              provisioner "local-exec" {
                command     = "PGPASSWORD=Summer2024 psql -h ${var.host}"
                environment = { PGPASSWORD = "Summer2024" }
              }
              provisioner "remote-exec" {
                inline = [
                  "curl -u \\"admin:Summer2024\\" https://host",
                ]
              }
            }
            """,
        "more.tf.json": '{"resource": {"x_y": {"a": {\n"data": "#!/bin/sh\\nmysql -pSummer2024\\n"}}}}\n',
        "a.tfvars": 'script = "mysqladmin --password=Summer2024 ping"\n',
    }
    assert lines(check(TEXTS, files), WRITTEN) == [
        ("a.tfvars", 1),
        ("main.tf", 3),
        ("main.tf", 4),
        ("main.tf", 8),
        ("more.tf.json", 2),
    ]


def test_entries_of_an_environment_are_found_in_documents() -> None:
    """A task definition has its names and values side by side, on one line or on two."""
    files = {
        "main.tf": "locals {}\n",
        "task.json": '[{"environment": [\n{"name": "DB_PASSWORD", "value": "Summer2024"},\n'
        '{\n"name": "API_KEY",\n"value": "q7Rz2Lw9Xk4Tn8Vb3Md6"}]}]\n',
        "key.json": '{"name": "API_KEY", "value": "q7Rz2Lw9Xk4Tn8Vb3Md6"}',
    }
    report = check(TEXTS, files)
    assert lines(report, WRITTEN) == [("task.json", 2)]
    assert lines(report, RANDOM) == [("key.json", 1), ("task.json", 5)]


def test_of_yaml_only_what_code_hands_on_is_searched() -> None:
    """The values of a chart are Terraform's concern; other manifests are other people's."""
    values = "auth:\n  adminPassword: q7Rz2Lw9Xk4Tn8Vb3Md6\n"
    files = {
        "main.tf": 'resource "helm_release" "a" {\n  values = [file("${path.module}/values/a.yaml")]\n}\n',
        "values/a.yaml": values,
        "values/b.yaml": values,
    }
    assert lines(check(TEXTS, files), RANDOM) == [("values/a.yaml", 2)]


def test_an_address_with_a_password_is_reported_by_its_format_alone() -> None:
    """One line, one finding."""
    code = 'locals {\n  a = "curl -u app:Summer2024 https://app:Summer2024@db.acme.corp"\n}\n'
    assert [one.rule.id for one in check(TEXTS, {"main.tf": code}).findings] == ["HF207"]


@pytest.mark.parametrize("found", [RANDOM, WRITTEN], ids=lambda one: one.id)
def test_a_document_that_is_too_large_is_reported_as_not_evaluated(found: Rule) -> None:
    """Nothing that was not looked at is reported as fine."""
    report = check(found, {"main.tf": "", "dump.json": b" " * 5_000_001})
    assert skips(report, found) == ["larger than 5 MB"]
