from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.config.secret_refs import Value
from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import Code
from holdfast.hcl.reader import UNKNOWN
from holdfast.kernel.errors import Place
from holdfast.stacks.reads.inputs import StackInputs, affecting_change, reason_text
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.stack import Stack


def module_inputs(
    code: Code,
    module: str,
    variables_files: tuple[str, ...] = (),
    inline: Mapping[str, Value] | None = None,
    env_variables: frozenset[str] = frozenset(),
) -> StackInputs:
    stack = Stack(
        name="s",
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml"),
        module=module,
        variables_files=variables_files,
        variables=inline or {},
    )
    return stack_inputs(code, stack, env_variables)


def repository(root: Path, files: dict[str, str]) -> Code:
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Code(root)


def reason(reached: StackInputs, path: str) -> str | None:
    touch = affecting_change(reached, path)
    return reason_text(*touch, (path,)) if touch else None


def test_a_value_of_the_entry_wins_over_its_variables_files(tmp_path: Path) -> None:
    """As in Terraform, which gets it last; so does a value of the command line."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": 'variable "kind" {}\nmodule "m" {\n  source = "../modules/${var.kind}"\n}\n',
            "live/terraform.tfvars": 'kind = "one"\n',
            "modules/one/main.tf": "",
            "modules/two/main.tf": "",
        },
    )
    reached = module_inputs(code, "live", inline={"kind": "two"})
    assert (reached.everything, reached.reasons) == (False, ())
    assert affecting_change(reached, "modules/two/main.tf")
    assert not affecting_change(reached, "modules/one/main.tf")


def test_the_root_module_and_the_files_beside_it(tmp_path: Path) -> None:
    """A stack is decided by its own code, variables, lock and version files; not by a README."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": 'variable "a" {}\n',
            "live/terraform.tfvars": 'a = "x"\n',
            "live/.terraform.lock.hcl": "",
            "live/README.md": "",
            "live/.hidden.tf": "",
            "shared.tfvars": "",
            ".terraform-version": "1.9.0\n",
        },
    )
    found = module_inputs(code, "live", ("shared.tfvars",))
    assert found.files == {
        "live/main.tf",
        "live/terraform.tfvars",
        "live/.terraform.lock.hcl",
        "shared.tfvars",
        ".terraform-version",
    }
    assert not found.everything
    assert reason(found, "live/new.tf") == "its own code changed (live/new.tf)"
    assert reason(found, "live/gone.auto.tfvars.json") == "its own code changed (live/gone.auto.tfvars.json)"
    assert reason(found, "shared.tfvars") == "variables file shared.tfvars changed"
    assert reason(found, "live/.terraform.lock.hcl") == "its lock file live/.terraform.lock.hcl changed"
    assert reason(found, "live/.opentofu-version") == "its version file live/.opentofu-version changed"
    assert reason(found, "live/README.md") is None
    assert reason(found, "live/deeper/main.tf") is None
    assert reason(found, "other.tfvars") is None


