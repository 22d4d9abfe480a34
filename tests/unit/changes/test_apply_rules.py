"""What is not applied here, whatever its plan says."""

from __future__ import annotations

from pathlib import Path

import pytest
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs
from results_made import stack

from holdfast.audit.actor import Actor, current_actor
from holdfast.changes.preconditions import applicable_stacks, refusal
from holdfast.config.settings import Config, Owner, Proof, Target
from holdfast.plans.context import Project
from holdfast.stacks.stack import Stack

OF_CI = Target(name="aws", owner=Owner.CI)
OF_PEOPLE = Target(name="aws")


def opened(folder: Path, *, ci: bool, named: bool = False) -> Project:
    config = Config(file=folder / "holdfast.yaml", root=folder, store_named=named)
    return change_context(
        folder, blobs=MemoryBlobs(), config=config, variables={"CI": "true"} if ci else {}
    ).project


def a_stack(
    folder: Path, *, production: bool = False, kept: bool = False, target: Target | None = None
) -> Stack:
    module = folder / "a"
    module.mkdir(exist_ok=True)
    (module / "main.tf").write_text("" if kept else 'terraform {\n  backend "http" {}\n}\n')
    return structs.replace(stack("a"), production=production, target=target)


def code(project: Project, of: Stack) -> str | None:
    """The code of the refusal, if there is one; what is refused needs no lane."""
    found = refusal(project, of)
    assert applicable_stacks(project, [of]) == (() if found is not None else (of,))
    return found.problem.code if found is not None else None


@pytest.mark.parametrize("ci", [False, True])
@pytest.mark.parametrize("target", [OF_CI, OF_PEOPLE, None])
def test_what_ci_owns_is_applied_by_ci_only(tmp_path: Path, target: Target | None, *, ci: bool) -> None:
    """What people own, or nobody, is applied anywhere."""
    expected = "HF-OWN-1" if target is OF_CI and not ci else None
    assert code(opened(tmp_path, ci=ci), a_stack(tmp_path, target=target)) == expected


@pytest.mark.parametrize("verified", [False, True])
def test_a_token_of_the_job_or_a_server_proves_ci(tmp_path: Path, *, verified: bool) -> None:
    """Asked once for a change, and only where a target wants proof."""
    target, asked = structs.replace(OF_CI, proof=Proof.REQUIRED), []
    project = opened(tmp_path, ci=True)

    def verify() -> Actor:
        asked.append(1)
        return structs.replace(current_actor(project.environment), verified=verified, because="no token")

    project = structs.replace(project, verify_actor=verify)
    assert code(project, a_stack(tmp_path, target=OF_CI)) is None
    assert not asked
    for _ in range(2):
        assert code(project, a_stack(tmp_path, target=target)) == (None if verified else "HF-OWN-2")
    assert len(asked) == 1
    by_server = structs.replace(project, verified_ci=lambda: True)
    assert code(by_server, a_stack(tmp_path, target=target)) is None


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("production", [False, True])
@pytest.mark.parametrize(("ci", "named"), [(False, False), (False, True), (True, False), (True, True)])
def test_what_must_be_known_afterwards_is_not_left_to_a_runner(
    tmp_path: Path, *, ci: bool, named: bool, production: bool, kept: bool
) -> None:
    """The default folder goes with it: neither production nor a state that Holdfast keeps is left to that."""
    expected = "HF-STORE-10" if ci and not named and (production or kept) else None
    assert (
        code(opened(tmp_path, ci=ci, named=named), a_stack(tmp_path, production=production, kept=kept))
        == expected
    )
