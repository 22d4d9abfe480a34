"""HF213: a plan or a state that holds a secret in clear."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Answer, Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedPlan, CheckedState
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.held_secrets import Held, in_plan, in_state

_MOST = 6


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    for held in in_plan(plan.plan):
        yield _found(held, "the plan and the state after it hold")


def _state(state: CheckedState) -> Iterator[Answer]:
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    told: set[tuple[str, tuple[str, ...]]] = set()
    for held in in_state(state.resources):
        if (held.address, held.paths) not in told:
            told.add((held.address, held.paths))
            yield _found(held, "the state holds")


def _found(held: Held, where: str) -> Finding:
    shown = ", ".join(f"`{path}`" for path in held.paths[:_MOST])
    more = f" and {len(held.paths) - _MOST} more" if len(held.paths) > _MOST else ""
    also = (
        f"; no mark hides {', '.join(f'`{path}`' for path in held.unmarked[:_MOST])}" if held.unmarked else ""
    )
    return Finding(
        message=f"{where} {shown}{more} in clear{also}",
        address=held.address,
        hint=secret_facts.remedy(held.mode, held.type, held.paths),
        severity=Severity.ERROR if held.unmarked else None,
    )


RULE = Rule(
    id="HF213",
    title="A secret in a plan or a state",
    why="States and plans hold secrets in clear, `sensitive = true` or not: whoever reads the state, an old "
    "version of it or a backup has them all.",
    fix="Get the secret out: an ephemeral value, a write-only argument, or the path of the secret instead "
    "of its value. Then change it, for older versions of the state still hold it.",
    severity=Severity.WARNING,
    plan=_plan,
    state=_state,
    secret=True,
    more="A warning for each object, with what can be done for its type; an error where nothing marks the "
    "secret, so that Terraform shows it. Known are the attributes that the providers for AWS, Azure, "
    "Google, Kubernetes, Helm, Vault, random and tls mark, whatever else a plan or a state marks itself, "
    "and texts of a known format anywhere. A random text under a name that sounds secret counts where "
    "secrets are often put: environments, user data, container definitions. A state that is encrypted "
    "cannot be looked into, and says so. Of a plan only what it puts into the state counts: objects that it "
    "leaves as they are, and secrets that an update does not touch, are found in the state.",
)
