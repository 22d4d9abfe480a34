"""Which environment a stack belongs to; an unknown one counts as production."""

from __future__ import annotations

import pytest

from holdfast.config.settings import Environment
from holdfast.stacks.environment import EnvironmentDecision, decide

ENVIRONMENTS = (
    Environment(name="dev", match=("*-dev-*", "sandbox"), production=False),
    Environment(name="prod", match=("*-prod-*",), production=True),
    Environment(name="all", match=("*-any",), production=False),
)


def verdict(
    stated: str | None = None,
    account: str | None = None,
    in_file: str | None = None,
    environments: tuple[Environment, ...] = ENVIRONMENTS,
) -> EnvironmentDecision:
    return decide(stated=stated, account=account, in_files=lambda: in_file, environments=environments)


@pytest.mark.parametrize(
    ("stated", "environment", "production"),
    [
        ("dev", "dev", False),
        ("sandbox", "dev", False),
        ("acme-dev-1", "dev", False),
        ("acme-prod-1", "prod", True),
        ("a-dev-prod-b", "prod", True),
        ("prd", "prd", True),
        ("live", "live", True),
        ("Dev", "Dev", True),
        ("acme-x", "acme-x", True),
        ("", "", True),
    ],
)
def test_a_stated_value(stated: str, environment: str, production: bool) -> None:  # noqa: FBT001 - a table's column
    """Exact first, then globs, a production one among several; otherwise the value itself, as production."""
    found = verdict(stated)
    assert (found.environment, found.production) == (environment, production)
    assert found.reason


def test_an_unmatched_value_is_reported() -> None:
    """A person reads why it counts as production."""
    assert verdict("acme-x").reason == 'no environment matches "acme-x": counts as production'
    assert verdict("acme-x").unclear


def test_the_account_counts_where_nothing_is_stated() -> None:
    """An account's name that belongs to an environment decides."""
    found = verdict(account="acme-dev-1")
    assert (found.environment, found.production) == ("dev", False)


def test_the_variables_count_where_the_account_says_nothing() -> None:
    """A value in the variables file is the last thing asked."""
    assert verdict(account="acme", in_file="dev").environment == "dev"
    found = verdict(account="acme", in_file="qa")
    assert (found.environment, found.production) == ("qa", True)


def test_nothing_at_all_is_production() -> None:
    """A stack of which nothing is said is production, without a name."""
    found = verdict(account="acme")
    assert (found.environment, found.production) == (None, True)
    assert '"acme"' in found.reason
    assert verdict().production


def test_production_in_the_variables_wins_over_the_account() -> None:
    """An account that looks like dev does not hide a file that says production."""
    found = verdict(account="acme-dev-1", in_file="prod")
    assert (found.environment, found.production) == ("prod", True)
    assert "although" in found.reason


def test_files_are_not_read_when_they_cannot_matter() -> None:
    """A stated value, or an account in production, is enough."""

    def never() -> str | None:
        raise AssertionError

    for stated, account in (("dev", None), ("x", "acme-dev-1"), (None, "acme-prod-1")):
        decide(stated=stated, account=account, in_files=never, environments=ENVIRONMENTS)


def test_a_glob_does_not_override_a_name_for_production() -> None:
    """`*` of a harmless environment does not cover `prod`; naming it does."""
    everything = (Environment(name="dev", match=("*",), production=False),)
    assert verdict("prod", environments=everything).production
    named = (Environment(name="dev", match=("*", "prod"), production=False),)
    assert not verdict("prod", environments=named).production
