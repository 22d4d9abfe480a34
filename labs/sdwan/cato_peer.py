"""`cato_bgp_peer`: the attributes and the behaviour of the real resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tf import iface
from tf.schema import Attribute, Schema
from tf.types import Bool, Number, String

from sdwan.cato_client import CatoError
from sdwan.nested import Field, Nested, refuse_other_values

if TYPE_CHECKING:
    from sdwan.cato_provider import CatoProvider

State = dict[str, Any]

_COMMUNITY = [Attribute("from", Number(), required=True), Attribute("to", Number(), required=True)]
_ROUTE = [
    Attribute("route", String(), required=True),
    Nested("community", _COMMUNITY, many=True, optional=True),
]
_BFD = {
    "transmit_interval": "transmitInterval",
    "receive_interval": "receiveInterval",
    "multiplier": "multiplier",
}
_TRACKING = [
    Attribute("enabled", Bool(), optional=True),
    Field("alert_frequency", String(), one_of=("HOURLY", "DAILY", "WEEKLY", "IMMEDIATE"), optional=True),
    Attribute("subscription_id", String(), optional=True),
]
_DEFAULTS = {
    "advertise_default_route": True,
    "advertise_all_routes": False,
    "advertise_summary_routes": False,
    "perform_nat": False,
    "metric": 50,
    "hold_time": 60,
    "keepalive_interval": 20,
    "bfd_enabled": False,
}
_PLAIN = {
    "name": "name",
    "peer_ip": "peerIp",
    "default_action": "defaultAction",
    "md5_auth_key": "md5AuthKey",
    "advertise_default_route": "advertiseDefaultRoute",
    "advertise_all_routes": "advertiseAllRoutes",
    "advertise_summary_routes": "advertiseSummaryRoutes",
    "perform_nat": "performNat",
    "metric": "metric",
    "hold_time": "holdTime",
    "keepalive_interval": "keepaliveInterval",
    "bfd_enabled": "bfdEnabled",
}
"""Attributes that are sent and read as they are, and their names in the API."""
_ATTRIBUTES = [
    Attribute("id", String(), computed=True),
    Attribute("site_id", String(), required=True),
    Attribute("name", String(), required=True),
    Attribute("peer_asn", Number(), required=True),
    Attribute("cato_asn", Number(), required=True),
    Attribute("peer_ip", String(), required=True),
    *(
        Attribute(
            name,
            Bool() if isinstance(value, bool) else Number(),
            optional=True,
            computed=True,
            default=value,
        )
        for name, value in _DEFAULTS.items()
    ),
    Nested("summary_route", _ROUTE, many=True, optional=True),
    Field("default_action", String(), one_of=("ACCEPT", "DROP"), required=True),
    Attribute("md5_auth_key", String(), optional=True, sensitive=True),
    Nested("bfd_settings", [Attribute(name, Number(), optional=True) for name in _BFD], optional=True),
    Nested("tracking", _TRACKING, optional=True),
]


class BgpPeer(iface.Resource):  # type: ignore[misc]  # the package has no types
    def __init__(self, provider: CatoProvider) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return "bgp_peer"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(version=0, attributes=_ATTRIBUTES)

    def validate(self, diags: Any, type_name: str, config: State) -> None:
        super().validate(diags, type_name, config)
        refuse_other_values(diags, _ATTRIBUTES, config)

    def create(self, ctx: iface.CreateContext, planned: State) -> State | None:
        api = self._provider.client
        given = {**_sent(planned), "site": {"by": "ID", "input": planned["site_id"]}}
        try:
            data = api.call("siteAddBgpPeer", addBgpPeerInput=given, accountId=api.account)
        except CatoError as error:
            ctx.diagnostics.add_error("Cato API error in SiteAddBgpPeer", str(error))
            return None
        return {**planned, "id": data["site"]["addBgpPeer"]["bgpPeer"]["id"]}

    def read(self, ctx: iface.ReadContext, current: State) -> State | None:
        api = self._provider.client
        reference = {"by": "ID", "input": current["id"]}
        try:
            data = api.call("site", bgpPeerRefInput=reference, accountId=api.account)
        except CatoError as error:
            ctx.diagnostics.add_error("Cato API error in SiteBgpPeer", str(error))
            return current
        peer = data["site"]["bgpPeer"]
        return None if peer is None else _read(peer)

    def update(self, ctx: iface.UpdateContext, current: State, planned: State) -> State | None:
        """Another `site_id` is accepted and not sent: the peer stays where it is."""
        api = self._provider.client
        given = {**_sent(planned), "id": planned["id"]}
        try:
            api.call("siteUpdateBgpPeer", updateBgpPeerInput=given, accountId=api.account)
        except CatoError as error:
            ctx.diagnostics.add_error("Cato API error in SiteUpdateBgpPeer", str(error))
            return current
        return planned

    def delete(self, ctx: iface.DeleteContext, current: State) -> State | None:
        api = self._provider.client
        try:
            api.call("siteRemoveBgpPeer", removeBgpPeerInput={"id": current["id"]}, accountId=api.account)
        except CatoError as error:
            ctx.diagnostics.add_error("Cato API error in SiteRemoveBgpPeer", str(error))
            return current
        return None

    def import_(self, ctx: iface.ImportContext, id: str) -> State | None:  # noqa: A002, ARG002 (the package's)
        return {**dict.fromkeys(each.name for each in _ATTRIBUTES), "id": id}


def _sent(planned: State) -> State:
    sent = {field: planned[name] for name, field in _PLAIN.items() if planned[name] is not None}
    sent |= {"peerAsn": str(planned["peer_asn"]), "catoAsn": str(planned["cato_asn"])}
    if planned["bfd_settings"] is not None:
        sent["bfdSettings"] = {field: planned["bfd_settings"][name] or 0 for name, field in _BFD.items()}
    if planned["summary_route"] is not None:
        sent["summaryRoute"] = [
            {
                "route": each["route"],
                "community": [
                    {end: str(one[end]) for end in ("from", "to")} for one in each["community"] or ()
                ],
            }
            for each in planned["summary_route"]
        ]
    if planned["tracking"] is not None:
        sent["tracking"] = {
            "enabled": bool(planned["tracking"]["enabled"]),
            "alertFrequency": planned["tracking"]["alert_frequency"] or "",
            "subscriptionId": planned["tracking"]["subscription_id"] or "",
        }
    return sent


def _read(peer: State) -> State:
    """No summary routes are an empty list, never null: the configuration has to say `summary_route = []`."""
    bfd, tracking = peer["bfdSettingsBgpPeer"], peer["trackingBgpPeer"]
    return {
        "id": peer["id"],
        "site_id": peer["site"]["id"],
        "peer_asn": int(peer["peerAsn"]),
        "cato_asn": int(peer["catoAsn"]),
        **{name: peer.get(field) for name, field in _PLAIN.items()},
        "summary_route": [
            {
                "route": each["route"],
                "community": [{end: int(one[end]) for end in ("from", "to")} for one in each["community"]],
            }
            for each in peer["summaryRoute"]
        ],
        "bfd_settings": bfd and {name: bfd[field] for name, field in _BFD.items()},
        "tracking": tracking
        and {
            "enabled": tracking["enabled"],
            "alert_frequency": tracking["alertFrequency"],
            "subscription_id": tracking["subscriptionId"],
        },
    }
