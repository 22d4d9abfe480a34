"""A certificate is trusted, for the expected name, and valid for long enough."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from holdfast.config.gates import TlsGate
from holdfast.config.shapes import duration_text
from holdfast.gates.interface import Evidence, Met, NotMet, Observation, Tools
from holdfast.system import clock
from holdfast.system.endpoints import EndpointError, PeerCertificate, peer_certificate

_MOST_NAMES = 5


class Tls:
    def __init__(self, settings: TlsGate, tools: Tools) -> None:
        self._settings = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        settings = self._settings
        ca_file = self._tools.root / settings.ca_file if settings.ca_file else None
        try:
            certificate = await asyncio.to_thread(
                peer_certificate,
                settings.address or settings.host,
                settings.port,
                settings.host,
                environment=self._tools.environment,
                seconds=seconds,
                ca_file=str(ca_file) if ca_file is not None else None,
            )
        except EndpointError as error:
            return NotMet(
                text=f"{settings.host}:{settings.port}: {error}",
                next_step=f"Check what listens on port {settings.port}.",
            )
        mistake = certificate_mistake(certificate, clock.now(), settings.valid_for)
        if mistake is None:
            left = duration_text((certificate.expires - clock.now()).total_seconds() // 3600 * 3600)
            return Met(text=f"{settings.host}: trusted, valid for {left}")
        shown = (
            f"names: {', '.join(certificate.names) or 'none'}\nissuer: {certificate.issuer}\n"
            f"expires: {certificate.expires.isoformat()}"
        )
        return NotMet(
            text=f"{settings.host}: {mistake}",
            evidence=(Evidence(title="certificate", text=shown),),
            next_step="Check the challenge of the issuer, and which certificate is configured for this name.",
        )


def certificate_mistake(certificate: PeerCertificate, now: datetime, valid_for: float) -> str | None:
    """Everything that is wrong with it, in one line. Pure."""
    chain = f"chain not trusted ({certificate.distrusted})" if certificate.distrusted else "chain valid"
    if not certificate.matches:
        names = ", ".join(certificate.names[:_MOST_NAMES]) or "no names"
        more = (
            ""
            if len(certificate.names) <= _MOST_NAMES
            else f" and {len(certificate.names) - _MOST_NAMES} more"
        )
        return f"{chain}, name does not match ({names}{more})"
    if certificate.distrusted:
        return chain
    if certificate.expires < now + timedelta(seconds=valid_for):
        return f"expires {certificate.expires:%Y-%m-%d %H:%M} UTC, in less than {duration_text(valid_for)}"
    return None
