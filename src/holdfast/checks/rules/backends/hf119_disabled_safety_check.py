from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding

_NO_TLS: Final = "certificates are not verified, so the state can be read and changed in transit"
_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "insecure": _NO_TLS,
        "skip_credentials_validation": "wrong credentials are only noticed in the middle of a run",
        "skip_requesting_account_id": "the account is not verified, so `allowed_account_ids` has no effect",
        "skip_s3_checksum": "a state that is damaged in transit is not noticed",
        "skip_region_validation": "a misspelled region is only noticed in the middle of a run",
    },
    "http": {"skip_cert_verification": _NO_TLS},
    "kubernetes": {"insecure": _NO_TLS},
}
_SEVERITIES: Final = {
    **dict.fromkeys(("insecure", "skip_cert_verification"), Severity.ERROR),
    **dict.fromkeys(("skip_credentials_validation", "skip_region_validation"), Severity.NOTE),
}
"""Of those that are no warnings."""
_ACCOUNTS: Final = ("allowed_account_ids", "forbidden_account_ids")
_OTHER_STORES: Final = frozenset(_FLAGS["s3"]) - {"insecure"}
"""S3-compatible stores need these: there they are fine."""
_PRIVATE: Final = frozenset(("private", "bucket-owner-full-control", "bucket-owner-read"))


def _check(backend: BackendView) -> Iterator[CheckResult]:
    other_store = backend.type == "s3" and backend.is_other_store
    for name, what in _FLAGS.get(backend.type, {}).items():
        if (other_store and name in _OTHER_STORES) or (name == "insecure" and _has_no_tls(backend)):
            continue
        on = backend.flag(name)
        if on is None:
            yield backend.unknown(name)
        elif on:
            yield finding(
                backend.place_of(name),
                f"`{name} = true`: {what}",
                hint=f"Remove `{name}`.",
                severity=_severity(backend, name),
            )
    acl = backend.text("acl")
    if backend.type in ("s3", "cos", "oss") and acl is not None and acl not in _PRIVATE:
        yield finding(
            backend.place_of("acl"),
            f'`acl = "{acl}"` gives others than the bucket owner access to the state',
            hint="Remove `acl` and control access with a bucket policy.",
        )


def _has_no_tls(backend: BackendView) -> bool:
    """There is no certificate to verify: HF116 reports the address."""
    addresses = (backend.text(name) or "" for name in ("endpoint", "endpoints.s3", "host"))
    return any(address.lower().startswith("http://") for address in addresses)


def _severity(backend: BackendView, name: str) -> Severity | None:
    if name == "skip_requesting_account_id" and not any(map(backend.has, _ACCOUNTS)):
        return Severity.NOTE
    return _SEVERITIES.get(name)


RULE = Rule(
    id="HF119",
    title="Backend safety check disabled",
    fix="Remove the setting.",
    severity=Severity.WARNING,
    **for_backends(_check, literals_only=True),
)
