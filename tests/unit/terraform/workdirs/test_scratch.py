"""Where scratch folders are made."""

from __future__ import annotations

from pathlib import Path

from holdfast.terraform.workdirs.scratch import temporary_root


def test_a_long_temporary_directory_is_left_for_a_short_one() -> None:
    """A socket's path has no more than 107 characters, and a provider's must fit."""
    long = Path("/") / "/".join(["a-folder-with-a-long-name"] * 4)
    assert len(str(temporary_root(long))) < 20


def test_a_short_one_is_used_as_it_is() -> None:
    """Whoever names a place has a reason."""
    assert temporary_root(Path("/scratch/of/mine")) == Path("/scratch/of/mine")
