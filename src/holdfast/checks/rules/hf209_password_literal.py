from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module, VariablesFile
from holdfast.checks.secrets import literals, secret_facts, texts
from holdfast.checks.secrets.suspicion import SecretKind, Suspicious

_FIX = "Pass it as a sensitive variable without a default, or read it from a secret store; then rotate it."


def _module(module: Module) -> Iterator[Finding]:
    for one in literals.in_module(module):
        if one.kind is SecretKind.KNOWN:
            own = secret_facts.remedy("managed", one.type or "", (one.name,), otherwise="")
            yield finding(
                one.place,
                f"`{one.name}` is a secret and is hard-coded here",
                address=one.address,
                hint=f"{_FIX} {own}".rstrip(),
            )
        elif one.kind is SecretKind.PASSWORD:
            yield _password(one)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    yield from (_password(one) for one in literals.in_variables(file) if one.kind is SecretKind.PASSWORD)


def _repository(checkout: Checkout) -> Iterator[CheckResult]:
    for one in texts.in_documents(checkout):
        if isinstance(one, Skipped):
            yield one
        elif one.kind is SecretKind.PASSWORD:
            yield _password(one)


def _password(one: Suspicious) -> Finding:
    inline = " " in one.name or one.name.startswith("-")
    message = f"the password of `{one.name}` is hard-coded" if inline else f"`{one.name}` is hard-coded"
    return finding(one.place, message, address=one.address, severity=Severity.WARNING)


RULE = Rule(
    id="HF209",
    title="Hard-coded password",
    why="Everyone who can read the repository has it, it is the same in every environment, and it is "
    "stored in the state. Defaults that are meant to be changed usually stay.",
    fix=_FIX,
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    repository=_repository,
    secret=True,
    bad='resource "aws_db_instance" "main" {\n  username = "app"\n  password = "summer-holiday"\n}\n',
    good='resource "aws_db_instance" "main" {\n  username                    = "app"\n'
    "  manage_master_user_password = true\n}\n",
    more="It is an error if the provider marks the argument as sensitive or the code does (`sensitive = "
    "true` next to a `value`); the rule follows it to a local value or a variable's default. It is a "
    "warning under any other name that ends in `password`, `passwd`, `passphrase` or `pass`, and for "
    "inline passwords in scripts, templates and embedded texts: `PGPASSWORD=… psql`, `mysql -p…`, `curl "
    "-u user:…`, `--password=…` (random texts are [HF208](HF208.md)). An argument listed in "
    "`ignore_changes` may have an initial value.",
)
