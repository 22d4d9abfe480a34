"""Rules about what leaves Terraform's own world, and about what is not pinned."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checkouts import check, checkout, lines, messages, of, plan_of, skips, the

from holdfast.checks.code.pins import loose_constraint, loose_module, loose_provider, provider_constraint
from holdfast.checks.engine.pages import rule_details
from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import Report
from holdfast.terraform.versions import Version

HF301, HF302, HF303, HF304 = the("HF301"), the("HF302"), the("HF303"), the("HF304")
HF305, HF306, HF307, HF308 = the("HF305"), the("HF306"), the("HF307"), the("HF308")

DEVELOPERS = """\
    version: 1
    environments: { dev: {} }
    targets: { local: { owner: developers } }
    stacks:
      - { name: root, module: ., environment: dev, target: local }
    """
CI = DEVELOPERS.replace("developers", "ci")
WAIVED = """\
    version: 1
    stacks: [{ name: root, module: ., environment: prod }]
    checks:
      waivers:
        - { rule: %s, path: "**", owner: me, reason: a test, until: 2027-01-01 }
    """

PROVISIONER = """\
    resource "terraform_data" "a" {
      provisioner "%s" {
        command = var.command
      }
    }
    variable "command" {}
    """


# What leaves Terraform's own world.


@pytest.mark.parametrize("kind", ["local-exec", "remote-exec", "file", "chef"])
def test_a_provisioner_is_found_in_a_shared_stack(kind: str) -> None:
    """Whatever it runs, known or not."""
    report = check(HF301, {"main.tf": PROVISIONER % kind})
    assert [(one.line, one.address, one.severity) for one in of(report, HF301)] == [
        (2, "terraform_data.a", Severity.NOTE)
    ]
    assert f"`{kind}`" in messages(report, HF301)[0]


def test_a_provisioner_of_what_is_taken_away_is_found() -> None:
    """A `removed` block may run one when the object goes."""
    code = 'removed {\n  from = module.a.terraform_data.b\n  provisioner "local-exec" {}\n}\n'
    assert [(one.line, one.address) for one in of(check(HF301, {"main.tf": code}), HF301)] == [
        (3, "module.a.terraform_data.b")
    ]


def test_data_that_only_a_check_reads_is_read_all_the_same() -> None:
    """A `check` block has data sources of its own."""
    code = 'check "a" {\n  data "http" "b" {\n    url = var.url\n  }\n}\n'
    report = check((HF302, HF303), {"main.tf": code, "b.tf": 'check "c" {\n  data "external" "d" {}\n}\n'})
    assert [(one.file, one.line, one.address) for one in of(report, HF303)] == [("main.tf", 2, "data.http.b")]
    assert lines(report, HF302) == [("b.tf", 2)]


@pytest.mark.parametrize("id_", ["HF301", "HF302", "HF303"])
def test_developers_own_targets_may_do_it(id_: str) -> None:
    """Nobody else depends on what they do there."""
    found = the(id_)
    assert messages(check(found, {"main.tf": rule_details(found).bad}, config=DEVELOPERS), found) == []


@pytest.mark.parametrize("id_", ["HF301", "HF302", "HF303"])
def test_a_target_of_ci_is_shared_in_every_environment(id_: str) -> None:
    """Production is not the only place that others depend on."""
    found = the(id_)
    report = check(found, {"main.tf": rule_details(found).bad}, config=CI)
    assert len(of(report, found)) == 1
    assert of(report, found)[0].stack == "root"


@pytest.mark.parametrize("id_", ["HF301", "HF302", "HF303"])
def test_code_that_no_stack_uses_is_not_called_fine(id_: str) -> None:
    """Whether it is shared is not known: a note."""
    found = the(id_)
    report = check(found, {"main.tf": rule_details(found).bad}, config="")
    assert [one.severity for one in of(report, found)] == [Severity.NOTE]


@pytest.mark.parametrize("id_", ["HF301", "HF302", "HF303"])
def test_code_without_any_of_it_passes_silently(id_: str) -> None:
    """There is nothing to tell, so nothing was left unlooked-at."""
    found = the(id_)
    report = check(found, {"main.tf": 'output "a" {\n  value = 1\n}\n'}, config="")
    assert not report.findings
    assert skips(report, found) == ["no plan is available: `holdfast plan` checks it"]


@pytest.mark.parametrize(
    "code",
    [
        'data "external" "a" {\n  program = local.computed\n}\n',
        'data "external" "a" {}\n',
        'data "local_command" "a" {\n  command = "id"\n}\n',
        'resource "shell_script" "a" {}\n',
        'action "local_command" "a" {\n  config {\n    command = "id"\n  }\n}\n',
    ],
)
def test_a_program_is_found_however_it_is_started(code: str) -> None:
    """With its arguments missing or unknown, too."""
    assert lines(check(HF302, {"main.tf": code}), HF302) == [("main.tf", 1)]


def test_a_resource_that_is_called_external_is_no_data() -> None:
    """Only data sources and what is read for a run count."""
    code = 'resource "http" "a" {}\nresource "external" "a" {}\n'
    assert messages(check((HF302, HF303), {"main.tf": code})) == []


def test_http_read_for_one_run_only_is_found_too() -> None:
    """An ephemeral read is a read."""
    report = check(HF303, {"main.tf": 'ephemeral "http" "a" {\n  url = "https://example.com"\n}\n'})
    assert messages(report, HF303) == ["`ephemeral.http.a` requests a URL in every plan"]


def test_a_waiver_on_the_line_of_a_provisioner_applies() -> None:
    """Inside a resource, too."""
    mark = "# holdfast:ignore HF301 until=2027-01-01 reason=moved out in May"
    code = rule_details(HF301).bad.replace(
        '  provisioner "local-exec" {', f'  provisioner "local-exec" {{ {mark}'
    )
    assert [one.waived for one in of(check(HF301, {"main.tf": code}), HF301)] == [True]


CONFIGURATION = {
    "root_module": {
        "resources": [
            {"address": "terraform_data.here", "provisioners": [{"type": "local-exec"}]},
            {"address": "data.external.here"},
        ],
        "module_calls": {
            "far": {
                "module": {
                    "resources": [
                        {"address": "null_resource.a", "provisioners": [{"type": "remote-exec"}]},
                        {"address": "data.external.a"},
                        {"address": "data.http.a"},
                        {"address": "data.httpx.a"},
                        {"address": "shell_script.a"},
                    ]
                }
            }
        },
    }
}
HERE = """\
    resource "terraform_data" "here" {
      provisioner "local-exec" {}
    }
    data "external" "here" {}
    """


def planned(config: str | None, configuration: dict[str, Any] | None, *rules: Rule) -> Report:
    made = checkout({"main.tf": HERE}, config=config)
    document = {"format_version": "1.2"} | ({"configuration": configuration} if configuration else {})
    plan = plan_of(made, json.dumps(document).encode())
    return check(rules, made, inputs=CheckInputs(plans=Available(items=(plan,))))


def test_a_plan_shows_what_modules_from_outside_do() -> None:
    """What stands in the repository is told once, with its line; the rest by its address."""
    report = planned(None, CONFIGURATION, HF301, HF302, HF303)
    assert {(one.rule.id, one.address, one.line) for one in report.findings} == {
        ("HF301", "terraform_data.here", 2),
        ("HF301", "module.far.null_resource.a", None),
        ("HF302", "data.external.here", 4),
        ("HF302", "module.far.data.external.a", None),
        ("HF302", "module.far.shell_script.a", None),
        ("HF303", "module.far.data.http.a", None),
    }


def test_a_plan_of_a_stack_that_is_not_shared_may_do_it() -> None:
    """The same rule for plans as for code."""
    assert not planned(DEVELOPERS, CONFIGURATION, HF301, HF302, HF303).findings


def test_a_plan_without_a_configuration_is_no_mistake() -> None:
    """Some plans do not say it."""
    assert len(planned(None, None, HF301, HF302, HF303).findings) == 2


# Modules.

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("source", "version"),
    [
        ("./modules/a", None),
        ("../a", None),
        ("/opt/a", None),
        ("terraform-aws-modules/vpc/aws", "5.1.0"),
        ("terraform-aws-modules/vpc/aws//modules/x", "~> 5.1"),
        ("app.terraform.io/acme/vpc/aws", ">= 5, < 6"),
        ("git::https://example.com/a.git?ref=v1.2.0", None),
        ("git::https://example.com/a.git//sub?ref=v1.2.0&depth=1", None),
        (f"git::ssh://git@example.com/a.git?ref={SHA}", None),
        ("git@github.com:acme/a.git?ref=1.2", None),
        ("github.com/acme/a?ref=network/v1.4.2", None),
        ("github.com/acme/a?ref=refs/tags/stable", None),
        ("github.com/acme/a?ref=network-v2", None),
        ("github.com/acme/a?ref=network_1.4", None),
        ("github.com/acme/a?ref=network/20260131", None),
        ("github.com/acme/a?ref=2026-01-31", None),
        ("github.com/acme/a?ref=v2.0.0-rc.1", None),
        ("https://example.com/a.zip?checksum=sha256:00", None),
        ("s3::https://s3.amazonaws.com/b/a.zip?version=abc", None),
        ("oci://example.com/a?digest=sha256:00", None),
        ("oci://example.com/a?tag=1.2.3", None),
        ("hg::https://example.com/a?rev=1.0", None),
        ("what is this", None),
    ],
)
def test_a_module_that_is_pinned_passes(source: str, version: str | None) -> None:
    """Local code, a version, a tag, a commit, a checksum."""
    assert loose_module(source, version) is None


@pytest.mark.parametrize(
    ("source", "version", "why"),
    [
        ("terraform-aws-modules/vpc/aws", None, "no `version`"),
        ("terraform-aws-modules/vpc/aws", ">= 5.0", "every later version"),
        ("terraform-aws-modules/vpc/aws", "~> 5", "every later version"),
        ("terraform-aws-modules/vpc/aws", "latest", "not a valid version constraint"),
        ("git::https://example.com/a.git", None, "no `ref`"),
        ("git::https://example.com/a.git?ref=", None, "no `ref`"),
        ("git::https://example.com/a.git?ref=main", None, "`main`"),
        ("git::https://example.com/a.git?ref=release/1.2", None, "`release/1.2`"),
        ("git::https://example.com/a.git?ref=ABC-123", None, "`ABC-123`"),
        ("git::https://example.com/a.git?ref=sprint_7", None, "`sprint_7`"),
        ("git::https://example.com/a.git?ref=1.x", None, "`1.x`"),
        ("git::https://example.com/a.git?ref=refs/heads/v1.0", None, "`refs/heads/v1.0`"),
        ("git@github.com:acme/a.git", None, "no `ref`"),
        ("github.com/acme/a", None, "no `ref`"),
        ("bitbucket.org/acme/a", None, "no `ref`"),
        ("https://example.com/a.git", None, "no `ref`"),
        ("https://example.com/a.zip", None, "archive"),
        ("s3::https://s3.amazonaws.com/b/a.zip", None, "archive"),
        ("gcs::https://www.googleapis.com/storage/v1/b/a.zip", None, "archive"),
        ("bucket.s3.eu-west-1.amazonaws.com/a.zip", None, "archive"),
        ("oci://example.com/a", None, "no `tag`"),
        ("hg::https://example.com/a", None, "no `rev`"),
    ],
)
def test_a_module_that_is_not_pinned_is_found(source: str, version: str | None, why: str) -> None:
    """Each kind of source has its own way to move."""
    found = loose_module(source, version)
    assert found is not None
    assert why in found


def test_an_unpinned_module_is_reported_at_its_source() -> None:
    """With the line of the source, not of the block."""
    code = 'module "a" {\n  for_each = toset(["x"])\n  source   = "acme/vpc/aws"\n}\n'
    report = check(HF304, {"main.tf": code})
    assert [(one.line, one.address, one.message) for one in of(report, HF304)] == [
        (3, "module.a", "the module `a` has no `version`, so it is always the newest")
    ]


def test_a_module_without_a_source_is_terraforms_to_refuse() -> None:
    """Nothing can be said about where it comes from."""
    report = check(HF304, {"main.tf": 'module "a" {}\n'})
    assert not report.findings
    assert not report.skipped


def test_a_source_with_variables_is_reported_by_the_stack() -> None:
    """OpenTofu takes them; what they are stands in the stack's values."""
    code = """\
        variable "ref" {
          default = "main"
        }
        module "a" {
          source = "git::https://example.com/a.git?ref=${var.ref}"
        }
        """
    assert "`main`" in messages(check(HF304, {"main.tf": code}), HF304)[0]


