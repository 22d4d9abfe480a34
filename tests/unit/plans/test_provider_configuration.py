"""What a warm provider process may be shared by: the same configuration, or it is another process."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from holdfast.hcl.eval.code import Code
from holdfast.plans.provider_configuration import NotWarm, configuration_digest

CODE = """
variable "account" {
  type = string
}

variable "region" {
  default = "eu"
}

variable "name" {}

locals {
  url = "https://${var.account}.example.com/${local.path}"
  path = lower(var.region)
  unrelated = var.name
}

provider "lab" {
  url = local.url
}

resource "lab_object" "it" {
  name = local.unrelated
}
"""


def digest(
    folder: Path, code: str = CODE, variables: str = 'account = "1"\nname = "x"', **modules: str
) -> str:
    for name, text in {"a": code, **modules}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "main.tf").write_text(textwrap.dedent(text))
    file = folder / "values.tfvars"
    file.write_text(variables)
    return configuration_digest(Code(folder), ("a", *modules), "a", [file])


def test_only_what_the_configuration_depends_on_counts(tmp_path: Path) -> None:
    """A thousand devices of one account share a process; another account never gets it."""
    first = digest(tmp_path)
    assert digest(tmp_path, variables='name = "another"\naccount = "1"') == first
    assert digest(tmp_path, CODE.replace("name = local", "body = local")) == first
    assert digest(tmp_path, variables='account = "2"\nname = "x"') != first
    assert digest(tmp_path, variables='account = "1"\nregion = "us"\nname = "x"') != first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('default = "eu"', 'default = "us"'),
        ("url = local.url", 'url = "${local.url}/v2"'),
        ("lower(var.region)", "upper(var.region)"),
        ("type = string", "type = any"),
        ('provider "lab" {', 'provider "lab" {\n  retry {\n    count = 1\n  }'),
    ],
)
def test_a_change_of_the_configuration_is_another_one(tmp_path: Path, old: str, new: str) -> None:
    """In the block, in a local that it needs, or in the declaration of a variable."""
    assert old in CODE
    assert digest(tmp_path, CODE.replace(old, new)) != digest(tmp_path)


def test_a_later_variables_file_counts(tmp_path: Path) -> None:
    """Which file wins is Terraform's decision: what any of them says is part of the digest."""
    digest(tmp_path)
    more = tmp_path / "more.tfvars.json"
    more.write_text('{"account": "2"}')
    code, own = Code(tmp_path), tmp_path / "values.tfvars"
    found = {configuration_digest(code, ("a",), "a", files) for files in ([own], [own, more], [more, own])}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("url = local.url", "url = data.lab_object.it.body", "depends on data.lab_object.it.body"),
        ("url = local.url", "url = lab_object.it.id", "depends on lab_object.it.id"),
        ("url = local.url", "url = terraform.workspace", "depends on terraform.workspace"),
        ("url = local.url", "url = module.other.url", "depends on module.other.url"),
        ("url = local.url", 'url = file("url.txt")', "uses file"),
        ("url = local.url", "url = timestamp()", "uses timestamp"),
        ("url = local.url", 'url = "%{ if true }a%{ endif }"', "could not be read completely"),
        ("url = local.url", 'alias = "b"', "more than once"),
        ('provider "lab" {', 'provider "lab" {}\nprovider "lab" {', "more than once"),
        ("name = local.unrelated", 'name = "${path.module}/x"', "path.module"),
        ("name = local.unrelated", 'name = templatefile("x", { a = path.root })', "path.module"),
        ('variable "name" {}', 'module "m" {\n  source = "acme/m/lab"\n}', "outside of the repository"),
    ],
)
def test_what_cannot_be_told_is_not_warm(tmp_path: Path, old: str, new: str, reason: str) -> None:
    """A process is never shared on a guess."""
    assert old in CODE
    with pytest.raises(NotWarm, match=reason):
        digest(tmp_path, CODE.replace(old, new))


def test_paths_that_terraform_uses_itself_are_fine(tmp_path: Path) -> None:
    """Terraform reads the file, or makes the path absolute, before a provider sees it."""
    for call in ('file("${path.module}/x")', 'templatefile("${path.module}/x", {})', "abspath(path.module)"):
        digest(tmp_path, CODE.replace("name = local.unrelated", f"name = {call}"))


def test_a_called_module_configures_no_provider(tmp_path: Path) -> None:
    """Its configuration would be a second one."""
    digest(tmp_path, b='resource "lab_object" "it" {}')
    with pytest.raises(NotWarm, match="more than once"):
        digest(tmp_path, b='provider "lab" {}')


def test_a_variable_that_cannot_be_read_is_not_warm(tmp_path: Path) -> None:
    """Terraform would refuse it; whatever it does, no process is shared."""
    with pytest.raises(NotWarm, match="account is not a constant"):
        digest(tmp_path, variables="account = foo.bar")
    with pytest.raises(NotWarm, match="could not be read"):
        digest(tmp_path, variables="account = ")
