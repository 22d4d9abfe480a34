from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.tools.rego.policies import changes_policies
from holdfast.kernel.errors import Place
from holdfast.stacks.reads.inputs import affecting_change
from holdfast.stacks.reads.walk import stack_inputs


def _check(checkout: Checkout) -> Iterator[Finding]:
    """The folder of the policies may be a link: policies are read, but not copied.

    Links that no stack reads are one note for each folder.
    """
    tree = checkout.code.tree
    links = [path for path in checkout.files if tree.leads_outside(path) and not changes_policies(path)]
    read = [stack_inputs(checkout.code, stack) for stack in checkout.all_stacks] if links else []
    reported: set[str] = set()
    for path in links:
        folder = path.rpartition("/")[0]
        visible = "/." not in f"/{folder}"
        is_read = any((inputs.everything and visible) or affecting_change(inputs, path) for inputs in read)
        if is_read or folder not in reported:
            message = f"{path} is a symbolic link that leads out of the repository: it is not followed"
            severity = None if is_read else Severity.NOTE
            yield Finding(message=message, place=Place(file=path), severity=severity)
        if not is_read:
            reported.add(folder)


RULE = Rule(
    id="HF309",
    title="Link out of the repository",
    fix="Replace the link with the file or folder, or with a link inside the repository.",
    severity=Severity.ERROR,
    repository=_check,
)