@pytest.mark.parametrize("key", ["source", "version"])
def test_a_module_of_which_nothing_is_known_is_skipped(key: str) -> None:
    """Not taken for pinned."""
    given = {"source": '"acme/vpc/aws"', "version": '"1.0.0"'} | {key: "data.x.y.z"}
    body = "".join(f"  {name} = {text}\n" for name, text in given.items())
    report = check(HF304, {"main.tf": f'module "a" {{\n{body}}}\n'})
    assert not report.findings
    assert skips(report, HF304) == [f"the {key} of the module `a` is not known"]


# Providers.


@pytest.mark.parametrize("text", ["5.0.0", "= 5.0", "~> 5.0", ">= 5, < 6", "<= 6", "~> 5.0.1, != 5.0.3"])
def test_a_constraint_with_an_upper_end_passes(text: str) -> None:
    """Exact, or open only within bounds."""
    assert loose_constraint(text) is None


@pytest.mark.parametrize("text", [">= 5.0", "> 5", "!= 5.1", "~> 5", ">= 5, != 6", "", "newest"])
def test_a_constraint_without_one_does_not(text: str) -> None:
    """`~> 5` lets 6 and 7 in: there is no other number that could stay."""
    assert loose_constraint(text) is not None


def test_of_a_provider_one_number_is_an_upper_end() -> None:
    """Terraform and OpenTofu read `~> 5` of a provider as `~> 5.0`, of a module as `>= 5`."""
    assert loose_provider("~> 5") is None
    assert loose_provider(">= 5") is not None
    assert provider_constraint("~> 5").allows(Version.parse("5.99.0"))
    assert not provider_constraint("~> 5").allows(Version.parse("6.0.0"))
    assert not provider_constraint("~> 5.1.0").allows(Version.parse("5.2.0"))


