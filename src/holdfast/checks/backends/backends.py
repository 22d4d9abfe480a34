"""The backend of a stack, or of a root module that no stack uses. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from holdfast.checks.backends.backend_types import BACKEND_TYPES, MANAGED, BackendType
from holdfast.checks.code.argument_values import values_at
from holdfast.checks.code.required import may_run
from holdfast.checks.model.interface import CheckFunction, CheckResult, Skipped
from holdfast.checks.model.subjects import ABSENT, UNKNOWN, CheckedStack, Checkout, Module
from holdfast.config.engine import EngineUse
from holdfast.config.secret_refs import SecretRef
from holdfast.config.settings import Owner
from holdfast.hcl.eval.code import read_by_tofu
from holdfast.hcl.eval.values import bool_of
from holdfast.hcl.nodes import Attribute, Block, Expression, Literal, Template, Traversal
from holdfast.hcl.reader import Unknown
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.stacks.backend import backend_block, cloud_settings
from holdfast.stacks.backend_types import DEFAULT_WORKSPACE
from holdfast.terraform.versions import Version

_LOCKFILE: Final = Version.parse("1.10")
PIPELINE: Final = pattern(
    r"(?:^|/)(?:\.github/|\.circleci/|\.gitlab-ci|\.gitea/|\.forgejo/|\.buildkite/|\.woodpecker|\.drone|\.travis|\.spacelift/|Jenkinsfile"
    r"|(?:atlantis|digger|cloudbuild[^/]*|buildspec[^/]*|[^/]*pipelines?)\.ya?ml$)"
)
_WRITES: Final = pattern(
    r"(?:>|\b(?:tee|cp|mv|rm|sed|envsubst)\b[^|;&\n]*[ \t])[ \t]*[\"']?"
    r"(?:[^\s\"'<>|;&]*\}|\$\w+|\.)?/?(?P<path>[^\s\"'<>|;&}]+\.tf)[\"']?[ \t]*(?:$|[<|;&])",
    re.MULTILINE,
)
"""A command that writes, replaces or removes code; a variable at the start of its path may be any folder."""
_ENDPOINTS: Final = frozenset(("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT"))
_REGION: Final = pattern(r"(?:us|eu|eusc|ap|ca|sa|me|af|il|mx|cn)(?:-[a-z]+)+-\d+|<.*>|.*[{(].*")
"""Of AWS, or to be filled in; others are `auto`, `main`, `fr-par`, `nyc3`."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class BackendView(Struct, frozen=True, kw_only=True):
    """A backend and its settings. A setting is a plain value, `UNKNOWN`, or a reference to a secret."""

    type: str
    settings: Mapping[str, object]
    given: Mapping[str, object] = field(default_factory=dict)
    """Settings from the configuration; the others are in the code."""
    block: Block | None
    place: Place
    """The place in the configuration, or the block."""
    env: frozenset[str] = frozenset()
    """Names of the environment variables of the stack."""
    by_variable: Mapping[str, str] = field(default_factory=dict)
    """Settings that come from one of these variables, with its name."""
    entry: Place | None = None
    """The stack's entry in the configuration."""
    in_files: Mapping[str, Attribute] = field(default_factory=dict)
    """Settings in the backend files of the entry."""
    tofu: bool = False
    lockfile: bool = True
    """Whether the engine may know `use_lockfile`."""
    client_encrypted: bool = False
    """OpenTofu encrypts the state before it reaches the backend."""
    stack: CheckedStack | None = None
    written_by: str | None = None
    """The pipeline that writes the file of the block before Terraform reads it."""

    @property
    def kind(self) -> BackendType:
        return BACKEND_TYPES.get(self.type, BackendType())

    def value(self, name: str) -> object:
        """`ABSENT`, `UNKNOWN` (also for secrets), or the plain value; `a.b` is inside `a`."""
        setting: object = self.settings
        for part in name.split("."):
            if isinstance(setting, Unknown | SecretRef):
                return UNKNOWN
            if not isinstance(setting, Mapping) or part not in setting:
                return ABSENT
            setting = setting[part]
        if setting is None or setting == "":
            return ABSENT
        return UNKNOWN if isinstance(setting, Unknown | SecretRef) else setting

    def has(self, name: str) -> bool:
        return self.value(name) is not ABSENT

    def flag(self, name: str, *, default: bool = False) -> bool | None:
        """None if it is not known."""
        setting = self.value(name)
        if setting is ABSENT:
            return default
        flag = bool_of(setting)
        return None if isinstance(flag, Unknown) else flag

    def text(self, name: str) -> str | None:
        setting = self.value(name)
        return setting if isinstance(setting, str) else None

    def in_code(self, name: str) -> bool:
        """Whether the effective value of the setting is in the code."""
        first = name.partition(".")[0]
        return self.has(name) and first not in self.given and first not in self.by_variable

    @property
    def is_other_store(self) -> bool:
        """Whether it is an S3-compatible store, by its endpoint or by settings that AWS does not need."""
        if any(map(self.has, ("endpoint", "endpoints"))) or not _ENDPOINTS.isdisjoint(self.env):
            return True
        region, styles = self.text("region") or "", ("use_path_style", "force_path_style")
        off = self.flag("skip_region_validation") and self.flag("skip_credentials_validation")
        return bool(off and (self.flag("skip_requesting_account_id") or any(map(self.flag, styles)))) or (
            region != "" and "$" not in region and _REGION.fullmatch(region) is None
        )

    def place_of(self, name: str) -> Block | Attribute | Place:
        """Where the setting is, or should be."""
        first = name.partition(".")[0]
        if first in self.by_variable and self.entry is not None:
            return self.entry
        if first in self.in_files:
            return self.in_files[first]
        if self.block is not None and first not in self.given:
            body = self.block.body
            argument = body.attribute(first) or next(body.blocks_of(first), None)
            if argument is not None:
                return argument
        return self.where

    @property
    def where(self) -> Block | Place:
        """Where a missing setting would be added."""
        return self.block or self.place

    def named(self, name: str) -> str:
        """The setting's name, or the environment variable that sets it."""
        return self.by_variable.get(name, name)

    def unknown(self, name: str) -> Skipped:
        secret = isinstance(self.settings.get(name.partition(".")[0]), SecretRef)
        comes = "comes from a secret store" if secret else "is computed"
        return Skipped(
            reason=f"`{name}` of the {self.type} backend {comes}, so its value is not known",
            file=self.block.place.file if self.block is not None else None,
        )


