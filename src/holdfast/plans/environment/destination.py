"""Where a plan applies and with what, apart from code and variables. Pure.

A destination maps named parts to values: variables of the environment, the account of a role, downloaded
modules, files outside the repository. It says where, not who: roles of one account are one destination, and
credentials never count. It is part of the plan digest, so that a plan is applied only where it was made for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from msgspec import Struct

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.kernel.errors import Refused
from holdfast.kernel.patterns import pattern

Destination = Mapping[str, str]
"""Part to value: readable where it names a place, otherwise a hash, because it may be secret."""

_HASH = "sha256:"
_CALLER_ACCOUNT = "AWS account of the caller"
_WHERE = pattern(
    r"AWS_(DEFAULT_)?REGION|AWS_ENDPOINT_URL(_\w+)?|AWS_(?!EC2_METADATA_)\w+_ENDPOINT|AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
    r"|(ARM|AZURE)_(SUBSCRIPTION_ID|TENANT_ID|ENVIRONMENT|METADATA_HOST|METADATA_HOSTNAME|AUTHORITY_HOST)"
    r"|GOOGLE_(CLOUD_)?(PROJECT|REGION|ZONE|UNIVERSE_DOMAIN|QUOTA_PROJECT)|GOOGLE_BILLING_PROJECT"
    r"|GOOGLE_\w+_ENDPOINT|KUBE_(HOST|CTX|CTX_CLUSTER|NAMESPACE)"
)
"""Variables that say where, also among those that a stack inherits from the caller."""
_PLAIN = pattern(r"[\w.:/-]{1,200}")
_ARN = pattern(r"arn:(?P<partition>[a-z-]+):(?:iam|sts)::(?P<account>\d{12}):.+")


class AwsProfile(Struct, frozen=True, kw_only=True):
    """What the caller's AWS profile says about where."""

    region: str | None = None
    account: str | None = None
    endpoint: str | None = None


def aws_profile(settings: Mapping[str, str]) -> AwsProfile:
    role = settings.get("role_arn")
    return AwsProfile(
        region=settings.get("region"),
        account=_account(role) if role is not None else settings.get("sso_account_id"),
        endpoint=settings.get("endpoint_url"),
    )


def variables_destination(
    environment: Mapping[str, str],
    configured: Mapping[str, Value],
    credentials: Mapping[str, Mapping[str, str]],
    *,
    versions: Mapping[SecretRef, str | None],
    profile: AwsProfile,
) -> dict[str, str]:
    """The part that the engine's environment decides.

    `environment` is what Terraform gets; `configured` and `credentials` are those of the stack, the latter
    with their secrets; `profile` is the caller's.
    """
    parts = {
        name: _readable(value)
        for name, value in environment.items()
        if name not in configured and _WHERE.fullmatch(name)
    }
    for name, value in configured.items():
        given = environment.get(name, "")
        if isinstance(value, SecretRef) and not _WHERE.fullmatch(name):
            version = versions.get(value)
            parts[name] = f"secret {value}" + (f" version {version}" if version is not None else "")
        elif isinstance(value, SecretRef) or not _WHERE.fullmatch(name):
            parts[name] = hash_text(given)
        else:
            parts[name] = _readable(given)
    if "aws" in credentials:
        return {**parts, "AWS account": _account(credentials["aws"].get("role_arn", ""))}
    return {**_caller_parts(environment, profile), **parts}


def _caller_parts(environment: Mapping[str, str], profile: AwsProfile) -> dict[str, str]:
    """Variables win over a profile. The account of keys in the environment is not known."""
    has_region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    has_keys = bool(environment.get("AWS_ACCESS_KEY_ID"))
    role = environment.get("AWS_ROLE_ARN")
    account = None if has_keys else _account(role) if role else profile.account
    parts = {
        "AWS_REGION": None if has_region else profile.region,
        _CALLER_ACCOUNT: account,
        "endpoint of the AWS profile": profile.endpoint,
    }
    return {name: _readable(value) for name, value in parts.items() if value}


def _account(role: str) -> str:
    """The account of a role, with its partition unless that is the usual one."""
    arn = _ARN.fullmatch(role.strip())
    if arn is None:
        return hash_text(role)
    return arn["account"] if arn["partition"] == "aws" else f"{arn['partition']}:{arn['account']}"


def clusters_of(kubeconfig: object) -> str:
    """The addresses, contexts and the chosen context of a parsed kubeconfig, without its credentials."""
    document = kubeconfig if isinstance(kubeconfig, Mapping) else {}
    parts = [
        [kind, _text(entry, "name"), *(_text(settings, key) for key in keys)]
        for kind, keys in (("cluster", ("server", "proxy-url")), ("context", ("cluster", "namespace")))
        for entry in _entries(document, f"{kind}s")
        if isinstance(settings := entry.get(kind), Mapping)
    ]
    current = _text(document, "current-context")
    return hash_text("\n".join([current, *sorted(map(str, parts))]))


def _text(document: Mapping[object, object], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _entries(document: Mapping[object, object], name: str) -> Iterator[Mapping[object, object]]:
    entries = document.get(name)
    return (
        (entry for entry in entries if isinstance(entry, Mapping)) if isinstance(entries, list) else iter(())
    )


def hash_text(text: str) -> str:
    return f"{_HASH}{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"


def _readable(value: str) -> str:
    """A place as it is; anything that could contain a password as a hash."""
    return value if _PLAIN.fullmatch(value) else hash_text(value)


def differences(then: Destination, now: Destination) -> tuple[str, ...]:
    """What changed, for a message. The account of the caller counts only where both are known."""
    changed = []
    for part in sorted({*then, *now}):
        before, after = then.get(part), now.get(part)
        if before == after or (part == _CALLER_ACCOUNT and None in (before, after)):
            continue
        shown = [value or "not set" for value in (before, after)]
        readable = not any(value.startswith((_HASH, "h1:")) for value in shown)
        changed.append(f"{part} ({' → '.join(shown)})" if readable else part)
    return tuple(changed)


def require_equal(stack: str, then: Destination, now: Destination) -> None:
    """Refuse a plan that would apply elsewhere than planned, or with other content."""
    require_none(stack, differences(then, now))


def require_none(stack: str, changed: tuple[str, ...]) -> None:
    if changed:
        raise Refused(
            "HF-BUND-12",
            f"{stack}: {' and '.join(changed)} changed since the plan was made",
            hint=f"Restore it, or make a new plan: holdfast plan {stack} --out DIR",
        )
