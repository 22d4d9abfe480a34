"""`hooks` of a stack: programs that run before and after Terraform's commands."""

from __future__ import annotations

from typing import Final

from holdfast.config.declarations import At, ListOf, Section, key
from holdfast.config.problems import Problems
from holdfast.config.shapes import FILLED, Choice, Duration, path_text

MOMENTS: Final = ("before_init", "after_init", "before_plan", "after_plan", "before_apply", "after_apply")


class Hook(Section, frozen=True, kw_only=True):
    when: str = key(
        Choice(MOMENTS), "When it runs: before or after `init`, `plan` or `apply`.", required=True
    )
    run: tuple[str, ...] = key(
        ListOf(FILLED), "The program and its arguments, as a list. There is no shell.", required=True
    )
    time_limit: float = key(Duration(1, 86400), "How long it may take.", default="10m")
    files: tuple[str, ...] = key(
        ListOf(path_text(fill=True)),
        "Globs of the files that it reads, relative to `holdfast.yaml`. They are copied into the work "
        "directory, and a change of one affects the stack.",
        default_doc="every file below the module",
    )

    @property
    def command(self) -> str:
        return " ".join(self.run)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if section.get("run") == ():
            problems.add(
                "HF-CONF-5",
                f"{section.where}.run is empty",
                place=section.value["run"].place,
                hint="Give the program and its arguments: run: [make, build]",
            )