def requires(text: str) -> str:
    return f"terraform {{\n  required_providers {{\n    {text}\n  }}\n}}\n"


def test_a_provider_without_a_version_is_found() -> None:
    """Named without one, or not named at all."""
    code = requires('aws = { source = "hashicorp/aws" }') + 'resource "random_id" "a" {}\n'
    report = check(HF305, {"main.tf": code})
    assert [(one.line, one.address) for one in of(report, HF305)] == [
        (3, "provider.aws"),
        (6, "provider.random"),
    ]


def test_a_provider_block_alone_needs_a_version_too() -> None:
    """And the one that is built into Terraform needs none."""
    code = """\
        provider "aws" {
          region = "eu-west-1"
        }
        resource "terraform_data" "a" {}
        data "terraform_remote_state" "a" {}
        """
    assert messages(check(HF305, {"main.tf": code}), HF305) == [
        "the provider `aws` (hashicorp/aws) has no version constraint"
    ]


@pytest.mark.parametrize(
    "code",
    [
        requires('aws = "~> 5.0"'),
        requires('aws = { source = "hashicorp/aws", version = "~> 5.0", configuration_aliases = [aws.b] }'),
        'provider "aws" {\n  version = "~> 5.0"\n}\n',
        requires('cloud = { source = "acme/cloud", version = "1.0.0" }')
        + 'resource "aws_vpc" "a" {\n  provider = cloud.west\n}\n',
        requires('cloud = { source = "acme/cloud", version = "1.0.0" }')
        + 'resource "aws_vpc" "a" {\n  provider = "cloud.west"\n}\n',
    ],
)
def test_a_provider_with_a_version_passes(code: str) -> None:
    """However it is written, and whichever provider a resource chooses."""
    assert messages(check(HF305, {"main.tf": code}), HF305) == []


