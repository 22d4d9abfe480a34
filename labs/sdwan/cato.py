"""The part of Cato's GraphQL API that IPsec sites and BGP peers need, in memory. Loopback only.

    POST   /api/v1/graphql2   the API              GET    /sites   every site, whole
    PUT    /sites/ID          change one outside   GET    /peers   every BGP peer
    DELETE /sites/ID          take it away         PUT, DELETE /peers/ID   the same for a peer

and what every simulator has: calls, counts, faults and release (labs/simulator.py). Operations are known by
their `operationName`; the query itself is not read, and replies have the aliases that Cato's SDK asks for.
`python labs/sdwan/cato.py --port 0` prints the address. CATO_TOKEN and CATO_ACCOUNT_ID, or else `lab-token`
and `1000`, are what it lets in.
"""

from __future__ import annotations

import itertools
import os
import sys
from copy import deepcopy
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulator import Answer, Fault, Request, Simulator, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Values = dict[str, Any]

PATH = "/api/v1/graphql2"
ACCOUNT = "1000"
TOKEN = "lab-token"  # noqa: S105 (a made-up one)
MUTATIONS = frozenset(
    {
        "policyPrivateAccessDiscardRevision",
        "siteAddIpsecIkeV2Site",
        "siteUpdateIpsecIkeV2SiteGeneralDetails",
        "siteAddIpsecIkeV2SiteTunnels",
        "siteUpdateIpsecIkeV2SiteTunnels",
        "siteUpdateSiteGeneralDetails",
        "siteUpdateNetworkRange",
        "siteRemoveSite",
        "siteAddBgpPeer",
        "siteUpdateBgpPeer",
        "siteRemoveBgpPeer",
    }
)
QUERIES = frozenset({"entityLookup", "accountSnapshot", "site"})
_GROUPS = ("primary", "secondary")
_STATE_NAMES = {"US-CA": "California", "US-NY": "New York", "US-TX": "Texas", "US-WA": "Washington"}


class ApiError(Exception):
    """A refusal as GraphQL says it: status 200 and `errors`."""


