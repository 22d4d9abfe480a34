"""HF209: a password, or another secret argument, written out in the code."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks import literals, secret_facts
from holdfast.checks.interface import Finding, Rule, Severity, finding
from holdfast.checks.literals import Kind, Suspicious
from holdfast.checks.subjects import Module, VariablesFile


def _module(module: Module) -> Iterator[Finding]:
    for one in literals.in_module(module):
        if one.kind is Kind.KNOWN:
            yield finding(
                one.place,
                f"`{one.name}` is a secret, and is written out here",
                address=one.address,
                hint=secret_facts.remedy("managed", one.type or "", (one.name,)),
            )
        elif one.kind is Kind.PASSWORD:
            yield _password(one)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    for one in literals.in_file(file.file, file.checkout.config):
        if one.kind is Kind.PASSWORD:
            yield _password(one)


def _password(one: Suspicious) -> Finding:
    message = f"`{one.name}` is written out here"
    return finding(one.place, message, address=one.address, severity=Severity.WARNING)


RULE = Rule(
    id="HF209",
    title="A password written out",
    why="Whoever reads the repository has it, it is the same everywhere, and it ends in the state as well. A "
    "default that is meant to be changed is the one that stays.",
    fix="Take it as a sensitive variable without a default, or read it from a secret store; and change it.",
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    secret=True,
    bad='resource "aws_db_instance" "main" {\n  username = "app"\n  password = "summer-holiday"\n}\n',
    good='resource "aws_db_instance" "main" {\n  username                    = "app"\n'
    "  manage_master_user_password = true\n}\n",
    more="An error where the provider itself says that the argument is a secret; a warning under any other "
    "name that ends in `password`, `passwd` or `passphrase`. An argument listed in `ignore_changes` may "
    "have a value to begin with.",
)
