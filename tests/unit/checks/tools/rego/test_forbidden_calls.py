"""What policies may not call, because a plan could leave the house by it."""

from __future__ import annotations

import json

import pytest

from holdfast.checks.tools.rego import forbidden_calls
from holdfast.checks.tools.rego.policies import PolicyFile


def policy(text: str) -> PolicyFile:
    return PolicyFile(path="policy/a.rego", text=f"package main\n{text}\n")


@pytest.mark.parametrize(
    "name",
    [
        *("http.send", "opa.runtime", "net.lookup_ip_addr", "json.match_schema", "json.verify_schema"),
        *("parse_config_file", "parse_combined_config_files"),
    ],
)
def test_a_forbidden_call_is_reported_with_its_place(name: str) -> None:
    """A person must know which line to mend."""
    said = forbidden_calls.find_forbidden_calls([policy(f"x := 1\ny := {name}({{}})")])
    assert said is not None
    assert said.endswith(f": `{name}` (policy/a.rego:3)")


@pytest.mark.parametrize(
    "text",
    ['x := "http.send"', "# http.send(x)", "x := input.http.send", "x := json.match_schemas", "x := 1"],
)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    """Texts, comments, and names that are part of others."""
    assert forbidden_calls.find_forbidden_calls([policy(text)]) is None


def test_what_opa_can_do_is_what_leads_nowhere() -> None:
    """Of functions that nobody has heard of yet, those that give another answer each time are left out."""
    names = ("count", "http.send", "time.now_ns", "uuid.rfc4122", "json.match_schema", "later.fetch")
    functions = [
        {"name": name, "nondeterministic": name not in ("count", "json.match_schema")} for name in names
    ]
    given = {"builtins": functions, "features": ["rego_v1"], "allow_net": ["example.com"]}
    left = json.loads(forbidden_calls.capabilities(json.dumps(given).encode()))
    assert [one["name"] for one in left["builtins"]] == ["count", "time.now_ns", "uuid.rfc4122"]
    assert (left["features"], left["allow_net"]) == (["rego_v1"], [])


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"builtins": []}', b'{"builtins": [{}]}', b"null"])
def test_an_opa_that_does_not_say_what_it_can_do_is_not_believed(text: bytes) -> None:
    """Without a limit it is not asked."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        forbidden_calls.capabilities(text)


def test_names_that_lead_out_are_found_among_all() -> None:
    """As an evaluator understands them, however they were written."""
    names = {"policy/a.rego": ["data.main.x", "http.send", "assign"], "policy/b.rego": ["input.http.send"]}
    assert list(forbidden_calls.forbidden_names(names)) == [("`http.send`", "policy/a.rego")]
