"""Facts: values of outputs under names of their own, for each environment. Pure.

Secrets cannot be facts: whoever may read the repository reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.contract.comparison import DifferenceKind, OutputValue, compare
from holdfast.contract.reserved import CheckedAddress
from holdfast.contract.schema import Contract, Part
from holdfast.kernel.errors import Problem

SAME: Final[Mapping[str, str]] = {"prod": "production", "production": "prod"}
"""Names of one environment."""


class OutputsOfStack(Struct, frozen=True, kw_only=True):
    stack: str
    environment: str | None
    outputs: Mapping[str, OutputValue]
    contract: Contract | None = None


class EnvironmentFacts(Struct, frozen=True, kw_only=True):
    """The facts of one environment, or why they cannot be published."""

    environment: str
    facts: Mapping[str, object]
    """By name; `a.b` is nested in `tree`."""
    stacks: tuple[str, ...]
    """Whose outputs they are."""
    absent: tuple[str, ...] = ()
    """Facts whose output may be missing, and is."""
    problems: tuple[Problem, ...] = ()
    reserved: tuple[CheckedAddress, ...] = ()
    """Facts that were compared with the address that the cloud reserves."""

    @property
    def tree(self) -> dict[str, object]:
        tree: dict[str, Any] = {}
        for name, value in self.facts.items():
            *folders, last = name.split(".")
            inner = tree
            for folder in folders:
                inner = inner.setdefault(folder, {})  # No fact is inside another.
            inner[last] = value
        return tree


def environments_of(sources: Sequence[OutputsOfStack], listed: Sequence[str]) -> tuple[str, ...]:
    """Those that are listed, or those of the stacks."""
    found = (source.environment for source in sources if source.environment is not None)
    return tuple(listed) or tuple(sorted(set(found)))


def sources_for(environment: str, sources: Sequence[OutputsOfStack]) -> tuple[OutputsOfStack, ...]:
    """The stacks of the environment. Without one, a platform that all environments share: every stack."""
    names = {environment, SAME.get(environment, environment)}
    own = tuple(source for source in sources if source.environment in names)
    return own or tuple(sources)


def build_facts(
    mapping: Mapping[str, str],
    environment: str,
    sources: Sequence[OutputsOfStack],
    *,
    is_secret: Callable[[str], bool],
) -> EnvironmentFacts:
    """`mapping` has the output of each fact: `OUTPUT.KEY`, with `{environment}`."""
    builder = _Builder(environment, sources_for(environment, sources), is_secret)
    for fact, source in mapping.items():
        builder.add(fact, source)
    return EnvironmentFacts(
        environment=environment,
        facts=dict(sorted(builder.facts.items())),
        stacks=tuple(sorted(builder.stacks)),
        absent=tuple(builder.absent),
        problems=tuple(builder.problems),
    )


class _Value(Struct, frozen=True, kw_only=True):
    source: OutputsOfStack
    output: str
    value: object
    sensitive: bool


class _Builder:
    def __init__(
        self, environment: str, sources: Sequence[OutputsOfStack], is_secret: Callable[[str], bool]
    ) -> None:
        self._environment = environment
        self._sources = sources
        self._is_secret = is_secret
        self.facts: dict[str, object] = {}
        self.stacks: set[str] = set()
        self.absent: list[str] = []
        self.problems: list[Problem] = []

    def add(self, fact: str, template: str) -> None:
        path = template.replace("{environment}", self._environment)
        found = list(self._values(path))
        values = [value for value in found if value.value is not None]
        if not values:
            self._missing(fact, path)
        elif any(value.sensitive for value in values):
            stack = next(value.source.stack for value in values if value.sensitive)
            self._problem(
                "HF-FACT-1",
                f"the fact {fact} is the output `{path}` of {stack}, which is sensitive: "
                "secrets cannot be facts",
                "Use the bridge for it (`bridge` of the target), or give GitOps the path of the secret.",
            )
        elif any(value.value != values[0].value for value in values):
            stacks = ", ".join(value.source.stack for value in values)
            self._problem(
                "HF-FACT-3",
                f"the fact {fact} of {self._environment} is ambiguous: {stacks} "
                f"have different values of `{path}`",
                "Let `contract.stacks` of the target name one stack for each environment.",
            )
        elif (name := self._secret_in(fact, values[0].value)) is not None:
            self._problem(
                "HF-FACT-1",
                f"the fact {name} (output `{path}` of {values[0].source.stack}) contains a secret",
                "Mark the output `sensitive = true`, and use the bridge for it (`bridge` of the target).",
            )
        elif mistakes := self._mistakes(values):
            for message in mistakes:
                self._problem(
                    "HF-FACT-4",
                    f"the fact {fact} breaks the contract: {message}",
                    f"Correct the output `{values[0].output}` of {values[0].source.stack} and apply it.",
                )
        else:
            self.facts[fact] = values[0].value
            self.stacks.update(value.source.stack for value in values)

    def _values(self, path: str) -> Iterator[_Value]:
        name, *keys = path.split(".")
        for source in self._sources:
            part = source.contract.outputs.get(name) if source.contract is not None else None
            names = [name, *(part.aliases if part is not None else ())]
            output = next((alias for alias in names if alias in source.outputs), None)
            if output is None:
                continue
            given = source.outputs[output]
            yield _Value(
                source=source,
                output=output,
                value=_inside(given.value, keys, part),
                sensitive=given.sensitive,
            )

    def _missing(self, fact: str, path: str) -> None:
        if any(_may_be_missing(source, path.split(".")) for source in self._sources):
            self.absent.append(fact)
            return
        stacks = ", ".join(source.stack for source in self._sources) or "no stack"
        known = sorted({name for source in self._sources for name in source.outputs})
        self._problem(
            "HF-FACT-2",
            f"the fact {fact} of {self._environment} has no value: {stacks} has no output `{path}`",
            f"Its outputs: {', '.join(known)}." if known else f"Apply first: holdfast apply {stacks}",
        )

    def _secret_in(self, fact: str, value: object) -> str | None:
        return next((name for name, text in texts_of(fact, value) if self._is_secret(text)), None)

    def _mistakes(self, values: Sequence[_Value]) -> list[str]:
        return [
            difference.message
            for value in values
            if value.source.contract is not None
            for difference in compare(value.source.contract, value.source.outputs)
            if difference.output == value.output and difference.kind is not DifferenceKind.UNKNOWN
        ]

    def _problem(self, code: str, message: str, hint: str) -> None:
        self.problems.append(Problem(code=code, message=message, hint=hint))


def _inside(value: object, keys: Sequence[str], part: Part | None) -> object:
    """The part of an output, under any of the names that it may have; None if there is none."""
    for key in keys:
        inner = part.keys.get(key) if part is not None else None
        names = [key, *(inner.aliases if inner is not None else ()), SAME.get(key, key)]
        if not isinstance(value, Mapping):
            return None
        name = next((name for name in names if name in value), None)
        value = value[name] if name is not None else None
        part = inner or (part.items if part is not None else None)
    return value


def _may_be_missing(source: OutputsOfStack, path: Sequence[str]) -> bool:
    """Whether the contract says that this output, or this part of it, is optional for this stack."""
    if source.contract is None:
        return False
    part = source.contract.outputs.get(path[0])
    for key in (*path[1:], None):
        if part is None:
            return False
        if not part.required:
            return True
        if part.unless is not None:
            deciding = source.outputs.get(part.unless.output)
            if deciding is not None and deciding.value in part.unless.values:
                return True
        part = part.keys.get(key) if key is not None else part
    return False


def texts_of(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Every text in a value, with where it is."""
    match value:
        case str():
            yield name, value
        case Mapping():
            for key, inner in value.items():
                yield f"{name}.{key}", str(key)
                yield from texts_of(f"{name}.{key}", inner)
        case list() | tuple():
            for index, inner in enumerate(value):
                yield from texts_of(f"{name}[{index}]", inner)
        case _:
            return
