from __future__ import annotations

import pytest

from holdfast.terraform.engine.warm_providers import plaintext_socket


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("1|6|unix|/tmp/x/plugin|grpc|", True),
        ("1|5|unix|/tmp/x/plugin|grpc", True),
        ("1|6|unix|/tmp/x/plugin|grpc||true", True),
        ("1|6|unix|/tmp/x/plugin|grpc|MIIBcert", False),
        ("1|6|tcp|127.0.0.1:1234|grpc|", False),
        ("1|4|unix|/tmp/x/plugin|netrpc|", False),
        ("This binary is a plugin.", False),
        ("", False),
    ],
)
def test_only_a_unix_socket_without_a_certificate_is_plain(line: str, *, plain: bool) -> None:
    """Anything else keeps plugin TLS as Terraform has it: switching it off on a guess is a crash."""
    assert (plaintext_socket(line) is not None) is plain
