"""Tokens of a GitHub App, in place of that of a person. Each is for one repository and lasts an hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from holdfast.kernel.secret import Secret
from holdfast.notify.hosts.client import HostClient, HostError, RetryLimits
from holdfast.notify.webhooks.interface import GithubApp, WebhookSettings
from holdfast.notify.webhooks.reading import read_time
from holdfast.system import clock
from holdfast.system.environment import Environment

_LIFETIME: Final = timedelta(minutes=9)
"""Of the token that the app signs; GitHub takes at most ten minutes."""
_CLOCKS: Final = timedelta(minutes=1)
"""By which our clock may be ahead of GitHub's."""
_EARLY: Final = timedelta(minutes=5)
"""Before its end, a token is replaced."""
_PERMISSIONS: Final = {"contents": "read", "metadata": "read", "pull_requests": "write", "statuses": "write"}


class InstallationTokens:
    """Each is used until shortly before its end."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, str], tuple[Secret, datetime]] = {}

    def of(self, settings: WebhookSettings, environment: Environment, limits: RetryLimits) -> Secret:
        """The token of the settings, or one of their app. May raise `HostError`."""
        app = settings.app
        if app is None:
            return Secret(settings.token)
        place = settings.api, settings.project, app.id, app.installation
        known = self._known.get(place)
        if known is None or known[1] - _EARLY <= clock.now():
            known = self._known[place] = _request(app, settings, environment, limits)
        return known[0]

    def forget(self) -> None:
        """After one was refused: it may have been revoked."""
        self._known.clear()


def require_key(pem: str) -> None:
    """ValueError: it is not the private key of an app."""
    from joserfc.errors import JoseError  # noqa: PLC0415 - few servers have an app
    from joserfc.jwk import RSAKey  # noqa: PLC0415 - the same

    try:
        private = RSAKey.import_key(pem).is_private
    except (JoseError, ValueError, TypeError):
        private = False
    if not private:
        raise ValueError("must be the private key of the app, in PEM")


def _request(
    app: GithubApp, settings: WebhookSettings, environment: Environment, limits: RetryLimits
) -> tuple[Secret, datetime]:
    """With no more rights than a webhook needs, whatever the app has."""
    headers = {"Accept": "application/vnd.github+json"}
    client = HostClient(
        settings.api, headers, ("Authorization", "Bearer ", _signed(app)), environment, limits
    )
    wanted = {"repositories": [settings.project.rpartition("/")[2]], "permissions": _PERMISSIONS}
    url = f"{settings.api}/app/installations/{app.installation}/access_tokens"
    match client.request("POST", url, wanted):
        case {"token": str(token), "expires_at": str(end)} if token:
            return Secret(token), read_time(end)
        case _:
            raise HostError(0, "the response has no token")


def _signed(app: GithubApp) -> Secret:
    from joserfc import jwt  # noqa: PLC0415 - few servers have an app
    from joserfc.jwk import RSAKey  # noqa: PLC0415 - the same

    now = clock.now()
    claims = {
        "iss": app.id,
        "iat": int((now - _CLOCKS).timestamp()),
        "exp": int((now + _LIFETIME - _CLOCKS).timestamp()),
    }
    return Secret(jwt.encode({"alg": "RS256"}, claims, RSAKey.import_key(app.private_key)))
