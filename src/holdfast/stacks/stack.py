"""A stack: what is planned and applied as one. Found in the repository, believed by everything else."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.config.engine import EnginePin
from holdfast.config.secret_refs import Value, frozen
from holdfast.config.settings import ContractUse, Target
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place
from holdfast.kernel.values import PlacedStruct


class Stack(PlacedStruct, frozen=True, kw_only=True):
    """Every path is relative to the root and uses `/`. Placeholders are filled in."""

    name: str
    kind: RuleKind
    place: Place
    """The entry of holdfast.yaml that it comes from. One that only moved in the file is the same stack."""
    module: str
    """The folder of the root module; `.` for the root itself."""
    variables_files: tuple[str, ...] = ()
    """In the order Terraform gets them: the last one wins. A stack's own file stands last."""
    variables: Mapping[str, Value] = field(default_factory=frozen)
    environment: str | None = None
    production: bool = True
    environment_reason: str = ""
    """Why it counts as what it counts, in words for a person."""
    account: str | None = None
    region: str | None = None
    target: Target | None = None
    backend: Backend | None = None
    credentials: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    env: Mapping[str, Value] = field(default_factory=frozen)
    workspace: str = "default"
    depends_on: tuple[str, ...] = ()
    """Names of stacks, resolved: each of them exists."""
    engine: EnginePin | None = None

    @property
    def environment_unclear(self) -> bool:
        """It counts as production because nothing says that it is not."""
        return self.production and self.environment_reason.endswith(": counts as production")

    @property
    def lane(self) -> str:
        if self.target is None:
            return "default"
        return self.target.lane or self.target.name

    @property
    def own_file(self) -> str | None:
        """The variables file that makes this stack, where one does."""
        return self.variables_files[-1] if self.kind is RuleKind.VARIABLES else None

    @property
    def contract(self) -> ContractUse | None:
        """What its target asks of its outputs."""
        use = self.target.contract if self.target is not None else None
        if use is None or (use.stacks and not any(matches(self, one) for one in use.stacks)):
            return None
        return use


class RemovedStack(Struct, frozen=True, kw_only=True):
    """A stack whose variables file or folder is gone; its state may still hold resources."""

    stack: Stack | None
    """What it was, where its old content could still be read (to look into its state)."""
    name: str
    variables: str | None
    reason: str


class Selected(Struct, frozen=True, kw_only=True):
    """A stack and why it is in the selection."""

    stack: Stack
    reasons: tuple[str, ...]


_FILTERS = ("env", "account", "region", "target")


def matches(stack: Stack, argument: str) -> bool:
    """`prod/*`, `env:prod`, `account:…`, `region:…`, `target:…`, or a name as it is."""
    key, colon, wanted = argument.partition(":")
    if colon and key in _FILTERS:
        has = {
            "env": stack.environment,
            "account": stack.account,
            "region": stack.region,
            "target": stack.target.name if stack.target else None,
        }[key]
        return has is not None and fnmatch.fnmatchcase(has, wanted)
    return stack.name == argument or fnmatch.fnmatchcase(stack.name, argument)
