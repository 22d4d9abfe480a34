"""Which engine runs a stack, and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from holdfast.config.engine import EnginePin, EngineUse
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.kernel.errors import EngineError, UsageError
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.versions import Constraint, Version

_REGISTRIES = {Product.TERRAFORM: "registry.terraform.io", Product.TOFU: "registry.opentofu.org"}
_LOCKED_HOST = re.compile(rb'^provider\s+"([^"/]+)/', re.MULTILINE)


class EngineRequirement(Struct, frozen=True, kw_only=True):
    """What a stack, its code and the configuration require."""

    stack: str
    tofu_reason: str | None = None
    """Why the code needs OpenTofu, if it does: Terraform would misread it."""
    required: tuple[str, ...] = ()
    """Each `required_version` of the code."""
    version_file: tuple[str, str] | None = None
    """`.terraform-version` or `.opentofu-version`, and its content."""
    lock_product: Product | None = None
    """The product whose registry the providers of the lock file come from."""
    last_product: Product | None = None
    """The product of the last apply. Only needed if `depends_on_last_apply`."""
    stack_pin: EnginePin | None = None
    config_pin: EnginePin = field(default_factory=EnginePin)


class NoEngineError(UsageError):
    """No installed engine fits the stack."""


class EngineSelection(Struct, frozen=True, kw_only=True):
    engine: EngineId
    why: str


def select_engine(
    requirement: EngineRequirement, engines: tuple[EngineId, ...], unknown: Sequence[EngineId] = ()
) -> EngineSelection:
    """The best of the engines that fit: the product that the stack points to, then embedded, then newer.

    `unknown` are engines whose version could not be queried: if one of them may be the best, none is chosen.
    """
    use, asked = _use(requirement), _constraints(requirement)
    if requirement.tofu_reason and use is EngineUse.TERRAFORM:
        usable = (_satisfies(engine, asked) for engine in engines if engine.product is Product.TOFU)
        raise NoEngineError(
            "HF-ENG-2",
            f"{requirement.stack}: the code needs OpenTofu ({requirement.tofu_reason}), "
            f"the configuration selects {use}",
            hint="Terraform would misread this code. Set `engine: {use: tofu}` for this stack."
            + ("" if any(usable) else _ways(Product.TOFU, None, asked, engines)),
        )
    fitting = _fitting(requirement, engines)
    product, hint = _hint(requirement)
    best = min(fitting, key=lambda engine: _preference(engine, product), default=None)
    for other in unknown:
        preferred = best is None or _preference(other, product) <= _preference(best, product)
        if preferred and _fits(other, requirement):
            raise EngineError(
                "HF-ENG-8",
                f"{requirement.stack}: {other.path} was killed each time it was asked for its version",
                hint="Nothing was started. Run the command again; if it happens again: holdfast doctor",
            )
    if best is None:
        raise _no_engine(requirement, asked, engines)
    if len({engine.product for engine in fitting}) == 1:
        hint = ""
    elif product is None:
        hint = _preferred(best)
    return EngineSelection(engine=best, why=_why(requirement, asked, hint))


def depends_on_last_apply(requirement: EngineRequirement, engines: tuple[EngineId, ...]) -> bool:
    """Engines of both products fit, and nothing else points to one of them."""
    products = {engine.product for engine in _fitting(requirement, engines)}
    return len(products) > 1 and _hint(requirement)[0] is None


def _fitting(requirement: EngineRequirement, engines: tuple[EngineId, ...]) -> list[EngineId]:
    asked = _constraints(requirement)
    return [engine for engine in engines if _fits(engine, requirement) and _satisfies(engine, asked)]


def _satisfies(engine: EngineId, asked: list[tuple[str, str]]) -> bool:
    return all(Constraint.parse(text).allows(Version.parse(engine.version)) for _, text in asked)


def _hint(requirement: EngineRequirement) -> tuple[Product | None, str]:
    """The product that a stack points to without requiring it, and how."""
    if (file := requirement.version_file) is not None and requirement.tofu_reason is None:
        # With a version it is a requirement, which is shown already.
        return Product.TERRAFORM, "" if file[1][:1].isdigit() else " ".join(file)
    if (product := requirement.lock_product) is not None:
        return product, f"{LOCK_FILE} has providers of {_REGISTRIES[product]}"
    if (product := requirement.last_product) is not None:
        return product, f"last applied with {product.shown}"
    return None, ""


def lock_product(content: bytes) -> Product | None:
    """The product whose registry the providers of a lock file come from; None if that is not clear."""
    hosts = {host.decode() for host in _LOCKED_HOST.findall(content)}
    products = [product for product, host in _REGISTRIES.items() if host in hosts]
    return products[0] if len(products) == 1 else None


def _use(requirement: EngineRequirement) -> EngineUse:
    pinned = requirement.stack_pin.use if requirement.stack_pin else EngineUse.AUTO
    return pinned if pinned is not EngineUse.AUTO else requirement.config_pin.use


def _constraints(requirement: EngineRequirement) -> list[tuple[str, str]]:
    """Each as shown, and as written."""
    asked = [(f"required_version {text}", text) for text in requirement.required]
    pin, file = requirement.stack_pin, requirement.version_file
    if pin and pin.version:
        asked.append((f"engine.version {pin.version} of the stack", pin.version))
    elif file and _file_counts(requirement):
        asked.append((" ".join(file), file[1]))
    elif version := requirement.config_pin.version:
        asked.append((f"engine.version {version}", version))
    return asked


def _file_counts(requirement: EngineRequirement) -> bool:
    """Whether the version file is a requirement. That of Terraform says nothing about OpenTofu."""
    pin, file = requirement.stack_pin, requirement.version_file
    if file is None or not file[1][:1].isdigit() or (pin and pin.version):
        return False
    return requirement.tofu_reason is not None or _use(requirement) is not EngineUse.TOFU


def _required_product(requirement: EngineRequirement) -> Product | None:
    """By the code or a version file: Terraform 1.12.6 is not OpenTofu 1.12.6."""
    if requirement.tofu_reason is not None:
        return Product.TOFU
    return Product.TERRAFORM if _file_counts(requirement) else None


_USES: Mapping[EngineUse, tuple[str, EngineKind | None, Product | None]] = {
    EngineUse.AUTO: ("an engine", None, None),
    EngineUse.BINARY: ("a terraform or tofu binary", EngineKind.BINARY, None),
    EngineUse.EMBEDDED: ("an embedded engine", EngineKind.EMBEDDED, None),
    EngineUse.TERRAFORM: ("Terraform", None, Product.TERRAFORM),
    EngineUse.TOFU: ("OpenTofu", None, Product.TOFU),
}
"""How each is described, and the kind and product that it requires."""
_INSTALL = {
    Product.TERRAFORM: "For embedded Terraform: pip install 'holdfast[embedded]'",
    Product.TOFU: "For embedded OpenTofu: pip install holdfast-libtofu",
}


def _fits(engine: EngineId, requirement: EngineRequirement) -> bool:
    _, kind, product = _USES[_use(requirement)]
    products = (product, _required_product(requirement))
    return kind in (None, engine.kind) and all(one in (None, engine.product) for one in products)


def _preference(engine: EngineId, product: Product | None) -> tuple[bool, bool, bool]:
    """Of equal ones, the first given is the newest. Without a hint, Terraform comes before OpenTofu."""
    return (
        product is not None and engine.product is not product,
        engine.kind is not EngineKind.EMBEDDED,
        engine.product is Product.TOFU,
    )


def _preferred(best: EngineId) -> str:
    """A choice between two products is never silent."""
    kind = "embedded " if best.kind is EngineKind.EMBEDDED else ""
    other = next(product for product in Product if product is not best.product)
    preferred = f"both products fit, {kind}{best.product.shown} is preferred"
    return f"{preferred}; to change it: `engine: {{use: {other}}}`"


def _why(requirement: EngineRequirement, asked: list[tuple[str, str]], hint: str) -> str:
    use = _use(requirement)
    pinned = None if use is EngineUse.AUTO else f"`use: {use}`"
    shown = (text for text, _ in asked)
    return (
        "; ".join(filter(None, (requirement.tofu_reason, pinned, *shown, hint)))
        or "the only product installed"
    )


def _no_engine(
    requirement: EngineRequirement, asked: list[tuple[str, str]], engines: tuple[EngineId, ...]
) -> NoEngineError:
    if not engines:  # The same for every stack.
        message = "neither OpenTofu nor Terraform is installed"
        return NoEngineError("HF-ENG-1", message, hint=_ways(None, None, [], ()).strip())
    use = _use(requirement)
    wants, kind, product = _USES[use]
    because = f"`use: {use}` in holdfast.yaml" if product is not None else None
    if required := _required_product(requirement):
        embedded = "embedded " if kind is EngineKind.EMBEDDED else ""
        wants, product = f"{embedded}{required.shown}", required
    because = requirement.tofu_reason or because
    reasons = f" ({because})" if because else ""
    demands = f" for {', '.join(text for text, _ in asked)}" if asked else ""
    installed = ", ".join(str(engine) for engine in engines)
    ways = _ways(product, kind, asked, engines)
    if kind is EngineKind.EMBEDDED:
        ways += f" For the program: `engine: {{use: {product or 'binary'}}}`."
    return NoEngineError(
        "HF-ENG-1",
        f"{requirement.stack}: needs {wants}{reasons}{demands}; installed: {installed}",
        hint=f"{ways[1:]} List the engines: holdfast doctor",
    )


def _ways(
    product: Product | None,
    kind: EngineKind | None,
    asked: list[tuple[str, str]],
    engines: tuple[EngineId, ...],
) -> str:
    """How to get an engine. A library that is installed already has another version."""
    embedded = {engine.product for engine in engines if engine.kind is EngineKind.EMBEDDED}
    versions = ", ".join(dict.fromkeys(text for _, text in asked))
    program = f"`{product or 'tofu` or `terraform'}`{' ' if versions else ''}{versions}"
    ways = []
    if kind is not EngineKind.EMBEDDED:
        ways.append(f" Put {program} on PATH, or run: holdfast tools add FILE.")
    if kind is not EngineKind.BINARY:
        wanted = {*Product} - embedded if product is None else {product} - embedded
        ways += [f" {_INSTALL[name]}." for name in (Product.TOFU, Product.TERRAFORM) if name in wanted]
    return "".join(ways)
