"""From `checks.boundary` and `checks.backend` to their values. Only for a file without mistakes."""

from __future__ import annotations

from types import MappingProxyType

from holdfast.config.boundary_valid import BoundarySettings, Exemption, Side, StateNames
from holdfast.config.reading import At


def boundary_settings(at: At | None) -> BoundarySettings | None:
    if at is None:
        return None
    return BoundarySettings(
        types=MappingProxyType({name: Side(one.value) for name, one in at.get("types", {}).items()}),
        exempt=tuple(
            Exemption(
                stack=one.get("stack"),
                reason=one.get("reason"),
                types=tuple(item.value for item in one.get("types", ())),
            )
            for one in at.get("exempt", ())
        ),
    )


def state_names(at: At | None) -> StateNames | None:
    if at is None:
        return None
    default = StateNames()
    return StateNames(
        bucket=at.get("bucket", default.bucket),
        lock_table=at.get("lock_table", default.lock_table),
        key=at.get("key", default.key),
        storage_account=at.get("storage_account", default.storage_account),
        container=at.get("container", default.container),
    )
