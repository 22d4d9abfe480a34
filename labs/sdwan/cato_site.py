"""`cato_ipsec_site`: the attributes and the behaviour of the real resource, with its blind spots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tf import iface
from tf.schema import Attribute, Schema
from tf.types import List, Number, String, Unknown

from sdwan.cato_client import CatoClient, CatoError
from sdwan.nested import Field, Nested, refuse_other_values

if TYPE_CHECKING:
    from sdwan.cato_provider import CatoProvider

State = dict[str, Any]

_CIPHERS = ("NONE", "AUTOMATIC", "AES_CBC_128", "AES_CBC_256", "AES_GCM_128", "AES_GCM_256", "DES3_CBC")
_GROUPS = (
    "NONE", "AUTOMATIC", "DH_2_MODP1024", "DH_5_MODP1536", "DH_14_MODP2048", "DH_15_MODP3072",
    "DH_16_MODP4096", "DH_19_ECP256", "DH_20_ECP384", "DH_21_ECP521",
)  # fmt: skip
_HASHES = ("NONE", "AUTOMATIC", "MD5", "SHA1", "SHA256", "SHA384", "SHA512")
_RANGE = "Native Range"


def _message(name: str) -> Nested:
    values = {"cipher": _CIPHERS, "dh_group": _GROUPS, "integrity": _HASHES, "prf": _HASHES}
    fields = [
        Field(each, String(), one_of=allowed, optional=True, computed=True, default="AUTOMATIC")
        for each, allowed in values.items()
    ]
    return Nested(name, fields, optional=True)


def _tunnels(name: str, **mode: bool) -> Nested:
    bandwidth = [
        Attribute("downstream", Number(), required=True),
        Attribute("upstream", Number(), required=True),
        Attribute("downstream_mbps_precision", Number(), optional=True),
        Attribute("upstream_mbps_precision", Number(), optional=True),
    ]
    tunnel = [
        Attribute("tunnel_id", String(), computed=True),
        Attribute("public_site_ip", String(), optional=True),
        Attribute("private_cato_ip", String(), optional=True),
        Attribute("private_site_ip", String(), optional=True),
        Attribute("psk", String(), required=True, sensitive=True),
        Nested("last_mile_bw", bandwidth, optional=True),
    ]
    fields = [
        Attribute("destination_type", String(), optional=True),
        Attribute("public_cato_ip_id", String(), optional=True),
        Attribute("pop_location_id", String(), optional=True),
        Nested("tunnels", tunnel, many=True, optional=True),
    ]
    return Nested(name, fields, **mode)


_IPSEC = [
    Attribute("site_id", String(), computed=True),
    _tunnels("primary", required=True),
    _tunnels("secondary", optional=True),
    Field("connection_mode", String(), one_of=("RESPONDER_ONLY", "BIDIRECTIONAL"), optional=True),
    Field("identification_type", String(), one_of=("IPV4", "FQDN", "EMAIL", "KEY_ID"), optional=True),
    _message("init_message"),
    _message("auth_message"),
    Attribute("network_ranges", List(String()), optional=True),
]
_LOCATION = [
    Attribute("country_code", String(), required=True),
    Attribute("state_code", String(), optional=True),
    Attribute("timezone", String(), required=True),
    Attribute("address", String(), optional=True),
    Attribute("city", String(), optional=True),
]
_ATTRIBUTES = [
    Attribute("id", String(), computed=True),
    Attribute("name", String(), required=True),
    Attribute("site_type", String(), required=True),
    Attribute("description", String(), required=True),
    Attribute("native_network_range", String(), required=True),
    Attribute("native_network_range_id", String(), optional=True, computed=True),
    Attribute("interface_id", String(), computed=True),
    Nested("site_location", _LOCATION, required=True),
    Nested("ipsec", _IPSEC, required=True),
]


class IpsecSite(iface.Resource):  # type: ignore[misc]  # the package has no types
    def __init__(self, provider: CatoProvider) -> None:
        self._provider = provider

    @classmethod
    def get_name(cls) -> str:
        return "ipsec_site"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(version=0, attributes=_ATTRIBUTES)

    def validate(self, diags: Any, type_name: str, config: State) -> None:
        super().validate(diags, type_name, config)
        refuse_other_values(diags, _ATTRIBUTES, config)

    def create(self, ctx: iface.CreateContext, planned: State) -> State | None:
        """Three mutations. Whatever fails after the first leaves a site in the state that has only an id."""
        api = self._provider.client
        try:
            data = api.call(
                "siteAddIpsecIkeV2Site", addIpsecIkeV2SiteInput=_new(planned), accountId=api.account
            )
        except CatoError as error:
            ctx.diagnostics.add_error("Cato API error", str(error))
            return None
        site_id = data["site"]["addIpsecIkeV2Site"]["siteId"]
        try:
            api.lookup("siteRange", site=site_id)
            _send_details(api, site_id, planned)
            _send_tunnels(api, "Add", site_id, planned)
            return _hydrated(api, planned, site_id)
        except CatoError as error:
            ctx.diagnostics.add_error("Cato API error", str(error))
            return {**dict.fromkeys(each.name for each in _ATTRIBUTES), "id": site_id}

    def read(self, ctx: iface.ReadContext, current: State) -> State | None:
        try:
            return _hydrated(self._provider.client, current, current["id"])
        except CatoError as error:
            ctx.diagnostics.add_error("Error hydrating IPSec site state", str(error))
            return current

    def update(self, ctx: iface.UpdateContext, current: State, planned: State) -> State | None:
        api, site_id = self._provider.client, planned["id"]
        try:
            api.call(
                "siteUpdateSiteGeneralDetails",
                siteId=site_id,
                updateSiteGeneralDetailsInput=_general(planned),
                accountId=api.account,
            )
            if planned["native_network_range"] != current["native_network_range"]:
                api.call(
                    "siteUpdateNetworkRange",
                    networkRangeId=planned["native_network_range_id"],
                    updateNetworkRangeInput={"subnet": planned["native_network_range"]},
                    accountId=api.account,
                )
            _send_details(api, site_id, planned)
            hydrated = _hydrated(api, planned, site_id)
            _send_tunnels(api, "Update", site_id, planned)
        except CatoError as error:
            ctx.diagnostics.add_error("Catov2 API error", str(error))
            return current
        return hydrated

    def delete(self, ctx: iface.DeleteContext, current: State) -> State | None:
        api = self._provider.client
        try:
            if len(api.lookup("site", ids=[current["id"]])) == 1:
                api.call("siteRemoveSite", siteId=current["id"], accountId=api.account)
        except CatoError as error:
            ctx.diagnostics.add_error("Catov2 API SiteRemoveSite error", str(error))
            return current
        return None

    def import_(self, ctx: iface.ImportContext, id: str) -> State | None:  # noqa: A002, ARG002 (the package's)
        return {**dict.fromkeys(each.name for each in _ATTRIBUTES), "id": id}


def _new(planned: State) -> State:
    location = planned["site_location"]
    return {
        "name": planned["name"],
        "siteType": planned["site_type"],
        "description": planned["description"],
        "nativeNetworkRange": planned["native_network_range"],
        "siteLocation": {**_location(location), "city": location["city"]},
    }


def _general(planned: State) -> State:
    """An update leaves the city out, as the real provider does."""
    return {
        "name": planned["name"],
        "siteType": planned["site_type"],
        "description": planned["description"],
        "siteLocation": _location(planned["site_location"]),
    }


def _location(location: State) -> State:
    return {
        "countryCode": location["country_code"],
        "stateCode": location["state_code"],
        "timezone": location["timezone"],
        "address": location["address"],
    }


def _send_details(api: CatoClient, site_id: str, planned: State) -> None:
    ipsec = planned["ipsec"]
    details = {
        "connectionMode": ipsec["connection_mode"],
        "identificationType": (
            ipsec["identification_type"] if ipsec["connection_mode"] == "RESPONDER_ONLY" else None
        ),
        "initMessage": _sent_message(ipsec["init_message"]),
        "authMessage": _sent_message(ipsec["auth_message"]),
        "networkRanges": ipsec["network_ranges"] or None,
    }
    api.call(
        "siteUpdateIpsecIkeV2SiteGeneralDetails",
        siteId=site_id,
        updateIpsecIkeV2SiteGeneralDetailsInput=details,
        accountId=api.account,
    )


def _sent_message(message: State | None) -> State | None:
    if message is None:
        return None
    names = {"cipher": "cipher", "dh_group": "dhGroup", "integrity": "integrity", "prf": "prf"}
    return {names[key]: value for key, value in message.items()}


def _send_tunnels(api: CatoClient, verb: str, site_id: str, planned: State) -> None:
    """Sends the tunnels, and completes their ids in what was planned."""
    operation = f"{verb.lower()}IpsecIkeV2SiteTunnels"
    groups = {group: _sent_group(group, planned["ipsec"][group], verb) for group in ("primary", "secondary")}
    variables = {f"{operation}Input": groups, "siteId": site_id, "accountId": api.account}
    data = api.call(f"site{operation[0].upper()}{operation[1:]}", **variables)
    for group in groups:
        answered = data["site"][operation][f"{group}{verb}IpsecIkeV2SiteTunnelsPayload"]["tunnels"]
        tunnels = (planned["ipsec"][group] or {}).get("tunnels") or ()
        for tunnel, answer in zip(tunnels, answered, strict=True):
            tunnel["tunnel_id"] = answer[f"tunnelId{verb}IpsecIkeV2SiteTunnelPayload"]


def _sent_group(group: str, values: State | None, verb: str) -> State | None:
    if values is None:
        return None
    tunnels = []
    for place, tunnel in enumerate(values["tunnels"] or (), start=1):
        bandwidth = tunnel["last_mile_bw"] or {}
        sent = {
            "lastMileBw": {"downstream": bandwidth.get("downstream"), "upstream": bandwidth.get("upstream")},
            "privateCatoIp": tunnel["private_cato_ip"],
            "privateSiteIp": tunnel["private_site_ip"],
            "psk": tunnel["psk"],
            "publicSiteIp": tunnel["public_site_ip"],
        }
        if verb == "Update":
            known = tunnel["tunnel_id"]
            sent["tunnelId"] = f"{group.upper()}{place}" if known in (None, Unknown) else known
        tunnels.append(sent)
    return {
        "destinationType": values["destination_type"],
        "popLocationId": values["pop_location_id"],
        "publicCatoIpId": values["public_cato_ip_id"],
        "tunnels": tunnels,
    }


def _hydrated(api: CatoClient, state: State, site_id: str) -> State | None:
    """What the API knows over what the state had; nothing about tunnels and keys is ever read."""
    found = api.lookup("site", ids=[site_id])
    if len(found) != 1:
        return None
    snapshot = api.call("accountSnapshot", siteIDs=[site_id], userIDs=None, accountID=api.account)
    sites = snapshot["accountSnapshot"]["sites"]
    if not sites:
        return None
    read = {
        **state,
        "id": site_id,
        "name": found[0]["entity"]["name"],
        "site_type": found[0]["helperFields"]["type"],
        "description": found[0]["helperFields"]["description"] or None,
        "site_location": _read_location(state["site_location"] or {}, sites[0]["infoSiteSnapshot"]),
        "ipsec": {
            **dict.fromkeys(each.name for each in _IPSEC),
            **(state["ipsec"] or {}),
            "site_id": site_id,
        },
    }
    for item in api.lookup("siteRange", site=site_id):
        if item["entity"]["name"].split(" \\ ")[2:3] == [_RANGE]:
            read["native_network_range_id"] = item["entity"]["id"]
            read["native_network_range"] = item["helperFields"]["subnet"]
    for item in api.lookup("networkInterface", site=site_id):
        if str(item["helperFields"]["siteId"]) == site_id:
            read["interface_id"] = item["entity"]["id"]
    return read


def _read_location(known: State, info: State) -> State:
    """The state's code is kept only while the site is in some state; time zone and address are never read."""
    return {
        "country_code": info["countryCode"],
        "state_code": known.get("state_code") if info["countryStateName"] else None,
        "timezone": known.get("timezone"),
        "address": known.get("address"),
        "city": info["cityName"] or None,
    }
