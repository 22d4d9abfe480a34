"""The life of one run: a stack is planned, and perhaps applied, and its end is always a result.

No error leaves this module: each becomes the stack's own result, so that one failure harms no other stack.
"""

from __future__ import annotations

import contextlib
import dataclasses
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.doors import clock
from holdfast.doors.files import unusable
from holdfast.guard.decision import Allow, Deny, NeedApproval
from holdfast.guard.understood import understood
from holdfast.kernel.errors import Busy, Failed, HoldfastError, Refused, UnknownOutcome
from holdfast.runs import state_watch
from holdfast.runs.bundle import Bundle, StateSeen
from holdfast.runs.digest import DigestParts, sha256
from holdfast.runs.events import Ended
from holdfast.runs.phases import Cancelled, Heard, Terraform, left_at_once, unknown_outcome
from holdfast.runs.prepare import Prepared, keep_unsaved, prepared
from holdfast.runs.progress import ApplyWatch
from holdfast.runs.result import ErrorShown, Output, StackResult
from holdfast.runs.session import Session
from holdfast.runs.status import STATUS_OF_EXIT, Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PLAN_FILE, PlanOptions
from holdfast.terraform.engine import Answer
from holdfast.terraform.plan import Plan
from holdfast.terraform.plan_json import read_plan
from holdfast.terraform.plan_values import sensitive_values
from holdfast.terraform.state_json import StateFile, read_state
from holdfast.terraform.work import UNSAVED_FILE, made_since, put_back


@dataclass(slots=True)
class _Ready:
    """A plan that lies in the work directory, ready to be applied."""

    terraform: Terraform
    plan: Plan
    plan_json: bytes = field(repr=False)
    parts: DigestParts
    prior: StateSeen
    ephemeral: bool


