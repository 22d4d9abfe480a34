"""HF904: code that cannot be read, as a whole or in part."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.interface import Finding, Rule, Severity
from holdfast.checks.subjects import Checkout, Module, VariablesFile
from holdfast.hcl.nodes import File
from holdfast.kernel.errors import Place


def _module(module: Module) -> Iterator[Finding]:
    for file in module.files:
        yield from _problems(file, module.checkout)


def _variables(file: VariablesFile) -> Iterator[Finding]:
    return _problems(file.file, file.checkout)


def _problems(file: File, checkout: Checkout) -> Iterator[Finding]:
    """Nothing is quoted from a file that a link leads to outside the repository."""
    if file.problems and checkout.code.tree.real(file.path) is None:
        outside = "this cannot be read, and is a link that leads out of the repository"
        yield Finding(message=outside, place=Place(file=file.path), hint="Put the file itself here.")
        return
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
