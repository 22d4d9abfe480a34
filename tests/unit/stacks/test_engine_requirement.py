"""What the code and the settings of a stack require of its engine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from checkouts import MemoryCode

from holdfast.config.engine import EnginePin
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place, UsageError
from holdfast.stacks.engine_requirement import engine_requirement
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.engine.selection import EngineRequirement

CALL = 'module "m" {\n  source = "../m"\n}\n'
COMPUTED = 'variable "m" {\n  default = "m"\n}\nmodule "m" {\n  source = "../${var.m}"\n}\n'


def requirement(
    files: Mapping[str, str], *, caller: Mapping[str, str] | None = None, **settings: object
) -> EngineRequirement:
    stack = Stack(name="s", kind=RuleKind.NAMED, place=Place(file="f"), module="s", **settings)  # type: ignore[arg-type]
    code = MemoryCode({path: text.encode() for path, text in files.items()})
    return engine_requirement(code, stack, EnginePin(), caller or {})


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"s/main.tf": ""}, None),
        ({"s/main.tofu": ""}, "s/main.tofu is an OpenTofu file"),
        ({"s/main.tf": "", "s/main.tofu": ""}, "s/main.tofu is an OpenTofu file"),
        ({"s/main.tofu.json": "{}"}, "s/main.tofu.json is an OpenTofu file"),
        ({"s/main.tf": "", "s/.opentofu-version": "1.9"}, "s/.opentofu-version requires OpenTofu 1.9"),
        ({"s/main.tf": "terraform {\n  encryption {}\n}\n"}, "s/main.tf:2 encrypts the state"),
        ({"s/main.tf": CALL, "m/main.tf": "", "m/more.tofu": ""}, "m/more.tofu is an OpenTofu file"),
        ({"s/main.tf": COMPUTED, "m/x.tofu": ""}, "m/x.tofu is an OpenTofu file"),
        # A module for both products, and an `encryption` block that has no effect in a called module.
        ({"s/main.tf": CALL, "m/main.tf": "", "m/main.tofu": ""}, None),
        ({"s/main.tf": CALL, "m/main.tf.json": "{}", "m/main.tofu.json": "{}"}, None),
        (
            {"s/main.tf": CALL, "m/main.tf": "", "m/main.tofu.json": "{}"},
            "m/main.tofu.json is an OpenTofu file",
        ),
        ({"s/main.tf": CALL, "m/main.tf": "terraform {\n  encryption {}\n}\n"}, None),
        ({"s/main.tf": "", "n/main.tofu": ""}, None),
    ],
)
def test_code_that_terraform_would_misread(files: Mapping[str, str], reason: str | None) -> None:
    """Of the root module, and of every local module that it calls."""
    assert requirement(files).tofu_reason == reason


@pytest.mark.parametrize(
    ("settings", "caller", "needed"),
    [
        ({"env": {"TF_ENCRYPTION": "x"}}, {}, True),
        ({"pass_env": ("TF_ENCRYPTION",)}, {"TF_ENCRYPTION": "x"}, True),
        ({"pass_env": ("TF_ENCRYPTION",)}, {}, False),
        ({"env": {"TF_ENCRYPTION": ""}}, {"TF_ENCRYPTION": "x"}, False),
        ({}, {"TF_ENCRYPTION": ""}, False),
    ],
)
def test_encryption_by_environment(
    settings: Mapping[str, object], caller: Mapping[str, str], *, needed: bool
) -> None:
    """Terraform would store the state in plain text; an empty value sets no encryption."""
    known = requirement({"s/main.tf": ""}, caller=caller, **settings)
    assert known.tofu_reason == ("TF_ENCRYPTION encrypts the state" if needed else None)


def test_encryption_of_the_caller_is_never_dropped() -> None:
    """A stack that does not get it would store its state in plain text: the error has both recipes."""
    with pytest.raises(UsageError) as error:
        requirement({"s/main.tf": ""}, caller={"TF_ENCRYPTION": "x"})
    problem = error.value.problem
    assert (problem.code, error.value.exit) == ("HF-ENG-25", 64)
    hint = problem.hint or ""
    assert all(
        recipe in hint for recipe in ("pass_env: [TF_ENCRYPTION]", "env: {TF_ENCRYPTION: {secret: …}}")
    )


def test_files_that_opentofu_does_not_read() -> None:
    """`versions.tofu` replaces `versions.tf`: only its version counts."""
    files = {
        "s/versions.tf": 'terraform {\n  required_version = "< 1.6"\n}\n',
        "s/versions.tofu": 'terraform {\n  required_version = ">= 1.8"\n}\n',
        "s/.terraform-version": "1.5.7",
        "s/.terraform.lock.hcl": 'provider "registry.terraform.io/a/b" {\n  version = "1.0.0"\n}\n',
    }
    known = requirement(files)
    assert (known.required, known.version_file) == ((">= 1.8",), None)
    assert known.lock_product is Product.TERRAFORM
