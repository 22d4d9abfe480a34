"""HF119: a setting that makes a backend look away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.checks.backends.backends import Home, of_orphans, of_stacks
from holdfast.checks.model.interface import Answer, Rule, Severity, finding

_ANYBODY: Final = "no certificate is checked, so anybody on the way can read and change the state"
_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "insecure": _ANYBODY,
        "skip_credentials_validation": "wrong credentials are only noticed in the middle of a run",
        "skip_requesting_account_id": "nobody checks which account this is, `allowed_account_ids` included",
        "skip_s3_checksum": "a state that arrives damaged is not noticed",
        "skip_region_validation": "a misspelt region is only noticed in the middle of a run",
    },
    "http": {
        "skip_cert_verification": _ANYBODY,
    },
    "kubernetes": {
        "insecure": _ANYBODY,
    },
}
_OPEN: Final = ("insecure", "skip_cert_verification")
"""These are errors."""
_OTHER_STORES: Final = frozenset(_FLAGS["s3"]) - {"insecure"}
"""What S3's likes from other makers need: with an endpoint of its own none of it is wrong."""
_ENDPOINTS: Final = frozenset(("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT"))
_PRIVATE: Final = frozenset(("private", "bucket-owner-full-control", "bucket-owner-read"))


def _judge(home: Home) -> Iterator[Answer]:
    elsewhere = home.type == "s3" and (
        home.has("endpoint") or home.has("endpoints.s3") or not _ENDPOINTS.isdisjoint(home.env)
    )
    for name, what in _FLAGS.get(home.type, {}).items():
        if elsewhere and name in _OTHER_STORES:
            continue
        on = home.flag(name)
        if on is None:
            yield home.unknown(name)
        elif on:
            yield finding(
                home.spot(name),
                f"`{name} = true`: {what}",
                hint=f"Take `{name}` away.",
                severity=Severity.ERROR if name in _OPEN else None,
            )
    acl = home.text("acl")
    if home.type in ("s3", "cos", "oss") and acl is not None and acl not in _PRIVATE:
        yield finding(
            home.spot("acl"),
            f'`acl = "{acl}"` gives the state to others than the bucket\'s owner',
            hint="Take `acl` away, and let a policy on the bucket say who may read.",
        )


RULE = Rule(
    id="HF119",
    title="A backend that is told to look away",
    why="These settings were made for tests and for stores that only resemble the real one. On the real one "
    "they turn a check off that stands between a mistake and the state.",
    fix="Take the setting away.",
    severity=Severity.WARNING,
    source=of_orphans(_judge, written=True),
    stack=of_stacks(_judge),
    bad='terraform {\n  backend "s3" {\n    bucket   = "acme-prod-tfstate-eu-west-1"\n'
    '    key      = "network/terraform.tfstate"\n    insecure = true\n  }\n}\n',
    good='terraform {\n  backend "s3" {\n    bucket = "acme-prod-tfstate-eu-west-1"\n'
    '    key    = "network/terraform.tfstate"\n  }\n}\n',
    more="The `skip_*` settings of `s3` are not found beside an endpoint of its own (`endpoints.s3`): S3's "
    "likes from other makers need them. Those of `pg` only leave to somebody else what the backend would "
    "create, and are right.",
)
