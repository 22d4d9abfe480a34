"""Reality is changed behind Terraform: what drifts is found, kept apart from code, and undone by rule."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from drift_made import (
    CANARY,
    DriftCheck,
    FakeTime,
    by_attribute,
    change_object,
    delete_object,
    drift_repository,
    object_file,
    states,
)
from lab_stacks import ended, held, warm_processes
from program import Program, eventually

from holdfast.notify.alerts.alert import Alert
from holdfast.store.drift import FindingState, StackStatus
from provider.service import Fault, LabService


def checked(program: Program, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    return program.results("drift", *arguments, code=code)


def body(program: Program, name: str) -> Any:
    return json.loads(object_file(program, name).read_text())["body"]


def test_drifted_unapplied_and_in_sync_are_never_mixed(with_lab: Program) -> None:
    """A change of reality is drift, a change of code is unapplied, also if both concern one attribute; a
    stack that cannot be looked at is none of them, exits with 1, and stops no other one.
    """
    drift_repository(with_lab, ("drifted", "code", "both", "same", "sync", "broken", "never"))
    broken = with_lab.folder / "broken/main.tf"
    broken.write_text(broken.read_text().replace('"broken-two"', '"broken-two"\n  kind = "fail-read"'))
    with_lab.ok("apply", "--yes", "drifted", "code", "both", "same", "sync", "broken")
    change_object(with_lab, "drifted-one", body="bye")
    change_object(with_lab, "both-one", body="bye")
    change_object(with_lab, "same-one", body="changed in the code")
    for name in ("code", "both", "same"):
        file = with_lab.folder / name / "main.tf"
        file.write_text(file.read_text().replace('"hello"', '"changed in the code"'))
    change_object(with_lab, "broken-one", body="bye")
    results = checked(with_lab, code=1)
    told = {name: (result["status"], result["unapplied"]) for name, result in results.items()}
    assert told == {
        "drifted": ("drifted", False),
        "code": ("unapplied", True),
        "both": ("drifted", True),
        "same": ("drifted", True),
        "sync": ("in_sync", False),
        "broken": ("not_checked", False),
        "never": ("unapplied", True),
    }
    assert results["broken"]["error"]["message"]
    [finding] = results["both"]["findings"]
    assert (finding["address"], finding["attribute"]) == ("lab_object.one", "body")
    assert (finding["before"], finding["after"], finding["state"]) == ("hello", "bye", "opened")
    assert checked(with_lab, "drifted", "sync", code=2)["sync"]["findings"] == []
    assert checked(with_lab, "code", "sync", code=0)["code"]["changes"]["update"] == 1
    text = with_lab.ok("drift", code=1).text
    assert "≠ drifted" in text
    assert "1 change in the code not applied" in text
    assert "? broken" in text


def test_the_whole_life_of_findings_on_real_terraform(with_lab: Program) -> None:
    """Changed, deleted, added; still there, changed again, gone, reopened; each with its times. One alert
    lasts from the first finding to the last, and is raised again only if it changes.
    """
    drift_repository(with_lab)
    with_lab.ok("apply", "--yes")
    now, told = FakeTime(), list[Alert]()
    check = DriftCheck(with_lab, now)
    assert check(tell=told.extend)["a"].status is StackStatus.IN_SYNC

    now.pass_(hours=1)
    change_object(with_lab, "a-one", body="bye", kind="added")
    bring_back = delete_object(with_lab, "a-two")
    result = check(tell=told.extend)["a"]
    assert states(result) == dict.fromkeys(("one body", "one kind", "two"), FindingState.OPENED)
    added = by_attribute(result)["lab_object.one", "kind"]
    assert (added.before, added.after, added.first_seen) == (None, "added", now.moment)

    opened = now.moment
    now.pass_(hours=1)
    result = check(tell=told.extend)["a"]
    assert set(states(result).values()) == {FindingState.STILL_THERE}
    assert {finding.first_seen for finding in result.known.findings} == {opened}
    assert {finding.last_seen for finding in result.known.findings} == {now.moment}
    assert len(told) == 1, "an alert that has not changed is not raised again"

    now.pass_(hours=1)
    change_object(with_lab, "a-one", body="bye again")
    bring_back()
    result = check(tell=told.extend)["a"]
    assert states(result) == {
        "one body": FindingState.CHANGED,
        "one kind": FindingState.STILL_THERE,
        "two": FindingState.GONE,
    }

    now.pass_(hours=1)
    broken = with_lab.folder / "a/main.tf"
    code = broken.read_text()
    broken.write_text(code + "resource {")
    failed = check(tell=told.extend)["a"]
    assert (failed.status, failed.known.findings) == (StackStatus.NOT_CHECKED, result.known.findings)
    broken.write_text(code)

    now.pass_(hours=1)
    change_object(with_lab, "a-one", body="hello", kind=None)
    result = check(tell=told.extend)["a"]
    assert (result.status, set(states(result).values())) == (StackStatus.IN_SYNC, {FindingState.GONE})

    now.pass_(hours=1)
    change_object(with_lab, "a-one", body="bye")
    result = check(tell=told.extend)["a"]
    assert states(result)["one body"] is FindingState.REOPENED
    assert [(alert.key, alert.resolved) for alert in told] == [
        *(("drift:a", False), ("drift:a", False), ("drift:a", True), ("drift:a", False)),
    ]
    assert [alert.since for alert in told] == [opened, opened, opened, now.moment]
    assert "2 resources changed outside Terraform" in told[0].title
    lengths = [
        (period.status.value, (period.until or now.moment) - period.since) for period in result.known.periods
    ]
    assert lengths[1] == ("drifted", timedelta(hours=3))
    shown = with_lab.ok("drift", "--history").text
    assert "lab_object.one body" in shown
    document = with_lab.json("drift", "--history")["stacks"][0]
    assert [period["status"] for period in document["periods"]][:3] == ["in_sync", "drifted", "not_checked"]


@pytest.mark.long
def test_a_known_finding_raises_no_alert_until_it_changes(with_lab: Program) -> None:
    """A person acknowledges it with a reason and a day; that is in the audit log, and it is still drift."""
    drift_repository(with_lab)
    with_lab.ok("apply", "--yes")
    change_object(with_lab, "a-one", body="bye")
    now, told = FakeTime(), list[Alert]()
    check = DriftCheck(with_lab, now)
    [finding] = check(tell=told.extend)["a"].known.findings
    for wrong in (("--until", "2027-02-30"), ("--until", "2020-01-01")):
        with_lab.ok("drift", "--acknowledge", finding.id, "--reason", "known", *wrong, code=64)
    with_lab.ok("drift", "--acknowledge", finding.id, code=64)
    with_lab.ok("drift", "--acknowledge", "01NONE", "--reason", "known", code=64)
    with_lab.ok("drift", "--acknowledge", finding.id, "--reason", "a migration", "--until", "2030-01-01")
    entry = with_lab.json("audit", "show")["entries"][0]
    assert (entry["what"], entry["stack"], entry["reason"]) == ("drift-acknowledge", "a", "a migration")
    now.pass_(days=1)
    result = check(tell=told.extend)["a"]
    assert (result.status, states(result)) == (StackStatus.DRIFTED, {"one body": FindingState.ACKNOWLEDGED})
    assert [alert.resolved for alert in told] == [False, True]
    change_object(with_lab, "a-one", body="something else")
    result = check(tell=told.extend)["a"]
    assert states(result) == {"one body": FindingState.CHANGED}
    assert [alert.resolved for alert in told] == [False, True, False]


@pytest.mark.long
def test_rules_ignore_what_they_name_until_their_day(with_lab: Program) -> None:
    """What is ignored is counted and never called unapplied; a rule that ended is named with its owner."""
    rule = {"address": "lab_object.*", "attribute": "kind", "owner": "platform"}
    drift_repository(with_lab, ignore=[{**rule, "until": "2099-01-01"}])
    with_lab.ok("apply", "--yes")
    change_object(with_lab, "a-one", kind="set by a controller")
    result = checked(with_lab)["a"]
    assert (result["status"], result["unapplied"], result["findings"]) == ("in_sync", False, [])
    assert [(row["attribute"], row["owner"]) for row in result["ignored"]] == [("kind", "platform")]
    drift_repository(with_lab, ignore=[{**rule, "until": "2020-01-01"}])
    result = checked(with_lab, code=2)["a"]
    assert result["status"] == "drifted"
    assert "owner: platform" in result["expired_rules"][0]
    assert "ended on 2020-01-01" in with_lab.ok("drift", code=2).text
    drift_repository(with_lab, ignore=[{"owner": "x", "until": "2099-01-01"}])
    assert "would ignore every drift" in with_lab.ok("drift", code=64).text


@pytest.mark.long
def test_drift_that_no_change_follows_from_is_found(with_lab: Program) -> None:
    """Terraform plans nothing for an attribute in `ignore_changes`; what a provider never reads is named."""
    drift_repository(
        with_lab, not_read=[{"type": "lab_*", "attributes": ["secret"], "why": "never returned"}]
    )
    code = with_lab.folder / "a/main.tf"
    code.write_text(
        code.read_text().replace(
            "body   = var.body", "body = var.body\n  lifecycle { ignore_changes = [body] }"
        )
    )
    with_lab.ok("apply", "--yes")
    result = checked(with_lab)["a"]
    [row] = result["not_looked_at"]
    assert row == {"address": "lab_object.one", "attributes": ["secret"], "reason": "never returned"}
    assert "as far as its providers look" in with_lab.ok("drift").text
    change_object(with_lab, "a-one", body="bye")
    result = checked(with_lab, code=2)["a"]
    assert (result["status"], result["unapplied"]) == ("drifted", False)
    assert [row["address"] for row in result["not_looked_at"]] == ["lab_object.one"]


HEAL = {"environments": ["dev"], "types": ["lab_object"], "actions": ["update"], "budget": 5}


def test_healing_sets_back_what_its_rule_covers_and_nothing_else(with_lab: Program) -> None:
    """By an apply with its journal and audit log. Without --heal nothing is applied; outside the rule (type,
    action, window, budget), with unapplied code or for an acknowledged finding, the reason is said.
    """
    drift_repository(with_lab, ("a", "b"), heal=[HEAL])
    with_lab.ok("apply", "--yes")
    change_object(with_lab, "a-one", body="bye")
    checked(with_lab, code=2)
    assert body(with_lab, "a-one") == "bye"
    result = checked(with_lab, "--heal")["a"]
    assert (result["status"], result["findings"][0]["state"]) == ("in_sync", "healed")
    assert body(with_lab, "a-one") == "hello"
    entry = with_lab.json("audit", "show")["entries"]
    assert any("healing drift" in (one["reason"] or "") for one in entry)
    assert result["healing"]["run"] in with_lab.ok("runs", "list").text

    delete_object(with_lab, "b-two")
    result = checked(with_lab, "--heal", code=2)["b"]
    assert result["healing"]["reasons"] == ["lab_object.two: its rule does not create it again"]
    drift_repository(with_lab, ("a", "b"), heal=[{**HEAL, "actions": ["update", "create"]}])
    assert checked(with_lab, "--heal")["b"]["status"] == "in_sync"

    change_object(with_lab, "a-one", body="bye")
    change_object(with_lab, "a-two", body="bye")
    for keys, reason in (
        ({"types": ["aws_*"]}, "no rule heals lab_object in dev"),
        ({"environments": ["prod"]}, "no rule heals lab_object in dev"),
        ({"attributes": ["kind"]}, "does not cover this attribute"),
        ({"budget": 1}, "2 resources of a in 24 hours, the budget of its rule is 1"),
    ):
        drift_repository(with_lab, ("a", "b"), heal=[{**HEAL, **keys}])
        result = checked(with_lab, "a", "--heal", code=2)["a"]
        assert reason in " ".join(result["healing"]["reasons"])
    drift_repository(with_lab, ("a", "b"), heal=[HEAL])
    code = with_lab.folder / "a/main.tf"
    code.write_text(code.read_text().replace('"hello"', '"new"'))
    result = checked(with_lab, "a", "--heal", code=2)["a"]
    assert "a change in the code is not applied" in result["healing"]["reasons"][0]
    assert body(with_lab, "a-one") == "bye"


@pytest.mark.long
def test_healing_that_does_not_hold_stops_with_an_alert(with_lab: Program) -> None:
    """After two attempts: the alert says so, and nothing is applied until a person looked at it. The guard
    has the last word: what it refuses is not applied.
    """
    drift_repository(with_lab, heal=[HEAL])
    with_lab.ok("apply", "--yes")
    now, told = FakeTime(), list[Alert]()
    check = DriftCheck(with_lab, now)
    for _ in range(2):
        now.pass_(hours=30)
        change_object(with_lab, "a-one", body="bye")
        result = check(healing=True, tell=told.extend)["a"]
        assert result.status is StackStatus.IN_SYNC
    now.pass_(hours=30)
    change_object(with_lab, "a-one", body="bye")
    result = check(healing=True, tell=told.extend)["a"]
    assert (result.status, body(with_lab, "a-one")) == (StackStatus.DRIFTED, "bye")
    assert "came back after 2 healings" in result.not_healed[0]
    assert "healing did not hold and has stopped" in told[-1].title

    frozen = {"from": "mon", "to": "sun", "zone": "UTC", "effect": "deny"}
    document = json.loads((with_lab.folder / "holdfast.yaml").read_text())
    document["guard"] = {"freeze": [frozen]}
    with_lab.write("holdfast.yaml", json.dumps(document))
    [finding] = result.known.open
    with_lab.ok("drift", "--acknowledge", finding.id, "--reason", "found it")
    change_object(with_lab, "a-one", body="and again")
    result = check(healing=True, tell=told.extend)["a"]
    assert "freeze" in result.not_healed[0]
    assert body(with_lab, "a-one") == "and again"


@pytest.mark.long
def test_healing_never_replaces_and_never_applies_ignored_drift(with_lab: Program) -> None:
    """An apply would do both; so it is refused with the reason, and nothing is changed."""
    rule = {"attribute": "kind", "owner": "platform", "until": "2099-01-01"}
    drift_repository(with_lab, heal=[HEAL], ignore=[rule])
    code = with_lab.folder / "a/main.tf"
    code.write_text(code.read_text().replace('name = "a-two"', 'name = "a-two"\n  replace = "x"'))
    with_lab.ok("apply", "--yes")
    change_object(with_lab, "a-two", replace="y")
    result = checked(with_lab, "--heal", code=2)["a"]
    assert "lab_object.two would be replaced" in result["healing"]["reasons"][0]
    change_object(with_lab, "a-two", replace="x")
    change_object(with_lab, "a-one", body="bye", kind="set by a controller")
    result = checked(with_lab, "--heal", code=2)["a"]
    assert "lab_object.one would also change kind" in result["healing"]["reasons"][0]
    assert body(with_lab, "a-one") == "bye"


def test_no_secret_in_drift_leaves(with_lab: Program, tmp_path: Path) -> None:
    """Neither the old nor the new value of a sensitive attribute is in any output or any stored file; that it
    changed, and changed again, is known.
    """
    drift_repository(with_lab)
    with_lab.ok("apply", "--yes")
    change_object(with_lab, "a-one", secret=f"{CANARY}-changed-1")
    texts = [with_lab.ok("drift", "--verbose", code=2).text]
    change_object(with_lab, "a-one", secret=f"{CANARY}-changed-2")
    result = checked(with_lab, code=2)["a"]
    [finding] = result["findings"]
    assert (finding["before"], finding["after"], finding["sensitive"]) == (None, None, True)
    assert finding["state"] == "changed"
    texts += [with_lab.ok("drift", "--format", "markdown", code=2).text]
    texts.append(with_lab.ok("drift", "--history", "--json").text)
    delete_object(with_lab, "a-one")
    texts.append(with_lab.ok("drift", "--json", code=2).text)
    assert not [text for text in texts if CANARY in text]
    objects = Path(with_lab.environment["TF_VAR_objects"])
    for parent, _, names in os.walk(tmp_path):
        for name in names:
            file = Path(parent) / name
            if file.is_file() and not file.is_relative_to(objects) and file.name != "main.tf":
                assert CANARY.encode() not in file.read_bytes(), file


@pytest.mark.long
def test_what_is_locked_or_unknown_is_not_checked(with_lab: Program) -> None:
    """A stack whose state someone else has locked, one whose last apply was killed, and one with an input
    that does not exist are not looked at, each with its reason; the others are. Exit 1, although one drifted.
    """
    names = ("locked", "killed", "input", "drifted")
    drift_repository(with_lab, names)
    document = json.loads((with_lab.folder / "holdfast.yaml").read_text())
    with_lab.write("locked/backend.tf", 'terraform {\n  backend "local" {}\n}\n')
    with LabService() as service:
        document["stacks"][1]["env"] = {"LAB_URL": service.url}
        with_lab.write("holdfast.yaml", json.dumps(document))
        service.misbehave(Fault(operation="create", what="hold", name="killed-two"))
        process = with_lab.start("apply", "--yes", "--json", *(name for name in names if name != "input"))
        held(service, process, "create", 2)
        eventually(lambda: service.held("create", "killed-two"), what="it is made, and nobody knows")
        (victim,) = warm_processes(with_lab, service.url)
        os.kill(victim, signal.SIGKILL)
        applied, _ = ended(process, code=6)
        assert [name for name, result in applied.items() if result["status"] != "applied"] == ["killed"]
    document["stacks"][2]["inputs"] = {"body": {"output": "drifted.nothing", "mock": "m"}}
    with_lab.write("holdfast.yaml", json.dumps(document))
    change_object(with_lab, "locked-one", body="bye")
    change_object(with_lab, "drifted-one", body="bye")
    with (with_lab.folder / "locked/terraform.tfstate").open("r+b") as state:
        fcntl.lockf(state, fcntl.LOCK_EX)
        results = checked(with_lab, code=1)
    errors = {name: result["error"]["code"] for name, result in results.items() if result["error"]}
    told = {name: result["status"] for name, result in results.items()}
    assert told == {**dict.fromkeys(names, "not_checked"), "drifted": "drifted"}
    assert errors == {"locked": "HF-LOCK-1", "killed": "HF-RUN-8", "input": "HF-INPUT-3"}
    assert "runs reconcile" in results["killed"]["error"]["hint"]
    assert "nothing" in results["input"]["error"]["message"]


@pytest.mark.long
def test_code_that_cannot_be_planned_does_not_hide_drift(with_lab: Program) -> None:
    """Reality is looked at alone; that the code was not compared is said, and exits with 1."""
    drift_repository(with_lab)
    with_lab.ok("apply", "--yes")
    code = with_lab.folder / "a/main.tf"
    wrong = 'condition = lab_object.one.body == "x"\n      error_message = "not x"'
    block = f'resource "terraform_data" "p" {{\n  lifecycle {{\n precondition {{\n {wrong}\n }}\n }}\n}}\n'
    code.write_text(code.read_text() + block)
    result = checked(with_lab, code=1)["a"]
    assert (result["status"], result["error"]["code"]) == ("not_checked", "HF-DRIFT-3")
    change_object(with_lab, "a-one", body="bye")
    result = checked(with_lab, code=1)["a"]
    assert (result["status"], result["findings"][0]["attribute"]) == ("drifted", "body")
    assert "could not be compared" in result["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--heal", "--history"),
        ("--history", "--acknowledge", "x"),
        ("--until", "2027-01-01"),
        ("--format", "html"),
    ],
)
def test_wrong_options_are_refused(with_lab: Program, arguments: tuple[str, ...]) -> None:
    """With a hint, before anything is looked at."""
    drift_repository(with_lab)
    assert "HF-USE-4" in with_lab.ok("drift", *arguments, code=64).text
