from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import Finding, Rule, Severity, finding


def _judge(backend: BackendView) -> Iterator[Finding]:
    if backend.type != "s3" or backend.client_encrypted or not backend.flag("encrypt"):
        return
    if not backend.has("kms_key_id") and not backend.has("sse_customer_key"):
        yield finding(
            backend.place_of("encrypt"),
            "`encrypt = true` without `kms_key_id`: S3 holds the key and decrypts for every reader",
        )


RULE = Rule(
    id="HF118",
    title="State encrypted without your own key",
    why="Without `kms_key_id` the backend requests AES256, even if the bucket's default is a KMS key. "
    "Everyone who can read the bucket can read the state, and no key usage is logged.",
    fix="Set `kms_key_id` to a KMS key; access to the key then also controls access to the state.",
    severity=Severity.NOTE,
    **for_backends(_judge),
)
