from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.globs import is_sample
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedState, Module
from holdfast.checks.secrets.carried_secrets import CarriedSecret
from holdfast.checks.secrets.secret_flow import (
    TooComplexError,
    is_marked,
    secret_in,
    variables_in,
)
from holdfast.checks.secrets.secret_variables import secret_variables
from holdfast.checks.secrets.stored_secrets import outputs_in_plan, outputs_in_state
from holdfast.hcl.nodes import Expression, Opaque, references, walk
from holdfast.hcl.reader import UNKNOWN, constant
from holdfast.kernel.patterns import pattern

_IS_ID = pattern(r"(?i)(?:^|[._])(?<!secret_)(?:ids?|arns?|names?|regions?)$")
_PUBLIC_PARTS = frozenset(("host", "cluster_ca_certificate"))
"""Of a cluster's `kube_config`, which is marked as a whole."""
_WHOLE = 2
"""Names in `module.network`: all of its outputs."""


def _module(module: Module) -> Iterator[CheckResult]:
    root = bool(module.roots) or module.folder not in module.checkout.called
    for block in module.blocks("output"):
        name = block.labels[0] if block.labels else ""
        value, mark = block.body.attribute("value"), block.body.attribute("sensitive")
        if value is None or is_marked(module, "output", name):
            continue
        if mark is not None and constant(mark.expression) is UNKNOWN:
            yield Skipped(reason=f"`sensitive` of `{name}` is computed", file=block.place.file)
            continue
        if any(isinstance(part, Opaque) and part.unread for part in walk(value.expression)):
            yield Skipped(reason=f"the value of `{name}` cannot be read", file=block.place.file)
            continue
        try:
            secret = secret_in(value.expression, module, block.file)
        except TooComplexError:
            yield Skipped(reason=f"the value of `{name}` is too complex to follow", file=block.place.file)
            continue
        if secret is not None:
            message, severity = _message_and_severity(name, secret, root=root)
            if severity is None and not root and not _is_passed_on(name, module):
                severity = Severity.WARNING
            if _reveals_little(secret, module) or _is_public_part(value.expression):
                severity = Severity.NOTE
            yield finding(block, message, address=f"output.{name}", severity=severity)
        elif root and (plain := _unmarked_in(value.expression, module, block.file)) is not None:
            message = f"`{name}` shows var.{plain} in plain text: neither is marked `sensitive`"
            yield finding(block, message, address=f"output.{name}", severity=Severity.WARNING)


def _is_passed_on(name: str, module: Module) -> bool:
    """Whether a module that calls this one may show the output: in an output or a local value of its own."""
    for caller in module.checkout.modules:
        if module.folder not in caller.called:
            continue
        for block in caller.blocks("output", "locals"):
            for attribute in block.body.attributes:
                for one in references(attribute.expression):
                    if one.root == "module" and (name in one.names or len(one.names) <= _WHOLE):
                        return True
    return False


def _reveals_little(secret: CarriedSecret, module: Module) -> bool:
    """An id that somebody marked, and the output of an example or a test."""
    live = any(stack.stack.production and not stack.stack.environment_unclear for stack in module.stacks)
    is_id = secret.unmasked and _IS_ID.search(secret.source) is not None
    return is_id or (is_sample(module.folder) and not live)


def _is_public_part(expression: Expression) -> bool:
    """`nonsensitive(azurerm_kubernetes_cluster.main.kube_config[0].host)`: the address of a cluster."""
    last = [part.steps[-1] if part.steps else part.root for part in references(expression)]
    return bool(last) and all(isinstance(name, str) and name in _PUBLIC_PARTS for name in last)


def _unmarked_in(expression: Expression, module: Module, file: str) -> str | None:
    """The first variable in it that sounds like a secret."""
    secrets = {block.labels[0] for block in secret_variables(module)}
    shown = variables_in(expression, module, file) if secrets else ()
    return min((name for name, _ in shown if name in secrets), default=None)


def _message_and_severity(name: str, secret: CarriedSecret, *, root: bool) -> tuple[str, Severity | None]:
    if secret.unmasked:
        return f"`{name}` shows {secret.source} in plain text: `nonsensitive` removes its mark", None
    if not secret.masked:
        return f"`{name}` shows {secret.source} in plain text: the provider does not mark it", None
    if root:
        # Whether a provider marks an attribute depends on its version.
        certain = secret.source.startswith(("var.", "sensitive("))
        then = "Terraform fails here" if certain else "Terraform may refuse this"
        return f"`{name}` contains {secret.source} and is not marked `sensitive`: {then}", Severity.WARNING
    return (f"`{name}` contains {secret.source} and is not marked `sensitive` for its callers", Severity.NOTE)


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    for name in outputs_in_plan(plan.plan):
        yield Finding(
            message=f"the output `{name}` will show a secret of this plan", address=f"output.{name}"
        )


def _state(state: CheckedState) -> Iterator[CheckResult]:
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    for name in outputs_in_state(state.resources, state.outputs):
        yield Finding(message=f"the output `{name}` shows a secret of this state", address=f"output.{name}")


RULE = Rule(
    id="HF210",
    title="Output that shows a secret",
    fix="Mark it `sensitive = true`; better, output the secret's name or ARN instead of its value.",
    severity=Severity.ERROR,
    source=_module,
    plan=_plan,
    state=_state,
    secret=True,
)
