"""A port accepts connections."""

from __future__ import annotations

import asyncio

from holdfast.config.gates import TcpGate
from holdfast.gates.interface import Met, NotMet, Observation, Tools
from holdfast.system.endpoints import EndpointError, open_port


class Tcp:
    def __init__(self, settings: TcpGate, tools: Tools) -> None:
        del tools
        self._settings = settings

    async def observe(self, seconds: float) -> Observation:
        host, port = self._settings.host, self._settings.port
        where = f"{host}:{port}"
        try:
            address = await asyncio.to_thread(open_port, host, port, seconds)
        except EndpointError as error:
            step = f"Check that the name has an address: the resource behind {host} may not exist yet."
            unknown = str(error) == "unknown host"
            return NotMet(
                text=f"{where}: {error}",
                next_step=step
                if unknown
                else f"Check what listens on port {port}, and the firewalls before it.",
            )
        return Met(text=f"{where} accepts connections{f' ({address})' if address != host else ''}")
