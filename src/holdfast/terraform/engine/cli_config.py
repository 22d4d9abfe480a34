"""Terraform's CLI configuration: the user's own, plus the mirror that holdfast.yaml names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from holdfast.hcl.reader import read
from holdfast.kernel.errors import UsageError


def with_mirror(own: str, mirror: Path, addresses: Iterable[str]) -> str:
    """The user's text, and a block that installs these providers from the mirror and others as usual."""
    if any(True for _ in read(own, "terraform.rc").body.blocks_of("provider_installation")):
        raise UsageError(
            "HF-ENG-7",
            "engine.mirror and the Terraform CLI configuration both configure provider installation",
            hint="Remove one of them: `engine.mirror`, or the provider_installation block.",
        )
    listed = json.dumps(sorted(addresses))
    return (
        f"{own.rstrip()}\n\n"
        "provider_installation {\n"
        f"  filesystem_mirror {{\n    path    = {json.dumps(str(mirror))}\n    include = {listed}\n  }}\n"
        f"  direct {{\n    exclude = {listed}\n  }}\n"
        "}\n"
    )


def addresses_in(mirror: Path) -> tuple[str, ...]:
    """`host/namespace/type` of every provider in a filesystem mirror, packed or not."""
    return tuple(
        sorted(
            path.relative_to(mirror).as_posix()
            for path in mirror.glob("*/*/*")
            if path.is_dir() and any(path.iterdir())
        )
    )


def user_file(variables: dict[str, str], *, tofu: bool) -> Path | None:
    """The user's own configuration file, found as Terraform and OpenTofu find it."""
    if named := variables.get("TF_CLI_CONFIG_FILE") or variables.get("TERRAFORM_CONFIG"):
        return Path(named)
    home = Path(variables.get("HOME", "/"))
    names = (".tofurc", ".terraformrc") if tofu else (".terraformrc",)
    return next((home / name for name in names if (home / name).is_file()), None)
