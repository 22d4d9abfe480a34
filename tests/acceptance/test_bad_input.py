"""Whatever is wrong, a person gets a code, what, where, and what to do: on one screen, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from documents import CHANGE, ERRORS, require
from program import Program
from small import MODULE, obey_permissions, stacks

Spoil = Callable[[Program], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    spoil: Spoil
    code: str
    exit: int
    arguments: tuple[str, ...] = ("plan",)
    says: tuple[str, ...] = ()
    hint: bool = True


def text(path: str, content: str) -> Spoil:
    return lambda program: program.write(path, content)


def data(path: str, content: bytes) -> Spoil:
    return lambda program: program.write(path, "").write_bytes(content)


def without(path: str) -> Spoil:
    return lambda program: (program.folder / path).unlink()


def more(lines: str) -> Spoil:
    def spoil(program: Program) -> None:
        file = program.folder / "holdfast.yaml"
        file.write_text(file.read_text() + lines)

    return spoil


def both(one: Spoil, other: Spoil) -> Spoil:
    return lambda program: (one(program), other(program))


def folder(path: str) -> Spoil:
    return lambda program: (program.folder / path).mkdir(parents=True)


def nothing(_: Program) -> None:
    """The mistake is on the command line."""


def usage(*arguments: str, code: str = "HF-USE-1", says: tuple[str, ...] = (), hint: bool = True) -> Case:
    return Case(spoil=nothing, code=code, exit=64, arguments=arguments, says=says, hint=hint)


CONFIGURATION = {
    "no configuration": Case(spoil=without("holdfast.yaml"), code="HF-CONF-1", exit=64),
    "a folder instead of it": Case(
        spoil=nothing, code="HF-CONF-2", exit=64, arguments=("plan", "--config", "module")
    ),
    "bad YAML": Case(
        spoil=text("holdfast.yaml", "version: 1\nstacks: [\n"),
        code="HF-CONF-",
        exit=64,
        says=("holdfast.yaml:",),
    ),
    "not UTF-8": Case(
        spoil=data("holdfast.yaml", b"version: 1\n# \xff\n"),
        code="HF-CONF-22",
        exit=64,
        says=("holdfast.yaml:2",),
    ),
    "unknown key": Case(
        spoil=more("    regoin: x\n"), code="HF-CONF-4", exit=64, says=("holdfast.yaml:8", "region")
    ),
    "unknown placeholder": Case(
        spoil=more("    account: '{acount}'\n"),
        code="HF-CONF-9",
        exit=64,
        says=("{acount}", "holdfast.yaml:8"),
    ),
    "two stacks with one name": Case(
        spoil=more("  - { name: a, module: module }\n"), code="HF-STACK-", exit=64, says=("a",)
    ),
    "a dependency that is not there": Case(
        spoil=more("    depends_on: [nobody]\n"), code="HF-STACK-7", exit=64, says=("nobody",)
    ),
}
FILES = {
    "bad variables file": Case(
        spoil=text("vars/a.tfvars", 'x = "1"\ny = [\n'),
        code="HF-TF-3",
        exit=1,
        says=("vars/a.tfvars:3",),
        hint=False,
    ),
    "variables file not UTF-8": Case(
        spoil=data("vars/a.tfvars", b'x = "\xff"\n'),
        code="HF-TF-3",
        exit=1,
        says=("vars/a.tfvars:1", "UTF-8"),
        hint=False,
    ),
    "a folder called like a variables file": Case(
        spoil=more("    variables_files: [vars/common.tfvars]\n"),
        code="HF-",
        exit=64,
        says=("vars/common.tfvars",),
    ),
    "bad HCL": Case(
        spoil=text("module/broken.tf", 'output "y" {\n  value = \n'),
        code="HF-TF-1",
        exit=1,
        says=("module/broken.tf:",),
        hint=False,
    ),
    "module not UTF-8": Case(
        spoil=data("module/broken.tf", b'output "y" {\n  value = "\xff"\n}\n'),
        code="HF-",
        exit=1,
        says=("module/broken.tf",),
        hint=False,
    ),
    "unknown attribute": Case(
        spoil=text("module/main.tf", MODULE.replace("input", "imput")),
        code="HF-TF-2",
        exit=1,
        says=("module/main.tf:5",),
        hint=False,
    ),
    "missing variable": Case(
        spoil=text("module/more.tf", 'variable "needed" {}\n'),
        code="HF-TF-3",
        exit=1,
        says=("needed", "module/more.tf:1"),
        hint=False,
    ),
    "a provider that is nowhere": Case(
        spoil=both(
            more("engine: { retries: { attempts: 0 } }\n"),
            text(
                "module/more.tf",
                'terraform {\n  required_providers {\n    x = { source = "holdfast.invalid/x/x" }\n  }\n}\n',
            ),
        ),
        code="HF-TF-1",
        exit=1,
        says=("holdfast.invalid/x/x",),
        hint=False,
    ),
    "a module that is nowhere": Case(
        spoil=text("module/more.tf", 'module "m" {\n  source = "./nowhere"\n}\n'),
        code="HF-TF-1",
        exit=1,
        says=("nowhere",),
        hint=False,
    ),
    "no such folder": Case(
        spoil=more("  - { name: b, module: nowhere }\n"), code="HF-", exit=64, says=("nowhere",)
    ),
}
COMMAND_LINE = {
    "unknown command": usage("nonsense", says=("nonsense",)),
    "unknown option": usage("plan", "--nonsense", says=("--nonsense",)),
    "unknown stack": usage("plan", "nobody", code="HF-USE-8", says=("nobody",)),
    "wrong --lockfile": usage("plan", "--lockfile", "always", code="HF-USE-2", says=("update",)),
    "options against each other": usage("plan", "--refresh-only", "--destroy", code="HF-USE-4"),
    "--plan with stacks": usage("apply", "a", "--plan", "out", code="HF-USE-3"),
    "no bundle": usage("apply", "--plan", "nowhere", code="HF-BUND-2"),
    "--out into a file": usage("plan", "--out", "holdfast.yaml", code="HF-BUND-1"),
    "--out below a file": Case(
        spoil=nothing,
        code="HF-FILE-4",
        exit=1,
        arguments=("plan", "--out", "holdfast.yaml/out"),
        says=("holdfast.yaml",),
    ),
    "nonsense as --target": Case(
        spoil=nothing,
        code="HF-TF-3",
        exit=1,
        arguments=("plan", "--target", "a b c"),
        says=("a b c",),
        hint=False,
    ),
}
CASES = {**CONFIGURATION, **FILES, **COMMAND_LINE}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_mistake_is_said_on_one_screen(holdfast: Program, case: Case) -> None:
    """Code, message, hint, exit 64 or 1; the same as a document for machines; nothing of a traceback."""
    stacks(holdfast, "a")
    folder("vars/common.tfvars")(holdfast)
    case.spoil(holdfast)
    shown = holdfast.ok(*case.arguments, code=case.exit).text
    assert case.code in shown
    assert "HF-BUG" not in shown
    for words in case.says:
        assert words in shown, shown
    assert len(shown.splitlines()) < 30, shown
    assert str(holdfast.home / "work") not in shown

    document = holdfast.json(*case.arguments, code=case.exit)
    if "errors" in document:
        require(document, ERRORS)
        errors = document["errors"]
    else:
        require(document, CHANGE)
        errors = [error for one in document["stacks"] for error in one["errors"]]
    assert errors
    assert errors[0]["code"].startswith(case.code)
    if case.hint:
        assert all(error["hint"] for error in errors), errors


@pytest.mark.parametrize(
    ("path", "exit_"),
    [("holdfast.yaml", 64), ("vars/a.tfvars", 1), ("module/main.tf", 1), ("module/policy.json", 1)],
)
def test_a_file_that_may_not_be_read(holdfast: Program, path: str, exit_: int) -> None:
    """No permission is said with the file's name; one stack's file harms no other stack."""
    stacks(holdfast, "a", more="  - { name: other, module: other, environment: dev }\n")
    holdfast.write("other/main.tf", MODULE)
    holdfast.write("module/policy.json", "{}")
    holdfast.write("module/policy.tf", 'output "policy" {\n  value = file("${path.module}/policy.json")\n}\n')
    (holdfast.folder / path).chmod(0)
    probe = subprocess.run(
        ["cat", str(holdfast.folder / path)], capture_output=True, check=False, preexec_fn=obey_permissions
    )
    if probe.returncode == 0:
        pytest.skip("this user may read every file, and nothing can be done about it")
    ran = subprocess.run(
        [sys.executable, "-m", "holdfast", "plan", "--json"],
        cwd=holdfast.folder,
        env=holdfast.environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey_permissions,
    )
    assert ran.returncode == exit_, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    document = json.loads(ran.stdout)
    if exit_ == 64:
        require(document, ERRORS)
        assert path in document["errors"][0]["message"] or document["errors"][0]["file"] == path
        return
    require(document, CHANGE)
    by_name = {one["name"]: one for one in document["stacks"]}
    assert by_name["other"]["status"] == "planned"
    assert by_name["a"]["status"] == "failed"
    assert by_name["a"]["error"]["file"] == path
