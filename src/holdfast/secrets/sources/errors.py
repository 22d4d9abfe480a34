"""The errors of reading a secret. Messages name the reference and the identity, never a value."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.config.problems import closest
from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed, UsageError
from holdfast.kernel.text import plural

_MAX_QUOTED = 300


def absent(ref: SecretRef, *, by: str, detail: str) -> Failed:
    return Failed(
        "HF-SEC-10",
        f"{ref} does not exist: {detail} (read as {by})",
        hint="Create the secret, or correct the reference. Check the account, region and namespace.",
    )


def forbidden(ref: SecretRef, *, by: str, detail: str, needs: str) -> Failed:
    return Failed("HF-SEC-11", f"{by} is not allowed to read {ref}: {detail}", hint=needs)


def not_written(ref: SecretRef, *, by: str, detail: str, needs: str) -> Failed:
    return Failed("HF-SEED-3", f"{by} could not create {ref}: {detail}", hint=needs)


def unreachable(ref: SecretRef, *, place: str, reason: str) -> Failed:
    return Failed(
        "HF-SEC-12",
        f"cannot reach {place} to read {ref}: {reason}",
        hint="Check the address, the network, the proxy (HTTPS_PROXY, NO_PROXY) and the certificates.",
    )


def slow(ref: SecretRef, *, place: str, seconds: float) -> Failed:
    return Failed(
        "HF-SEC-13",
        f"{place} did not respond within {seconds:g} seconds ({ref})",
        hint="Check the service, the network and the proxy (HTTPS_PROXY, NO_PROXY), then try again.",
    )


def missing_field(ref: SecretRef, *, field: str, names: Iterable[str] | None) -> Failed:
    """Shows only a similar name: the names of fields can be confidential too."""
    if names is None:
        return Failed(
            "HF-SEC-14",
            f"{ref} selects the field `{field}`, but the secret is not a JSON object",
            hint="Leave out `#…` to use the whole secret.",
        )
    existing = list(names)
    similar = closest(field, existing)
    suggestion = f" Did you mean `{similar}`?" if similar else ""
    return Failed(
        "HF-SEC-14",
        f"{ref}: the secret has no field `{field}`",
        hint=f"It has {plural(len(existing), 'field')}.{suggestion}",
    )


def no_identity(ref: SecretRef, *, detail: str, hint: str) -> Failed:
    return Failed("HF-SEC-15", f"no credentials to read {ref}: {detail}", hint=hint)


def unusable(ref: SecretRef, why: str) -> Failed:
    return Failed(
        "HF-SEC-16",
        f"the value of {ref} {why}",
        hint="Check that it is the right secret. Encode binary data as base64.",
    )


def unexpected(ref: SecretRef, *, place: str, detail: str) -> Failed:
    return Failed(
        "HF-SEC-17",
        f"{place} returned an unexpected response for {ref}: {detail}",
        hint="Check the address and the service, then try again.",
    )


def invalid_setting(ref: SecretRef, *, detail: str, hint: str) -> UsageError:
    return UsageError("HF-SEC-18", f"cannot read {ref}: {detail}", hint=hint)


def boto_missing(ref: SecretRef) -> UsageError:
    return UsageError(
        "HF-SEC-19",
        f"{ref} is in AWS, and the Python package boto3 is not installed",
        hint="Install Holdfast with its AWS extra: pip install 'holdfast[aws]'.",
    )


def quote(text: object, *credentials: str | None) -> str:
    """A service's message on one line, shortened, without the credentials that were sent to it."""
    quoted = re.sub(r"\s+", " ", text if isinstance(text, str) else "").strip()
    for credential in credentials:
        if credential:
            quoted = quoted.replace(credential, "***")
    return f"{quoted[:_MAX_QUOTED]}…" if len(quoted) > _MAX_QUOTED else quoted
