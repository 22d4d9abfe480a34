"""What a kind of gate is: a class that observes once. `attempts.py` decides when that is enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed
from holdfast.kernel.secret import Secret
from holdfast.kubernetes.client import KubernetesClient
from holdfast.system.environment import Environment
from holdfast.terraform.engine.interface import Stop


class Evidence(Struct, frozen=True, kw_only=True):
    """What helps to find the cause: a response, the last lines of a log, a resource without its secrets."""

    title: str
    text: str


class Met(Struct, frozen=True, kw_only=True):
    text: str
    """What was observed, in one line."""


class NotMet(Struct, frozen=True, kw_only=True):
    text: str
    evidence: tuple[Evidence, ...] = ()
    next_step: str | None = None


class NotObservable(Struct, frozen=True, kw_only=True):
    """It cannot be checked, now or later: waiting does not help. Never counts as met."""

    text: str
    next_step: str | None = None


Observation = Met | NotMet | NotObservable


def no_cluster() -> KubernetesClient:
    raise Failed("HF-KUBE-2", "the target has no cluster", hint="Add `kubernetes: { context: … }` to it.")


class Tools(Struct, frozen=True, kw_only=True):
    """What kinds use of the program that checks."""

    environment: Environment
    root: Path
    """The folder of `holdfast.yaml`."""
    read_secret: Callable[[SecretRef], Secret]
    confinement: Callable[[], int]
    """The rules for a program of the user."""
    variables: Mapping[str, str]
    """What a program of the user gets in its environment."""
    stop: Stop
    cluster: Callable[[], KubernetesClient] = no_cluster
    """The cluster of the target; raises HoldfastError if it cannot be known."""


class Probe(Protocol):
    async def observe(self, seconds: float) -> Observation:
        """Look once. It may take this long; no connection, file or process stays open afterwards."""
        ...