def test_local_modules_are_followed_to_the_end(tmp_path: Path) -> None:
    """Every local module reached through `source` touches the stack; others and remote ones do not."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": 'module "a" {\n  source = "../modules/a"\n}\n',
            "live/far.tf": 'module "r" {\n  source = "a/b/c"\n}\n',
            "modules/a/main.tf": 'module "b" {\n  source = "./../b/"\n}\n',
            "modules/a/README.md": "",
            "modules/b/main.tf.json": '{"locals": {"x": 1}}',
            "modules/c/main.tf": "",
        },
    )
    found = module_inputs(code, "live")
    assert found.files == {"live/main.tf", "live/far.tf", "modules/a/main.tf", "modules/b/main.tf.json"}
    assert reason(found, "modules/b/x.tf") == "module modules/b changed (modules/b/x.tf)"
    assert reason(found, "modules/c/main.tf") is None


def test_files_read_by_functions_are_followed_through_values(tmp_path: Path) -> None:
    """A path is followed through variables, locals, arguments of modules, `for_each` and `for`."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": """
variable "policy" { default = "trust" }
variable "files" { type = set(string) }
locals { name = "${var.policy}.json" }
resource "x" "y" { a = file("${path.module}/policies/${local.name}") }
module "m" {
  for_each = var.files
  source   = "../modules/m"
  name     = each.value
  pairs    = [for n in ["one", "two"] : filemd5("pairs/${n}")]
}
""",
            "modules/m/main.tf": """
variable "name" {}
locals {
  root = templatefile("${path.root}/t/${var.name}.tpl", {})
  mine = filebase64("${path.module}/data/${var.name}")
}
resource "x" "y" {
  dynamic "part" {
    for_each = { a = "p.txt" }
    content { b = fileexists("${path.module}/${part.value}") }
  }
}
""",
            "live/t/k1.tpl": "${x}",
            "modules/m/data/k1": "",
            "live/policies/trust.json": "{}",
        },
    )
    found = module_inputs(code, "live", inline={"files": ("k1", "k2")})
    assert found.reads == {
        "live/policies/trust.json",
        "live/pairs/one",
        "live/pairs/two",
        "live/t/k1.tpl",
        "live/t/k2.tpl",
        "modules/m/data/k1",
        "modules/m/data/k2",
        "modules/m/p.txt",
    }
    assert {"live/t/k1.tpl", "modules/m/data/k1", "live/policies/trust.json"} <= found.files
    assert "live/t/k2.tpl" not in found.files
    assert not found.everything
    assert reason(found, "live/t/k2.tpl") == "reads live/t/k2.tpl"


def test_a_string_that_names_a_file_counts(tmp_path: Path) -> None:
    """A variable's value or a literal that names a file by path counts, seen from any place it may mean."""
    code = repository(
        tmp_path,
        {
            "main.tf": 'variable "trust" {}\nresource "x" "y" { policy = "policies/p.json" }\n',
            "Accounts/a/db.tfvars": 'trust = "trust-policy.json"\nnested = [{ f = "./sub/x.txt" }]\n',
            "Accounts/a/trust-policy.json": "{}",
        },
    )
    found = module_inputs(code, ".", ("Accounts/a/db.tfvars",))
    assert "Accounts/a/trust-policy.json" in found.files
    for path in ("trust-policy.json", "Accounts/a/sub/x.txt", "sub/x.txt", "policies/p.json"):
        assert reason(found, path) == f"refers to {path}"
    assert reason(found, "Accounts/b/trust-policy.json") is None


def test_a_plain_word_does_not_name_a_folder(tmp_path: Path) -> None:
    """`environment = "dev"` is not all of the folder `dev`; `source_dir = "dev"` and `"./dev"` are."""
    files = {
        "dev/net/main.tf": 'variable "environment" {}\nresource "x" "y" { tag = "dev" }\n',
        "dev/net/terraform.tfvars": 'environment = "dev"\n',
        "dev/db/main.tf": "",
    }
    found = module_inputs(repository(tmp_path / "a", files), "dev/net")
    assert reason(found, "dev/db/main.tf") is None
    assert found.files == {"dev/net/main.tf", "dev/net/terraform.tfvars"}
    code = repository(
        tmp_path / "b",
        {
            "main.tf": 'data "archive_file" "z" { source_dir = "src" }\nlocals { t = "./tpl" }\n',
            "src/deep/a.py": "",
            "tpl/t": "",
        },
    )
    found = module_inputs(code, ".")
    assert {"src/deep/a.py", "tpl/t"} <= found.files
    assert reason(found, "src/new.py") == "reads files in src (src/new.py)"
    assert reason(found, "tpl/new") == "reads files in tpl (tpl/new)"


def test_fileset_holds_new_files(tmp_path: Path) -> None:
    """A new file that a `fileset` would find touches the stack; what it finds is followed."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": """
