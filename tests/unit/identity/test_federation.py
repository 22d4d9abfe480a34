"""Tokens signed with real keys; the issuer's key set is read as over HTTP."""

from __future__ import annotations

import json

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from holdfast.identity.federation import Federation, FederationRule, Untrusted, without_ids
from holdfast.identity.roles import Role

ISSUER = "https://token.example"
NOW = 1_800_000_000.0
RULE = FederationRule(
    issuer=ISSUER,
    audience="holdfast",
    claims={"sub": "repo:acme/infra:*", "ref": "refs/heads/main"},
    states=("prod/*",),
)
KEY = RSAKey.generate_key(2048, {"kid": "one"})
CLAIMS: dict[str, object] = {
    "iss": ISSUER,
    "aud": "holdfast",
    "sub": "repo:acme/infra:environment:prod",
    "ref": "refs/heads/main",
    "iat": NOW - 5,
    "exp": NOW + 300,
    "jti": "id-1",
}


class Issuer:
    def __init__(self, *keys: RSAKey | ECKey) -> None:
        self.keys = keys
        self.reads = 0

    def read(self, _: str) -> bytes:
        self.reads += 1
        return json.dumps(KeySet(list(self.keys)).as_dict(private=False)).encode()


def signed(
    key: RSAKey | ECKey | OctKey = KEY, *, algorithm: str = "RS256", without: str = "", **changed: object
) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changed}.items() if name != without}
    return jwt.encode({"alg": algorithm, "kid": key.kid}, claims, key, algorithms=[algorithm])


def federation(issuer: Issuer | None = None, *rules: FederationRule) -> Federation:
    return Federation(rules or (RULE,), (issuer or Issuer(KEY)).read, now=lambda: NOW)


def test_a_matching_token_gets_the_role_of_its_rule() -> None:
    federated = federation().verify(signed())
    assert federated.principal.role is Role.CI
    assert federated.principal.name == CLAIMS["sub"]
    assert federated.principal.states == ("prod/*",)
    assert federated.principal.claims["ref"] == "refs/heads/main"
    assert federated.replay_id == "id-1"


def test_both_formats_of_a_subject_match_one_rule() -> None:
    with_ids = "repo:acme@12/infra@34:environment:prod"
    assert without_ids(with_ids) == CLAIMS["sub"]
    assert federation().verify(signed(sub=with_ids)).principal.name == with_ids


def test_a_rule_with_ids_matches_only_these() -> None:
    rule = FederationRule(issuer=ISSUER, audience="holdfast", claims={"sub": "repo:acme@12/infra@34:*"})
    federation(None, rule).verify(signed(sub="repo:acme@12/infra@34:ref:x"))
    for other in ("repo:acme@99/infra@34:ref:x", "repo:acme/infra:ref:x"):
        with pytest.raises(Untrusted, match="no rule"):
            federation(None, rule).verify(signed(sub=other))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"iss": "https://other.example"}, "issuer is not trusted"),
        ({"aud": "sts.amazonaws.com"}, "no rule"),
        ({"sub": "repo:evil/infra:environment:prod"}, "no rule"),
        ({"sub": "repo:acme/infra-evil:environment:prod"}, "no rule"),
        ({"sub": "repo:acme@1/infra-evil@2:environment:prod"}, "no rule"),
        ({"ref": "refs/heads/feature"}, "no rule"),
        ({"ref": True}, "no rule"),
        ({"exp": NOW - 61}, "expired"),
        ({"iat": NOW + 61}, "not valid yet"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"exp": NOW + 100_000}, "more than a day"),
        ({"without": "exp"}, "when it was issued"),
        ({"without": "ref"}, "no rule"),
    ],
)
def test_any_other_token_is_refused(changed: dict[str, object], why: str) -> None:
    with pytest.raises(Untrusted, match=why):
        federation().verify(signed(**changed))  # type: ignore[arg-type]


def test_clocks_may_differ_by_a_minute() -> None:
    federation().verify(signed(exp=NOW - 59))
    federation().verify(signed(iat=NOW + 59))


def test_a_foreign_signature_is_refused() -> None:
    forged = signed(RSAKey.generate_key(2048, {"kid": "one"}))
    with pytest.raises(Untrusted, match="signature"):
        federation().verify(forged)


def test_a_changed_token_is_refused() -> None:
    head, payload, signature = signed().split(".")
    with pytest.raises(Untrusted):
        federation().verify(f"{head}.{payload[:-2]}AA.{signature}")


def test_what_the_issuer_publishes_cannot_sign() -> None:
    secret = OctKey.import_key(str(KEY.as_dict(private=False)["n"]), {"kid": "one"})
    with pytest.raises(Untrusted, match="signature"):
        federation().verify(signed(secret, algorithm="HS256"))


def test_a_token_without_a_signature_is_refused() -> None:
    payload = signed().split(".")[1]
    with pytest.raises(Untrusted):
        federation().verify(f"eyJhbGciOiJub25lIn0.{payload}.")


def test_a_rotated_key_works_at_once_and_unknown_ones_do_not_flood_the_issuer() -> None:
    issuer, clock = Issuer(KEY), [NOW]
    tested = Federation((RULE,), issuer.read, now=lambda: clock[0])
    tested.verify(signed())
    new = ECKey.generate_key("P-256", {"kid": "two"})
    issuer.keys = (KEY, new)
    clock[0] += 11
    tested.verify(signed(new, algorithm="ES256"))
    assert issuer.reads == 2
    unknown = RSAKey.generate_key(2048, {"kid": "three"})
    for _ in range(5):
        with pytest.raises(Untrusted):
            tested.verify(signed(unknown))
    assert issuer.reads == 2


def test_a_rule_without_claims_matches_nothing() -> None:
    rule = FederationRule(issuer=ISSUER, audience="holdfast", claims={})
    with pytest.raises(Untrusted, match="no rule"):
        federation(None, rule).verify(signed())


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "a." * 9000])
def test_other_texts_are_no_tokens(text: str) -> None:
    with pytest.raises(Untrusted):
        federation().verify(text)
