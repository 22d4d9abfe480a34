from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from sdwan import cato as cato_module
from sdwan import versa as versa_module
from sdwan.cato import TOKEN, CatoApi
from sdwan.cato_client import CatoClient, CatoError, Retries
from sdwan.versa import VersaDirector
from simulator import Fault

_SITE = {
    "name": "one",
    "siteType": "BRANCH",
    "description": "first",
    "nativeNetworkRange": "10.0.0.0/24",
    "siteLocation": {"countryCode": "US", "stateCode": "US-NY", "timezone": "America/New_York"},
}
_CONFIG = "/api/config/devices/template/BRANCH/config"
_PROFILE = f"{_CONFIG}/orgs/org-services/ACME/ipsec/vpn-profile"
_GROUP = f"{_CONFIG}/routing-instances/routing-instance/LAN/protocols/bgp/rti-bgp/1/group"
_BASIC = {"Authorization": "Basic " + base64.b64encode(b"lab:lab-password").decode()}


@pytest.fixture
def cato() -> Iterator[CatoApi]:
    with CatoApi(accounts={"1000": TOKEN, "2000": "other-token"}) as running:
        yield running


@pytest.fixture
def versa() -> Iterator[VersaDirector]:
    with VersaDirector() as running:
        yield running


def _client(cato: CatoApi, account: str = "1000", token: str = TOKEN, attempts: int = 0) -> CatoClient:
    retries = Retries(attempts=attempts, wait_min=0.01, wait_max=0.02)
    return CatoClient(cato.endpoint, token, account, version="0", retries=retries)


def _add(client: CatoClient, **changes: Any) -> str:
    data = client.call(
        "siteAddIpsecIkeV2Site", addIpsecIkeV2SiteInput={**_SITE, **changes}, accountId=client.account
    )
    return str(data["site"]["addIpsecIkeV2Site"]["siteId"])


