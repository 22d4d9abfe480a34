"""Providers that the configuration of a plan sets up, modules from elsewhere included."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holdfast.checks.model.subjects import CheckedPlan

_NOT_THERE = msgspec.Raw()


class _Provider(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    full_name: str = ""
    module_address: str = ""
    expressions: msgspec.Raw = _NOT_THERE


class _Configuration(msgspec.Struct, frozen=True, gc=False):
    provider_config: dict[str, _Provider] | None = None


class _Document(msgspec.Struct, frozen=True, gc=False):
    configuration: _Configuration | None = None


class SetUp(msgspec.Struct, frozen=True):
    name: str
    """The last part of its source: what its types begin with."""
    module: str
    """The address of the module, without keys; empty for the root module."""


def set_up_in(plan: CheckedPlan) -> Iterator[SetUp]:
    """Each that has a block with anything in it; one that is only asked for comes from the caller."""
    document = msgspec.json.decode(plan.document, type=_Document)
    found = document.configuration.provider_config if document.configuration is not None else None
    for one in (found or {}).values():
        if one.expressions is not _NOT_THERE:
            yield SetUp(name=one.full_name.rpartition("/")[2] or one.name, module=one.module_address)