def test_a_module_that_others_call_may_leave_the_end_open() -> None:
    """The root module narrows it; without any version it is found there, too."""
    files = {
        "main.tf": 'module "a" {\n  source = "./a"\n}\n',
        "a/main.tf": requires('aws = { source = "hashicorp/aws", version = ">= 5.0" }'),
        "a/more.tf": 'resource "random_id" "a" {}\n',
    }
    assert lines(check(HF305, files), HF305) == [("a/more.tf", 1)]


def test_a_version_that_is_not_known_is_skipped() -> None:
    """Terraform takes no expressions there; OpenTofu may."""
    report = check(
        HF305, {"main.tf": requires('aws = { source = "hashicorp/aws", version = local.version }')}
    )
    assert not report.findings
    assert skips(report, HF305) == ["the version of the provider `aws` is not known"]


# The lock file.

CODE = requires('aws = { source = "hashicorp/aws", version = "~> 5.0" }')
LOCK = """\
    provider "registry.terraform.io/hashicorp/aws" {
      version     = "%s"
      constraints = "~> 5.0"
      hashes = [%s]
    }
    """
ONE = '"h1:a="'
PATH = ".terraform.lock.hcl"


def test_a_lock_file_that_is_missing_is_found() -> None:
    """Where the first provider is asked for."""
    report = check(HF306, {"main.tf": CODE})
    assert lines(report, HF306) == [("main.tf", 3)]
    assert f"{PATH} is missing" in messages(report, HF306)[0]


