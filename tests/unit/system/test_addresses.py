"""Which addresses an outgoing webhook can have."""

from __future__ import annotations

import pytest

from holdfast.system.addresses import AddressRules

LOOPBACK = AddressRules(("127.0.0.0/8",))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://hooks.example.com:8443/a/b?token=1",
        "https://1.1.1.1/x",
        "https://[2606:4700::1111]/x",
    ],
)
def test_addresses_that_are_accepted(url: str) -> None:
    assert AddressRules().url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "such as https://"),
        ("example.com/x", "such as https://"),
        ("ftp://example.com/x", "such as https://"),
        ("file:///etc/passwd", "such as https://"),
        ("http://example.com/x", "such as https://"),
        ("http://10.0.0.1/x", "such as https://"),
        ("https://", "such as https://"),
        ("https://example.com:0/", "such as https://"),
        ("https://example.com:port/", "not a valid address"),
        ("https://[::1/", "not a valid address"),
        ("https://me@example.com/", "a user"),
        ("https://me:hunter2@example.com/", "a user"),
        ("https://example.com/#part", "a fragment"),
        ("https://example.com/a b", "printable ASCII"),
        ("https://example.com/\n", "printable ASCII"),
        ("https://ex\u00e4mple.com/", "printable ASCII"),
        (f"https://example.com/{'x' * 1000}", "at most 1000"),
        ("https://127.0.0.1/", "internal address"),
        ("http://127.0.0.1/", "internal address"),
        ("http://localhost/", "internal address"),
        ("https://10.1.2.3/", "internal address"),
        ("https://169.254.169.254/latest/meta-data", "internal address"),
        ("https://[::ffff:10.1.2.3]/", "internal address"),
        ("https://[fe80::1]/", "internal address"),
    ],
)
def test_addresses_that_are_refused(url: str, problem: str) -> None:
    assert problem in (AddressRules().url_problem(url) or "")


def test_listed_addresses_are_accepted() -> None:
    """Without TLS only on this machine."""
    assert LOOPBACK.url_problem("http://127.0.0.1:8080/x") is None
    assert LOOPBACK.url_problem("http://localhost:8080/x") is None
    assert LOOPBACK.url_problem("https://10.0.0.1/x") is not None
    assert AddressRules(("10.0.0.0/8",)).url_problem("https://10.0.0.1/x") is None
    assert AddressRules(("10.0.0.0/8",)).url_problem("http://10.0.0.1/x") is not None
