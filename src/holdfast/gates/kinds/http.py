"""A response has the expected status, headers, text and redirect."""

from __future__ import annotations

import asyncio
from urllib.parse import urljoin

from holdfast.config.gates import HttpGate
from holdfast.gates.interface import Evidence, Met, NotMet, NotObservable, Observation, Tools
from holdfast.kernel.text import without_controls
from holdfast.system.http import HttpError, Response, request

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_BYTES = 4 * 1024 * 1024
_SHOWN = 2000
_SCHEMES = ("https://", "http://")


class Http:
    def __init__(self, settings: HttpGate, tools: Tools) -> None:
        self._settings = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        settings = self._settings
        if not settings.url.startswith(_SCHEMES):
            return NotObservable(text=f"{settings.url}: the address does not start with https:// or http://")
        ca_file = self._tools.root / settings.ca_file if settings.ca_file else None
        try:
            response = await asyncio.to_thread(
                request,
                settings.method,
                settings.url,
                environment=self._tools.environment,
                seconds=seconds,
                max_bytes=_MOST_BYTES,
                ca_file=str(ca_file) if ca_file is not None else None,
                plain=True,
            )
        except HttpError as error:
            return NotMet(text=f"{settings.url}: {error.reason}", next_step=error.hint)
        mistake = response_mistake(settings, response)
        if mistake is None:
            return Met(text=f"{settings.url} responds with {response.status}")
        return NotMet(
            text=f"{settings.url}: {mistake}",
            evidence=(Evidence(title=f"last response, {response.status}", text=_excerpt(response)),),
            next_step="Check the logs of the service behind this address.",
        )


def response_mistake(settings: HttpGate, response: Response) -> str | None:
    """What is not as expected. Pure."""
    expected = settings.status or (_REDIRECTS if settings.redirect is not None else (200,))
    if response.status not in expected:
        return f"status {response.status} instead of {' or '.join(map(str, expected))}"
    if settings.redirect is not None:
        location = response.headers.get("location")
        if location is None:
            return f"status {response.status} without the address of a redirect"
        if urljoin(settings.url, location) != settings.redirect:
            return f"redirects to {location} instead of {settings.redirect}"
    for name, value in settings.headers.items():
        found = response.headers.get(name.lower())
        if found != value:
            is_ = "is missing" if found is None else f"is {found!r}"
            return f"the header {name} {is_} instead of {value!r}"
    body = response.body.decode(errors="replace")
    missing = next((text for text in settings.contains if text not in body), None)
    return f"the body does not contain {missing!r}" if missing is not None else None


def _excerpt(response: Response) -> str:
    return without_controls(response.body[:_SHOWN].decode(errors="replace")) or "(empty)"
