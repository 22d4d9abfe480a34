"""Content that a plan uses and that is not in the repository: downloaded modules, files elsewhere, provider
overrides. Its hashes are part of the plan's destination.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.kernel.errors import Refused
from holdfast.kernel.patterns import pattern
from holdfast.plans.environment.destination import clusters_of, hash_text
from holdfast.stacks.reads.inputs import OutsideRead, fileset_pattern
from holdfast.terraform.engine.folder_hashes import FolderHashes
from holdfast.terraform.workdirs.workdir import WorkDirectory

_MODULES = ".terraform/modules"
_MISSING = "missing"
_MAX_FILES = 10_000
_MAX_KUBECONFIG = 1_000_000
_CHANGING = ("/proc/", "/sys/", "/dev/")
"""Their files have another content each time, or none that ends."""
_QUOTED = pattern(r'"([^"\n]+)"')
_KUBECONFIGS = ("KUBE_CONFIG_PATH", "KUBE_CONFIG_PATHS", "KUBECONFIG")


def downloaded_modules(stack: str, work: WorkDirectory, hashes: FolderHashes) -> dict[str, str]:
    """A hash of each module that init downloaded. Terraform reads their files again when it applies."""
    top = work.module / _MODULES
    parts = {}
    for folder in sorted(top.iterdir()) if top.is_dir() else ():
        name = folder.name
        if folder.is_dir():
            _require_own_links(stack, name, folder)
            try:
                parts[f"downloaded module {name}"] = hashes.hash_of(
                    folder, work.folder / f"module.{name}.json", skipped=(".git",)
                )
            except FileNotFoundError:
                parts[f"downloaded module {name}"] = _MISSING
    return parts


def _require_own_links(stack: str, name: str, folder: Path) -> None:
    """A link out of the module would lead to content that no hash covers."""
    inside = f"{os.path.realpath(folder)}/"
    for place, folders, names in os.walk(folder):
        for entry in (*folders, *names):
            path = f"{place}/{entry}"
            if os.path.islink(path) and not f"{os.path.realpath(path)}/".startswith(inside):  # noqa: PTH114
                raise Refused(
                    "HF-WORK-5",
                    f"{stack}: the downloaded module {name} has a link that leads out of it: "
                    f"{os.path.relpath(path, folder)}",
                    hint="Use a version of the module without it.",
                )


def files_outside(stack: str, reads: Iterable[OutsideRead], home: Path) -> dict[str, str]:
    """A hash of each file outside the repository that the stack reads by its path."""
    parts = {}
    for outside in sorted(reads, key=repr):
        place = _place(home, outside.path)
        if outside.kubeconfig:
            parts[f"clusters of {outside.path}"] = _clusters_in(place)
        elif outside.pattern is not None:
            parts[f"files {outside.path}/{outside.pattern}"] = _fileset(stack, place, outside.pattern)
        elif not f"{place}/".startswith(_CHANGING):
            parts[f"file {outside.path}"] = _content(place)
    return parts


def _content(place: Path) -> str:
    try:
        if not place.is_file():
            return _MISSING
        with place.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError:
        return "unreadable"


def _fileset(stack: str, folder: Path, glob: str) -> str:
    expression = fileset_pattern(glob)
    lines = [
        f"{name}\0{_content(folder / name)}"
        for name in _limited(stack, folder)
        if expression is None or expression.fullmatch(name)
    ]
    return hash_text("\n".join(sorted(lines)))


def _limited(stack: str, folder: Path) -> Iterator[str]:
    count = 0
    for place, _, names in os.walk(folder):
        for name in names:
            count += 1
            if count > _MAX_FILES:
                raise Refused(
                    "HF-WORK-6",
                    f"{stack}: it searches more than {_MAX_FILES} files in {folder}, outside the repository",
                    hint="Copy the files that it needs into the repository.",
                )
            yield os.path.relpath(f"{place}/{name}", folder)


def provider_overrides(cli_config: str, module: Path, hashes: FolderHashes) -> dict[str, str]:
    """`dev_overrides` of the CLI configuration, HCL or JSON: such a provider is in no lock file.

    Any text in quotes may be the folder of one, relative to where Terraform runs.
    """
    if "dev_overrides" not in cli_config:
        return {}
    folders = {text: module / text for text in _QUOTED.findall(cli_config) if "/" in text}
    parts = {
        f"provider override {text}": _folder_hash(folder, hashes)
        for text, folder in folders.items()
        if any(folder.glob("terraform-provider-*"))
    }
    return {**parts, "provider overrides": hash_text(cli_config)}


def _folder_hash(folder: Path, hashes: FolderHashes) -> str:
    try:
        return hashes.hash_of(folder)
    except OSError:
        return _MISSING


def clusters(environment: Mapping[str, str]) -> dict[str, str]:
    """The clusters of the kubeconfig files that the environment names, without credentials."""
    home, parts = Path(environment.get("HOME", "/")), {}
    for name in _KUBECONFIGS:
        paths = tuple(filter(None, environment.get(name, "").split(os.pathsep)))
        if paths:
            hashes = (_clusters_in(_place(home, path)) for path in paths)
            parts[f"clusters of {name}"] = hash_text("\n".join(hashes))
    return parts


def _place(home: Path, path: str) -> Path:
    return home / path[1:].lstrip("/") if path.startswith("~") else Path(os.path.normpath(path))


def _clusters_in(place: Path) -> str:
    import yaml  # noqa: PLC0415 - few stacks need it

    try:
        with place.open("rb") as file:
            return clusters_of(yaml.safe_load(file.read(_MAX_KUBECONFIG)))
    except OSError:
        return _MISSING
    except (ValueError, RecursionError, yaml.YAMLError):
        return _content(place)
