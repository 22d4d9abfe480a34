"""What people said about one plan: approvals, rejections and overrides, kept under the plan's digest.

Each word is a thing of its own, created and never changed. Another digest is another plan, and has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.encrypted_blobs import EncryptedBlobs, to_json
from holdfast.system import clock

_FORMAT = 1


class Word(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    OVERRIDE = "override"


class Consent(Struct, frozen=True, kw_only=True):
    word: Word
    digest: str
    stack: str
    run: str
    """The run whose plan it is about."""
    who: Mapping[str, object]
    reason: str
    at: str
    until: str | None = None
    """When it ends; None: with the plan."""

    @property
    def name(self) -> str:
        """Whose word it is: of one person several words count once."""
        return f"{self.who.get('kind')}:{self.who.get('name')}"

    @property
    def shown(self) -> str:
        proved = "" if self.who.get("proved") else ", unverified"
        named = self.who.get("name") or "somebody"
        return f"{named}{proved}"


class Consents:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def add(self, consent: Consent) -> None:
        """Durably, before this returns."""
        document = {"version": _FORMAT, **asdict(consent)}
        self._encrypted.create(f"{_folder(consent.digest)}/{clock.new_id()}", to_json(document))

    def saved(self, digest: str, maker: Mapping[str, object]) -> None:
        """A plan was saved, to be spoken about: who made it, once and for all."""
        self._encrypted.create(f"makers/{digest}", to_json({"version": _FORMAT, "maker": dict(maker)}))

    def maker(self, digest: str) -> Mapping[str, object] | None:
        """None: nobody saved a plan of this digest."""
        found = self._encrypted.read(f"makers/{digest}")
        maker = found.document().get("maker") if found is not None else None
        return maker if isinstance(maker, dict) else None

    def of(self, digest: str) -> tuple[Consent, ...]:
        """In the order in which they were given."""
        names = self._encrypted.names(_folder(digest))
        return tuple(one for name in names if (one := self._read(name, digest)) is not None)

    def _read(self, name: str, digest: str) -> Consent | None:
        found = self._encrypted.read(name)
        if found is None:
            return None
        document = found.document()
        if document.pop("version", None) != _FORMAT or document.get("digest") != digest:
            raise UnknownOutcome(
                "HF-STORE-2",
                f"{name} in the run store is not a word about this plan",
                hint="A newer Holdfast may have written it. Nothing is applied while nobody can read it.",
            )
        word = Word(str(document.pop("word")))
        return Consent(word=word, **document)  # type: ignore[arg-type]


def _folder(digest: str) -> str:
    return f"consents/{digest}"