class CatoApi(Simulator):
    """`accounts` are the tokens by account; each account sees only its own sites."""

    name: ClassVar = "cato"
    operations: ClassVar = MUTATIONS | QUERIES

    def __init__(self, port: int = 0, *, accounts: Mapping[str, str] | None = None) -> None:
        super().__init__(port)
        self.accounts = dict(accounts or {ACCOUNT: TOKEN})
        self.endpoint = self.url + PATH
        self._sites: dict[str, Values] = {}
        self._peers: dict[str, Values] = {}
        self._numbers = itertools.count(10_001)

    def sites(self) -> dict[str, Values]:
        """Every site by its id, with everything that was ever sent about it."""
        with self._lock:
            return deepcopy(self._sites)

    def peers(self) -> dict[str, Values]:
        with self._lock:
            return deepcopy(self._peers)

    def change_site(self, site_id: str, **values: Any) -> None:
        """As an administrator would in Cato's own application: drift."""
        with self._lock:
            self._sites[site_id].update(values)

    def change_peer(self, peer_id: str, **values: Any) -> None:
        with self._lock:
            self._peers[peer_id].update(values)

    def remove_site(self, site_id: str) -> None:
        """A site goes with its peers."""
        with self._lock:
            del self._sites[site_id]
            self._peers = {key: peer for key, peer in self._peers.items() if peer["siteId"] != site_id}

    def remove_peer(self, peer_id: str) -> None:
        with self._lock:
            del self._peers[peer_id]

    def respond(self, request: Request) -> Answer:
        if request.method == "POST" and "/" + "/".join(request.path) == PATH:
            return self._graphql(request)
        match request.method, request.path:
            case "PUT" | "DELETE", ("sites" | "peers" as kind, key):
                if key not in (self._sites if kind == "sites" else self._peers):
                    return HTTPStatus.NOT_FOUND, f"There is no {kind[:-1]} {key}."
                self._outside(request.method, kind, key, request.body)
                return HTTPStatus.OK, {}
        return super().respond(request)

    def controls(self, request: Request) -> dict[tuple[str, str], Callable[[], Any]]:
        return {
            **super().controls(request),
            ("GET", "sites"): lambda: {"sites": self.sites()},
            ("GET", "peers"): lambda: {"peers": self.peers()},
        }

    def failure(self, fault: Fault) -> Answer:
        """Cato says most refusals with status 200; `limit` is such a one."""
        if fault.what == "throttle":
            return HTTPStatus.TOO_MANY_REQUESTS, _errors(fault.text or "Too many requests")
        if fault.what == "limit":
            return HTTPStatus.OK, _errors(fault.text or "rate limit for operation: " + fault.operation)
        return fault.status, _errors(str(fault.answer[1]))

    def _outside(self, method: str, kind: str, key: str, values: Values) -> None:
        match method, kind:
            case "PUT", "sites":
                self.change_site(key, **values)
            case "PUT", _:
                self.change_peer(key, **values)
            case _, "sites":
                self.remove_site(key)
            case _:
                self.remove_peer(key)

    def _graphql(self, request: Request) -> Answer:
        account = request.headers.get("x-account-id", "")
        token = request.headers.get("x-api-key")
        if not token or self.accounts.get(account) != token:
            return HTTPStatus.UNAUTHORIZED, _errors("Unauthorized: the API key is not one of this account")
        operation = str(request.body.get("operationName"))
        if operation not in self.operations:
            return HTTPStatus.OK, _errors(f"Unknown operation named {operation}")
        variables: Values = request.body.get("variables") or {}
        if variables.get("accountId", variables.get("accountID", account)) != account:
            return HTTPStatus.OK, _errors("Unauthorized: another account")

        def work() -> Answer:
            try:
                answer = getattr(self, f"_do_{operation}")(account, variables)
            except ApiError as error:
                return HTTPStatus.OK, _errors(str(error))
            return HTTPStatus.OK, {"data": answer}

        site_id, name = self._subject(variables)
        return self.perform(operation, work, id=site_id, name=name, gone=request.gone)

    def worked(self, answer: Answer) -> bool:
        return super().worked(answer) and "errors" not in answer[1]

    def _subject(self, variables: Values) -> tuple[str | None, str | None]:
        """What a call is about, for the log and for faults with a `name`: the name of the site."""
        given = next((variables[key] for key in variables if key.endswith("Input")), None) or {}
        site_id = variables.get("siteId") or (given.get("site") or {}).get("input")
        if "networkRangeId" in variables:
            site_id = variables["networkRangeId"].removesuffix("-range")
        peer = self._peers.get(given.get("id") or given.get("input") or "")
        if site_id is None and peer is not None:
            site_id = peer["siteId"]
        site = self._sites.get(site_id or "")
        return site_id, site["name"] if site else given.get("name")

    def _site(self, account: str, site_id: str) -> Values:
        site = self._sites.get(site_id)
        if site is None or site["account"] != account:
            raise ApiError(f"Site {site_id} was not found")
        return site

    # ---- sites

    def _do_siteAddIpsecIkeV2Site(self, account: str, variables: Values) -> Values:  # noqa: N802 (the operation's name)
        given = variables["addIpsecIkeV2SiteInput"]
        self._refuse_name_in_use(account, given["name"])
        site_id = str(next(self._numbers))
        self._sites[site_id] = {
            "id": site_id,
            "account": account,
            "name": given["name"],
            "siteType": given["siteType"],
            "description": given.get("description") or "",
            "location": given["siteLocation"],
            "nativeNetworkRange": given["nativeNetworkRange"],
            "details": {},
            "tunnels": {},
        }
        return {"site": {"addIpsecIkeV2Site": {"siteId": site_id, "name": given["name"]}}}

    def _refuse_name_in_use(self, account: str, name: str, but: str = "") -> None:
        for site in self._sites.values():
            if site["account"] == account and site["name"] == name and site["id"] != but:
                raise ApiError(f"Site name {name} is already in use")

    def _do_siteUpdateSiteGeneralDetails(self, account: str, variables: Values) -> Values:  # noqa: N802
        site = self._site(account, variables["siteId"])
        given = _without_nulls(variables["updateSiteGeneralDetailsInput"])
        self._refuse_name_in_use(account, str(given.get("name", site["name"])), but=site["id"])
        location = _without_nulls(given.pop("siteLocation", None) or {})
        site.update(given, location={**site["location"], **location})
        return {"site": {"updateSiteGeneralDetails": {"siteId": site["id"]}}}

    def _do_siteUpdateNetworkRange(self, account: str, variables: Values) -> Values:  # noqa: N802
        site = self._site(account, variables["networkRangeId"].removesuffix("-range"))
        site["nativeNetworkRange"] = variables["updateNetworkRangeInput"]["subnet"]
        return {"site": {"updateNetworkRange": {"networkRangeId": variables["networkRangeId"]}}}

    def _do_siteUpdateIpsecIkeV2SiteGeneralDetails(self, account: str, variables: Values) -> Values:  # noqa: N802
        site = self._site(account, variables["siteId"])
        site["details"].update(_without_nulls(variables["updateIpsecIkeV2SiteGeneralDetailsInput"]))
        return {"site": {"updateIpsecIkeV2SiteGeneralDetails": {"siteId": site["id"], "localId": None}}}

    def _do_siteAddIpsecIkeV2SiteTunnels(self, account: str, variables: Values) -> Values:  # noqa: N802
        site = self._site(account, variables["siteId"])
        if site["tunnels"]:
            raise ApiError(f"Site {site['id']} already has tunnels")
        return self._tunnels(site, variables["addIpsecIkeV2SiteTunnelsInput"], "Add")

    def _do_siteUpdateIpsecIkeV2SiteTunnels(self, account: str, variables: Values) -> Values:  # noqa: N802
        site = self._site(account, variables["siteId"])
        return self._tunnels(site, variables["updateIpsecIkeV2SiteTunnelsInput"], "Update")

    def _tunnels(self, site: Values, given: Values, verb: str) -> Values:
        payload: Values = {"siteId": site["id"]}
        for group in _GROUPS:
            tunnels = [dict(each) for each in (given.get(group) or {}).get("tunnels") or ()]
            for place, tunnel in enumerate(tunnels, start=1):
                tunnel.setdefault("tunnelId", f"{group.upper()}{place}")
            if given.get(group):
                site["tunnels"][group] = {**given[group], "tunnels": tunnels}
            ids = [
                {f"tunnelId{verb}IpsecIkeV2SiteTunnelPayload": tunnel["tunnelId"], "localId": None}
                for tunnel in tunnels
            ]
            payload[f"{group}{verb}IpsecIkeV2SiteTunnelsPayload"] = {"fqdn": None, "tunnels": ids}
        return {"site": {f"{verb.lower()}IpsecIkeV2SiteTunnels": payload}}

    def _do_siteRemoveSite(self, account: str, variables: Values) -> Values:  # noqa: N802
        self.remove_site(self._site(account, variables["siteId"])["id"])
        return {"site": {"removeSite": {"siteId": variables["siteId"]}}}

    # ---- reading

    def _do_entityLookup(self, account: str, variables: Values) -> Values:  # noqa: N802
        parent = (variables.get("parent") or {}).get("id")
        wanted = variables.get("entityIDs") or ([parent] if parent else None)
        sites = [
            site
            for site in self._sites.values()
            if site["account"] == account and (wanted is None or site["id"] in wanted)
        ]
        items = [_entity(variables["type"], site) for site in sites]
        return {"entityLookup": {"items": items, "total": len(items)}}

    def _do_accountSnapshot(self, account: str, variables: Values) -> Values:  # noqa: N802
        sites = [self._sites[each] for each in variables.get("siteIDs") or () if each in self._sites]
        return {
            "accountSnapshot": {
                "sites": [
                    {"id": site["id"], "infoSiteSnapshot": _info(site["location"])}
                    for site in sites
                    if site["account"] == account
                ]
            }
        }

    def _do_site(self, account: str, variables: Values) -> Values:
        peer = self._peers.get(variables["bgpPeerRefInput"]["input"])
        if peer is None or self._sites[peer["siteId"]]["account"] != account:
            return {"site": {"bgpPeer": None}}
        return {"site": {"bgpPeer": _peer_read(peer)}}

    # ---- BGP peers

    def _do_siteAddBgpPeer(self, account: str, variables: Values) -> Values:  # noqa: N802
        given = dict(variables["addBgpPeerInput"])
        site = self._site(account, given.pop("site")["input"])
        peer_id = str(next(self._numbers))
        defaults = {"metric": 100, "holdTime": 60, "keepaliveInterval": 20, "summaryRoute": []}
        self._peers[peer_id] = {**defaults, **_without_nulls(given), "id": peer_id, "siteId": site["id"]}
        return {"site": {"addBgpPeer": {"bgpPeer": _peer_written(self._peers[peer_id])}}}

    def _do_siteUpdateBgpPeer(self, account: str, variables: Values) -> Values:  # noqa: N802
        given = variables["updateBgpPeerInput"]
        peer = self._peer(account, given["id"])
        peer.update(_without_nulls(given))
        return {"site": {"updateBgpPeer": {"bgpPeer": _peer_written(peer)}}}

    def _do_siteRemoveBgpPeer(self, account: str, variables: Values) -> Values:  # noqa: N802
        peer = self._peer(account, variables["removeBgpPeerInput"]["id"])
        del self._peers[peer["id"]]
        return {"site": {"removeBgpPeer": {"bgpPeer": _peer_written(peer)}}}

    def _peer(self, account: str, peer_id: str) -> Values:
        peer = self._peers.get(peer_id)
        if peer is None or self._sites[peer["siteId"]]["account"] != account:
            raise ApiError(f"BGP peer {peer_id} was not found")
        return peer

    def _do_policyPrivateAccessDiscardRevision(self, account: str, variables: Values) -> Values:  # noqa: ARG002, N802
        answer = {"status": "FAILURE", "errors": [{"errorCode": "PolicyRevisionNotFound"}]}
        return {"policy": {"privateAccess": {"discardPolicyRevision": answer}}}