resource "x" "y" {
  for_each = fileset("${path.module}/rules", "**/*.json")
  a        = file("${path.module}/rules/${each.value}")
}
""",
            "live/rules/a/1.json": "",
            "live/rules/2.yaml": "",
        },
    )
    found = module_inputs(code, "live")
    assert found.files == {"live/main.tf", "live/rules/a/1.json"}
    assert found.reads == {"live/rules/a/1.json"}
    assert reason(found, "live/rules/b/new.json") == "reads files in live/rules (live/rules/b/new.json)"
    assert reason(found, "live/rules/2.yaml") is None
    assert not found.everything


COMPUTED = "live/main.tf:2 reads a file whose name is computed"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('locals {\n  a = file(var.unset)\n}\nvariable "unset" {}\n', COMPUTED),
        ("locals {\n  a = file(data.x.y.z)\n}\n", COMPUTED),
        ("locals {\n  a = [for f in data.x.y : file(f)]\n}\n", COMPUTED),
        ("locals {\n  a = fileset(path.module, var.unset)\n}\n", COMPUTED),
        ('data "external" "x" {\n  program = ["sh"]\n}\n', "live/main.tf:1 runs a program (data external)"),
        ('resource "x" "y" {\n  source = var.unset\n}\n', COMPUTED),
        ('locals {\n  a = "${path.module}/${var.unset}"\n}\n', COMPUTED),
        (
            'locals {\n  a = templatefile("t.tpl", {})\n}\n',
            "live/t.tpl reads a file whose name is computed",
        ),
        ("a = = 1\n", "live/main.tf:1:1 cannot be read"),
        (f"locals {{\n  a = {'!' * 150}fileexists(var.unset)\n}}\n", COMPUTED),
        ("locals {\n  a = templatestring(local.b, {})\n}\n", COMPUTED),
    ],
)
def test_where_it_is_unclear_what_is_read_the_files_near_the_code_count(
    tmp_path: Path, text: str, words: str
) -> None:
    """The work directory has every file; of these, those in the module's folder affect the stack."""
    template = "a\n${file(name)} and file( in the text\n"
    code = repository(tmp_path, {"live/main.tf": text, "live/t.tpl": template})
    found = module_inputs(code, "live")
    assert found.everything
    assert found.reasons[0] == words
    assert reason(found, "live/data/near.json") == f"{words}: files in live count (live/data/near.json)"
    assert reason(found, "other/far.json") is None
    assert reason(found, "live/README.md") is None
    assert reason(found, "live/other/main.tf") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('module "m" {\n  source = var.unset\n}\n', "main.tf:1 calls a module whose source is computed"),
        (
            f"locals {{\n  a = {'[' * 400}file(var.unset){']' * 400}\n}}\n",
            "main.tf:2 cannot be read",
        ),
        ('locals {\n  a = fileset(".", "*/../*")\n}\n', "main.tf:2 searches for files above a folder"),
    ],
)
def test_what_cannot_be_followed_at_all_makes_every_file_count(tmp_path: Path, text: str, words: str) -> None:
    """If not even the modules are known, everything counts, and the reason says where and why."""
    found = module_inputs(repository(tmp_path, {"main.tf": text}), ".")
    assert found.reasons[0] == words
    assert reason(found, "any/thing.txt") == f"{words}: every changed file counts (any/thing.txt)"
    assert reason(found, "docs/any.txt") is None
    assert reason(found, "docs/main.tf") is not None


def test_documentation_counts_where_a_computed_name_or_a_program_may_mean_it(tmp_path: Path) -> None:
    """Code in a folder `docs` reads the files there; a name that ends in `.md` means such files."""
    program = 'data "external" "x" {\n  program = ["python3", "gen.py"]\n}\n'
    template = 'locals {\n  a = templatefile("${path.module}/mails/${var.unset}.md", {})\n}\n'
    code = repository(tmp_path, {"live/docs/main.tf": program + template + 'variable "unset" {}\n'})
    found = module_inputs(code, "live/docs")
    counting = ["live/docs/data.json", "live/docs/mails/a.md"]
    others = ["live/docs/README.md", "live/docs/docs/data.json", "live/docs/a.md", "docs/data.json"]
    assert [path for path in (*counting, *others) if reason(found, path) is not None] == counting


