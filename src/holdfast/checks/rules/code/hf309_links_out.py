from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.tools.rego.policies import changes_policies
from holdfast.kernel.errors import Place


def _check(checkout: Checkout) -> Iterator[Finding]:
    """The folder of the policies may be a link: policies are read, but not copied."""
    for path in checkout.files:
        if checkout.code.tree.leads_outside(path) and not changes_policies(path):
            message = f"{path} is a symbolic link that leads out of the repository: it is not followed"
            yield Finding(message=message, place=Place(file=path))


RULE = Rule(
    id="HF309",
    title="Link out of the repository",
    fix="Replace the link with the file or folder, or with a link inside the repository.",
    severity=Severity.ERROR,
    repository=_check,
)
