"""Which policy a stack is judged by."""

from __future__ import annotations

from holdfast.guard.policy import Policy, policy_for, policy_version
from holdfast.runs.session import Session
from holdfast.stacks.stack import Stack


def policy_of(session: Session, stack: Stack) -> Policy:
    return policy_for(session.config.guard, environment=stack.environment, production=stack.production)


def policy_digest(session: Session, stack: Stack) -> str:
    """Stacks of one environment share their policy, and so its digest."""
    key = (stack.environment, stack.production)
    if key not in session.policies:
        session.policies[key] = policy_version(policy_of(session, stack))
    return session.policies[key]
