"""Versions and version constraints, with the semantics of Terraform and OpenTofu.

`required_version`, `.terraform-version` and the `engine:` settings are all evaluated here, so that Holdfast
selects an engine by the rule by which Terraform itself would refuse it.
"""

from __future__ import annotations

import operator as operators
import re
from collections.abc import Callable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import cut

_VERSION = pattern(
    r"v?(?P<numbers>[0-9]{1,9}(?:\.[0-9]{1,9}){0,7})"
    r"(?:-(?P<prerelease>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+(?P<metadata>[0-9A-Za-z.-]+))?",
    re.ASCII,
)
_TERM = pattern(r"(?P<operator>=|!=|>=|<=|~>|>|<)?\s*(?P<version>[^\s=!<>~].*)")
_PADDED = 3


class Version(Struct, frozen=True, kw_only=True, eq=False):
    """Ordered by semantic versioning; metadata after `+` is kept and never compared."""

    numbers: tuple[int, ...]
    """At least three, so that `1.5` equals `1.5.0`."""
    prerelease: str = ""
    metadata: str = ""
    written: int = _PADDED
    """How many numbers the text had, for `~>`."""

    @classmethod
    def parse(cls, text: str) -> Version:
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                "HF-ENG-21",
                f"`{_short(text)}` is not a version",
                hint="Write a version such as 1.15.5 or 1.16.0-rc1.",
            )
        numbers = tuple(int(part) for part in match["numbers"].split("."))
        return cls(
            numbers=numbers + (0,) * (_PADDED - len(numbers)),
            prerelease=match["prerelease"] or "",
            metadata=match["metadata"] or "",
            written=len(numbers),
        )

    def __str__(self) -> str:
        text = ".".join(str(number) for number in self.numbers)
        text += f"-{self.prerelease}" if self.prerelease else ""
        return text + (f"+{self.metadata}" if self.metadata else "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._rank == other._rank

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Version) -> bool:
        return self._rank < other._rank

    def __le__(self, other: Version) -> bool:
        return self._rank <= other._rank

    def __gt__(self, other: Version) -> bool:
        return self._rank > other._rank

    def __ge__(self, other: Version) -> bool:
        return self._rank >= other._rank

    def __hash__(self) -> int:
        return hash(self._rank)

    @property
    def base(self) -> tuple[int, ...]:
        """The numbers without trailing zeros: what two versions share when only pre-releases differ."""
        numbers = self.numbers
        while numbers and numbers[-1] == 0:
            numbers = numbers[:-1]
        return numbers

    @property
    def _rank(self) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
        """A release comes after its pre-releases; in those, numbers come before words."""
        parts = tuple(
            (False, int(part), "") if part.isdigit() else (True, 0, part)
            for part in self.prerelease.split(".")
            if part
        )
        return (self.base, not self.prerelease, parts)


class Operator(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    GREATER = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="
    PESSIMISTIC = "~>"


_COMPARE: Mapping[Operator, Callable[[Version, Version], bool]] = {
    Operator.EQUAL: operators.eq,
    Operator.NOT_EQUAL: operators.ne,
    Operator.GREATER: operators.gt,
    Operator.AT_LEAST: operators.ge,
    Operator.LESS: operators.lt,
    Operator.AT_MOST: operators.le,
    Operator.PESSIMISTIC: lambda version, least: (
        version >= least and version.numbers[: least.written - 1] == least.numbers[: least.written - 1]
    ),
}


class Term(Struct, frozen=True, kw_only=True):
    """One comparison of a constraint."""

    operator: Operator
    version: Version

    def allows(self, version: Version) -> bool:
        exact = self.operator in (Operator.EQUAL, Operator.NOT_EQUAL)
        return (exact or self._prerelease_fits(version)) and _COMPARE[self.operator](version, self.version)

    def reaches(self, version: Version) -> bool:
        """Whether it allows this version or a later one."""
        match self.operator:
            case Operator.LESS:
                return self.version > version
            case Operator.EQUAL | Operator.AT_MOST | Operator.PESSIMISTIC:
                released = replace(version, prerelease="")
                return self.version >= version or self.allows(version) or self.allows(released)
            case _:
                return True

    def _prerelease_fits(self, version: Version) -> bool:
        """A pre-release fits only a constraint that names a pre-release of the same version."""
        if version.prerelease:
            return bool(self.version.prerelease) and version.base == self.version.base
        return not (self.version.prerelease and self.operator is Operator.PESSIMISTIC)


class Constraint(Struct, frozen=True, kw_only=True):
    """Comparisons that must all hold."""

    terms: tuple[Term, ...]

    @classmethod
    def parse(cls, text: str) -> Constraint:
        return cls(terms=tuple(_term(part, text) for part in text.split(",")))

    def allows(self, version: Version) -> bool:
        return all(term.allows(version) for term in self.terms)

    def reaches(self, version: Version) -> bool:
        """Whether it allows this version or a later one."""
        return all(term.reaches(version) for term in self.terms)


def _term(part: str, whole: str) -> Term:
    match = _TERM.fullmatch(part.strip())
    if match is None or _VERSION.fullmatch(match["version"]) is None:
        raise UsageError(
            "HF-ENG-22",
            f"`{_short(whole)}` is not a version constraint (at `{_short(part.strip())}`)",
            hint="Write comparisons with = != > >= < <= ~> and commas, such as `>= 1.9, < 2.0`.",
        )
    return Term(operator=Operator(match["operator"] or "="), version=Version.parse(match["version"]))


def _short(text: str) -> str:
    return cut(text, 60)
