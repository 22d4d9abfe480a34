"""`state mv`: what moves where, to another address or to the state of another stack; and what follows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct, structs

from holdfast.guard.deletion_rules import covering
from holdfast.guard.weakening import lowered_since
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Failed, Refused
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.policies import applied_as, applied_before, policy_of
from holdfast.plans.workdir import StackWorkdir
from holdfast.runs.intent import Moved, MoveIntent
from holdfast.stacks.stack import Stack
from holdfast.states import surgery
from holdfast.states.edits import COPY, Edit, Workdirs, content_to_edit, edit_copies, require_present
from holdfast.terraform import argv
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.statefile.edit import blank_state
from holdfast.terraform.statefile.losses import moved_resources
from holdfast.terraform.statefile.model import Contents, State, StateFile, StateResource, read_state

_OTHER = "destination.tfstate"


class Move(Struct, frozen=True, kw_only=True):
    source: Stack
    destination: Stack
    address: str
    target: str

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """Inside one stack, only that."""
        return (
            (self.source,) if self.source.name == self.destination.name else (self.source, self.destination)
        )

    async def compute(self, context: ChangeContext, workdirs: Workdirs) -> Edit:
        left, right = workdirs[0], workdirs[-1]
        before = await content_to_edit(context, left)
        require_present(self.source, before, self.address)
        if left is right:
            words = argv.state_mv(COPY, self.address, self.target)
            after = (await edit_copies(context, left, words, {COPY: before}))[COPY]
            change = surgery.state_change(self.source.name, "mv", before, after)
            moved = _moved_resources(self.source, before, after, before, after)
            return Edit(changes=(structs.replace(change, lost=()),), moved=moved)
        _require_movable(left, right)
        there = await content_to_edit(context, right, may_be_new=True)
        copies = {COPY: before, _OTHER: there or blank_state(_lineage(read_state(before), self.destination))}
        words = argv.state_mv(COPY, self.address, self.target, into=_OTHER)
        edited = await edit_copies(context, left, words, copies)
        moved = _moved_resources(self.source, before, edited[COPY], there, edited[_OTHER])
        leaving = surgery.state_change(self.source.name, "mv", before, edited[COPY])
        arriving = surgery.state_change(self.destination.name, "mv", there, edited[_OTHER])
        digest = hashlib.sha256(f"{leaving.digest} {arriving.digest}".encode()).hexdigest()
        weaker = self._weaker(context, before)
        leaving = structs.replace(leaving, lost=(), digest=digest, weaker=weaker)
        return Edit(changes=(leaving, structs.replace(arriving, digest=digest)), moved=moved)

    def _weaker(self, context: ChangeContext, before: bytes) -> tuple[str, ...]:
        """How the destination guards less than the source, as configured and as it was last applied."""
        project, state = context.project, read_state(before)
        lineage = state.lineage if isinstance(state, State) else ""
        records = applied_before(project, context.store, self.source, lineage)
        now = applied_as(project.config, self.destination)
        return lowered_since((applied_as(project.config, self.source), *records), now)

    def notes(self, project: Project, moved: tuple[Moved, ...]) -> Iterator[str]:
        """Which protection does not follow, and what the code must look like afterwards."""
        patterns, code = policy_of(project.config, self.destination).addresses, project.code
        for old, new, _ in moved:
            pattern = covering(old, patterns)
            if pattern is not None and covering(new, patterns) is None:
                yield f"`{pattern}` protects {old}, but not its new address {new}."
        if not self.address.endswith("]") and declares(code, self.source.module, self.address):
            what = f"still declares {self.address}: its next plan would create it again. Remove it there."
            yield f"The code of {self.source.name} {what}"
        if not declares(code, self.destination.module, self.target):
            what = f"does not declare {self.target}: its next plan would delete it. Add it there."
            yield f"The code of {self.destination.name} {what}"
        others = sum(stack.module == self.source.module for stack in project.stacks.values()) - 1
        if len(self.stacks) == 1 and others:
            uses = plural(others, "other stack uses", "other stacks use")
            block = f"add a `moved` block to the code: from = {self.address}, to = {self.target}"
            yield f"{uses} {self.source.module} too; there, {block}"


def _lineage(source: StateFile, destination: Stack) -> str:
    """Of a state that starts with moved resources. Not random: the same move has the same digest."""
    known = f"{source.lineage} {source.serial}" if isinstance(source, State) else ""
    text = hashlib.sha256(f"{known} {destination.name}".encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def _moved_resources(stack: Stack, *contents: bytes) -> tuple[Moved, ...]:
    """Every resource that left must have arrived, with all its attributes."""
    pairs = moved_resources(*map(read_state, contents))
    if not pairs:
        raise Failed(
            "HF-STATE-15",
            f"{stack.name}: after Terraform's `state mv`, the resources are not the same as before",
            hint=f"Nothing was changed. Use `moved` blocks in the code, then: holdfast plan {stack.name}",
        )
    return tuple((old.address, new.address, old.deposed) for old, new in pairs)


def _require_movable(left: StackWorkdir, right: StackWorkdir) -> None:
    """Engines and their versions differ in how they write a state and in the names of providers."""
    ours, theirs = left.engine.identity, right.engine.identity
    if (ours.product, ours.version) != (theirs.product, theirs.version):
        why = f"use different engines: {ours.product} {ours.version} and {theirs.product} {theirs.version}"
    elif left.home.place == right.home.place:
        why = "have the same state"
    else:
        return
    raise Refused(
        "HF-STATE-16",
        f"{left.stack.name} and {right.stack.name} {why}",
        hint="Resources move between two states of the same engine and version.",
    )


class MoveOutcome(Enum):
    NOTHING = "nothing was moved"
    BOTH = "the resources are in both states"
    DONE = "the resources were moved"
    MIXED = "the states were changed since"


def move_outcome(intent: MoveIntent, source: Contents, destination: Contents) -> MoveOutcome:
    """What an interrupted move did, by the two states. Pure."""
    left = [_at(source, old, deposed) for old, _, deposed in intent.moved]
    arrived = [_at(destination, new, deposed) for _, new, deposed in intent.moved]
    if not any(arrived) and all(left):
        return MoveOutcome.NOTHING
    if all(arrived) and not any(left):
        return MoveOutcome.DONE
    pairs = zip(left, arrived, strict=True)
    if all(old is not None and new is not None and _same(old, new) for old, new in pairs):
        return MoveOutcome.BOTH
    return MoveOutcome.MIXED


def _at(contents: Contents, address: str, deposed: str | None) -> StateResource | None:
    if deposed is None:
        return contents.current.get(address)
    return contents.deposed.get(address, {}).get(deposed)


def _same(old: StateResource, new: StateResource) -> bool:
    """By its id, because the provider may have refreshed one of them since."""
    return old.type == new.type and (old.id == new.id if old.id is not None else old.same_as(new))


def declares(code: Code, module: str, address: str) -> bool:
    """In the root module: a resource, or the call of the module that it is in."""
    kind, *names = without_keys(address).split(".")
    if kind == "module":
        return any(block.labels[:1] == (names[0],) for block in code.module(module).blocks("module"))
    block_type, labels = ("data", tuple(names)) if kind == "data" else ("resource", (kind, *names))
    return any(block.labels == labels for block in code.module(module).blocks(block_type))
