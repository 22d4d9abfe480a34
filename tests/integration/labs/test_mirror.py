from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from provider import mirror
from workbench import Workbench, engines


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with what changes when it is written again."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def test_a_second_build_touches_nothing(tmp_path: Path) -> None:
    """A mirror in use is not written again; both versions are there, and executable."""
    first = mirror.build(tmp_path, python=Path(sys.executable))
    before = _files(tmp_path)
    assert mirror.build(tmp_path, python=Path(sys.executable)) == first == tmp_path / "cli.tfrc"
    assert _files(tmp_path) == before
    place = f"holdfast.dev/labs/lab/{{0}}/{mirror.platform_name()}/terraform-provider-lab_v{{0}}"
    assert set(before) == {"cli.tfrc", place.format("1.0.0"), place.format("2.0.0")}
    assert all(os.access(tmp_path / place.format(version), os.X_OK) for version in mirror.VERSIONS)


def test_several_builders_at_once_make_one_mirror(tmp_path: Path) -> None:
    """Parallel test processes share a mirror without a half-written file or a left-over."""
    command = [sys.executable, mirror.__file__, str(tmp_path / "mirror")]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {builder.communicate(timeout=60)[0].strip() for builder in builders}
    assert [builder.returncode for builder in builders] == [0] * 4
    assert said == {str(tmp_path / "mirror" / "cli.tfrc")}
    assert len(_files(tmp_path / "mirror")) == 3


def test_paths_with_spaces_and_quotes_work(tmp_path: Path, scratch: Path) -> None:
    """Where the mirror and the interpreter lie does not matter."""
    odd = tmp_path / 'it\'s an "odd" place'
    (odd / "bin").mkdir(parents=True)
    python = odd / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    configuration = mirror.build(odd / "mirror", python=python, versions=("1.0.0",))
    bench = Workbench.at(
        tmp_path / "work",
        engine=engines()[0],
        cli_configuration=configuration,
        scratch=scratch,
        tls=False,
        LAB_DIRECTORY=str(odd / "objects"),
    )
    bench.write('resource "lab_object" "it" {\n  name = "a"\n}\n')
    bench.apply()
    assert len(list((odd / "objects").glob("*.json"))) == 1


def test_providers_that_are_not_in_the_mirror_fail_at_once(bench_of: Callable[..., Workbench]) -> None:
    """No test waits for, or depends on, a registry on some network."""
    bench = bench_of()
    bench.folder.mkdir(parents=True)
    (bench.folder / "main.tf").write_text('provider "random" {}\nresource "random_id" "it" {}\n')
    assert "was not found in any of the search locations" in bench.run("init", "-no-color", exits=1)
