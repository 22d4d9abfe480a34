"""What became of a gate, as it is shown, stored with the run and written as JSON."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from holdfast.gates.attempts import Attempts, Conclusion, Failed, Passed, Seen, Unchecked
from holdfast.gates.interface import Evidence, NotMet


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"


class GateResult(Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    environment: str | None = None
    verdict: Verdict
    reason: str
    next_step: str | None = None
    attempts: int = 0
    seconds: float = 0.0
    seen: tuple[Seen, ...] = ()
    unlisted: int = 0
    evidence: tuple[Evidence, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name} ({self.environment})" if self.environment else self.name

    def document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "kind": self.kind,
            "environment": self.environment,
            "result": self.verdict.value,
            "reason": self.reason,
            "next_step": self.next_step,
            "attempts": self.attempts,
            "duration_ms": round(self.seconds * 1000),
            "observed": [
                {
                    "met": seen.met,
                    "text": seen.text,
                    "count": seen.count,
                    "first_ms": round(seen.first * 1000),
                    "last_ms": round(seen.last * 1000),
                }
                for seen in self.seen
            ],
            "not_listed": self.unlisted,
            "evidence": [{"title": part.title, "text": part.text} for part in self.evidence],
        }


def gate_result(
    conclusion: Conclusion,
    attempts: Attempts,
    *,
    name: str,
    kind: str,
    environment: str | None,
    seconds: float,
) -> GateResult:
    match conclusion:
        case Passed(reason=reason):
            verdict, step = Verdict.PASSED, None
        case Failed(reason=reason, next_step=step):
            verdict = Verdict.FAILED
        case Unchecked(reason=reason, next_step=step):
            verdict = Verdict.UNCHECKED
        case other:
            assert_never(other)
    return GateResult(
        name=name,
        kind=kind,
        environment=environment,
        verdict=verdict,
        reason=reason,
        next_step=step,
        attempts=attempts.number,
        seconds=seconds,
        seen=attempts.seen,
        unlisted=attempts.unlisted,
        evidence=attempts.last.evidence if isinstance(attempts.last, NotMet) else (),
    )


def redacted(result: GateResult, clean: Callable[[str], str]) -> GateResult:
    """Without secrets, for the run history: what a system answers may contain one."""
    return replace(
        result,
        reason=clean(result.reason),
        next_step=clean(result.next_step) if result.next_step is not None else None,
        seen=tuple(replace(seen, text=clean(seen.text)) for seen in result.seen),
        evidence=tuple(replace(part, text=clean(part.text)) for part in result.evidence),
    )
