"""Build OpenTofu as a shared library, and pack it as the wheel `holdfast-libtofu`.

The source comes from the Go module proxy and must have the checksum in versions.toml. Needs Go, a C compiler
and Python 3.11, nothing else. The same input gives the same wheel.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODULE = "github.com/opentofu/opentofu"
PACKAGE = "holdfast_libtofu"
FREE_BYTES = 4 * 10**9
ADDED = {
    "library.go": "cmd/tofu/library.go",
    "kept_schemas.go": "internal/plugins/kept_schemas.go",
    "shared_functions.go": "internal/lang/shared_functions.go",
}
"""Our files, and where they are added to OpenTofu's source."""
CHANGED = {
    "cmd/tofu/commands.go": ("func makeShutdownCh() ", "func makeSignalShutdownCh() "),
    "internal/plugins/library.go": (
        "providerSchemas:   map[addrs.Provider]*providerSchemaEntry{},",
        "providerSchemas:   keptSchemas(providerFactories),",
    ),
    "internal/lang/functions.go": ("func (s *Scope) Functions() ", "func (s *Scope) newFunctions() "),
    "internal/lang/eval.go": (
        "maps.Copy(hclCtx.Functions, s.Functions())",
        "maps.Copy(hclCtx.Functions, functionsToCopy(hclCtx, s, refs))",
    ),
}
"""Files of OpenTofu with the text that is replaced in them."""
EXPECTED = {
    "cmd/tofu/commands.go": ("makeShutdownCh(),", "var commands map[string]cli.CommandFactory"),
    "cmd/tofu/main.go": ("func realMain() int {", "defer logging.PanicHandler()", "if commands == nil {"),
    "cmd/tofu/oci_distribution.go": ("var ociRepos map",),
}
"""What our files rely on."""
PLUGIN_VARIABLE = "var managedClients = make([]*Client, "
"""The same, in the module go-plugin: the linker does not notice if it is missing."""
LICENCE = re.compile(r"(licen[sc]e|copying|copyright|notice)(?!.*\.go$)", re.IGNORECASE)
TAGS = "-tags=netgo,osusergo"
"""Without the C library's resolver, as in OpenTofu's own releases."""
PROXY_HINT = "Check the connection to the Go module proxy (go env GOPROXY), and run this again."
MACHINES = {
    ("linux", "amd64"): "x86_64",
    ("linux", "arm64"): "aarch64",
    ("darwin", "amd64"): "x86_64",
    ("darwin", "arm64"): "arm64",
}
"""By system and architecture in Go's words, the machine in those of wheels."""
DECIDING = (
    "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT",
    "CC", "CGO_CFLAGS", "CGO_CPPFLAGS", "CGO_LDFLAGS",
)  # fmt: skip
"""Settings of Go that decide what it builds."""
MAC_TARGET = "12.0"
"""The oldest macOS that Go supports."""


class BuildError(Exception):
    """The library cannot be built: what is wrong, and what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"error: {message}\n  {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One entry of versions.toml."""

    version: str
    sum: str
    go: str
    post: int

    @property
    def wheel_version(self) -> str:
        return f"{self.version}.post{self.post}" if self.post else self.version


