from __future__ import annotations

import pytest

from holdfast.secrets.sources.azure import cloud_from
from holdfast.system.environment import Environment


@pytest.mark.parametrize(
    ("authority", "vault"),
    [
        ("", "https://v.vault.azure.net"),
        ("https://login.microsoftonline.com/", "https://v.vault.azure.net"),
        ("login.microsoftonline.us", "https://v.vault.usgovcloudapi.net"),
        ("https://login.chinacloudapi.cn", "https://v.vault.azure.cn"),
    ],
)
def test_each_cloud_has_its_own_vaults(authority: str, vault: str) -> None:
    """The vault's host follows from where one signs in, and the token is for that cloud's vaults."""
    cloud = cloud_from(Environment(variables={"AZURE_AUTHORITY_HOST": authority}))
    assert cloud.vault("v") == vault
    assert vault.endswith(cloud.resource.removeprefix("https://"))
    assert cloud.authority.startswith("https://login.")


def test_the_environment_names_another_cloud() -> None:
    """Whoever starts Holdfast may name other addresses; a reference cannot."""
    cloud = cloud_from(Environment(variables={"HOLDFAST_AZURE_VAULT_URL": "https://{vault}.vault.example/"}))
    assert cloud.vault("v") == "https://v.vault.example"