@pytest.mark.parametrize(
    "name",
    [
        '"${path.module}/../policies/${var.unset}.json"',
        'join("/", [path.module, "..", "policies", "${var.unset}.json"])',
        'format("%s/../policies/%s.json", path.module, var.unset)',
    ],
)
def test_the_folder_that_a_computed_name_begins_with_counts(tmp_path: Path, name: str) -> None:
    """However the name is put together."""
    text = f'locals {{\n  a = file({name})\n}}\nvariable "unset" {{}}\n'
    found = module_inputs(repository(tmp_path, {"live/main.tf": text}), "live")
    assert reason(found, "policies/a.json") is not None
    assert reason(found, "other/a.json") is None


def test_a_provisioner_counts_the_files_that_it_names(tmp_path: Path) -> None:
    """It runs on create and destroy only, so nothing else counts; the work directory has every file."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": """
resource "x" "y" {
  connection { private_key = file(var.unset) }
  provisioner "local-exec" { command = "bash ../scripts/a.sh --inventory=hosts.ini" }
  provisioner "file" { source = var.unset }
}
""",
            "live/hosts.ini": "",
            "scripts/a.sh": "",
        },
    )
    found = module_inputs(code, "live")
    assert found.everything
    assert reason(found, "scripts/a.sh") == "refers to scripts/a.sh"
    assert reason(found, "live/hosts.ini") == "refers to live/hosts.ini"
    assert [reason(found, path) for path in ("scripts/b.sh", "live/other.ini", "any.txt")] == [None] * 3


def test_a_program_counts_the_files_that_it_names_and_those_beside_it(tmp_path: Path) -> None:
    """It may load what is beside it, but a program above the stack does not make the rest count."""
    code = repository(
        tmp_path,
        {
            "live/a/main.tf": 'data "external" "x" {\n  program = ["sh", "-c", "python3 ${path.module}'
            '/../../tools/a/look.py | ../../top.sh"]\n}\n',
            "tools/a/look.py": "",
            "top.sh": "",
        },
    )
    found = module_inputs(code, "live/a")
    assert reason(found, "tools/a/look.py") == "refers to tools/a/look.py"
    assert reason(found, "top.sh") == "refers to top.sh"
    beside = reason(found, "tools/a/library.py")
    assert beside == "live/a/main.tf:2 runs a program: files in tools/a count (tools/a/library.py)"
    assert reason(found, "tools/other.py") is None
    assert reason(found, "live/other.txt") is None


def test_what_a_template_reads_is_followed(tmp_path: Path) -> None:
    """Expressions in a template count, with the variables that it gets; the text around them does not."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": 'locals {\n  a = templatefile("t.tpl", { n = "one" })\n}\n',
            "live/t.tpl": 'call file(other) in ${n}\n${file("parts/${n}.txt")} %{ if true }${1}%{ endif }\n',
        },
    )
    found = module_inputs(code, "live")
    assert not found.everything
    assert reason(found, "live/parts/one.txt") == "reads live/parts/one.txt"
    assert reason(found, "live/parts/two.txt") is None


def test_files_of_an_unreadable_file_are_found_by_their_names(tmp_path: Path) -> None:
    """Its strings may name files and modules, so a syntax that is not understood misses nothing."""
    broken = """
resource "x" "y" {
  a = = "${path.module}/policies/a.json"
}
module "m" { = source = "../modules/m" }
"""
    module = 'module "n" {\n  source = "../n"\n}\n'
    code = repository(
        tmp_path,
        {"live/main.tf": broken, "modules/m/main.tf": module, "modules/n/main.tf": "locals {}\n"},
    )
    found = module_inputs(code, "live")
    assert reason(found, "modules/n/new.tf") == "module modules/n changed (modules/n/new.tf)"
    assert reason(found, "live/policies/a.json") is not None
    assert reason(found, "modules/other/main.tf") is None


