"""What several files have in common is shown as one finding that names them."""

from __future__ import annotations

import pytest
from checkouts import MemoryCode, check, of, the
from msgspec.structs import replace

from holdfast.checks.engine.novelty import entry_of, mark_known
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, join_groups, redact_report

THREE = "version: 1\nstacks:\n" + "".join(f"  - {{ name: {name}, module: {name} }}\n" for name in "abc")


def shown(report: Report, id_: str) -> list[tuple[str, str]]:
    """File and message of what a rule reports, as every format shows it."""
    return [(str(one.file), one.message) for one in of(redact_report(report, str), the(id_))]


def test_the_same_password_in_several_files() -> None:
    line = 'db_password = "{}"\n'.format
    files = {"a.tfvars": line("Winter-Sports-7") * 2, "b.tfvars": line("Winter-Sports-7"), "main.tf": ""}
    report = check(the("HF209"), {**files, "c.tfvars": line("Summer-Sports-8")})
    assert len(of(report, the("HF209"))) == 4, "waivers and the baseline know each of them"
    assert shown(report, "HF209") == [
        ("a.tfvars", "`db_password` is hard-coded; also line 2, b.tfvars:1"),
        ("c.tfvars", "`db_password` is hard-coded"),
    ]


def test_only_what_counts_alike_is_one() -> None:
    """A known or waived place does not hide a new one."""
    line = 'db_password = "Winter-Sports-7"\n'
    report = check(the("HF209"), {f"{name}.tfvars": line for name in "abc"} | {"main.tf": ""})
    known = [entry_of(report.findings[0])]
    findings, _ = mark_known(report.findings, known)
    assert [one.file for one in join_groups(findings)] == ["a.tfvars", "b.tfvars"]
    milder = (*report.findings[:2], replace(report.findings[2], severity=Severity.NOTE))
    assert [one.file for one in join_groups(milder)] == ["a.tfvars", "c.tfvars"]


def test_a_repository_that_is_locked_by_git_crypt() -> None:
    files = {f"{name}/main.tf": b"\0GITCRYPT\0x" for name in "abc"}
    files |= {f"c/{name}.tf": files["a/main.tf"] for name in "xyz"}
    first, other = shown(check(the("HF904"), {**files, "a/v.tf": "{"}, config=THREE), "HF904")
    assert first == (
        "a/main.tf",
        "the file is encrypted with git-crypt; also b/main.tf, c/main.tf, c/x.tf and 2 more",
    )
    assert other[0] == "a/v.tf"


@pytest.mark.parametrize(
    ("attributes", "severity"),
    [
        ({".gitattributes": "*secret* filter=git-crypt diff=git-crypt\n"}, Severity.WARNING),
        ({"a/.gitattributes": "*.tf filter=git-crypt-ops\n"}, Severity.WARNING),
        ({"b/.gitattributes": "*.tf filter=git-crypt\n"}, Severity.ERROR),
        ({".gitattributes": "*.zip filter=lfs\n"}, Severity.ERROR),
        ({}, Severity.ERROR),
    ],
)
def test_files_that_are_meant_to_be_encrypted(attributes: dict[str, str], severity: Severity) -> None:
    """HF904: as with SOPS, if `.gitattributes` beside or above the file says so."""
    code: dict[str, str | bytes] = {f"{name}/main.tf": "" for name in "abc"}
    encrypted = {"a/secret.tf": b"\0GITCRYPT\0x"}
    (one,) = check(the("HF904"), {**code, **encrypted, **attributes}, config=THREE).findings
    assert (one.file, one.severity) == ("a/secret.tf", severity)


def test_keys_of_one_name_for_simulators_are_one_note() -> None:
    """HF205: others must be replaced one by one."""
    key = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7Qw2ErTy9UiOp3LkJhGfDsA1\n-----END"
    files = {f"{folder}/{number}/tls.key": key for folder in ("emulators", "gateways") for number in (1, 2)}
    found = check(the("HF205"), files, config="").findings
    assert {one.severity for one in found if "emulators" in (one.file or "")} == {Severity.NOTE}
    assert [one.file for one in join_groups(found)] == [
        "emulators/1/tls.key",
        "gateways/1/tls.key",
        "gateways/2/tls.key",
    ]


