"""What Holdfast relies on in an engine, for each product as a library and as a program: the same everywhere.

`make test` runs it for the engines that are installed, `make test-interop` for those in HOLDFAST_TOOLS too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import EMBEDDED, EngineUnderTest
from lab_stacks import lab_module
from msgspec import structs
from program import descendants, eventually

from holdfast.terraform import argv
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import CancelTimeouts, Command, CommandResult, Listen, Stop
from holdfast.terraform.engine.pool import WorkerPool
from provider import mirror
from provider.service import Fault, LabService

INIT = argv.init(backend_file=False, json=True)
PLAN = argv.plan(PlanOptions(), variables_files=())
DESTROY = argv.plan(PlanOptions(destroy=True), variables_files=())
APPLY = argv.apply()
SHORT = CancelTimeouts(apply=60, reading=0.5, otherwise=0.5, before_kill=20)


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


class Session:
    """Commands of one engine in the folder of one stack."""

    def __init__(self, pool: WorkerPool, folder: Path, environment: dict[str, str]) -> None:
        self.pool = pool
        self.folder = folder
        self.environment = environment
        self.stop = Stop()

    async def run(
        self,
        words: argv.Argv,
        *,
        code: int | None = 0,
        seconds: float | None = None,
        listen: Listen | None = None,
        then: argv.Argv = (),
        **environment: str,
    ) -> CommandResult:
        command = Command(
            phase=words[0],
            argv=words,
            folder=self.folder,
            environment={**self.environment, **environment},
            providers=None if words[0] in {"init", "version", "output"} else "one",
            seconds=seconds,
        )
        if then:
            command = structs.replace(command, then=structs.replace(command, phase=then[0], argv=then))
        answer = await asyncio.wait_for(self.pool.run(command, stop=self.stop, listen=listen), 60)
        assert code in (None, answer.code), (words, answer.code, answer.out, answer.err)
        return answer

    def at(self, name: str, code: str) -> Session:
        """Another stack, with the same workers."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "main.tf").write_text(code)
        return Session(self.pool, folder, self.environment)

    def resources(self) -> set[str]:
        state = json.loads((self.folder / "terraform.tfstate").read_bytes())
        return {one["name"] for one in state["resources"] if one["instances"]}


def messages(answer: CommandResult) -> dict[str, list[dict[str, Any]]]:
    """The lines of `-json` by their type; nothing else is on either of the two outputs."""
    assert answer.err == b""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in answer.out.splitlines():
        message = json.loads(line)
        found.setdefault(message.get("type", ""), []).append(message)
    return found


@pytest.fixture
def contract(
    any_engine: EngineUnderTest, tmp_path: Path, quiet_path: str, workplace: Path, lab: Path
) -> Callable[[Callable[[Session], Awaitable[None]]], None]:
    """Runs a function with an open session; afterwards no process is left."""
    folder = tmp_path / "stack"
    folder.mkdir()
    mark = f"MARK_{os.getpid()}_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]}"

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Session]:
        environment = child_environment(
            caller={"PATH": quiet_path, "HOME": str(tmp_path), "TF_CLI_CONFIG_FILE": str(lab)},
            named={"MARK": mark},
            credentials=None,
            scratch=str(workplace),
        )
        pool = WorkerPool(any_engine.identity, scratch=workplace, limit=4, timeouts=SHORT)
        try:
            yield Session(pool, folder, environment)
        finally:
            await pool.close()

    def run(work: Callable[[Session], Awaitable[None]]) -> None:
        async def main() -> None:
            async with opened() as session:
                await work(session)

        asyncio.run(main())
        eventually(lambda: not descendants(mark), what="every process ended")

    return run


Contract = Callable[[Callable[[Session], Awaitable[None]]], None]

WORD = """
variable "word" {
  default = "hello"
}

resource "terraform_data" "it" {
  input = var.word
}

output "word" {
  value = terraform_data.it.output
}

output "hidden" {
  value     = "hush"
  sensitive = true
}
"""


