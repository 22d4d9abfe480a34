"""Outputs held against a contract."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.contract.comparison import Difference, OutputValue, compare
from holdfast.contract.comparison import DifferenceKind as Kind
from holdfast.contract.reading import built_in
from holdfast.contract.schema import Contract, Part, Type
from holdfast.hcl.reader import COMPUTED, UNKNOWN

CLIENT = {"azure_client_id": "00000000-0000-4000-8000-00000000abcd"}
ROLE = {"aws_role_arn": "arn:aws:iam::123456789012:role/dns"}
IDENTITIES = {"argocd": CLIENT, "dev": CLIENT, "staging": ROLE, "production": ROLE}
PLATFORM: dict[str, Any] = {
    "cluster_name": "acme-prod",
    "cluster_type": "azure",
    "kube_context": "acme-prod-admin",
    "cluster_gateway_public_address": "203.0.113.7",
    "env_gateway_public_addresses": {
        "dev": "203.0.113.8",
        "staging": "2001:db8::1",
        "prod": "gw.example.com",
    },
    "dns_challenge_identities": IDENTITIES,
    "secrets_source_uri": "https://acme.vault.azure.net/",
}


def platform(**changed: object) -> list[Difference]:
    given = {
        name: OutputValue(value=value) for name, value in {**PLATFORM, **changed}.items() if value is not ...
    }
    return list(compare(built_in("platform-v1"), given))


def one(part: Part, value: object, *, sensitive: bool = False) -> list[Difference]:
    contract = Contract(name="c", outputs={"a": part})
    return list(compare(contract, {"a": OutputValue(value=value, sensitive=sensitive)}))


def test_outputs_that_hold_it() -> None:
    """Of a cluster in a cloud, with an alias and one identity of each kind."""
    assert platform() == []


def test_a_local_cluster_needs_no_identities() -> None:
    """There is no zone to prove anything to; in a cloud there is."""
    assert platform(cluster_type="local", dns_challenge_identities=...) == []
    assert platform(cluster_type="local", dns_challenge_identities=None) == []
    missing = platform(dns_challenge_identities=...)
    assert [(found.kind, found.path) for found in missing] == [(Kind.MISSING, "dns_challenge_identities")]


def test_whether_something_is_wanted_may_not_be_known() -> None:
    """Then neither is said."""
    found = platform(cluster_type=UNKNOWN, dns_challenge_identities=...)
    assert [(one.kind, one.path) for one in found] == [
        (Kind.UNKNOWN, "cluster_type"),
        (Kind.UNKNOWN, "dns_challenge_identities"),
    ]


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        (
            {"cluster_name": ...},
            Kind.MISSING,
            "`cluster_name` is missing; expected a string (the name of the cluster)",
        ),
        (
            {"cluster_name": None},
            Kind.MISSING,
            "`cluster_name` is null; expected a string (the name of the cluster)",
        ),
        ({"cluster_name": 5}, Kind.WRONG, "`cluster_name` must be a string, but is a number (`5`)"),
        (
            {"cluster_name": ""},
            Kind.WRONG,
            "`cluster_name` must be a string, but is an empty string",
        ),
        (
            {"cluster_type": "gcp"},
            Kind.WRONG,
            "`cluster_type` must be one of `azure`, `aws`, `local`, but is a string (`gcp`)",
        ),
        (
            {"cluster_gateway_public_address": "9.1"},
            Kind.WRONG,
            "`cluster_gateway_public_address` must be an IP address or a host name, but is a string (`9.1`)",
        ),
        (
            {"env_gateway_public_addresses": ["a"]},
            Kind.WRONG,
            "`env_gateway_public_addresses` must be an object, but is a list",
        ),
        (
            {"env_gateway_public_addresses": {"dev": "a", "staging": "b"}},
            Kind.MISSING,
            "`env_gateway_public_addresses.prod` is missing; expected an IP address or a host name",
        ),
        (
            {"dns_challenge_identities": {**IDENTITIES, "dev": {"client": "x"}}},
            Kind.MISSING,
            "`dns_challenge_identities.dev` needs `azure_client_id` or `aws_role_arn`, but has `client`",
        ),
        (
            {"dns_challenge_identities": {**IDENTITIES, "prod": CLIENT}},
            Kind.WRONG,
            "`dns_challenge_identities` has both `prod` and `production`, and they differ",
        ),
        (
            {"secrets_source_uri": "acme"},
            Kind.WRONG,
            "`secrets_source_uri` must be a URI such as `https://a.example`, but is a string (`acme`)",
        ),
    ],
)
def test_a_difference_is_reported_in_full(changed: dict[str, Any], kind: Kind, message: str) -> None:
    """Which part, what is wanted, what there is."""
    assert [(found.kind, found.message) for found in platform(**changed)] == [(kind, message)]


RIGHT: dict[Type, list[object]] = {
    Type.ANY: ["a", 1, True, [], {}],
    Type.STRING: ["a", " a "],
    Type.NUMBER: [0, 1.5, -1],
    Type.BOOL: [True, False],
    Type.ADDRESS: ["192.0.2.1", "::1", "a", "a.b-c.example", "a.example.", "1a.example"],
    Type.IP: ["192.0.2.1", "2001:db8::1"],
    Type.HOSTNAME: ["localhost", "_acme.example.com"],
    Type.URI: ["https://a.example", "file:.env", "vault://a/b", "arn:aws:s3:::a"],
    Type.UUID: ["00000000-0000-4000-8000-00000000ABCD"],
    Type.ARN: ["arn:aws:iam::123456789012:role/a", "arn:aws-cn:s3:::bucket"],
    Type.LIST: [[], ["a"], ("a",)],
    Type.MAP: [{}, {"a": 1}],
    Type.OBJECT: [{}, {"a": 1}],
}
WRONG: dict[Type, list[object]] = {
    Type.ANY: [],
    Type.STRING: [1, True, [], {}, "", "  "],
    Type.NUMBER: ["1", True, []],
    Type.BOOL: ["true", 1, 0],
    Type.ADDRESS: [
        "1.2.3",
        "256.1.1.1",
        "a b",
        "https://a",
        "-a.example",
        "a..b",
        "a" * 64,
        1,
        "*.a.example",
    ],
    Type.IP: ["a.example", "192.0.2.0/24"],
    Type.HOSTNAME: ["192.0.2.1", "a_b.example/", ""],
    Type.URI: ["a", "//a", "a: b"],
    Type.UUID: ["0000", "00000000-0000-4000-8000-00000000abcg"],
    Type.ARN: ["arn:aws", "role/a"],
    Type.LIST: ["a", {}],
    Type.MAP: [[], "a"],
    Type.OBJECT: [[], "a"],
}


@pytest.mark.parametrize("type_", Type)
def test_each_type_takes_what_it_is_and_nothing_else(type_: Type) -> None:
    """Every type has rows in both tables."""
    assert [value for value in RIGHT[type_] if one(Part(type=type_), value)] == []
    assert [value for value in WRONG[type_] if not one(Part(type=type_), value)] == []


@pytest.mark.parametrize("value", [UNKNOWN, COMPUTED])
@pytest.mark.parametrize("type_", Type)
def test_what_is_not_known_is_neither_right_nor_wrong(type_: Type, value: object) -> None:
    """Of any type."""
    assert [found.kind for found in one(Part(type=type_), value)] == [Kind.UNKNOWN]


def test_the_other_parts_are_checked_next_to_an_unknown_one() -> None:
    """Only that part is not known."""
    part = Part(type=Type.OBJECT, keys={"b": Part(type=Type.STRING), "c": Part(type=Type.STRING)})
    assert [(found.kind, found.path) for found in one(part, {"b": UNKNOWN, "c": 5})] == [
        (Kind.UNKNOWN, "a.b"),
        (Kind.WRONG, "a.c"),
    ]


def test_two_names_of_one_thing_may_turn_out_to_be_the_same() -> None:
    """While one of them is not known nothing is said against them."""
    part = Part(type=Type.OBJECT, keys={"b": Part(type=Type.ANY, aliases=("c",))})
    assert one(part, {"b": 1, "c": 1}) == []
    assert Kind.WRONG not in [found.kind for found in one(part, {"b": [1], "c": [UNKNOWN]})]
    assert Kind.WRONG in [found.kind for found in one(part, {"b": 1, "c": 2})]


def test_each_item_of_a_list_or_map_is_checked() -> None:
    """And named by its place."""
    assert [found.path for found in one(Part(type=Type.LIST, items=Part(type=Type.IP)), ["::1", "x"])] == [
        "a[1]"
    ]
    assert [found.path for found in one(Part(type=Type.MAP, items=Part(type=Type.IP)), {"k": "x"})] == [
        "a[k]"
    ]


def test_what_is_not_required_may_be_missing_or_null_but_not_wrong() -> None:
    """Being there it has to be right."""
    part = Part(type=Type.IP, required=False)
    contract = Contract(name="c", outputs={"a": part})
    assert list(compare(contract, {})) == []
    assert one(part, None) == []
    assert [found.kind for found in one(part, "x")] == [Kind.WRONG]


def test_an_output_may_have_another_name() -> None:
    """The difference names the one that is there."""
    contract = Contract(name="c", outputs={"a": Part(type=Type.IP, aliases=("b",))})
    assert list(compare(contract, {"b": OutputValue(value="::1")})) == []
    assert [found.output for found in compare(contract, {"b": OutputValue(value="x")})] == ["b"]


def test_two_names_of_one_output_must_agree() -> None:
    """Who reads the one and who reads the other would not find the same."""
    contract = Contract(name="c", outputs={"a": Part(type=Type.STRING, aliases=("b", "c"))})
    given = {"a": OutputValue(value="x"), "b": OutputValue(value="x"), "c": OutputValue(value="y")}
    found = list(compare(contract, given))
    assert [(one.kind, one.output) for one in found] == [(Kind.WRONG, "c")]
    assert found[0].message == "`a` and `c` both exist, and they differ"
    assert list(compare(contract, {**given, "c": OutputValue(value=UNKNOWN)})) == []


def test_a_null_key_counts_as_missing() -> None:
    """Of several of which one is wanted."""
    found = platform(dns_challenge_identities={**IDENTITIES, "dev": {"aws_role_arn": None, "other": "x"}})
    assert [one.message.partition("but has ")[2] for one in found] == ["`other`"]


def test_no_value_of_a_sensitive_output_is_shown() -> None:
    """At any depth."""
    part = Part(type=Type.OBJECT, keys={"b": Part(type=Type.IP)})
    assert "hush" not in one(part, {"b": "hush hush"}, sensitive=True)[0].message
    assert "hush" in one(part, {"b": "hush hush"})[0].message


def test_a_long_value_is_cut_and_an_odd_one_is_not_shown() -> None:
    """A message stays one line."""
    assert len(one(Part(type=Type.IP), "x" * 5000)[0].message) < 200
    assert "\n" not in one(Part(type=Type.IP), "x\ny")[0].message
