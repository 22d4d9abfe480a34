"""The binary engine: a `terraform` or `tofu` program, started and watched by a process of ours.

That process is warm too, though Terraform is not: it keeps the journal and the state door, and it outlives
the one who asked.
"""

from __future__ import annotations

from holdfast.terraform.engine.pool import WorkerPool
from holdfast.terraform.engine.worker_client import CRASHED

__all__ = ["CRASHED", "BinaryEngine"]


class BinaryEngine(WorkerPool):
    """The same pool; its processes start Terraform anew for each command.

    A program that is just starting waits for the disk: one more than there are cores keeps them all at work.
    """

    _BESIDE_CORES = 1
