"""What changes inside a resource, to show it; and what in a plan is secret, for the redactor.

`show -json` prints every secret as plain text, with a mask beside it that is `true` or follows the
shape of the value. No text leaves this module for a part that a mask, before or after, covers. Where a
mask does not fit its value, the whole part counts as secret.
"""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.hcl.reader import Unknown
from holdfast.terraform.addresses import Path, Step, path_text
from holdfast.terraform.plan.configuration import ConfigModule
from holdfast.terraform.plan.model import Plan, ResourceChange

SENSITIVE = "(sensitive)"
KNOWN_AFTER_APPLY = "(known after apply)"
_DECODER = msgspec.json.Decoder(float_hook=decimal.Decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Difference(Struct, frozen=True, kw_only=True):
    path: str
    before: str | None
    """None: absent, or null."""
    after: str | None
    sensitive: bool
    forces_replacement: bool


class Differences(Struct, frozen=True, kw_only=True):
    shown: tuple[Difference, ...]
    """Those that force a replacement first, then in the order of the attributes."""
    hidden: int
    """How many more there are."""


def differences(
    change: ResourceChange, *, clean: Callable[[str], str], at_most: int = 20, width: int = 80
) -> Differences:
    """What differs between before and after, part by part; secrets masked, long values cut to `width`.

    `clean` is the redactor. It gets each text before it is truncated: Terraform itself loses some marks (the
    `output` of a `terraform_data` with a sensitive `input`), and half a secret is not recognised.
    """
    values = change.change
    masks = _read(values.before_sensitive), _read(values.after_sensitive)
    sides = _Sides(_read(values.before), _read(values.after), _read(values.after_unknown), *masks)
    return _differences(sides, change.replace_paths, clean=clean, at_most=at_most, width=width)


def differences_of(
    before: bytes,
    after: bytes,
    *,
    before_mask: object,
    after_mask: object,
    clean: Callable[[str], str],
    at_most: int,
) -> Differences:
    """The same for two values as JSON, whose masks are `True`, `False`, or follow the shape of the value."""
    sides = _Sides(_read(before), _read(after), False, before_mask, after_mask)  # noqa: FBT003 - none is unknown
    return _differences(sides, (), clean=clean, at_most=at_most, width=80)


def _differences(
    sides: _Sides, forcing: tuple[Path, ...], *, clean: Callable[[str], str], at_most: int, width: int
) -> Differences:
    # Keys of a map may be secret. The redactor recognises them by their brackets.
    clean_key = functools.cache(lambda key: clean(f"_{key}")[1:])
    differences = [
        Difference(
            path=path_text(path, clean_key),
            before=_cut(_text(part.before, secret=part.secret, clean=clean), width),
            after=KNOWN_AFTER_APPLY
            if part.unknown is True
            else _cut(_text(part.after, secret=part.secret, clean=clean), width),
            sensitive=part.secret,
            forces_replacement=any(_overlap(path, forced) for forced in forcing),
        )
        for path, part in _leaves((), sides)
    ]
    differences.sort(key=lambda difference: not difference.forces_replacement)
    return Differences(shown=tuple(differences[:at_most]), hidden=max(0, len(differences) - at_most))


def sensitive_values(plan: Plan) -> frozenset[str]:
    """Every string and number that the plan marks as sensitive: for the redactor, never to show."""
    return frozenset(text for value, mask in _secret_parts(plan) for text in marked_texts(value, mask))


class _Sides(Struct, frozen=True):
    """One part of a resource, before and after."""

    before: Any
    after: Any
    unknown: Any
    before_mask: Any
    after_mask: Any

    @property
    def secret(self) -> bool:
        return _any_true(self.before_mask) or _any_true(self.after_mask)

    @property
    def whole(self) -> bool:
        """Whether it is shown as one value: a secret, an unknown value, or two different shapes."""
        if self.before_mask is True or self.after_mask is True or self.unknown is True:
            return True
        return self.steps() is None

    def steps(self) -> list[Step] | None:
        sides = [side for side in (self.before, self.after) if side is not None]
        if sides and all(isinstance(side, dict) for side in sides):
            sides += [self.unknown] if isinstance(self.unknown, dict) else []
            return list(dict.fromkeys(key for side in sides for key in side))
        if sides and all(isinstance(side, list) for side in sides):
            sides += [self.unknown] if isinstance(self.unknown, list) else []
            return list(range(max(len(side) for side in sides)))
        return None

    def inside(self, step: Step) -> _Sides:
        values = (_part(value, step) for value in (self.before, self.after, self.unknown))
        masks = (part_of_mask(mask, step) for mask in (self.before_mask, self.after_mask))
        return _Sides(*values, *masks)


def _leaves(path: Path, sides: _Sides) -> Iterator[tuple[Path, _Sides]]:
    if sides.unknown is not True and sides.before == sides.after and not _any_true(sides.unknown):
        return
    steps = None if sides.whole else sides.steps()
    if not steps:
        yield path, sides
        return
    for step in steps:
        yield from _leaves((*path, step), sides.inside(step))


def _part(value: Any, step: Step) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int):
        return value[step] if step < len(value) else None
    return None


