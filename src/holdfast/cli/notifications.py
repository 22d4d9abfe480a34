"""Alerts of commands without a server: into the outbox of the run store, and on to their channels.

In CI a command sends what is due when it ends. Elsewhere it sends nothing, as the secrets of channels are
CI's, but what it ends or breaks is in the outbox, and the next command in CI tells. Nothing here fails a
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.audit.actor import current_actor
from holdfast.audit.break_glass import marked_stacks, open_break_glass
from holdfast.audit.default_branch import is_under_review
from holdfast.changes.alerts import alerts_from_acts, alerts_from_results, resolved
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.kernel.secret import Secret
from holdfast.notify.alerts.alert import Alert, AlertKind
from holdfast.notify.alerts.delivery import Attempt, Delivery
from holdfast.notify.alerts.outbox import Outbox, with_alerts
from holdfast.notify.alerts.review import counts, with_merged
from holdfast.notify.alerts.stored_outbox import StoredOutbox, outbox_name
from holdfast.notify.channels.interface import Access
from holdfast.notify.hosts.catalogue import current_host
from holdfast.notify.hosts.github import default_branch
from holdfast.secrets.encryption import apply_key_needed
from holdfast.secrets.reader import SecretReader
from holdfast.system import clock, git
from holdfast.system.repository import repository_of

if TYPE_CHECKING:
    from holdfast.changes.repository import Repository
    from holdfast.cli.command import Invocation
    from holdfast.plans.result import StackResult
    from holdfast.stacks.stack import Stack

SECONDS: Final = 20.0
"""How long a command waits for channels when it ends."""


def open_delivery(invocation: Invocation, repository: Repository) -> Delivery:
    config, console = repository.config, invocation.console
    secrets = SecretReader(invocation.environment, config.root)

    def read(ref: SecretRef) -> Secret:
        secret = secrets.read(ref)
        console.redactor.register(secret)
        return secret

    def report(attempt: Attempt) -> None:
        if attempt.error is not None:
            then = "It is not tried again" if attempt.dead else "The next command in CI tries again"
            console.warn(
                f"A notification did not reach the channel {attempt.channel}: {attempt.error}. "
                f"{then}: holdfast notify status"
            )

    name = outbox_name(repository_of(config.root, invocation.environment.variables))
    return Delivery(
        outbox=StoredOutbox(repository.store.encrypted, name),
        settings=config.notify,
        access=Access(environment=invocation.environment, secret=read, say=console.note, now=clock.now),
        clean=console.redactor.clean,
        report=report,
    )


def is_configured(repository: Repository) -> bool:
    return bool(repository.config.notify.routes)


def raise_alerts(
    invocation: Invocation, repository: Repository, alerts: Iterable[Alert], *, send: bool | None = None
) -> None:
    """From anywhere in a command, when its work is done. `send`: also outside of CI."""
    if not is_configured(repository):
        return

    def work() -> None:
        delivery = open_delivery(invocation, repository)
        raised = tuple(alerts)
        sends = invocation.environment.ci if send is None else send
        if not sends:
            # Away from CI nothing begins, except acts that people must hear of.
            raised = tuple(one for one in raised if one.resolved or one.kind is AlertKind.BREAK_GLASS)
        if not may_send(invocation, repository, delivery):
            _keep(invocation, delivery, raised)
            return
        if raised:
            delivery.raise_alerts(raised)
        if sends:
            delivery.deliver(clock.monotonic() + SECONDS)

    _never_fail(invocation, repository, work)


def may_send(invocation: Invocation, repository: Repository, delivery: Delivery) -> bool:
    """Whether `notify` counts here: a change under review sends nothing to a server of its author's."""
    if not invocation.environment.ci:
        return True
    outbox, settings = delivery.outbox.read(), delivery.settings
    if runs_under_review(invocation, repository):
        return counts(settings, outbox)
    accept_settings(delivery)
    return True


def runs_under_review(invocation: Invocation, repository: Repository) -> bool:
    environment = invocation.environment
    tree = git.find(repository.config.root, environment.variables)
    return is_under_review(
        current_actor(environment),
        environment.variables,
        default=default_branch(environment),
        commit=tree.head() if tree is not None else None,
    )


def accept_settings(delivery: Delivery) -> None:
    delivery.outbox.change(lambda outbox: (with_merged(outbox, delivery.settings), None))


