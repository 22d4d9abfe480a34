from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sdwan.cato import MUTATIONS, TOKEN, CatoApi
from simulator import Fault
from workbench import Workbench

_PSK = "a-key-that-nobody-sees"
_VALUES = {
    "site_name": "Berlin 1",
    "network_range": "10.20.0.0/24",
    "public_ip": "203.0.113.10",
    "cato_private_ip": "169.254.10.1",
    "bgp_neighbor_ip": "169.254.10.2",
    "bgp_peer_asn": 65010,
    "account_id": "1000",
    "psk": _PSK,
}
_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"network_range": "10.20.0.1/24"}, "network_range is an IPv4 network"),
    ({"public_ip": "203.0.113.999"}, "public_ip is an IPv4 address"),
    ({"bgp_neighbor_ip": "169.254.10.1"}, "the two ends of the tunnel"),
    ({"bgp_peer_asn": 4294967295}, "bgp_peer_asn is a whole number"),
    ({"cato_asn": 65535}, "cato_asn is a whole number"),
    ({"site_name": "a \\ b"}, "site_name has 1 to 64"),
    ({"psk": "short"}, "psk has 10 to 64 characters"),
]
_SITE, _PEER = "cato_ipsec_site.this", "cato_bgp_peer.this"

Bench = Callable[..., Workbench]


@pytest.fixture
def cato() -> Iterator[CatoApi]:
    with CatoApi() as running:
        yield running


@pytest.fixture
def bench_with(shipped: Callable[..., Workbench], cato: CatoApi) -> Bench:
    """Makes a workbench with the blueprint: as blueprint.yaml sets it up, but for these variables."""

    def make(**variables: str) -> Workbench:
        given = {
            "CATO_BASEURL": cato.endpoint,
            "CATO_TOKEN": TOKEN,
            "DISABLE_POLICY_RULE_CLEANUP": "true",
            **variables,
        }
        return shipped("cato-ipsec-site", _VALUES, **given)

    return make


def _set(bench: Workbench, **changes: Any) -> None:
    (bench.folder / "terraform.tfvars.json").write_text(json.dumps({**_VALUES, **changes}))


def _outputs(bench: Workbench) -> dict[str, Any]:
    return {name: each["value"] for name, each in json.loads(bench.run("output", "-json")).items()}


@pytest.mark.long
def test_a_site_from_its_creation_to_its_end(bench_with: Bench, cato: CatoApi) -> None:
    """Each mutation once, no change left, updates in place, drift found, and nothing left at the end."""
    bench = bench_with()
    bench.apply()
    outputs = _outputs(bench)
    assert outputs == {"site_id": next(iter(cato.sites())), "bgp_peer_id": next(iter(cato.peers()))}
    site = cato.sites()[outputs["site_id"]]
    (tunnel,) = site["tunnels"]["primary"]["tunnels"]
    assert (tunnel["psk"], tunnel["privateSiteIp"], tunnel["tunnelId"]) == (_PSK, "169.254.10.2", "PRIMARY1")
    assert bench.planned() == {}
    mutations = {name: count for name, count in cato.counts().items() if name in MUTATIONS}
    assert mutations == {
        "siteAddIpsecIkeV2Site": 1,
        "siteUpdateIpsecIkeV2SiteGeneralDetails": 1,
        "siteAddIpsecIkeV2SiteTunnels": 1,
        "siteAddBgpPeer": 1,
    }

    _set(bench, network_range="10.30.0.0/24", public_ip="203.0.113.11", bgp_peer_asn=65011)
    bench.apply()
    assert _outputs(bench) == outputs
    site = cato.sites()[outputs["site_id"]]
    assert site["nativeNetworkRange"] == "10.30.0.0/24"
    assert site["tunnels"]["primary"]["tunnels"][0]["publicSiteIp"] == "203.0.113.11"
    assert cato.peers()[outputs["bgp_peer_id"]]["peerAsn"] == "65011"

    cato.change_site(outputs["site_id"], description="theirs")
    cato.change_peer(outputs["bgp_peer_id"], metric=77)
    assert bench.planned() == {_SITE: "update", _PEER: "update"}
    bench.run("destroy", "-auto-approve", "-input=false")
    assert (cato.sites(), cato.peers()) == ({}, {})


