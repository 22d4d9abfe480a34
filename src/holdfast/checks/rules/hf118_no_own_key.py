"""HF118: encrypted, but with no key of one's own."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import Home, of_orphans, of_stacks
from holdfast.checks.model.interface import Finding, Rule, Severity, finding


def _judge(home: Home) -> Iterator[Finding]:
    if home.type != "s3" or home.sealed or not home.flag("encrypt"):
        return
    if not home.has("kms_key_id") and not home.has("sse_customer_key"):
        yield finding(
            home.spot("encrypt"),
            "`encrypt = true` without `kms_key_id`: S3 itself has the key, and decrypts for every reader",
        )


RULE = Rule(
    id="HF118",
    title="Encrypted without a key of your own",
    why="Without `kms_key_id` the backend asks for AES256, even where the bucket's own default is a KMS key: "
    "whoever may read the bucket reads the state, and no key's log says so.",
    fix="Name a KMS key in `kms_key_id`; who may use it is then a second lock on the state.",
    severity=Severity.NOTE,
    source=of_orphans(_judge),
    stack=of_stacks(_judge),
    bad='terraform {\n  backend "s3" {\n    bucket  = "acme-prod-tfstate-eu-west-1"\n'
    '    key     = "network/terraform.tfstate"\n    encrypt = true\n  }\n}\n',
    good='terraform {\n  backend "s3" {\n    bucket     = "acme-prod-tfstate-eu-west-1"\n'
    '    key        = "network/terraform.tfstate"\n    encrypt    = true\n'
    '    kms_key_id = "alias/tfstate"\n  }\n}\n',
)