def test_reads_and_ignores_of_the_configuration(tmp_path: Path) -> None:
    """`reads` count like files that the code names, and are in the work directory; `ignores` never count."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": 'locals {\n  a = file("notes.md")\n  b = file("generated.json")\n}\n',
            "policies/deep/a.rego": "",
            "docs/rules.md": "",
            "live/generated.json": "",
        },
    )
    stack = Stack(
        name="s",
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml"),
        module="live",
        reads=("policies", "docs/*.md"),
        ignores=("**/generated.*",),
    )
    found = stack_inputs(code, stack)
    assert {"policies/deep/a.rego", "docs/rules.md", "live/generated.json"} <= found.files
    assert reason(found, "policies/new/b.rego") == "`reads` in holdfast.yaml lists policies/new/b.rego"
    assert reason(found, "docs/rules.md") is not None
    assert reason(found, "docs/deep/rules.md") is None
    assert reason(found, "live/notes.md") == "reads live/notes.md"
    assert reason(found, "live/generated.json") is None
    assert affecting_change(found, "live/generated.json", with_ignored=True) is not None


@pytest.mark.parametrize(
    "text",
    [
        'resource "x" "y" {\n  filename = data.archive_file.z.output_path\n}\n',
        'locals {\n  a = "${path.module}/out/${random_id.x.hex}.zip"\n}\n',
        'variable "f" { default = null }\nlocals {\n  a = var.f == null ? "" : file(var.f)\n}\n',
        'resource "x" "y" {\n  count = 0\n  a = file(data.x.y.z)\n}\n',
        'module "m" {\n  count = 0\n  source = "./m"\n  f = data.x.y\n}\n',
        'locals {\n  a = "prefix-${var.unset}"\n}\n',
        'terraform {\n  backend "local" {\n    path = "state/x.tfstate"\n  }\n}\n',
        'resource "x" "y" {\n  tags = { module = basename(abspath(path.module)) }\n}\n',
    ],
)
def test_what_reads_nothing_does_not_make_every_file_count(tmp_path: Path, text: str) -> None:
    """A generated file, a thing that is not made, a name that is no path: these touch nothing more."""
    code = repository(
        tmp_path, {"main.tf": text, "m/main.tf": 'variable "f" {}\nlocals {\n a = file(var.f)\n}\n'}
    )
    found = module_inputs(code, ".")
    assert not found.everything
    assert affecting_change(found, "any/thing.txt") is None
    assert affecting_change(found, "state/x.tfstate") is None


def test_a_path_that_begins_in_a_folder_and_is_computed_counts_the_folder(tmp_path: Path) -> None:
    """Of a name that only its resource knows, the folder it begins with counts."""
    code = repository(tmp_path, {"main.tf": 'locals {\n  a = "policies/${random_id.x.hex}.json"\n}\n'})
    found = module_inputs(code, ".")
    assert reason(found, "policies/new.json") == "reads files in policies (policies/new.json)"


def test_the_environment_counts_for_less_than_files(tmp_path: Path) -> None:
    """A variable that TF_VAR_ may set is unknown unless a file sets it."""
    code = repository(
        tmp_path,
        {"main.tf": 'variable "f" { default = "a" }\nlocals { x = file(var.f) }\n', "v.tfvars": 'f = "b"\n'},
    )
    assert module_inputs(code, ".").reads == {"a"}
    assert module_inputs(code, ".", env_variables=frozenset(("f",))).everything
    assert module_inputs(code, ".", ("v.tfvars",), env_variables=frozenset(("f",))).reads == {"b"}
    assert module_inputs(code, ".", ("v.tfvars",), {"f": "c"}).reads == {"c"}


def test_what_is_outside_the_repository_is_noted(tmp_path: Path) -> None:
    """A file outside the root is reported with its place: no change of the repository can show it."""
    code = repository(
        tmp_path / "repo", {"live/main.tf": 'locals {\n  a = file("../../x")\n  b = file("/etc/hosts")\n}\n'}
    )
    assert module_inputs(code, "live").outside == (
        "live/main.tf:2 reads ../../x, which is outside the repository",
        "live/main.tf:3 reads /etc/hosts, which is outside the repository",
    )


def test_a_link_counts_with_its_target(tmp_path: Path) -> None:
    """Linked files and folders count under both their paths, and so does the link itself."""
    code_files = {
        "shared/vpc/main.tf": 'locals {\n  a = file("${path.module}/x.txt")\n}\n',
        "shared/vpc/x.txt": "",
        "shared/provider.tf": "",
        "live/main.tf": 'module "v" {\n  source = "../modules/vpc"\n}\n',
    }
    repository(tmp_path, code_files)
    (tmp_path / "modules").symlink_to("shared")
    (tmp_path / "live/provider.tf").symlink_to("../shared/provider.tf")
    found = module_inputs(Code(tmp_path), "live")
    assert {
        "modules/vpc/main.tf",
        "shared/vpc/main.tf",
        "shared/vpc/x.txt",
        "shared/provider.tf",
    } <= found.files
    for path in (
        "shared/vpc/new.tf",
        "shared/vpc/x.txt",
        "shared/provider.tf",
        "modules",
        "live/provider.tf",
    ):
        assert affecting_change(found, path) is not None, path
    assert affecting_change(found, "shared/other.txt") is None


def test_code_states_what_it_requires_of_the_engine(tmp_path: Path) -> None:
    """Backend, versions, providers, pins and OpenTofu's own features are read from the code."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": """