def test_a_failure_after_the_first_mutation_leaves_a_tainted_site(bench_with: Bench, cato: CatoApi) -> None:
    """The site exists and is in the state by its id; the next apply replaces it, and only one is left."""
    cato.misbehave(
        Fault(operation="siteAddIpsecIkeV2SiteTunnels", what="fail-before", status=200, text="no PoP")
    )
    bench = bench_with()
    assert "no PoP" in bench.apply(exits=1)
    (site_id,) = cato.sites()
    instance = bench.instances()[_SITE]
    assert (instance["status"], instance["attributes"]["id"]) == ("tainted", site_id)
    assert bench.planned() == {_SITE: "replace", _PEER: "create"}
    bench.apply()
    (second,) = cato.sites()
    assert second != site_id
    assert bench.planned() == {}


def test_the_schema_says_what_is_sensitive(bench_with: Bench) -> None:
    """The provider itself hides keys, also where no variable of the configuration does."""
    document = json.loads(bench_with().run("providers", "schema", "-json"))
    schemas = document["provider_schemas"]["registry.terraform.io/catonetworks/cato"]["resource_schemas"]
    attributes = schemas["cato_ipsec_site"]["block"]["attributes"]
    for name in ("ipsec", "primary", "tunnels"):
        attributes = attributes[name]["nested_type"]["attributes"]
    assert attributes["psk"]["sensitive"]
    assert schemas["cato_bgp_peer"]["block"]["attributes"]["md5_auth_key"]["sensitive"]


def test_the_key_is_in_no_plan_and_no_output(bench_with: Bench) -> None:
    """It is in the state, as every provider of its kind keeps it, and nowhere that people read."""
    bench = bench_with()
    said = bench.run("plan", "-input=false", "-no-color", "-out=saved") + bench.run(
        "show", "-no-color", "saved"
    )
    said += bench.apply()
    assert "psk" in said
    assert _PSK not in said
    document = json.loads(bench.run("show", "-json", "saved"))
    (site,) = (each for each in document["resource_changes"] if each["address"] == _SITE)
    assert site["change"]["after_sensitive"]["ipsec"]["primary"]["tunnels"] == [
        {"last_mile_bw": {}, "psk": True}
    ]


@pytest.mark.long
def test_what_the_provider_never_reads_is_no_drift(bench_with: Bench, cato: CatoApi) -> None:
    """A key that was changed outside stays unseen: the blueprint lists it as not read."""
    bench = bench_with()
    bench.apply()
    (site_id,) = cato.sites()
    tunnels = cato.sites()[site_id]["tunnels"]
    tunnels["primary"]["tunnels"][0]["psk"] = "changed-outside"
    cato.change_site(site_id, tunnels=tunnels, details={"connectionMode": "RESPONDER_ONLY"})
    assert bench.planned() == {}
    cato.remove_site(site_id)
    assert bench.planned() == {_SITE: "create", _PEER: "create"}


@pytest.mark.long
def test_a_plan_discards_drafts_unless_it_is_told_not_to(bench_with: Bench, cato: CatoApi) -> None:
    """The blueprint sets the variable, because a plan of the real provider changes something without it."""
    bench = bench_with()
    bench.planned()
    assert "policyPrivateAccessDiscardRevision" not in cato.counts()
    bench.environment["DISABLE_POLICY_RULE_CLEANUP"] = "false"
    bench.planned()
    assert cato.counts()["policyPrivateAccessDiscardRevision"] >= 1


@pytest.mark.long
def test_rate_limits_are_waited_for(bench_with: Bench, cato: CatoApi) -> None:
    """Both forms of refusal, in one apply: nothing fails and nothing is done twice."""
    cato.misbehave(Fault(operation="siteAddIpsecIkeV2Site", what="throttle"))
    cato.misbehave(Fault(operation="siteAddBgpPeer", what="limit"))
    bench_with().apply()
    assert (len(cato.sites()), len(cato.peers())) == (1, 1)
    assert len(cato.calls("siteAddBgpPeer")) == 2


@pytest.mark.long
def test_values_that_cato_would_not_take_are_refused_before(bench_with: Bench, cato: CatoApi) -> None:
    """Nothing is asked of Cato, and the message names the variable."""
    bench = bench_with()
    for changes, text in _REFUSED:
        _set(bench, **changes)
        assert text in bench.run("plan", "-input=false", "-no-color", exits=1), changes
    assert cato.calls() == []


@pytest.mark.long
def test_enumerations_are_checked_as_the_real_provider_does(bench_with: Bench) -> None:
    """Inside of objects, too."""
    bench = bench_with()
    main = bench.folder / "main.tf"
    main.write_text(main.read_text().replace("ipsec = {", 'ipsec = {\n    connection_mode = "SOMEHOW"', 1))
    said = bench.run("validate", "-no-color", exits=1)
    assert "Attribute ipsec.connection_mode value must be one of" in said
