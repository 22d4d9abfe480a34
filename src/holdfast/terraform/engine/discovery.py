"""Installed engines: programs on PATH and in the tools directories, and the embedded libraries.

A version query costs a process start; its result is cached and trusted as long as size, time and inode of the
file stay the same.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from pathlib import Path

from msgspec.structs import replace

from holdfast.kernel.errors import EngineError, HoldfastError
from holdfast.system import files, processes
from holdfast.system.environment import Environment
from holdfast.terraform import argv
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.engine.pool import library_path
from holdfast.terraform.versions import Version

MINIMUM = {Product.TERRAFORM: Version.parse("1.5.0"), Product.TOFU: Version.parse("1.6.0")}
_NAMES = {"terraform": Product.TERRAFORM, "tofu": Product.TOFU}
_QUERIES = 3
_KILLED = 128
"""A shell reports a program that a signal killed with a greater code."""
_CRASHES = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT))
_QUERY_LIBRARY = """
import os, sys
from ctypes import CDLL, POINTER, c_char_p, c_int64
run = CDLL(sys.argv[1]).RunCliWithCancel
run.argtypes = [c_char_p, c_int64, POINTER(c_char_p), c_int64, c_int64]
run(b"version", 2, (c_char_p * 2)(b"version", b"-json"), 1, 2)
os._exit(0)
"""
"""Runs in a process of its own: a library cannot be unloaded from ours."""


class VersionQueryError(EngineError):
    """A program was killed each time while it reported its version: whether it can be used is not known."""


class InstalledEngines:
    """Searches once and remembers the result for the life of the command."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._cache = environment.home / "engines.json"
        self._known = self._read_cache()
        self.unusable: list[tuple[str, str]] = []
        """Programs and libraries that cannot be used, with the reason: `doctor` shows them."""
        self.unknown: list[EngineId] = []
        """Engines whose version is unknown, because the query was killed. Their `version` is empty."""

    @functools.cache  # noqa: B019 - lives as long as the command
    def all(self) -> tuple[EngineId, ...]:
        """The embedded engines first, then programs, newest first."""
        binaries = sorted(
            self.binaries(),
            key=lambda engine: (Version.parse(engine.version), engine.product.value),
            reverse=True,
        )
        return (*filter(None, map(self.embedded, Product)), *binaries)

    def embedded(self, product: Product = Product.TERRAFORM) -> EngineId | None:
        path = library_path(product)
        return self._engine(EngineKind.EMBEDDED, product, path) if path is not None else None

    def binaries(self) -> tuple[EngineId, ...]:
        engines: dict[Path, EngineId | None] = {}
        for path in self._candidates():
            # A link to the program itself is the program; a link to something else (a version manager that
            # checks the name it was called by) must be called by its own name.
            real = path.resolve() if path.resolve().name in _NAMES else path.absolute()
            if real not in engines:
                engines[real] = self._engine(EngineKind.BINARY, _NAMES[real.name], real)
        return tuple(filter(None, engines.values()))

    def _engine(self, kind: EngineKind, product: Product, path: Path) -> EngineId | None:
        """With its version. None: it cannot be used, and `unusable` has the reason."""
        engine = EngineId(kind=kind, product=product, version="", path=str(path))
        oldest = MINIMUM[product]
        try:
            version, error = self._version(path, kind)
        except VersionQueryError:
            self.unknown.append(engine)
            version, error = None, "`version -json` was killed"
        if version is not None and Version.parse(version) >= oldest:
            return replace(engine, version=version)
        if version is not None:
            error = f"{product} {version} is older than {oldest}, the oldest supported version"
        self.unusable.append((engine.path, error))
        return None

    def _candidates(self) -> list[Path]:
        tools = self._environment.home / "tools"
        folders = list(self._environment.path)
        if named := self._environment.get("HOLDFAST_TOOLS"):
            folders = [Path(named), Path(named) / "bin", *folders]
        paths = [folder / name for folder in folders for name in _NAMES]
        paths += [path for name in _NAMES for path in sorted(tools.glob(f"{name}/*/{name}"))]
        # access() first: this user may not be allowed to read every folder of PATH.
        return [path for path in paths if os.access(path, os.X_OK) and path.is_file()]

    def _version(self, path: Path, kind: EngineKind) -> tuple[str | None, str]:
        """Or None, and why."""
        stat = path.stat()
        mark = [stat.st_size, stat.st_mtime_ns, stat.st_ino]
        known = self._known.get(str(path))
        if isinstance(known, dict) and known.get("mark") == mark:
            return str(known["version"]), ""
        if kind is EngineKind.EMBEDDED:
            command = (sys.executable, "-I", "-S", "-c", _QUERY_LIBRARY, str(path))
            version, error = _query_version(command, self._environment)
            error = f"the library cannot be loaded: {error or 'it reports no version'}"
        else:
            version, error = program_version(path, self._environment), "`version -json` failed"
        if version is not None:
            self._known[str(path)] = {"mark": mark, "version": version}
            files.private_folder(self._cache.parent)
            files.write(self._cache, json.dumps(self._known, indent=1), durable=False)
        return version, error

    def _read_cache(self) -> dict[str, object]:
        try:
            known = json.loads(self._cache.read_bytes())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def program_version(path: Path, environment: Environment) -> str | None:
    """The version that a program reports; None when it does not respond as Terraform does.

    Raises `VersionQueryError` if it gets no chance to.
    """
    return _query_version((str(path), *argv.VERSION), environment)[0]


def _query_version(command: tuple[str, ...], environment: Environment) -> tuple[str | None, str]:
    """And the last line of its standard error."""
    child = child_environment(
        caller=environment.variables,
        # The user's CLI configuration does not matter here, and its errors would go to stdout.
        named={"TF_CLI_CONFIG_FILE": os.devnull},
        credentials={},
        scratch="/tmp",  # noqa: S108
    )
    for _ in range(_QUERIES):
        answer = processes.run(command, folder=Path("/"), environment=child, seconds=60)
        version = _parse_version(answer.out)
        if version is not None or 0 <= answer.code <= _KILLED or -answer.code in _CRASHES:
            crash = f"it crashed (signal {-answer.code})" if answer.code < 0 else ""
            return version, crash or answer.err.decode(errors="replace").strip().rpartition("\n")[2]
    raise VersionQueryError("HF-ENG-8", f"{command[0]} was killed each time it was asked for its version")


def _parse_version(document: bytes) -> str | None:
    try:
        version = str(json.loads(document)["terraform_version"])
        Version.parse(version)
    except (ValueError, KeyError, TypeError, HoldfastError):
        return None
    return version
