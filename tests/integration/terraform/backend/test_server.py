"""The local state backend with the real Terraform behind it: one warm process, one address for life, many
states.
"""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from memory_backend import OTHER, MemoryBackend, info
from program import eventually

from holdfast.system.environment import Environment
from holdfast.terraform.backend.server import StateBackend, StateServer, variables
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import Command, CommandResult, Stop
from holdfast.terraform.engine.pool import WorkerPool

MODULE = """
terraform {
  backend "http" {}
}
variable "x" {
  default = "1"
}
resource "terraform_data" "it" {
  input = var.x
}
output "x" {
  value = terraform_data.it.output
}
"""
WORD = "a word for the life of a process"


class Terraform:
    """A server and one warm process whose environment names it, for as long as the tests of a worker run."""

    def __init__(self, stack: ExitStack, scratch: Path, path: str) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.server = StateServer(listening, user="server", password=WORD)
        self.server.open()
        stack.callback(self.server.close)
        environment = child_environment(
            caller={"PATH": path, "HOME": str(scratch)}, named={}, credentials=None, scratch=str(scratch)
        )
        given = variables(listening.getsockname()[1], "server", WORD)
        # As many tries as in earnest, without the time between them.
        quick = {"TF_HTTP_RETRY_WAIT_MIN": "0", "TF_HTTP_RETRY_WAIT_MAX": "0"}
        self._environment = environment | given | quick
        identity = InstalledEngines(
            Environment(variables={"HOLDFAST_HOME": str(scratch), "PATH": ""})
        ).embedded()
        assert identity is not None
        self._runner = stack.enter_context(asyncio.Runner())
        self.engine = WorkerPool(identity, scratch=scratch, limit=1)
        stack.callback(lambda: self._runner.run(self.engine.close()))

    def run(self, folder: Path, *argv: str) -> CommandResult:
        command = Command(phase=argv[0], argv=argv, folder=folder, environment=self._environment)
        return self._runner.run(self.engine.run(command, stop=Stop()))


@pytest.fixture(scope="module")
def terraform(workplace: Path, quiet_path: str) -> Iterator[Terraform]:
    # More than once in a process: tests of a module may come back to it.
    scratch = Path(tempfile.mkdtemp(dir=workplace))
    with ExitStack() as stack:
        yield Terraform(stack, scratch, quiet_path)


class Stack:
    """A root module of its own; for each command the server serves the given backend."""

    def __init__(self, terraform: Terraform, folder: Path, backend: StateBackend) -> None:
        folder.mkdir()
        (folder / "main.tf").write_text(MODULE)
        self.folder = folder
        self.backend = backend
        self._terraform = terraform

    def run(self, *argv: str) -> CommandResult:
        self._terraform.server.serve_state(self.backend)
        try:
            return self._terraform.run(self.folder, *argv)
        finally:
            self._terraform.server.serve_state(None)

    def fine(self, *argv: str) -> str:
        answer = self.run(*argv)
        assert answer.code == 0, (argv, answer.out, answer.err, self._terraform.server.refusals)
        return answer.out.decode()

    def fails(self, *argv: str) -> str:
        answer = self.run(*argv)
        assert answer.code == 1, (argv, answer.out)
        return (answer.out + answer.err).decode()

    def init(self) -> None:
        self.fine("init", "-no-color")

    def apply(self, value: str = "1") -> str:
        return self.fine("apply", "-auto-approve", "-no-color", f"-var=x={value}")

    def unchanged(self, value: str = "1") -> bool:
        return self.run("plan", "-detailed-exitcode", "-no-color", f"-var=x={value}").code == 0

    def pulled(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.fine("state", "pull"))
        return state


@pytest.fixture
def stack(terraform: Terraform, tmp_path: Path) -> Stack:
    made = Stack(terraform, tmp_path / "stack", MemoryBackend())
    made.init()
    return made


def memory(stack: Stack) -> MemoryBackend:
    assert isinstance(stack.backend, MemoryBackend)
    return stack.backend


def saved(stack: Stack) -> list[int]:
    """The serials that were kept, in the order in which they came."""
    return [json.loads(version)["serial"] for version in memory(stack).versions]