def _keep(invocation: Invocation, delivery: Delivery, alerts: tuple[Alert, ...]) -> None:
    """For the next command of the default branch, which sends them its own way."""
    if not alerts:
        return

    def step(outbox: Outbox) -> tuple[Outbox, bool]:
        kept = with_alerts(outbox, alerts, clock.now(), clock.new_id)
        return kept, kept != outbox

    if delivery.outbox.change(step):
        invocation.console.warn(
            "This job may run for a pull request, and its `notify` is not the one of the default branch: "
            "nothing is sent. The next command in CI for the default branch sends it."
        )


def alert_sink(invocation: Invocation, repository: Repository) -> Callable[[Sequence[Alert]], None]:
    """Takes alerts into the outbox, or raises; then they are sent, now or by a later command."""

    def take(alerts: Sequence[Alert]) -> None:
        if not is_configured(repository):
            raise UsageError(
                "HF-NOTIFY-3",
                "`notify` in holdfast.yaml has no routes",
                hint="Add channels and routes: docs/notifications.md",
            )
        if not repository.store.can_apply:
            raise apply_key_needed("writing the outbox of notifications")
        delivery = open_delivery(invocation, repository)
        if not may_send(invocation, repository, delivery):
            _keep(invocation, delivery, tuple(alerts))
            return
        delivery.raise_alerts(tuple(alerts))
        _never_fail(invocation, repository, partial(_send, delivery))

    return take


def notify_results(
    invocation: Invocation, repository: Repository, results: Iterable[StackResult], operation: str
) -> None:
    """After a change, in CI."""
    if is_configured(repository):
        alerts = alerts_from_results(results, operation, link=_link(invocation), now=clock.now())
        raised = tuple(alerts)
        if operation == "plan" and invocation.environment.ci and runs_under_review(invocation, repository):
            # The plan of another pull request may wait for its approval.
            raised = tuple(alert for alert in raised if not alert.resolved)
        raise_alerts(invocation, repository, raised)


def notify_reconciled(
    invocation: Invocation, repository: Repository, stack: Stack, rest: StackResult | None
) -> None:
    """The outcome of an interrupted run is known; `rest`: what was applied of the remaining changes."""
    now = clock.now()
    results = () if rest is None else (rest,)
    alerts = (
        resolved(AlertKind.UNKNOWN, stack.name, now),
        *alerts_from_results(results, "apply", link=_link(invocation), now=now),
    )
    raise_alerts(invocation, repository, alerts)


def notify_decided(invocation: Invocation, repository: Repository, stacks: Iterable[str]) -> None:
    """Their plans wait no longer."""
    now = clock.now()
    raise_alerts(invocation, repository, tuple(resolved(AlertKind.WAITING, stack, now) for stack in stacks))


def finish_command(invocation: Invocation, repository: Repository) -> None:
    """After each command that used the store: break-glass acts, and what an earlier one could not send."""
    if not is_configured(repository) or not repository.store.can_apply:
        return

    def work() -> None:
        delivery = open_delivery(invocation, repository)
        told = {
            issue.alert.stack
            for issue in delivery.outbox.read().open
            if issue.alert.kind is AlertKind.BREAK_GLASS and issue.alert.stack is not None
        }
        alerts: tuple[Alert, ...] = ()
        if told or marked_stacks(repository.store):
            acts = open_break_glass(repository.store)
            by_name = repository.by_name
            alerts = tuple(alerts_from_acts(acts, told, by_name, link=_link(invocation), now=clock.now()))
        if not may_send(invocation, repository, delivery):
            _keep(invocation, delivery, alerts)
            return
        if alerts:
            delivery.raise_alerts(alerts)
        if invocation.environment.ci:
            delivery.deliver(clock.monotonic() + SECONDS)

    _never_fail(invocation, repository, work)


def _never_fail(invocation: Invocation, repository: Repository, work: Callable[[], None]) -> None:
    console = invocation.console
    if not repository.store.can_apply:
        console.warn("No notification is sent: the plan key cannot write the outbox of notifications.")
        return
    try:
        work()
    except HoldfastError as error:
        console.warn(f"No notification is sent: {error.problem.code}: {error.problem.message}")
    except Exception as error:  # noqa: BLE001 - a notification never fails a command
        console.warn(f"No notification is sent: unexpected error in Holdfast: {type(error).__name__}")


def _send(delivery: Delivery) -> None:
    delivery.deliver(clock.monotonic() + SECONDS)


def _link(invocation: Invocation) -> str | None:
    host = current_host(invocation.environment)
    return host.read_run(invocation.environment)[0].link if host is not None else None
