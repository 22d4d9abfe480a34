"""Fixtures that every kind of test may use. In them no `terraform` is on PATH unless a test asks for one."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engines import ENGINES, EngineUnderTest, engine_under_test
from hypothesis import HealthCheck, settings
from program import Program, path_without_engines, real_or_launcher, stand_in_for_libtofu

from provider import mirror

if TYPE_CHECKING:
    from postgres_made import MadePostgres

    from holdfast.database.database import Database

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")  # how fast a machine is says nothing about a property

# Programs inherit an ignored Ctrl-C, as in the background of a script; tests that send it expect an answer.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: many tests wait for a process or a disk."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def workplace() -> Iterator[Path]:
    """A short path, private to this worker: sockets of providers have little room in theirs."""
    with tempfile.TemporaryDirectory(prefix="hft-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def quiet_path(workplace: Path) -> str:
    return path_without_engines(workplace / "shims")


@pytest.fixture(scope="session")
def without_libtofu(workplace: Path) -> Path:
    """A PYTHONPATH that hides the library of OpenTofu, if it is installed."""
    (workplace / "hidden/holdfast_libtofu").mkdir(parents=True)
    (workplace / "hidden/holdfast_libtofu/__init__.py").touch()
    return workplace / "hidden"


@pytest.fixture
def both_libraries(holdfast: Program, tmp_path: Path) -> Program:
    """The program with a library of each product; that of OpenTofu is Terraform under another name."""
    stand_in_for_libtofu(tmp_path / "python")
    holdfast.environment["PYTHONPATH"] = str(tmp_path / "python")
    return holdfast


@pytest.fixture(scope="session")
def terraform_folder(workplace: Path) -> Path:
    """A folder with a real terraform program, or with a launcher around the embedded library."""
    return real_or_launcher(workplace / "binary")


@pytest.fixture(params=ENGINES)
def any_engine(request: pytest.FixtureRequest, tmp_path: Path, terraform_folder: Path) -> EngineUnderTest:
    """Each of the four engines that is installed; a test may parametrise it by fewer of them."""
    return engine_under_test(request.param, folder=tmp_path / "engine", terraform_folder=terraform_folder)


@pytest.fixture(scope="session")
def lab(workplace: Path) -> Path:
    """The CLI configuration that makes the lab provider available."""
    return mirror.build(workplace / "mirror", python=Path(sys.executable))


@pytest.fixture
def holdfast(tmp_path: Path, quiet_path: str, without_libtofu: Path, workplace: Path) -> Program:
    """An empty repository and the program, with embedded Terraform and no other engine.

    Engine versions are looked up once per worker.
    """
    program = Program(tmp_path / "repo", home=tmp_path / "home", path=quiet_path, user_home=tmp_path / "user")
    program.environment["PYTHONPATH"] = str(without_libtofu)
    known = workplace / "engines.json"
    if known.exists():
        program.home.mkdir(mode=0o700)
        (program.home / "engines.json").write_bytes(known.read_bytes())
    return program


@pytest.fixture
def with_lab(holdfast: Program, lab: Path, tmp_path: Path) -> Program:
    """The same, with the lab provider and a folder in which its objects live (`objects`)."""
    objects = tmp_path / "objects"
    objects.mkdir()
    holdfast.environment["TF_CLI_CONFIG_FILE"] = str(lab)
    holdfast.environment["TF_VAR_objects"] = str(objects)
    return holdfast


@pytest.fixture(scope="session")
def postgres(workplace: Path) -> Iterator[MadePostgres]:
    """One PostgreSQL per worker, without durability."""
    from postgres_made import made_postgres  # noqa: PLC0415 - few tests need it

    with made_postgres(workplace / "server") as made:
        yield made


@pytest.fixture
def database(postgres: MadePostgres) -> Iterator[Database]:
    """A fresh, migrated database."""
    from holdfast.database.database import Database  # noqa: PLC0415 - as above

    with postgres.new_database() as address, Database.open(address, size=20) as made:
        yield made
