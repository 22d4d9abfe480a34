"""The build of OpenTofu as a library, without Go: what is refused, and what is in the wheel."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import build
from build import BuildError, Release

GO = """#!{python}
import json, os, pathlib, sys
here, arguments = pathlib.Path({here!r}), sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
assert os.environ["GOFLAGS"] == "-mod=readonly" and os.environ["GOWORK"] == "off"
answer = json.loads((here / "answers.json").read_text())[arguments[0]]
sys.stderr.write(answer.get("error", ""))
if arguments[0] == "build":
    library = pathlib.Path(arguments[arguments.index("-o") + 1])
    library.write_bytes(b"\\0GLIBC_2.3.2\\0GLIBC_2.28\\0libc.so\\0")
print(answer["out"])
sys.exit(bool(answer.get("error")))
"""


class World(NamedTuple):
    """A module cache with a source that looks like OpenTofu's, and a Go that finds it."""

    folder: Path
    release: Release

    @property
    def source(self) -> Path:
        return self.folder / "cache/opentofu"

    def calls(self, command: str) -> int:
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return sum(line.startswith(f"{command} ") for line in lines)

    def answer(self, command: str, *, error: str = "", **values: str) -> None:
        path = self.folder / "answers.json"
        answers = json.loads(path.read_text())
        if values:
            answers[command]["out"] = json.dumps({**json.loads(answers[command]["out"]), **values})
        answers[command]["error"] = error
        path.write_text(json.dumps(answers))

    def build(self, place: str = "build") -> Path:
        return build.build_wheel(self.release, self.folder / place)

    def pin_source(self) -> World:
        name = f"{build.MODULE}@v{self.release.version}"
        pinned = build.source_sum(self.source, name)
        return World(self.folder, Release(version="9.8.7", sum=pinned, go="1.26.0", post=2))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    files = {f"opentofu/{name}": "\n".join(texts) for name, texts in build.EXPECTED.items()}
    for name, (old, _) in build.CHANGED.items():
        files[f"opentofu/{name}"] = f"{files.get(f'opentofu/{name}', '')}\n{old}"
    for name in build.ADDED.values():
        (tmp_path / "cache/opentofu" / name).parent.mkdir(parents=True, exist_ok=True)
    files["opentofu/LICENSE"] = "the licence of OpenTofu"
    files["plugin/client.go"] = f"{build.PLUGIN_VARIABLE}0, 5)"
    files["plugin/LICENSE.txt"] = "the licence of go-plugin"
    files["go/LICENSE"] = "the licence of Go"
    for name, text in files.items():
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    answers = {
        "env": json.dumps(
            {
                "GOVERSION": "go1.26.8",
                "GOOS": "linux",
                "GOARCH": "amd64",
                "CC": "cc -g",
                "GOTOOLCHAIN": "local",
                "GOROOT": str(tmp_path / "cache/go"),
                "GOCACHE": str(tmp_path),
            }
        ),
        "mod": json.dumps({"Dir": str(tmp_path / "cache/opentofu")}),
        "list": f"\n{build.MODULE}\t/x\ngithub.com/hashicorp/go-plugin\t{tmp_path / 'cache/plugin'}\n",
        "build": "",
    }
    (tmp_path / "answers.json").write_text(json.dumps({name: {"out": out} for name, out in answers.items()}))
    (tmp_path / "bin").mkdir()
    for name in ("go", "cc"):
        (tmp_path / "bin" / name).write_text(GO.format(python=sys.executable, here=str(tmp_path)))
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(build, "FREE_BYTES", 1)
    return World(tmp_path, Release(version="9.8.7", sum="", go="1.26.0", post=2)).pin_source()


