"""Every command line, to the letter: what is missing or new here is a change of what Terraform does."""

from __future__ import annotations

import pytest

from holdfast.terraform import argv
from holdfast.terraform.argv import Argv, PlanOptions


@pytest.mark.parametrize(
    ("backend_file", "json", "reconfigure", "added"),
    [
        (False, False, True, ("-reconfigure",)),
        (False, False, False, ()),
        (False, True, True, ("-reconfigure", "-json")),
        (True, False, True, ("-reconfigure", "-backend-config=holdfast.tfbackend.json")),
        (True, True, True, ("-reconfigure", "-json", "-backend-config=holdfast.tfbackend.json")),
    ],
)
def test_init(*, backend_file: bool, json: bool, reconfigure: bool, added: Argv) -> None:
    """Init never asks, never migrates, and gets its settings from the private file only."""
    made = argv.init(backend_file=backend_file, json=json, reconfigure=reconfigure)
    assert made == ("init", "-input=false", "-no-color", *added)


@pytest.mark.parametrize(("json", "added"), [(False, ()), (True, ("-json",))])
def test_init_without_the_backend(*, json: bool, added: Argv) -> None:
    """Nothing of the backend is named: neither its settings nor that they may have changed."""
    made = argv.init(backend_file=True, json=json, backend=False)
    assert made == ("init", "-input=false", "-no-color", "-backend=false", *added)


_PLAN = ("plan", "-json", "-input=false", "-detailed-exitcode", "-out=holdfast.tfplan")


@pytest.mark.parametrize(
    ("options", "files", "added"),
    [
        (PlanOptions(), (), ()),
        (PlanOptions(destroy=True), (), ("-destroy",)),
        (PlanOptions(refresh_only=True), (), ("-refresh-only",)),
        (PlanOptions(excludes=("a.b", "c.d")), (), ("-exclude=a.b", "-exclude=c.d")),
        (PlanOptions(targets=("a.b", 'c["d e"]')), (), ("-target=a.b", '-target=c["d e"]')),
        (PlanOptions(replace=("a.b", "a.c")), (), ("-replace=a.b", "-replace=a.c")),
        (PlanOptions(), ("../x.tfvars", "y.json"), ("-var-file=../x.tfvars", "-var-file=y.json")),
        (
            PlanOptions(destroy=True, targets=("t.t",), replace=("r.r",), refresh_only=True),
            ("v",),
            ("-destroy", "-refresh-only", "-target=t.t", "-replace=r.r", "-var-file=v"),
        ),
    ],
)
def test_plan(options: PlanOptions, files: tuple[str, ...], added: Argv) -> None:
    """A plan is always saved, always answers by its exit code, and the last variables file wins."""
    assert argv.plan(options, variables_files=files) == (*_PLAN, *added)


def test_plan_and_apply_wait_for_a_lock_as_long_as_configured() -> None:
    """Without a wait Terraform gives up at once; a wait is passed in whole seconds."""
    assert argv.plan(PlanOptions(), variables_files=(), lock_seconds=90) == (*_PLAN, "-lock-timeout=90s")
    assert "-lock-timeout=1800s" in argv.apply(lock_seconds=1800.0)
    assert argv.apply(lock_seconds=1800.0)[-1] == "holdfast.tfplan"


def test_plan_and_apply_get_the_parallelism_of_the_stack() -> None:
    """Without one, Terraform uses its own. The plan file stays the last argument."""
    planned = argv.plan(PlanOptions(destroy=True), variables_files=("v",), lock=False, parallelism=1)
    assert planned == (*_PLAN, "-lock=false", "-parallelism=1", "-destroy", "-var-file=v")
    assert argv.apply(parallelism=3, variables_files=("v",)) == (
        *("apply", "-json", "-input=false", "-auto-approve"),
        *("-parallelism=3", "-var-file=v", "holdfast.tfplan"),
    )


def test_apply_takes_the_saved_plan_and_nothing_else() -> None:
    """What is applied is the plan file: no target, no variable can change it."""
    assert argv.apply() == ("apply", "-json", "-input=false", "-auto-approve", "holdfast.tfplan")


def test_apply_gives_variables_files_before_the_plan() -> None:
    """Ephemeral variables are in no plan and are passed again; the plan comes last, as Terraform requires."""
    assert argv.apply(variables_files=("a.tfvars", "b.tfvars")) == (
        "apply",
        "-json",
        "-input=false",
        "-auto-approve",
        "-var-file=a.tfvars",
        "-var-file=b.tfvars",
        "holdfast.tfplan",
    )


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (argv.VALIDATE, ("validate", "-json", "-no-color")),
        (argv.SHOW_PLAN, ("show", "-json", "-no-color", "holdfast.tfplan")),
        (argv.OUTPUT, ("output", "-json", "-no-color")),
        (argv.STATE_PULL, ("state", "pull")),
        (argv.state_push("/a b/state"), ("state", "push", "/a b/state")),
        (
            argv.state_mv("s.tfstate", "a.b", "c.d"),
            ("state", "mv", "-no-color", "-state=s.tfstate", "-backup=backup.tfstate", "a.b", "c.d"),
        ),
        (
            argv.state_mv("s.tfstate", "a.b", "c.d", into="t.tfstate")[4:],
            (
                "-backup=backup.tfstate",
                "-state-out=t.tfstate",
                "-backup-out=backup-out.tfstate",
                "a.b",
                "c.d",
            ),
        ),
        (
            argv.state_rm("s.tfstate", ("a.b", "c.d")),
            ("state", "rm", "-no-color", "-state=s.tfstate", "-backup=backup.tfstate", "a.b", "c.d"),
        ),
        (argv.select_workspace("blue"), ("workspace", "select", "-or-create=true", "blue")),
        (argv.VERSION, ("version", "-json")),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_the_other_commands(made: Argv, expected: Argv) -> None:
    """Each of the small commands asks for a form that a program can read."""
    assert made == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (argv.VALIDATE, ("validate", "-var-file=a", "-var-file=b", "-json", "-no-color")),
        (argv.STATE_PULL, ("state", "pull", "-var-file=a", "-var-file=b")),
        (argv.state_push("f"), ("state", "push", "-var-file=a", "-var-file=b", "f")),
        (
            argv.select_workspace("blue"),
            ("workspace", "select", "-var-file=a", "-var-file=b", "-or-create=true", "blue"),
        ),
        (
            argv.apply(),
            (
                "apply",
                "-var-file=a",
                "-var-file=b",
                "-json",
                "-input=false",
                "-auto-approve",
                "holdfast.tfplan",
            ),
        ),
        (argv.VERSION, argv.VERSION),
        (("providers", "schema", "-json"), ("providers", "schema", "-json")),
        (argv.apply(variables_files=("a",)), argv.apply(variables_files=("a",))),
        (
            argv.plan(PlanOptions(), variables_files=("a", "b")),
            argv.plan(PlanOptions(), variables_files=("a", "b")),
        ),
    ],
)
def test_every_command_of_opentofu_may_need_the_variables(words: Argv, expected: Argv) -> None:
    """OpenTofu computes backend and encryption from variables in every command; none gets them twice."""
    assert argv.with_variables(words, ("a", "b")) == expected
