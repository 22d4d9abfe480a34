from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import Home, for_backends
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding


def _judge(home: Home) -> Iterator[CheckResult]:
    if home.type != "s3":
        return
    for name in ("kms_key_id", "sse_customer_key"):
        if not home.has(name):
            continue
        encrypt = home.flag("encrypt")
        if encrypt is None:
            yield home.unknown("encrypt")
        elif not encrypt:
            yield finding(home.place_of(name), f"`{name}` has no effect without `encrypt = true`")


RULE = Rule(
    id="HF117",
    title="Encryption key that is not used",
    why="The s3 backend ignores the key unless `encrypt` is true. The state is then stored with the "
    "bucket's default while everyone assumes that the key protects it.",
    fix="Set `encrypt = true` next to the key; the next write encrypts the state with it.",
    severity=Severity.ERROR,
    **for_backends(_judge),
    bad='terraform {\n  backend "s3" {\n    bucket     = "acme-prod-tfstate-eu-west-1"\n'
    '    key        = "network/terraform.tfstate"\n    kms_key_id = "alias/tfstate"\n  }\n}\n',
    good='terraform {\n  backend "s3" {\n    bucket     = "acme-prod-tfstate-eu-west-1"\n'
    '    key        = "network/terraform.tfstate"\n    encrypt    = true\n'
    '    kms_key_id = "alias/tfstate"\n  }\n}\n',
)
