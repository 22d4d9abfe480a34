from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.read import parse
from holdfast.config.settings import Config
from holdfast.kernel.errors import ConfigError


def said(text: str) -> Config:
    root = Path("/repo")
    return parse(f"version: 1\n{text}", file="holdfast.yaml", root=root, path=root / "holdfast.yaml")


def test_a_second_place_is_read() -> None:
    """Without the key there is none."""
    assert said("audit: { s3: 's3://acme-audit/infra' }").audit_s3 == "s3://acme-audit/infra"
    assert said("").audit_s3 is None


@pytest.mark.parametrize("place", [".audit", "https://acme/audit", "s3://", "file:///audit"])
def test_a_second_place_is_in_s3(place: str) -> None:
    """A folder beside the store would go with the same hands."""
    with pytest.raises(ConfigError) as caught:
        said(f"audit: {{ s3: '{place}' }}")
    assert caught.value.problem.code == "HF-CONF-16"