def read_release(version: str | None, table: Path = HERE / "versions.toml") -> Release:
    releases = [Release(**entry) for entry in tomllib.loads(table.read_text())["opentofu"]]
    for release in releases:
        if version in {None, release.version}:
            return release
    known = ", ".join(release.version for release in releases)
    raise BuildError(
        f"the checksum of OpenTofu {version} is not known",
        f"Known versions: {known}. {table.parent}/README.md says how to add one.",
    )


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print what is done, then how long it took."""
    print(f"· {name}", end="", flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print(flush=True)
        raise
    print(f": {time.monotonic() - start:.1f} s", flush=True)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def run_go(*arguments: str, folder: Path, hint: str, **variables: str) -> str:
    """What Go prints. GOFLAGS and workspaces of the user do not matter here."""
    # If GOFLAGS were empty, Go would take those of `go env -w`.
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off", **variables}
    try:
        ran = subprocess.run(
            ("go", *arguments), cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip() or error.stdout.strip()
        if "no space left on device" in reason:
            hint = "Free some disk space: Go's cache needs about 3 GB (go clean -cache empties it)."
        raise BuildError(f"`go {arguments[0]} {arguments[1]}` failed:\n{reason[-3000:]}", hint) from error
    return ran.stdout


def find_go(release: Release, folder: Path) -> dict[str, str]:
    """The settings of the installed Go, by their names in `go env`."""
    needed = f"OpenTofu {release.version} needs Go {release.go} or newer"
    if shutil.which("go") is None:
        raise BuildError("Go is not installed", f"{needed}: https://go.dev/dl, or your package manager.")
    go: dict[str, str] = json.loads(run_go("env", "-json", folder=folder, hint="Check your Go: go env"))
    if numbers(go["GOVERSION"]) < numbers(release.go) and go.get("GOTOOLCHAIN", "local") == "local":
        raise BuildError(
            f"{needed}; this is {go['GOVERSION']}",
            "Install it from https://go.dev/dl, or let Go get it itself: GOTOOLCHAIN=auto make libtofu",
        )
    if shutil.which(go["CC"].split()[0]) is None:
        raise BuildError(
            f"there is no C compiler ({go['CC']})",
            "Install one: apt-get install gcc libc6-dev, dnf install gcc, or xcode-select --install.",
        )
    if (go["GOOS"], go["GOARCH"]) not in MACHINES:
        raise BuildError(
            f"{go['GOOS']}/{go['GOARCH']} is not supported", "Use Linux or macOS on x86-64 or arm64."
        )
    return go


def check_disk(*folders: Path) -> None:
    for folder in folders:
        existing = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(existing).free
        if free < FREE_BYTES:
            raise BuildError(
                f"{existing} has {free / 10**9:.1f} GB free; the build needs {FREE_BYTES // 10**9} GB",
                "Free some space, or choose other folders: --build DIR and the variable GOCACHE.",
            )


def source_sum(folder: Path, prefix: str) -> str:
    """The checksum that Go uses for modules (h1): of the sorted list of all files and their SHA-256."""
    lines = []
    for path in folder.rglob("*"):
        if path.is_file():
            name = f"{prefix}/{path.relative_to(folder).as_posix()}"
            lines.append((name.encode(), hashlib.sha256(path.read_bytes()).hexdigest()))
    text = b"".join(digest.encode() + b"  " + name + b"\n" for name, digest in sorted(lines))
    return f"h1:{base64.b64encode(hashlib.sha256(text).digest()).decode()}"


def fetch_source(release: Release, source: Path) -> None:
    """A copy of the module's source, with the pinned checksum. Go checks it in its own database as well."""
    name = f"{MODULE}@v{release.version}"
    downloaded = run_go(
        *("mod", "download", "-json", name),
        folder=source.parent,
        hint=PROXY_HINT,
    )
    shutil.copytree(json.loads(downloaded)["Dir"], source, copy_function=shutil.copyfile)
    for path in (source, *source.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    found = source_sum(source, name)
    if found != release.sum:
        raise BuildError(
            f"the source of OpenTofu {release.version} is not the expected one: {found}, not {release.sum}",
            "Nothing was built. Delete it from Go's cache (go clean -modcache) and run this again.",
        )


def add_library(source: Path) -> None:
    """Add our files, and change OpenTofu's so that these are used."""
    texts = [(name, text) for name, expected in EXPECTED.items() for text in expected]
    for name, text in (*texts, *((name, old) for name, (old, _) in CHANGED.items())):
        path = source / name
        count = path.read_text().count(text) if path.is_file() else 0
        if count != 1:
            raise _changed(f"{name} has {text!r} {count} times instead of once")
    for name, (old, new) in CHANGED.items():
        (source / name).write_text((source / name).read_text().replace(old, new))
    for name, place in ADDED.items():
        shutil.copyfile(HERE / name, source / place)


def linked_modules(source: Path) -> dict[str, Path]:
    """The modules that become part of the library, and where their source is."""
    listing = run_go(
        *("list", "-deps", TAGS, "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./cmd/tofu"),
        folder=source,
        hint=PROXY_HINT,
        CGO_ENABLED="1",
    )
    modules = dict(sorted(line.split("\t") for line in set(listing.splitlines()) if line))
    folders = {name: Path(folder) for name, folder in modules.items() if name != MODULE}
    if PLUGIN_VARIABLE not in (folders["github.com/hashicorp/go-plugin"] / "client.go").read_text():
        raise _changed(f"go-plugin has no {PLUGIN_VARIABLE!r}")
    return folders


def licences(modules: Mapping[str, Path]) -> str:
    """The licences of all modules: most of them must go with a copy of the program."""
    texts = []
    for name, folder in modules.items():
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and LICENCE.match(path.name)]
        if not files:
            raise _changed(f"the module {name} has no licence")
        texts += [
            f"{'=' * 100}\n{name}: {path.name}\n\n{path.read_text(errors='replace')}\n" for path in files
        ]
    return "".join(texts)


