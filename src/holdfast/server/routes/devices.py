"""Devices and blueprints: `/api/v1/devices` and `/api/v1/blueprints`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Struct

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import Refused
from holdfast.server.exceptions import problem
from holdfast.server.fleet.documents import DeviceDocument, DeviceList, device_document
from holdfast.server.fleet.drift import FleetDrift
from holdfast.server.fleet.requests import EventRequests, device_stack
from holdfast.server.problems import Denial
from holdfast.store.fleet.rules import DeviceStatus

Who = NamedDependency[Principal]
Fleet = NamedDependency[EventRequests]
Limit = Annotated[int, QueryParameter(ge=1, le=200)]
_READ: Final = {"permission": Permission.READ}
_RUN: Final = {"permission": Permission.RUN}


class BlueprintDocument(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    description: str | None
    digest: str
    outputs: tuple[str, ...]
    deletion: str
    vanished: str
    concurrency: int | None
    payload_schema: dict[str, Any]


class BlueprintList(Struct, frozen=True, kw_only=True):
    version: int = 1
    blueprints: tuple[BlueprintDocument, ...]
    next: str | None = None


@get("/api/v1/devices", opt=_READ, sync_to_thread=True)
def list_devices(
    principal: Who,
    fleet: Fleet,
    blueprint: FromQuery[str | None] = None,
    status: FromQuery[DeviceStatus | None] = None,
    limit: Limit = 100,
    cursor: FromQuery[str] = "",
) -> DeviceList:
    """By blueprint and name; without deleted ones, unless `status=absent`."""
    first, _, second = cursor.partition("/")
    page = fleet.rows.devices(
        principal.home_tenant,
        blueprint=blueprint,
        status=None if status is None else status.value,
        after=(first, second),
        limit=limit,
    )
    documents = tuple(
        device_document(device, stack)
        for device in page
        if principal.covers_stack(stack := device_stack(device.tenant, device.blueprint, device.resource_id))
    )
    last = f"{page[-1].blueprint}/{page[-1].resource_id}" if len(page) == limit else None
    return DeviceList(devices=documents, next=last)


@get("/api/v1/devices/{blueprint:str}/{resource_id:str}", opt=_READ, sync_to_thread=True)
def show_device(
    principal: Who, fleet: Fleet, blueprint: FromPath[str], resource_id: FromPath[str]
) -> DeviceDocument:
    return _device(principal, fleet, blueprint, resource_id)


def _device(principal: Principal, fleet: EventRequests, blueprint: str, resource_id: str) -> DeviceDocument:
    stack = device_stack(principal.home_tenant, blueprint, resource_id)
    device = fleet.rows.device(principal.home_tenant, blueprint, resource_id)
    if device is None or not principal.covers_stack(stack):
        raise problem(
            Denial(status=404, code="HF-EVENT-11", message=f"there is no device {blueprint}/{resource_id}")
        )
    blobs = fleet.blobs(device.tenant) if principal.may(Permission.READ_PLAN) else None
    return device_document(device, stack, blobs)


@post(
    "/api/v1/devices/{blueprint:str}/{resource_id:str}/drift",
    opt=_RUN,
    status_code=HTTPStatus.ACCEPTED,
    sync_to_thread=True,
)
def look_at_device(
    principal: Who,
    fleet: Fleet,
    fleet_drift: NamedDependency[FleetDrift],
    blueprint: FromPath[str],
    resource_id: FromPath[str],
) -> DeviceDocument:
    """Compare it with its state now; `drift` of the device has the result then."""
    device = _device(principal, fleet, blueprint, resource_id)
    if not fleet_drift.look(principal.home_tenant, blueprint, resource_id):
        raise Refused(
            "HF-EVENT-14",
            f"the device {resource_id} is {device.status}, or is being compared already",
            hint=f"What is known: GET /api/v1/devices/{blueprint}/{resource_id}",
        )
    return device


@get("/api/v1/blueprints", opt=_READ, sync_to_thread=True)
def list_blueprints(fleet: Fleet, limit: Limit = 100, cursor: FromQuery[str] = "") -> BlueprintList:
    """By name."""
    offered = sorted(fleet.blueprints().values(), key=lambda each: each.name)
    page = [each for each in offered if each.name > cursor][:limit]
    return BlueprintList(
        blueprints=tuple(
            BlueprintDocument(**{name: getattr(each, name) for name in BlueprintDocument.__struct_fields__})
            for each in page
        ),
        next=page[-1].name if len(page) == limit else None,
    )


def devices_router() -> Router:
    return Router(path="/", route_handlers=[list_devices, show_device, look_at_device, list_blueprints])
