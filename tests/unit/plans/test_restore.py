"""A plan from a bundle stands in the work directory as if it had been made there, or nowhere."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from bundle_made import bundle, plan_archive
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs
from plan_documents import change
from results_made import stack

from holdfast.kernel.errors import HoldfastError, Refused, UnknownOutcome
from holdfast.plans import restore
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.backend_config import StateHome
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.restore import restore_plan
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.workdir import StackWorkdir
from holdfast.store.run_store import StateRecord
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.terraform.argv import PLAN_FILE, PlanOptions
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.plan.archive import different_code, read_archive
from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.workdirs.created_files import archive_files, list_files, new_files
from holdfast.terraform.workdirs.workdir import WorkDirectory

CODE = b'resource "lab_object" "it" {}'
DESTROY = bytes([17 << 3 & 0x7F | 0x80, 1, 1])
TARGET = bytes([5 << 3 | 2, 3]) + b"a.b"
STACK = structs.replace(stack("a"), module="module")
SECRET = "hunter2-hunter2"
PLAN = json.dumps(
    {
        "format_version": "1.2",
        "terraform_version": "1.15.5",
        "resource_changes": [
            change("lab_object.it", "create", after={"name": SECRET}, more_of_it=None)
            | {
                "change": {
                    "actions": ["create"],
                    "after": {"name": SECRET},
                    "after_sensitive": {"name": True},
                }
            }
        ],
    }
).encode()


class FakeTerraform:
    """Init leaves the lock file as it found it, or the one that a test wants."""

    chooses: bytes | None = None
    elsewhere: ClassVar[dict[str, str]] = {}
    modules: ClassVar[dict[str, str]] = {}
    initialised = 0

    def __init__(self, _: ChangeContext, prepared: StackWorkdir, __: object) -> None:
        self.file = prepared.work.lock_file
        self.lock: bytes | None = None

    async def show(self) -> tuple[Plan, bytes]:
        return read_plan(PLAN), PLAN

    def destination(self) -> dict[str, str]:
        return self.elsewhere

    def downloaded_modules(self) -> dict[str, str]:
        return self.modules

    def changed_modules(self) -> tuple[str, ...]:
        return ()

    def require_unchanged_providers(self, lock: bytes) -> None:
        """The mirror is empty."""

    async def init(self) -> None:
        type(self).initialised += 1
        found = self.file.read_bytes() if self.file.exists() else None
        self.lock = self.chooses or found


class Case:
    def __init__(self, folder: Path) -> None:
        self.context = change_context(folder, blobs=MemoryBlobs())
        self.work = WorkDirectory.at(folder / "work", "module")
        self.work.module.mkdir(parents=True)
        identity = EngineId(
            kind=EngineKind.EMBEDDED, product=Product.TERRAFORM, version="1.15.5", path="/lib"
        )
        self.workdir: dict[str, Any] = {
            "engine": SimpleNamespace(identity=identity),
            "home": StateHome(type="http", place="kept"),
            "inputs": "i",
            "work": self.work,
        }
        (self.work.module / "main.tf").write_bytes(CODE)
        self.workdir["laid_out"] = list_files(self.work)
        plan = plan_archive({"main.tf": CODE})
        self.bundle: SavedPlan = structs.replace(bundle("a", plan=plan), made=None)
        self.stack = STACK

    def restore_plan(self) -> PlanFile:
        ready = cast("StackWorkdir", SimpleNamespace(**self.workdir))
        retrying = self.context.retrying("a")
        return asyncio.run(restore_plan(self.context, self.stack, ready, self.bundle, retrying))

    def refused(self) -> HoldfastError:
        """Nothing of it stands in the work directory."""
        with pytest.raises(HoldfastError) as caught:
            self.restore_plan()
        assert not (self.work.module / PLAN_FILE).exists()
        return caught.value


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(restore, "Terraform", FakeTerraform)
    monkeypatch.setattr(restore, "policy_digest", lambda *_: "p")
    return Case(tmp_path)


def test_a_bundle_comes_back_as_it_was(case: Case) -> None:
    """Its plan, its lock file, what it was asked for, the state it was made against; secrets are known."""
    case.bundle = structs.replace(case.bundle, destroy=True, targeted=True, ephemeral=True)
    ready = case.restore_plan()
    assert (case.work.module / PLAN_FILE).read_bytes() == case.bundle.plan
    assert case.work.lock_file.read_bytes() == case.bundle.lock
    assert (ready.digest, ready.prior) == (case.bundle.digest, StateIdentity(lineage="l", serial=7))
    assert (ready.changes, ready.destroy, ready.targeted, ready.ephemeral) == (True, True, True, True)
    assert case.context.redactor.clean(f"it is {SECRET}") == "it is ***"
    plain = structs.replace(case.bundle, destroy=False, targeted=False, ephemeral=False, changes=False)
    case.bundle = plain
    ready = case.restore_plan()
    assert (ready.changes, ready.destroy, ready.targeted, ready.ephemeral) == (True, False, False, False)


def test_what_the_plan_made_beside_the_code_comes_back(case: Case, tmp_path: Path) -> None:
    """An archive that was built while planning is there for the apply."""
    other = WorkDirectory.at(tmp_path / "other", "module")
    other.module.mkdir(parents=True)
    before = list_files(other)
    (other.module / "built.zip").write_bytes(b"an archive")
    names = new_files(other, tmp_path / "empty", before)
    made = archive_files(other, names, ForbiddenFiles(case.context.project.environment))
    case.bundle = structs.replace(case.bundle, made=made)
    assert case.refused().problem.code == "HF-BUND-3", "the digest does not cover them"
    parts = structs.replace(case.bundle.parts, files=names)
    case.bundle = structs.replace(case.bundle, parts=parts, digest=parts.digest())
    case.restore_plan()
    assert (case.work.module / "built.zip").read_bytes() == b"an archive"


@pytest.mark.parametrize("part", ["elsewhere", "modules"])
def test_another_destination_is_refused(case: Case, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Before init, which sends credentials to the backend; downloaded modules are known only after it."""
    monkeypatch.setattr(FakeTerraform, part, {"AWS_REGION": "us-east-1"})
    monkeypatch.setattr(FakeTerraform, "initialised", 0)
    error = case.refused()
    assert error.problem.code == "HF-BUND-12"
    assert error.problem.message == "a: AWS_REGION (not set → us-east-1) changed since the plan was made"
    assert FakeTerraform.initialised == (part == "modules")