def test_a_stack_uses_the_local_state_backend(terraform: Terraform, stack: Stack) -> None:
    """Plan, apply the saved plan, plan again: one version, the lock free, nothing refused."""
    stack.fine("plan", "-out=plan", "-no-color")
    assert memory(stack).versions == []
    stack.fine("apply", "-no-color", "plan")
    assert saved(stack) == [1]
    assert stack.unchanged()
    assert json.loads(stack.fine("output", "-json"))["x"]["value"] == "1"
    assert not stack.unchanged("2")
    stack.apply("2")
    assert saved(stack) == [1, 2]
    assert memory(stack).holder is None
    assert memory(stack).calls.count("lock") == memory(stack).calls.count("unlock") == 5
    assert terraform.server.refusals == []
    assert not list(stack.folder.glob("*.tfstate*"))


def test_nothing_of_the_server_is_left_in_plans_or_folders(stack: Stack) -> None:
    """The address and the password of a process are in its environment only."""
    stack.fine("plan", "-out=plan", "-no-color")
    texts = [file.read_bytes() for file in stack.folder.rglob("*") if file.is_file()]
    with zipfile.ZipFile(stack.folder / "plan") as plan:
        texts += [plan.read(name) for name in plan.namelist()]
    assert len(texts) > 5
    for text in texts:
        assert WORD.encode() not in text
        assert b"127.0.0.1" not in text


def test_one_process_serves_many_states(terraform: Terraform, tmp_path: Path) -> None:
    """With each command the server serves another state, and each stack sees its own."""
    stacks = [Stack(terraform, tmp_path / name, MemoryBackend()) for name in ("a", "b", "c")]
    for number, one in enumerate(stacks):
        one.init()
        one.apply(f"value of {number}")
    for number, one in enumerate(stacks):
        assert one.pulled()["outputs"]["x"]["value"] == f"value of {number}"
        assert one.unchanged(f"value of {number}")
    assert len({json.loads(memory(one).versions[0])["lineage"] for one in stacks}) == 3
    assert len(terraform.engine.pids) == 1


def test_a_push_goes_forward_only(terraform: Terraform, stack: Stack) -> None:
    """A greater serial is stored; an older state is refused even with `-force`."""
    stack.apply("1")
    old = memory(stack).versions[-1]
    stack.apply("2")
    forward = stack.pulled()
    forward["serial"] += 5
    (stack.folder / "forward.tfstate").write_text(json.dumps(forward))
    stack.fine("state", "push", "forward.tfstate")
    kept = saved(stack)
    assert kept[:2] == [1, 2]
    assert kept[-1] > 6
    (stack.folder / "old.tfstate").write_bytes(old)
    assert "HTTP error: 409" in stack.fails("state", "push", "-force", "old.tfstate")
    assert saved(stack) == kept
    assert any("older" in sentence for sentence in terraform.server.refusals)
    assert memory(stack).holder is None


def test_another_lineage_is_refused(terraform: Terraform, stack: Stack) -> None:
    """The state of another stack is not written over this one, forced or not."""
    stack.apply()
    foreign = stack.pulled()
    foreign |= {"lineage": "99999999-2222-3333-4444-555555555555", "serial": 70}
    (stack.folder / "foreign.tfstate").write_text(json.dumps(foreign))
    assert "HTTP error: 409" in stack.fails("state", "push", "-force", "foreign.tfstate")
    assert saved(stack) == [1]
    assert any("lineage" in sentence for sentence in terraform.server.refusals)


def test_a_save_without_a_lock_is_refused(terraform: Terraform, stack: Stack) -> None:
    """`-lock=false` writes nothing here; the state is where Terraform leaves it."""
    stack.fails("apply", "-auto-approve", "-lock=false", "-no-color")
    assert memory(stack).versions == []
    assert terraform.server.refusals == ["Terraform tried to save a state without a lock"]
    assert (stack.folder / "errored.tfstate").exists()


def test_a_lock_is_not_forced_open(stack: Stack) -> None:
    """`force-unlock` through the server leaves the lock with its holder."""
    memory(stack).holder = info(OTHER, who="bob@laptop")
    stack.fails("force-unlock", "-force", OTHER)
    assert memory(stack).holder == info(OTHER, who="bob@laptop")


