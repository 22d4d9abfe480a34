"""How reading a secret fails, each way with its code. Messages name the reference and who asked, no value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import Failed, UsageError

_MOST_SAID = 300


def absent(ref: SecretRef, *, by: str, said: str) -> Failed:
    return Failed(
        "HF-SEC-10",
        f"there is no {ref}: {said} (asked as {by})",
        hint="Put the secret there, or mend the reference. Is it in another account, region or namespace?",
    )


def forbidden(ref: SecretRef, *, by: str, said: str, needs: str) -> Failed:
    return Failed("HF-SEC-11", f"{by} may not read {ref}: {said}", hint=needs)


def unreachable(ref: SecretRef, *, place: str, reason: str) -> Failed:
    return Failed(
        "HF-SEC-12",
        f"{place} cannot be reached for {ref}: {reason}",
        hint="Check the address, the network, the proxy (HTTPS_PROXY, NO_PROXY) and the certificates.",
    )


def slow(ref: SecretRef, *, place: str, seconds: float) -> Failed:
    return Failed(
        "HF-SEC-13",
        f"{place} gave no answer for {ref} within {seconds:g} seconds",
        hint="Try again when it is well; check the network and the proxy (HTTPS_PROXY, NO_PROXY).",
    )


def without_field(ref: SecretRef, *, field: str, there: Iterable[str] | None) -> Failed:
    """Only a name that is near is told: names of fields can say more than they should."""
    if there is None:
        return Failed(
            "HF-SEC-14",
            f"{ref} asks for the field `{field}`, and the secret is no JSON object",
            hint="Leave out `#…` to use the secret as it is.",
        )
    names = list(there)
    near = difflib.get_close_matches(field, names, n=1)
    meant = f" Did you mean `{near[0]}`?" if near else ""
    return Failed(
        "HF-SEC-14",
        f"{ref}: the secret has no field `{field}`",
        hint=f"It has {len(names)} field{'s' if len(names) != 1 else ''}.{meant}",
    )


def no_identity(ref: SecretRef, *, said: str, hint: str) -> Failed:
    return Failed("HF-SEC-15", f"there is nobody to read {ref} as: {said}", hint=hint)


def unusable(ref: SecretRef, why: str) -> Failed:
    return Failed(
        "HF-SEC-16", f"the value of {ref} {why}", hint="Is it the right secret? Encode binary data as base64."
    )


def not_understood(ref: SecretRef, *, place: str, said: str) -> Failed:
    return Failed(
        "HF-SEC-17",
        f"{place} did not answer as expected for {ref}: {said}",
        hint="Is it the right address? Try again when the service is well.",
    )


def setting(ref: SecretRef, *, said: str, hint: str) -> UsageError:
    return UsageError("HF-SEC-18", f"{ref} cannot be read: {said}", hint=hint)


def library_missing(ref: SecretRef) -> UsageError:
    return UsageError(
        "HF-SEC-19",
        f"{ref} is in AWS, and the Python package boto3 is not installed",
        hint="Install Holdfast with its extra for AWS: pip install 'holdfast[aws]'.",
    )


def quoted(text: object, *proofs: str | None) -> str:
    """What a service said, on one line and not too long, without what was shown to it as a proof."""
    said = re.sub(r"\s+", " ", text if isinstance(text, str) else "").strip()
    for proof in proofs:
        if proof:
            said = said.replace(proof, "***")
    return f"{said[:_MOST_SAID]}…" if len(said) > _MOST_SAID else said
