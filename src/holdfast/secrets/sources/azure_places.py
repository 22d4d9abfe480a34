"""Where Azure is: the addresses of sign-in, vaults and the machine's metadata service, by cloud. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.system.environment import Environment

_PUBLIC = "login.microsoftonline.com"
_SUFFIXES: Mapping[str, str] = {
    _PUBLIC: "vault.azure.net",
    "login.microsoftonline.us": "vault.usgovcloudapi.net",
    "login.chinacloudapi.cn": "vault.azure.cn",
    "login.partner.microsoftonline.cn": "vault.azure.cn",
}
_METADATA = "http://169.254.169.254"


class Cloud(NamedTuple):
    authority: str
    """Where one signs in: https:// and a host."""
    resource: str
    """What a token for vaults is asked for."""
    vaults: str
    """The address of a vault, with `{vault}` for its name."""
    metadata: str

    def vault(self, name: str) -> str:
        return self.vaults.replace("{vault}", name)


def cloud_of(environment: Environment) -> Cloud:
    """By AZURE_AUTHORITY_HOST; Azure's public cloud without. The reference names a vault, never a host.

    A token is good for every vault of a cloud, so where it is sent is for whoever starts Holdfast to say,
    and not for a file in the repository.
    """
    authority = (environment.get("AZURE_AUTHORITY_HOST") or f"https://{_PUBLIC}").rstrip("/")
    if "://" not in authority:
        authority = f"https://{authority}"
    host = authority.partition("://")[2].partition("/")[0]
    suffix = _SUFFIXES.get(host, _SUFFIXES[_PUBLIC])
    return Cloud(
        authority=authority,
        resource=f"https://{suffix}",
        vaults=(environment.get("HOLDFAST_AZURE_VAULT_URL") or f"https://{{vault}}.{suffix}").rstrip("/"),
        metadata=(environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _METADATA).rstrip("/"),
    )
