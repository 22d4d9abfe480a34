"""Production: more rules about it never make less of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.settings import Environment
from holdfast.stacks.environment import EnvironmentDecision, decide, recognise

VALUES = st.sampled_from(("prod", "dev", "live", "acme-dev-1", "acme-prod-1", "x", "a-dev-prod-b"))
GLOBS = st.sampled_from(("*", "*-dev-*", "*-prod-*", "x", "prod", "acme-*", "dev"))


def environments(*, production: st.SearchStrategy[bool]) -> st.SearchStrategy[Environment]:
    return st.builds(
        Environment,
        name=st.sampled_from(("prod", "dev", "test", "x", "live")),
        match=st.lists(GLOBS, max_size=3).map(tuple),
        production=production,
    )


MANY = st.lists(environments(production=st.booleans()), max_size=4, unique_by=lambda one: one.name)
PRODUCTION = environments(production=st.just(value=True))
SOURCES = st.tuples(st.none() | VALUES, st.none() | VALUES, st.none() | VALUES)
Sources = tuple[str | None, str | None, str | None]


def judged(sources: Sources, known: list[Environment]) -> EnvironmentDecision:
    stated, account, in_file = sources
    return decide(stated=stated, account=account, in_files=lambda: in_file, environments=known)


@given(sources=SOURCES, known=MANY, more=PRODUCTION, at=st.integers(0, 4))
def test_a_production_environment_that_matches_never_takes_production_away(
    sources: Sources, known: list[Environment], more: Environment, at: int
) -> None:
    """Adding an environment that counts as production leaves every production stack production."""
    if any(one.name == more.name for one in known):
        return
    before = judged(sources, known)
    after = judged(sources, [*known[:at], more, *known[at:]])
    assert after.production or not before.production


@given(sources=SOURCES, known=MANY)
def test_less_than_production_is_always_configured(sources: Sources, known: list[Environment]) -> None:
    """A stack is not production only where an environment of the configuration that is not matches it."""
    verdict = judged(sources, known)
    assert verdict.reason
    if not verdict.production:
        matches = [recognise(value, known) for value in sources if value is not None]
        assert any(
            one is not None and (one.environment, one.production) == (verdict.environment, False)
            for one in matches
        )
