"""Init only when it is needed: what decides it is digested, providers come from the mirror, and a stack whose
state Holdfast keeps gets its `.terraform` from one that was initialised before.

Terraform is still the judge: a plan that answers "init needed" gets one real init.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import platform
import posixpath
import shutil
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.hcl.eval.code import Code, ModuleCode
from holdfast.hcl.reader import constant
from holdfast.plans.context import ChangeContext
from holdfast.plans.workdir import StackWorkdir
from holdfast.system import files
from holdfast.terraform.engine.mirror import Mirror, Package, supports_plaintext
from holdfast.terraform.lock_file import LockedProvider, lock_text_without_hashes, read_lock

_BACKEND = Path(".terraform/terraform.tfstate")
_MODULES = Path(".terraform/modules/modules.json")
_PROVIDERS = Path(".terraform/providers")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "i686": "386"}


def platform_name() -> str:
    return f"{sys.platform}_{_MACHINES.get(platform.machine(), platform.machine())}"


class InitResult(Struct, frozen=True, kw_only=True):
    """What an init left behind, and what the commands after it need to know."""

    lock: bytes | None
    """The dependency lock file with its hashes; in the work directory lies a copy without."""
    plain: bool
    """Every provider was probed to speak without plugin TLS."""


def decides(code: Code, workdir: StackWorkdir) -> str:
    """A digest of what decides init: providers and modules asked for, backend, engine; not the other code.

    Folders count as they lie to the root module: that is all that init writes down of them.
    """
    identity = workdir.engine.identity
    parts: list[object] = [
        identity.product,
        identity.version,
        workdir.home.override,
    ]
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


def asks_for_providers(modules: Iterable[ModuleCode]) -> bool:
    """Whether the code names a provider other than the built-in `terraform.io/builtin/terraform`."""
    return any(
        module.required_providers
        or any(
            block.labels and block.labels[0].split("_")[0] != "terraform"
            for block in module.blocks("resource", "data", "provider", "ephemeral", "action", "list")
        )
        for module in modules
    )


def starts_no_program(modules: Iterable[ModuleCode], cli_config: str | None) -> bool:
    """Whether the engine itself is the only program that runs: no provider plugin, no provisioner.

    A module that is fetched may have either. With `dev_overrides` Terraform starts a provider that is in no
    lock file.
    """
    known = tuple(modules)
    if asks_for_providers(known) or (cli_config is not None and "dev_overrides" in cli_config):
        return False
    for module in known:
        sources = (constant(call.source) if call.source is not None else None for call in module.calls)
        if not all(isinstance(source, str) and source.startswith(("./", "../")) for source in sources):
            return False
        if any(True for block in module.blocks("resource") for _ in block.body.blocks_of("provisioner")):
            return False
    return True


class InitCache:
    """For one prepared stack: look, link, and remember."""

    def __init__(self, context: ChangeContext, workdir: StackWorkdir) -> None:
        self._context = context
        self._workdir = workdir
        self._module = workdir.work.module
        self._mirror = Mirror(context.project.environment.home / "providers")
        self._decides = decides(context.project.code, workdir)
        self._record = workdir.work.folder / "init.json"
        self._templates = context.project.environment.home / "templates"

    # What need not be done again

    def lookup(self) -> InitResult | None:
        """An init that was done here before, or one that can be put together from what is known."""
        lock = files.content_of(self._workdir.work.lock_file)
        found = self._here_before(lock) or self._from_template(lock)
        if found is None:
            return None
        self._write_lock(found.lock)
        return found

    def _key(self, lock: bytes | None) -> str:
        settings = json.dumps(self._workdir.home.settings, sort_keys=True, default=str)
        return hashlib.sha256(f"{self._decides}\0{lock!r}\0{settings}".encode()).hexdigest()

    def _here_before(self, lock: bytes | None) -> InitResult | None:
        record = _read(self._record)
        if record is None or record.get("key") != self._key(lock) or not self._reusable:
            return None
        if not all((self._module / path).exists() for path in record["left"]):
            return None
        return self._linked(_bytes(record["lock"]))

    @property
    def _reusable(self) -> bool:
        """Where a secret had to go by file nothing was kept, and a workspace is chosen anew each time."""
        return not self._workdir.home.secret_on_disk and self._workdir.stack.workspace == "default"

    def _from_template(self, lock: bytes | None) -> InitResult | None:
        """Stacks that Holdfast keeps differ in nothing that init writes down."""
        if not self._workdir.home.managed:
            return None
        template = _read(self._templates / f"{self._template_key(lock)}.json")
        if template is None:
            return None
        found = self._linked(_bytes(template["lock"]))
        if found is None:
            return None
        self._put(_BACKEND, json.dumps(template["backend"]))
        if template["modules"] is not None:
            self._put(_MODULES, template["modules"])
        self._remember(lock, found)
        return found

    def _template_key(self, lock: bytes | None) -> str:
        return hashlib.sha256(f"{self._decides}\0{lock!r}".encode()).hexdigest()

    def _put(self, path: Path, text: str) -> None:
        target = self._module / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        target.write_text(text)

    # Around a real init

    @contextlib.asynccontextmanager
    async def filling(self) -> AsyncIterator[None]:
        """Link what the mirror has; where something is missing, hold its lock, so that it is fetched once.

        Only one run of this program waits for the lock at a time: those that wait need a thread each.
        """
        if self._link_known():
            yield
            return
        async with self._context.engines.mirror_lock:
            lock = self._mirror.hold_lock()
            await asyncio.to_thread(lock.__enter__)
            try:
                self._link_known()
                yield
                await asyncio.to_thread(self._harvest)
            finally:
                lock.__exit__(None, None, None)

    def _link_known(self) -> bool:
        """Whether everything that the lock file names is linked."""
        content = files.content_of(self._workdir.work.lock_file)
        if content is None:
            return not self._asks_for_providers()
        links = [self._link(one) for one in read_lock(content)]
        return None not in links

    def _asks_for_providers(self) -> bool:
        return asks_for_providers(
            self._context.project.code.module(folder) for folder in self._workdir.modules
        )

    def store(self, source_lock: bytes | None) -> InitResult:
        """After a real init: take packages into the mirror, and remember what need not be done again."""
        lock = files.content_of(self._workdir.work.lock_file)
        found = self._linked(lock)
        if found is None:
            self._harvest()
            found = self._linked(lock) or InitResult(lock=lock, plain=False)
        self._remember(source_lock, found)
        self._keep_template(source_lock, found)
        if self._linked(lock) is not None:
            self._write_lock(lock)
        return found

    def _harvest(self) -> None:
        """Take what init installed into the mirror: verified against the lock file, probed once."""
        content = files.content_of(self._workdir.work.lock_file)
        for one in read_lock(content) if content is not None else ():
            place = self._place(one)
            if self._mirror.find(one) is None and place.is_dir() and one.package_hashes:
                plain = supports_plaintext(
                    place,
                    scratch=self._context.engines.scratch,
                    path=self._workdir.environment.get("PATH", ""),
                )
                self._mirror.add(place.resolve(), one.package_hashes, plain=plain)

    def _linked(self, lock: bytes | None) -> InitResult | None:
        """Every provider of the lock file, linked from the mirror; None when one is not there."""
        if lock is None:
            return None if self._asks_for_providers() else InitResult(lock=None, plain=True)
        packages = [self._link(one) for one in read_lock(lock)]
        if any(package is None for package in packages):
            return None
        return InitResult(lock=lock, plain=all(package.plain for package in packages if package is not None))

    def _link(self, provider: LockedProvider) -> Package | None:
        package = self._mirror.find(provider)
        if package is None:
            return None
        place = self._place(provider)
        if place.is_symlink() and os.readlink(place) == str(package.folder):  # noqa: PTH115 - text is compared
            return package
        if place.is_symlink():
            place.unlink()
        elif place.exists():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True, mode=files.PRIVATE_FOLDER)
        place.symlink_to(package.folder)
        return package

    def _place(self, provider: LockedProvider) -> Path:
        return self._module / _PROVIDERS / provider.address / provider.version / platform_name()

    def _write_lock(self, lock: bytes | None) -> None:
        if lock is not None:
            self._workdir.work.lock_file.write_text(lock_text_without_hashes(read_lock(lock)))

    def _remember(self, source_lock: bytes | None, found: InitResult) -> None:
        left = [str(path) for path in (_BACKEND, _MODULES) if (self._module / path).exists()]
        record = {"key": self._key(source_lock), "left": left, "lock": _text(found.lock)}
        self._record.write_text(json.dumps(record))

    def _keep_template(self, source_lock: bytes | None, found: InitResult) -> None:
        backend = _read(self._module / _BACKEND)
        if not self._workdir.home.managed or backend is None or self._fetches_modules():
            return
        modules = files.content_of(self._module / _MODULES)
        template = {
            "backend": backend,
            "modules": modules.decode() if modules is not None else None,
            "lock": _text(found.lock),
        }
        file = files.private_folder(self._templates) / f"{self._template_key(source_lock)}.json"
        files.write(file, json.dumps(template), durable=False)

    def _fetches_modules(self) -> bool:
        """Modules from elsewhere lie in `.terraform` itself, which a template does not hold."""
        return any(path.is_dir() for path in (self._module / _MODULES.parent).glob("*"))


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _text(content: bytes | None) -> str | None:
    return base64.b64encode(content).decode() if content is not None else None


def _bytes(text: object) -> bytes | None:
    return base64.b64decode(text) if isinstance(text, str) else None