def _changed(what: str) -> BuildError:
    hint = "Adapt engines/libtofu to this version of OpenTofu."
    return BuildError(f"OpenTofu's source is not as our files expect it: {what}", hint)


def compile_library(source: Path, library: Path) -> None:
    run_go(
        *("build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath"),
        *(TAGS, f"-ldflags=-s -w -buildid= -X {MODULE}/version.dev=no"),
        *("-o", str(library), "./cmd/tofu"),
        folder=source,
        hint=PROXY_HINT,
        CGO_ENABLED="1",
        MACOSX_DEPLOYMENT_TARGET=MAC_TARGET,
    )


def platform_tag(go: Mapping[str, str], library: bytes) -> str:
    """On Linux with the newest version of the C library that the library asks for."""
    machine = MACHINES[go["GOOS"], go["GOARCH"]]
    if go["GOOS"] == "darwin":
        return f"macosx_{MAC_TARGET.replace('.', '_')}_{machine}"
    versions = {numbers(text.decode())[:2] for text in re.findall(rb"\0GLIBC_([0-9.]+)(?=\0)", library)}
    if not versions:
        return f"linux_{machine}"
    major, minor = max(*versions, (2, 17))
    return f"manylinux_{major}_{minor}_{machine}"


def wheel_files(
    release: Release, source: Path, library: Path, tag: str, modules_licences: str
) -> dict[str, bytes]:
    """The content of the wheel, except RECORD."""
    notice = (HERE / "NOTICE").read_text()
    notice = notice.replace("@VERSION@", release.version).replace("@SUM@", release.sum)
    metadata = (
        f"Metadata-Version: 2.4\nName: holdfast-libtofu\nVersion: {release.wheel_version}\n"
        f"Summary: OpenTofu {release.version} as a shared library, for Holdfast\n"
        "License-Expression: MPL-2.0 AND Apache-2.0\n"
        "License-File: LICENSE\nLicense-File: LICENSE.holdfast\n"
        "License-File: LICENSE.modules\nLicense-File: NOTICE\n"
        f"Requires-Python: >=3.11\nDescription-Content-Type: text/plain\n\n{notice}"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: build.py\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    init = f'"""OpenTofu as a shared library."""\n\n__version__ = "{release.version}"\n'
    info = f"{PACKAGE}-{release.wheel_version}.dist-info"
    return {
        f"{PACKAGE}/__init__.py": init.encode(),
        f"{PACKAGE}/{library.name}": library.read_bytes(),
        **{f"{PACKAGE}/source/{name}": (source / name).read_bytes() for name in (*CHANGED, *ADDED.values())},
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": wheel.encode(),
        f"{info}/licenses/LICENSE": (source / "LICENSE").read_bytes(),
        f"{info}/licenses/LICENSE.holdfast": (ROOT / "LICENSE").read_bytes(),
        f"{info}/licenses/LICENSE.modules": modules_licences.encode(),
        f"{info}/licenses/NOTICE": notice.encode(),
    }


def write_wheel(path: Path, files: Mapping[str, bytes]) -> None:
    """Without times and owners: the same files give the same wheel. RECORD comes last."""
    record = next(name for name in files if name.endswith("/WHEEL")).replace("/WHEEL", "/RECORD")
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, record: "".join((*lines, f"{record},,\n")).encode()}.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith((".so", ".dylib")) else 0o100644) << 16
            archive.writestr(entry, content)


