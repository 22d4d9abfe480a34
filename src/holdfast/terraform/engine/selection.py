"""Which engine runs a stack, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from holdfast.config.engine import EnginePin, EngineUse
from holdfast.kernel.errors import EngineError, UsageError
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


def select_engine(
    requirement: EngineRequirement, engines: tuple[EngineId, ...], unknown: Sequence[EngineId] = ()
) -> EngineSelection:
    """The best of the engines that fit: embedded before binary, newer before older.

    `unknown` are engines whose version could not be queried: if one of them may be the best, none is chosen.
    """
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
    best = min(fitting, key=lambda engine: _rank(engine, engines), default=None)
    for other in unknown:
        preferred = best is None or _preference(other) <= _preference(best)
        if preferred and _fits(other, use, tofu=requirement.tofu_reason is not None):
            raise EngineError(
                "HF-ENG-8",
                f"{requirement.stack}: {other.path} was killed each time it was asked for its version",
                hint="Nothing was started. Run the command again; if it happens again: holdfast doctor",
            )
    if best is None:
        raise _no_engine(requirement, use, asked, engines)
    return EngineSelection(engine=best, why=_why(requirement, use, asked))


def _use(requirement: EngineRequirement) -> EngineUse:
    pinned = requirement.stack_pin.use if requirement.stack_pin else EngineUse.AUTO
    return pinned if pinned is not EngineUse.AUTO else requirement.config_pin.use


def _constraints(requirement: EngineRequirement) -> tuple[list[str], list[Constraint]]:
    """As shown, and parsed."""
    asked = [(f"required_version {text}", text) for text in requirement.required]
    pin, file = requirement.stack_pin, requirement.version_file
    if pin and pin.version:
        asked.append((f"engine.version {pin.version} of the stack", pin.version))
    elif file and file[1][:1].isdigit():
        asked.append((" ".join(file), file[1]))
    elif version := requirement.config_pin.version:
        asked.append((f"engine.version {version}", version))
    return [shown for shown, _ in asked], [Constraint.parse(text) for _, text in asked]


_USES: Mapping[EngineUse, tuple[str, EngineKind | None, Product | None]] = {
    EngineUse.AUTO: ("an engine", None, None),
    EngineUse.BINARY: ("a terraform or tofu binary", EngineKind.BINARY, None),
    EngineUse.EMBEDDED: ("the embedded Terraform", EngineKind.EMBEDDED, None),
    EngineUse.TERRAFORM: ("a terraform binary", EngineKind.BINARY, Product.TERRAFORM),
    EngineUse.TOFU: ("a tofu binary", None, Product.TOFU),
}
"""How each is described, and the kind and product that it requires."""


def _fits(engine: EngineId, use: EngineUse, *, tofu: bool) -> bool:
    _, kind, product = _USES[use]
    fits = kind in (None, engine.kind) and product in (None, engine.product)
    return fits and (not tofu or engine.product is Product.TOFU)


def _rank(engine: EngineId, engines: tuple[EngineId, ...]) -> tuple[tuple[bool, bool], int]:
    """The given order is newest first."""
    return _preference(engine), engines.index(engine)


def _preference(engine: EngineId) -> tuple[bool, bool]:
    """Embedded first, then Terraform before OpenTofu."""
    return engine.kind is not EngineKind.EMBEDDED, engine.product is Product.TOFU


def _why(requirement: EngineRequirement, use: EngineUse, asked: list[str]) -> str:
    pinned = None if use is EngineUse.AUTO else f"`use: {use}`"
    return "; ".join(filter(None, (requirement.tofu_reason, pinned, *asked))) or "the first engine found"


def _no_engine(
    requirement: EngineRequirement, use: EngineUse, asked: list[str], engines: tuple[EngineId, ...]
) -> UsageError:
    wants = "OpenTofu" if requirement.tofu_reason else _USES[use][0]
    demands = f" for {', '.join(asked)}" if asked else ""
    because = f" ({requirement.tofu_reason})" if requirement.tofu_reason else ""
    installed = ", ".join(str(engine) for engine in engines) or "none"
    return UsageError(
        "HF-ENG-1",
        f"{requirement.stack}: needs {wants}{because}{demands}; installed: {installed}",
        hint="Put the binary on PATH, or run: holdfast tools add FILE. List the engines: holdfast doctor",
    )