def test_a_lock_file_that_is_there_passes() -> None:
    """And is looked for only beside root modules."""
    files = {
        "main.tf": CODE + 'module "a" {\n  source = "./a"\n}\n',
        "a/main.tf": CODE,
        PATH: LOCK % ("5.1.0", ONE),
    }
    assert not check(HF306, files).findings


def test_a_lock_file_that_git_ignores_does_not_count() -> None:
    """It is on this machine only."""
    made = checkout({"main.tf": CODE, PATH: LOCK % ("5.1.0", ONE)})
    made.files = ("main.tf",)
    report = check(HF306, made)
    assert "ignored by Git" in messages(report, HF306)[0]


def test_lock_files_that_a_gitignore_keeps_out_are_one_finding() -> None:
    """However many root modules there are: at its line, unless another line brings them back."""
    two = "version: 1\nstacks:\n  - { name: a, module: a }\n  - { name: b, module: b }\n"
    files = {"a/main.tf": CODE, "b/main.tf": CODE, ".gitignore": f"*.swp\n**/{PATH}\n"}
    report = check(HF306, files, config=two)
    assert [(one.file, one.line, one.stacks) for one in of(report, HF306)] == [(".gitignore", 2, ("a", "b"))]
    kept = {**files, ".gitignore": f"!{PATH}\n# {PATH}\n"}
    assert [one.file for one in of(check(HF306, kept, config=two), HF306)] == ["holdfast.yaml"]


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        (', version = "~> 5.0"', Severity.NOTE),
        (', version = ">= 5.0"', Severity.WARNING),
        ("", Severity.WARNING),
    ],
)
def test_a_missing_lock_file_matters_where_no_version_has_an_upper_bound(
    version: str, severity: Severity
) -> None:
    """With `~> 5.0` the next init installs the same major version."""
    required = f'required_providers {{\n    aws = {{ source = "hashicorp/aws"{version} }}\n  }}'
    report = check(HF306, {"main.tf": f"terraform {{\n  {required}\n}}\n"})
    assert [one.severity for one in of(report, HF306)] == [severity]