def input_digest(release: Release, go: Mapping[str, str]) -> str:
    """Of all that decides what is built."""
    digest = hashlib.sha256(repr((release, [(name, go.get(name)) for name in DECIDING])).encode())
    for path in (*(HERE / name for name in (*ADDED, "build.py", "NOTICE")), ROOT / "LICENSE"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build_wheel(release: Release, folder: Path) -> Path:
    """The wheel; built only if there is none of the same input."""
    folder.mkdir(parents=True, exist_ok=True)
    go = find_go(release, folder)
    finished = folder / input_digest(release, go)
    if finished.is_dir():
        wheel = next(finished.glob("*.whl"))
        print(f"· {wheel.name} is up to date")
        return wheel
    check_disk(folder, Path(go["GOCACHE"]))
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        source = work / "source"
        library = work / ("libtofu.dylib" if go["GOOS"] == "darwin" else "libtofu.so")
        with step(f"getting the source of OpenTofu {release.version} and checking it"):
            fetch_source(release, source)
            add_library(source)
        with step(f"compiling with {go['GOVERSION']} (5 to 15 minutes the first time)"):
            modules = {"go": Path(go["GOROOT"]), **linked_modules(source)}
            compile_library(source, library)
        with step("packing the wheel"):
            tag = platform_tag(go, library.read_bytes())
            (work / "wheel").mkdir()
            file = f"{PACKAGE}-{release.wheel_version}-py3-none-{tag}.whl"
            files = wheel_files(release, source, library, tag, licences(modules))
            write_wheel(work / "wheel" / file, files)
        (work / "wheel").rename(finished)
    return finished / file


def install(wheel: Path) -> None:
    """Into the Python that runs this, unless the same wheel is installed already."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        wanted = [line for line in archive.read(record).decode().splitlines() if not line.endswith(",,")]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        installed = importlib.metadata.distribution("holdfast-libtofu").read_text("RECORD") or ""
        if set(wanted) <= set(installed.splitlines()):
            print(f"· {wheel.name} is installed in {sys.prefix} already")
            return
    with step(f"installing it into {sys.prefix}"):
        options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--force-reinstall")
        if subprocess.run(
            (sys.executable, "-m", "pip", "install", *options, str(wheel)), check=False
        ).returncode:
            raise BuildError("pip could not install the wheel", f"Install it yourself: pip install {wheel}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", help="of OpenTofu; one of versions.toml")
    parser.add_argument("--build", type=Path, default=ROOT / "dist/libtofu", help="folder to build in")
    parser.add_argument("--out", type=Path, help="copy the wheel to this folder")
    parser.add_argument("--install", action="store_true", help="install the wheel with this Python")
    options = parser.parse_args(arguments)
    try:
        wheel = build_wheel(read_release(options.version), options.build.resolve())
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            wheel = Path(shutil.copy2(wheel, options.out))
        if options.install:
            install(wheel)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"· {wheel}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
