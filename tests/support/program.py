"""The program as a user starts it: a process, an environment of its own, a repository in a folder."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.terraform.engine.pool import library_path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HIDDEN = ("terraform", "tofu", "checkov", "opa", "conftest")
ME = pwd.getpwuid(os.getuid()).pw_name
"""Who runs the tests, as the system says: whom the program names in its record."""


def path_without_engines(shims: Path) -> str:
    """PATH without engines and checkers. A folder with one is left out; its other programs are linked."""
    shims.mkdir(parents=True, exist_ok=True)
    kept: list[str] = []
    for folder in os.environ["PATH"].split(os.pathsep):
        if any((Path(folder) / name).exists() for name in HIDDEN):
            for name in ("git", "sh", "env", "sleep", "cat", "diff", "python3"):
                if (Path(folder) / name).exists() and not (shims / name).exists():
                    (shims / name).symlink_to(Path(folder) / name)
        elif folder:
            kept.append(folder)
    return os.pathsep.join([str(shims), *kept])


def real_or_launcher(folder: Path) -> Path:
    """A folder with a `terraform` program: a real one if there is one, else a launcher around the library."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "terraform"
    if program.exists():
        return folder
    named = os.environ.get("HOLDFAST_TOOLS")
    places = [*([named, f"{named}/bin"] if named else []), *os.environ["PATH"].split(os.pathsep)]
    real = shutil.which("terraform", path=os.pathsep.join(places))
    if real is not None:
        program.symlink_to(Path(real).resolve())
        return folder
    launcher(program)
    return folder


def launcher(program: Path) -> None:
    """A `terraform` program that is the embedded library behind a command line."""
    aside = program.with_name(f".{program.name}.{os.getpid()}")
    aside.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{HERE / "launch.py"}" "$@"\n')
    aside.chmod(aside.stat().st_mode | stat.S_IXUSR)
    aside.replace(program)


def stand_in_for_libtofu(folder: Path) -> Path:
    """The Python package of OpenTofu's library, with that of Terraform in it: both have the same calls."""
    terraform = library_path()
    assert terraform is not None
    package = folder / "holdfast_libtofu"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / f"libtofu{terraform.suffix}").symlink_to(terraform)
    return package


@dataclass(frozen=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Program:
    """Holdfast in one repository, with a home, a PATH and an environment that are the test's own."""

    def __init__(self, folder: Path, *, home: Path, path: str, user_home: Path) -> None:
        self.folder = folder
        self.home = home
        self.environment = {
            "PATH": path,
            "HOME": str(user_home),
            "USER": "tester",
            "LANG": "C.UTF-8",
            "HOLDFAST_HOME": str(home),
            "COLUMNS": "200",
        }
        folder.mkdir(parents=True, exist_ok=True)
        user_home.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))
        return file

    def _environment(self, extra: Mapping[str, str | None] | None) -> dict[str, str]:
        merged: dict[str, str | None] = {**self.environment, **(extra or {})}
        return {name: value for name, value in merged.items() if value is not None}

    def start(
        self, *arguments: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start it and go on, to interrupt or kill it."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            cwd=cwd or self.folder,
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        seconds: float = 300,
    ) -> Ran:
        process = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments],
            cwd=cwd or self.folder,
            env=self._environment(env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Ran(code=process.returncode, out=process.stdout, err=process.stderr)

    def ok(self, *arguments: str, code: int = 0, **options: Any) -> Ran:
        """Run it and insist on the exit code and on the absence of a traceback."""
        ran = self.run(*arguments, **options)
        assert "Traceback" not in ran.text, ran.text
        assert ran.code == code, f"exit {ran.code}, expected {code}\n{ran.text}"
        return ran

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        """The one document on standard output."""
        return json.loads(self.ok(*arguments, "--json", code=code, **options).out)

    def results(self, *arguments: str, code: int = 0, **options: Any) -> dict[str, Any]:
        """Of plan or apply: by stack name."""
        document = self.json(*arguments, code=code, **options)
        return {one["name"]: one for one in document["stacks"]}

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments],
            cwd=self.folder,
            env=self._environment({"GIT_CONFIG_NOSYSTEM": "1"}),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def commit_all(self, message: str = "a change") -> None:
        if not (self.folder / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def eventually(condition: Callable[[], bool], *, what: str, seconds: float = 60) -> None:
    """Wait for a condition; the limit is only there to end a broken test."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"it never came to be: {what}")
        time.sleep(0.02)


def descendants(marker: str) -> list[int]:
    """Processes whose environment or command line holds a text: children that outlive their parent too."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            content = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if marker.encode() in content and state != "Z":
            found.append(int(entry.name))
    return found
