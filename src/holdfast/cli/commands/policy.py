"""`holdfast policy test`: run the tests of the Rego policies in `policy/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation, fields
from holdfast.kernel.errors import Exit, Failed, UsageError

if TYPE_CHECKING:
    from holdfast.checks.tools.rego.policies import PolicyFile
    from holdfast.checks.tools.rego.policy_tests import PolicyTest, PolicyTestReport

_MARKS = {"passed": ("✓", "green"), "skipped": ("-", ""), "failed": ("✗", "red"), "broken": ("✗", "red")}
HELP = "Test the Rego policies in policy/."
COMMANDS = ("test",)


def test(invocation: Invocation) -> Exit:
    """Run the tests of your Rego policies: rules named test_… in policy/.

    Exit 1 if a test fails or cannot be evaluated.
    """
    tested = _run_tests(invocation)
    counts = {name: sum(test.outcome == name for test in tested.tests) for name in _MARKS}

    def show() -> None:
        for test in tested.tests:
            why = f": {test.message}" if test.message else ""
            invocation.console.line(" ", _MARKS[test.outcome], f" {test.package}.{test.name}{why}")
        numbers = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        invocation.console.say(f" {numbers} · {tested.by}")

    tests = [_document(test) for test in tested.tests]
    return invocation.answer(
        {"version": 1, "evaluator": tested.by, "tests": tests, "summary": counts},
        show,
        exit_code=Exit.FAILED if counts["failed"] or counts["broken"] else Exit.DONE,
    )


def _document(test: PolicyTest) -> dict[str, object]:
    return {**fields(test, "package", "name", "file", "message"), "status": test.outcome.value}


def _run_tests(invocation: Invocation) -> PolicyTestReport:
    from holdfast.checks.tools.rego.interface import INSTALL, EvaluationError
    from holdfast.checks.tools.rego.policies import FOLDER, tests_of
    from holdfast.checks.tools.rego.policy_tests import run_tests
    from holdfast.config import read as config_read

    file = invocation.config if invocation.config is not None else config_read.find(Path.cwd())
    root = config_read.load(file).root
    policies = _policies(root)
    if not policies:
        raise UsageError(
            "HF-POL-1",
            f"no policies in {root / FOLDER}",
            hint="See docs/policies.md for how to write one.",
        )
    if not tests_of(policies):
        raise UsageError(
            "HF-POL-2",
            "the policies have no tests",
            hint=f"Add a rule whose name begins with test_, in {FOLDER}/…_test.rego.",
        )
    try:
        tested = run_tests(root, invocation.environment, policies)
    except EvaluationError as error:
        raise Failed("HF-POL-4", str(error), hint=error.hint) from None
    if tested is None:
        raise UsageError("HF-POL-3", "no Rego evaluator is installed", hint=INSTALL)
    return tested


def _policies(root: Path) -> tuple[PolicyFile, ...]:
    from holdfast.checks.tools.rego.policies import PolicyFile, policy_files
    from holdfast.hcl.eval.code import Code

    code = Code(root)
    policies = []
    for path in policy_files(code).paths:
        content = code.content(path)
        if content is None:
            raise Failed("HF-POL-4", f"{path} cannot be read", hint="Fix this policy.")
        policies.append(PolicyFile(path=path, text=content.decode(errors="replace").removeprefix("\ufeff")))
    return tuple(policies)