def _asked(
    url: str, method: str = "GET", body: object = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers or {}, method=method)  # noqa: S310 (loopback)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 (loopback)
            return answer.status, json.loads(answer.read().strip() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_cato_lets_in_only_the_key_of_the_account(cato: CatoApi) -> None:
    """A key of another account, and an account in the variables that is not the caller's, are refused."""
    for account, token in (("1000", "other-token"), ("3000", "lab-token"), ("1000", "")):
        with pytest.raises(CatoError, match="401"):
            _client(cato, account, token).lookup("site")
    with pytest.raises(CatoError, match="another account"):
        _client(cato).call("siteRemoveSite", siteId="1", accountId="2000")
    assert cato.counts() == {}


def test_an_account_sees_only_its_own_sites(cato: CatoApi) -> None:
    """Neither by listing nor by id; and the same name may exist once in each."""
    mine, theirs = _client(cato), _client(cato, "2000", "other-token")
    site_id = _add(mine)
    assert [each["entity"]["id"] for each in mine.lookup("site")] == [site_id]
    assert theirs.lookup("site", ids=[site_id]) == []
    with pytest.raises(CatoError, match="was not found"):
        theirs.call("siteRemoveSite", siteId=site_id, accountId="2000")
    _add(theirs)
    with pytest.raises(CatoError, match="already in use"):
        _add(mine)
    assert cato.counts()["siteAddIpsecIkeV2Site"] == 2


@pytest.mark.parametrize("what", ["throttle", "limit"])
def test_a_rate_limit_is_429_or_an_error_in_a_200(cato: CatoApi, what: Any) -> None:
    """Either is tried again, as often as the client is told to; nothing is done meanwhile."""
    cato.misbehave(Fault(operation="siteAddIpsecIkeV2Site", what=what, count=2))
    with pytest.raises(CatoError, match=r"(?i)too many requests|rate limit"):
        _add(_client(cato))
    assert cato.sites() == {}
    _add(_client(cato, attempts=1))
    statuses = [call.status for call in cato.calls("siteAddIpsecIkeV2Site")]
    assert statuses == ([429, 429, 200] if what == "throttle" else [200, 200, 200])
    assert cato.counts() == {"siteAddIpsecIkeV2Site": 1}


def test_faults_of_cato_may_do_the_work_or_not(cato: CatoApi) -> None:
    """A lost answer leaves a site, a refusal does not; a fault for one site spares the others."""
    client = _client(cato)
    cato.misbehave(Fault(operation="siteAddIpsecIkeV2Site", what="fail-after", name="one"))
    cato.misbehave(Fault(operation="*", what="fail-before", name="two", status=200, text="No, not that one."))
    with pytest.raises(CatoError, match="500"):
        _add(client)
    with pytest.raises(CatoError, match="not that one"):
        _add(client, name="two")
    assert [site["name"] for site in cato.sites().values()] == ["one"]
    assert [call.worked for call in cato.calls()] == [True, False]
    with pytest.raises(ValueError, match="operation is one of"):
        cato.misbehave(Fault(operation="dance", what="delay"))


def test_cato_as_a_program_is_told_and_asked_over_http() -> None:
    """It lists sites and counts, lets a site be changed outside, and ends with an interrupt."""
    environment = {**os.environ, "CATO_TOKEN": "secret-of-today", "CATO_ACCOUNT_ID": "7"}
    with _started(cato_module.__file__, environment) as url:
        headers = {"x-api-key": "secret-of-today", "x-account-id": "7"}
        sent = {
            "operationName": "siteAddIpsecIkeV2Site",
            "variables": {"accountId": "7", "addIpsecIkeV2SiteInput": _SITE},
        }
        status, answer = _asked(url + cato_module.PATH, "POST", sent, headers)
        site_id = answer["data"]["site"]["addIpsecIkeV2Site"]["siteId"]
        assert status == 200
        assert _asked(f"{url}/sites/{site_id}", "PUT", {"description": "theirs"})[0] == 200
        assert _asked(f"{url}/sites")[1]["sites"][site_id]["description"] == "theirs"
        assert _asked(f"{url}/counts")[1] == {"counts": {"siteAddIpsecIkeV2Site": 1}}
        assert _asked(f"{url}/sites/{site_id}", "DELETE")[0] == 200
        assert _asked(f"{url}/sites/{site_id}", "DELETE")[0] == 404
        assert _asked(f"{url}/peers")[1] == {"peers": {}}


def test_versa_lets_in_only_who_has_the_password(versa: VersaDirector) -> None:
    """Nothing is recorded or done for anyone else."""
    wrong = {"Authorization": "Basic " + base64.b64encode(b"lab:guess").decode()}
    for headers in ({}, wrong):
        assert _asked(f"{versa.url}{_PROFILE}/a", "PUT", {"vpn-profile": {"name": "a"}}, headers)[0] == 401
    assert (versa.templates(), versa.calls()) == ({"BRANCH": {}}, [])


def test_versa_stages_in_a_template_and_commits_with_a_task(versa: VersaDirector) -> None:
    """Staged is not committed; a task is in progress before it is done; merge keeps what is on the device."""
    profile = {
        "name": "a",
        "vpn-type": "site-to-site",
        "local-auth-info": {"auth-type": "psk", "key": "hush"},
    }
    url = f"{versa.url}{_PROFILE}/a"
    assert _asked(url, "PUT", {"vpn-profile": profile}, _BASIC)[0] == 201
    assert _asked(url, "PUT", {"vpn-profile": profile}, _BASIC)[0] == 204
    shallow = {"name": "a", "vpn-type": "site-to-site"}
    assert _asked(url, headers=_BASIC)[1] == {"vpn-profile": shallow}
    deep = _asked(f"{url}?deep=true", headers=_BASIC)[1]["vpn-profile"]["local-auth-info"]
    assert deep["auth-type"] == "psk"
    assert deep["key"].startswith("$4$")
    assert versa.devices() == {}

    assert _commit(versa, "merge") == ["IN_PROGRESS", "COMPLETED"]
    assert _asked(url, "DELETE", headers=_BASIC)[0] == 204
    assert _asked(url, headers=_BASIC)[0] == 404
    _commit(versa, "merge")
    assert len(versa.devices()["branch1"]) == 1
    _commit(versa, "overwrite")
    assert versa.devices()["branch1"] == {}


def _commit(versa: VersaDirector, mode: str) -> list[str]:
    body = {"versanms.templateRequest": {"device-list": ["branch1"], "mode": mode}}
    _, answer = _asked(f"{versa.url}/vnms/template/applyTemplate/BRANCH/devices", "POST", body, _BASIC)
    task = answer["versanms.templateResponse"]["taskId"]
    polls = [_asked(f"{versa.url}/vnms/tasks/task/{task}", headers=_BASIC)[1] for _ in range(2)]
    return [poll["versa-tasks.task"]["versa-tasks.task-status"] for poll in polls]


def test_versa_refuses_what_it_does_not_know(versa: VersaDirector) -> None:
    """Another template, another part of the configuration, and a body that does not fit its path."""
    named = {"group": {"name": "b"}}
    assert _asked(f"{versa.url}{_GROUP}/a", "PUT", named, _BASIC)[0] == 400
    assert _asked(f"{versa.url}{_GROUP.replace('BRANCH', 'HUB')}/b", "PUT", named, _BASIC)[0] == 404
    assert _asked(f"{versa.url}/api/config/devices/template/BRANCH/config/system", headers=_BASIC)[0] == 404
    assert (
        _asked(f"{versa.url}{_GROUP}", "PATCH", {"group": [{"name": "b", "type": "external"}]}, _BASIC)[0]
        == 204
    )
    assert _asked(f"{versa.url}{_GROUP}", headers=_BASIC)[1] == {"group": [{"name": "b", "type": "external"}]}
    versa.misbehave(Fault(operation="put-group", what="throttle"))
    assert _asked(f"{versa.url}{_GROUP}/b", "PUT", named, _BASIC)[0] == 429
    assert versa.counts() == {"put-group": 1, "read": 1}


def test_versa_as_a_program_is_told_and_asked_over_http() -> None:
    """It shows templates and devices, and lets what is staged be changed outside."""
    with _started(versa_module.__file__, dict(os.environ)) as url:
        _asked(f"{url}{_PROFILE}/a", "PUT", {"vpn-profile": {"name": "a"}}, _BASIC)
        ((path, _),) = _asked(f"{url}/templates")[1]["templates"]["BRANCH"].items()
        at = {"template": "BRANCH", "path": path}
        assert _asked(f"{url}/outside", "PUT", {**at, "values": {"vpn-type": "x"}})[0] == 200
        assert _asked(f"{url}/templates")[1]["templates"]["BRANCH"][path] == {"name": "a", "vpn-type": "x"}
        assert _asked(f"{url}/outside", "DELETE", at)[0] == 200
        assert _asked(f"{url}/devices")[1] == {"devices": {}}


@contextlib.contextmanager
def _started(program: str, environment: dict[str, str]) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, program, "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
