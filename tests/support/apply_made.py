"""A plan that is ready to be applied by a Terraform that only says what a test tells it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from plan_documents import change
from results_made import stack

from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.backend_config import StateHome
from holdfast.plans.hooks import Hooks
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import DigestParts, StateIdentity, sha256
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir
from holdfast.store.kept_files import KeptFiles
from holdfast.terraform.argv import PLAN_FILE
from holdfast.terraform.engine.interface import CommandResult, EngineId, EngineKind, Product
from holdfast.terraform.plan.model import read_plan
from holdfast.terraform.stream import CommandOutput

STACK = stack("a")
RUN = "01RUN"
BEFORE: dict[str, Any] = {"version": 4, "serial": 3, "lineage": "l", "outputs": {}, "resources": []}
OBJECT = {"mode": "managed", "type": "lab_object", "name": "it", "provider": 'provider["lab"]'}
AFTER = BEFORE | {"serial": 4, "resources": [OBJECT | {"instances": [{"attributes": {"id": "1"}}]}]}
PLAN = json.dumps(
    {"format_version": "1.2", "terraform_version": "1.15.5", "applyable": True, "complete": True}
    | {"resource_changes": [change("lab_object.it", "create", after={"name": "it"})]}
).encode()


def line(type_: str, **more: Any) -> bytes:
    """A line that Terraform says."""
    level = "error" if type_ == "diagnostic" else "info"
    return json.dumps({"type": type_, "@level": level, "@message": "", **more}).encode()


def hook(type_: str, action: str = "create") -> bytes:
    return line(type_, hook={"resource": {"addr": "lab_object.it"}, "action": action})


class FakeTerraform:
    """Stands where Terraform does. `at_work` is called while the apply runs."""

    identity = EngineId(kind=EngineKind.EMBEDDED, product=Product.TERRAFORM, version="1.15.5", path="/lib")
    lock = None

    def __init__(self, folder: Path, *, kept: bool) -> None:
        module = folder / "module"
        module.mkdir(parents=True)
        self.workdir = SimpleNamespace(
            stack=STACK,
            home=StateHome(type="http", managed=kept, place="http://there/a"),
            work=SimpleNamespace(folder=folder, module=module, tree=folder),
            kept=KeptFiles(),
            variables_files=("a.tfvars",),
            not_passed=frozenset(),
            engine=self,
        )
        self.hooks = Hooks(cast("ChangeContext", None), cast("StackWorkdir", self.workdir))
        self.answer = CommandResult(code=0)
        self.says: Iterable[bytes] = ()
        self.at_work: Callable[[], None] = lambda: None
        self.applied: list[tuple[str, ...]] = []
        self.cancel_level: int | None = None
        """At which wish to stop the reading of the state would end."""
        self.state: dict[str, Any] | Exception = AFTER

    async def apply(self, given: tuple[str, ...], heard: CommandOutput, run: str) -> CommandResult:
        assert run == RUN
        self.applied.append(given)
        self.at_work()
        for one in self.says:
            heard.line(one)
        return self.answer

    def destination(self) -> dict[str, str]:
        return {}

    def downloaded_modules(self) -> dict[str, str]:
        return {}

    def verify_providers(self) -> None:
        """No provider is used."""

    async def state_pull(self, *, cancel_level: int = 1) -> bytes:
        self.cancel_level = cancel_level
        if isinstance(self.state, Exception):
            raise self.state
        return json.dumps(self.state).encode()


def plan_file(before: dict[str, Any] = BEFORE) -> bytes:
    """As Terraform writes one, but for the plan itself: the state as it was stands in it without identity."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        entry = zipfile.ZipInfo("tfstate-prev", date_time=(2026, 1, 2, 3, 4, 6))
        archive.writestr(entry, json.dumps(before | {"serial": 0, "lineage": ""}))
    return content.getvalue()


def ready_plan(
    folder: Path, *, kept: bool = False, ephemeral: bool = False
) -> tuple[PlanFile, FakeTerraform]:
    terraform = FakeTerraform(folder, kept=kept)
    (terraform.workdir.work.module / PLAN_FILE).write_bytes(plan_file())
    parts = DigestParts(
        plan=sha256(plan_file()), lineage="l", serial=3, lock=None, inputs="i", made="m", policy="p"
    )
    ready = PlanFile(
        terraform=cast("Terraform", terraform),
        plan=read_plan(PLAN),
        json=PLAN,
        parts=parts,
        prior=StateIdentity(lineage="l", serial=3),
        ephemeral=ephemeral,
        changes=True,
    )
    return ready, terraform


def planned(ready: PlanFile, **more: Any) -> StackResult:
    given: dict[str, Any] = {"stack": STACK, "status": Status.PLANNED, "run": RUN, "digest": ready.digest}
    return StackResult(**(given | {"plan": ready.plan} | more))