def _entity(kind: str, site: Values) -> Values:
    """One item of an entityLookup: every kind that is asked for belongs to one site."""
    match kind:
        case "site":
            entity = {"id": site["id"], "name": site["name"]}
            fields = {"type": site["siteType"], "description": site["description"]}
        case "siteRange":
            entity = {"id": f"{site['id']}-range", "name": f"{site['name']} \\ IPsec \\ Native Range"}
            fields = {"subnet": site["nativeNetworkRange"]}
        case "networkInterface":
            entity = {"id": f"{site['id']}-interface", "name": f"{site['name']} \\ IPsec"}
            fields = {"siteId": site["id"]}
        case _:
            raise ApiError(f"Entities of type {kind} are not simulated")
    return {"entity": {**entity, "type": kind}, "description": "", "helperFields": fields}


def _info(location: Values) -> Values:
    """The state by its name, as Cato says it: the code itself never comes back."""
    code = location.get("stateCode")
    return {
        "countryCode": location["countryCode"],
        "countryStateName": _STATE_NAMES.get(code, code) if code else None,
        "cityName": location.get("city"),
    }


def _peer_read(peer: Values) -> Values:
    """As the query `site` names its fields."""
    tracking = peer.get("tracking")
    return {
        **{key: value for key, value in peer.items() if key not in ("siteId", "bfdSettings", "tracking")},
        "site": {"id": peer["siteId"]},
        "bfdSettingsBgpPeer": peer.get("bfdSettings"),
        # The real provider dies of a null here.
        "trackingBgpPeer": tracking and {**tracking, "subscriptionId": tracking.get("subscriptionId") or ""},
    }


def _peer_written(peer: Values) -> Values:
    """As the mutations name them."""
    return {
        "id": peer["id"],
        "name": peer["name"],
        "siteRefSite": {"id": peer["siteId"]},
        "bgpSummaryRouteSummaryRoute": peer["summaryRoute"],
        "bgpDefaultActionDefaultAction": peer["defaultAction"],
        "bfdSettingsBfdSettings": peer.get("bfdSettings"),
        "bgpTrackingTracking": peer.get("tracking"),
    }


def _without_nulls(values: Values) -> Values:
    return {key: value for key, value in values.items() if value is not None}


def _errors(message: str) -> Values:
    return {"errors": [{"message": message}], "data": None}


def _start(port: int) -> CatoApi:
    account = os.environ.get("CATO_ACCOUNT_ID", ACCOUNT)
    return CatoApi(port, accounts={account: os.environ.get("CATO_TOKEN", TOKEN)})


if __name__ == "__main__":
    serve("Simulate the part of Cato's API that IPsec sites need, on this machine only.", _start)
