"""The providers that code requires, with constraints and places, and the lock file of a root module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from holdfast.checks.model.subjects import MODES, Checkout, Module
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.hcl.nodes import OLD_SYNTAX, Block, Expression, File, Literal, Traversal
from holdfast.hcl.reader import Unknown, constant
from holdfast.kernel.errors import Place, UsageError
from holdfast.kernel.patterns import pattern
from holdfast.terraform.lock_file import LockedProvider, read_lock
from holdfast.terraform.versions import Constraint, Version

_BUILT_IN = "terraform"
_DEFAULT_HOSTS = ("registry.terraform.io", "registry.opentofu.org")
_SOURCE = pattern(r"(?:(?P<host>[^/\s]+)/)?(?:(?P<namespace>[^/\s]+)/)(?P<type>[^/\s]+)|(?P<alone>[^/\s]+)")


class RequiredProvider(Struct, frozen=True):
    """A provider that one module requires."""

    name: str
    """Its local name in the module."""
    host: str | None
    """None: the default registry of the engine."""
    namespace: str
    type: str
    version: str | Unknown | None
    """The constraint; None if there is none, unknown if it is computed."""
    place: Place

    @property
    def source(self) -> str:
        """`hashicorp/aws`, with the host if there is one."""
        return "/".join(part for part in (self.host, self.namespace, self.type) if part)

    def is_locked_as(self, address: str) -> bool:
        """Whether this is its address in a lock file."""
        hosts = (self.host,) if self.host is not None else _DEFAULT_HOSTS
        name = f"{self.namespace}/{self.type}".lower()
        return any(address.lower() == f"{host.lower()}/{name}" for host in hosts)


def required_providers(module: Module) -> tuple[RequiredProvider, ...]:
    """Providers in `required_providers`, and others that blocks use; not Terraform's built-in one."""
    return module.checkout.code.once(("required", module.folder), lambda: tuple(_required_providers(module)))


def _required_providers(module: Module) -> Iterator[RequiredProvider]:
    entries: dict[str, tuple[object, Place]] = {}
    for block in module.blocks("terraform"):
        for inner in block.body.blocks_of("required_providers"):
            for attribute in inner.body.attributes:
                entries[attribute.name] = (constant(attribute.expression), attribute.place)
    versions = _old_versions(module)
    for name, (value, place) in entries.items():
        source, version = _source_and_version(value)
        if isinstance(source, Unknown):
            continue
        yield from _provider(name, source, version if version is not None else versions.get(name), place)
    for name, place in _used_providers(module).items():
        if name not in entries:
            yield from _provider(name, None, versions.get(name), place)


def _source_and_version(value: object) -> tuple[str | Unknown | None, str | Unknown | None]:
    """Source and version of one entry: an object, or only a version."""
    if isinstance(value, Mapping):
        source, version = value.get("source"), value.get("version")
        return (
            source if isinstance(source, str | Unknown) else None,
            version if isinstance(version, str | Unknown) else None,
        )
    if isinstance(value, Unknown):
        return value, value
    return None, value if isinstance(value, str) else None


def _old_versions(module: Module) -> dict[str, str | Unknown]:
    """`version` in a `provider` block: deprecated, but still effective."""
    versions: dict[str, str | Unknown] = {}
    for block in module.blocks("provider"):
        attribute = block.body.attribute("version")
        version = constant(attribute.expression) if attribute is not None else None
        if block.labels and isinstance(version, str | Unknown):
            versions[block.labels[0]] = version
    return versions


def _provider(
    name: str, source: str | None, version: str | Unknown | None, place: Place
) -> Iterator[RequiredProvider]:
    match = _SOURCE.fullmatch(source or f"hashicorp/{name}")
    if match is None:
        return
    host, type_ = match["host"], match["type"] or match["alone"]
    if host is not None and host.lower() in _DEFAULT_HOSTS:
        host = None
    if (name == _BUILT_IN and source is None) or host == "terraform.io":
        return
    yield RequiredProvider(
        name=name,
        host=host,
        namespace=match["namespace"] or "hashicorp",
        type=type_,
        version=version,
        place=place,
    )