def backend_of_stack(stack: CheckedStack) -> BackendView:
    return stack.checkout.code.once(
        ("backend", stack.name, stack.stack.module), lambda: _backend_of_stack(stack)
    )


def _backend_of_stack(stack: CheckedStack) -> BackendView:
    backend, configured, code = stack.backend, stack.stack.backend, stack.module.code
    pin = stack.stack.engine or stack.checkout.config.engine.pin
    block = backend_block(stack.module.code)
    type_ = code.backend.type if code.backend is not None else backend.type
    settings = backend.settings if code.cloud is None else cloud_settings(block)
    variables = {
        setting: variable
        for variable, setting in BACKEND_TYPES.get(type_, BackendType()).variables.items()
        if variable in stack.stack.env and setting not in settings
    }
    from_env = {setting: stack.stack.env[variable] for setting, variable in variables.items()}
    return BackendView(
        type=type_,
        settings={**from_env, **settings},
        given=dict(configured.settings) if configured is not None else {},
        block=block,
        place=stack.stack.place if configured is not None else backend.place,
        env=frozenset(stack.stack.env),
        by_variable=variables,
        entry=stack.stack.place,
        in_files={
            attribute.name: attribute
            for path in (configured.files if configured is not None else ())
            if (file := stack.checkout.code.file(path)) is not None
            for attribute in file.body.attributes
        },
        tofu=pin.use is EngineUse.TOFU or bool(code.tofu),
        lockfile=may_run(stack.module, _LOCKFILE),
        client_encrypted=_is_client_encrypted(stack.module),
        stack=stack,
        written_by=_writer(stack.checkout, block),
    )


def backend_of_module(module: Module) -> BackendView | None:
    """The backend of a folder; None without a backend block."""
    code = module.code
    block = backend_block(code)
    if block is None or (code.backend is None and code.cloud is None):
        return None
    return BackendView(
        type=code.backend.type if code.backend is not None else "cloud",
        settings=code.backend.settings if code.backend is not None else cloud_settings(block),
        block=block,
        place=block.place,
        tofu=module.checkout.config.engine.pin.use is EngineUse.TOFU or bool(code.tofu),
        lockfile=may_run(module, _LOCKFILE),
        client_encrypted=_is_client_encrypted(module),
        written_by=_writer(module.checkout, block),
    )


def _writer(checkout: Checkout, block: Block | None) -> str | None:
    """The pipeline that writes the file of a block, as far as the path is known."""

    def find() -> tuple[tuple[str, str], ...]:
        texts = ((path, checkout.text(path) or "") for path in filter(PIPELINE.search, checkout.files))
        return tuple((match["path"], path) for path, text in texts for match in _WRITES.finditer(text))

    written = checkout.code.once(("written by pipelines", id(checkout)), find)
    own = f"/{block.place.file}" if block is not None else ""
    return next((pipeline for path, pipeline in written if own.endswith(f"/{path}")), None)


