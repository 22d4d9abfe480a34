"""What every source of secrets has in common, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.config import locators
from holdfast.config.locators import Locator
from holdfast.config.valid import SecretRef
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.kernel.secret import Secret


class Found(NamedTuple):
    """A secret, and who was allowed to read it: an ARN, a client id, the kind of a token. Never the proof."""

    secret: Secret
    by: str


class Patience(NamedTuple):
    """How long a source is waited for, in seconds, and how often it is asked when it gives no answer."""

    request: float = 10.0
    whole: float = 30.0
    """For one reference, or one batch of them, signing in and every further try included."""
    tries: int = 3
    pause: float = 0.3


class Source(Protocol):
    """Reads references of its kind for one caller. Used by many threads at once.

    Made with `named=True` it says exactly who reads, where asking for that costs a request more; without, it
    asks only when something is refused.
    """

    batches: bool
    """Whether it reads many references best in one go."""

    def fetch(self, refs: Sequence[SecretRef]) -> Mapping[SecretRef, Found | HoldfastError]:
        """One answer for each reference. One that cannot be read does not keep another from being read."""
        ...


def locator_of(ref: SecretRef) -> Locator:
    """The reference taken apart. Placeholders are filled in only now, so it can still be wrong."""
    try:
        return locators.parse(ref.scheme, ref.locator)
    except ValueError as error:
        raise UsageError(
            "HF-SEC-9", f"`{ref}` cannot be a reference: {error}", hint=f"Write {locators.FORMS[ref.scheme]}."
        ) from None
