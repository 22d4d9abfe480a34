"""Run init only when it is needed.

The result of an init is reused while its inputs have the same digest; providers come from the mirror; stacks
with a managed state share their `.terraform` as a template. If Terraform still asks for an init, it gets one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import hashlib
import json
import os
import platform
import posixpath
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.hcl.eval.code import Code, ModuleCode, is_code
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.destination import differences
from holdfast.plans.environment.outside_content import downloaded_modules
from holdfast.plans.events import Note
from holdfast.plans.unreachable import download_hosts, missing_addresses, required_addresses
from holdfast.plans.workdir import StackWorkdir
from holdfast.stacks.generated import code_of
from holdfast.system import files
from holdfast.terraform.engine.interface import WarmProviders
from holdfast.terraform.engine.mirror import Mirror, Package, executable, probe_handshake
from holdfast.terraform.lock_file import LockedProvider, lock_text_without_hashes, read_lock
from holdfast.terraform.workdirs.created_files import new_files

_BACKEND = Path(".terraform/terraform.tfstate")
_MODULES = Path(".terraform/modules/modules.json")
_PROVIDERS = Path(".terraform/providers")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "i686": "386"}


class InitResult(Struct, frozen=True, kw_only=True):
    lock: bytes | None
    """The dependency lock file with its hashes; the work directory has a copy without them."""
    plain: bool
    """Every provider works without plugin TLS."""


def init_digest(code: Code, workdir: StackWorkdir) -> str:
    """A digest of the inputs of init: required providers and modules, backend, engine; not the other code.

    Folders are relative to the root module, as init stores them.
    """
    identity = workdir.engine.identity
    parts: list[object] = [identity.product, identity.version, workdir.home.override]
    for folder in sorted(workdir.modules):
        module = code.module(folder)
        parts += [
            posixpath.relpath(folder, workdir.work.module_path),
            sorted((name, repr(value)) for name, value in module.required_providers.items()),
            sorted(
                (call.name, repr(call.source), repr(call.block.body.attribute("version")))
                for call in module.calls
            ),
            module.required_versions,
            sorted(
                {block.labels[0].split("_")[0] for block in module.blocks("resource", "data") if block.labels}
            ),
            sorted(block.labels[0] for block in module.blocks("provider") if block.labels),
        ]
    backend = code.module(workdir.work.module_path).backend
    parts.append(
        (backend.type, sorted((k, repr(v)) for k, v in backend.settings.items())) if backend else None
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def needs_providers(modules: Iterable[ModuleCode]) -> bool:
    """Whether the code uses a provider other than the built-in `terraform.io/builtin/terraform`."""
    return any(
        module.required_providers
        or any(
            block.labels and block.labels[0].split("_")[0] != "terraform"
            for block in module.blocks("resource", "data", "provider", "ephemeral", "action", "list")
        )
        for module in modules
    )


def starts_no_program(modules: Iterable[ModuleCode], cli_config: str) -> bool:
    """Whether the engine is the only program that runs: no provider plugin, no provisioner.

    A remote module may have either. `dev_overrides` start providers that are in no lock file.
    """
    local = tuple(modules)
    if needs_providers(local) or "dev_overrides" in cli_config:
        return False
    for module in local:
        sources = (constant(call.source) if call.source is not None else None for call in module.calls)
        if not all(isinstance(source, str) and source.startswith(("./", "../")) for source in sources):
            return False
        if any(True for block in module.blocks("resource") for _ in block.body.blocks_of("provisioner")):
            return False
    return True


class InitCache:
    """The init of one stack: look it up, link providers, store the result."""

    def __init__(self, context: ChangeContext, workdir: StackWorkdir) -> None:
        self._context = context
        self._workdir = workdir
        self._module = workdir.work.module
        self._code = code_of(context.project.code, workdir.stack)
        self._hashes = context.engines.hashes
        self._mirror = Mirror(context.project.environment.home / "providers", self._hashes)
        self._record = workdir.work.folder / "init.json"
        self._templates = context.project.environment.home / "templates"

    @functools.cached_property
    def _digest(self) -> str:
        digest = init_digest(self._code, self._workdir)
        if not self._workdir.stack.hooks:
            return digest
        root, laid_out = self._context.project.root, self._workdir.laid_out
        created = new_files(self._workdir.work, root, laid_out)
        code = [item for item in created.items() if is_code(item[0].rpartition("/")[2])]
        return hashlib.sha256(f"{digest} {code}".encode()).hexdigest()

    def lookup(self) -> InitResult | None:
        """An earlier init of this work directory, or one built from a template.

        Code in a plan can write into work directories: what init left counts only as it was recorded.
        """
        record = self._hashes.read_document(self._record) or {}
        if record.get("modules") != self._modules():
            # Terraform would not download them again.
            shutil.rmtree(self._module / _MODULES.parent, ignore_errors=True)
            record = {}
        lock = files.content_of(self._workdir.work.lock_file)
        result = self._from_record(record, lock) or self._from_template(lock)
        if result is not None:
            self._write_lock(result.lock)
        return result

    def changed_modules(self) -> tuple[str, ...]:
        """Modules in the work directory that are no longer as init downloaded them."""
        record = self._hashes.read_document(self._record)
        return differences(record["modules"], self._modules()) if record is not None else ()

    def require_unchanged(self, lock: bytes) -> None:
        """Refuse a saved plan if the mirror has another content for one of its providers.

        A plan would fetch that provider again; who applies must know that it was changed.
        """
        for provider in read_lock(lock):
            if self._mirror.is_changed(provider):
                raise _changed(self._workdir.stack.name, provider)

    def require_verified(self, lock: bytes | None) -> None:
        """Just before an apply: every provider is the package whose hash is in the lock file.

        If the lock file in the work directory has its hashes, Terraform compares them itself.
        """
        if lock is None or files.content_of(self._workdir.work.lock_file) == lock:
            return
        for provider in read_lock(lock):
            package = self._mirror.find(provider)
            if package is None or not _leads_to(self._provider_folder(provider), package.folder):
                raise _changed(self._workdir.stack.name, provider)

    def warm_providers(self, lock: bytes | None, configuration: str | None) -> WarmProviders | None:
        """Verified for each command: Terraform compares nothing of a provider that it does not start."""
        if lock is None or configuration is None:
            return None
        programs = []
        for provider in read_lock(lock):
            package = self._mirror.find(provider)
            program = executable(package.folder) if package is not None else None
            if program is None:
                raise _changed(self._workdir.stack.name, provider)
            programs.append((provider.address, str(program)))
        return WarmProviders(configuration=configuration, programs=tuple(programs))

    def _key(self, lock: bytes | None) -> str:
        settings = json.dumps(self._workdir.home.settings, sort_keys=True, default=str)
        return hashlib.sha256(f"{self._digest}\0{lock!r}\0{settings}".encode()).hexdigest()

    def _modules(self) -> dict[str, str]:
        """Hashes of the downloaded modules, and of the list that says which folder is which module."""
        try:
            modules = downloaded_modules(self._workdir.stack.name, self._workdir.work, self._hashes)
        except Refused as error:
            modules = {"downloaded modules": str(error)}
        return {**modules, "the list of downloaded modules": self._hash(_MODULES)}

    def _hash(self, path: Path) -> str:
        content = files.content_of(self._module / path) or b""
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    def _from_record(self, record: Mapping[str, Any], lock: bytes | None) -> InitResult | None:
        # Files with a secret were removed, and a workspace is selected again each time.
        reusable = not self._workdir.home.secret_on_disk and self._workdir.stack.workspace == "default"
        if record.get("key") != self._key(lock) or record["backend"] != self._hash(_BACKEND) or not reusable:
            return None
        return self._link_all(_bytes(record["lock"]))

    def _from_template(self, lock: bytes | None) -> InitResult | None:
        """Init writes the same files for all stacks with a managed state."""
        file = self._template_file(lock)
        template = self._hashes.read_document(file) if self._workdir.home.managed else None
        result = self._link_all(_bytes(template["lock"])) if template is not None else None
        if template is None or result is None:
            return None
        for path, text in ((_BACKEND, json.dumps(template["backend"])), (_MODULES, template["modules"])):
            if text is not None:
                target = self._module / path
                target.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
                target.write_text(text)
        self._write_record(lock, result)
        return result

    def _template_file(self, lock: bytes | None) -> Path:
        key = hashlib.sha256(f"{self._digest}\0{lock!r}".encode()).hexdigest()
        return self._templates / f"{key}.json"

    @contextlib.asynccontextmanager
    async def hold_mirror(self) -> AsyncIterator[None]:
        """Link what the mirror has. If something is missing, hold its lock, so that it is fetched once.

        Only one run of this process waits for the lock at a time: each waiting one needs a thread.
        """
        if self._link_known():
            yield
            return
        async with self._context.engines.mirror_lock:
            lock = self._mirror.hold_lock()
            await asyncio.to_thread(lock.__enter__)
            try:
                if not self._link_known():
                    self._require_reachable()
                yield
                await asyncio.to_thread(self._harvest)
            finally:
                lock.__exit__(None, None, None)

    def _require_reachable(self) -> None:
        """Raises HostUnreachable if another init has already failed to reach a host that this one needs."""
        environment = self._workdir.environment
        content = files.content_of(self._workdir.work.lock_file)
        product = self._workdir.engine.identity.product
        required = required_addresses(map(self._code.module, self._workdir.modules), product)
        locked = read_lock(content) if content is not None else ()
        linked = {provider.address: self._link(provider) is not None for provider in locked}
        addresses = missing_addresses(set(required), linked, product)
        self._context.hosts.require_reachable(
            self._workdir.stack.name, download_hosts(addresses, self._module, environment), environment
        )

    def _link_known(self) -> bool:
        """Whether everything that the lock file names is linked."""
        content = files.content_of(self._workdir.work.lock_file)
        if content is None:
            return not self._needs_providers()
        links = [self._link(provider) for provider in read_lock(content)]
        return None not in links

    def _needs_providers(self) -> bool:
        return needs_providers(map(self._code.module, self._workdir.modules))

    def store(self, source_lock: bytes | None) -> InitResult:
        """After a real init: add packages to the mirror, and store the result for the next run."""
        lock = files.content_of(self._workdir.work.lock_file)
        result = self._link_all(lock)
        if result is None:
            self._harvest()
            result = self._link_all(lock) or InitResult(lock=lock, plain=False)
        self._write_record(source_lock, result)
        self._write_template(source_lock, result)
        if self._link_all(lock) is not None:
            self._write_lock(lock)
        return result

    def _harvest(self) -> None:
        """Add what init installed to the mirror: verified against the lock file, probed once."""
        content = files.content_of(self._workdir.work.lock_file)
        for provider in read_lock(content) if content is not None else ():
            folder = self._provider_folder(provider)
            if self._mirror.find(provider) is None and folder.is_dir() and provider.package_hashes:
                if self._mirror.is_changed(provider):
                    self._report_changed(provider)
                path = self._workdir.environment.get("PATH", "")
                engines = self._context.engines
                engines.spoil()  # What a provider leaves running here is not found.
                ruleset = engines.confinement.rules_for_program(None, engines.own)
                handshake = probe_handshake(folder, scratch=engines.scratch, path=path, ruleset=ruleset)
                self._mirror.add(folder.resolve(), provider.package_hashes, handshake)

    def _report_changed(self, provider: LockedProvider) -> None:
        text = (
            f"warning: {provider.address} {provider.version} was changed in {self._mirror.folder} after it "
            "was verified; it was fetched again"
        )
        self._context.control.tell(Note(stack=self._workdir.stack.name, text=text))

    def _link_all(self, lock: bytes | None) -> InitResult | None:
        """Link every provider of the lock file from the mirror; None if one is missing."""
        if lock is None:
            return None if self._needs_providers() else InitResult(lock=None, plain=True)
        packages = [self._link(provider) for provider in read_lock(lock)]
        known = [package for package in packages if package is not None]
        if len(known) != len(packages):
            return None
        # In a compartment, also its socket must be out of the reach of others.
        apart = bool(self._context.engines.own)
        plain = all(package.plain and (package.placed or not apart) for package in known)
        return InitResult(lock=lock, plain=plain)

    def _link(self, provider: LockedProvider) -> Package | None:
        package, link = self._mirror.find(provider), self._provider_folder(provider)
        if package is None:
            if link.is_symlink() and self._mirror.folder in Path(os.readlink(link)).parents:  # noqa: PTH115
                # Terraform would unpack the provider into the mirror.
                link.unlink()
            return None
        if _leads_to(link, package.folder):
            return package
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            shutil.rmtree(link)
        link.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        link.symlink_to(package.folder)
        return package

    def _provider_folder(self, provider: LockedProvider) -> Path:
        machine = platform.machine()
        name = f"{sys.platform}_{_MACHINES.get(machine, machine)}"
        return self._module / _PROVIDERS / provider.address / provider.version / name

    def _write_lock(self, lock: bytes | None) -> None:
        if lock is not None:
            self._workdir.work.lock_file.write_text(lock_text_without_hashes(read_lock(lock)))

    def _write_record(self, source_lock: bytes | None, result: InitResult) -> None:
        record = {
            "key": self._key(source_lock),
            "backend": self._hash(_BACKEND),
            "modules": self._modules(),
            "lock": _text(result.lock),
        }
        self._hashes.write_document(self._record, record)

    def _write_template(self, source_lock: bytes | None, result: InitResult) -> None:
        """Not for remote modules: they are in `.terraform` itself, which a template does not contain."""
        backend = _read(self._module / _BACKEND)
        remote = any(path.is_dir() for path in (self._module / _MODULES.parent).glob("*"))
        if not self._workdir.home.managed or backend is None or remote:
            return
        modules = files.content_of(self._module / _MODULES)
        template = {
            "backend": backend,
            "modules": modules.decode() if modules is not None else None,
            "lock": _text(result.lock),
        }
        files.private_folder(self._templates)
        self._hashes.write_document(self._template_file(source_lock), template)


def _leads_to(link: Path, folder: Path) -> bool:
    return link.is_symlink() and os.readlink(link) == str(folder)  # noqa: PTH115 - text is compared


def _changed(stack: str, provider: LockedProvider) -> Refused:
    return Refused(
        "HF-MIRR-3",
        f"{stack}: the provider {provider.address} {provider.version} was changed after it was verified: it "
        "does not match the hashes of the lock file",
        hint=f"Find out what changed it. Then plan again, which fetches it again: holdfast plan {stack}",
    )


def _read(file: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _text(content: bytes | None) -> str | None:
    return base64.b64encode(content).decode() if content is not None else None


def _bytes(text: object) -> bytes | None:
    return base64.b64decode(text) if isinstance(text, str) else None
