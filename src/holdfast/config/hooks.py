"""`hooks` and `generate` of a stack: programs that run beside Terraform, and files that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from holdfast.config.declarations import At, ListOf, Section, key
from holdfast.config.problems import Problems
from holdfast.config.shapes import FILLED, Choice, Duration, Text, path_text

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


FILE_NAME: Final = r"(?!holdfast\.|zz_holdfast|errored\.tfstate$)[A-Za-z0-9_][A-Za-z0-9._-]*"
FILE_NAME_EXPECTED: Final = "the name of a file in the module: letters, digits and . _ -, and no `/`"


class Generate(Section, frozen=True, kw_only=True):
    """Exactly one of the keys."""

    schema_rules: ClassVar[Mapping[str, Any]] = {"minProperties": 1, "maxProperties": 1}

    template: str | None = key(
        path_text(fill=True), "The file with the template, relative to `holdfast.yaml`."
    )
    content: str | None = key(Text("the text of the file", max_length=100_000), "The template itself.")

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if len(section.value) != 1:
            problems.add(
                "HF-CONF-5", f"{section.where} needs one of `template` and `content`", place=section.place
            )
