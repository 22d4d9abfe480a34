"""What Terraform reports, as a problem with a hint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from holdfast.plans.errors import CommandTarget, problem_from_diagnostic, terraform_error
from holdfast.system.confine import Confinement
from holdfast.terraform.argv import INLINE_FILE
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.engine.interface import CommandResult
from holdfast.terraform.stream import CommandOutput


@pytest.mark.parametrize(
    ("measures", "detail", "hinted"),
    [
        (("landlock",), "touch: cannot touch '/home/ada/x': Permission denied", True),
        ((), "touch: cannot touch '/home/ada/x': Permission denied", False),
        (("landlock",), "no such file", False),
    ],
)
def test_a_denied_permission_may_come_from_confinement(
    measures: tuple[str, ...], detail: str, *, hinted: bool
) -> None:
    """A program that worked before must not leave its user guessing."""
    target = SimpleNamespace(
        engine=SimpleNamespace(confinement=Confinement(measures=measures)),
        stack=SimpleNamespace(module="app"),
        not_passed=frozenset(),
    )
    diagnostic = Diagnostic(severity="error", summary="local-exec provisioner error", detail=detail)
    problem = problem_from_diagnostic(cast("CommandTarget", target), "HF-TF-4", diagnostic)
    assert ("holdfast doctor" in (problem.hint or "")) is hinted


@pytest.mark.parametrize(
    ("detail", "hinted"),
    [
        ("Set VAULT_ADDR in the environment.", "pass_env: [VAULT_ADDR]"),
        ("Set VAULT_NAMESPACE in the environment.", None),
        ("The HOLDFAST_KEY of this machine", None),
    ],
)
def test_a_variable_that_is_not_passed_is_named(detail: str, hinted: str | None) -> None:
    """Only one that the caller has, Terraform has not, and a stack may have."""
    target = SimpleNamespace(
        engine=SimpleNamespace(confinement=Confinement()),
        stack=SimpleNamespace(module="app"),
        not_passed=frozenset({"VAULT_ADDR", "HOLDFAST_KEY", "EDITOR"}),
    )
    diagnostic = Diagnostic(severity="error", summary="no address", detail=detail)
    hint = problem_from_diagnostic(cast("CommandTarget", target), "HF-TF-3", diagnostic).hint
    assert (hint is None) if hinted is None else (hinted in (hint or ""))


def test_an_error_begins_with_its_resource_and_has_no_colours() -> None:
    target = SimpleNamespace(
        engine=SimpleNamespace(confinement=Confinement()),
        stack=SimpleNamespace(module="app"),
        not_passed=frozenset(),
    )
    diagnostic = Diagnostic(
        summary="\x1b[31mQuota\x1b[0m", detail="used \x1b]8;;http://x\x07up\x1b[1A", address="aws_vpc.a"
    )
    problem = problem_from_diagnostic(cast("CommandTarget", target), "HF-TF-4", diagnostic)
    assert problem.message == "aws_vpc.a: Quota: used up"
    assert problem.address == "aws_vpc.a"


def test_a_file_that_the_user_does_not_have_is_not_named() -> None:
    """Values of holdfast.yaml and -var reach Terraform in a file of the work directory."""
    target = SimpleNamespace(
        engine=SimpleNamespace(confinement=Confinement()),
        stack=SimpleNamespace(module="app", name="dev/app"),
        not_passed=frozenset(),
    )
    start = {"line": 1, "column": 32}
    place = {"filename": INLINE_FILE, "start": start, "end": start}
    wrong = {"severity": "error", "summary": "Invalid value", "detail": "not a number", "range": place}
    undeclared = {
        "severity": "warning",
        "summary": "Value for undeclared variable",
        "detail": f'It was found in file "{INLINE_FILE}". To silence these warnings, use TF_VAR_...',
    }
    first, second = (
        problem_from_diagnostic(cast("CommandTarget", target), "HF-TF-3", msgspec.convert(each, Diagnostic))
        for each in (wrong, undeclared)
    )
    assert (first.message, first.place) == ("Invalid value: not a number", None)
    assert "holdfast config show dev/app" in str(first.hint)
    assert second.message.endswith("It was found in holdfast.yaml or -var.")


def test_a_module_that_cannot_be_downloaded_is_one_error() -> None:
    """Terraform reports every call of it as well."""
    target = SimpleNamespace(
        engine=SimpleNamespace(confinement=Confinement()),
        stack=SimpleNamespace(module="app", name="dev/app"),
        not_passed=frozenset(),
    )
    cause = Diagnostic(severity="error", summary="Failed to download module", detail="no route to host")
    calls = tuple(
        Diagnostic(severity="error", summary="Unreadable module directory", detail=detail)
        for detail in ("lstat .terraform/modules/a", "for module b", "lstat .terraform/modules/a")
    )
    answer = cast("CommandResult", SimpleNamespace(code=1, err=b""))

    def problems(*diagnostics: Diagnostic) -> list[str]:
        output = cast("CommandOutput", SimpleNamespace(diagnostics=diagnostics))
        error = terraform_error(cast("CommandTarget", target), "init", answer, output)
        return [problem.message for problem in error.problems]

    assert problems(*calls, cause) == ["Failed to download module: no route to host"]
    assert len(problems(*calls)) == 2


@pytest.mark.parametrize(
    ("cause", "hinted"),
    [
        ("decryption failed for all provided methods", "Check the passphrase"),
        ("encountered unencrypted payload without unencrypted method configured", "method.unencrypted.old"),
        (
            "This state file is encrypted and can not be read without an encryption configuration",
            "restore its `encryption` block",
        ),
    ],
)
def test_a_state_that_opentofu_cannot_decrypt_is_not_locked(cause: str, hinted: str) -> None:
    """With a local backend OpenTofu says so as an error of the lock; some commands print text only."""
    target = cast("CommandTarget", SimpleNamespace(stack=SimpleNamespace(name="dev/app")))
    lock = Diagnostic(
        severity="error", summary="Error acquiring the state lock", detail=f"failed to write backup: {cause}"
    )
    text = f"╷\n│ Error: Failed to refresh state: {cause.replace(' ', chr(10) + '│ ', 3)}\n╵\n"
    answers = (
        (CommandResult(code=1), CommandOutput(diagnostics=[lock])),
        (CommandResult(code=1, err=text.encode()), CommandOutput()),
    )
    for answer, output in answers:
        problem = terraform_error(target, "plan", answer, output).problem
        assert problem.code == "HF-TF-6"
        assert hinted in (problem.hint or "")


def test_the_frame_around_an_error_is_not_shown() -> None:
    """Commands without JSON output draw it."""
    err = "╷\n│ Error: no key\n│ \n│ Set a passphrase.\n╵\n".encode()
    answer = cast("CommandResult", SimpleNamespace(code=1, err=err, out=b""))
    output = cast("CommandOutput", SimpleNamespace(diagnostics=(), noise=()))
    target = cast("CommandTarget", SimpleNamespace(stack=SimpleNamespace(name="dev/app")))
    error = terraform_error(target, "state", answer, output)
    assert error.problem.message == "Error: no key\n\nSet a passphrase."
