from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from holdfast.audit.actor import GITHUB_ACTIONS, Actor
from holdfast.audit.proof import Claims, Unverified, check_run, check_token, repositories, with_claims

NOW = datetime(2026, 7, 25, 10, tzinfo=UTC)
ISSUER = "https://tokens.example"
GOOD = {
    "iss": ISSUER,
    "aud": "holdfast",
    "exp": NOW.timestamp() + 300,
    "nbf": NOW.timestamp(),
    "actor": "ada",
}
JOB = Actor(
    kind=GITHUB_ACTIONS,
    name="mallory",
    host="runner",
    verified=False,
    because="",
    claims={"actor": "mallory", "job": "apply"},
)


@cache
def key(which: int) -> rsa.RSAPrivateKey:
    del which
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return text(value.to_bytes((value.bit_length() + 7) // 8))


def keys() -> bytes:
    numbers = key(0).public_key().public_numbers()
    listed = [{"kid": "k1", "kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}]
    return json.dumps({"keys": listed}).encode()


def token(claims: object = None, *, kid: str = "k1", alg: str = "RS256", by: int = 0) -> str:
    header = text(json.dumps({"alg": alg, "kid": kid}).encode())
    content = f"{header}.{text(json.dumps(GOOD if claims is None else claims).encode())}"
    return f"{content}.{text(key(by).sign(content.encode(), padding.PKCS1v15(), SHA256()))}"


def asked(one: str) -> Claims | Unverified:
    return check_token(one, keys(), issuer=ISSUER, audience="holdfast", now=NOW)


def test_a_signed_token_proves_what_it_says() -> None:
    """And only that: what the variables of the job said besides is not mixed in."""
    found = asked(token())
    assert not isinstance(found, Unverified)
    who = with_claims(JOB, found, issuer=ISSUER)
    assert (who.verified, who.name, who.claims) == (True, "ada", {"actor": "ada"})
    assert ISSUER in who.because


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (lambda: token(by=1), "signature"),
        (lambda: token(kid="k2"), "key"),
        (lambda: token(alg="none"), "algorithm none"),
        (lambda: token(alg="HS256"), "unsupported signature"),
        (lambda: token({**GOOD, "iss": "https://other.example"}), "issuer"),
        (lambda: token({**GOOD, "aud": "somebody"}), "a different audience"),
        (lambda: token({**GOOD, "exp": NOW.timestamp() - 120}), "expired"),
        (lambda: token({name: value for name, value in GOOD.items() if name != "exp"}), "expired"),
        (lambda: token({**GOOD, "exp": float("nan")}), "expired"),
        (lambda: token({**GOOD, "nbf": NOW.timestamp() + 120}), "not valid yet"),
        (lambda: token([]), "not valid"),
        (lambda: "a.b", "not valid"),
        (lambda: "", "not valid"),
        (lambda: f"{token().rpartition('.')[0]}.", "signature"),
        (lambda: "é.é.é", "not valid"),
    ],
)
def test_what_is_wrong_with_a_token_leaves_it_unproved(one: object, why: str) -> None:
    """Another key, another issuer, another audience, too old, too young, no signature, nonsense."""
    assert callable(one)
    found = asked(one())
    assert isinstance(found, Unverified)
    assert why in found.why
    who = with_claims(JOB, found, issuer=ISSUER)
    assert (who.verified, who.name) == (False, "mallory")
    assert found.why in who.because


def test_a_claim_that_was_changed_is_not_believed() -> None:
    """The signature is over every byte of it."""
    header, _, signature = token().split(".")
    forged = text(json.dumps({**GOOD, "actor": "mallory"}).encode())
    assert isinstance(asked(f"{header}.{forged}.{signature}"), Unverified)


def test_a_set_of_keys_that_cannot_be_read_proves_nothing() -> None:
    """Whatever stands at the issuer's address."""
    for nonsense in (
        b"",
        b"[]",
        b'{"keys": 7}',
        b'{"keys": [7]}',
        b'{"keys": [{"kid": "k1", "kty": "RSA"}]}',
    ):
        found = check_token(token(), nonsense, issuer=ISSUER, audience="holdfast", now=NOW)
        assert isinstance(found, Unverified)


RUN = {"repository": "acme/infra", "run_id": "77", "run_attempt": "1"}


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"repository": "mallory/infra"}, "for the repository mallory/infra, not acme/infra"),
        ({"repository": None}, "for the repository"),
        ({"run_id": "78"}, "run_id differs"),
        ({"run_id": None}, "run_id differs"),
        ({"run_attempt": "2"}, "run_attempt differs"),
    ],
)
def test_a_token_of_another_repository_or_run_proves_nothing(claims: dict[str, str], why: str) -> None:
    """Even if GitHub signed it, and whatever the variables of the job repeat."""
    checked = check_run({**RUN, "actor": "ada", **claims}, RUN, frozenset({"acme/infra"}))
    assert isinstance(checked, Unverified)
    assert why in checked.why
    if "repository" in claims:
        job = {**RUN, "repository": str(claims["repository"])}
        assert isinstance(check_run({**RUN, **claims}, job, frozenset({"acme/infra"})), Unverified)


def test_a_repeated_run_does_not_prove_who_repeated_it() -> None:
    """Its token still names who started the first attempt."""
    claims = {**RUN, "run_attempt": "2", "actor": "ada"}
    checked = check_run(claims, {**RUN, "run_attempt": "2"}, frozenset())
    assert isinstance(checked, Unverified)
    assert "started again" in checked.why


def test_a_token_of_this_repository_and_run_is_accepted() -> None:
    """Git remotes may differ from it in case; a remote elsewhere says nothing about GitHub."""
    for remotes in (["git@github.com:Acme/Infra.git"], ["https://git.acme.example/infra"], []):
        assert check_run({**RUN, "actor": "ada"}, RUN, repositories(remotes)) == {**RUN, "actor": "ada"}


@pytest.mark.parametrize(
    ("remote", "repository"),
    [
        ("https://github.com/acme/infra", "acme/infra"),
        ("https://github.com/acme/infra.git/", "acme/infra"),
        ("https://x-access-token:abc@github.com/acme/infra.git", "acme/infra"),
        ("git@github.com:acme/infra.js.git", "acme/infra.js"),
        ("ssh://git@github.com:22/acme/infra.git", "acme/infra"),
        ("https://github.com.evil.example/acme/infra", None),
        ("https://evil.example/github.com/acme/infra", None),
        ("/srv/git/github.com/acme/infra", None),
        ("https://github.com/acme", None),
    ],
)
def test_a_remote_names_its_repository_on_github(remote: str, repository: str | None) -> None:
    """Anything that is not clearly on GitHub names none."""
    assert repositories([remote]) == (frozenset({repository}) if repository else frozenset())
