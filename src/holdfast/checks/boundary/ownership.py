"""The boundary between Terraform and GitOps: types, and stacks that are exempt. Pure."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from holdfast.checks.code.protection import is_created
from holdfast.checks.model.interface import CheckResult, Finding, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, CheckedState, Checkout, Module, Resource
from holdfast.config.checks import BoundarySettings, Side
from holdfast.config.settings import Config
from holdfast.hcl.eval.worktree import Worktree
from holdfast.kernel.patterns import pattern
from holdfast.stacks.stack import matches
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.actions import ChangeKind

BUILT_IN: Final[Mapping[str, Side]] = dict.fromkeys(
    (
        "argocd_*", "carvel_*", "devtron_*", "flux_*", "helm_*", "helmfile_*", "k8s_*",
        "kubectl_*", "kubernetes_*", "kustomization_*", "rancher2_app_v2",
    ),
    Side.GITOPS,
)  # fmt: skip
"""Resources inside a cluster. Networks, the cluster itself and its roles belong to Terraform."""

WRITING: Final = frozenset(("managed",))
READING: Final = frozenset(("data", "ephemeral"))
_LEAVING: Final = frozenset((ChangeKind.DELETE, ChangeKind.FORGET))


NEEDS: Final = "`checks.boundary`, or manifests of Argo CD or Flux in the repository"
_MANIFEST: Final = pattern(
    rb"(?m)^apiVersion: *(?:argoproj\.io/\S+\s+kind: *App|\w+\.toolkit\.fluxcd\.io/)"
    rb"|^kind: *App\S+\s+apiVersion: *argoproj\.io/"
)


def is_configured(checkout: Checkout) -> bool:
    """Whether the repository says that GitOps manages resources: in its settings, or by its manifests."""
    return checkout.config.checks.boundary is not None or (
        _has_cluster_types(checkout)
        and checkout.code.once("uses GitOps", lambda: _has_manifests(checkout.code.tree))
    )


def _has_cluster_types(checkout: Checkout) -> bool:
    folders = {folder for stack in checkout.stacks for folder in stack.folders}
    modules = {*map(checkout.module, folders), *checkout.modules}
    return any(
        _side(resource.type, ()) is Side.GITOPS for module in modules for resource in module.resources()
    )


def _has_manifests(tree: Worktree) -> bool:
    return any(
        _MANIFEST.search(_content(tree, path)) for path in tree.walk(".") if path.endswith((".yaml", ".yml"))
    )


def _content(tree: Worktree, path: str) -> bytes:
    """Not kept in memory, unlike code."""
    try:
        return tree.read_bytes(path)
    except OSError:
        return b""


def severity_in(config: Config) -> Severity | None:
    """Manifests alone do not say where the boundary is: Terraform may well install what GitOps needs."""
    return None if config.checks.boundary is not None else Severity.NOTE


def settings_of(config: Config) -> BoundarySettings:
    return config.checks.boundary or BoundarySettings()


def owner_of_type(type_: str, settings: BoundarySettings) -> Side:
    """The most specific pattern wins: one without a star, then the longest."""
    return _side(type_, tuple(settings.types.items()))


@functools.lru_cache(maxsize=4096)
def _side(type_: str, configured: tuple[tuple[str, Side], ...]) -> Side:
    table = {**BUILT_IN, **dict(configured)}
    patterns = [pattern for pattern in table if fnmatch.fnmatchcase(type_, pattern)]
    if not patterns:
        return Side.TERRAFORM
    return table[max(patterns, key=lambda pattern: ("*" not in pattern, len(pattern)))]


def may_name_providers(document: bytes, settings: BoundarySettings) -> bool:
    """A quick test whether a plan can contain a provider for GitOps resources; most do not."""
    sides = {**BUILT_IN, **settings.types}
    names = {pattern.partition("_")[0] for pattern, side in sides.items() if side is Side.GITOPS}
    return any("*" in name or f'/{name}"'.encode() in document for name in names)


def may_write(stack: CheckedStack, type_: str) -> bool:
    """Whether Terraform owns the type, or the stack is exempt."""
    settings = settings_of(stack.checkout.config)
    if owner_of_type(type_, settings) is Side.TERRAFORM:
        return True
    return any(
        matches(stack.stack, exemption.stack)
        and (not exemption.types or any(fnmatch.fnmatchcase(type_, pattern) for pattern in exemption.types))
        for exemption in settings.exempt
    )


def _stacks_crossing(module: Module, resource: Resource) -> tuple[CheckedStack | None, ...]:
    """Stacks for which a resource crosses the boundary; None: the code itself does.

    If the code belongs to an exempt stack, other stacks may use it if they create none of the resource.
    """
    wrong = tuple(stack for stack in module.stacks if not may_write(stack, resource.type))
    if len(wrong) < len(module.stacks):
        return tuple(stack for stack in wrong if _creates(stack, module.folder, resource))
    return (None,) if owner_of_type(resource.type, settings_of(module.checkout.config)) is Side.GITOPS else ()


def _creates(stack: CheckedStack, folder: str, resource: Resource) -> bool:
    """False if its values disable it: `count = 0`, an empty `for_each`, or a disabled module call."""
    return any(
        not visited.dormant and is_created(resource.body, visited.scope)
        for visited in stack.scopes
        if visited.folder == folder
    )


def for_modes(modes: frozenset[str], message: str) -> dict[str, Any]:
    """The functions of a `Rule` about resources of these modes; `message` has a `{}` for the type."""
    return {
        "needs": NEEDS,
        "configured": is_configured,
        "source": partial(_in_source, modes, message),
        "plan": partial(_in_plan, modes, message),
        "state": partial(_in_state, modes, message),
    }


def _in_source(modes: frozenset[str], message: str, module: Module) -> Iterator[Finding]:
    for resource in module.resources():
        if resource.mode not in modes:
            continue
        for stack in _stacks_crossing(module, resource):
            yield _finding_at_block(resource, message, module.checkout, stack)


def _in_plan(modes: frozenset[str], message: str, checked: CheckedPlan) -> Iterator[Finding]:
    """What the plan creates or keeps; what it deletes or forgets is not reported."""
    changes = (*checked.plan.changes, *(deferred.change for deferred in checked.plan.deferred))
    reported: set[str] = set()
    for change in changes:
        if change.mode not in modes or change.kind in _LEAVING or may_write(checked.stack, change.type):
            continue
        address = without_keys(change.address)
        if address not in reported:
            reported.add(address)
            yield _finding_at_address(checked.stack, address, change.type, message)


def _in_state(modes: frozenset[str], message: str, checked: CheckedState) -> Iterator[CheckResult]:
    if checked.contents.unseen is not None:
        yield Skipped(reason=checked.contents.unseen)
        return
    addresses = {without_keys(address) for address in (*checked.contents.current, *checked.contents.deposed)}
    for address in sorted(addresses):
        mode, type_, _ = parts_of(address)
        if mode in modes and not may_write(checked.stack, type_):
            yield _finding_at_address(checked.stack, address, type_, message)


def parts_of(address: str) -> tuple[str, str, str]:
    """The mode, type and name in an address without keys."""
    names = _inner(address)
    mode = names.pop(0) if names[:1] in (["data"], ["ephemeral"]) else "managed"
    type_, name = (*names, "", "")[:2]
    return mode, type_, name


def _inner(address: str) -> list[str]:
    names = address.split(".")
    while names[:1] == ["module"]:
        del names[:2]
    return names


def _finding_at_address(stack: CheckedStack, address: str, type_: str, message: str) -> Finding:
    """At its block, so that code and plan report it once; otherwise by address."""
    resource = _resource_at(stack, address)
    if resource is not None:
        return _finding_at_block(resource, message, stack.checkout)
    severity = severity_in(stack.checkout.config)
    return Finding(message=message.format(type_), address=address, stack=stack.name, severity=severity)


def _resource_at(stack: CheckedStack, address: str) -> Resource | None:
    inner = ".".join(_inner(address))
    home = address.removesuffix(inner).removesuffix(".")
    for visited in stack.scopes:
        if without_keys(visited.address) == home:
            module = stack.checkout.module(visited.folder)
            return next((resource for resource in module.resources() if resource.address == inner), None)
    return None


def _finding_at_block(
    resource: Resource, message: str, checkout: Checkout, stack: CheckedStack | None = None
) -> Finding:
    name = stack.name if stack is not None else None
    text, severity = message.format(resource.type), severity_in(checkout.config)
    return finding(resource.block, text, address=resource.address, stack=name, severity=severity)
