"""Which engine runs a stack, and why. Pure."""

from __future__ import annotations

from holdfast.config.engine import EnginePin, EngineUse
from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import dataclass, field
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.versions import Constraint, Version, all_allow


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a stack, its code and the configuration require."""

    stack: str
    tofu_because: str | None = None
    """Why the code needs OpenTofu, if it does: Terraform would misread it."""
    required: tuple[str, ...] = ()
    """Each `required_version` of the code."""
    version_file: tuple[str, str] | None = None
    """`.terraform-version` or `.opentofu-version`, and its content."""
    stack_pin: EnginePin | None = None
    config_pin: EnginePin = field(default_factory=EnginePin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    engine: EngineId
    why: str


def select_engine(wish: Wish, engines: tuple[EngineId, ...]) -> Choice:
    """The best of the engines that fit: embedded before binary, newer before older."""
    use = _use(wish)
    if wish.tofu_because and use in {EngineUse.EMBEDDED, EngineUse.TERRAFORM}:
        raise UsageError(
            "HF-ENG-2",
            f"{wish.stack}: the code needs OpenTofu ({wish.tofu_because}), the configuration selects {use}",
            hint="Terraform would misread this code. Set `engine: {use: tofu}` for this stack.",
        )
    asked, constraints = _constraints(wish)
    fitting = [
        engine
        for engine in engines
        if _fits(engine, use, tofu=wish.tofu_because is not None)
        and all_allow(constraints, Version.parse(engine.version))
    ]
    if not fitting:
        raise _no_engine(wish, use, asked, engines)
    best = min(fitting, key=lambda engine: _rank(engine, engines))
    return Choice(engine=best, why=_why(wish, use, asked))


def _use(wish: Wish) -> EngineUse:
    pinned = wish.stack_pin.use if wish.stack_pin else EngineUse.AUTO
    return pinned if pinned is not EngineUse.AUTO else wish.config_pin.use


def _constraints(wish: Wish) -> tuple[list[str], list[Constraint]]:
    asked = [f"required_version {text}" for text in wish.required]
    texts = list(wish.required)
    if wish.stack_pin and wish.stack_pin.version:
        asked.append(f"engine.version {wish.stack_pin.version} of the stack")
        texts.append(wish.stack_pin.version)
    elif wish.version_file and wish.version_file[1][:1].isdigit():
        asked.append(f"{wish.version_file[0]} {wish.version_file[1]}")
        texts.append(wish.version_file[1])
    elif wish.config_pin.version:
        asked.append(f"engine.version {wish.config_pin.version}")
        texts.append(wish.config_pin.version)
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


def _why(wish: Wish, use: EngineUse, asked: list[str]) -> str:
    reasons = []
    if wish.tofu_because:
        reasons.append(wish.tofu_because)
    if use is not EngineUse.AUTO:
        reasons.append(f"`use: {use}`")
    reasons += asked
    return "; ".join(reasons) or "the first engine found"


def _no_engine(wish: Wish, use: EngineUse, asked: list[str], engines: tuple[EngineId, ...]) -> UsageError:
    wants = (
        "OpenTofu"
        if wish.tofu_because
        else {
            EngineUse.AUTO: "an engine",
            EngineUse.BINARY: "a terraform or tofu program",
            EngineUse.EMBEDDED: "the embedded Terraform",
            EngineUse.TERRAFORM: "a terraform program",
            EngineUse.TOFU: "a tofu program",
        }[use]
    )
    demands = f" for {', '.join(asked)}" if asked else ""
    because = f" ({wish.tofu_because})" if wish.tofu_because else ""
    installed = ", ".join(str(engine) for engine in engines) or "none"
    return UsageError(
        "HF-ENG-1",
        f"{wish.stack}: needs {wants}{because}{demands}; installed: {installed}",
        hint="Put the program on PATH or run `holdfast tools add`. `holdfast doctor` lists the engines.",
    )
