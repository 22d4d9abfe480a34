"""Stacks with a provider that takes long to start (the lab provider): with and without warm providers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench import Bench, Prepare, Work

COUNT = 40
CODE = """terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}

provider "lab" {
  directory = "OBJECTS"
}

resource "lab_object" "it" {
  count = 3
  name  = "it-${count.index}"
}
"""
RAW = "terraform init -input=false -no-color && terraform apply -input=false -no-color -auto-approve"


def against_cold(bench: Bench) -> tuple[float, float]:
    """Seconds of `holdfast apply` with warm providers, and without."""
    with _lab(bench):
        return bench.side_by_side(lambda: _holdfast(bench, warm=True), lambda: _holdfast(bench, warm=False))


def against_raw(bench: Bench) -> tuple[float, float]:
    """Seconds of `holdfast apply` with warm providers, and of plain Terraform, two stacks at a time."""

    def theirs() -> Work:
        folder = bench.fresh("raw", _stacks(warm=False))
        return lambda: bench.raw(folder, RAW)

    with _lab(bench):
        return bench.side_by_side(lambda: _holdfast(bench, warm=True), theirs)


def _holdfast(bench: Bench, *, warm: bool) -> Work:
    folder = bench.fresh("warm" if warm else "cold", _stacks(warm=warm))
    return lambda: bench.holdfast(folder, "apply", "--yes", "--quiet")


def _stacks(*, warm: bool) -> Prepare:
    def prepare(folder: Path) -> None:
        objects = folder / "objects"
        objects.mkdir()
        for number in range(COUNT):
            stack = folder / "stacks" / f"s{number:02}"
            stack.mkdir(parents=True)
            (stack / "main.tf").write_text(CODE.replace("OBJECTS", str(objects)))
        (folder / "holdfast.yaml").write_text(
            "version: 1\nenvironments: { dev: { match: [dev] } }\n"
            "stacks:\n"
            f'  - {{ folder: "stacks/{{name}}", environment: dev, warm_providers: {str(warm).lower()} }}\n'
            "engine: { use: embedded }\n"
        )

    return prepare


@contextlib.contextmanager
def _lab(bench: Bench) -> Iterator[None]:
    """With a mirror that has the lab provider only."""
    builder = Path(__file__).resolve().parent.parent / "labs/provider/mirror.py"
    mirror, before = bench.place / "lab", bench.environment
    subprocess.run([sys.executable, str(builder), str(mirror)], check=True, capture_output=True)
    bench.environment = {**before, "TF_CLI_CONFIG_FILE": str(mirror / "cli.tfrc")}
    try:
        yield
    finally:
        bench.environment = before
