from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from provider import mirror
from provider.service import LabService
from sdwan import mirror as sdwan_mirror
from workbench import Engine, Workbench, engines

_ENGINES = engines()
_LONG = frozenset({"test_faults.py", "test_objects.py", "test_versions.py"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The lab from one end to the other: the tests of what stands on it use it every day."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name in _LONG:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def cli_configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mirror.build(tmp_path_factory.mktemp("mirror"), python=Path(sys.executable))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A private TMPDIR with a short name: pytest's own folders are too deep for a socket."""
    with tempfile.TemporaryDirectory(prefix="hf", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(params=_ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


@pytest.fixture(params=[True, False], ids=["tls", "no-tls"])
def tls(request: pytest.FixtureRequest) -> bool:
    chosen: bool = request.param
    return chosen


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def bench_of(tmp_path: Path, cli_configuration: Path, scratch: Path) -> Callable[..., Workbench]:
    """Makes workbenches: `bench_of(engine, tls=False, LAB_DIRECTORY=…)`, each `folder` its own."""

    def make(
        engine: Engine = _ENGINES[0], *, tls: bool = False, folder: str = "work", **variables: str
    ) -> Workbench:
        return Workbench.at(
            tmp_path / folder,
            engine=engine,
            cli_configuration=cli_configuration,
            scratch=scratch,
            tls=tls,
            **variables,
        )

    return make


@pytest.fixture
def bench(engine: Engine, bench_of: Callable[..., Workbench], objects: Path) -> Workbench:
    """Objects are files, and plugin TLS is off."""
    return bench_of(engine, LAB_DIRECTORY=str(objects))


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@pytest.fixture
def served(bench_of: Callable[..., Workbench], service: LabService) -> Workbench:
    """Objects are behind the service; the embedded engine."""
    return bench_of(LAB_URL=service.url)


@pytest.fixture(scope="session")
def sdwan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CLI configuration of a mirror in which the stand-ins for real providers are."""
    return sdwan_mirror.build(tmp_path_factory.mktemp("sdwan"), python=Path(sys.executable))


Shipped = Callable[..., Workbench]


@pytest.fixture
def shipped(tmp_path: Path, sdwan: Path, scratch: Path) -> Shipped:
    """Makes workbenches with a copy of a blueprint: `shipped("versa-site", values, VARIABLE=…)`."""

    def make(name: str, values: dict[str, Any], **variables: str) -> Workbench:
        bench = Workbench.at(
            tmp_path / name,
            engine=_ENGINES[0],
            cli_configuration=sdwan,
            scratch=scratch,
            tls=False,
            **variables,
        )
        shutil.copytree(Path(__file__).parents[3] / "blueprints" / name, bench.folder)
        (bench.folder / "terraform.tfvars.json").write_text(json.dumps(values))
        bench.run("init", "-input=false")
        return bench

    return make
