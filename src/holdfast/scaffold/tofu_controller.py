"""The `Terraform` resource that hands a stack to tofu-controller (v1alpha2). Pure.

What the controller would do otherwise than Holdfast without saying so is a refusal, not a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import yaml
from msgspec import Struct

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.kernel.errors import Refused
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.stack import Stack

COMMAND: Final = "holdfast scaffold tofu-controller"
_LONGEST: Final = 63
_APPROVAL: Final = """\
# approvePlan is empty: a person approves each plan. `kubectl -n @{namespace} get terraform @{name}` shows
# the plan that waits. Set approvePlan to its full id, plan-BRANCH-0123456789: a shorter one approves every
# plan that begins so.
"""
_SECRETS: Final = """\
# The Secret @{name}-variables must have these keys: @{keys}
"""


class Approval(StrEnum):
    MANUAL = "manual"
    AUTO = "auto"
    DRIFT_ONLY = "drift-only"


_APPROVE_PLAN: Final = {Approval.MANUAL: "", Approval.AUTO: "auto", Approval.DRIFT_ONLY: "disable"}


class ControllerOptions(Struct, frozen=True, kw_only=True):
    source: str
    """The name of the GitRepository that Flux fetches."""
    namespace: str = "flux-system"
    interval: str = "1h"
    approval: Approval = Approval.MANUAL


def terraform_resource(stack: Stack, options: ControllerOptions, *, code_backend: CodeBackend | None) -> str:
    """`code_backend`: that of the code. Raises Refused with everything that the resource cannot express."""
    obstacles = tuple(_obstacles(stack, code_backend))
    if obstacles:
        raise Refused(
            "HF-SCAF-5",
            f"{stack.name} cannot be handed to tofu-controller: {'; '.join(obstacles)}",
            hint="Change the stack, or keep it with Holdfast.",
        )
    name = _resource_name(stack.name)
    plain, secret = _variables(stack)
    spec: dict[str, Any] = {
        "interval": options.interval,
        "approvePlan": _APPROVE_PLAN[options.approval],
        "path": f"./{stack.module}" if stack.module != "." else "./",
        "sourceRef": {"kind": "GitRepository", "name": options.source},
        "workspace": stack.workspace,
        "backendConfig": {"customConfiguration": _backend(stack, code_backend)},
        **({"tfVarsFiles": [f"./{path}" for path in stack.variables_files]} if stack.variables_files else {}),
        **({"vars": [{"name": key, "value": _json(value)} for key, value in plain.items()]} if plain else {}),
        **(
            {"varsFrom": [{"kind": "Secret", "name": f"{name}-variables", "varsKeys": secret}]}
            if secret
            else {}
        ),
        "upgradeOnInit": False,  # Otherwise the lock file would not count.
        "storeReadablePlan": "none",  # A readable plan has secrets in plaintext.
        "disableDriftDetection": False,
        "destroyResourcesOnDeletion": False,
        "refreshBeforeApply": False,
    }
    document = {
        "apiVersion": "infra.contrib.fluxcd.io/v1alpha2",
        "kind": "Terraform",
        "metadata": {"name": name, "namespace": options.namespace},
        "spec": spec,
    }
    head = f"# Stack {stack.name}. Remove it from holdfast.yaml before you apply this: one tool must write.\n"
    if options.approval is Approval.MANUAL:
        head += _APPROVAL.replace("@{namespace}", options.namespace).replace("@{name}", name)
    if secret:
        head += _SECRETS.replace("@{name}", name).replace("@{keys}", ", ".join(secret))
    return head + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines stay readable."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _obstacles(stack: Stack, code_backend: CodeBackend | None) -> Iterator[str]:
    kind, settings = _backend_of(stack, code_backend)
    if kind is None:
        yield "its state is managed by Holdfast, so the controller would begin with an empty one"
    elif kind == "local":
        yield "its state is a local file, which the controller's runner does not have"
    if code_backend is not None and code_backend.computed:
        yield f"its backend computes {', '.join(code_backend.computed)}"
    if any(map(_has_secret, settings.values())):
        yield "its backend settings have secrets, which would be readable in the resource"
    for what, found in (
        ("inputs from outputs of other stacks", stack.inputs),
        ("generated files", stack.generate),
        ("hooks", stack.hooks),
        ("credentials of its own", stack.credentials),
        ("environment variables (`env`)", stack.env),
    ):
        if found:
            yield f"it has {what}, which the resource cannot express"
    for name, value in stack.variables.items():
        if _has_secret(value) and not isinstance(value, SecretRef):
            yield f"the variable {name} has a secret inside a larger value"


def _variables(stack: Stack) -> tuple[dict[str, Value], list[str]]:
    secret = [name for name, value in stack.variables.items() if isinstance(value, SecretRef)]
    return {name: value for name, value in stack.variables.items() if name not in secret}, secret


def _has_secret(value: object) -> bool:
    match value:
        case SecretRef():
            return True
        case Mapping():
            return any(map(_has_secret, value.values()))
        case tuple() | list():
            return any(map(_has_secret, value))
        case _:
            return False


def _backend_of(stack: Stack, code_backend: CodeBackend | None) -> tuple[str | None, Mapping[str, Any]]:
    """The controller replaces the whole block of the code, so the settings of both are in it."""
    backend = stack.backend
    kind = code_backend.type if code_backend is not None else backend.type if backend is not None else None
    own = code_backend.settings if code_backend is not None else {}
    return kind, {**own, **(backend.settings if backend is not None else {})}


def _backend(stack: Stack, code_backend: CodeBackend | None) -> str:
    kind, settings = _backend_of(stack, code_backend)
    lines = (f"  {name} = {_hcl(value)}" for name, value in settings.items())
    return "\n".join((f'backend "{kind}" {{', *lines, "}"))


def _hcl(value: Any) -> str:
    """JSON is HCL, but for templates in texts."""
    return _json(value).replace("${", "$${").replace("%{", "%%{")


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {name: _plain(each) for name, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case _:
            return value


def _resource_name(stack: str) -> str:
    """A DNS label, as the names of plans and Secrets are made from it."""
    name = re.sub(r"[^a-z0-9]+", "-", stack.lower()).strip("-")
    if not name or len(name) > _LONGEST:
        raise Refused(
            "HF-SCAF-6",
            f"{stack} cannot be the name of a Kubernetes resource: at most {_LONGEST} letters, digits and -",
            hint="Give the stack a shorter name.",
        )
    return name
