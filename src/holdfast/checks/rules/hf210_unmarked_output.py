"""HF210: an output that carries a secret and does not say so."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Answer, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedState, Module
from holdfast.checks.secrets.held_secrets import outputs_in_plan, outputs_in_state
from holdfast.checks.secrets.secret_flow import Carried, carried, is_marked, start
from holdfast.hcl.nodes import Opaque, walk
from holdfast.hcl.reader import UNKNOWN, constant


def _module(module: Module) -> Iterator[Answer]:
    for block in module.blocks("output"):
        name = block.labels[0] if block.labels else ""
        value, mark = block.body.attribute("value"), block.body.attribute("sensitive")
        if value is None or is_marked(module, "output", name):
            continue
        if mark is not None and constant(mark.expression) is UNKNOWN:
            yield Skipped(reason=f"whether `{name}` is sensitive is computed", file=block.place.file)
            continue
        if any(isinstance(part, Opaque) and part.unread for part in walk(value.expression)):
            yield Skipped(reason=f"the value of `{name}` cannot be read", file=block.place.file)
            continue
        found = carried(value.expression, start(module, block))
        if found is not None:
            said, severity = _said(name, found, root=bool(module.roots) or not _called(module))
            yield finding(block, said, address=f"output.{name}", severity=severity)


def _said(name: str, found: Carried, *, root: bool) -> tuple[str, Severity | None]:
    if found.unmasked:
        return f"`{name}` shows {found.source} in clear: `nonsensitive` takes its mark away", None
    if not found.masked:
        return f"`{name}` shows {found.source} in clear: the provider does not mark it", None
    if root:
        return f"`{name}` carries {found.source}, and is not marked `sensitive`: Terraform stops here", None
    return f"`{name}` carries {found.source}, and does not say so to whoever calls this module", Severity.NOTE


def _called(module: Module) -> bool:
    """Whether another module of the repository calls it: then it is no root module."""
    code = module.checkout.code
    return any(
        isinstance(source, str) and code.tree.inside(other.folder, source) == module.folder
        for other in module.checkout.modules
        for call in other.code.calls
        if (source := constant(call.source) if call.source is not None else None) is not None
    )


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    for name in outputs_in_plan(plan.plan):
        yield Finding(
            message=f"the output `{name}` will show a secret of this plan", address=f"output.{name}"
        )


def _state(state: CheckedState) -> Iterator[Answer]:
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    for name in outputs_in_state(state.resources, state.outputs):
        yield Finding(message=f"the output `{name}` shows a secret of this state", address=f"output.{name}")


RULE = Rule(
    id="HF210",
    title="An output that shows a secret",
    why="Outputs are printed after every apply, stand in logs of CI, and are read by other stacks and people "
    "who have no need of the secret.",
    fix="Mark it `sensitive = true`; better, put out the name or ARN of the secret instead of its value.",
    severity=Severity.ERROR,
    source=_module,
    plan=_plan,
    state=_state,
    secret=True,
    bad='variable "password" {\n  type      = string\n  sensitive = true\n}\n\n'
    'output "login" {\n  value = "app:${nonsensitive(var.password)}"\n}\n',
    good='variable "password" {\n  type      = string\n  sensitive = true\n}\n\n'
    'output "login" {\n  value     = "app:${var.password}"\n  sensitive = true\n}\n',
    more="Sensitive variables, `sensitive(…)` and attributes that providers mark are followed through local "
    "values, functions, `for`, splats, arguments and outputs of local modules. Modules from registries are "
    "not looked into. In a module that others call it is a note: Terraform passes the mark on. Plans and "
    "states are searched for outputs without the mark whose value is, or holds, one that is marked "
    "elsewhere; of a plan only outputs that it changes.",
)
