"""CI by OIDC federation, with a real issuer on loopback."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oidc_made import AUDIENCE, SUBJECT, MadeIssuer, made_issuer
from server_made import Answer, MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.federation import FederationRule
from holdfast.identity.issuer_keys import read_issuer_keys
from holdfast.system import clock, environment

EXCHANGE = "/api/v1/tokens/exchange"
WITH_IDS = "repo:acme@12/infra@34:ref:refs/heads/main"


@pytest.fixture
def issuer() -> Iterator[MadeIssuer]:
    with made_issuer() as issuer:
        yield issuer


@pytest.fixture
def server(database: Database, issuer: MadeIssuer) -> Iterator[MadeServer]:
    rule = FederationRule(
        issuer=issuer.url,
        audience=AUDIENCE,
        claims={"sub": "repo:acme/infra:*", "repository": "acme/infra"},
        states=("prod/*",),
        groups=("ci",),
        groups_claim="groups_direct",
        lifetime=600.0,
    )
    with made_server(
        database, rules=(rule,), read_keys=lambda url: read_issuer_keys(url, environment.read())
    ) as server:
        yield server


def exchange(server: MadeServer, token: str) -> Answer:
    return server.send("POST", EXCHANGE, {"token": token}, token=None)


@pytest.mark.parametrize("subject", [SUBJECT, WITH_IDS])
def test_a_trusted_token_gives_a_short_lived_one(
    server: MadeServer, issuer: MadeIssuer, subject: str
) -> None:
    created = exchange(server, issuer.token(sub=subject))
    assert created.status == 201
    document = created.document
    assert (document["name"], document["role"], document["states"]) == (subject, "ci", ["prod/*"])
    assert document["expires"] is not None
    current = server.send("GET", "/api/v1/tokens/current", token=document["token"]).document
    assert (current["kind"], current["name"]) == ("oidc", subject)
    assert server.send("GET", "/state/prod/net", token=document["token"]).status == 404
    assert server.send("GET", "/state/dev/net", token=document["token"]).status == 403
    assert server.send("GET", "/api/v1/tokens", token=document["token"]).status == 403


def test_a_token_is_exchanged_once(server: MadeServer, issuer: MadeIssuer) -> None:
    token = issuer.token(actor="ada", run_number="17")
    assert exchange(server, token).status == 201
    again = exchange(server, token)
    assert (again.status, again.problem["code"]) == (401, "HF-TOK-1")
    assert "exchanged before" in again.problem["message"]
    (entry,) = server.send("GET", "/api/v1/audit").document["entries"]
    assert (entry["what"], entry["who"]["verified"]) == ("token-exchange", True)
    assert (entry["who"]["name"], entry["who"]["claims"]["actor"]) == (SUBJECT, "ada")
    assert token.rpartition(".")[2] not in str(entry)


@pytest.mark.parametrize(
    ("claim", "groups"),
    [(["dba", "net", 7, ""], ["ci", "dba", "net"]), ("dba", ["ci", "dba"]), (None, ["ci"]), (5, ["ci"])],
)
def test_groups_come_from_the_rule_and_from_a_claim(
    server: MadeServer, issuer: MadeIssuer, claim: object, groups: list[str]
) -> None:
    created = exchange(server, issuer.token(groups_direct=claim, groups=["root"]))
    assert created.document["groups"] == groups
    token = created.document["token"]
    assert server.send("GET", "/api/v1/tokens/current", token=token).document["groups"] == groups


_NOW = clock.now().timestamp()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": "https://elsewhere.example.com"}, "issuer is not trusted"),
        ({"aud": "somebody-else"}, "no rule"),
        ({"repository": "acme/other", "sub": "repo:acme/other:ref:refs/heads/main"}, "no rule"),
        ({"sub": "repo:acme/infra-evil:ref:x"}, "no rule"),
        ({"exp": _NOW - 3600, "iat": _NOW - 7200}, "expired"),
        ({"iat": _NOW + 3600, "exp": _NOW + 7200}, "not valid yet"),
        ({"exp": None}, "when it expires"),
        ({"exp": _NOW + 90 * 3600}, "more than a day"),
    ],
)
def test_another_token_is_refused(
    server: MadeServer, issuer: MadeIssuer, changed: dict[str, Any], reason: str
) -> None:
    answer = exchange(server, issuer.token(**changed))
    assert answer.status == 401
    assert reason in answer.problem["message"]
    assert len(server.tokens.list(None)) == 1  # The admin's own.


def test_a_minute_of_clock_skew_is_accepted(server: MadeServer, issuer: MadeIssuer) -> None:
    now = clock.now().timestamp()
    assert exchange(server, issuer.token(iat=now + 30, nbf=now + 30)).status == 201
    assert exchange(server, issuer.token(iat=now - 300, exp=now - 30)).status == 201


def test_a_forged_signature_is_refused(server: MadeServer, issuer: MadeIssuer) -> None:
    with made_issuer() as other:
        forged = other.token(iss=issuer.url)
    head, payload, _ = issuer.token().split(".")
    for token in (forged, f"{head}.{payload}.AAAA", f"{head}.{payload}.", "nonsense"):
        assert exchange(server, token).status == 401


def test_a_rotated_key_works_at_once_and_the_old_one_no_more(
    server: MadeServer, issuer: MadeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = issuer.key
    assert exchange(server, issuer.token()).status == 201
    issuer.rotate()
    _later(monkeypatch, server, 11)
    assert exchange(server, issuer.token()).status == 201
    assert exchange(server, issuer.token(old)).status == 401


def test_keys_are_read_only_now_and_then(server: MadeServer, issuer: MadeIssuer) -> None:
    """Anyone can send tokens with unknown keys."""
    with made_issuer() as other:
        for _ in range(5):
            exchange(server, other.token(iss=issuer.url))
    assert exchange(server, issuer.token()).status == 201
    assert issuer.requests.count("/keys") == 1


def test_an_issuer_that_does_not_answer_is_a_503(server: MadeServer, issuer: MadeIssuer) -> None:
    issuer.is_down = True
    for _ in range(3):
        answer = exchange(server, issuer.token())
        assert (answer.status, answer.problem["code"]) == (503, "HF-TOK-8")
        assert answer.headers["retry-after"] == "10"
    issuer.is_down, issuer.discovery["issuer"] = False, "https://elsewhere.example.com"
    assert exchange(server, issuer.token()).status == 503


def test_wrong_ci_tokens_are_limited(database: Database) -> None:
    with made_server(database, limits={"failed_logins": 3}) as server:
        statuses = [exchange(server, "nonsense").status for _ in range(4)]
        assert statuses == [401, 401, 429, 429]
        assert server.send("GET", "/api/v1/tokens").status == 200
    with made_server(database, limits={"exchanges": 2}) as server:
        answers = [exchange(server, "nonsense") for _ in range(3)]
        assert [answer.status for answer in answers] == [401, 401, 429]
        assert 1 <= int(answers[2].headers["retry-after"]) <= 60
        assert answers[2].problem["code"] == "HF-SRV-17"


def _later(monkeypatch: pytest.MonkeyPatch, server: MadeServer, seconds: float) -> None:
    now: Callable[[], float] = server.parts.federation._now
    monkeypatch.setattr(server.parts.federation, "_now", lambda: now() + seconds)


def test_another_signature_of_the_same_token_is_the_same_token(
    server: MadeServer, issuer: MadeIssuer
) -> None:
    """Of an ECDSA signature (r, s), (r, n - s) is one too."""
    issuer.rotate()
    token = issuer.token(jti=None)
    signed, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    other = raw[:32] + (order - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")
    twin = f"{signed}.{base64.urlsafe_b64encode(other).decode().rstrip('=')}"
    assert exchange(server, token).status == 201
    assert "exchanged before" in exchange(server, twin).problem["message"]
