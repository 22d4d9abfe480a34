"""Which engine runs a stack, and why. Pure."""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.config.engine import EnginePin, EngineUse
from holdfast.kernel.errors import UsageError
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.versions import Constraint, Version


class EngineRequirement(Struct, frozen=True, kw_only=True):
    """What a stack, its code and the configuration require."""

    stack: str
    tofu_reason: str | None = None
    """Why the code needs OpenTofu, if it does: Terraform would misread it."""
    required: tuple[str, ...] = ()
    """Each `required_version` of the code."""
    version_file: tuple[str, str] | None = None
    """`.terraform-version` or `.opentofu-version`, and its content."""
    stack_pin: EnginePin | None = None
    config_pin: EnginePin = field(default_factory=EnginePin)


class EngineSelection(Struct, frozen=True, kw_only=True):
    engine: EngineId
    why: str


def select_engine(requirement: EngineRequirement, engines: tuple[EngineId, ...]) -> EngineSelection:
    """The best of the engines that fit: embedded before binary, newer before older."""
    use = _use(requirement)
    if requirement.tofu_reason and use in {EngineUse.EMBEDDED, EngineUse.TERRAFORM}:
        raise UsageError(
            "HF-ENG-2",
            f"{requirement.stack}: the code needs OpenTofu ({requirement.tofu_reason}), "
            f"the configuration selects {use}",
            hint="Terraform would misread this code. Set `engine: {use: tofu}` for this stack.",
        )
    asked, constraints = _constraints(requirement)
    fitting = [
        engine
        for engine in engines
        if _fits(engine, use, tofu=requirement.tofu_reason is not None)
        and all(constraint.allows(Version.parse(engine.version)) for constraint in constraints)
    ]
    if not fitting:
        raise _no_engine(requirement, use, asked, engines)
    best = min(fitting, key=lambda engine: _rank(engine, engines))
    return EngineSelection(engine=best, why=_why(requirement, use, asked))


def _use(requirement: EngineRequirement) -> EngineUse:
    pinned = requirement.stack_pin.use if requirement.stack_pin else EngineUse.AUTO
    return pinned if pinned is not EngineUse.AUTO else requirement.config_pin.use


def _constraints(requirement: EngineRequirement) -> tuple[list[str], list[Constraint]]:
    asked = [f"required_version {text}" for text in requirement.required]
    texts = list(requirement.required)
    if requirement.stack_pin and requirement.stack_pin.version:
        asked.append(f"engine.version {requirement.stack_pin.version} of the stack")
        texts.append(requirement.stack_pin.version)
    elif requirement.version_file and requirement.version_file[1][:1].isdigit():
        asked.append(f"{requirement.version_file[0]} {requirement.version_file[1]}")
        texts.append(requirement.version_file[1])
    elif requirement.config_pin.version:
        asked.append(f"engine.version {requirement.config_pin.version}")
        texts.append(requirement.config_pin.version)
    return asked, [Constraint.parse(text) for text in texts]


def _fits(engine: EngineId, use: EngineUse, *, tofu: bool) -> bool:
    if tofu and engine.product is not Product.TOFU:
        return False
    match use:
        case EngineUse.AUTO:
            return True
        case EngineUse.EMBEDDED:
            return engine.kind is EngineKind.EMBEDDED
        case EngineUse.BINARY:
            return engine.kind is EngineKind.BINARY
        case EngineUse.TERRAFORM:
            return engine.kind is EngineKind.BINARY and engine.product is Product.TERRAFORM
        case EngineUse.TOFU:
            return engine.product is Product.TOFU


def _rank(engine: EngineId, engines: tuple[EngineId, ...]) -> tuple[bool, bool, int]:
    """Embedded first, then Terraform before OpenTofu; the given order is newest first."""
    return engine.kind is not EngineKind.EMBEDDED, engine.product is Product.TOFU, engines.index(engine)


def _why(requirement: EngineRequirement, use: EngineUse, asked: list[str]) -> str:
    reasons = []
    if requirement.tofu_reason:
        reasons.append(requirement.tofu_reason)
    if use is not EngineUse.AUTO:
        reasons.append(f"`use: {use}`")
    reasons += asked
    return "; ".join(reasons) or "the first engine found"


def _no_engine(
    requirement: EngineRequirement, use: EngineUse, asked: list[str], engines: tuple[EngineId, ...]
) -> UsageError:
    wants = (
        "OpenTofu"
        if requirement.tofu_reason
        else {
            EngineUse.AUTO: "an engine",
            EngineUse.BINARY: "a terraform or tofu program",
            EngineUse.EMBEDDED: "the embedded Terraform",
            EngineUse.TERRAFORM: "a terraform program",
            EngineUse.TOFU: "a tofu program",
        }[use]
    )
    demands = f" for {', '.join(asked)}" if asked else ""
    because = f" ({requirement.tofu_reason})" if requirement.tofu_reason else ""
    installed = ", ".join(str(engine) for engine in engines) or "none"
    return UsageError(
        "HF-ENG-1",
        f"{requirement.stack}: needs {wants}{because}{demands}; installed: {installed}",
        hint="Put the program on PATH or run `holdfast tools add`. `holdfast doctor` lists the engines.",
    )
