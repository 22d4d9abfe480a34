from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import UsageError
from holdfast.terraform.versions import Constraint, Version

numbers = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
prereleases = st.sampled_from(["", "-alpha1", "-alpha.1", "-alpha.2", "-beta1", "-rc1", "-rc.10"])
versions = st.builds(lambda base, pre: Version.parse(base + pre), numbers, prereleases)
operators = st.sampled_from(["=", "!=", ">", ">=", "<", "<=", "~>"])


@given(versions, versions, versions)
def test_the_order_of_versions_is_total(one: Version, two: Version, three: Version) -> None:
    """Exactly one of less, equal, greater holds, and the order is transitive."""
    assert (one < two) + (one == two) + (one > two) == 1
    if one <= two <= three:
        assert one <= three


@given(versions)
def test_a_version_reads_back_as_itself(version: Version) -> None:
    """What is shown can be used as input."""
    assert Version.parse(str(version)) == version


@given(versions, versions)
def test_opposite_comparisons_never_agree(version: Version, bound: Version) -> None:
    """No version is both below a bound and at or above it, or equal and not equal."""
    for one, other in (("<", ">="), (">", "<="), ("=", "!=")):
        both = [Constraint.parse(f"{operator} {bound}").allows(version) for operator in (one, other)]
        assert both != [True, True]
        if not version.prerelease or operators_ignore_prereleases(one):
            assert any(both)


def operators_ignore_prereleases(operator: str) -> bool:
    return operator == "="


@given(versions, numbers)
def test_the_pessimistic_operator_is_a_range(version: Version, base: str) -> None:
    """`~> a.b.c` is `>= a.b.c, < a.(b+1)`."""
    parts = [int(part) for part in base.split(".")]
    text = f">= {base}"
    if len(parts) > 1:
        text += f", < {'.'.join(map(str, [*parts[:-2], parts[-2] + 1]))}"
    assert Constraint.parse(f"~> {base}").allows(version) == Constraint.parse(text).allows(version)


@given(versions, numbers, operators)
def test_a_prerelease_is_never_chosen_by_accident(version: Version, base: str, operator: str) -> None:
    """A range that names no pre-release allows none."""
    if version.prerelease and operator not in {"=", "!="}:
        assert not Constraint.parse(f"{operator} {base}").allows(version)


@given(versions, versions, numbers, operators)
def test_a_constraint_reaches_what_it_allows(
    version: Version, later: Version, base: str, operator: str
) -> None:
    """What allows a version at or above another reaches that one, so no hint is withheld by mistake."""
    constraint = Constraint.parse(f"{operator} {base}")
    if later >= version and constraint.allows(later):
        assert constraint.reaches(version)


@given(st.text(max_size=30))
def test_any_text_is_a_constraint_or_a_mistake(text: str) -> None:
    """Whatever stands in a file, the answer is a constraint or an error with a code."""
    try:
        assert Constraint.parse(text).terms
    except UsageError as error:
        assert error.problem.code == "HF-ENG-22"  # noqa: PT017 - either outcome is right
