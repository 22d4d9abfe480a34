"""Acts on events of code hosts, and writes what became of them as comments and commit statuses.

The rows are the queue (`store/server_runs/webhooks.py`), so an event or a report survives a restart, and a
code host that cannot be reached is asked again later. Nothing here can fail a run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct, field

from holdfast.identity.principal import Principal
from holdfast.kernel.errors import HoldfastError, Problem
from holdfast.notify.comment import write_comment
from holdfast.notify.hosts.client import HostError, RetriesExhaustedError, RetryLimits
from holdfast.notify.hosts.interface import CiRun, PullRequest
from holdfast.notify.publish import Publication, comment_body
from holdfast.notify.report import ChangeReport
from holdfast.notify.webhooks.catalogue import webhook_host
from holdfast.notify.webhooks.decide import (
    Action,
    ApplyMerged,
    ApplyShown,
    CancelPlans,
    Ignore,
    PlanHead,
    Reply,
    ShownChange,
    ShownPlan,
    Situation,
    decide,
    requester,
)
from holdfast.notify.webhooks.github_app import InstallationTokens
from holdfast.notify.webhooks.interface import (
    EventKind,
    RequestApi,
    RequestState,
    WebhookEvent,
    WebhookSettings,
)
from holdfast.server.audit_log import TenantStores
from holdfast.server.edge import Log
from holdfast.server.webhook_reports import current_report, next_step, status_of
from holdfast.store.server_runs.contents import report_name
from holdfast.store.server_runs.phases import ChangePhase, Operation
from holdfast.store.server_runs.rows import (
    APPLY_PRIORITY,
    PLAN_PRIORITY,
    Change,
    ChangeRows,
    NewChange,
    NewRun,
)
from holdfast.store.server_runs.sources import Repository, SourceRows
from holdfast.store.server_runs.webhooks import (
    DueReport,
    RequestChange,
    TakenEvent,
    WebhookRows,
    settings_name,
)
from holdfast.system.environment import Environment

INTERVAL: Final = 1.0
"""Seconds between two looks at the rows."""
_MOST_ATTEMPTS: Final = 12
_SECONDS: Final = 30.0
"""For all requests about one event or report."""
_STOP_SECONDS: Final = 5.0
_WORKING: Final = frozenset({ChangePhase.QUEUED.value, ChangePhase.RUNNING.value})


def read_settings(stores: TenantStores, repository: Repository) -> WebhookSettings | None:
    blob = stores.of(repository.tenant).encrypted.read(settings_name(repository.id))
    return msgspec.json.decode(blob.data, type=WebhookSettings) if blob is not None else None


class WebhookWork(Struct, frozen=True, kw_only=True):
    rows: WebhookRows
    changes: ChangeRows
    sources: SourceRows
    stores: TenantStores
    environment: Environment
    """For the way to the code host: proxies and certificates."""
    log: Log
    limits: Callable[[], RetryLimits] = lambda: RetryLimits(_SECONDS)
    tokens: InstallationTokens = field(default_factory=InstallationTokens)

    def run(self) -> bool:
        """One event and one report. False: there was nothing to do."""
        event, report = self.rows.take(), self.rows.take_report()
        if event is not None and not self._attempt("event", event.id, lambda: self._act(event)):
            if event.attempts < _MOST_ATTEMPTS:
                self.rows.try_event_later(event.id)
            else:
                self.rows.finish(event.id, "failed")
        if report is not None and not self._attempt("report", report.change, lambda: self._report(report)):
            self.rows.try_report_later(report.change)
        return event is not None or report is not None

    def _attempt(self, what: str, id_: str, work: Callable[[], str]) -> bool:
        """False: it failed."""
        try:
            self.log.info("webhook", what=what, id=id_, outcome=work())
        except Exception as error:  # noqa: BLE001 - the others go on
            # Without its text, which may quote what the host sent.
            self.log.error("webhook failed", what=what, id=id_, reason=_reason(error))  # noqa: TRY400
            if isinstance(error, HostError) and error.status == HTTPStatus.UNAUTHORIZED:
                self.tokens.forget()
            return False
        return True

    # Events

    def _act(self, taken: TakenEvent) -> str:
        event = msgspec.convert(taken.event, WebhookEvent)
        repository = self.rows.repository(taken.repository)
        settings = read_settings(self.stores, repository) if repository is not None else None
        if repository is None or settings is None:
            self.rows.finish(taken.id, "the repository has no webhook")
            return "the repository has no webhook"
        api = self._api(settings, event.number)
        state = api.request_state(event.number)
        situation = self._situation(taken, event, settings, repository, state, api)
        action = decide(event, situation, settings)
        head = self._carry_out(taken, event, action, settings, repository, api)
        outcome = action.reason if isinstance(action, Ignore) else type(action).__name__
        self.rows.finish(taken.id, outcome, head=state.head)
        self._answer(event, action, head, api)
        return outcome

    def _situation(
        self,
        taken: TakenEvent,
        event: WebhookEvent,
        settings: WebhookSettings,
        repository: Repository,
        state: RequestState,
        api: RequestApi,
    ) -> Situation:
        changes = self.rows.changes_of(repository.id, event.number)
        listed = event.sender.lower() in {user.lower() for user in settings.users}
        return Situation(
            state=state,
            allowed=event.kind is not EventKind.COMMENT or listed or api.may_write(event),
            branch=repository.branch,
            head_at=self.rows.head_seen(repository.id, event.number, state.head, but=taken.id),
            shown=self._shown(changes),
            applying=any(
                row.operation != Operation.PLAN.value and row.phase in _WORKING and row.id != taken.id
                for row in changes
            ),
        )

    def _shown(self, changes: tuple[RequestChange, ...]) -> ShownChange | None:
        """The newest plan."""
        for row in changes:
            if row.operation != Operation.PLAN.value or row.cancel is not None:
                continue
            change = self.changes.of(row.id)
            return ShownChange(
                id=row.id,
                source=row.source,
                head=row.head,
                finished=row.phase == ChangePhase.DONE.value,
                reported=row.reported_at,
                plans=tuple(
                    ShownPlan(stack=run.stack, run=run.id, status=run.status, digest=run.digest)
                    for run in (change.runs if change is not None else ())
                ),
            )
        return None

    def _carry_out(
        self,
        taken: TakenEvent,
        event: WebhookEvent,
        action: Action,
        settings: WebhookSettings,
        repository: Repository,
        api: RequestApi,
    ) -> str | None:
        """The commit whose status says how it goes on. Doing it once more changes nothing but a reply."""
        if isinstance(action, Reply):
            api.create(event.number, action.text)
        if isinstance(action, PlanHead | CancelPlans | ApplyMerged):
            self._cancel_plans(repository.id, event, but=taken.id)
        if isinstance(action, Reply | CancelPlans | Ignore):
            return None
        who = requester(event, action, settings, repository.tenant)
        if isinstance(action, ApplyShown):
            source, head = action.source, action.head
        else:
            head = action.head if isinstance(action, PlanHead) else action.commit
            base = api.merge_base(action.base, head)
            source = self.sources.add_commit(
                repository.tenant, repository=repository.id, wanted=head, base=base, by=who.name
            ).id
        if self.changes.of(taken.id) is None:
            reference = webhook_host(settings.host).host.reference
            reason = f"{settings.project}{reference}{event.number}"
            self._submit(taken.id, action, source=source, who=who, reason=reason)
        self.rows.link(taken.id, repository=repository.id, number=event.number, head=head)
        return head

    def _submit(
        self,
        id_: str,
        action: PlanHead | ApplyMerged | ApplyShown,
        *,
        source: str,
        who: Principal,
        reason: str,
    ) -> None:
        plans, shown = isinstance(action, PlanHead), action.plans if isinstance(action, ApplyShown) else ()
        self.changes.submit(
            NewChange(
                id=id_,
                tenant=who.tenant,
                operation=Operation.PLAN if plans else Operation.APPLY,
                source=source,
                requester=who,
                patterns=tuple(plan.stack for plan in shown),
                runs=tuple(NewRun(stack=plan.stack, retried_from=plan.run) for plan in shown),
                reason=reason,
                priority=PLAN_PRIORITY if plans else APPLY_PRIORITY,
            )
        )

    def _cancel_plans(self, repository: str, event: WebhookEvent, *, but: str) -> None:
        """They are of older code. An apply is never cancelled."""
        for row in self.rows.changes_of(repository, event.number):
            if (
                row.operation == Operation.PLAN.value
                and row.phase != ChangePhase.DONE.value
                and row.id != but
            ):
                self.changes.request_cancel(row.id, f"a newer event of pull request {event.number}")

    def _answer(self, event: WebhookEvent, action: Action, head: str | None, api: RequestApi) -> None:
        """Only hints, so a failure is not tried again."""
        try:
            if event.comment is not None:
                api.react(event, accepted=not isinstance(action, Ignore))
            if head is not None:
                what = "Planning" if isinstance(action, PlanHead) else "Applying"
                api.set_status(event.number, head, "pending", f"{what} …")
        except (HostError, RetriesExhaustedError) as error:
            self.log.info("webhook", what="answer", outcome=_reason(error))

    # Reports

    def _report(self, due: DueReport) -> str:
        change, repository = self.changes.of(due.change), self.rows.repository(due.repository)
        settings = read_settings(self.stores, repository) if repository is not None else None
        if change is None or settings is None or (change.cancel is not None and not _applies(change)):
            self.rows.finish_report(due)
            return "nothing to report"
        report = self._report_of(change)
        # A plan replaces the one before; what was applied stays to be read.
        name = f"{due.repository} {change.id if _applies(change) else change.operation}"
        run, api = self._open(settings, due.number, name=name, change=change, head=due.head)
        publication = Publication(
            report=report,
            host=webhook_host(settings.host).host,
            run=run,
            exit_code=0,
            environment=self.environment,
            next_step=next_step(report, settings.apply),
        )
        write_comment(api, due.number, comment_body(publication), name=run.name, age=run.age)
        self.rows.finish_report(due)
        state, text = status_of(change, report)
        api.set_status(due.number, due.head, state, text)
        return state

    def _report_of(self, change: Change) -> ChangeReport:
        """What its worker wrote, as far as its rows agree: a worker that died may have written it."""
        blob = self.stores.of(change.tenant).encrypted.read(report_name(change.id))
        stored = msgspec.json.decode(blob.data, type=ChangeReport) if blob is not None else None
        return current_report(change, stored)

    def _api(self, settings: WebhookSettings, number: int) -> RequestApi:
        return self._open(settings, number)[1]

    def _open(
        self,
        settings: WebhookSettings,
        number: int,
        *,
        name: str = "",
        change: Change | None = None,
        head: str | None = None,
    ) -> tuple[CiRun, RequestApi]:
        host, limits = webhook_host(settings.host), self.limits()
        api, repository = host.place(settings)
        run = CiRun(
            host=settings.host,
            repository=repository,
            api=api,
            token=self.tokens.of(settings, self.environment, limits),
            pull_request=PullRequest(number=number, head=head),
            base=None,
            name=name,
            number=change.number if change is not None else 0,
            attempt=change.fence if change is not None else 0,
            link=None,
            commit=head,
            who=change.requester.name if change is not None else "",
        )
        return run, host.open_api(run, self.environment, limits)


def _applies(change: Change) -> bool:
    return change.operation is not Operation.PLAN


def _reason(error: Exception) -> str:
    match error:
        case HostError():
            return f"the code host answered {error.status}"
        case RetriesExhaustedError():
            return "the code host did not answer in time"
        case HoldfastError():
            problem: Problem = error.problem
            return f"{problem.code} {problem.message}"
        case _:
            return type(error).__name__


@contextmanager
def hold_webhooks(work: WebhookWork, *, interval: float = INTERVAL) -> Iterator[None]:
    """In a thread. Several servers on one database share the work."""
    ended = threading.Event()

    def loop() -> None:
        while not ended.is_set():
            try:
                busy = work.run()
            except Exception as error:  # noqa: BLE001 - such as a database that cannot be used at the moment
                busy = False
                work.log.error("webhooks wait", reason=_reason(error))  # noqa: TRY400 - as above
            if not busy:
                ended.wait(interval)

    thread = threading.Thread(target=loop, name="holdfast-webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STOP_SECONDS)