def test_other_providers_are_refused(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Init chose others than those that the plan was made with."""
    monkeypatch.setattr(FakeTerraform, "chooses", b"another lock")
    error = case.refused()
    assert error.problem.code == "HF-BUND-6"
    assert "provider versions" in error.problem.message


def test_a_plan_without_a_lock_file_needs_none(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """There were no providers to choose."""
    monkeypatch.setattr(FakeTerraform, "chooses", b"a lock")
    case.bundle = structs.replace(case.bundle, lock=None)
    case.restore_plan()
    assert not case.work.lock_file.exists()


def test_a_local_state_that_is_gone_is_noticed_before_anything_else(case: Case, tmp_path: Path) -> None:
    """It held something when it was last seen."""
    case.workdir["home"] = StateHome(type="local", place="kept", file=tmp_path / "gone.tfstate")
    seen = StateRecord(place="kept", lineage="l", serial=7, resources=2, seen="2026-01-01")
    case.context.store.record("a", seen)
    error = case.refused()
    assert isinstance(error, UnknownOutcome)
    assert error.problem.code == "HF-STATE-3"


@pytest.mark.parametrize(("product", "version"), [("terraform", "1.15.6"), ("tofu", "1.15.5")])
def test_a_plan_belongs_to_one_engine(case: Case, product: str, version: str) -> None:
    """Another version or another product does not apply it."""
    case.bundle = structs.replace(case.bundle, engine={"product": product, "version": version})
    assert case.refused().problem.code == "HF-BUND-5"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"module": "other"}, "its module"),
        ({"workspace": "blue"}, "its workspace"),
        ({"place": "elsewhere"}, "the location of its state"),
        ({"inputs": "others"}, "its code, variables or files"),
        ({"policy": "others"}, "its guard rules"),
        ({"module": "other", "policy": "others"}, "its module and its guard rules"),
    ],
    ids=str,
)
def test_what_the_plan_was_made_from_is_the_same_or_it_is_refused(
    case: Case, changed: dict[str, str], said: str
) -> None:
    """Each by itself is enough, and is named."""
    parts: dict[str, Any] = {name: text for name, text in changed.items() if name in ("inputs", "policy")}
    fields: dict[str, Any] = {name: text for name, text in changed.items() if name not in parts}
    digested = structs.replace(case.bundle.parts, **parts)
    case.bundle = structs.replace(case.bundle, parts=digested, **fields)
    error = case.refused()
    assert isinstance(error, Refused)
    assert error.problem.code == "HF-BUND-6"
    assert error.problem.message == f"a: {said} changed since the plan was made"


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (plan_archive({"main.tf": b"another"}), "./main.tf"),
        (plan_archive({"main.tf": CODE, "more.tf": b"another"}), "./more.tf"),
        (plan_archive({}), "./main.tf"),
        (plan_archive({"main.tf": CODE}, folder="../other"), "module root"),
    ],
)
def test_a_plan_of_other_code_is_refused(case: Case, plan: bytes, what: str) -> None:
    """Whatever the bundle says about its inputs: Terraform applies the code that is in the plan file."""
    case.bundle = structs.replace(case.bundle, plan=plan)
    with pytest.raises(Refused) as caught:
        case.restore_plan()
    assert caught.value.problem.code == "HF-BUND-21"
    assert what in caught.value.problem.message


def with_opentofu(case: Case) -> None:
    identity = case.workdir["engine"].identity
    case.workdir["engine"] = SimpleNamespace(identity=structs.replace(identity, product=Product.TOFU))
    case.bundle = structs.replace(case.bundle, engine={"product": "tofu", "version": "1.15.5"})


@pytest.mark.parametrize(
    ("planned", "by_terraform", "by_tofu"),
    [
        (("main.tf", "more.tf"), None, "./main.tf"),
        (("main.tofu", "more.tf"), "./main.tf", None),
        (("main.tf", "main.tofu", "more.tf"), "./main.tofu", "./main.tf"),
        (("more.tf",), "./main.tf", "./main.tofu"),
    ],
)
def test_a_plan_has_exactly_the_files_that_its_product_reads(
    case: Case, planned: tuple[str, ...], by_terraform: str | None, by_tofu: str | None
) -> None:
    """`main.tofu` replaces `main.tf`, for OpenTofu only; without it, a plan was made from other code."""
    for name in ("main.tofu", "more.tf"):
        (case.work.module / name).write_bytes(CODE)
    archive = read_archive(plan_archive(dict.fromkeys(planned, CODE)))
    found = [different_code(archive, case.work.module, tofu=tofu) for tofu in (False, True)]
    assert found == [by_terraform, by_tofu]


def test_an_archive_that_begins_like_an_encrypted_plan_is_compared(case: Case) -> None:
    """ZIP archives may begin with anything: OpenTofu would read and apply this one."""
    with_opentofu(case)
    for start in (b"{", b'{"encrypted_data": ""}'):
        case.bundle = structs.replace(case.bundle, plan=start + plan_archive({"main.tf": b"another"}))
        assert case.refused().problem.code == "HF-BUND-21"
    case.bundle = structs.replace(case.bundle, plan=b'{"encrypted_data": "eA=="}')
    assert any("encrypted" in note for note in case.restore_plan().notes)


@pytest.mark.parametrize("plan", [b"", b"no archive", b"{}", plan_archive({})[:-30]])
def test_what_is_not_a_plan_file_is_refused(case: Case, plan: bytes) -> None:
    case.bundle = structs.replace(case.bundle, plan=plan)
    with pytest.raises(Refused) as caught:
        case.restore_plan()
    assert caught.value.problem.code == "HF-BUND-3"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_plan_file_that_can_be_read_in_two_ways_is_refused(case: Case) -> None:
    """Terraform takes the first file of a name, others the last."""
    buffer = io.BytesIO(plan_archive({"main.tf": CODE}))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("tfplan", b"")
    case.bundle = structs.replace(case.bundle, plan=buffer.getvalue())
    with pytest.raises(Refused, match="twice"):
        case.restore_plan()


def test_how_it_was_planned_is_read_from_the_plan_file(case: Case) -> None:
    """A bundle that denies that its plan is a destroy, or covers only a part, changes nothing."""
    case.bundle = structs.replace(case.bundle, plan=plan_archive({"main.tf": CODE}, fields=DESTROY + TARGET))
    ready = case.restore_plan()
    assert (ready.destroy, ready.targeted) == (True, True)


def test_a_bundle_brings_no_imports(case: Case) -> None:
    """The guard judges plans of imports otherwise, and no command saves one."""
    case.bundle = structs.replace(case.bundle, options=PlanOptions(imports=(("a.b", "1"),)))
    assert case.restore_plan().options.imports == ()
