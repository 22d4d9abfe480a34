"""Builds an unpacked filesystem mirror with the lab provider, for `terraform init` without a network.

`python labs/provider/mirror.py FOLDER` does it from a shell and prints the CLI configuration to use.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ADDRESS = "holdfast.dev/labs/lab"
VERSIONS = ("1.0.0", "2.0.0")


class Package(NamedTuple):
    """One version of a provider that main.py knows, under one address."""

    address: str
    version: str

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]


_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "i686": "386"}
_SAY_PACKAGES = "import sysconfig; print('\\n'.join(sysconfig.get_path(p) for p in ('purelib', 'platlib')))"


def build(
    folder: Path, *, python: Path, versions: Sequence[str] = VERSIONS, also: Sequence[Package] = ()
) -> Path:
    """Write the mirror into `folder` and answer the path of its `cli.tfrc`.

    What is already right is not touched, and several processes may build the same folder at once. `python`
    needs the package `tf`; the provider runs on it, from the sources beside this file.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    packages = _packages_of(python)
    with _alone(folder):
        for package in (*(Package(ADDRESS, version) for version in versions), *also):
            place = folder / package.address / package.version / platform_name()
            place.mkdir(parents=True, exist_ok=True)
            launcher = _launcher(package, python=python, packages=packages)
            name = f"terraform-provider-{package.name}_v{package.version}"
            _write(place / name, launcher, mode=0o755, aside=folder)
        return _write(folder / "cli.tfrc", _cli_configuration(folder), mode=0o644, aside=folder)


def platform_name() -> str:
    """The machine this runs on as Terraform calls it, such as linux_amd64."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}_{_MACHINES.get(machine, machine)}"


def _launcher(package: Package, *, python: Path, packages: Sequence[str]) -> str:
    """A shell script, because a `#!` line may neither be long nor hold a space."""
    main = Path(__file__).resolve().with_name("main.py")
    words = [str(python.absolute()), "-I", "-S", str(main), package.name]
    words += ["--version", package.version, "--packages", *packages]
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"


def _cli_configuration(folder: Path) -> str:
    """Only this mirror, so that a provider that is not in it fails at once instead of asking a network."""
    return (
        "disable_checkpoint = true\n\n"
        "provider_installation {\n"
        "  filesystem_mirror {\n"
        f"    path = {json.dumps(str(folder), ensure_ascii=False)}\n"
        "  }\n"
        "}\n"
    )


def _packages_of(python: Path) -> list[str]:
    """Where that Python keeps what is installed; asked of it, as it need not be the one that runs this."""
    said = subprocess.run([python, "-I", "-c", _SAY_PACKAGES], check=True, capture_output=True, text=True)
    return list(dict.fromkeys(said.stdout.splitlines()))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One builder at a time: no file of a second one comes and goes while Terraform reads the folder."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str, *, mode: int, aside: Path) -> Path:
    with contextlib.suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") == text:
            return path
    new = aside / f".{path.name}.{os.getpid()}"
    new.write_text(text, encoding="utf-8")
    new.chmod(mode)
    return new.replace(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 (the program and its one argument)
        sys.exit("Usage: python labs/provider/mirror.py FOLDER")
    print(build(Path(sys.argv[1]), python=Path(sys.executable)))