def test_the_life_of_a_stack(contract: Contract) -> None:
    """Every command that Holdfast uses, with its exit codes and documents, from init to destroy."""

    async def work(session: Session) -> None:
        session = session.at("a", WORD)
        messages(await session.run(INIT))
        assert json.loads((await session.run(argv.VALIDATE)).out)["valid"] is True
        planned = messages(await session.run(PLAN, code=2))
        assert planned["planned_change"][0]["change"]["resource"]["addr"] == "terraform_data.it"
        plan = json.loads((await session.run(argv.SHOW_PLAN)).out)
        (change,) = plan["resource_changes"]
        assert change["change"]["actions"] == ["create"]
        assert change["change"]["after_unknown"] == {"id": True, "output": True}
        applied = messages(await session.run(APPLY))
        assert applied["apply_complete"][0]["hook"]["resource"]["addr"] == "terraform_data.it"
        assert applied["change_summary"][-1]["changes"]["add"] == 1
        assert applied["outputs"][-1]["outputs"]["word"]["value"] == "hello"
        outputs = json.loads((await session.run(argv.OUTPUT)).out)
        assert (outputs["word"]["value"], outputs["hidden"]["sensitive"]) == ("hello", True)
        assert "planned_change" not in messages(await session.run(PLAN))
        assert json.loads((await session.run(argv.STATE_PULL)).out)["serial"] > 0
        changed = messages(await session.run(PLAN, code=2, TF_VAR_word="bye"))
        assert changed["planned_change"][0]["change"]["action"] == "update"
        await session.run(DESTROY, code=2)
        assert messages(await session.run(APPLY))["change_summary"][-1]["changes"]["remove"] == 1
        assert session.resources() == set()

    contract(work)


def test_a_command_that_follows_runs_only_after_a_success(contract: Contract) -> None:
    """What follows a plan is like the same command on its own, with its own exit code and output."""

    async def work(session: Session) -> None:
        (session.folder / "main.tf").write_text('resource "terraform_data" "one" { input = 1 }\n')
        await session.run(INIT)
        planned = await session.run(PLAN, code=2, then=argv.SHOW_PLAN)
        shown = await session.run(argv.SHOW_PLAN)
        assert planned.then is not None
        assert (planned.then.code, shown.then) == (0, None)
        assert json.loads(planned.then.out) == json.loads(shown.out)
        failed = (await session.run(PLAN, code=2, then=("show", "-json", "missing.tfplan"))).then
        assert failed is not None
        assert failed.code == 1
        assert b"missing.tfplan" in failed.err
        (session.folder / "main.tf").write_text("resource terraform_data one {")
        assert (await session.run(PLAN, code=1, then=argv.VERSION)).then is None
        assert len(session.pool.pids) == 1

    contract(work)


def test_a_failure_is_exit_1_and_told_where_it_was_asked_for(contract: Contract) -> None:
    """With -json as a diagnostic on standard output, without it on standard error; the worker serves on."""

    async def work(session: Session) -> None:
        broken = session.at("broken", 'resource "terraform_data" "it" {\n  inputs = 1\n}\n')
        failing = session.at("failing", 'output "x" {\n  value = file("missing.txt")\n}\n')
        document = json.loads((await broken.run(argv.VALIDATE, code=1)).out)
        (wrong,) = document["diagnostics"]
        assert (wrong["severity"], wrong["range"]["start"]["line"]) == ("error", 2)
        (told,) = messages(await failing.run(PLAN, code=1))["diagnostic"]
        assert "missing.txt" in told["diagnostic"]["detail"]
        plain = await failing.run(("plan", "-no-color", "-input=false"), code=1)
        assert b"Error: " in plain.err
        assert b"Error: " not in plain.out
        assert (await failing.run(argv.SHOW_PLAN, code=1)).out == b""
        await session.at("good", WORD).run(PLAN, code=2)

    contract(work)


def test_the_first_interrupt_saves_the_state(contract: Contract, service: LabService) -> None:
    """The provider is asked to stop, what it was doing is done and recorded, and nothing more is begun."""

    async def work(session: Session) -> None:
        session = await lab_stack(session, service)
        applying = asyncio.create_task(session.run(APPLY, code=1))
        await asyncio.to_thread(eventually, lambda: service.held("create", "one"), what="the create")
        session.stop.ask()
        await asyncio.to_thread(eventually, lambda: service.stops > 0, what="the provider was asked to stop")
        service.release()
        answer = await applying
        assert (answer.interrupted, answer.force_cancelled, answer.killed) == (True, False, False)
        assert session.resources() == {"one"}
        assert [one["name"] for one in service.objects().values()] == ["one"]

    contract(work)


def test_the_second_interrupt_does_not_wait(contract: Contract, service: LabService) -> None:
    """The command ends although the provider's call does not; it ends by itself and is not killed."""

    async def work(session: Session) -> None:
        session = await lab_stack(session, service)
        applying = asyncio.create_task(session.run(APPLY, code=1))
        await asyncio.to_thread(eventually, lambda: service.held("create", "one"), what="the create")
        session.stop.ask()
        await asyncio.to_thread(eventually, lambda: service.stops > 0, what="the provider was asked to stop")
        session.stop.ask()
        answer = await applying
        assert service.held("create", "one")
        assert (answer.interrupted, answer.force_cancelled, answer.killed) == (True, True, False)
        service.release()

    contract(work)