class StackRun:
    """One stack in one change. The work directory is held from the plan to `close`."""

    def __init__(self, session: Session, stack: Stack) -> None:
        self.session = session
        self.stack = stack
        self.id = clock.new_id()
        self._held = contextlib.AsyncExitStack()
        self._ready: _Ready | None = None
        self._started = clock.monotonic()
        self._spent = 0.0
        self._notes: list[str] = []
        self.result = StackResult(stack=stack, status=Status.CANCELLED, run=self.id)

    async def close(self) -> None:
        await self._held.aclose()

    # Plan

    async def plan(self, options: PlanOptions) -> StackResult:
        async with self.session.places:
            self._started = clock.monotonic()
            try:
                self._refuse_when_stopping()
                self.result = await self._plan(options)
            except (HoldfastError, OSError) as error:
                self.result = self._failed(error)
            self._spent += clock.monotonic() - self._started
            self.result = dataclasses.replace(self.result, duration=self._spent)
        self.session.tell(Ended(result=self.result))
        return self.result

    async def _plan(self, options: PlanOptions) -> StackResult:
        ready = await self._held.enter_async_context(prepared(self.session, self.stack))
        state_watch.require_readable(self.stack, ready.home, self.session.store.last_seen(self.stack.name))
        terraform = Terraform(self.session, ready)
        self._notes += ready.notes
        await terraform.init()
        self._note_lock_file(ready)
        await terraform.validate()
        code = await terraform.plan(options)
        plan, plan_json = await terraform.show()
        self._register_secrets(plan)
        prior = await self._prior(terraform)
        state_watch.require_same_place(
            self.stack, ready.home, self.session.store.last_seen(self.stack.name), prior
        )
        state_watch.record(self.session.store, self.stack.name, ready.home, prior)
        return self._judge(terraform, plan, plan_json, prior, exit_code=code)

    def _judge(
        self, terraform: Terraform, plan: Plan, plan_json: bytes, prior: StateFile, *, exit_code: int
    ) -> StackResult:
        ready = terraform.prepared
        plan_file = (ready.work.module / PLAN_FILE).read_bytes()
        lock = _bytes(ready.work.lock_file)
        seen = state_watch.identity(prior)
        parts = DigestParts(
            plan=sha256(plan_file),
            lineage=seen.lineage,
            serial=seen.serial,
            lock=sha256(lock) if lock is not None else None,
            inputs=ready.inputs,
        )
        self._ready = _Ready(
            terraform=terraform,
            plan=plan,
            plan_json=plan_json,
            parts=parts,
            prior=seen,
            ephemeral=self._has_ephemeral_variables(),
        )
        return self._judged(plan, terraform, parts.digest(), changes=plan.has_changes or exit_code != 0)

    def _judged(self, plan: Plan, terraform: Terraform, digest: str, *, changes: bool) -> StackResult:
        """What the guard makes of a plan, be it new or from a bundle."""
        decision = understood(plan)
        status = Status.PLANNED if changes else Status.UNCHANGED
        error = None
        if isinstance(decision, Deny):
            status = Status.REFUSED
            error = ErrorShown(code=decision.reasons[0].code, message=decision.reasons[0].message)
        return StackResult(
            stack=self.stack,
            status=status,
            engine=terraform.identity,
            run=self.id,
            digest=digest,
            plan=plan,
            decision=decision,
            error=error,
            problems=(error,) if error else (),
            notes=tuple(self._notes),
        )

    async def _prior(self, terraform: Terraform) -> StateFile:
        """The state the plan was made against: it lies in the plan file, or, encrypted, in the backend."""
        try:
            with zipfile.ZipFile(terraform.prepared.work.module / PLAN_FILE) as archive:
                return read_state(archive.read("tfstate"))
        except (zipfile.BadZipFile, KeyError):
            return read_state(await terraform.state_pull())

    # A bundle instead of a plan

    async def restore(self, bundle: Bundle) -> StackResult:
        """Bring a bundle's plan into a work directory, as if it had just been made there."""
        async with self.session.places:
            self._started = clock.monotonic()
            try:
                self._refuse_when_stopping()
                self.result = await self._restore(bundle)
            except (HoldfastError, OSError) as error:
                self.result = dataclasses.replace(self._failed(error), digest=bundle.digest)
            self._spent += clock.monotonic() - self._started
            self.result = dataclasses.replace(self.result, duration=self._spent)
        return self.result

    async def _restore(self, bundle: Bundle) -> StackResult:
        ready = await self._held.enter_async_context(prepared(self.session, self.stack))
        state_watch.require_readable(self.stack, ready.home, self.session.store.last_seen(self.stack.name))
        self._require_same(bundle, ready)
        terraform = Terraform(self.session, ready)
        if bundle.lock is not None:
            ready.work.lock_file.write_bytes(bundle.lock)
        await terraform.init()
        if bundle.lock is not None and ready.work.lock_file.read_bytes() != bundle.lock:
            raise Refused(
                "HF-BUND-6",
                f"{self.stack.name}: the providers of this plan cannot be had again exactly",
                hint="Make a new plan.",
            )
        (ready.work.module / PLAN_FILE).write_bytes(bundle.plan)
        if bundle.made is not None:
            put_back(ready.work, bundle.made)
        plan = read_plan(bundle.json)
        self._register_secrets(plan)
        self._ready = _Ready(
            terraform=terraform,
            plan=plan,
            plan_json=bundle.json,
            parts=bundle.parts,
            prior=StateSeen(lineage=bundle.parts.lineage, serial=bundle.parts.serial),
            ephemeral=bundle.ephemeral,
        )
        return self._judged(plan, terraform, bundle.digest, changes=bundle.changes)

    def _require_same(self, bundle: Bundle, ready: Prepared) -> None:
        """The stack, the engine and the inputs the plan was made for, or no apply."""
        identity = ready.engine.identity
        if bundle.engine != {"product": identity.product.value, "version": identity.version}:
            raise Refused(
                "HF-BUND-5",
                f"{self.stack.name}: planned with {bundle.engine['product']} {bundle.engine['version']}, "
                f"here it would run with {identity.product} {identity.version}",
                hint="A plan belongs to one version. Install that one, or make a new plan.",
            )
        moved = [
            what
            for what, then, now in (
                ("its module", bundle.module, self.stack.module),
                ("its workspace", bundle.workspace, self.stack.workspace),
                ("the place of its state", bundle.place, ready.home.place),
                ("its code, variables or files", bundle.parts.inputs, ready.inputs),
            )
            if then != now
        ]
        if moved:
            raise Refused(
                "HF-BUND-6",
                f"{self.stack.name}: {' and '.join(moved)} changed since the plan was made",
                hint="Make a new plan.",
            )

    # Apply

    async def apply(self) -> StackResult:
        if self.result.status is not Status.PLANNED:
            return self.result
        async with self.session.places:
            self._started = clock.monotonic()
            planned = self.result
            try:
                self._refuse_when_stopping()
                self.result = await self._apply(planned)
            except (HoldfastError, OSError) as error:
                failed = self._failed(error)
                self.result = dataclasses.replace(
                    planned, status=failed.status, error=failed.error, problems=failed.problems
                )
            self._spent += clock.monotonic() - self._started
            self.result = dataclasses.replace(self.result, duration=self._spent)
        self.session.tell(Ended(result=self.result))
        return self.result

    async def _apply(self, planned: StackResult) -> StackResult:
        ready = self._ready
        if ready is None or planned.digest is None:
            raise Failed("HF-RUN-1", f"{self.stack.name}: there is no plan to apply")
        match planned.decision:
            case Allow():
                pass
            case NeedApproval() | Deny():
                return planned
        store = self.session.store
        with store.at_work(self.stack.name, f"{self.session.who}, run {self.id}") as holder:
            if holder is not None:
                raise Busy(
                    "HF-LOCK-2",
                    f"{self.stack.name} is being applied already by {holder}",
                    hint="Wait until that is done, then plan again.",
                )
            self._refuse_unless_intact(ready, planned.digest)
            if not store.mark_used(planned.digest, run=self.id, stack=self.stack.name, who=self.session.who):
                raise used(self.stack.name, store.used(planned.digest) or {})
            try:
                return await self._apply_marked(planned, ready)
            except OSError as error:
                raise cannot_be_told(self.stack.name, error) from error

    def _refuse_unless_intact(self, ready: _Ready, digest: str) -> None:
        """The last moment: what lies in the work directory is what was planned and approved."""
        plan_file = ready.terraform.prepared.work.module / PLAN_FILE
        if sha256(plan_file.read_bytes()) != ready.parts.plan or ready.parts.digest() != digest:
            raise Refused("HF-BUND-3", f"{self.stack.name}: the plan changed after it was shown")

    async def _apply_marked(self, planned: StackResult, ready: _Ready) -> StackResult:
        terraform, work = ready.terraform, ready.terraform.prepared.work
        watch = ApplyWatch(self.session, self.stack.name, ready.plan)
        heard = Heard(on_event=watch.event)
        files = terraform.prepared.variables_files if ready.ephemeral else ()
        answer = await terraform.apply(files, heard)
        if (work.module / UNSAVED_FILE).exists():
            raise self._unsaved(work.module / UNSAVED_FILE, heard)
        if answer.killed:
            raise unknown_outcome(self.stack.name, answer)
        await self._record_after(terraform)
        if answer.code != 0:
            raise self._apply_failure(terraform, answer, heard, watch)
        return dataclasses.replace(
            planned,
            status=Status.APPLIED,
            outputs={
                one.name: Output(value=None if one.sensitive else one.value, sensitive=one.sensitive)
                for one in heard.outputs
            },
            notes=tuple(self._notes),
        )

    def _apply_failure(
        self, terraform: Terraform, answer: Answer, heard: Heard, watch: ApplyWatch
    ) -> HoldfastError:
        name, done = self.stack.name, f"{watch.finished} of {watch.total} changes were made and saved"
        if answer.insisted and watch.unfinished:
            return left_at_once(name, watch.unfinished, done)
        if answer.timed_out:
            return Failed(
                "HF-TIME-1",
                f"{name}: the apply took longer than its time limit and was stopped; {done}",
                hint="Plan again to see what is left.",
            )
        if answer.interrupted:
            return Cancelled(
                "HF-RUN-2", f"{name}: stopped as asked; {done}", hint="Plan again to see what is left."
            )
        return terraform.said("apply", answer, heard)

    def _unsaved(self, left: Path, heard: Heard) -> UnknownOutcome:
        """Terraform could not write the state: this copy is all there is."""
        file = keep_unsaved(self.session, self.stack, left)
        why = next((f" ({' '.join(one.detail.split())})" for one in heard.diagnostics if one.detail), "")
        return UnknownOutcome(
            "HF-STATE-5",
            f"{self.stack.name}: Terraform could not save the state{why}; it is kept in {file}",
            hint=f"Save it when the backend answers again: holdfast state push {self.stack.name} {file}",
        )

    async def _record_after(self, terraform: Terraform) -> None:
        """What the state is now. That it cannot be read must not hide how the apply ended."""
        try:
            home = terraform.prepared.home
            content = home.file.read_bytes() if home.file is not None else await terraform.state_pull(heeds=2)
        except (OSError, HoldfastError) as error:
            self._notes.append(f"the state could not be read after the apply: {error}")
            return
        state_watch.record(self.session.store, self.stack.name, home, read_state(content))

    # For a bundle

    def bundle(self, *, dependencies: dict[str, StateSeen], selection: tuple[str, ...]) -> Bundle | None:
        """What `plan --out` writes; None when there is no plan."""
        ready, result = self._ready, self.result
        if ready is None or result.digest is None or result.engine is None:
            return None
        work = ready.terraform.prepared.work
        return Bundle(
            stack=self.stack.name,
            run=self.id,
            digest=result.digest,
            parts=ready.parts,
            store=self.session.store.id(),
            engine={"product": result.engine.product.value, "version": result.engine.version},
            module=self.stack.module,
            place=ready.terraform.prepared.home.place,
            workspace=self.stack.workspace,
            dependencies=dependencies,
            selection=selection,
            created=clock.now().isoformat(),
            environment=self.stack.environment,
            production=self.stack.production,
            changes=result.status is not Status.UNCHANGED,
            ephemeral=ready.ephemeral,
            plan=(work.module / PLAN_FILE).read_bytes(),
            json=ready.plan_json,
            lock=_bytes(work.lock_file),
            made=made_since(work, ready.terraform.prepared.laid_out),
        )

    @property
    def state_seen(self) -> StateSeen | None:
        return self._ready.prior if self._ready else None

    @property
    def lock_file(self) -> bytes | None:
        """The dependency lock file as init left it; None before that."""
        return _bytes(self._ready.terraform.prepared.work.lock_file) if self._ready else None

    # Ends without Terraform

    def refuse(self, error: HoldfastError) -> None:
        self.result = self._failed(error)
        self.session.tell(Ended(result=self.result))

    def decline(self) -> None:
        """The person looked at the plan and said no."""
        self.result = dataclasses.replace(
            self.result,
            status=Status.CANCELLED,
            error=ErrorShown(code="HF-RUN-4", message=f"{self.stack.name}: not applied, as you answered"),
        )

    # Small things

    def _has_ephemeral_variables(self) -> bool:
        module = self.session.code.module(self.stack.module)
        return any(block.body.attribute("ephemeral") is not None for block in module.blocks("variable"))

    def _note_lock_file(self, ready: Prepared) -> None:
        now = _bytes(ready.work.lock_file)
        if now is not None and now != ready.source_lock:
            what = "is missing in the source" if ready.source_lock is None else "would change"
            self._notes.append(
                f"the dependency lock file {what}; `holdfast plan --lockfile update` writes it back"
            )

    def _register_secrets(self, plan: Plan) -> None:
        for value in sensitive_values(plan):
            self.session.redactor.register(value)

    def _refuse_when_stopping(self) -> None:
        if self.session.stop.level:
            raise Cancelled("HF-RUN-2", f"{self.stack.name}: not started, because the change was stopped")

    def _failed(self, fault: HoldfastError | OSError) -> StackResult:
        error = unusable(fault) if isinstance(fault, OSError) else fault
        problems = tuple(
            ErrorShown(code=one.code, message=one.message, hint=one.hint, place=one.place)
            for one in error.problems
        )
        status = Status.CANCELLED if isinstance(error, Cancelled) else STATUS_OF_EXIT[error.exit]
        return StackResult(
            stack=self.stack,
            status=status,
            engine=self.session.choose(self.stack).engine if error.exit is not error.exit.USAGE else None,
            run=self.id,
            error=problems[0],
            problems=problems,
            notes=tuple(self._notes),
        )


def cannot_be_told(stack: str, error: OSError) -> UnknownOutcome:
    """The machine failed us while Terraform was at work, or before its end was written down."""
    return UnknownOutcome(
        "HF-RUN-6",
        f"{stack}: how the apply ended cannot be told: {unusable(error).problem.message}",
        hint=f"Look at the provider's side and at the state (holdfast state pull {stack}), then plan again.",
    )


def used(stack: str, mark: dict[str, object]) -> Refused:
    return Refused(
        "HF-BUND-4",
        f"{stack}: this plan was used already, by run {mark.get('run')} ({mark.get('who')}) at {mark.get('at')}",
        hint="A plan is applied at most once. Make a new plan.",
    )


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
