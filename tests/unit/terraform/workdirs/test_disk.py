"""How much free disk space a run needs before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.kernel.errors import Exit
from holdfast.terraform.workdirs.gc import MIN_FREE, too_little_space

HOME, STORE = Path("/home"), Path("/store")


@pytest.mark.parametrize(
    "free", [{HOME: MIN_FREE, STORE: MIN_FREE}, {HOME: None, STORE: MIN_FREE}, {HOME: None}]
)
def test_the_minimum_is_enough(free: dict[Path, int | None]) -> None:
    """A file system that does not report its free space does not stop a run."""
    assert too_little_space(free, free=free.__getitem__) is None


def test_the_fullest_disk_is_named() -> None:
    """Too little in one of the places stops the run and says where."""
    free = {HOME: MIN_FREE - 1, STORE: 5_000_000}
    error = too_little_space(free, free=free.__getitem__)
    assert error is not None
    assert error.problem.code == "HF-WORK-4"
    assert error.exit is Exit.FAILED
    assert "5 MB" in error.problem.message
    assert "/store" in error.problem.message
    assert "holdfast clean" in str(error.problem.hint)
