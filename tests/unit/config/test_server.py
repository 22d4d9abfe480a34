"""server.yaml: what it becomes, and its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.server import ServerSettings, default_settings, load_server_settings
from holdfast.identity.roles import GRANTABLE
from holdfast.kernel.errors import ConfigError

FULL = """
version: 1
listen: 0.0.0.0:8420
tls: {certificate: server.pem, key: server.key}
trusted_proxies: [10.0.3.7, 10.0.4.1/24, "::1"]
oidc:
  - issuer: https://token.actions.githubusercontent.com
    audience: holdfast
    claims: {repository: acme/infra, ref_protected: true}
    role: operator
    states: prod/*
    lifetime: 30m
limits: {state_size: 300MB, requests: 50}
"""


def load(folder: Path, text: str) -> ServerSettings:
    file = folder / "server.yaml"
    file.write_text(text)
    return load_server_settings(file)


def test_every_key(tmp_path: Path) -> None:
    settings = load(tmp_path, FULL)
    assert settings.folder == tmp_path
    assert settings.tls is not None
    assert (settings.tls.certificate, settings.tls.key_file) == ("server.pem", "server.key")
    assert settings.trusted_proxies == ("10.0.3.7/32", "10.0.4.0/24", "::1/128")
    (rule,) = settings.oidc
    assert rule.claims == {"repository": "acme/infra", "ref_protected": "true"}
    assert (rule.role, rule.tenant, rule.states, rule.lifetime) == ("operator", "default", ("prod/*",), 1800)
    assert (settings.limits.state_size, settings.limits.requests) == (300_000_000, 50)


def test_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "version: 1\n") == default_settings(tmp_path)
    assert default_settings(tmp_path).listen == "127.0.0.1:8420"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("listen: 127.0.0.1\n", "version"),
        ("version: 1\nlisten: 127.0.0.1\n", "listen"),
        ("version: 1\ntls: {certificate: a}\n", "tls"),
        ("version: 1\ntrusted_proxies: [proxy.example.com]\n", "trusted_proxies"),
        ("version: 1\noidc: [{issuer: 'http://a.example', audience: a, claims: {a: b}}]\n", "issuer"),
        ("version: 1\noidc: [{issuer: 'https://a.example', audience: a, claims: {}}]\n", "claims"),
        (
            "version: 1\noidc: [{issuer: 'https://a.example', audience: a, claims: {a: b}, role: run}]\n",
            "role",
        ),
        ("version: 1\nlimit: {}\n", "limit"),
        ("[]", "server.yaml"),
        ("", "server.yaml"),
    ],
)
def test_a_mistake_names_its_key(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert any(where in f"{problem.message} {problem.place}" for problem in error.value.problems)


def test_a_rule_can_give_every_role_that_a_token_can_have(tmp_path: Path) -> None:
    rule = "version: 1\noidc: [{issuer: 'https://a.example', audience: a, claims: {a: b}, role: %s}]\n"
    for role in GRANTABLE:
        assert load(tmp_path, rule % role.value).oidc[0].role == role
