"""The binary engine: one program per command, watched by a process of ours, whatever it is like."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from lab_stacks import none_left, one_stack
from msgspec import structs
from program import Program, eventually, launcher

from holdfast.kernel.errors import EngineError
from holdfast.system.environment import Environment
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.interface import (
    CancelTimeouts,
    Command,
    CommandResult,
    EngineId,
    EngineKind,
    Product,
    Stop,
)
from holdfast.terraform.engine.pool import WorkerPool


def script(path: Path, text: str, *, interpreter: str = sys.executable, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\n{text}")
    path.chmod(mode)
    return path


def engine(path: Path, timeouts: CancelTimeouts | None = None) -> WorkerPool:
    identity = EngineId(kind=EngineKind.BINARY, product=Product.TERRAFORM, version="1.9.0", path=str(path))
    return WorkerPool(identity, scratch=path.parent, limit=2, timeouts=timeouts)


def command(folder: Path, **environment: str) -> Command:
    given = {"PATH": os.environ["PATH"], **environment}
    return Command(phase="plan", argv=("plan", "-json"), folder=folder, environment=given)


def run(one: WorkerPool, given: Command, lines: list[bytes] | None = None) -> CommandResult:
    async def work() -> CommandResult:
        listen = lines.append if lines is not None else None
        try:
            return await asyncio.wait_for(one.run(given, stop=Stop(), listen=listen), 60)
        finally:
            await one.close()

    return asyncio.run(work())


_LOUD = """
import sys
for _ in range(3000):
    sys.stderr.write("e" * 999 + "\\n")
    sys.stdout.write("o" * 999 + "\\n")
