from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedPlan, CheckedState
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.held_secrets import StoredSecrets, secrets_in_plan, secrets_in_state

_MOST = 6


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    for secrets in secrets_in_plan(plan.plan):
        yield _finding(secrets, "the plan and the next state contain")


def _state(state: CheckedState) -> Iterator[CheckResult]:
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    reported: set[tuple[str, tuple[str, ...]]] = set()
    for secrets in secrets_in_state(state.resources):
        if (secrets.address, secrets.paths) not in reported:
            reported.add((secrets.address, secrets.paths))
            yield _finding(secrets, "the state contains")


def _finding(secrets: StoredSecrets, where: str) -> Finding:
    shown = ", ".join(f"`{path}`" for path in secrets.paths[:_MOST])
    more = f" and {len(secrets.paths) - _MOST} more" if len(secrets.paths) > _MOST else ""
    also = (
        f"; not marked sensitive: {', '.join(f'`{path}`' for path in secrets.unmarked[:_MOST])}"
        if secrets.unmarked
        else ""
    )
    return Finding(
        message=f"{where} {shown}{more} in plain text{also}",
        address=secrets.address,
        hint=secret_facts.remedy(secrets.mode, secrets.type, secrets.paths),
        severity=Severity.ERROR if secrets.unmarked else None,
    )


RULE = Rule(
    id="HF213",
    title="Secret in a plan or state",
    why="States and plans contain secrets in plain text, `sensitive = true` or not. Everyone who can "
    "read the state, an old version of it or a backup has them.",
    fix="Use an ephemeral value, a write-only argument, or the secret's path instead of its value. Then "
    "rotate the secret: older versions of the state still contain it.",
    severity=Severity.WARNING,
    plan=_plan,
    state=_state,
    secret=True,
)
