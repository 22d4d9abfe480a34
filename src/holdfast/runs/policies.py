"""Which policy a stack is judged by, and which policies in Rego its plan is asked about."""

from __future__ import annotations

import hashlib

from holdfast.checks.tools.rego_policies import FOLDER, is_policy
from holdfast.guard.policy import Policy, policy_for, policy_version
from holdfast.runs.session import Session
from holdfast.stacks.stack import Stack


def policy_of(session: Session, stack: Stack) -> Policy:
    return policy_for(session.config.guard, environment=stack.environment, production=stack.production)


def policy_digest(session: Session, stack: Stack) -> str:
    """Stacks of one environment share their policy, and so its digest."""
    key = (stack.environment, stack.production)
    if key not in session.policies:
        version = policy_version(policy_of(session, stack))
        session.policies[key] = _with_rego(session, version)
    return session.policies[key]


def policy_files(session: Session) -> tuple[str, ...]:
    """The policies in Rego, where there are any."""
    tree = session.code.tree
    return tuple(filter(is_policy, tree.walk(FOLDER))) if tree.is_folder(FOLDER) else ()


def _with_rego(session: Session, version: str) -> str:
    """A plan that was held against other policies is another plan. Without policies nothing is added."""
    found = policy_files(session)
    if not found:
        return version
    digest = hashlib.sha256(version.encode())
    for path in found:
        content = session.code.content(path) or b""
        digest.update(f"{path} {len(content)} ".encode(errors="surrogatepass"))
        digest.update(content)
    return digest.hexdigest()
