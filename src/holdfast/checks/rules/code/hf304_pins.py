from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.pins import loose_module, loose_provider
from holdfast.checks.code.required import required_providers
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, Module, value
from holdfast.hcl.nodes import Block
from holdfast.hcl.reader import Unknown
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plural

_SUBFOLDER = pattern(r"(?<!:)//.*")


def _check_modules(module: Module) -> Iterator[CheckResult]:
    loose: dict[tuple[str, str], list[Block]] = {}
    for block in module.blocks("module"):
        name = block.labels[0] if block.labels else ""
        source, version = _value_of(module, block, "source"), _value_of(module, block, "version")
        if not isinstance(source, str):
            if isinstance(source, Unknown):
                yield _skipped(block, name, "source")
            continue
        if isinstance(version, Unknown):
            yield _skipped(block, name, "version")
            continue
        why = loose_module(source, version if isinstance(version, str) else None)
        if why is not None:
            loose.setdefault((source, why), []).append(block)
    for (source, why), (block, *others) in loose.items():
        name = block.labels[0] if block.labels else ""
        more = f" (and {plural(len(others), 'other call')} of it)" if others else ""
        yield finding(
            block.body.attribute("source") or block,
            f"the module `{name}`{more} {why}",
            address=f"module.{name}",
            group=f"{_SUBFOLDER.sub('', source)} {why}",
        )


def _value_of(module: Module, block: Block, name: str) -> object:
    """OpenTofu allows variables here; their values come from the stacks that use the module."""
    literal = value(block.body, name)
    if literal is ABSENT or not isinstance(literal, Unknown):
        return literal
    for stack in module.stacks:
        for visited in stack.scopes:
            if visited.folder == module.folder:
                return value(block.body, name, visited.scope)
    return literal


def _skipped(block: Block, name: str, key: str) -> Skipped:
    return Skipped(reason=f"the {key} of the module `{name}` is not known", file=block.place.file)


HF304 = Rule(
    id="HF304",
    title="Module that is not pinned",
    fix="Pin a version (`version` for a registry), a tag or commit (`?ref=` for Git), or a checksum.",
    severity=Severity.WARNING,
    source=_check_modules,
)


def _check_providers(module: Module) -> Iterator[CheckResult]:
    for provider in required_providers(module):
        address = f"provider.{provider.name}"
        if isinstance(provider.version, Unknown):
            reason = f"the version of the provider `{provider.name}` is not known"
            yield Skipped(reason=reason, file=provider.place.file)
        elif provider.version is None:
            message = f"the provider `{provider.name}` ({provider.source}) has no version constraint"
            yield finding(provider.place, message, address=address)
        elif module.roots and (why := loose_provider(provider.version)) is not None:
            yield finding(
                provider.place,
                f"`{provider.version}` of the provider `{provider.name}` {why}",
                address=address,
            )


HF305 = Rule(
    id="HF305",
    title="Provider that is not pinned",
    fix='Set a version with an upper bound in `required_providers`: `version = "~> 5.0"`.',
    severity=Severity.NOTE,
    source=_check_providers,
)
