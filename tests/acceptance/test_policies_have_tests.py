"""`holdfast policy test`, and policies in `holdfast check`, as a user starts them."""

from __future__ import annotations

import pytest
from program import Program

pytest.importorskip("regopy", reason="the extra `rego` is not installed")

CONFIG = "version: 1\nstacks: [{ name: a, module: a }]\nchecks: { tools: { checkov: off } }\n"
POLICY = """
    package main
    import rego.v1
    deny_public contains {"msg": sprintf("%s is public", [name]), "address": sprintf("aws_x.%s", [name])} if {
      some name, blocks in input.resource.aws_x
      blocks[_].acl == "public"
    }
    """
TESTS = """
    package main
    import rego.v1
    test_public if count(deny_public) == 1 with input as {"resource": {"aws_x": {"a": [{"acl": "public"}]}}}
    test_private if count(deny_public) == 0 with input as {"resource": {"aws_x": {"a": [{"acl": "no"}]}}}
    todo_test_later if false
    """


@pytest.fixture
def repository(holdfast: Program) -> Program:
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("a/main.tf", 'resource "aws_x" "b" {\n  acl = "public"\n}\n')
    holdfast.write("policy/public.rego", POLICY)
    return holdfast


def test_a_policy_refuses_and_its_tests_prove_it(repository: Program) -> None:
    """The finding stands at the block it is about; tests pass, and one that does not is exit 1."""
    checked = repository.json("check", code=3)
    (one,) = [one for one in checked["findings"] if one["rule"] == "rego.main.deny_public"]
    assert (one["message"], one["file"], one["line"]) == ("b is public", "a/main.tf", 1)

    repository.write("policy/public_test.rego", TESTS)
    tested = repository.json("policy", "test")
    assert tested["summary"] == {"passed": 2, "skipped": 1, "failed": 0, "broken": 0}

    repository.write("policy/public_test.rego", TESTS.replace("== 1", "== 2"))
    failing = repository.run("policy", "test")
    assert failing.code == 1
    assert "main.test_public" in failing.out


def test_a_policy_and_its_tests_may_share_a_file(repository: Program) -> None:
    """`check` and `policy test` both work."""
    tests = TESTS.replace("    package main\n    import rego.v1\n", "")
    repository.write("policy/public.rego", POLICY + tests)
    checked = repository.json("check", code=3)
    assert "rego.main.deny_public" in {finding["rule"] for finding in checked["findings"]}
    assert repository.json("policy", "test")["summary"]["passed"] == 2


def test_nothing_to_test_is_not_a_success(repository: Program) -> None:
    """Without tests, and without policies."""
    assert repository.json("policy", "test", code=64)["errors"][0]["code"] == "HF-POL-2"
    (repository.folder / "policy/public.rego").unlink()
    assert repository.json("policy", "test", code=64)["errors"][0]["code"] == "HF-POL-1"


def test_tests_that_cannot_be_read_are_a_failure(repository: Program) -> None:
    """With what the evaluator says."""
    repository.write("policy/broken_test.rego", "package main\ntest_x if { x := \n")
    assert repository.json("policy", "test", code=1)["errors"][0]["code"] == "HF-POL-4"
