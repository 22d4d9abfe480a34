from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sdwan.versa import PASSWORD, USERNAME, VersaDirector
from simulator import Fault
from workbench import Workbench

_PSK = "a-key-that-nobody-sees"
_VALUES = {
    "site_name": "Berlin1",
    "template": "BRANCH",
    "device": "branch1",
    "public_ip": "203.0.113.10",
    "peer_public_ip": "198.51.100.10",
    "tunnel_interface": "tvi-0/601",
    "tunnel_ip": "169.254.10.1",
    "bgp_neighbor_ip": "169.254.10.2",
    "bgp_peer_asn": 65010,
    "organization": "ACME",
    "psk": _PSK,
    "commit_mode": "merge",
    "removal_mode": "overwrite",
}
_PROFILE = "orgs/org-services/ACME/ipsec/vpn-profile/Berlin1"
_GROUP = "routing-instances/routing-instance/ACME-LAN-VR/protocols/bgp/rti-bgp/3012/group/Berlin1"
_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"site_name": "../../device/x"}, "site_name has 1 to 31"),
    ({"template": "a/b"}, "template is the name of a template"),
    ({"tunnel_interface": "eth0"}, "tunnel_interface is a name such as tvi-0/601"),
    ({"bgp_peer_asn": 0}, "bgp_peer_asn is a whole number"),
    ({"peer_public_ip": "203.0.113.10"}, "the two ends of the tunnel"),
]
_COMMIT_AFTER = {"restapi_object.commit": "replace"}


@pytest.fixture
def versa() -> Iterator[VersaDirector]:
    with VersaDirector() as running:
        yield running


@pytest.fixture
def bench(shipped: Callable[..., Workbench], versa: VersaDirector) -> Workbench:
    return shipped(
        "versa-site",
        _VALUES,
        REST_API_URI=versa.url,
        REST_API_USERNAME=USERNAME,
        REST_API_PASSWORD=PASSWORD,
        API_DATA_IS_SENSITIVE="true",
    )


def _set(bench: Workbench, **changes: Any) -> None:
    (bench.folder / "terraform.tfvars.json").write_text(json.dumps({**_VALUES, **changes}))


@pytest.mark.long
def test_a_site_from_its_creation_to_its_end(bench: Workbench, versa: VersaDirector) -> None:
    """Staged and committed, no change left, every change committed again, and gone at the end."""
    bench.apply()
    outputs = {name: each["value"] for name, each in json.loads(bench.run("output", "-json")).items()}
    assert outputs == {"vpn_profile": "Berlin1", "bgp_group": "Berlin1"}
    assert set(versa.devices()["branch1"]) == {_PROFILE, _GROUP}
    assert versa.devices()["branch1"][_PROFILE]["local-auth-info"]["key"] == _PSK
    assert bench.planned() == {}
    assert versa.counts()["commit"] == 1

    _set(bench, bgp_peer_asn=65011)
    assert bench.planned() == {"restapi_object.bgp_group": "update", **_COMMIT_AFTER}
    bench.apply()
    assert versa.devices()["branch1"][_GROUP]["neighbor"][0]["peer-as"] == "65011"
    assert versa.counts()["commit"] == 2

    versa.change("BRANCH", _PROFILE, **{"tunnel-initiate": "traffic"})
    assert bench.planned() == {"restapi_object.vpn_profile": "update", **_COMMIT_AFTER}
    bench.run("destroy", "-auto-approve", "-input=false")
    assert (versa.templates(), versa.devices()) == ({"BRANCH": {}}, {"branch1": {}})


@pytest.mark.long
def test_another_name_is_another_profile(bench: Workbench, versa: VersaDirector) -> None:
    """An update in place would leave the old one in the template."""
    bench.apply()
    _set(bench, site_name="Berlin2")
    bench.apply()
    assert {path.rpartition("/")[2] for path in versa.templates()["BRANCH"]} == {"Berlin2"}


@pytest.mark.long
def test_what_is_gone_is_created_again(bench: Workbench, versa: VersaDirector) -> None:
    """A 404 takes it out of the state; the device gets it again, too."""
    bench.apply()
    versa.remove("BRANCH", _GROUP)
    assert bench.planned() == {"restapi_object.bgp_group": "create", **_COMMIT_AFTER}
    bench.apply()
    assert versa.counts()["commit"] == 2
    assert bench.planned() == {}


@pytest.mark.long
def test_a_failed_commit_is_done_by_the_next_apply(bench: Workbench, versa: VersaDirector) -> None:
    """What is staged stays staged, and nothing is staged twice."""
    versa.misbehave(Fault(operation="commit", what="fail-before", status=503, text="locked by another user"))
    assert "locked by another user" in bench.apply(exits=1)
    assert (len(versa.templates()["BRANCH"]), versa.devices()) == (2, {})
    assert bench.planned() == {"restapi_object.commit": "create"}
    bench.apply()
    assert set(versa.devices()["branch1"]) == {_PROFILE, _GROUP}
    assert versa.counts()["put-vpn-profile"] == 1


def test_the_key_is_in_no_plan_and_no_output(bench: Workbench) -> None:
    """Neither as it was sent nor as Director returns it; a new key is an update."""
    said = bench.run("plan", "-input=false", "-no-color", "-out=saved") + bench.apply()
    _set(bench, psk="another-key-for-it")
    said += bench.run("plan", "-input=false", "-no-color")
    assert "Plan: 1 to add, 1 to change, 1 to destroy." in said
    for secret in (_PSK, "another-key-for-it", "$4$"):
        assert secret not in said
    document = json.loads(bench.run("show", "-json", "saved"))
    (profile,) = (
        each for each in document["resource_changes"] if each["address"] == "restapi_object.vpn_profile"
    )
    sensitive = profile["change"]["after_sensitive"]
    assert all(sensitive[name] for name in ("data", "api_data", "api_response", "create_response"))


@pytest.mark.long
def test_a_wrong_password_is_said(bench: Workbench) -> None:
    """And nothing is staged."""
    bench.environment["REST_API_PASSWORD"] = "guess"
    assert "unexpected response code '401'" in bench.apply(exits=1)


@pytest.mark.long
def test_values_that_lead_elsewhere_are_refused(bench: Workbench, versa: VersaDirector) -> None:
    """Names are parts of paths in Director: none of them may be more than a name."""
    for changes, text in _REFUSED:
        _set(bench, **changes)
        assert text in bench.run("plan", "-input=false", "-no-color", exits=1), changes
    assert versa.calls() == []