def _used_providers(module: Module) -> dict[str, Place]:
    """Providers that blocks use, each with its first place."""
    places: dict[str, Place] = {}
    for block in module.blocks("provider", *MODES):
        name = _provider_of(block, chosen=module.checkout.mentions(block.file, b"provider"))
        if name and name not in places:
            places[name] = block.place
    return places


def _provider_of(block: Block, *, chosen: bool) -> str | None:
    """`chosen`: its file has the word `provider`; otherwise, the body need not be parsed."""
    first = block.labels[0] if block.labels else ""
    if block.type == "provider":
        return first
    attribute = block.body.attribute("provider") if chosen else None
    if attribute is not None:
        return _provider_name(attribute.expression)
    return first.partition("_")[0]


def _provider_name(expression: Expression) -> str | None:
    """`aws.west`, or the same in quotes (old syntax)."""
    match expression:
        case Traversal():
            return expression.root
        case Literal(value=str() as text):
            return text.partition(".")[0]
        case _:
            return None


def may_run(module: Module, engine: Version) -> bool:
    """Whether the code, and every stack that uses it, may run with this version of the engine or a later one.

    Pins decide, and syntax that only Terraform 0.11 reads.
    """
    old = old_folders(module.checkout)
    in_use = ({module.folder}, *(stack.folders for stack in module.stacks)) if old else ()
    pins = module.checkout.code.once(("engine pins", id(module)), lambda: frozenset(_engine_pins(module)))
    return all(_reaches(pin, engine) for pin in pins) and all(map(old.isdisjoint, in_use))


def old_folders(checkout: Checkout) -> frozenset[str]:
    """Folders with code that only Terraform 0.11 reads."""

    def find() -> frozenset[str]:
        files = ((module.folder, file) for module in checkout.modules for file in module.files)
        return frozenset(
            folder for folder, file in files if any(one.code == OLD_SYNTAX for one in file.problems)
        )

    return checkout.code.once(("old syntax",), find)


def _engine_pins(module: Module) -> Iterator[str | None]:
    """`required_version`, version files and the configuration."""
    yield from module.code.required_versions
    default = module.checkout.config.engine.pin.version
    used_by = [(stack.module.code, stack.stack.engine) for stack in module.stacks]
    for code, engine in used_by or [(module.code, None)]:
        file = code.opentofu_version if code.tofu else code.terraform_version
        yield from code.required_versions
        yield (engine.version if engine is not None else None) or (file.version if file else default)


def may_use(module: Module, provider: str, version: Version) -> bool:
    """Whether the code uses this version of a provider or a later one: by its lock file, or else its pins."""
    lock = lock_file_of(module)
    for required in required_providers(module):
        if required.type != provider:
            continue
        locked = [entry for entry in lock.providers if required.is_locked_as(entry.address)] if lock else []
        pin = locked[0].version if locked else required.version
        if not _reaches(pin, version):
            return False
    return True


def _reaches(pin: object, version: Version) -> bool:
    """What is unknown or invalid may be any version."""
    try:
        return not isinstance(pin, str) or Constraint.parse(pin).reaches(version)
    except UsageError:
        return True


class LockFile(Struct, frozen=True):
    path: str
    file: File
    providers: tuple[LockedProvider, ...]

    def place_of(self, provider: LockedProvider) -> Place:
        blocks = self.file.body.blocks_of("provider")
        return next(
            (block.place for block in blocks if block.labels == (provider.address,)), Place(file=self.path)
        )


def lock_path(module: Module) -> str:
    return module.checkout.code.tree.join(module.folder, LOCK_FILE)


def lock_file_of(module: Module) -> LockFile | None:
    """None if Git does not track it and would not."""
    path = lock_path(module)
    checkout = module.checkout
    content = checkout.content(path)
    file = checkout.code.file(path) if content is not None and path in checkout.listed else None
    return LockFile(path, file, read_lock(content)) if file is not None and content is not None else None


def required_by_root(module: Module) -> Iterator[RequiredProvider]:
    """Providers required by a root module and every local module it calls."""
    folders = dict.fromkeys(folder for stack in module.roots for folder in sorted(stack.folders))
    for folder in folders:
        yield from required_providers(module.checkout.module(folder))
