"""Write the blueprints of a server to its database, where its routes and other servers find them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.database.database import Database
from holdfast.fleet.blueprint import Blueprint
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.fleet.blueprints import BlueprintRows, OfferedBlueprint
from holdfast.store.fleet.contents import blueprint_name


def offer_blueprints(database: Database, blobs: EncryptedBlobs, blueprints: Iterable[Blueprint]) -> None:
    """These and no others. `blobs`: of the default tenant."""
    offered = tuple(blueprints)
    for blueprint in offered:
        if blobs.read(name := blueprint_name(blueprint.digest)) is None:
            blobs.write(name, blueprint.content)
    BlueprintRows(database).offer(map(_offered, offered))


def _offered(blueprint: Blueprint) -> OfferedBlueprint:
    copied = (
        *("name", "version", "digest", "description", "outputs", "deletion", "vanished", "concurrency"),
        *("environment", "not_read"),
    )
    return OfferedBlueprint(
        **{name: getattr(blueprint, name) for name in copied},
        concurrency_key=blueprint.credentials_key,
        labels=dict(blueprint.labels),
        retries=blueprint.retries.attempts,
        retry_wait=blueprint.retries.wait,
        payload_schema=dict(blueprint.schema),
    )
