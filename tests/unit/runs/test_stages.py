from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runs.stages import NAMES, Stage, StageStatus, is_complete, resumed

STATUSES = st.lists(st.sampled_from(list(StageStatus)), min_size=len(NAMES), max_size=len(NAMES))


@given(STATUSES)
def test_a_deploy_continues_at_the_first_stage_that_is_not_over(statuses: list[StageStatus]) -> None:
    """Nothing after a stage that failed counts, whatever its status; nothing that is over is repeated."""
    stages = tuple(Stage(name=name, status=status) for name, status in zip(NAMES, statuses, strict=True))
    again = resumed(stages)
    over = next((n for n, status in enumerate(statuses) if not status.is_over), len(NAMES))
    assert again[:over] == stages[:over]
    assert all(stage.status is StageStatus.PENDING for stage in again[over:])
    assert [stage.name for stage in again] == list(NAMES)
    assert is_complete(again) == is_complete(stages) == (over == len(NAMES))
