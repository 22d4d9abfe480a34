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


def checked(*stacks: StackReport, errors: int = 2, operation: str = "plan") -> ChangeReport:
    """The checks found something as well."""
    findings = tuple(
        Trouble(code="HF207", message=f"a secret, {number}", file="a/main.tf", line=number)
        for number in range(1, errors + 1)
    )
    found = f"{errors} errors, 5 warnings" if errors else "5 warnings"
    return ChangeReport(
        operation=operation, headline="", stacks=stacks, findings=findings, checks_summary=found
    )
