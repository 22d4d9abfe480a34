"""HF209: a password, or another secret argument, written out in the code."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Answer, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module, VariablesFile
from holdfast.checks.secrets import literals, secret_facts, texts
from holdfast.checks.secrets.suspicion import Kind, Suspicious

_FIX = "Take it as a sensitive variable without a default, or read it from a secret store; and change it."


def _module(module: Module) -> Iterator[Finding]:
    for one in literals.in_module(module):
        if one.kind is Kind.KNOWN:
            own = secret_facts.remedy("managed", one.type or "", (one.name,), otherwise="")
            yield finding(
                one.place,
                f"`{one.name}` is a secret, and is written out here",
                address=one.address,
                hint=f"{_FIX} {own}".rstrip(),
            )
        elif one.kind is Kind.PASSWORD:
            yield _password(one)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    yield from (_password(one) for one in literals.in_variables(file) if one.kind is Kind.PASSWORD)


def _repository(checkout: Checkout) -> Iterator[Answer]:
    for one in texts.in_documents(checkout):
        if isinstance(one, Skipped):
            yield one
        elif one.kind is Kind.PASSWORD:
            yield _password(one)


def _password(one: Suspicious) -> Finding:
    typed = " " in one.name or one.name.startswith("-")
    message = (
        f"the password of `{one.name}` is written out here" if typed else f"`{one.name}` is written out here"
    )
    return finding(one.place, message, address=one.address, severity=Severity.WARNING)


RULE = Rule(
    id="HF209",
    title="A password written out",
    why="Whoever reads the repository has it, it is the same everywhere, and it ends in the state as well. A "
    "default that is meant to be changed is the one that stays.",
    fix=_FIX,
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    repository=_repository,
    secret=True,
    bad='resource "aws_db_instance" "main" {\n  username = "app"\n  password = "summer-holiday"\n}\n',
    good='resource "aws_db_instance" "main" {\n  username                    = "app"\n'
    "  manage_master_user_password = true\n}\n",
    more="An error where the provider itself says that the argument is a secret, or the code does "
    "(`sensitive = true` beside a `value`); it is followed to a local value or the default of a variable. A "
    "warning under any other name that ends in `password`, `passwd`, `passphrase` or `pass`, and where it is "
    "typed in a script, a template or a text that the code hands on: `PGPASSWORD=… psql`, `mysql -p…`, "
    "`curl -u user:…`, `--password=…` (what looks random is HF208's). An argument listed in `ignore_changes` "
    "may have a value to begin with.",
)
