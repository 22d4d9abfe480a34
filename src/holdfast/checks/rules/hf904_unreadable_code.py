"""HF904: code that cannot be read, as a whole or in part."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.interface import Finding, Rule, Severity
from holdfast.checks.subjects import Module, VariablesFile
from holdfast.hcl.nodes import File


def _module(module: Module) -> Iterator[Finding]:
    for file in module.files:
        yield from _problems(file)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    return _problems(file.file)


def _problems(file: File) -> Iterator[Finding]:
    for problem in file.problems:
        yield Finding(message=problem.message, place=problem.place, hint=problem.hint)


RULE = Rule(
    id="HF904",
    title="Code that cannot be read",
    why="Terraform would stop here too. Until it is mended, the other rules see only a part of the file.",
    fix="Mend the syntax at this place.",
    severity=Severity.ERROR,
    source=_module,
    variables=_variables,
    bad='resource "aws_s3_bucket" "a" {\n  bucket = \n',
    good='resource "aws_s3_bucket" "a" {\n  bucket = "a"\n}\n',
)
