"""The stages of a deploy on a console."""

from __future__ import annotations

from holdfast.cli.console import Console
from holdfast.runs.run import Run
from holdfast.runs.stages import Stage, StageStatus, is_complete

_MARKS = {
    StageStatus.DONE: ("  ✓ ", "green"),
    StageStatus.SKIPPED: ("  - ", "dim"),
    StageStatus.FAILED: ("  ✗ ", "bold red"),
    StageStatus.RUNNING: ("  … ", "bold yellow"),
    StageStatus.PENDING: ("    ", "dim"),
}
_WIDTH = 10


def show_deploy(console: Console, run: Run) -> None:
    console.line("")
    for stage in run.stages or ():
        show_stage(console, stage)
    if is_complete(run.stages or ()):
        console.say(f" {run.target} is deployed · holdfast runs show {run.id}")
    else:
        console.say(f" Fix it, then continue at this stage: holdfast deploy {run.target} --continue")


def show_stage(console: Console, stage: Stage) -> None:
    text = stage.summary or ("not begun" if stage.status is StageStatus.PENDING else "interrupted")
    console.line(_MARKS[stage.status], f"{stage.name:<{_WIDTH}}  ", text)
    for line in stage.details:
        console.line((f"      {'':<{_WIDTH}}{line}", "dim"))
