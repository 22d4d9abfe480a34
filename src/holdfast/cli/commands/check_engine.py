"""`holdfast check --engine`: what Terraform says about the code, and with `--fix` its format written back."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.engine.running import NO_STACKS, Seen
from holdfast.checks.model.interface import Finding, Rule
from holdfast.checks.model.subjects import Checkout, EngineSaid
from holdfast.cli.command import Invocation


def engine_of(invocation: Invocation, checkout: Checkout, *, fix: bool) -> Seen[EngineSaid]:
    from holdfast.cli.context import Workshop
    from holdfast.plans.fmt_validate import engine_said

    if not checkout.stacks:
        return Seen(unseen=NO_STACKS) if not checkout.all_stacks else Seen()
    said = Workshop(invocation).run(
        lambda session: engine_said(session, checkout.stacks, fix=fix), storeless=True
    )
    for path in sorted({path for one in said for path in one.mended}):
        invocation.console.say(f" formatted {path}")
    return Seen(items=said)


def unanswered(said: Seen[EngineSaid]) -> Iterator[tuple[Rule, Finding]]:
    """Somebody asked for Terraform's word: that there is none is not taken for a good one."""
    from holdfast.checks.rules.hf908_tool_without_answer import RULE as NO_ANSWER

    silent = [one for one in said.items if one.unseen is not None]
    if silent:
        about = f"{len(silent)} of {len(said.items)} times" if len(said.items) > 1 else silent[0].folder
        found = Finding(
            message=f"Terraform was asked and did not answer ({about}): {silent[0].unseen}",
            hint="Mend that (--verbose names every stack), or leave --engine out.",
        )
        yield NO_ANSWER, found
