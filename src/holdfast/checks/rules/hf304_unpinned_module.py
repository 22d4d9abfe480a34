"""HF304: a module from elsewhere that is not pinned."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.pins import loose_module
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, Module, value
from holdfast.hcl.nodes import Block
from holdfast.hcl.reader import Unknown


def _look(module: Module) -> Iterator[Answer]:
    for block in module.blocks("module"):
        name = block.labels[0] if block.labels else ""
        source, version = _told(module, block, "source"), _told(module, block, "version")
        if not isinstance(source, str):
            if isinstance(source, Unknown):
                yield _skipped(block, name, "source")
            continue
        if isinstance(version, Unknown):
            yield _skipped(block, name, "version")
            continue
        why = loose_module(source, version if isinstance(version, str) else None)
        if why is not None:
            yield finding(
                block.body.attribute("source") or block,
                f"the module `{name}` {why}",
                address=f"module.{name}",
            )


def _told(module: Module, block: Block, name: str) -> object:
    """OpenTofu takes variables here: the stacks that use the module know what they are."""
    found = value(block.body, name)
    if found is ABSENT or not isinstance(found, Unknown):
        return found
    for stack in module.stacks:
        for visited in stack.scopes:
            if visited.folder == module.folder:
                return value(block.body, name, visited.scope)
    return found


def _skipped(block: Block, name: str, key: str) -> Skipped:
    return Skipped(reason=f"the {key} of the module `{name}` cannot be told", file=block.place.file)


RULE = Rule(
    id="HF304",
    title="A module that is not pinned",
    why="The same commit gives another plan tomorrow: whoever can change the module changes your "
    "infrastructure without a change in your repository. The lock file holds providers, not modules.",
    fix="Name a version (`version` from a registry), a tag or a commit (`?ref=` from Git), or a checksum.",
    severity=Severity.WARNING,
    source=_look,
    bad='module "network" {\n  source = "git::https://example.com/network.git?ref=main"\n}\n',
    good='module "network" {\n  source = "git::https://example.com/network.git?ref=v1.2.0"\n}\n',
    more="A `ref` counts as pinned when it is a commit or reads like a version (`v1.2.0`, `network/1.4`, "
    "`refs/tags/…`). A constraint of a registry's module needs an upper end: `~> 5.1`, `>= 5, < 6`, `5.1.0`. "
    "An archive (http, S3, GCS) needs `?checksum=` or, in S3, `?version=`; an OCI image a digest or such a "
    "tag.",
)
