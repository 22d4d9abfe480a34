"""The blueprints that come with Holdfast, on simulators of the services."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet_made import EventClient, fleet_of
from program import ROOT, Program, eventually
from site_payloads import PAYLOADS

from sdwan import mirror
from sdwan.cato import TOKEN, CatoApi
from sdwan.versa import PASSWORD, USERNAME, VersaDirector

PSK = "a-key-that-nobody-sees"


@pytest.fixture
def services() -> Iterator[tuple[CatoApi, VersaDirector]]:
    with CatoApi() as cato, VersaDirector() as versa:
        yield cato, versa


@pytest.fixture
def client(
    holdfast: Program, tmp_path: Path, services: tuple[CatoApi, VersaDirector]
) -> Iterator[EventClient]:
    cato, versa = services
    variables = {
        "CATO_BASEURL": cato.endpoint,
        "CATO_TOKEN": TOKEN,
        "CATO_ACCOUNT_ID": "1000",
        "CATO_PSK": PSK,
        "VERSA_DIRECTOR_URL": versa.url,
        "VERSA_USERNAME": USERNAME,
        "VERSA_PASSWORD": PASSWORD,
        "VERSA_ORGANIZATION": "ACME",
        "VERSA_PSK": PSK,
        "TF_CLI_CONFIG_FILE": str(mirror.build(tmp_path / "mirror", python=Path(sys.executable))),
    }
    holdfast.environment |= variables
    (tmp_path / "data").mkdir(mode=0o700)
    names = ", ".join(variables)
    (tmp_path / "data" / "server.yaml").write_text(f"version: 1\nworker: {{ pass_env: [{names}] }}\n")
    with fleet_of(holdfast, tmp_path, ROOT / "blueprints") as admin:
        yield admin.as_role("operator", "client")


def test_sites_of_both_services_are_created_changed_and_deleted(
    client: EventClient, services: tuple[CatoApi, VersaDirector]
) -> None:
    """Outputs come with the answer, drift is found, and no answer has the key."""
    cato, _ = services

    def submit(action: str, blueprint: str, payload: dict[str, Any] | None = None) -> Any:
        answer = client.submit(action, "berlin", payload, blueprint=blueprint)
        assert (answer.status, answer.body.get("status")) == (200, "succeeded"), answer.body
        assert PSK not in str(answer.body)
        return answer.body

    created = submit("create", "cato-ipsec-site", PAYLOADS["cato-ipsec-site"])
    ((site_id, site),) = cato.sites().items()
    assert created["outputs"]["site_id"] == site_id
    assert created["outputs"]["bgp_peer_id"]
    assert site["tunnels"]["primary"]["tunnels"][0]["psk"] == PSK
    submit("create", "versa-site", PAYLOADS["versa-site"])
    submit("update", "cato-ipsec-site", {**PAYLOADS["cato-ipsec-site"], "description": "changed"})
    assert cato.sites()[site_id]["description"] == "changed"

    # What someone changes at the service is found, and what cannot be read is named.
    cato.change_site(site_id, description="by hand")
    assert client.request("POST", "/api/v1/devices/cato-ipsec-site/berlin/drift", {}).status == 202

    def device() -> Any:
        return client.request("GET", "/api/v1/devices/cato-ipsec-site/berlin").body

    eventually(lambda: device()["drift"] is not None, what="the device was compared")
    drift = device()["drift"]
    assert drift["status"] == "drifted", drift
    (finding,) = drift["findings"]
    assert (finding["attribute"], finding["after"]) == ("description", "by hand")
    assert "cato_ipsec_site.ipsec.primary" in drift["not_looked_at"]

    submit("delete", "cato-ipsec-site")
    submit("delete", "versa-site")
    assert not cato.sites()
    assert client.request("GET", "/api/v1/devices").body["devices"] == []
