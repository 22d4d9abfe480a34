"""Engines that stay loaded between changes: a second plan of a stack starts no process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from holdfast.changes.repository import Repository
from holdfast.plans.context import Engines, Project, open_engines
from holdfast.system import clock
from holdfast.terraform.workdirs.compartments import Compartments

IDLE_SECONDS: Final = 600.0


class _Warm:
    def __init__(self, engines: Engines) -> None:
        self.engines = engines
        self.changes = 0
        self.used = clock.monotonic()


class WarmEngines:
    """By tenant and the engine settings of the repository."""

    def __init__(self, scratch: Path, compartments: Compartments) -> None:
        self.scratch = scratch
        self._compartments = compartments
        self._warm: dict[tuple[str, bytes], _Warm] = {}

    @contextlib.contextmanager
    def engines(self, tenant: str, project: Project, repository: Repository) -> Iterator[Engines]:
        """For one change."""
        key = tenant, msgspec.json.encode(project.config.engine, order="deterministic")
        warm = self._warm.get(key)
        if warm is None:
            opened = open_engines(project, repository.store, repository.choose, self.scratch)
            warm = self._warm[key] = _Warm(opened)
        warm.changes += 1
        # Providers that stay could see the files of what runs beside them.
        stays = any(stack.warm_providers for stack in repository.stacks)
        device = next((stack.name for stack in repository.stacks if stack.device), "")
        owner = f"{tenant} {project.root}" if stays else ""
        try:
            with self._compartments.hold(f"{project.root} {device}", owner) as compartment:
                yield warm.engines.shared(repository.choose, compartment)
        finally:
            warm.changes -= 1
            warm.used = clock.monotonic()

    async def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        for key, warm in tuple(self._warm.items()):
            if not warm.changes and clock.monotonic() - warm.used >= seconds:
                del self._warm[key]
                await warm.engines.close()
            else:
                await warm.engines.end_expired()

    async def close(self) -> None:
        for warm in self._warm.values():
            await warm.engines.close()
        self._warm.clear()
