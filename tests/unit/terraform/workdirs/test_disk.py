"""How much room a run needs before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.kernel.errors import Exit, Failed
from holdfast.terraform.workdirs.disk import FLOOR, fullest_disk, require_disk_space

HOME, STORE = Path("/home"), Path("/store")


@pytest.mark.parametrize("free", [{HOME: FLOOR, STORE: FLOOR}, {HOME: None, STORE: FLOOR}, {HOME: None}])
def test_enough_is_enough(free: dict[Path, int | None]) -> None:
    """The floor itself is enough, and a file system that does not tell is not held against anybody."""
    assert fullest_disk(free, free=free.__getitem__) is None
    require_disk_space(free, free=free.__getitem__)


def test_the_fullest_place_is_named() -> None:
    """Too little in one of the places stops the run and says where."""
    free = {HOME: FLOOR - 1, STORE: 5_000_000}
    with pytest.raises(Failed) as raised:
        require_disk_space(free, free=free.__getitem__)
    assert raised.value.problem.code == "HF-WORK-4"
    assert raised.value.exit is Exit.FAILED
    assert "5 MB" in raised.value.problem.message
    assert "/store" in raised.value.problem.message
    assert "holdfast clean" in str(raised.value.problem.hint)