def _is_client_encrypted(module: Module) -> bool:
    return any(
        not _is_unencrypted(value_.expression)
        for file in read_by_tofu(module.files)
        for block in file.body.blocks_of("terraform")
        for inner in block.body.blocks_of("encryption")
        for value_ in values_at(inner.body, ("state", "method"))
    )


def _is_unencrypted(method: Expression | None) -> bool:
    """The method for migrating a state to or from encryption."""
    match method:
        case Traversal(root="method", steps=("unencrypted", *_)):
            return True
        case Template(pieces=(piece,)):
            return _is_unencrypted(piece)
        case Literal(value=str() as text):
            return text.startswith("method.unencrypted.")
        case _:
            return False


# Check functions.

BackendCheck = Callable[[BackendView], Iterable[CheckResult]]


def for_stacks(check: BackendCheck, *, literals_only: bool = True) -> CheckFunction[CheckedStack]:
    def check_stack(stack: CheckedStack) -> Iterator[CheckResult]:
        backend = backend_of_stack(stack)
        if backend.type != MANAGED:
            # Code that leaves settings open: a wrapper or an option of `init` adds them, and maybe others.
            is_set = bool(backend.given or backend.env)
            yield from _check(check, backend, literals_only=literals_only or is_set)

    return check_stack


def for_unused_modules(check: BackendCheck, *, literals_only: bool = False) -> CheckFunction[Module]:
    """Checks root modules that no stack uses."""

    def check_module(module: Module) -> Iterator[CheckResult]:
        backend = None if has_stack(module) else backend_of_module(module)
        if backend is not None:
            yield from _check(check, backend, literals_only=literals_only)

    return check_module


def _check(check: BackendCheck, backend: BackendView, *, literals_only: bool) -> Iterator[CheckResult]:
    """Where a setting that the backend needs is missing, this and others may come from elsewhere.

    `literals_only`: the rule only checks settings that are in the code, so missing ones do not matter.
    """
    missing = [name for name in backend.kind.needs if not backend.has(name) or _is_blank(backend.text(name))]
    if backend.written_by is not None and not literals_only:
        reason = f"{backend.written_by} writes this backend before Terraform runs"
        yield Skipped(reason=reason, file=backend.place.file, expected=True)
    elif missing and not literals_only:
        yield Skipped(
            reason=f"`{missing[0]}` of the {backend.type} backend is not set in the code or by a stack",
            file=backend.place.file,
            expected=True,
        )
    else:
        yield from check(backend)


def _is_blank(text: str | None) -> bool:
    """A name to be filled in: `<BUCKET>`. No store allows such a name."""
    return text is not None and "<" in text and ">" in text


def for_backends(check: BackendCheck, *, literals_only: bool = False) -> dict[str, Any]:
    """The functions of a `Rule` about backends of stacks, and of root modules that no stack uses."""
    return {
        "stack": for_stacks(check, literals_only=literals_only),
        "source": for_unused_modules(check, literals_only=literals_only),
    }


def has_stack(module: Module) -> bool:
    """Whether it is the root module of a stack, selected or not."""
    return module.folder in module.checkout.roots


def why_shared(stack: CheckedStack) -> str | None:
    """Why several machines need this state; None if one developer's machine is enough."""
    if stack.stack.target is not None and stack.stack.target.owner is Owner.CI:
        return f"CI owns the stack's target {stack.stack.target.name}"
    if not stack.stack.production:
        return None
    unclear = stack.stack.environment_unclear
    return "the stack's environment is unclear" if unclear else "the stack is in production"


# Addresses.


def is_loopback(host: str | None) -> bool:
    return host is not None and (host in _LOOPBACK or host.startswith("127.") or host.endswith(".localhost"))


# State identity.


def local_state(stack: CheckedStack) -> str | None:
    """The file of Terraform's local backend, relative to the root; None for other backends.

    Also None if the path is computed or leads out of the repository.
    """
    backend = stack.backend
    if backend.type != "local":
        return None
    if stack.stack.workspace == DEFAULT_WORKSPACE:
        path = backend.settings.get("path", "terraform.tfstate")
    else:
        folder = backend.settings.get("workspace_dir", "terraform.tfstate.d")
        path = f"{folder}/{stack.stack.workspace}/terraform.tfstate" if isinstance(folder, str) else folder
    if not isinstance(path, str) or path.startswith("/"):
        return None
    file = posixpath.normpath(posixpath.join(stack.stack.module, path))
    return None if file.startswith("../") else file
