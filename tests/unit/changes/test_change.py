from __future__ import annotations

import asyncio

import pytest

from holdfast.changes.change import all_of


def test_one_that_breaks_does_not_end_the_others() -> None:
    """Nothing is taken from under a running Terraform because another stack met something unforeseen."""
    done: list[str] = []

    async def breaks() -> None:
        raise ZeroDivisionError

    async def goes_on(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        done.append("the other")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(all_of([breaks(), goes_on(20)]))
    assert done == ["the other"]
