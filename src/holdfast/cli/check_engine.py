"""`holdfast check --engine`: what Terraform says about the code, and with `--fix` its format written back."""

from __future__ import annotations

from holdfast.checks.running import NO_STACKS, Seen
from holdfast.checks.subjects import Checkout, EngineSaid
from holdfast.cli.frame import Invocation


def engine_of(invocation: Invocation, checkout: Checkout, *, fix: bool) -> Seen[EngineSaid]:
    from holdfast.cli.workshop import Workshop
    from holdfast.runs.checking import engine_said

    if not checkout.stacks:
        return Seen(unseen=NO_STACKS) if not checkout.all_stacks else Seen()
    said = Workshop(invocation).run(lambda session: engine_said(session, checkout.stacks, fix=fix))
    for path in sorted({path for one in said for path in one.mended}):
        invocation.console.say(f" formatted {path}")
    return Seen(items=said)
