"""The secret sources, what they have in common, and what they return.

To add one: write its module, and add a line to CATALOGUE and its scheme to `config.secret_refs`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.config import secret_refs
from holdfast.config.secret_refs import SCHEMES, Locator, SecretRef
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.kernel.secret import Secret
from holdfast.secrets.sources import errors
from holdfast.system.environment import Environment

T = TypeVar("T")
MAX_BYTES = 64 * 1024


class ReadSecret(NamedTuple):
    """A secret and the identity that read it: an ARN, a client id, the kind of token. Never a credential."""

    secret: Secret
    by: str
    version: str | None = None
    """Of the secret, where its source has versions."""


Answers = Mapping[SecretRef, ReadSecret | HoldfastError]


class Timeouts(NamedTuple):
    """How long to wait for a source, in seconds, and how often to ask when it does not answer."""

    request: float = 10.0
    total: float = 30.0
    """For one reference, or one batch of them, including login and retries."""
    tries: int = 3
    pause: float = 0.3


class Source:
    """Reads references of its schemes for one caller. Many threads use it at once.

    With `identify` it reports exactly who reads, even if that takes another request; otherwise it asks only
    after a refusal. Relative paths start at `root`.
    """

    batches = False
    """Whether it reads many references best in one request."""

    def __init__(self, environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool) -> None:
        self.environment = environment
        self.root = root
        self.timeouts = timeouts
        self.identify = identify

    def fetch(self, refs: Sequence[SecretRef]) -> Answers:
        """One answer for each reference: an unreadable one does not affect the others."""
        return answers_for(refs, self.read)

    def read(self, ref: SecretRef) -> ReadSecret:
        raise NotImplementedError

    def create(self, ref: SecretRef, values: Mapping[str, str]) -> bool:  # noqa: ARG002 - of those that can
        """Create the secret of this name. False if it exists: nothing is ever overwritten.

        `ref` names no field. `values` has the text of each field, or the whole text under the empty name.
        """
        raise UsageError(
            "HF-SEED-1",
            f"Holdfast cannot write secrets of this kind: {ref}",
            hint="Write it yourself, or move it to a source that can be written: see docs/secrets.md.",
        )


def answers_for(
    refs: Iterable[SecretRef], read: Callable[[SecretRef], T]
) -> dict[SecretRef, T | HoldfastError]:
    answers: dict[SecretRef, T | HoldfastError] = {}
    for ref in refs:
        try:
            answers[ref] = read(ref)
        except HoldfastError as error:
            answers[ref] = error
    return answers


def parse_locator(ref: SecretRef) -> Locator:
    """Placeholders are filled in after the configuration was checked, so the result can still be invalid."""
    try:
        return secret_refs.parse_locator(ref.scheme, ref.locator)
    except ValueError as error:
        form = secret_refs.SCHEMES[ref.scheme].form
        raise UsageError(
            "HF-SEC-9", f"`{ref}` is not a valid reference: {error}", hint=f"Write {form}."
        ) from None


def select_value(ref: SecretRef, text: str, field: str | None) -> Secret:
    """The whole secret, or one field of it if it is a JSON object."""
    if field is None:
        return check_value(ref, text)
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, Mapping):
        raise errors.missing_field(ref, field=field, names=None)
    return select_field(ref, document, field)


def select_field(ref: SecretRef, fields: Mapping[str, Any], field: str) -> Secret:
    if field not in fields:
        raise errors.missing_field(ref, field=field, names=fields)
    value = fields[field]
    if value is None:
        raise errors.unusable(ref, "is null")
    return check_value(ref, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def check_value(ref: SecretRef, text: str) -> Secret:
    """Terraform would report an empty secret much later, and without its source."""
    if not text:
        raise errors.unusable(ref, "is empty")
    if "\0" in text:
        raise errors.unusable(ref, "contains a zero byte, which a variable cannot contain")
    if len(text.encode()) > MAX_BYTES:
        raise errors.unusable(ref, f"is larger than {MAX_BYTES} bytes")
    return Secret(text)


def whole_text(values: Mapping[str, str]) -> str:
    """What a source without fields of its own stores: the text, or a JSON object of the fields."""
    return values[""] if "" in values else json.dumps(dict(values), ensure_ascii=False)


class SourceEntry(NamedTuple):
    schemes: tuple[str, ...]
    module: str
    """Imported when a reference first needs it."""
    name: str
    """The class, a `Source`."""
    local: bool = False
    """On this machine: quick to read, without a request."""


CATALOGUE = (
    SourceEntry(("env", "file", "dotenv"), "local", "LocalSecrets", local=True),
    SourceEntry(("aws-sm", "aws-ssm"), "aws", "AwsSecrets"),
    SourceEntry(("azure-kv",), "azure", "KeyVault"),
    SourceEntry(("vault",), "vault", "Vault"),
)


def source_for(ref: SecretRef) -> SourceEntry:
    for entry in CATALOGUE:
        if ref.scheme in entry.schemes:
            return entry
    raise UsageError(
        "HF-SEC-1",
        f"there is no secret source `{ref.scheme}:` ({ref})",
        hint=f"Use one of {', '.join(f'{scheme}:' for scheme in SCHEMES)}.",
    )


def is_local(ref: SecretRef) -> bool:
    return source_for(ref).local


def open_source(
    entry: SourceEntry, environment: Environment, root: Path, timeouts: Timeouts, *, identify: bool
) -> Source:
    module = importlib.import_module(f"holdfast.secrets.sources.{entry.module}")
    source: Source = getattr(module, entry.name)(environment, root, timeouts, identify=identify)
    return source
