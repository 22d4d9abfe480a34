"""What a plan says, as values: every change, its kind and its reason, and how they are counted.

An action or a reason that is not known is kept as text and marked as not understood, so that it can be
shown, and refused by the guard. Values of attributes stay unread until `plan_values` is asked for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from holdfast.kernel.values import dataclass, field
from holdfast.terraform.addresses import Path, path_text
from holdfast.terraform.plan import wire
from holdfast.terraform.plan.reasons import REASONS, because

_MODES = frozenset({"managed", "data"})


class ChangeKind(StrEnum):
    """What happens to one object. A replacement keeps its order: it matters to whoever uses the object."""

    NO_OP = "no-op"
    CREATE = "create"
    READ = "read"
    UPDATE = "update"
    DELETE = "delete"
    DELETE_THEN_CREATE = "delete, create"
    CREATE_THEN_DELETE = "create, delete"
    FORGET = "forget"
    CREATE_THEN_FORGET = "create, forget"
    FORGET_THEN_CREATE = "forget, create"
    UNKNOWN = "unknown"


_KINDS: dict[tuple[str, ...], ChangeKind] = {
    tuple(kind.value.split(", ")): kind for kind in ChangeKind if kind is not ChangeKind.UNKNOWN
}


def change_kind(actions: tuple[str, ...]) -> ChangeKind:
    return _KINDS.get(actions, ChangeKind.UNKNOWN)


_REPLACEMENTS = frozenset({ChangeKind.DELETE_THEN_CREATE, ChangeKind.CREATE_THEN_DELETE})
_VERBS: dict[ChangeKind, str] = {
    ChangeKind.NO_OP: "unchanged",
    ChangeKind.CREATE: "created",
    ChangeKind.READ: "read during apply",
    ChangeKind.UPDATE: "changed in place",
    ChangeKind.DELETE: "deleted",
    ChangeKind.DELETE_THEN_CREATE: "replaced",
    ChangeKind.CREATE_THEN_DELETE: "replaced (the new one is made first)",
    ChangeKind.FORGET: "forgotten (the object stays, Terraform no longer looks after it)",
    ChangeKind.CREATE_THEN_FORGET: "created anew, and the old object is left behind, forgotten,",
    ChangeKind.FORGET_THEN_CREATE: "created anew, and the old object is left behind, forgotten,",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """How an existing object is named to be taken over: by id, or by identity (as JSON text)."""

    id: str | None
    identity: str | None
    unknown: bool = False

    def __str__(self) -> str:
        return self.id or self.identity or "(known after apply)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    address: str
    module: str | None
    mode: str
    type: str
    name: str
    index: int | str | None
    provider: str
    deposed: str | None
    """The key of an old object of this address that a replacement left behind."""
    actions: tuple[str, ...]
    """As Terraform says them."""
    kind: ChangeKind
    reason: str | None
    """Terraform's `action_reason`, as text."""
    previous_address: str | None
    importing: Import | None
    replace_paths: tuple[Path, ...]
    generated_config: str | None = field(repr=False)
    change: wire.Change = field(repr=False, compare=False)

    @property
    def understood(self) -> bool:
        """False when anything in it is unknown to this version: the guard then refuses."""
        return (
            self.kind is not ChangeKind.UNKNOWN
            and self.mode in _MODES
            and (self.reason is None or self.reason in REASONS)
        )

    @property
    def moved(self) -> bool:
        return self.previous_address is not None and self.previous_address != self.address

    @property
    def replaces(self) -> bool:
        return self.kind in _REPLACEMENTS

    @property
    def destroys(self) -> bool:
        """Whether an object that exists is destroyed: a delete or a replacement, known kind or not."""
        return "delete" in self.actions

    @property
    def loses(self) -> bool:
        """Whether an object that exists is destroyed, or is no longer looked after, known kind or not."""
        return "delete" in self.actions or "forget" in self.actions

    @property
    def has_effect(self) -> bool:
        """Terraform's own rule: an action, a move or an import."""
        return self.kind is not ChangeKind.NO_OP or self.moved or self.importing is not None

    @property
    def explanation(self) -> str:
        """One sentence without its end: `replaced because `name` changes`."""
        doing = _VERBS.get(self.kind) or (
            f"changed in a way that this version of Holdfast does not know ({', '.join(self.actions)})"
        )
        if self.reason is not None:
            doing += f" because {because(self.reason, tuple(map(path_text, self.replace_paths)))}"
        also = [f"moved from {self.previous_address}"] if self.moved else []
        also += [f"imported from {self.importing}"] if self.importing is not None else []
        if self.deposed is not None:
            also.append(f"left over from an earlier replacement ({self.deposed})")
        return ", ".join(also if also and self.kind is ChangeKind.NO_OP else [doing, *also])


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChange:
    name: str
    actions: tuple[str, ...]
    kind: ChangeKind
    change: wire.Change = field(repr=False, compare=False)

    @property
    def removed(self) -> bool:
        return "delete" in self.actions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredChange:
    """A change that Terraform postpones to a later plan, and why."""

    change: ResourceChange
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInvocation:
    """A provider's action with effects of its own, which is not a change of any resource."""

    address: str
    type: str
    name: str
    provider: str
    triggered_by: str | None
    """The resource whose change sets it off; None when it was asked for by itself."""
    event: str | None
    deferred: str | None = None
    """The reason why it is postponed, if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    address: str
    kind: str
    status: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """A replacement counts once; imports and moves count beside whatever else happens to the object."""

    create: int = 0
    update: int = 0
    replace: int = 0
    delete: int = 0
    forget: int = 0
    import_: int = 0
    move: int = 0
    read: int = 0

    def document(self) -> dict[str, int]:
        return {
            "create": self.create,
            "update": self.update,
            "replace": self.replace,
            "delete": self.delete,
            "forget": self.forget,
            "import": self.import_,
            "move": self.move,
            "read": self.read,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    terraform_version: str
    """The version of the engine that made it; OpenTofu writes its own number here."""
    format_version: str
    changes: tuple[ResourceChange, ...]
    drift: tuple[ResourceChange, ...]
    outputs: tuple[OutputChange, ...]
    deferred: tuple[DeferredChange, ...]
    action_invocations: tuple[ActionInvocation, ...]
    checks: tuple[Check, ...]
    errored: bool
    applyable: bool | None
    """None where the engine does not say: OpenTofu, and Terraform before 1.8."""
    complete: bool | None
    """False after `-target` or with deferred changes; None where the engine does not say."""
    prior_resources: int
    """How many managed objects the state holds before apply, refreshed, imported ones included."""
    provisioners: Mapping[str, tuple[str, ...]]
    """By address without the keys of instances: the kinds of provisioners that the configuration gives it."""
    document: wire.Plan = field(repr=False, compare=False)

    @property
    def understood(self) -> bool:
        """Nothing in it is unknown to this version: no action, no reason, of any change or output."""
        return (
            all(change.understood for change in self.changes)
            and all(change.understood for change in self.drift)
            and all(deferred.change.understood for deferred in self.deferred)
            and all(output.kind is not ChangeKind.UNKNOWN for output in self.outputs)
        )

    @property
    def has_changes(self) -> bool:
        """Whether applying it would do anything, a mere update of the state by what was found included.

        OpenTofu does not say whether a plan can be applied. Drift without a single planned resource is
        what a refresh-only plan looks like, so that counts as a change there.
        """
        if (
            self.applyable
            or any(change.has_effect for change in self.changes)
            or any(output.kind is not ChangeKind.NO_OP for output in self.outputs)
            or any(invocation.deferred is None for invocation in self.action_invocations)
        ):
            return True
        return self.applyable is None and bool(self.drift) and not self.changes

    @property
    def counts(self) -> Counts:
        return count(self.changes)


def count(changes: Iterable[ResourceChange]) -> Counts:
    """Of an action list that is not known, each word that is known is counted."""
    counter: Counter[str] = Counter()
    for change in changes:
        counter.update(("replace",) if change.replaces else change.actions)
        counter["move"] += change.moved
        counter["import_"] += change.importing is not None
    return Counts(
        create=counter["create"],
        update=counter["update"],
        replace=counter["replace"],
        delete=counter["delete"],
        forget=counter["forget"],
        import_=counter["import_"],
        move=counter["move"],
        read=counter["read"],
    )