def test_what_only_a_local_module_needs_has_to_be_locked() -> None:
    """The lock file is the root module's, the need is anybody's."""
    files = {"main.tf": 'module "a" {\n  source = "./a"\n}\n', "a/main.tf": CODE}
    assert lines(check(HF306, files), HF306) == [("a/main.tf", 3)]


def test_what_a_module_from_outside_needs_is_not_called_nothing() -> None:
    """Nobody has fetched it yet: no lock file, and nothing to say that none is needed."""
    call = 'module "a" {\n  source = "./a"\n}\n'
    files = {"main.tf": call, "a/main.tf": call.replace("./a", "acme/vpc/aws")}
    report = check(HF306, files)
    assert not report.findings
    assert skips(report, HF306) == [
        "the providers that the module `a` (a/main.tf:1:1) needs are not known before `init`"
    ]
    assert skips(check(HF306, {"main.tf": call, "a/main.tf": ""}), HF306) == []


@pytest.mark.parametrize("host", ["registry.terraform.io", "registry.opentofu.org"])
def test_a_lock_file_that_fits_passes(host: str) -> None:
    """Of Terraform's registry or of OpenTofu's."""
    files = {"main.tf": CODE, PATH: (LOCK % ("5.1.0", ONE)).replace("registry.terraform.io", host)}
    assert not check(HF307, files).findings


def test_a_locked_version_outside_the_constraint_is_found() -> None:
    """With both versions, at the entry of the lock file."""
    report = check(HF307, {"main.tf": CODE, PATH: LOCK % ("4.9.0", ONE)})
    assert lines(report, HF307) == [(PATH, 1)]
    assert messages(report, HF307) == [f"{PATH} locks hashicorp/aws 4.9.0, but main.tf:3:5 requires `~> 5.0`"]


def test_a_locked_version_after_the_one_number_of_a_constraint_is_found() -> None:
    """`~> 5` of a provider is not 6."""
    code = CODE.replace("~> 5.0", "~> 5")
    assert len(of(check(HF307, {"main.tf": code, PATH: LOCK % ("6.1.0", ONE)}), HF307)) == 1
    assert not check(HF307, {"main.tf": code, PATH: LOCK % ("5.9.0", ONE)}).findings


def test_a_provider_that_is_not_locked_is_found_once() -> None:
    """However many modules need it."""
    files = {
        "main.tf": 'module "a" {\n  source = "./a"\n}\nresource "random_id" "a" {}\n',
        "a/main.tf": 'resource "random_id" "b" {}\n',
        PATH: LOCK % ("5.1.0", ONE),
    }
    report = check(HF307, files)
    assert len(of(report, HF307)) == 1
    assert "does not lock the provider `hashicorp/random`" in messages(report, HF307)[0]


def test_a_provider_of_another_registry_is_another_provider() -> None:
    """The same name is not enough."""
    code = CODE.replace("hashicorp/aws", "registry.acme.com/hashicorp/aws")
    report = check(HF307, {"main.tf": code, PATH: LOCK % ("5.1.0", ONE)})
    assert "`registry.acme.com/hashicorp/aws`" in messages(report, HF307)[0]


def test_a_lock_file_that_cannot_be_read_is_found() -> None:
    """With the place where it breaks."""
    report = check(HF307, {"main.tf": CODE, PATH: 'provider "a" {\n'})
    assert "cannot be read" in messages(report, HF307)[0]
    assert lines(report, HF307)[0][0] == PATH


