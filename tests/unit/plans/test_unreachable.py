from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Failed, Problem
from holdfast.plans.unreachable import (
    HostUnreachable,
    UnreachableHosts,
    missing_addresses,
    required_addresses,
    unreachable_host,
)
from holdfast.terraform.engine.interface import Product

REFUSED = (
    "Failed to query available provider packages: Could not retrieve the list of available versions for "
    "provider r.example:8443/a/x: could not connect to r.example:8443: failed to request discovery document: "
    "GET https://r.example:8443/.well-known/terraform.json giving up after 4 attempt(s): "
    'Get "https://r.example:8443/.well-known/terraform.json": dial tcp: connect: connection refused'
)


def problem(message: str) -> Problem:
    return Problem(code="HF-TF-1", message=message)


def fail(hosts: UnreachableHosts, stack: str, message: str, environment: Mapping[str, str]) -> None:
    with contextlib.suppress(Failed), hosts.watch(stack, environment):
        raise Failed("HF-TF-1", message)


@pytest.mark.parametrize(
    ("message", "host"),
    [
        (REFUSED, "r.example:8443"),
        (
            'Get "https://releases.example/x.zip": dial tcp: lookup releases.example: no such host',
            "releases.example",
        ),
        ('Get "https://r.example/v1": net/http: TLS handshake timeout', "r.example"),
        ("could not connect to r.example: the certificate is not trusted", None),
        ('Get "https://r.example/v1": 404 Not Found', None),
        ("connection refused", None),
    ],
)
def test_only_network_errors_name_an_unreachable_host(message: str, host: str | None) -> None:
    """A host that answers is reachable, whatever it says."""
    assert unreachable_host([problem(message)]) == host


@pytest.mark.parametrize(
    ("product", "host"),
    [(Product.TERRAFORM, "registry.terraform.io"), (Product.TOFU, "registry.opentofu.org")],
)
def test_each_engine_has_its_own_registry(tmp_path: Path, product: Product, host: str) -> None:
    """A source without a host is in the registry of the engine that runs the stack."""
    (tmp_path / "main.tf").write_text(
        """
        terraform {
          required_providers {
            a = { source = "acme/a" }
            b = { source = "r.example/acme/b" }
          }
        }
        """
    )
    addresses = required_addresses([Code(tmp_path).module(".")], product)
    assert list(addresses) == [f"{host}/acme/a", "r.example/acme/b"]


def test_a_lock_file_of_terraform_says_nothing_about_the_registry_of_opentofu() -> None:
    """What is locked and in the mirror is not missing; OpenTofu asks its own registry for the rest."""
    terraform, tofu, other = "registry.terraform.io/a/x", "registry.opentofu.org/a/x", "r.example/a/y"
    linked = {terraform: False, other: True}
    assert missing_addresses({terraform}, linked, Product.TERRAFORM) == {terraform}
    assert missing_addresses({tofu}, linked, Product.TOFU) == {tofu}
    assert missing_addresses({tofu, terraform}, linked, Product.TOFU) == {tofu, terraform}
    assert missing_addresses({other}, {other: True}, Product.TOFU) == set()


def test_the_first_failure_decides_for_the_others() -> None:
    """But only for the same host by the same way, and one failure never for stacks that need another host."""
    hosts = UnreachableHosts()
    hosts.require_reachable("before", ["r.example:8443"], {})
    with hosts.watch("first", {}) as attempts:
        assert attempts((problem(REFUSED),)) == 1
        assert attempts((problem("connection reset by peer"),)) is None
    fail(hosts, "first", REFUSED, {})
    with pytest.raises(HostUnreachable, match="see first"):
        hosts.require_reachable("second", ["other.example", "r.example:8443"], {})
    hosts.require_reachable("third", ["other.example"], {})
    hosts.require_reachable("fourth", ["r.example:8443"], {"HTTPS_PROXY": "http://proxy"})
    with hosts.watch("fifth", {}) as attempts:
        assert attempts((problem(REFUSED),)) == 0
    assert list(hosts.summaries()) == [
        "r.example:8443 cannot be reached; 2 stacks failed for this reason: first, second"
    ]
