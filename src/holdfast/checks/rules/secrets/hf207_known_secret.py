from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.contents import ContentKind, History, in_utf8
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Checkout, Module
from holdfast.checks.secrets.known_secrets import (
    GOOGLE_KEYS,
    is_api_description,
    is_sample_document,
    known_in,
)
from holdfast.hcl.eval.code import is_code
from holdfast.kernel.errors import Place
from holdfast.system.repository import NOT_SOURCE

_BESIDE = (
    ".json", ".yaml", ".yml", ".tpl", ".tftpl", ".tmpl", ".sh", ".ps1", ".hcl", ".tfbackend", ".ini", ".conf",
    ".cfg", ".toml", ".properties", ".xml", ".j2",
)  # fmt: skip
_VARIABLES = (".tfvars", ".tfvars.json")
_OF_APPS = "google-services.json"
"""Part of every app: its keys are not secret."""
_LARGEST = 5_000_000
_GOOGLE_HINT = (
    "If it is the key of a page or an app, restrict it to its referrers and APIs. If not, rotate it, and "
    "read it from a secret store."
)


def _module(module: Module) -> Iterator[Finding]:
    for file in module.files:
        yield from _check(module.checkout, file.path)


def _repository(checkout: Checkout) -> Iterator[CheckResult]:
    for path in checkout.files:
        if not path.endswith(_BESIDE) or path.endswith(_VARIABLES) or is_code(path.rpartition("/")[2]):
            continue
        if not NOT_SOURCE.isdisjoint(path.split("/")):
            continue
        if len(checkout.content(path) or b"") > _LARGEST:
            yield Skipped(reason=f"larger than {_LARGEST // 1_000_000} MB", file=path)
            continue
        yield from _check(checkout, path)


def _check(checkout: Checkout, path: str) -> Iterator[Finding]:
    reported: set[tuple[str, int]] = set()
    text = in_utf8(checkout.content(path) or b"").decode(errors="replace").removeprefix("\ufeff")
    # Code may contain a description in a heredoc; what is outside it counts.
    name = path.rpartition("/")[2]
    described = not is_code(name) and (is_api_description(text) or is_sample_document(text))
    for secret in known_in(text):
        if (secret.what, secret.line) not in reported:
            reported.add((secret.what, secret.line))
            place = Place(file=path, line=secret.line, column=secret.column)
            public = name == _OF_APPS and secret.what == GOOGLE_KEYS
            severity = Severity.NOTE if described or public else secret.severity
            message = f"secret in plain text ({secret.what})"
            hint = _GOOGLE_HINT if secret.what == GOOGLE_KEYS else None
            yield finding(place, message, hint=hint, severity=severity, group=secret.digest)


def _history(history: History) -> Iterator[CheckResult]:
    """Secrets in old versions only; those that are still in the tree are reported there."""
    secrets = [trace for trace in history.traces if trace.mark is ContentKind.SECRET]
    there = set(_digests(history.checkout)) if secrets else set()
    for trace in secrets:
        if trace.digest not in there:
            yield finding(
                Place(file=trace.path),
                f"secret in the Git history ({trace.what}): line {trace.line} in commit "
                f"{trace.commit[:12]} of {trace.date[:10]}",
                hint="Rotate the secret now: every clone has it. Then remove it from the history (`git "
                "filter-repo --replace-text`) and have everyone clone again.",
            )
    for unread in history.unread:
        yield Skipped(reason=unread.reason, file=unread.path)


def _digests(checkout: Checkout) -> Iterator[str]:
    for path in checkout.files:
        looked_at = is_code(path.rpartition("/")[2]) or path.endswith((*_BESIDE, *_VARIABLES))
        if looked_at and NOT_SOURCE.isdisjoint(path.split("/")):
            yield from (secret.digest for secret in known_in(checkout.text(path) or ""))


RULE = Rule(
    id="HF207",
    title="Secret in the code",
    fix="Rotate the secret now: it is exposed. Then read it from a secret store or pass it as a "
    "sensitive variable.",
    severity=Severity.ERROR,
    source=_module,
    variables=lambda file: _check(file.checkout, file.path),
    repository=_repository,
    history=_history,
    secret=True,
    everywhere=True,
)
