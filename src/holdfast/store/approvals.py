"""Approvals, rejections and overrides of a plan, stored under its digest and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from holdfast.store.blobs import EncryptedBlobs, to_json, unreadable
from holdfast.system import clock

_FORMAT = 1


class ApprovalKind(StrEnum):
    APPROVAL = "approve"
    REJECTION = "reject"
    OVERRIDE = "override"


class Approval(Struct, frozen=True, kw_only=True):
    """A person's decision about one plan."""

    kind: ApprovalKind
    digest: str
    stack: str
    run: str
    """The run that created the plan."""
    who: Mapping[str, object]
    reason: str
    at: str
    until: str | None = None
    """When it expires; None: with the plan."""
    role: str = ""
    groups: tuple[str, ...] = ()
    """Of the token that the person used: only a server knows them."""
    break_glass: bool = False
    """An admin's override that also stands for the approvals that are missing."""

    @property
    def by(self) -> str:
        """Identifies the person: several approvals of one person count once.

        Without proof that is the user of a machine, whatever name the environment claims.
        """
        if self.verified:
            return str(self.who.get("subject") or f"{self.who.get('kind')}:{self.who.get('name')}")
        return f"unverified:{self.who.get('machine')}:{self.who.get('uid')}"

    @property
    def verified(self) -> bool:
        return self.who.get("verified") is True

    @property
    def shown(self) -> str:
        return f"{self.who.get('name') or 'unknown'}{'' if self.verified else ', unverified'}"

    def in_force(self, now: str) -> bool:
        """A rejection never expires."""
        return self.kind is ApprovalKind.REJECTION or self.until is None or now < self.until


def is_author(author: Mapping[str, object], who: Mapping[str, object]) -> bool:
    """Whether one verified person made the plan: by themselves, or with a CI job that names them as actor."""
    claims = author.get("claims")
    actor = claims.get("actor") if isinstance(claims, Mapping) else None
    return bool(author.get("verified")) and (is_same_person(author, who) or who.get("name") == actor)


def is_same_person(author: Mapping[str, object], who: Mapping[str, object]) -> bool:
    """By the subject that a server gave both of them; without one, by their names."""
    fields = ("subject",) if author.get("subject") and who.get("subject") else ("kind", "name")
    return all(author.get(field) == who.get(field) for field in fields)


class Approvals:
    are_logged: bool = False
    """Whether `add` writes the entry of the audit log, too."""

    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def add(self, approval: Approval) -> None:
        """Durable when this returns."""
        document = {"version": _FORMAT, **msgspec.to_builtins(approval)}
        self._encrypted.create(f"{_folder(approval.digest)}/{clock.new_id()}", to_json(document))

    def record_author(self, digest: str, author: Mapping[str, object], *, stack: str, run: str) -> None:
        """Who saved the plan; the first record counts. A plan without one is not applied."""
        document = {"version": _FORMAT, "author": dict(author), "stack": stack, "run": run}
        self._encrypted.create(f"authors/{digest}", to_json(document))

    def is_recorded(self, digest: str, *, stack: str, run: str) -> bool:
        """Whether this run saved this plan of this stack."""
        document = self._encrypted.document(f"authors/{digest}") or {}
        return (document.get("stack"), document.get("run")) == (stack, run)

    def author(self, digest: str) -> Mapping[str, object] | None:
        """None: no plan with this digest was saved."""
        author = (self._encrypted.document(f"authors/{digest}") or {}).get("author")
        return author if isinstance(author, dict) else None

    def of(self, digest: str) -> tuple[Approval, ...]:
        """In the order in which they were given: ids of the same millisecond are in no order."""
        names = self._encrypted.names(_folder(digest))
        approvals = [approval for name in names if (approval := self._read(name, digest)) is not None]
        return tuple(sorted(approvals, key=lambda approval: approval.at))

    def _read(self, name: str, digest: str) -> Approval | None:
        document = self._encrypted.document(name)
        if document is None:
            return None
        try:
            if document.pop("version", None) == _FORMAT and document.get("digest") == digest:
                return msgspec.convert(document, Approval)
        except msgspec.ValidationError:
            pass
        raise unreadable(
            f"{name} in the run store is not a valid approval of this plan",
            "A newer version of Holdfast may have written it. Upgrade Holdfast, or make a new plan.",
        )


def _folder(digest: str) -> str:
    return f"approvals/{digest}"