sys.exit(2)
"""


def test_both_pipes_are_drained_at_once(tmp_path: Path) -> None:
    """Megabytes on either pipe, in any order, neither hang the program nor get lost."""
    answer = run(engine(script(tmp_path / "loud", _LOUD)), command(tmp_path))
    assert answer.code == 2
    assert answer.out == (b"o" * 999 + b"\n") * 3000
    assert answer.err == (b"e" * 999 + b"\n") * 3000
    assert not answer.killed


def test_lines_are_passed_on_and_not_collected(tmp_path: Path) -> None:
    """With a listener every line is handed over and nothing is held in memory twice."""
    lines: list[bytes] = []
    answer = run(engine(script(tmp_path / "loud", _LOUD)), command(tmp_path), lines)
    assert lines == [b"o" * 999] * 3000
    assert answer.out == b""


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """It runs in a session of its own, sees only the given environment, and has nothing to read."""
    shown = script(
        tmp_path / "shown",
        "import json, os, sys\n"
        "print(json.dumps([os.getsid(0), dict(os.environ), sys.stdin.read(), os.getcwd(), sys.argv[1:]]))\n",
    )
    given = command(tmp_path, X="1")
    session, environment, stdin, folder, words = json.loads(run(engine(shown), given).out)
    assert session != os.getsid(0)
    environment.pop("LC_CTYPE", None)  # Python's own doing where no locale is given.
    assert environment == dict(given.environment)
    assert stdin == ""
    assert folder == str(tmp_path)
    assert words == ["plan", "-json"]


@pytest.mark.parametrize("what", ["missing", "not-executable", "not-a-program", "a-folder"])
def test_a_program_that_cannot_be_started(tmp_path: Path, what: str) -> None:
    """Whatever is in the way of starting it, the error says which program and what to look at."""
    path = tmp_path / "terraform"
    if what == "not-executable":
        script(path, "", mode=0o644)
    elif what == "not-a-program":
        path.write_bytes(b"\x7fELF nonsense")
        path.chmod(0o755)
    elif what == "a-folder":
        path.mkdir()
    with pytest.raises(EngineError) as caught:
        run(engine(path), command(tmp_path))
    assert caught.value.problem.code == "HF-ENG-4"
    assert str(path) in caught.value.problem.message
    assert caught.value.problem.hint


@pytest.mark.parametrize(
    ("ends", "killed"),
    [
        ("sys.exit(0)", False),
        ("sys.exit(1)", False),
        ("sys.exit(11)", True),
        ("os.kill(os.getpid(), 9)", True),
        ("os.kill(os.getpid(), 11)", True),
        ("sys.exit(2)", False),
        ("sys.stderr.write('panic: last words\\n\\ngoroutine 1 [running]:\\n'); sys.exit(2)", True),
    ],
)
def test_how_it_ended(tmp_path: Path, ends: str, *, killed: bool) -> None:
    """An exit code is an answer; a signal, and a code after a panic, of Terraform or of Go, are none."""
    program = script(
        tmp_path / "ends",
        f"import os, resource, sys\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        f"sys.stderr.write('last words\\n'); sys.stderr.flush()\n{ends}\n",
    )
    answer = run(engine(program), command(tmp_path))
    assert answer.killed is killed
    assert (answer.log is not None) is killed
    if killed:
        assert "last words" in str(answer.log).splitlines()[0]


def test_only_a_plan_ends_with_2(tmp_path: Path) -> None:
    """Any other command that does so panicked: after an apply, the outcome is unknown."""
    program = script(tmp_path / "ends", "raise SystemExit(2)")
    answer = run(engine(program), structs.replace(command(tmp_path), phase="apply", argv=("apply",)))
    assert answer.killed


_DEAF = """
import signal, subprocess, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
Path(sys.argv[0]).with_name("pid").write_text(str(child.pid))
Path(sys.argv[0]).with_name("ready").touch()
child.wait()
"""


def test_a_program_that_ignores_interrupts_is_killed_with_its_children(tmp_path: Path) -> None:
    """The last step of the ladder takes the whole group: nothing of it stays behind."""
    deaf = engine(
        script(tmp_path / "deaf", _DEAF),
        CancelTimeouts(apply=0.05, reading=0.05, otherwise=0.05, before_kill=0.05),
    )

    async def work() -> CommandResult:
        stop = Stop()
        running = asyncio.create_task(deaf.run(command(tmp_path), stop=stop))
        await asyncio.to_thread(eventually, (tmp_path / "ready").exists, what="ready")
        stop.ask()
        try:
            return await asyncio.wait_for(running, 30)
        finally:
            await deaf.close()

    answer = asyncio.run(work())
    assert (answer.interrupted, answer.force_cancelled, answer.killed) == (True, True, True)
    child = Path("/proc") / (tmp_path / "pid").read_text()
    eventually(lambda: not child.exists() or ") Z" in (child / "stat").read_text(), what="the child's end")


# What is taken for an engine, and what is not


def engines(home: Path, *folders: Path, **variables: str) -> InstalledEngines:
    path = os.pathsep.join(str(folder) for folder in folders)
    return InstalledEngines(Environment(variables={"HOLDFAST_HOME": str(home), "PATH": path, **variables}))


def answering(version: str) -> str:
    return f'echo \'{{"terraform_version": "{version}"}}\'\n'


def test_a_folder_that_cannot_be_looked_into_hides_no_program(tmp_path: Path) -> None:
    """PATH often names folders of another user: shells pass over them, too."""
    one = script(tmp_path / "one/terraform", answering("1.9.0"), interpreter="/bin/sh")
    found = engines(tmp_path, tmp_path / ("x" * 300), one.parent).binaries()
    assert [engine.path for engine in found] == [str(one)]


def test_programs_are_found_newest_first(tmp_path: Path) -> None:
    """On PATH, in HOLDFAST_TOOLS and in the tools directory; the same program by two names is one."""
    one = script(tmp_path / "one/terraform", answering("1.9.0"), interpreter="/bin/sh")
    two = script(tmp_path / "two/tofu", answering("1.12.6"), interpreter="/bin/sh")
    three = script(
        tmp_path / "home/tools/terraform/1.6.0/terraform", answering("1.6.0"), interpreter="/bin/sh"
    )
    (tmp_path / "link").mkdir()
    (tmp_path / "link/terraform").symlink_to(one)
    found = engines(
        tmp_path / "home", tmp_path / "one", tmp_path / "link", HOLDFAST_TOOLS=str(tmp_path / "two")
    )
    assert [(each.product.value, each.version, each.path) for each in found.binaries()] == [
        ("tofu", "1.12.6", str(two)),
        ("terraform", "1.9.0", str(one)),
        ("terraform", "1.6.0", str(three)),
    ]
    assert [each.version for each in found.all() if each.kind is EngineKind.BINARY] == [
        "1.12.6",
        "1.9.0",
        "1.6.0",
    ]


def test_a_link_called_terraform_to_tofu_is_tofu(tmp_path: Path) -> None:
    """The name of a link does not make OpenTofu a Terraform."""
    tofu = script(tmp_path / "real/tofu", answering("1.12.6"), interpreter="/bin/sh")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/terraform").symlink_to(tofu)
    (found,) = engines(tmp_path / "home", tmp_path / "bin").binaries()
    assert found.product is Product.TOFU


def test_a_version_manager_is_called_by_the_name_it_looks_at(tmp_path: Path) -> None:
    """A shim that is one program under many names is asked, and run, under the right one."""
    text = (
        'case "$0" in */terraform) v=1.9.0;; */tofu) v=1.8.0;; *) exit 1;; esac\n'
        'echo "{\\"terraform_version\\": \\"$v\\"}"\n'
    )
    script(tmp_path / "lib/manager", text, interpreter="/bin/sh")
    (tmp_path / "bin").mkdir()
    for name in ("terraform", "tofu"):
        (tmp_path / "bin" / name).symlink_to(tmp_path / "lib/manager")
    found = engines(tmp_path / "home", tmp_path / "bin").binaries()
    assert {(each.product.value, each.version, Path(each.path).name) for each in found} == {
        ("terraform", "1.9.0", "terraform"),
        ("tofu", "1.8.0", "tofu"),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo hello\n", "failed"),
        ("exit 3\n", "failed"),
        ("kill -SEGV $$\n", "failed"),
        ('echo \'{"terraform_version": "soon"}\'\n', "failed"),
        (answering("1.4.9"), "older than 1.5.0"),
    ],
)
def test_a_program_that_is_no_usable_terraform(tmp_path: Path, text: str, reason: str) -> None:
    """Something else called terraform, or one too old, is never run, and the reason is kept."""
    path = script(tmp_path / "bin/terraform", text, interpreter="/bin/sh")
    found = engines(tmp_path / "home", tmp_path / "bin")
    assert found.binaries() == ()
    ((where, why),) = found.unusable
    assert where == str(path)
    assert reason in why


@pytest.mark.parametrize(("kills", "usable"), [(2, True), (3, False)])
def test_a_killed_version_query_is_repeated(tmp_path: Path, kills: int, *, usable: bool) -> None:
    """A kill says nothing about the program: it is asked again; then its version is unknown, not absent."""
    marks = [tmp_path / f"query-{number}" for number in range(kills)]
    killed = "".join(f"[ -e {mark} ] || {{ : > {mark}; kill -9 $$; }}\n" for mark in marks)
    path = script(tmp_path / "bin/terraform", killed + answering("1.9.0"), interpreter="/bin/sh")
    found = engines(tmp_path / "home", tmp_path / "bin")
    assert [each.version for each in found.binaries()] == (["1.9.0"] if usable else [])
    assert [each.path for each in found.unknown] == ([] if usable else [str(path)])
    assert found.unusable == ([] if usable else [(str(path), "`version -json` was killed")])
    # It was not remembered as unusable: the next command asks again.
    assert engines(tmp_path / "home", tmp_path / "bin").binaries()[0].version == "1.9.0"


def test_a_version_is_queried_again_only_when_the_program_changes(tmp_path: Path) -> None:
    """The answer is remembered over commands as long as the file is the same file."""
    count = tmp_path / "count"
    path = tmp_path / "bin/terraform"
    script(path, f"echo x >> {count}\n{answering('1.9.0')}", interpreter="/bin/sh")
    for _ in range(2):
        assert engines(tmp_path / "home", tmp_path / "bin").binaries()[0].version == "1.9.0"
    assert count.read_text() == "x\n"
    script(path, f"echo x >> {count}\n{answering('1.10.0')}", interpreter="/bin/sh")
    assert engines(tmp_path / "home", tmp_path / "bin").binaries()[0].version == "1.10.0"


# A whole run


@pytest.mark.long
@pytest.mark.binary
@pytest.mark.parametrize("which", ["what-there-is", "launcher"])
def test_a_stack_by_the_binary_engine(
    with_lab: Program, terraform_folder: Path, tmp_path: Path, which: str
) -> None:
    """Plan, apply and plan again with a program on PATH, be it a real one or the launcher."""
    folder = terraform_folder
    if which == "launcher":
        folder = tmp_path / "launcher"
        folder.mkdir()
        launcher(folder / "terraform")
    with_lab.environment["PATH"] = f"{folder}:{with_lab.environment['PATH']}"
    one_stack(with_lab, use="binary", env={"LAB_DIRECTORY": str(tmp_path / "objects")})
    applied = with_lab.results("apply", "--yes")["a"]
    assert applied["status"] == "applied"
    assert applied["engine"]["kind"] == "binary"
    assert len(list((tmp_path / "objects").glob("*.json"))) == 2
    assert with_lab.results("plan")["a"]["status"] == "unchanged"
    none_left(with_lab)
