"""The environment of a Terraform process: an allow-list, plus what the stack's configuration names. Pure."""

from __future__ import annotations

from collections.abc import Mapping

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