def test_a_time_limit_ends_a_command(contract: Contract, service: LabService) -> None:
    """One that only reads is interrupted twice and does not wait for its provider."""

    async def work(session: Session) -> None:
        session = await lab_stack(session, service, 'data "lab_object" "it" {\n  name = "x"\n}\n', plan=False)
        service.misbehave(Fault(operation="find", what="hold"))
        answer = await session.run(PLAN, code=None, seconds=1)
        assert answer.code != 0
        assert (answer.timed_out, answer.interrupted) == (True, True)
        service.release()

    contract(work)


async def lab_stack(
    session: Session, service: LabService, body: str | None = None, *, plan: bool = True
) -> Session:
    """A stack of two lab objects of which the first is held while it is made; planned."""
    two = 'resource "lab_object" "one" {\n  name = "one"\n}\n'
    two += 'resource "lab_object" "two" {\n  name = lab_object.one.id\n}\n'
    session.environment["LAB_URL"] = service.url
    found = session.at("lab", lab_module(body or two))
    await found.run(INIT)
    if plan:
        service.misbehave(Fault(operation="create", what="hold", name="one"))
        await found.run(PLAN, code=2)
    return found


@pytest.mark.parametrize("any_engine", EMBEDDED, indirect=True)
def test_no_provider_is_started_only_to_read_its_schema_again(
    contract: Contract, service: LabService, tmp_path: Path
) -> None:
    """A worker keeps schemas from one command to the next: `show` needs no provider, a plan one less."""
    config = mirror.build(tmp_path / "mirror", python=Path(sys.executable), versions=("1.0.0",))
    (launcher,) = (tmp_path / "mirror").rglob("terraform-provider-lab_*")
    starts = tmp_path / "stack/starts"
    launcher.write_text(launcher.read_text().replace("\n", f"\necho started >> {starts}\n", 1))

    async def work(session: Session) -> None:
        session.environment["TF_CLI_CONFIG_FILE"] = str(config)
        session = await lab_stack(session, service)
        began = len(starts.read_text().splitlines())
        await session.run(argv.SHOW_PLAN)
        assert len(starts.read_text().splitlines()) == began
        await session.run(PLAN, code=2)
        assert len(starts.read_text().splitlines()) == began + began - 1

    contract(work)


PLACES = """
variable "who" {}

resource "terraform_data" "it" {
  provisioner "local-exec" {
    command = "pwd > pwd.txt; printf 'caf\\\\351\\\\n'"
  }
}

output "seen" {
  value = [file("here.txt"), abspath("."), path.cwd, var.who]
}
"""


def test_each_command_has_its_folder_and_environment(contract: Contract) -> None:
    """Four stacks at once, on workers that two share: each sees its own files and variables only."""

    async def work(session: Session) -> None:
        async def plan_and_apply(name: str, who: str) -> None:
            stack = session.at(name, PLACES)
            (stack.folder / "here.txt").write_text(name)
            await stack.run(PLAN, code=2, TF_VAR_who=who)
            applied = messages(await stack.run(APPLY, TF_VAR_who=who))
            seen = applied["outputs"][-1]["outputs"]["seen"]["value"]
            assert seen == [name, str(stack.folder), str(stack.folder), who]
            assert (stack.folder / "pwd.txt").read_text() == f"{stack.folder}\n"
            # Bytes that are no text do not break the lines.
            assert any("caf" in line["hook"]["output"] for line in applied["provision_progress"])

        pairs = (("a", "one"), ("b", "one"), ("c", "two"), ("d", "two"))
        await asyncio.gather(*(plan_and_apply(name, who) for name, who in pairs))

    contract(work)


def test_output_of_any_size(contract: Contract) -> None:
    """Megabytes arrive complete, with and without a listener for the lines."""

    async def work(session: Session) -> None:
        big = "0123456789abcdef" * 131072
        session = session.at("big", 'output "big" {\n  value = file("big.txt")\n}\n')
        (session.folder / "big.txt").write_text(big)
        await session.run(PLAN, code=2)
        lines: list[bytes] = []
        assert (await session.run(APPLY, listen=lines.append)).out == b""
        told = [json.loads(line) for line in lines]
        assert [one["outputs"]["big"]["value"] for one in told if one["type"] == "outputs"][-1] == big
        assert json.loads((await session.run(argv.OUTPUT)).out)["big"]["value"] == big

    contract(work)


def test_a_name_that_is_no_text_is_answered(contract: Contract) -> None:
    """A path that is not UTF-8 reaches Terraform unchanged, and the command ends."""

    async def work(session: Session) -> None:
        session = session.at(os.fsdecode(b"caf\xe9"), WORD)
        assert json.loads((await session.run(argv.VALIDATE)).out)["valid"] is True

    contract(work)
