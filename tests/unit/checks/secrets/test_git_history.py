"""Old contents of a repository: what they were, each told once, with the first commit that brought it."""

from __future__ import annotations

import pytest
from checkouts import check, checkout, messages, of, skips, the

from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.contents import Commit, ContentKind, History
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.checks.rules.code.hf901_own_findings import HF902 as NEEDLESS
from holdfast.checks.secrets.git_history import FileVersion, HistoryScanner, versions_by_blob

TOKEN = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"
OTHER = "ghp_" + "5Ab8CdEf1GhIj6KlMnOp3QrStUvWx4YzAb8C"
BODY = "MIIEpAIBAAKCAQEA7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2ErTy9UiOp3Lk"
BEGIN, END = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
STATE = b'{"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "a", "resources": []}'
PLAN = b'{"format_version": "1.2", "planned_values": {}, "resource_changes": []}'
PACKED = b"PK\x03\x04\0\0..tfplan..tfstate.."
AT = FileVersion("old.txt", "a" * 40, "2025-03-04T05:06:07+00:00")


def looked(*contents: bytes | str, path: str = "old.txt") -> HistoryScanner:
    past = HistoryScanner()
    for content in contents:
        past.scan(AT._replace(path=path), content if isinstance(content, bytes) else content.encode())
    return past


def told(past: HistoryScanner) -> list[tuple[ContentKind, int | None]]:
    return [(trace.mark, trace.line) for trace in past.traces]


@pytest.mark.parametrize(
    ("path", "content", "mark"),
    [
        ("backup", STATE, ContentKind.STATE),
        ("prod.state", b"\n" + STATE, ContentKind.STATE),
        ("run7", PACKED, ContentKind.PLAN),
        ("shown", PLAN, ContentKind.SHOWN_PLAN),
        ("deploy", f"{BEGIN}\n{BODY}\n{END}\n".encode(), ContentKind.KEY),
        ("deploy.txt", b"PuTTY-User-Key-File-2: ssh-rsa\n", ContentKind.KEY),
    ],
)
def test_a_content_is_known_under_any_name(path: str, content: bytes, mark: ContentKind) -> None:
    """States, plans and keys are called many things; of what they hold nothing else is told."""
    assert told(looked(content + f"\n{TOKEN}".encode(), path=path)) == [(mark, None)]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("README.md", STATE),
        ("a.txt", b'see "lineage", "serial" and "terraform_version"'),
        ("a.bin", b"\0\1" + TOKEN.encode()),
        ("a.tf", b'token = "AKIAIOSFODNN7EXAMPLE"'),
    ],
)
def test_what_is_no_secret_leaves_no_trace(path: str, content: bytes) -> None:
    """Texts about states, binary files, and what says that it is an example."""
    assert looked(content, path=path).traces == []


def test_a_secret_is_reported_once_with_the_line_it_first_was_on() -> None:
    """However many versions of a file hold it; another one on a new line is told too."""
    first = f'a = 1\ntoken = "{TOKEN}"\n'
    second = f"# new\n{first}{'b = 2' * 3}\n" + "\n" * 20 + f'other = "{OTHER}"\n'
    past = looked(first, second, second + "more\n")
    assert told(past) == [(ContentKind.SECRET, 2), (ContentKind.SECRET, 25)]
    assert TOKEN not in f"{past.traces}"


def test_a_key_is_found_even_if_its_first_line_is_not_new() -> None:
    """Only new lines are looked at, with those beside them."""
    past = looked(
        f"docs: {BEGIN}\n{BEGIN}\n", "\n" * 9 + f"key = <<EOT\n{BEGIN}\n{BODY}\n{BODY}\n{END}\nEOT\n"
    )
    assert told(past) == [(ContentKind.SECRET, 11)]


def test_the_first_commit_that_brought_a_content_speaks_for_it() -> None:
    """Each content once, the oldest first; what lies in Terraform's own folders is found by their names."""
    commits = (
        Commit(id="c", date="3", paths=(), blobs=(("b.tf", "2"), ("c.tf", "1"))),
        Commit(id="a", date="1", paths=(), blobs=((".terraform/x", "1"), ("a.tf", "3"))),
    )
    assert versions_by_blob(commits) == {
        "3": FileVersion("a.tf", "a", "1"),
        "2": FileVersion("b.tf", "c", "3"),
        "1": FileVersion("c.tf", "c", "3"),
    }