@pytest.mark.parametrize("way", ["fault", "empty", "nobody"])
def test_a_state_that_cannot_be_read_is_not_absent(terraform: Terraform, stack: Stack, way: str) -> None:
    """The plan fails. A plan that creates what exists already would be the beginning of the end."""
    stack.apply()
    last = memory(stack).versions[-1]

    def fault(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if way == "fault":
        memory(stack).before = fault
        text = stack.fails("plan", "-no-color")
        assert terraform.server.refusals == ["the store failed: Input/output error"]
    elif way == "empty":
        memory(stack).versions.append(b"")
        text = stack.fails("plan", "-no-color")
        assert terraform.server.refusals == ["the stored state is empty"]
    else:
        answer = terraform.run(stack.folder, "plan", "-no-color")
        assert answer.code == 1
        text = (answer.out + answer.err).decode()
        assert terraform.server.refusals[-1] == "the local state backend serves no state now"
    assert "will be created" not in text
    assert "Plan:" not in text
    memory(stack).before = lambda _: None
    memory(stack).versions = [last]
    assert stack.unchanged()


def test_the_lock_holder_is_named(terraform: Terraform, stack: Stack) -> None:
    """With `-lock-timeout` Terraform asks again until the time is over, and names the holder."""
    memory(stack).holder = info(OTHER, who="bob@laptop")
    memory(stack).calls.clear()
    text = stack.fails("plan", "-no-color", "-lock-timeout=2s")
    assert memory(stack).calls.count("lock") > 1
    assert "bob@laptop" in text
    assert OTHER in text
    assert terraform.server.refusals == [
        "the state is locked by bob@laptop, OperationTypeApply, 2026-01-02T03:04:05Z"
    ]


def test_a_released_lock_is_taken(stack: Stack) -> None:
    """The one who waits goes on when the holder has gone."""
    memory(stack).holder = info(OTHER)

    def leave(name: str) -> None:
        if memory(stack).calls.count("lock") == 2 and name == "lock":
            memory(stack).holder = None

    memory(stack).before = leave
    stack.fine("apply", "-auto-approve", "-no-color", "-lock-timeout=60s")
    assert saved(stack) == [1]


@pytest.mark.parametrize("deed", ["read", "lock", "write", "unlock"])
def test_an_answer_that_is_lost_does_no_harm(stack: Stack, deed: str) -> None:
    """The backend did it and then failed: Terraform asks again, and it is done once."""
    stack.apply("1")
    lost: list[str] = []

    def lose(name: str) -> None:
        if name == deed and not lost:
            lost.append(name)
            raise ConnectionError

    memory(stack).after = lose
    stack.apply("2")
    assert lost == [deed]
    assert saved(stack) == [1, 2]
    assert memory(stack).holder is None


def test_a_state_that_cannot_be_saved_is_not_lost(terraform: Terraform, stack: Stack) -> None:
    """Terraform leaves it beside the code and gives the lock back; pushed later, nothing is missing."""
    stack.apply("1")

    def full(name: str) -> None:
        if name == "write":
            raise OSError(errno.ENOSPC, "No space left on device")

    memory(stack).before = full
    text = stack.fails("apply", "-auto-approve", "-no-color", "-var=x=2")
    assert "Failed to save state" in text
    assert terraform.server.refusals == ["the store failed: No space left on device"]
    assert saved(stack) == [1]
    assert memory(stack).holder is None
    memory(stack).before = lambda _: None
    shutil.move(stack.folder / "errored.tfstate", stack.folder / "left.tfstate")
    stack.fine("state", "push", "left.tfstate")
    assert saved(stack)[0] == 1
    assert len(saved(stack)) == 2
    assert stack.unchanged("2")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted where there is /proc")
def test_a_warm_process_does_not_gather_connections(terraform: Terraform, stack: Stack) -> None:
    """Go holds an idle connection for 90 seconds; a server that changes ends it on both sides."""
    stack.apply()
    (pid,) = terraform.engine.pids

    def sockets() -> int:
        links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
        return sum(str(link).startswith("socket:") for link in links)

    eventually(lambda: not terraform.server._clients, what="the last command's connections have ended")
    before = sockets()
    for _ in range(8):
        assert stack.unchanged()
    eventually(lambda: not terraform.server._clients, what="the connections have ended")
    eventually(lambda: sockets() <= before, what="the connections have ended in Terraform")
