"""A login by OIDC, on a provider with a login page, consent, cookies and PKCE."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from gates_made import gate, tools
from login_provider import CLIENT, CLIENT_SECRET, PASSWORD, REDIRECT, USER, LoginProvider, login_provider
from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef
from holdfast.gates.catalogue import KINDS
from holdfast.gates.interface import Met, NotMet, NotObservable, Observation
from holdfast.kernel.secret import Secret

SECRETS = {"env:CLIENT": CLIENT_SECRET, "env:PASSWORD": PASSWORD}


@pytest.fixture
def provider() -> Iterator[LoginProvider]:
    with login_provider() as made:
        yield made


def login(
    provider: LoginProvider, folder: Path, more: str = "", secrets: Mapping[str, str] = SECRETS
) -> Observation:
    declared = gate(
        f'oidc: {{ issuer: "{provider.url}", client_id: {CLIENT}, client_secret: {{ secret: "env:CLIENT" }}, '
        f'redirect_uri: "{REDIRECT}", user: {USER}, password: {{ secret: "env:PASSWORD" }}{more} }}'
    )

    def read(reference: SecretRef) -> Secret:
        return Secret(secrets[str(reference)])

    probe = KINDS["oidc"](declared.settings, replace(tools(folder), read_secret=read))
    return asyncio.run(probe.observe(10.0))


def test_a_test_user_can_log_in(provider: LoginProvider, tmp_path: Path) -> None:
    """Cookies, hidden fields, consent, PKCE, client secret, signature and claims; no client is opened."""
    met = login(provider, tmp_path, ", claims: { groups: admins }, parameters: { connector_id: local }")
    assert isinstance(met, Met), met
    assert provider.asked["connector_id"] == "local"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("down", "the discovery document is not there: status 502"),
        ("issuer", "its discovery document is of the issuer https://other.example"),
        ("denied", "no code: access_denied"),
        ("state", "the answer has another state"),
        ("signature", "the ID token is not valid: the signature of the token is wrong"),
        ("audience", "different audience"),
        ("expired", "has expired"),
        ("nonce", "the ID token has another nonce"),
    ],
)
def test_a_login_that_does_not_work_says_where(
    provider: LoginProvider, tmp_path: Path, fault: str, says: str
) -> None:
    """Every step is verified, and no secret is in what it says."""
    provider.faults.add(fault)
    observation = login(provider, tmp_path)
    assert isinstance(observation, NotMet)
    assert says in observation.text
    assert PASSWORD not in repr(observation)
    assert CLIENT_SECRET not in repr(observation)


@pytest.mark.parametrize(
    ("secrets", "more", "says"),
    [
        ({**SECRETS, "env:PASSWORD": "wrong"}, "", "asks for the password again"),
        ({**SECRETS, "env:CLIENT": "wrong"}, "", "no ID token: invalid_client"),
        (SECRETS, ", claims: { groups: owners }", "does not have the claim groups = owners"),
    ],
)
def test_wrong_credentials_are_reported(
    provider: LoginProvider, tmp_path: Path, secrets: dict[str, str], more: str, says: str
) -> None:
    """A wrong password is sent once and never again: the gate is unchecked."""
    observation = login(provider, tmp_path, more, secrets)
    assert not isinstance(observation, Met)
    assert says in observation.text
    assert len(provider.posted) == 1
    # An attempt every five seconds with a wrong password would lock the account.
    assert isinstance(observation, NotObservable) == ("password" in says)


def test_a_page_elsewhere_does_not_get_the_password(provider: LoginProvider, tmp_path: Path) -> None:
    """Unless the gate names its host."""
    with login_provider() as other:
        provider.login_action = f"{other.url}/login"
        observation = login(provider, tmp_path)
        assert isinstance(observation, NotMet)
        assert "must not get the password" in observation.text
        assert other.posted == []
        host = other.url.removeprefix("http://")
        login(provider, tmp_path, f', login_hosts: ["{host}"]')
        assert len(other.posted) == 1
