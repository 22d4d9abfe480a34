"""The S3 sink of the audit log: it receives nothing until an apply outside of a pull request has accepted it.

A change under review can name any sink, and a plan of it runs with the key of the run store.
"""

from __future__ import annotations

from holdfast.audit import sink
from holdfast.audit.default_branch import why_not_default_branch
from holdfast.audit.entry import Entry
from holdfast.kernel.errors import HoldfastError
from holdfast.notify.hosts.github import default_branch
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Note
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.system import git

_DONE = frozenset({Status.APPLIED, Status.UNCHANGED})


async def accept_sink(context: ChangeContext, results: tuple[StackResult, ...]) -> None:
    """After an apply. A failure is reported and changes no result."""
    address = context.project.config.audit_s3
    if address is None or not any(result.status in _DONE for result in results):
        return
    try:
        if sink.is_accepted(context.store, address):
            return
        await context.identity.prove()
        why = _why_not(context)
        if why is None:
            context.identity.audit.record(Entry(what="accept-sink", details={"sink": address}))
            sink.accept(context.store, address)
    except (HoldfastError, OSError) as error:
        why = str(error)
    if why is not None:
        text = f"this apply does not accept {address} as a destination of the audit log: {why}"
        context.control.tell(Note(stack="", text=text))


def _why_not(context: ChangeContext) -> str | None:
    project = context.project
    tree = git.find(project.root, project.environment.variables)
    return why_not_default_branch(
        context.identity.audit.who,
        project.environment.variables,
        default=default_branch(project.environment),
        commit=tree.head() if tree is not None else None,
    )
