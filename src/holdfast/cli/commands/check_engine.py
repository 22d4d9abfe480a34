"""`holdfast check --engine`: run `terraform fmt` and `validate`; with `--fix`, write the formatted code."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.engine.running import NO_STACKS, Available
from holdfast.checks.model.interface import Finding, Rule
from holdfast.checks.model.subjects import Checkout, EngineOutput
from holdfast.cli.command import Invocation


def engine_of(invocation: Invocation, checkout: Checkout, *, fix: bool) -> Available[EngineOutput]:
    from holdfast.cli.context import CommandContext
    from holdfast.plans.fmt_validate import engine_said

    if not checkout.stacks:
        return Available(missing=NO_STACKS) if not checkout.all_stacks else Available()
    answers = CommandContext(invocation).run(
        lambda session: engine_said(session, checkout.stacks, fix=fix), storeless=True
    )
    for path in sorted({path for answer in answers for path in answer.fixed}):
        invocation.console.say(f" formatted {path}")
    return Available(items=answers)


def unanswered(answers: Available[EngineOutput]) -> Iterator[tuple[Rule, Finding]]:
    """A finding if Terraform could not be run: with `--engine`, no answer is not a pass."""
    from holdfast.checks.rules.hf908_tool_without_answer import RULE as NO_ANSWER

    failed = [answer for answer in answers.items if answer.validate_skipped is not None]
    if failed:
        total = len(answers.items)
        where = f"{len(failed)} of {total} times" if total > 1 else failed[0].folder
        finding = Finding(
            message=f"Terraform could not be run ({where}): {failed[0].validate_skipped}",
            hint="Fix this (--verbose names every stack), or leave out --engine.",
        )
        yield NO_ANSWER, finding
