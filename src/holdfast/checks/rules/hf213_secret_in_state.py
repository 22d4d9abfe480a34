from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedPlan, CheckedState
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.held_secrets import StoredSecrets, secrets_in_plan, secrets_in_state

_MOST = 6


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    for held in secrets_in_plan(plan.plan):
        yield _found(held, "the plan and the next state contain")


def _state(state: CheckedState) -> Iterator[CheckResult]:
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    reported: set[tuple[str, tuple[str, ...]]] = set()
    for held in secrets_in_state(state.resources):
        if (held.address, held.paths) not in reported:
            reported.add((held.address, held.paths))
            yield _found(held, "the state contains")


def _found(held: StoredSecrets, where: str) -> Finding:
    shown = ", ".join(f"`{path}`" for path in held.paths[:_MOST])
    more = f" and {len(held.paths) - _MOST} more" if len(held.paths) > _MOST else ""
    also = (
        f"; not marked sensitive: {', '.join(f'`{path}`' for path in held.unmarked[:_MOST])}"
        if held.unmarked
        else ""
    )
    return Finding(
        message=f"{where} {shown}{more} in plain text{also}",
        address=held.address,
        hint=secret_facts.remedy(held.mode, held.type, held.paths),
        severity=Severity.ERROR if held.unmarked else None,
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
    more="One warning for each resource, with the remedy for its type; an error if nothing marks the "
    "secret as sensitive, so that Terraform shows it. The rule knows the attributes that the providers "
    "for AWS, Azure, Google, Kubernetes, Helm, Vault, random and tls mark, whatever else a plan or "
    "state marks, and texts of a known format anywhere. A random text under a secret-looking name "
    "counts where secrets are often put: environments, user data, container definitions. An encrypted "
    "state cannot be read and is reported as not evaluated. In a plan only values that it adds to the "
    "state count; unchanged secrets are found in the state.",
)