def part_of_mask(mask: Any, step: Step) -> Any:
    """A mask without this step that hides anything also hides the step."""
    if isinstance(mask, dict) and isinstance(step, str):
        return mask.get(step, False)
    if isinstance(mask, list) and isinstance(step, int) and step < len(mask):
        return mask[step]
    return _any_true(mask)


def _any_true(mask: Any) -> bool:
    if isinstance(mask, dict):
        return any(_any_true(part) for part in mask.values())
    if isinstance(mask, list):
        return any(_any_true(part) for part in mask)
    return mask is True


def _overlap(path: Path, forcing: Path) -> bool:
    shared = min(len(path), len(forcing))
    return path[:shared] == forcing[:shared]


def _text(value: Any, *, secret: bool, clean: Callable[[str], str]) -> str | None:
    if value is None:
        return None
    if secret:
        return SENSITIVE
    return clean(value if isinstance(value, str) and _plain(value) else _json(value))


def _cut(text: str | None, width: int) -> str | None:
    return text if text is None or len(text) <= width else text[: width - 1] + "…"


def _plain(text: str) -> bool:
    """Whether a string can be shown without quotes: printable and unambiguous."""
    if not text.isprintable() or text != text.strip() or text in {"", SENSITIVE, KNOWN_AFTER_APPLY}:
        return False
    try:
        _DECODER.decode(text)
    except msgspec.DecodeError:
        return True
    return False


def _json(value: Any) -> str:
    text = _ENCODER.encode(value).decode()
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def _read(raw: msgspec.Raw | bytes) -> Any:
    return _DECODER.decode(raw)


def _secret_parts(plan: Plan) -> Iterator[tuple[Any, Any]]:
    """Every value with a sensitive part, and its mask."""
    resources = (*plan.changes, *plan.drift, *(deferred.change for deferred in plan.deferred))
    changes = [*(resource.change for resource in resources), *plan.output_changes.values()]
    raw: list[tuple[msgspec.Raw, msgspec.Raw]] = [
        *((change.before, change.before_sensitive) for change in changes),
        *((change.after, change.after_sensitive) for change in changes),
        *((resource.values, resource.sensitive_values) for resource in plan.prior_state.resources()),
        *((action.config_values, action.config_sensitive) for action in plan.action_invocations),
    ]
    for value, mask in raw:
        if b"true" in bytes(mask):
            yield _read(value), _read(mask)
    for output in plan.prior_state.outputs():
        if output.sensitive:
            yield _read(output.value), True
    if plan.configuration.root_module is not None:
        assigned = {name: _read(variable.value) for name, variable in plan.variables.items()}
        for value in _secret_variables(plan.configuration.root_module, assigned):
            yield value, True


def _secret_variables(module: ConfigModule, assigned: Mapping[str, Any]) -> Iterator[Any]:
    """Values and defaults of sensitive variables, and the arguments for them in module calls."""
    for name, variable in (module.variables or {}).items():
        if variable.sensitive:
            yield _read(variable.default)
            yield assigned.get(name)
    for call in (module.module_calls or {}).values():
        if call.module is not None:
            yield from _secret_variables(call.module, _constants(call.expressions or {}))


def _constants(expressions: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """The literal arguments of a module call; the rest are references, which are not secret."""
    read = {name: _read(expression) for name, expression in expressions.items()}
    return {name: value.get("constant_value") for name, value in read.items() if isinstance(value, dict)}


def marked_texts(value: Any, mask: Any) -> Iterator[str]:
    """The strings and numbers of a value that its mask covers."""
    if mask is True:
        yield from texts(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from marked_texts(part, part_of_mask(mask, key))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from marked_texts(part, part_of_mask(mask, position))
    elif _any_true(mask):
        yield from texts(value)


def texts(value: Any) -> Iterable[str]:
    """The known strings and numbers in a value. Not the names of attributes: those are no secrets."""
    if isinstance(value, Mapping):
        return (text for part in value.values() for text in texts(part))
    if isinstance(value, list | tuple):
        return (text for part in value for text in texts(part))
    if value is None or isinstance(value, bool | Unknown):
        return ()
    return (str(value),)