def test_a_constraint_that_is_not_known_is_skipped() -> None:
    """Whether the locked version fits cannot be told."""
    code = CODE.replace('"~> 5.0"', "local.version")
    report = check(HF307, {"main.tf": code, PATH: LOCK % ("5.1.0", ONE)})
    assert not report.findings
    assert skips(report, HF307) == ["the version of the provider `aws` is not known"]


def test_a_provider_without_a_constraint_takes_any_locked_version() -> None:
    """That it has none is another rule's finding."""
    files = {"main.tf": 'resource "aws_vpc" "a" {}\n', PATH: LOCK % ("1.0.0", ONE)}
    assert not check(HF307, files).findings


PLATFORMS = """\
    version: 1
    stacks: [{ name: root, module: ., environment: prod }]
    checks:
      platforms: [linux_amd64, darwin_arm64]
    """


@pytest.mark.parametrize(
    ("hashes", "severity"),
    [
        (ONE, Severity.WARNING),
        (f'{ONE}, "zh:1", "zh:2"', Severity.NOTE),
        ('"zh:1", "zh:2"', Severity.NOTE),
        ("", Severity.ERROR),
    ],
)
def test_too_few_hashes_are_found(hashes: str, severity: Severity) -> None:
    """How grave it is depends on what else there is to compare a package with."""
    report = check(HF308, {"main.tf": CODE, PATH: LOCK % ("5.1.0", hashes)}, config=PLATFORMS)
    assert [(one.file, one.line, one.severity) for one in of(report, HF308)] == [(PATH, 1, severity)]


def test_the_hint_names_the_program_of_the_lock_file() -> None:
    """Providers of OpenTofu's registry were locked by OpenTofu."""
    lock = LOCK % ("5.1.0", ONE)
    for text, program in ((lock, "terraform"), (lock.replace("terraform.io", "opentofu.org"), "tofu")):
        (found,) = of(check(HF308, {"main.tf": CODE, PATH: text}, config=PLATFORMS), HF308)
        assert f"Run `{program} providers lock -platform=linux_amd64" in (found.hint or "")


def test_a_hash_for_each_platform_passes() -> None:
    """Hashes do not say whose they are: as many as there are platforms are enough."""
    report = check(HF308, {"main.tf": CODE, PATH: LOCK % ("5.1.0", f'{ONE}, "h1:b="')}, config=PLATFORMS)
    assert not report.findings


def test_without_platforms_only_a_provider_without_hashes_is_found() -> None:
    """Nobody has said how many there should be."""
    one = {"main.tf": CODE, PATH: LOCK % ("5.1.0", ONE)}
    none = {"main.tf": CODE, PATH: LOCK % ("5.1.0", "")}
    assert not check(HF308, one).findings
    assert "any package is accepted" in messages(check(HF308, none), HF308)[0]


def test_hashes_that_are_missing_or_unknown_are_no_hashes() -> None:
    """What is not understood is never trusted."""
    for hashes in ("", "  hashes = local.x\n"):
        lock = f'provider "registry.terraform.io/hashicorp/aws" {{\n  version = "5.1.0"\n{hashes}}}\n'
        assert len(of(check(HF308, {"main.tf": CODE, PATH: lock}), HF308)) == 1


@pytest.mark.parametrize(("id_", "lock"), [("HF307", LOCK % ("4.0.0", ONE)), ("HF308", LOCK % ("5.1.0", ""))])
def test_what_a_lock_file_lacks_can_be_waived_in_the_configuration(id_: str, lock: str) -> None:
    """Terraform writes the file anew: a comment in it would not stay."""
    found = the(id_)
    report = check(found, {"main.tf": CODE, PATH: lock}, config=WAIVED % id_)
    assert [one.waived for one in of(report, found)] == [True]
