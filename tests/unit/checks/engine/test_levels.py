"""How grave a finding is: the rule's word, the finding's own, and what the configuration says."""

from __future__ import annotations

import pytest
from checkouts import UNUSED, check, checkout, configuration, of
from msgspec.structs import replace

from holdfast.checks.engine.levels import is_enabled, severity_of
from holdfast.checks.model.globs import is_name, is_path, is_rule
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.subjects import Checkout
from holdfast.config.checks import CheckSettings

RULE = Rule(id="HF700", title="t", why="w.", fix="f.", severity=Severity.WARNING)


def settings(checks: str) -> CheckSettings:
    return configuration(_with(checks)).checks


def with_checks(checks: str) -> Checkout:
    return checkout({}, config=_with(checks))


def _with(checks: str) -> str:
    return f"version: 1\nenvironments: {{ dev: {{}}, prod: {{ production: true }} }}\nchecks: {checks}\n"


def test_by_default_the_rule_decides_and_the_finding_knows_better() -> None:
    """A finding may be less grave than its rule; the configuration is heard before both."""
    assert severity_of(CheckSettings(), RULE) is Severity.WARNING
    assert severity_of(CheckSettings(), RULE, own=Severity.NOTE) is Severity.NOTE
    set_ = settings("{ rules: { HF700: error } }")
    assert severity_of(set_, RULE, own=Severity.NOTE) is Severity.ERROR


def test_a_whole_id_is_nearer_than_a_beginning() -> None:
    """In whatever order they stand."""
    set_ = settings("{ rules: { HF700: note, 'HF7*': error, 'HF*': off } }")
    assert severity_of(set_, RULE) is Severity.NOTE
    assert (
        severity_of(set_, Rule(id="HF702", title="", why="", fix="", severity=Severity.NOTE))
        is Severity.ERROR
    )
    assert severity_of(set_, Rule(id="HF101", title="", why="", fix="", severity=Severity.NOTE)) is None


def test_environments_and_the_strictest_of_several() -> None:
    """Code of two environments is taken as seriously as in the stricter one; off is the mildest."""
    set_ = settings("{ environments: { dev: { rules: { HF700: off } }, prod: { rules: { HF700: error } } } }")
    assert severity_of(set_, RULE, environments=["dev"]) is None
    assert severity_of(set_, RULE, environments=["dev", "prod"]) is Severity.ERROR
    assert severity_of(set_, RULE, environments=["dev", None]) is Severity.WARNING
    assert severity_of(set_, RULE) is Severity.WARNING


def test_a_path_is_nearest_and_the_last_one_wins() -> None:
    """A folder means everything below it."""
    set_ = settings(
        "{ rules: { HF700: error }, paths: [{ path: modules, rules: { HF700: off } },"
        " { path: modules/new, rules: { HF700: note } }, { path: modules, rules: { HF702: off } }] }"
    )
    assert severity_of(set_, RULE, file="modules/old/main.tf", environments=["prod"]) is None
    assert severity_of(set_, RULE, file="modules/new/main.tf") is Severity.NOTE
    assert severity_of(set_, RULE, file="main.tf") is Severity.ERROR


def test_a_rule_is_evaluated_if_it_is_on_anywhere() -> None:
    """Off at the top and on in one environment is still wanted."""
    assert is_enabled(with_checks("{}"), RULE)
    assert not is_enabled(with_checks("{ rules: { HF700: off } }"), RULE)
    assert is_enabled(
        with_checks("{ rules: { HF700: off }, environments: { prod: { rules: { HF7*: note } } } }"), RULE
    )
    assert is_enabled(
        with_checks("{ rules: { HF700: off }, paths: [{ path: a, rules: { HF700: note } }] }"), RULE
    )


def test_a_convention_is_off_until_it_is_configured() -> None:
    """Its settings turn it on, or a severity for its full id; one for a prefix of it does not."""
    rule = replace(RULE, needs="`checks.tags`", configured=lambda made: bool(made.config.checks.tags))
    assert not is_enabled(with_checks("{}"), rule)
    assert not is_enabled(with_checks("{ rules: { HF7*: error } }"), rule)
    assert is_enabled(with_checks("{ tags: { team: '*' } }"), rule)
    assert is_enabled(with_checks("{ rules: { hf700: error } }"), rule)
    assert not is_enabled(with_checks("{ tags: { team: '*' }, rules: { HF700: off } }"), rule)


def test_the_environment_of_a_finding_is_that_of_its_stacks() -> None:
    """A module that only dev uses is as mild as dev says."""
    config = """
        version: 1
        environments: { dev: {}, prod: {} }
        stacks:
          - { name: d, module: d, environment: dev }
          - { name: p, module: p, environment: prod }
        checks: { environments: { dev: { rules: { HF700: note } }, prod: { rules: { HF700: error } } } }
    """
    call = 'module "m" {\n  source = "../shared"\n}\n'
    files = {
        "d/main.tf": 'variable "a" {}\n' + call,
        "p/main.tf": call,
        "shared/main.tf": 'variable "b" {}\n',
        "alone/main.tf": 'variable "c" {}\n',
    }
    found = {one.file: one.severity for one in of(check(UNUSED, files, config=config), UNUSED)}
    assert found == {
        "d/main.tf": Severity.NOTE,
        "shared/main.tf": Severity.ERROR,
        "alone/main.tf": Severity.NOTE,
    }


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("a/b.tf", "a/b.tf", True),
        ("a", "a/b/c.tf", True),
        ("a", "ab/c.tf", False),
        ("*.tf", "a/b.tf", False),
        ("**/*.tf", "a/b/c.tf", True),
        ("**/*.tf", "c.tf", True),
        ("a/*/c.tf", "a/b/c.tf", True),
        ("a/*/c.tf", "a/b/b/c.tf", False),
        ("a/**", "a/b/c.tf", True),
        ("a+b", "a+b/c.tf", True),
        (".", "a.tf", True),
        ("a", None, False),
    ],
)
def test_paths(pattern: str, path: str | None, matches: bool) -> None:  # noqa: FBT001 - the expectation
    """`*` is a part of a name, `**` any folders, a folder all that is in it."""
    assert is_path(pattern, path) is matches


def test_names_and_rules() -> None:
    """In addresses only `*` is special."""
    assert is_name('module.a["x"].b', 'module.a["x"].b')
    assert is_name("module.a[*].b", 'module.a["x"].b')
    assert not is_name("aws_x.?", "aws_x.a")
    assert not is_name("*", None)
    assert is_rule("hf7*", "HF700")
    assert not is_rule("HF70", "HF700")


@pytest.mark.parametrize("id_", ["HF905", "HF908"])
def test_missing_results_is_silenced_by_its_whole_id_only(id_: str) -> None:
    """`HF*: note` is for findings: a policy that broke must not be let through in passing."""
    unseen = Rule(id=id_, title="", why="", fix="", severity=Severity.ERROR)
    for said in (
        "rules: { 'HF*': note }",
        "rules: { 'HF9*': off }",
        "paths: [{ path: a, rules: { 'HF9*': off } }]",
    ):
        assert severity_of(settings(f"{{ {said} }}"), unseen, file="a/main.tf") is Severity.ERROR
    by_name = settings(f"{{ rules: {{ 'HF*': off, {id_}: warning }} }}")
    assert severity_of(by_name, unseen) is Severity.WARNING
