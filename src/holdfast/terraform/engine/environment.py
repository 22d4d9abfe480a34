"""The environment of a Terraform process: an allow-list, plus what the stack's configuration names.

And its CLI configuration: the user's own, plus the mirror that holdfast.yaml names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.kernel.errors import UsageError
from holdfast.system import files

ALWAYS: frozenset[str] = frozenset(
    {
        # where programs and the user's files are
        "PATH", "HOME", "USER", "LOGNAME",
        # locale
        "LANG", "LANGUAGE", "TZ",
        # proxies
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
        "http_proxy", "https_proxy", "no_proxy", "all_proxy",
        # certificate authorities
        "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        # SSH agent, for modules from Git
        "SSH_AUTH_SOCK", "SSH_AGENT_PID",
        # the user's own Terraform CLI configuration: mirrors and registries
        "TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG",
    }
)  # fmt: skip
ALWAYS_PREFIXES: tuple[str, ...] = ("LC_",)

INHERITED_PREFIXES: tuple[str, ...] = (
    "AWS_", "ARM_", "AZURE_", "GOOGLE_", "KUBE", "TF_VAR_", "TF_TOKEN_",
)  # fmt: skip
"""What a stack without credentials of its own inherits from the caller."""

FIXED: Mapping[str, str] = {
    "TF_IN_AUTOMATION": "1",
    "TF_INPUT": "0",
    "CHECKPOINT_DISABLE": "1",
}


def child_environment(
    *,
    caller: Mapping[str, str],
    named: Mapping[str, str],
    credentials: Mapping[str, str] | None,
    scratch: str,
) -> dict[str, str]:
    """The whole environment of an engine process.

    `named` is the stack's own `env`; `credentials` are the variables of its private identity, or None for a
    stack that uses the caller's. The variables that Holdfast fixes cannot be overridden.
    """
    child = {
        name: value
        for name, value in caller.items()
        if name in ALWAYS
        or name.startswith(ALWAYS_PREFIXES)
        or (credentials is None and name.startswith(INHERITED_PREFIXES))
    }
    child.update(credentials or {})
    child.update(named)
    child.update(FIXED)
    child["TMPDIR"] = scratch
    return child


def terraform_variables(environment: Mapping[str, str]) -> frozenset[str]:
    """Names of the input variables that the environment sets."""
    return frozenset(name.removeprefix("TF_VAR_") for name in environment if name.startswith("TF_VAR_"))


# The CLI configuration


def with_mirror(own: str, mirror: Path, addresses: Iterable[str]) -> str:
    """The user's text, and a block that installs these providers from the mirror and others as usual."""
    from holdfast.hcl.reader import read  # noqa: PLC0415 - the supervisor loads this module and reads no HCL

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


def mirrored_providers(mirror: Path) -> tuple[str, ...]:
    """`host/namespace/type` of every provider in a filesystem mirror, packed or not."""
    return tuple(
        sorted(
            path.relative_to(mirror).as_posix()
            for path in mirror.glob("*/*/*")
            if path.is_dir() and any(path.iterdir())
        )
    )


def cli_config(variables: Mapping[str, str]) -> str:
    """The text of all configuration that Terraform and OpenTofu read with these variables, as it is now."""
    if named := variables.get("TF_CLI_CONFIG_FILE") or variables.get("TERRAFORM_CONFIG"):
        places = [Path(named)]
    else:
        home = Path(variables.get("HOME", "/"))
        folders = (home / ".terraform.d", home / ".config/opentofu")
        places = [home / ".terraformrc", home / ".tofurc", home / ".config/opentofu/tofurc"]
        places += [path for folder in folders for path in _config_files(folder)]
    contents = (files.content_of(place) for place in places)
    return "\n".join(content.decode(errors="replace") for content in contents if content is not None)


def _config_files(folder: Path) -> list[Path]:
    """Strings, because this runs several times for every run, and most users have no such folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as above
    except OSError:
        return []
    return [folder / name for name in sorted(names) if ".tfrc" in name]


def user_config_file(variables: dict[str, str], *, tofu: bool) -> Path | None:
    """The user's own configuration file, found as Terraform and OpenTofu find it."""
    if named := variables.get("TF_CLI_CONFIG_FILE") or variables.get("TERRAFORM_CONFIG"):
        return Path(named)
    home = Path(variables.get("HOME", "/"))
    names = (".tofurc", ".terraformrc") if tofu else (".terraformrc",)
    return next((home / name for name in names if (home / name).is_file()), None)
