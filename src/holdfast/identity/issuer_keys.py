"""The public keys of an OIDC issuer, by discovery: over https, or http on loopback."""

from __future__ import annotations

from holdfast.kernel.text import json_object
from holdfast.system import http
from holdfast.system.environment import Environment

_SECONDS = 5.0
_OK = 200


def read_issuer_keys(issuer: str, environment: Environment) -> bytes:
    """The JSON Web Key Set. Raises OSError with the reason."""
    document = json_object(_read(f"{issuer.rstrip('/')}/.well-known/openid-configuration", environment))
    if document.get("issuer") != issuer:
        raise OSError(f"the discovery document of {issuer} names another issuer")
    address = document.get("jwks_uri")
    if not isinstance(address, str):
        raise OSError(f"the discovery document of {issuer} has no jwks_uri")
    return _read(address, environment)


def _read(url: str, environment: Environment) -> bytes:
    try:
        response = http.request("GET", url, environment=environment, seconds=_SECONDS)
    except http.HttpError as error:
        raise OSError(str(error)) from None
    if response.status != _OK:
        raise OSError(f"{url} answered with the status {response.status}")
    return response.body
