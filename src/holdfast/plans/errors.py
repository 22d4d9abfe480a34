"""What a failed command of Terraform means: its diagnostics, its signals, and the errors made of them.

HoldfastError
├── Cancelled          the user stopped it
├── InputMissing       another stack has to be applied first
├── Failed
│   └── TerraformFailed    Terraform reported errors
├── Busy
│   └── StateLocked        another process holds the state lock
└── UnknownOutcome         an apply was interrupted (`apply_interrupted`, `unfinished_apply`)
"""

from __future__ import annotations

import posixpath
import re
from typing import Protocol

from holdfast.config.stack_rules import OWNED_VARIABLES
from holdfast.kernel.errors import (
    Busy,
    EngineError,
    Failed,
    HoldfastError,
    Place,
    Problem,
    Refused,
    UnknownOutcome,
)
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import without_controls
from holdfast.plans.environment.backend_config import StateHome
from holdfast.plans.status import STATUS_OF_EXIT, Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import INLINE_FILE
from holdfast.terraform.diagnostics import Diagnostic, LockInfo, parse_lock_info
from holdfast.terraform.engine.interface import CommandResult, Engine, Product
from holdfast.terraform.stream import CommandOutput
from holdfast.terraform.versions import Version

_VARIABLE = pattern(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_LOCKED = "Error acquiring the state lock"
_DECRYPTION_HINTS = {
    "decryption failed for all provided methods": "Check the passphrase or key that OpenTofu gets: it must "
    "be the one that encrypted this. After a change of keys, name the old method in a `fallback` block.",
    "unencrypted payload without unencrypted method": "Encryption is set up, but this is not encrypted yet. "
    'To turn it on: add method "unencrypted" "old" {} and, in the `state` (or `plan`) block, '
    "fallback { method = method.unencrypted.old }. Remove both after the first apply.",
    "encrypted and can not be read without an encryption configuration": "The state is encrypted, "
    "and the stack has no encryption settings: restore its `encryption` block, or its TF_ENCRYPTION.",
}
"""By what OpenTofu says if it cannot decrypt a state or plan; with a local backend, as a lock error."""
_ENCRYPTION_PAGE = "See docs/engines.md, Encryption."
_STALE = frozenset({"Saved plan is stale", "Saved plan does not match the given state"})
_NO_MODULE_CODE = "Unreadable module directory"
"""Terraform repeats it for every call of a module that it could not download."""
_NAMES_HTTP_HOLDER = Version.parse("1.15.0")
_HOLDER_NOT_NAMED = "This version of Terraform does not report who holds an http lock."
_INIT_NEEDED = (
    "Backend initialization required",
    "Inconsistent dependency lock file",
    "Required plugins are not installed",
    "Missing required provider",
    "Module not installed",
    "Module source has changed",
    "Module version requirements have changed",
)
_MOST_WARNINGS = 5
_CODES = {"init": "HF-TF-1", "validate": "HF-TF-2", "plan": "HF-TF-3", "apply": "HF-TF-4"}


class Cancelled(HoldfastError):  # noqa: N818 - the status it becomes
    """The user asked to stop, and the command stopped."""


class InputMissing(HoldfastError):  # noqa: N818 - the stack is blocked, it did not fail
    """An output that a stack needs does not exist yet: its stack has to be applied first."""


class TerraformFailed(Failed):
    """Terraform reported errors: each of its diagnostics is a problem with a place in the source."""

    def __init__(self, code: str, message: str, *, problems: tuple[Problem, ...]) -> None:
        super().__init__(code, message, hint=problems[0].hint if problems else None)
        if problems:
            self.problems = problems

    @property
    def needs_init(self) -> bool:
        return any(problem.message.startswith(_INIT_NEEDED) for problem in self.problems)


class StateLocked(Busy):
    """Terraform could not acquire the state lock. `lock` is None where it does not name the holder."""

    def __init__(self, stack: str, lock: LockInfo | None, detail: str) -> None:
        holder = f"by {lock}" if lock is not None else f"by another process. {detail}"
        super().__init__(
            "HF-LOCK-1",
            f"{stack}: the state is locked {holder}",
            hint="Wait until the lock is released, then try again. If you are sure that its holder is gone: "
            f"holdfast state unlock {stack} {lock.id if lock is not None else 'ID'} --reason TEXT",
        )
        self.lock = lock


def status_of(error: HoldfastError) -> Status:
    """The status of a stack whose run raised an error."""
    match error:
        case Cancelled():
            return Status.CANCELLED
        case InputMissing():
            return Status.BLOCKED
        case _:
            return STATUS_OF_EXIT[error.exit]


_CONFINED = (
    "Holdfast confines the programs of a plan: they cannot create entries in some folders, such as the one "
    "with its key. `holdfast doctor` lists them. See docs/engines.md, Confinement."
)


_FRAME = re.compile(r"^[╷│╵][ \t]?", re.MULTILINE)
"""What Terraform draws around its errors."""
_BOILERPLATE = " To silence these warnings, use TF_VAR_"


class CommandTarget(Protocol):
    """The stack, engine and backend of a command: a `StackWorkdir`."""

    @property
    def stack(self) -> Stack: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def home(self) -> StateHome: ...
    @property
    def not_passed(self) -> frozenset[str]: ...


def command_error(
    target: CommandTarget, phase: str, answer: CommandResult, output: CommandOutput
) -> HoldfastError:
    """The error of a failed command that changes nothing."""
    name = target.stack.name
    if answer.timed_out:
        return Failed(
            "HF-TIME-1",
            f"{name}: {phase} took longer than its time limit and was stopped",
            hint="Raise engine.time_limits in holdfast.yaml, or check what Terraform is waiting for.",
        )
    if answer.interrupted:
        return Cancelled("HF-RUN-2", f"{name}: cancelled during {phase}; nothing was changed")
    if answer.killed:
        return EngineError(
            "HF-ENG-6",
            f"{name}: the engine crashed during {phase} (code {answer.code}): {first_log_line(answer.log)}",
            hint="Nothing was changed. Run it again; if it happens again, report it with this log.",
        )
    return terraform_error(target, phase, answer, output)


def terraform_error(
    target: CommandTarget, phase: str, answer: CommandResult, output: CommandOutput
) -> HoldfastError:
    """The error that Terraform itself reported."""
    name = target.stack.name
    errors = [diagnostic for diagnostic in output.diagnostics if diagnostic.severity == "error"]
    if (undecrypted := _decryption_error(name, errors, answer, output)) is not None:
        return undecrypted
    locked = next((diagnostic for diagnostic in errors if diagnostic.summary == _LOCKED), None)
    if locked is not None or _LOCKED.encode() in answer.err:
        detail = locked.detail if locked is not None else _text(answer, output)
        if _hides_lock_holder(target):
            return StateLocked(name, None, _HOLDER_NOT_NAMED)
        return StateLocked(name, parse_lock_info(detail), " ".join(detail.split()))
    if any(diagnostic.summary in _STALE for diagnostic in errors):
        return Refused(
            "HF-BUND-11",
            f"{name}: the state changed after the plan was made, so the plan was not applied",
            hint=f"Plan again: holdfast plan {name}",
        )
    code = _CODES.get(phase, "HF-TF-5")
    # An error with a place says more than Terraform's summary of it, whichever it prints first.
    causes = [diagnostic for diagnostic in errors if diagnostic.summary != _NO_MODULE_CODE] or errors
    in_order = sorted(causes, key=lambda diagnostic: diagnostic.place is None)
    unique = dict.fromkeys(problem_from_diagnostic(target, code, diagnostic) for diagnostic in in_order)
    problems = tuple(unique)
    message = problems[0].message if problems else _text(answer, output)
    return TerraformFailed(
        code, message or f"{name}: {phase} failed with exit code {answer.code}", problems=problems
    )


def _decryption_error(
    name: str, errors: list[Diagnostic], answer: CommandResult, output: CommandOutput
) -> TerraformFailed | None:
    texts = [f"{error.summary} {error.detail}" for error in errors] or [_text(answer, output)]
    for text in (" ".join(text.replace("│", " ").split()) for text in texts):
        for cause, hint in _DECRYPTION_HINTS.items():
            if cause in text:
                message = f"{name}: OpenTofu cannot decrypt the state or plan: {cause}"
                problem = Problem(code="HF-TF-6", message=message, hint=f"{hint} {_ENCRYPTION_PAGE}")
                return TerraformFailed(problem.code, message, problems=(problem,))
    return None


def _hides_lock_holder(target: CommandTarget) -> bool:
    """Terraform before 1.15 names the process that asks for an http lock, not the one that holds it."""
    engine = target.engine.identity
    is_old = engine.product is Product.TERRAFORM and Version.parse(engine.version) < _NAMES_HTTP_HOLDER
    return target.home.type == "http" and is_old


def problem_from_diagnostic(target: CommandTarget, code: str, diagnostic: Diagnostic) -> Problem:
    """With its resource and its place in the source: Terraform names files relative to the work directory."""
    summary, detail = (" ".join(text.split()) for text in (diagnostic.summary, diagnostic.detail))
    message = f"{summary}: {detail}" if detail else summary
    message = f"{diagnostic.address}: {message}" if diagnostic.address else message
    # Only for display: a file that the user does not have says nothing.
    message = message.replace(f'file "{INLINE_FILE}"', "holdfast.yaml or -var").partition(_BOILERPLATE)[0]
    inline = diagnostic.place is not None and diagnostic.place.file == INLINE_FILE
    place = None
    if diagnostic.place is not None and not inline:
        file = posixpath.normpath(posixpath.join(target.stack.module, diagnostic.place.file))
        place = Place(file=file, line=diagnostic.place.line, column=diagnostic.place.column)
    # Only a hint: nothing is decided by the text.
    denied = "permission denied" in message.lower() and bool(target.engine.confinement.measures)
    hint = _CONFINED if denied else _variable_hint(message, target.not_passed)
    if inline:
        hint = f"The value is from -var, or from where this says: holdfast config show {target.stack.name}"
    return Problem(code=code, message=message, hint=hint, place=place, address=diagnostic.address)


def warnings_in(target: CommandTarget, output: CommandOutput) -> tuple[str, ...]:
    """Terraform's warnings, each once, with its place in the source."""
    diagnostics = (diagnostic for diagnostic in output.diagnostics if not diagnostic.is_error)
    problems = [problem_from_diagnostic(target, "", diagnostic) for diagnostic in diagnostics]
    unique = tuple(
        dict.fromkeys(
            f"warning: {problem.message}{f' ({problem.place})' if problem.place is not None else ''}"
            for problem in problems
        )
    )
    more = len(unique) - _MOST_WARNINGS
    return (*unique[:_MOST_WARNINGS], *((f"and {more} more warnings",) if more > 0 else ()))


def _variable_hint(message: str, not_passed: frozenset[str]) -> str | None:
    """For an error that names an environment variable which the caller has and Terraform does not get."""
    name = next((word for word in _VARIABLE.findall(message) if word in not_passed), None)
    if name is None or any(re.fullmatch(names.pattern, name) for names in OWNED_VARIABLES):
        return None
    return (
        f"{name} is set where you started Holdfast, but Terraform does not get it. Add it to holdfast.yaml: "
        f"pass_env: [{name}]"
    )


def _text(answer: CommandResult, output: CommandOutput) -> str:
    """Output outside the JSON stream, to be shown; nothing is decided by it."""
    text = "\n".join([answer.err.decode(errors="replace").strip(), *output.noise]).strip()
    text = _FRAME.sub("", text or answer.out.decode(errors="replace"))
    return without_controls(text.strip())


# An apply whose outcome is unknown


def apply_interrupted(name: str, run: str, answer: CommandResult) -> UnknownOutcome:
    what = "was interrupted"
    if answer.timed_out:
        what = "exceeded its time limit, did not stop within the grace period and was killed"
    return UnknownOutcome(
        "HF-RUN-6",
        f"{name}: the apply {what} (code {answer.code}): {first_log_line(answer.log)}",
        hint="Its outcome is unknown. Nothing is planned or applied on this stack until this is resolved: "
        f"holdfast runs reconcile {run}",
    )


def unfinished_apply(
    code: str, name: str, run: str, what: str, unfinished: tuple[str, ...], more: str = ""
) -> UnknownOutcome:
    """Terraform exited by itself, but the provider did not report a result for these resources."""
    return UnknownOutcome(
        code,
        f"{name}: {what}. Outcome unknown: {', '.join(unfinished)}",
        hint="These resources may exist without being in the state. See what is known: "
        f"holdfast runs reconcile {run}{more}",
    )


def first_log_line(log: str | None) -> str:
    """The first line that a crashed process wrote: usually the cause."""
    lines = [line for line in without_controls(log or "").splitlines() if line.strip()]
    return lines[0] if lines else "no log output"
