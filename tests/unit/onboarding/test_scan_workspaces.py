from __future__ import annotations

import pytest

from holdfast.onboarding.scan_workspaces import (
    AS_VARIABLES_FILE,
    names_in_code,
    names_in_script,
    reads_workspace,
)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('x = terraform.workspace == "prod" ? 1 : 2\n', {"prod"}),
        ('x = "prod" != terraform.workspace\n', {"prod"}),
        (
            "locals {\n  sizes = { dev = 1, prod = 3 }\n  x = local.sizes[terraform.workspace]\n}\n",
            {"dev", "prod"},
        ),
        ('locals {\n  env = terraform.workspace\n  x = lookup({ "dev" : 1 }, local.env)\n}\n', {"dev"}),
        ('locals {\n  sizes = { dev = 1 }\n  name = "x-${terraform.workspace}"\n}\n', set()),
        ("locals {\n  sizes = { dev = 1 }\n}\n", set()),
    ],
)
def test_names_in_code(code: str, names: set[str]) -> None:
    """Code names its workspaces where it compares them or looks something up by them, not elsewhere."""
    assert names_in_code(code) >= names
    assert bool(names_in_code(code)) == bool(names)


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("terraform workspace select prod || terraform workspace new prod", ("prod",)),
        ("terraform workspace select -or-create=true dev", ("dev",)),
        ('run(["terraform", "workspace", "select", "dev"])', ("dev",)),
        ("TF_WORKSPACE: production", ("production",)),
        ('terraform workspace select "$1"\nterraform plan -var-file="$1.tfvars"', (AS_VARIABLES_FILE,)),
        (
            "TF_WORKSPACE: ${{ matrix.env }}\nrun: terraform plan -var-file=envs/${{ matrix.env }}/a.tfvars",
            (AS_VARIABLES_FILE,),
        ),
        ('terraform workspace select "acme-$1"\nterraform plan -var-file="$1.tfvars"', ()),
        ("terraform workspace select $A\nterraform plan -var-file=$B.tfvars", ("$A",)),
        ("terraform workspace select $1\nterraform plan -var-file=eu-$1.tfvars", ("$1",)),
    ],
)
def test_names_in_scripts(script: str, names: tuple[str, ...]) -> None:
    """A name counts as written; a variable only if it is the whole name, also of the variables file."""
    assert names_in_script(script) == names


def test_the_default_workspace() -> None:
    """Code that only asks for the default workspace is not written for others."""
    assert not reads_workspace('x = terraform.workspace == "default"')
    assert not reads_workspace("# terraform.workspace")
    assert reads_workspace('name = "x-${terraform.workspace}"')