def test_the_wheel_is_complete_and_the_same_each_time(world: World) -> None:
    """Library, licences, notice and changed source; every file in RECORD with its hash."""
    wheel = world.build()
    assert wheel.name == "holdfast_libtofu-9.8.7.post2-py3-none-manylinux_2_28_x86_64.whl"
    assert wheel.read_bytes() == world.build("elsewhere").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
        assert archive.getinfo("holdfast_libtofu/libtofu.so").external_attr >> 16 == 0o100755
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    info = "holdfast_libtofu-9.8.7.post2.dist-info"
    record = [line.split(",") for line in files[f"{info}/RECORD"].decode().splitlines()]
    assert [name for name, *_ in record] == list(files)
    assert record.pop() == [f"{info}/RECORD", "", ""]
    for name, digest, size in record:
        sha = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
        assert (digest, size) == (f"sha256={sha}", str(len(files[name])))
    assert "Tag: py3-none-manylinux_2_28_x86_64" in files[f"{info}/WHEEL"].decode()
    metadata = files[f"{info}/METADATA"].decode()
    assert "Name: holdfast-libtofu\nVersion: 9.8.7.post2\n" in metadata
    assert f"{build.MODULE}@v9.8.7 ({world.release.sum})" in metadata
    assert files[f"{info}/licenses/LICENSE"] == b"the licence of OpenTofu"
    for line in metadata.splitlines():
        if line.startswith("License-File: "):
            assert f"{info}/licenses/{line.removeprefix('License-File: ')}" in files
    modules = files[f"{info}/licenses/LICENSE.modules"].decode()
    assert "the licence of go-plugin" in modules
    assert "the licence of Go" in modules
    for name, (old, new) in build.CHANGED.items():
        changed = files[f"holdfast_libtofu/source/{name}"].decode()
        assert (changed.count(old), changed.count(new)) == (0, 1)
    for name, place in build.ADDED.items():
        assert files[f"holdfast_libtofu/source/{place}"] == (build.HERE / name).read_bytes()


def test_the_second_run_does_not_build_again(world: World) -> None:
    first = world.build()
    assert world.build() == first
    assert world.calls("build") == 1
    for number, settings in enumerate(({"GOVERSION": "go1.27.0"}, {"GOAMD64": "v3"}, {"CC": "cc -O3"}), 2):
        world.answer("env", **settings)
        assert world.build() != first
        assert world.calls("build") == number


def test_another_source_is_refused(world: World) -> None:
    """Go's own cache may have been changed: the files themselves are compared with the pinned checksum."""
    (world.source / "added.go").write_text("package main")
    with pytest.raises(BuildError, match="is not the expected one: h1:"):
        world.build()
    assert world.calls("build") == 0
    assert list((world.folder / "build").iterdir()) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("opentofu/cmd/tofu/commands.go", "package main"),
        ("opentofu/internal/plugins/library.go", "package plugins"),
        ("opentofu/cmd/tofu/commands.go", "\n".join(2 * build.EXPECTED["cmd/tofu/commands.go"])),
        ("opentofu/cmd/tofu/main.go", "package main"),
        ("plugin/client.go", "package plugin"),
        ("plugin/LICENSE.txt", None),
    ],
)
def test_a_source_that_our_files_do_not_fit_is_refused(world: World, file: str, content: str | None) -> None:
    path = world.folder / "cache" / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(BuildError, match=r"not as our files expect it"):
        world.pin_source().build()


def test_errors_say_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        with pytest.raises(BuildError) as caught:
            world.build()
        return str(caught.value)

    world.answer("build", error="write /x: no space left on device")
    assert "go clean -cache" in refused()
    world.answer("mod", error="dial tcp: lookup of the proxy: no such host")
    assert "no such host\n  Check the connection to the Go module proxy" in refused()
    monkeypatch.setattr(build, "FREE_BYTES", 10**18)
    assert "GB free; the build needs" in refused()
    world.answer("env", GOOS="windows")
    assert "Use Linux or macOS" in refused()
    (world.folder / "bin/cc").unlink()
    assert "there is no C compiler (cc -g)" in refused()
    world.answer("env", GOVERSION="go1.25.9")
    assert "needs Go 1.26.0 or newer; this is go1.25.9" in refused()
    world.answer("env", GOTOOLCHAIN="auto")
    assert "there is no C compiler" in refused()
    (world.folder / "bin/go").unlink()
    assert "Go is not installed\n  OpenTofu 9.8.7 needs Go 1.26.0 or newer: https://go.dev/dl" in refused()


def test_only_versions_with_a_checksum_are_built() -> None:
    newest = build.read_release(None)
    assert newest == build.read_release(newest.version)
    assert newest.sum.startswith("h1:")
    with pytest.raises(BuildError, match=r"the checksum of OpenTofu 0.0.1 is not known"):
        build.read_release("0.0.1")


def test_wheels_for_macos_name_its_oldest_version(world: World) -> None:
    world.answer("env", GOOS="darwin", GOARCH="arm64")
    wheel = world.build()
    assert wheel.name.endswith("-py3-none-macosx_12_0_arm64.whl")
    assert "holdfast_libtofu/libtofu.dylib" in zipfile.ZipFile(wheel).namelist()
    shutil.rmtree(wheel.parent)
