"""A provider that acts as `catonetworks/cato` where IPsec sites and BGP peers are concerned.

The real one has some eighty more resources; a configuration that uses another fails at `validate`.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from tf import iface
from tf.schema import Attribute, Schema
from tf.types import Number, String, Unknown

from sdwan.cato_client import CatoClient, CatoError, Retries
from sdwan.cato_peer import BgpPeer
from sdwan.cato_site import IpsecSite

State = dict[str, Any]

_RETRIES = {"retry_max": 5, "retry_wait_min_seconds": 1, "retry_wait_max_seconds": 30}


class CatoProvider(iface.Provider):  # type: ignore[misc]  # the package has no types
    def __init__(self, version: str) -> None:
        self._version = version
        self._client: CatoClient | None = None

    @property
    def client(self) -> CatoClient:
        if self._client is None:
            raise CatoError("The provider is not configured")
        return self._client

    def get_model_prefix(self) -> str:
        return "cato_"

    def full_name(self) -> str:
        return "registry.terraform.io/catonetworks/cato"

    def get_provider_schema(self, diags: Any) -> Schema:  # noqa: ARG002 (the package's signature)
        return Schema(
            attributes=[
                Attribute("account_id", String(), required=True, description="The account."),
                Attribute("baseurl", String(), optional=True, description="Or CATO_BASEURL."),
                Attribute("token", String(), optional=True, sensitive=True, description="Or CATO_TOKEN."),
                *(Attribute(name, Number(), optional=True) for name in _RETRIES),
            ]
        )

    def validate_config(self, diags: Any, config: State) -> None:
        """Everything is checked when the provider is configured."""

    def configure_provider(self, diags: Any, config: State) -> None:
        for name, value in config.items():
            if value is Unknown:
                diags.add_error(
                    f"Unknown Cato API {name}", "Its value is known only after apply.", path=[name]
                )
        baseurl, token = _given(config, "baseurl"), _given(config, "token")
        for name, value in (("baseurl", baseurl), ("token", token)):
            if not value:
                text = f"Set it in the provider block, or CATO_{name.upper()} in the environment."
                diags.add_error(f"Missing Cato API {name}", text, path=[name])
        if diags.has_errors():
            return
        attempts, shortest, longest = (
            int(_given(config, name, default)) for name, default in _RETRIES.items()
        )
        retries = Retries(attempts=attempts, wait_min=shortest, wait_max=longest)
        account = str(config["account_id"])
        self._client = CatoClient(str(baseurl), str(token), account, version=self._version, retries=retries)
        self._discard_drafts(self._client)

    def get_data_sources(self) -> list[type[iface.DataSource]]:
        return []

    def get_resources(self) -> list[type[iface.Resource]]:
        return [IpsecSite, BgpPeer]

    @staticmethod
    def _discard_drafts(client: CatoClient) -> None:
        """A mutation at every start, even of a plan; its errors do not matter to the real provider either."""
        if os.environ.get("DISABLE_POLICY_RULE_CLEANUP") == "true":
            return
        with contextlib.suppress(CatoError):
            client.call("policyPrivateAccessDiscardRevision", accountID=client.account)


def _given(config: State, name: str, default: Any = None) -> Any:
    value = config.get(name)
    return os.environ.get(f"CATO_{name.upper()}", default) if value is None else value
