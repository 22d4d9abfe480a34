"""An unexpected error while the code of one stack is read is the error of this stack."""

from __future__ import annotations

from pathlib import Path

from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import Code, ModuleCode
from holdfast.kernel.errors import Place, Problem
from holdfast.stacks.reads.remote_states import derived_dependencies
from holdfast.stacks.select import select
from holdfast.stacks.stack import Stack


class FailingCode(Code):
    """Code in which one module reveals a mistake of Holdfast."""

    def _module(self, folder: str) -> ModuleCode:
        if folder == "live/bad":
            raise ZeroDivisionError("a secret")
        return super()._module(folder)


def stack(name: str) -> Stack:
    return Stack(name=name, kind=RuleKind.FOLDER, place=Place("holdfast.yaml"), module=name)


def test_it_is_selected_and_marked_and_the_others_go_on(tmp_path: Path) -> None:
    """Every change may affect it; what others read is found."""
    for name in ("good", "bad", "other"):
        (tmp_path / "live" / name).mkdir(parents=True)
        (tmp_path / "live" / name / "main.tf").write_text("locals {}\n")
    code, stacks = FailingCode(tmp_path), [stack(f"live/{name}") for name in ("bad", "good", "other")]
    selected = select(stacks, frozenset(("live/good/main.tf",)), code)
    assert [one.stack.name for one in selected] == ["live/bad", "live/good"]
    (problem,) = selected[0].stack.problems
    assert problem.code == "HF-BUG-1"
    assert "ZeroDivisionError" in problem.message
    assert "secret" not in problem.message
    assert selected[1].stack.problems == ()
    ((name, marked),) = derived_dependencies(lambda _: code, stacks)
    assert name == "live/bad"
    assert isinstance(marked, Problem)
