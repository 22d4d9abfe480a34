"""What several files have in common is shown as one finding that names them."""

from __future__ import annotations

from checkouts import check, of
from msgspec.structs import replace

from holdfast.checks.engine.catalogue import rule as rule_of
from holdfast.checks.engine.novelty import entry_of, mark_known
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import Report, join_groups, redact_report

THREE = "version: 1\nstacks:\n" + "".join(f"  - {{ name: {name}, module: {name} }}\n" for name in "abc")


def the(id_: str) -> Rule:
    found = rule_of(id_)
    assert found is not None
    return found


def shown(report: Report, id_: str) -> list[tuple[str, str]]:
    """File and message of what a rule reports, as every format shows it."""
    return [(str(one.file), one.message) for one in of(redact_report(report, str), the(id_))]


def test_the_same_password_in_several_files() -> None:
    line = 'db_password = "{}"\n'.format
    files = {"a.tfvars": line("Winter-Sports-7") * 2, "b.tfvars": line("Winter-Sports-7"), "main.tf": ""}
    report = check(the("HF209"), {**files, "c.tfvars": line("Summer-Sports-8")})
    assert len(of(report, the("HF209"))) == 4, "waivers and the baseline know each of them"
    assert shown(report, "HF209") == [
        ("a.tfvars", "`db_password` is hard-coded (also line 2, b.tfvars:1)"),
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
        "the file is encrypted with git-crypt (also b/main.tf, c/main.tf, c/x.tf and 2 more)",
    )
    assert other[0] == "a/v.tf"


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
    assert found.message.endswith("(also b/main.tf:3, c/main.tf:3)")
