"""Reports as values, for tests that run nothing."""

from __future__ import annotations

from holdfast.notify.report import ChangeReport, Risk, Rule, StackReport, Trouble

DIGEST = "5f2c" * 16


def ready(name: str, **counts: int) -> StackReport:
    found = counts or {"create": 1}
    return StackReport(
        name=name, status="planned", environment="dev", counts=found, diff=(f"+ thing.of_{name}  created",)
    )


def losing(name: str, *addresses: str) -> StackReport:
    """Allowed, and something is lost."""
    return StackReport(
        name=name,
        status="planned",
        counts={"delete": len(addresses)},
        risks=tuple(Risk(address=one, what="deleted because its key is gone") for one in addresses),
        diff=tuple(f"- {one}  deleted" for one in addresses),
    )


def refused(name: str, *addresses: str) -> StackReport:
    return StackReport(
        name=name,
        status="refused",
        environment="prod",
        production=True,
        decision="deny",
        counts={"delete": len(addresses)},
        risks=tuple(Risk(address=one, what="deleted because its key is gone") for one in addresses),
        rules=tuple(
            Rule(code="HF-GUARD-1", address=one, message=f"{one} goes", rule="deletions in production")
            for one in addresses
        ),
        diff=tuple(f"- {one}  deleted" for one in addresses),
        digest=DIGEST,
    )


def failed(name: str, message: str = "it broke", **place: object) -> StackReport:
    file, line = place.get("file"), place.get("line")
    trouble = Trouble(
        code="HF-TF-1",
        message=message,
        hint="Mend it.",
        file=str(file) if file else None,
        line=line if isinstance(line, int) else None,
    )
    return StackReport(name=name, status="failed", troubles=(trouble,))


def plain(name: str, status: str) -> StackReport:
    return StackReport(name=name, status=status)


def report(*stacks: StackReport, operation: str = "plan", headline: str = "") -> ChangeReport:
    return ChangeReport(operation=operation, headline=headline, stacks=stacks)
