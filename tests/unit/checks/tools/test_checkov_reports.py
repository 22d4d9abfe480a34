"""What Checkov prints, and which of it can be believed."""

from __future__ import annotations

import json

import pytest

from holdfast.checks.tools.checkov_report import SEEN, CheckovReport, read_report
from holdfast.system.processes import Finished

FAILED = {
    "check_id": "CKV_AWS_18",
    "check_name": "Ensure the S3 bucket has access logging enabled",
    "check_result": {"result": "FAILED"},
    "file_path": "/main.tf",
    "file_line_range": [1, 3],
    "resource": "aws_s3_bucket.a",
    "guideline": "https://example.invalid/18",
    "severity": None,
}


def printed(document: object, code: int = 1) -> CheckovReport | str:
    return read_report(Finished(code=code, out=json.dumps(document).encode(), err=b""))


def part(resources: int = 1, **results: object) -> dict[str, object]:
    return {"check_type": "terraform", "results": results, "summary": {"resource_count": resources}}


def test_failed_checks_are_read() -> None:
    """Of one framework or of several."""
    for document in (part(failed_checks=[FAILED]), [part(failed_checks=[FAILED])]):
        report = printed(document)
        assert isinstance(report, CheckovReport)
        (one,) = report.failed
        assert (one.id, one.file, one.lines, one.resource) == (
            "CKV_AWS_18",
            "/main.tf",
            (1, 3),
            "aws_s3_bucket.a",
        )


def test_a_plan_has_no_lines() -> None:
    """Lines 0 to 0 are none."""
    report = printed(part(failed_checks=[{**FAILED, "file_line_range": [0, 0]}]))
    assert isinstance(report, CheckovReport)
    assert report.failed[0].lines is None


def test_a_report_about_nothing_has_no_resources() -> None:
    """The flat object of a folder without code, or of a document that is no plan; it ends with 0."""
    report = printed({"passed": 0, "failed": 0, "resource_count": 0, "checkov_version": "3"}, code=0)
    assert report == CheckovReport(failed=(), skipped=(), unread=(), seen=frozenset())


def test_files_that_checkov_read_are_recognized_by_our_own_check() -> None:
    """Also of resources that Checkov has no check for. It is no finding, however it ends."""
    mine = {"check_id": SEEN, "file_path": "/a.tf"}
    report = printed(part(0, passed_checks=[mine], failed_checks=[{**mine, "file_path": "/b.tf"}]))
    assert report == CheckovReport(failed=(), skipped=(), unread=(), seen=frozenset({"/a.tf", "/b.tf"}))


def test_what_a_comment_skips_is_known_with_its_reason() -> None:
    """So that it can be told."""
    spared = {**FAILED, "check_result": {"result": "SKIPPED", "suppress_comment": "no logs wanted"}}
    report = printed(part(skipped_checks=[spared]))
    assert isinstance(report, CheckovReport)
    assert [(one.id, one.comment) for one in report.skipped] == [("CKV_AWS_18", "no logs wanted")]


def test_files_that_could_not_be_read_are_reported() -> None:
    """A missing plan file ends with 0, too."""
    report = printed(part(0, parsing_errors=["/tmp/plan.json"]), code=0)
    assert isinstance(report, CheckovReport)
    assert report.unread == ("/tmp/plan.json",)
    counted = printed({**part(), "summary": {"resource_count": 1, "parsing_errors": 2}}, code=0)
    assert isinstance(counted, CheckovReport)
    assert len(counted.unread) == 1


@pytest.mark.parametrize(
    "finished",
    [
        Finished(code=2, out=b"", err=b"bad argument"),
        Finished(code=-9, out=json.dumps(part()).encode(), err=b""),
        Finished(code=0, out=b"not json", err=b""),
        Finished(code=0, out=b"", err=b""),
        Finished(code=0, out=b'{"check_type": "terraform"}', err=b""),
        Finished(code=0, out=b"[1]", err=b""),
        Finished(code=0, out=b"{}", err=b""),
    ],
    ids=["usage", "killed", "text", "nothing", "no results", "shape", "an empty object"],
)
def test_nonsense_is_no_report(finished: Finished) -> None:
    """It is an error, and never a report without findings."""
    assert isinstance(read_report(finished), str)