def found(
    id_: str, past: HistoryScanner, files: dict[str, str | bytes] | None = None, config: str | None = None
) -> Report:
    made = checkout({"main.tf": "locals {}\n", **(files or {})}, config=config)
    seen = History(checkout=made, commits=(), traces=tuple(past.traces), unread=tuple(past.unread))
    return check(the(id_), made, inputs=CheckInputs(history=Available(items=(seen,))))


def test_a_secret_of_the_history_is_an_error_with_commit_and_line() -> None:
    """It is told where it stood, never what it is, and no line of the file of now is shown for it."""
    past = looked(f'a = 1\ntoken = "{TOKEN}"\n', path="main.tf")
    (one,) = of(found("HF207", past), the("HF207"))
    assert "line 2 in commit aaaaaaaaaaaa of 2025-03-04" in one.message
    assert (one.file, one.line, one.source, one.severity) == ("main.tf", None, None, Severity.ERROR)
    assert TOKEN not in f"{one.message}{one.hint}"


def test_a_secret_that_the_tree_still_holds_is_only_reported_there() -> None:
    """Once: with its line of now. In a file that the tree's rule passes over, the history tells it."""
    past = looked(f'token = "{TOKEN}"\n', path="old.tf")
    report = found("HF207", past, {"main.tf": f'locals {{\n  t = "{TOKEN}"\n}}\n'})
    assert [(one.file, one.line) for one in of(report, the("HF207"))] == [("main.tf", 2)]
    passed_over = found("HF207", past, {"notes.md": TOKEN})
    assert [(one.file, one.line) for one in of(passed_over, the("HF207"))] == [("old.tf", None)]


@pytest.mark.parametrize(
    ("id_", "path", "content", "severity"),
    [
        ("HF201", "prod.state", STATE, Severity.ERROR),
        ("HF202", "run7", PACKED, Severity.ERROR),
        ("HF202", "shown.json", PLAN, Severity.WARNING),
        ("HF205", "deploy", f"{BEGIN}\n{BODY}\n".encode(), Severity.ERROR),
        ("HF205", "server.key", f"{BEGIN}\n{BODY}\n".encode(), Severity.ERROR),
    ],
)
def test_files_that_were_committed_under_other_names_are_found(
    id_: str, path: str, content: bytes, severity: Severity
) -> None:
    """Each path once, by its own rule; not where the tree has it too, and tells it."""
    past = looked(content, content + b"\n", path=path)
    (one,) = of(found(id_, past), the(id_))
    assert "was added in commit aaaaaaaaaaaa of 2025-03-04 and is still in the history" in one.message
    assert (one.file, one.severity) == (path, severity)
    kept = of(found("HF201", looked(STATE, path="p.json"), {"p.json": STATE}), the("HF201"))
    assert ["is still in the history" in other.message for other in kept] == [False]


@pytest.mark.parametrize("id_", ["HF201", "HF202", "HF205", "HF207"])
def test_an_old_content_that_cannot_be_searched_is_not_fine(id_: str) -> None:
    """The rules that look into contents say which, and why."""
    past = HistoryScanner()
    past.scan(AT, None, "it is larger than 5 MB")
    assert skips(found(id_, past), the(id_)) == ["an old version was not searched: it is larger than 5 MB"]


def test_a_waiver_for_the_history_is_not_unused_before_the_history_is_read() -> None:
    """Of the file of now there is nothing to waive."""
    config = (
        "version: 1\nstacks:\n  - { name: root, module: ., environment: prod }\nchecks:\n  waivers:\n"
        "    - { rule: HF207, path: main.tf, owner: me, reason: rotated, until: 2027-01-01 }\n"
    )
    past = looked(f'token = "{TOKEN}"\n', path="main.tf")
    assert [one.waived for one in found("HF207", past, config=config).findings] == [True]
    unread = check(the("HF207"), {"main.tf": "locals {}\n"}, config=config)
    assert of(unread, NEEDLESS) == []
    assert messages(found("HF207", HistoryScanner(), config=config), NEEDLESS) == [
        "the waiver for HF207 (rotated) has no effect"
    ]