terraform {
  required_version = ">= 1.9"
  required_providers {
    lab = { source = "x/lab", version = "~> 1" }
  }
  backend "s3" {
    bucket = "b"
    key    = var.x
  }
}
""",
            "live/z_override.tf": 'terraform {\n  backend "local" {\n    path = "p"\n  }\n}\n',
            "tofu/main.tofu": "terraform {\n  encryption {}\n  cloud {}\n}\n",
            ".opentofu-version": "# which\n1.8.1\n",
        },
    )
    live = code.module("live")
    assert live.required_versions == (">= 1.9",)
    assert live.required_providers == {"lab": {"source": "x/lab", "version": "~> 1"}}
    assert live.backend is not None
    assert (live.backend.type, live.backend.settings) == ("local", {"path": "p"})
    assert str(live.backend.place) == "live/z_override.tf:2:3"
    assert live.opentofu_version is not None
    assert live.opentofu_version.version == "1.8.1"
    tofu = code.module("tofu")
    assert tofu.cloud is not None
    assert tofu.tofu == (
        "tofu/main.tofu is an OpenTofu file",
        ".opentofu-version requires OpenTofu 1.8.1",
        "tofu/main.tofu:2 encrypts the state",
    )
    (tmp_path / "live/z_override.tf").unlink()
    backend = Code(tmp_path).module("live").backend
    assert backend is not None
    assert backend.settings == {"bucket": "b", "key": UNKNOWN}
    assert not code.module("nowhere").exists


def test_a_module_is_read_once_for_many_stacks(tmp_path: Path) -> None:
    """Two hundred stacks on one module read its code once."""
    code = repository(tmp_path, {"main.tf": 'variable "f" {}\nlocals { a = file(var.f) }\n'})
    first = code.module(".")
    (tmp_path / "main.tf").unlink()
    assert all(module_inputs(code, ".", inline={"f": f"f{n}"}).reads == {f"f{n}"} for n in range(200))
    assert code.module(".") is first


def test_a_provider_names_kubeconfigs(tmp_path: Path) -> None:
    """In an attribute, a block or an object; the usual one counts if the name is computed."""
    code = repository(
        tmp_path,
        {
            "live/main.tf": """
            variable "config" { default = "~/.kube/config" }
            provider "kubernetes" { config_path = pathexpand("~/.kube/dev") }
            provider "helm" {
              kubernetes { config_path = var.config }
            }
            provider "kubectl" {
              kubernetes = { config_paths = ["/etc/kube", "./kube"] }
            }
            resource "x" "y" { config_path = "~/.kube/other" }
            """,
        },
    )
    reads = module_inputs(code, "live").outside_reads
    assert {read.path for read in reads if read.kubeconfig} == {"~/.kube/dev", "~/.kube/config", "/etc/kube"}
