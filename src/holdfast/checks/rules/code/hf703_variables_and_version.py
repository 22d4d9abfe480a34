from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module, VariablesFile
from holdfast.config.problems import did_you_mean


def _check_variables(file: VariablesFile) -> Iterator[Finding | Skipped]:
    declared: set[str] = set()
    for stack in file.stacks:
        if stack.module.code.problems:
            place = stack.module.code.problems[0].place
            yield Skipped(
                reason=f"{place} cannot be read, so the declared variables are not known", file=file.path
            )
            return
        declared.update(stack.module.code.variables)
    if not file.stacks:
        yield Skipped(reason="no selected stack uses this file", file=file.path, expected=True)
        return
    folder = file.stacks[0].module.folder
    for attribute in file.file.body.attributes:
        if attribute.name not in declared:
            module = "the root module" if folder == "." else folder
            meant = did_you_mean(attribute.name, declared)
            repeated = _times_set(file.checkout)[folder, attribute.name] > 1
            yield finding(
                attribute,
                f"`{attribute.name}` is set here, but {module} does not declare it",
                address=f"var.{attribute.name}",
                hint=meant,
                severity=Severity.NOTE if attribute.name in _declared_anywhere(file.checkout) else None,
                group=f"{folder} {attribute.name}" if meant or repeated else file.path,
            )


def _times_set(checkout: Checkout) -> Counter[tuple[str, str]]:
    """How many variables files of a root module set a variable."""
    return checkout.code.once(
        "times set",
        lambda: Counter(
            (file.stacks[0].module.folder, attribute.name)
            for file in checkout.variables_files
            for attribute in (file.file.body.attributes if file.stacks else ())
        ),
    )


def _declared_anywhere(checkout: Checkout) -> frozenset[str]:
    """Variables of all modules: one of them in a file that does not need it is a value that many share."""
    return checkout.code.once(
        "declared variables",
        lambda: frozenset(name for module in checkout.modules for name in module.code.variables),
    )


HF703 = Rule(
    id="HF703",
    title="Variable is set but not declared",
    fix="Declare it, correct its name, or remove it.",
    severity=Severity.WARNING,
    variables=_check_variables,
)


def _check_version(module: Module) -> Iterator[Finding | Skipped]:
    if not module.roots or any(
        block.body.attribute("required_version") is not None for block in module.blocks("terraform")
    ):
        return
    broken = next((file for file in module.files if file.problems), None)
    if broken is not None:
        yield Skipped(reason=f"{broken.path} could not be read in full", file=broken.path)
        return
    first = next(module.blocks("terraform"), None) or next(
        (block for file in module.files for block in file.body.blocks), None
    )
    if first is not None:
        where = "the root module" if module.folder == "." else f"`{module.folder}`"
        yield finding(first.place, f"{where} has no `required_version`")


HF709 = Rule(
    id="HF709",
    title="No Terraform version constraint",
    fix='Set `required_version = "~> 1.9"`, or what fits, in the `terraform` block.',
    severity=Severity.NOTE,
    source=_check_version,
)
