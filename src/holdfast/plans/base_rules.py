"""The rules of the base of a change. A plan is judged by them and by the rules of the change itself.

The change under review may contain the configuration, the policies and the waivers that it is reviewed with.
So the rules of the commit that it is based on count too, and the stricter result wins. A bundle seals them:
an apply needs no base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct, structs

from holdfast.config import read as config_read
from holdfast.config.settings import Config, Owner, Target
from holdfast.guard.policy import Policy, policy_for
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.old_tree import OldTree
from holdfast.kernel.values import MaskedStruct
from holdfast.stacks.stack import Stack

_MOST_SHOWN = 12


class BaseStack(Struct, frozen=True, kw_only=True):
    """A stack of the change as the base sees it: the stack of the same name, or with the same state."""

    environment: str | None
    production: bool
    target: Target | None = None
    readers: tuple[str, ...] = ()
    """Modules of the stacks that depend on it in the base."""

    def judged(self, stack: Stack) -> Stack:
        """The stack of the change, with what the base says about it."""
        return structs.replace(
            stack, environment=self.environment, production=self.production, target=self.target
        )


class SealedRules(MaskedStruct, frozen=True, kw_only=True):
    """What a bundle stores."""

    reference: str
    """As the user named the base: `main`."""
    config: str | None
    """The text of its holdfast.yaml. None: it cannot be read, and the strictest built-in rules count."""
    stacks: Mapping[str, tuple[BaseStack, ...]]
    """By the names of the change. Stacks that both treat alike are left out."""
    checks: bool
    """Whether check settings, policies or waivers differ, so that plans are checked twice."""
    files: Mapping[str, bytes | None] = {}
    """For those checks: policies and contracts of the base, and changed files without new waivers."""
    unreadable: tuple[str, ...] = ()
    """Policies and contracts of the base that are not available."""
    weakened: tuple[str, ...] = ()
    """What is weaker in the change than in the base: `environments.prod.production true → false`."""

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self, order="deterministic")


class BaseRules(Struct, frozen=True, kw_only=True):
    sealed: SealedRules
    config: Config
    code: Code
    """The current code with the policies of the base, and without new waivers."""

    @property
    def weakened(self) -> tuple[str, ...]:
        return self.sealed.weakened

    @property
    def warning(self) -> str | None:
        """The first line of every report of the change."""
        if not self.weakened:
            return None
        left = len(self.weakened) - _MOST_SHOWN
        more = f"; and {left} more (all: --json)" if left > 0 else ""
        shown = "; ".join(self.weakened[:_MOST_SHOWN])
        return (
            f"This change weakens the guard: {shown}{more}. Judged by the rules of {self.sealed.reference}."
        )

    def of(self, stack: str) -> tuple[BaseStack, ...]:
        return self.sealed.stacks.get(stack, ())

    def policies(self, stack: str) -> tuple[tuple[BaseStack, Policy], ...]:
        """What the base says about a stack, with its policy for it."""
        return tuple(
            (base, policy_for(self.config.guard, environment=base.environment, production=base.production))
            for base in self.of(stack)
        )

    def judged(self, stack: Stack) -> Stack:
        """The stack as the base sees it; of two stacks that it was, the one in production."""
        base = max(self.of(stack.name), key=lambda base: base.production, default=None)
        return base.judged(stack) if base is not None else stack

    def stricter(self, stack: Stack) -> Stack:
        """The stack as production, or as owned by CI, if the base treats it so."""
        for base in self.of(stack.name):
            if base.production and not stack.production:
                stack = structs.replace(stack, production=True)
            owner = base.target.owner if base.target is not None else None
            if owner is Owner.CI and (stack.target is None or stack.target.owner is not Owner.CI):
                owned = base.target if stack.target is None else structs.replace(stack.target, owner=owner)
                stack = structs.replace(stack, target=owned)
            proof = base.target.proof if base.target is not None else None
            if proof is not None and stack.target is not None and stack.target.proof is None:
                stack = structs.replace(stack, target=structs.replace(stack.target, proof=proof))
        return stack

    def seal(self, stack: str) -> bytes:
        """For the saved plan of one stack."""
        stacks = {stack: self.of(stack)} if self.of(stack) else {}
        return structs.replace(self.sealed, stacks=stacks).to_bytes()


def open_rules(sealed: SealedRules, config: Config, code: Code) -> BaseRules:
    """`config` and `code` are the current ones."""
    base = Config(file=config.file, root=config.root)
    if sealed.config is not None:
        base = config_read.parse(sealed.config, file=config.file.name, root=config.root, path=config.file)
    tree = OldTree(code.tree.root, sealed.files, frozenset(sealed.unreadable), code.tree.forbidden)
    return BaseRules(sealed=sealed, config=base, code=Code(tree))


def rules_of_bundles(sealed: Iterable[bytes | None], config: Config, code: Code) -> BaseRules | None:
    """Those that the saved plans of one change were judged by; None if they had no base."""
    parts = [msgspec.json.decode(data, type=SealedRules) for data in sealed if data is not None]
    if not parts:
        return None
    stacks = {name: base for part in parts for name, base in part.stacks.items()}
    return open_rules(structs.replace(parts[0], stacks=stacks), config, code)
