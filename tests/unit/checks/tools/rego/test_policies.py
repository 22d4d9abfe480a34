"""What is read from the text of policies, without a parser of Rego."""

from __future__ import annotations

import pytest

from holdfast.checks.tools.rego.policies import (
    PolicyFile,
    changes_policies,
    old_rules,
    rules_of,
    unknown_data,
)
from holdfast.checks.tools.rego.policies import tests_of as found_tests


def policy(text: str, path: str = "policy/a.rego") -> PolicyFile:
    return PolicyFile(path=path, text=text)


def test_rules_that_deny_or_warn_are_found_with_their_package() -> None:
    """Names follow Conftest; a set is always defined, other rules need not be."""
    found = rules_of(
        [
            policy(
                "package a.b\ndeny contains msg if { true }\nviolation_x_1 contains 1 if true\n"
                "warn := true\nallow := 1\n"
            ),
            policy("package other\nhelper := 1\n"),
        ]
    )
    assert found == {"a.b": {"deny": True, "violation_x_1": True, "warn": False}}


def test_strings_and_comments_hold_no_rules() -> None:
    """What only looks like a rule is none: no package is asked for nothing."""
    text = (
        'package main\n# deny contains x if\nx := "deny contains y if"\ny := `\ndeny contains z if true\n`\n'
    )
    assert rules_of([policy(text)]) == {}


def test_test_files_are_not_evaluated() -> None:
    """A rule in a file of tests denies nothing."""
    assert rules_of([policy("package main\ndeny contains 1 if true\n", "policy/a_test.rego")]) == {}


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("deny[msg] { msg := 1 }", True),
        ("warn_x [ msg ]{\n  msg := 1\n}", True),
        ("deny { input.x }", True),
        ("deny contains msg if { msg := 1 }", False),
        ("deny contains {1: 2} if { true }", False),
        ("# deny[msg] {", False),
    ],
)
def test_rules_in_the_syntax_before_rego_1_are_found(text: str, old: bool) -> None:  # noqa: FBT001 - a row of the table
    """They mean something else to regopy than they say."""
    assert list(old_rules([policy(f"package main\n\n{text}\n")])) == (["policy/a.rego:3"] if old else [])


def test_tests_are_found() -> None:
    """Those to be done later, too: they are shown as skipped."""
    found = found_tests([policy("package m\ntest_a if true\ntodo_test_b if true\nhelper_test := 1\n")])
    assert [name for _, name, _ in found] == ["test_a", "todo_test_b"]


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("package main", "main"),
        ("# package other\n\n  package a.b_c # why\r\n", "a.b_c"),
        ('package teams["data-lake"].s3\n', 'teams["data-lake"].s3'),
        ("package a-b", None),
        ("deny := 1", None),
    ],
)
def test_a_package_is_read_as_it_is_written(text: str, package: str | None) -> None:
    """Else another one would be asked, and this one never."""
    assert policy(text).package == package


def test_data_that_no_policy_defines_is_found() -> None:
    """It is undefined, and a rule that asks for it never fires. Tests may make it up."""
    main = policy(
        "package main\n\nimport data.lib.text\n\nx := data.lib\ny := data.regions.eu\nz := input.data.q\n"
    )
    lib = policy("package lib.text.more\n\nx := data.main.y\n", "policy/lib/a.rego")
    test = policy("package main\n\ntest_x if data.made_up\n", "policy/a_test.rego")
    assert list(unknown_data([main, lib, test])) == ["`data.regions.eu` (policy/a.rego:6)"]


@pytest.mark.parametrize(
    ("path", "does"),
    [
        ("policy/a.rego", True),
        ("policy/team/a.rego", True),
        ("policy", True),
        ("policy/shared", True),
        ("policy/a_test.rego", False),
        ("policy/README.md", False),
        ("policies/a.rego", False),
        ("live/policy/a.rego", False),
    ],
)
def test_a_policy_change_is_recognized_by_its_path(path: str, does: bool) -> None:  # noqa: FBT001 - a row of the table
    """A policy, or the submodule or link that they come by; not their tests."""
    assert changes_policies(path) is does
