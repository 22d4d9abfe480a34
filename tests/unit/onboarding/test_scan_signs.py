from __future__ import annotations

import pytest

from holdfast.onboarding.scan_signs import Sign, SignKind, Signs, commented_backend, find_signs


def signs(path: str, text: str = "") -> tuple[Sign, ...]:
    return find_signs((path,), lambda _: text)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ('terraform init -backend-config="key=$ENV/x.tfstate"', "key=$ENV/x.tfstate"),
        ("terraform init -backend-config 'bucket=b' -input=false", "bucket=b"),
        ("tofu init -backend-config=key=${{ matrix.account }}/x", "key=${{ matrix.account }}/x"),
        ("terraform init -backend-config=envs/prod.hcl", "envs/prod.hcl"),
        ("    backend_config_file: prod.hcl", "backend_config_file"),
        ("    backend_config: key=prod/x", "key=prod/x"),
        ('["terraform", "init", "-backend-config", f"key={env}/x"]', "key={env}/x"),
        ("      backendAzureRmKey: prod.tfstate", "backendAzureRmKey"),
        ("export TF_HTTP_ADDRESS=https://states.example/x", "TF_HTTP_ADDRESS"),
    ],
)
def test_backend_settings(line: str, option: str) -> None:
    """Each way in which scripts and pipelines pass backend settings is found, with its line."""
    found = next(sign for sign in signs("run.sh", f"# nothing\n{line}\n") if sign.kind is SignKind.OPTION)
    assert found.options == (option,)
    assert str(found.place) == "run.sh:2"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("stacks/backend.tf.tmpl", 'terraform {\n  backend "s3" {\n'),
        ("backend.tf.j2", 'terraform {\n  backend "gcs" {\n'),
        ("templates/state.erb", 'backend "azurerm" {'),
        ("Makefile", "echo 'terraform { backend \"s3\" {} }' > backend.tf"),
        ("bin/setup", 'cat > backend.tf <<END\nterraform {\n  backend "http" {\n'),
        (".github/workflows/plan.yml", 'printf "backend \\"s3\\" {}"'),
        ("generate.py", 'config["terraform"]["backend"] = {"s3": {"bucket": bucket}}'),
        ("synth.yaml", "backend: { s3: { bucket: x } }"),
    ],
)
def test_backends_outside_of_code(path: str, text: str) -> None:
    """A backend in a template, a heredoc or a generator is found whatever the file is."""
    assert [sign.kind for sign in signs(path, text)] == [SignKind.TEMPLATE]


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        ("atmos.yaml", "Atmos"),
        ("live/terragrunt.hcl", "Terragrunt"),
        ("stacks/vpc/stack.tm.hcl", "Terramate"),
        ("digger.yml", "Digger"),
        ("atlantis.yaml", "Atlantis"),
        ("config/terraform/backend.tf", "Terraspace"),
        (".spacelift/config.yml", "Spacelift"),
        ("cdktf.json", "CDK for Terraform"),
    ],
)
def test_tools(path: str, tool: str) -> None:
    """The configuration of another tool shows that the tool runs the code."""
    (sign,) = signs(path)
    assert sign.kind is SignKind.TOOL
    assert tool in sign.what
    assert sign.next_step


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "This terraform code is safe to apply, after a `terraform plan`."),
        (".gitignore", "# *.tfstate\n!prod.tfstate\n.terraform.tfstate.lock.info\n"),
        ("main.tf", 'backend "s3" {'),
        ("run.sh", "# terraform apply -backend-config=key=a"),
        ("ci.yml", "run: terraform fmt -check && terraform init -backend=false && terraform validate"),
        ("chart/values.yaml", "backend: http\ncloud.google.com/backend-config: default\n"),
    ],
)
def test_what_is_no_sign(path: str, text: str) -> None:
    """Documentation, code, comments and pipelines that only validate say nothing about states."""
    assert signs(path, text) == ()


@pytest.mark.parametrize(
    ("path", "line"),
    [("infra/README.md", "    terraform apply"), ("infra/docs/run.md", "`tofu -chdir=x apply`")],
)
def test_documentation_that_says_to_apply(path: str, line: str) -> None:
    """It concerns the code beside it, not the whole repository."""
    found = Signs(signs(path, f"# Run\n{line}\n"))
    sign = found.near("infra/dns", SignKind.BY_HAND)
    assert sign is not None
    assert str(sign.place) == f"{path}:2"
    assert found.of("other", SignKind.BY_HAND) is None


@pytest.mark.parametrize("line", ["*.tfstate", "terraform.tfstate*", "/infra/*.tfstate.*"])
def test_a_gitignore_that_keeps_states_out(line: str) -> None:
    """With the line: a local state may exist where Git does not show it."""
    (sign,) = signs("infra/.gitignore", f".terraform/\n{line}\n")
    assert (sign.kind, str(sign.place)) == (SignKind.IGNORED_STATE, "infra/.gitignore:2")


def test_who_runs_terraform() -> None:
    """Wrappers are recognised by the commands they run, with the line."""
    text = "apply:\n\tterraform workspace select $(ENV)\n\t$(TERRAFORM) -chdir=infra apply\n"
    assert [(sign.kind, sign.place.line) for sign in signs("Makefile", text)] == [
        (SignKind.RUN, 3),
        (SignKind.WORKSPACE, 2),
    ]


def test_the_nearest_sign_explains() -> None:
    """A sign beside the code comes before one elsewhere; examples explain only themselves."""
    paths = ("examples/a/backend.tf.tpl", "infra/dns/backend.tf.tpl", "scripts/run.sh")
    texts = dict.fromkeys(paths[:2], 'backend "s3" {') | {"scripts/run.sh": "terraform apply"}
    found = Signs(find_signs(paths, texts.__getitem__))
    kinds = (SignKind.TEMPLATE, SignKind.OPTION)
    near, elsewhere = found.of("infra/dns/zone", *kinds), found.of("infra/app", *kinds)
    assert near is not None
    assert near == elsewhere
    assert near.place.file == "infra/dns/backend.tf.tpl"
    run = found.near("infra/app", SignKind.RUN)
    assert run is not None
    assert run.place.file == "scripts/run.sh"
    assert Signs(find_signs(paths[:1], texts.__getitem__)).of("infra/app", *kinds) is None


def test_a_commented_backend() -> None:
    """The place of a block that is commented out; code that only reads another state has none."""
    sign = commented_backend('terraform {\n#  backend "s3" {\n#  }\n}\n', "a/main.tf")
    assert sign is not None
    assert (str(sign.place), sign.backend) == ("a/main.tf:2", "s3")
    assert commented_backend('data "terraform_remote_state" "x" {\n  backend = "s3"\n}\n', "a.tf") is None
