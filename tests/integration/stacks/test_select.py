from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from holdfast.config.secret_refs import frozen
from holdfast.config.settings import ContractUse, Target
from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Place
from holdfast.stacks.select import removed_stacks, select
from holdfast.stacks.stack import Stack


def stack(name: str, *, line: int = 1, region: str | None = None) -> Stack:
    return Stack(
        name=name,
        kind=RuleKind.VARIABLES,
        place=Place(file="holdfast.yaml", line=line),
        module=".",
        variables_files=("common.tfvars", f"Accounts/{name}.tfvars"),
        region=region,
    )


def of_path(path: str) -> Stack | None:
    if path.startswith("Accounts/") and path.endswith(".tfvars"):
        return stack(path.removeprefix("Accounts/").removesuffix(".tfvars"))
    return None


@pytest.fixture
def code(tmp_path: Path) -> Code:
    (tmp_path / "Accounts").mkdir()
    (tmp_path / "main.tf").write_text('variable "f" {}\nmodule "v" {\n  source = "./vpc"\n}\n')
    (tmp_path / "vpc").mkdir()
    (tmp_path / "vpc/main.tf").write_text("")
    (tmp_path / "common.tfvars").write_text("")
    for name in ("a", "b"):
        (tmp_path / f"Accounts/{name}.tfvars").write_text(f'f = "policies/{name}.json"\n')
    return Code(tmp_path)


def chosen(code: Code, *changed: str, old: dict[str, Stack] | None = None) -> dict[str, tuple[str, ...]]:
    found = select((stack("a"), stack("b")), frozenset(changed), code, old_stacks=old)
    return {selected.stack.name: selected.reasons for selected in found}


def test_a_stack_is_selected_with_its_reasons(code: Code) -> None:
    """Each affected stack has its reasons, the most direct one first."""
    assert chosen(code, "README.md") == {}
    assert chosen(code, "policies/a.json", "Accounts/a.tfvars") == {
        "a": ("variables file Accounts/a.tfvars changed", "refers to policies/a.json")
    }
    several = [f"vpc/{n}.tf" for n in range(5)]
    why = "module vpc changed (vpc/0.tf, vpc/1.tf, vpc/2.tf and 2 more)"
    assert chosen(code, *several) == {"a": (why,), "b": (why,)}
    assert chosen(code, "common.tfvars").keys() == {"a", "b"}


def test_the_configuration_affects_only_what_it_changed(code: Code) -> None:
    """A changed configuration affects the stacks whose part of it differs, not those that only moved."""
    old = {"a": stack("a", line=9), "b": stack("b", region="eu-west-1")}
    assert chosen(code, "holdfast.yaml", old=old) == {"b": ("its part of holdfast.yaml changed",)}
    assert chosen(code, "holdfast.yaml", old={"a": stack("a")}) == {"b": ("new in holdfast.yaml",)}
    assert chosen(code, "README.md", old={}) == {}


def test_an_unreadable_old_configuration_affects_all(code: Code) -> None:
    """Where the old configuration cannot be read, every stack is affected."""
    why = ("holdfast.yaml is new, or its old version cannot be read",)
    assert chosen(code, "holdfast.yaml") == {"a": why, "b": why}


def test_a_changed_contract_affects_the_stacks_that_it_applies_to(code: Code) -> None:
    """Those of its target that it is for; a built-in contract is no file, and a gone one counts."""
    use = ContractUse(place=Place(file="holdfast.yaml"), schema="./contracts/outputs.yaml", stacks=("a*",))
    held = Target(name="aws", contract=use)
    given = (
        replace(stack("a"), target=held),
        replace(stack("b"), target=held),
        replace(stack("a2"), target=Target(name="other")),
        replace(stack("a3"), target=Target(name="c", contract=structs.replace(use, schema="platform-v1"))),
    )
    found = select(given, frozenset(("contracts/outputs.yaml", "contracts/other.yaml")), code)
    assert [(one.stack.name, one.reasons) for one in found] == [
        ("a", ("its contract contracts/outputs.yaml changed",))
    ]
    assert select(given, frozenset(("outputs.yaml",)), code) == ()


def test_env_of_a_stack_may_set_a_variable(code: Code) -> None:
    """A variable that the stack's own environment sets is not guessed from its default."""
    (code.tree.root / "read.tf").write_text('variable "g" { default = "x" }\nlocals { r = file(var.g) }\n')
    plain = stack("a")
    setting = replace(plain, env=frozen({"TF_VAR_g": "policies/other.json"}))
    found = select((plain, setting), frozenset(("scripts/any.sh",)), Code(code.tree.root))
    assert [selected.stack for selected in found] == [setting]


def test_a_deleted_variables_file_is_a_removed_stack(code: Code) -> None:
    """A stack whose variables file is gone is reported, once, and one that is still there is not."""
    changed = frozenset(("Accounts/old.tfvars", "Accounts/a.tfvars", "gone.tf"))
    found = removed_stacks((stack("a"), stack("b")), changed, code, of_path)
    assert [(gone.name, gone.variables, gone.reason) for gone in found] == [
        ("old", "Accounts/old.tfvars", "its variables file Accounts/old.tfvars was deleted")
    ]
    assert found[0].stack is None, "its old configuration is unknown"
    (known,) = removed_stacks((stack("a"),), changed, code, of_path, old_stacks={"old": stack("old")})
    assert known.stack == stack("old")


def test_a_folder_without_code_is_a_removed_stack(code: Code) -> None:
    """A folder that was a root module and holds no code any more is a removed stack."""
    was = replace(stack("live"), kind=RuleKind.FOLDER, module="live/net", variables_files=())
    found = removed_stacks(
        (), frozenset(("live/net/main.tf", "live/net/x.tf")), code, lambda p: was if "net" in p else None
    )
    assert [(gone.name, gone.variables, gone.reason) for gone in found] == [
        ("live", None, "its folder live/net no longer contains code")
    ]


def test_a_stack_that_left_the_configuration_is_removed(code: Code) -> None:
    """A stack that only the old configuration gives is a removed stack."""
    old = {"a": stack("a"), "c": stack("c")}
    found = removed_stacks((stack("a"),), frozenset(("holdfast.yaml",)), code, of_path, old_stacks=old)
    assert [(gone.name, gone.stack, gone.reason) for gone in found] == [
        ("c", stack("c"), "it is no longer in holdfast.yaml")
    ]