def test_files_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links to one missing file, for example."""
    error = OSError(2, "broken symbolic link")
    monkeypatch.setattr(MemoryCode, "_read_bytes", lambda _, path: error if path.endswith("/v.tf") else b"")
    files = {f"{name}/{file}.tf": "" for name in "abc" for file in ("main", "v")}
    ((_, message),) = shown(check(the("HF904"), files, config=THREE), "HF904")
    assert message == "cannot read the file: broken symbolic link; also b/v.tf, c/v.tf"


def test_links_that_were_committed_as_text() -> None:
    files = {f"{name}/{file}.tf": "" for name in "abc" for file in ("main", "v")} | {"v.tf": ""}
    links = {f"{name}/v.tf": "../v.tf" for name in "ab"}
    ((path, message),) = shown(check(the("HF904"), files | links, config=THREE), "HF904")
    assert (path, message.partition(": ")[0]) == ("a/v.tf", "the file only contains the path `../v.tf`")
    assert message.endswith("; also b/v.tf")
    ((_, message),) = shown(check(the("HF904"), files | {"a/v.tf": "../w.tf"}, config=THREE), "HF904")
    assert message.startswith("invalid HCL")


def test_a_store_that_cannot_encrypt_is_one_note() -> None:
    backend = """
        terraform {{
          backend "s3" {{
            bucket = "b"
            key    = "{}"
            region = "auto"
            endpoints = {{ s3 = "https://s3.acme.io" }}
          }}
        }}
    """
    report = check(the("HF116"), {f"{name}/main.tf": backend.format(name) for name in "abc"}, config=THREE)
    (found,) = of(redact_report(report, str), the("HF116"))
    assert (found.severity, found.stacks) == (Severity.NOTE, ("a", "b", "c"))
    assert found.message.endswith("; also b/main.tf:3, c/main.tf:3")


def test_one_decision_is_one_finding() -> None:
    """A branch of a repository of modules, variables of nothing, backends without a lock."""
    call = 'module "m" {{\n  source = "git::https://git.acme.io/modules.git//{}?ref={}"\n}}\n'.format
    files = {
        "a/main.tf": call("vpc", "main"),
        "b/main.tf": call("dns", "main"),
        "c/main.tf": call("vpc", "next"),
    }
    pins = shown(check(the("HF304"), files, config=THREE), "HF304")
    assert [(file, "also b/main.tf:2" in message) for file, message in pins] == [
        ("a/main.tf", True),
        ("c/main.tf", False),
    ]
    values = {"main.tf": 'variable "name" {}\n', "terraform.tfvars": "x = 1\ny = 2\nnmae = 3\n"}
    assert shown(check(the("HF703"), values), "HF703") == [
        ("terraform.tfvars", "`x` is set here, but the root module does not declare it; also line 2"),
        ("terraform.tfvars", "`nmae` is set here, but the root module does not declare it"),
    ]
    backend = 'terraform {{\n  backend "s3" {{\n    bucket = "b"\n    key = "{}"\n{}  }}\n}}\n'.format
    lock = "    use_lockfile = true\n"
    stacks = {f"{name}/main.tf": backend(name, lock if name == "c" else "") for name in "abc"}
    (unlocked,) = shown(check(the("HF114"), stacks, config=THREE), "HF114")
    assert unlocked[1].endswith("; also b/main.tf:2")


def test_broad_subjects_of_several_roles_are_one_finding() -> None:
    trust = """
        data "aws_iam_policy_document" "a" {{
          statement {{
            actions = ["sts:AssumeRoleWithWebIdentity"]
            principals {{
              type        = "Federated"
              identifiers = ["arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"]
            }}
            condition {{
              test     = "StringLike"
              variable = "token.actions.githubusercontent.com:sub"
              values   = ["repo:acme/{}:*"]
            }}
          }}
        }}
    """.format
    report = check(the("HF511"), {f"{name}/main.tf": trust(name) for name in "abc"}, config=THREE)
    (found,) = (one for one in shown(report, "HF511") if "repo:" in one[1])
    assert found[1].endswith("; also b/main.tf:9, c/main.tf:9")


def test_plan_files_and_merge_conflicts() -> None:
    plans = {"a/tfplan": "", "b/x.tfplan": "", "main.tf": ""}
    assert shown(check(the("HF202"), plans), "HF202") == [
        ("a/tfplan", "a plan file is committed to Git (`tfplan`); also b/x.tfplan")
    ]
    conflict = "locals {\n<<<<<<< HEAD\n  a = 1\n=======\n  a = 2\n>>>>>>> 15079af\n}\n"
    heredoc = "locals {\n  a = <<-EOT\n<<<<<<< HEAD\n  EOT\n}\n"
    files = {"a/main.tf": conflict, "b/main.tf": conflict, "c/main.tf": heredoc}
    (found,) = of(redact_report(check(the("HF904"), files, config=THREE), str), the("HF904"))
    assert (found.file, found.line) == ("a/main.tf", 2)
    assert found.message == "the file has the markers of a merge conflict; also b/main.tf:2"
