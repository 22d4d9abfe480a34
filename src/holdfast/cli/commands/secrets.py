"""`holdfast secrets`: whether the secrets that stacks refer to can be read, and by which identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation, fields
from holdfast.cli.parameters import Stacks
from holdfast.kernel.errors import Exit, HoldfastError
from holdfast.kernel.text import first_names, plural

if TYPE_CHECKING:
    from holdfast.config.secret_refs import SecretRef
    from holdfast.secrets.sources.interface import ReadSecret

_NAMED = 3
HELP = "Check the secrets that stacks refer to."
COMMANDS = ("check",)


def check(invocation: Invocation, stacks: Stacks = None) -> Exit:
    """Check that every secret of the stacks can be read. Shows which identity read it.

    Never shows values. Exit 1 if a secret cannot be read.
    """
    from holdfast.changes.repository import open_repository
    from holdfast.secrets.reader import SecretReader
    from holdfast.secrets.stack_secrets import stacks_by_reference

    repository = open_repository(invocation.config, invocation.environment)
    repository.tune(invocation.console.redactor)
    selected = [chosen.stack for chosen in repository.select(stacks or [], [], None).selected]
    used_by = stacks_by_reference(selected)
    answers = SecretReader(invocation.environment, repository.config.root, identify=True).read_all(used_by)
    for answer in answers.values():
        if not isinstance(answer, HoldfastError):
            invocation.console.redactor.register(answer.secret.reveal())
    missing = sum(isinstance(answer, HoldfastError) for answer in answers.values())
    summary = {"stacks": len(selected), "present": len(answers) - missing, "missing": missing}
    return invocation.answer(
        {
            "version": 1,
            "references": [_document(ref, answers[ref], names) for ref, names in used_by.items()],
            "summary": summary,
        },
        lambda: _show(invocation, used_by, answers, summary),
        exit_code=Exit.FAILED if missing else Exit.DONE,
    )


def _document(ref: SecretRef, answer: ReadSecret | HoldfastError, names: Sequence[str]) -> dict[str, object]:
    document: dict[str, object] = {
        "reference": str(ref),
        "present": not isinstance(answer, HoldfastError),
        "identity": None if isinstance(answer, HoldfastError) else answer.by,
        "stacks": list(names),
        "error": None,
    }
    if isinstance(answer, HoldfastError):
        document["error"] = fields(answer.problem, "code", "message", "hint")
    return document


def _show(
    invocation: Invocation,
    used_by: Mapping[SecretRef, Sequence[str]],
    answers: Mapping[SecretRef, ReadSecret | HoldfastError],
    summary: Mapping[str, int],
) -> None:
    console = invocation.console
    for ref, names in used_by.items():
        answer = answers[ref]
        used_in = (f"  ({first_names(names, len(names) if invocation.verbose else _NAMED)})", "dim")
        if isinstance(answer, HoldfastError):
            console.line((" ✗ ", "bold red"), str(ref), used_in)
            console.line(("     ", ""), (answer.problem.code, "bold"), f"  {answer.problem.message}")
            if answer.problem.hint:
                console.line(f"     {answer.problem.hint}")
        else:
            console.line((" ✓ ", "green"), f"{ref}  by {answer.by}", used_in)
    stacks = plural(summary["stacks"], "stack")
    if not answers:
        console.say(f" {stacks}, no secret references")
        return
    readable = plural(summary["present"], "secret")
    console.say("")
    console.say(f" {stacks}: {readable} readable, {summary['missing']} missing")
