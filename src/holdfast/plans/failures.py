"""What the failure of a command of Terraform means: its own words, with their places in the source. Pure."""

from __future__ import annotations

import posixpath

from holdfast.kernel.errors import EngineError, Failed, HoldfastError, Place, Problem, Refused
from holdfast.plans.errors import Cancelled, StateLocked, TerraformFailed, tail
from holdfast.plans.workdir import StackWorkdir
from holdfast.terraform.diagnostics import Diagnostic, parse_lock_info
from holdfast.terraform.engine.interface import CommandResult, Product
from holdfast.terraform.stream import CommandOutput
from holdfast.terraform.versions import Version

_LOCKED = "Error acquiring the state lock"
_STALE = frozenset({"Saved plan is stale", "Saved plan does not match the given state"})
_NAMES_HTTP_HOLDER = Version.parse("1.15.0")
_SAYS_NOT_WHO = "This Terraform does not say who holds an http lock"
_CODES = {"init": "HF-TF-1", "validate": "HF-TF-2", "plan": "HF-TF-3", "apply": "HF-TF-4"}


def failure(ready: StackWorkdir, phase: str, answer: CommandResult, heard: CommandOutput) -> HoldfastError:
    """What the end of a command that changes nothing means."""
    name = ready.stack.name
    if answer.timed_out:
        return Failed(
            "HF-TIME-1",
            f"{name}: {phase} took longer than its time limit and was stopped",
            hint="Raise engine.time_limits in holdfast.yaml, or find out what it waits for.",
        )
    if answer.interrupted:
        return Cancelled("HF-RUN-2", f"{name}: stopped during {phase}, as asked; nothing was changed")
    if answer.killed:
        return EngineError(
            "HF-ENG-6",
            f"{name}: the engine ended without an answer during {phase} (code {answer.code}): "
            f"{tail(answer.log)}",
            hint="Nothing was changed. Run it again; if it happens again, report it with this log.",
        )
    return said(ready, phase, answer, heard)


def said(ready: StackWorkdir, phase: str, answer: CommandResult, heard: CommandOutput) -> HoldfastError:
    """Terraform's own words."""
    name = ready.stack.name
    errors = [one for one in heard.diagnostics if one.severity == "error"]
    if any(one.summary == _LOCKED for one in errors) or _LOCKED.encode() in answer.err:
        detail = next((one.detail for one in errors if one.summary == _LOCKED), _text(answer, heard))
        if _is_blind(ready):
            return StateLocked(name, None, _SAYS_NOT_WHO)
        return StateLocked(name, parse_lock_info(detail), " ".join(detail.split()))
    if any(one.summary in _STALE for one in errors):
        return Refused(
            "HF-BUND-11",
            f"{name}: its state changed after the plan was made, so the plan was not applied",
            hint="Make a new plan.",
        )
    code = _CODES.get(phase, "HF-TF-5")
    # What names a place says more than the sentence that sums it up, whichever Terraform prints first.
    problems = tuple(
        problem_of(ready, code, one) for one in sorted(errors, key=lambda one: one.place is None)
    )
    message = problems[0].message if problems else _text(answer, heard)
    return TerraformFailed(
        code, message or f"{name}: {phase} failed with exit code {answer.code}", problems=problems
    )


def _is_blind(ready: StackWorkdir) -> bool:
    """Terraform before 1.15 names the one who asks for an http lock, not the one who holds it."""
    engine = ready.engine.identity
    is_old = engine.product is Product.TERRAFORM and Version.parse(engine.version) < _NAMES_HTTP_HOLDER
    return ready.home.type == "http" and is_old


def problem_of(ready: StackWorkdir, code: str, one: Diagnostic) -> Problem:
    """A diagnostic names files relative to the work directory; a person knows them by the source."""
    detail = " ".join(one.detail.split())
    message = f"{one.summary}: {detail}" if detail else one.summary
    place = None
    if one.place is not None:
        file = posixpath.normpath(posixpath.join(ready.stack.module, one.place.file))
        place = Place(file=file, line=one.place.line, column=one.place.column)
    return Problem(code=code, message=message, place=place)


def _text(answer: CommandResult, heard: CommandOutput) -> str:
    """Words that came outside the JSON stream, for a person to read; nothing is decided by them."""
    text = "\n".join([answer.err.decode(errors="replace").strip(), *heard.noise]).strip()
    return text or answer.out.decode(errors="replace").strip()
