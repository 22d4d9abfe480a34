"""Whenever an apply is killed, every object that exists is in the state, imported, put back or listed."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_made import state
from wrecks_made import Wreck, wrecks

from holdfast.recovery.change_outcome import OutcomeKind as Kind
from holdfast.recovery.imports import Resolution, imports
from holdfast.terraform.statefile.model import read_contents


def looked_after(wreck: Wreck, resolution: Resolution) -> set[str]:
    """What is known after the imports: records, imported objects, those put back, those listed."""
    records = wreck.records
    for one in resolution.imports:
        back = {records[place.address, place.deposed] for place in one.conflict.put_back}
        for place in one.conflict.taken_out:
            del records[place.address, place.deposed]
        records |= {(one.address, f"back {mark}"): mark for mark in back}
        records[one.address, "imported"] = next(job.new for job in wreck.jobs if job.new_named == one.id)
    listed = {one.address for one in resolution.unresolved}
    return set(records.values()) | {job.new for job in wreck.jobs if job.change.address in listed}


@settings(max_examples=300, deadline=None)
@given(wrecks())
def test_every_object_is_looked_after(wreck: Wreck) -> None:
    """Nothing exists that no state, import or list knows, but for what was to be forgotten."""
    resolution = imports(wreck.evidence(wreck.lines), {})
    assert wreck.world <= looked_after(wreck, resolution) | wreck.forgotten
    for one in resolution.imports:
        job = next(job for job in wreck.jobs if job.change.address == one.address)
        assert one.id == job.new_named
        assert job.new in wreck.world


@settings(max_examples=300, deadline=None)
@given(wrecks())
def test_every_finding_is_true(wreck: Wreck) -> None:
    """What is said of each change is so in the world and in the state."""
    evidence = wreck.evidence(wreck.lines)
    records = wreck.records
    assert not evidence.unplanned
    for job, finding in zip(wreck.jobs, evidence.outcomes, strict=True):
        match finding.kind:
            case Kind.RECORDED if job.change.creates:
                assert records[job.change.address, None] == job.new
            case Kind.RECORDED if "delete" in job.change.actions:
                assert job.old not in {*records.values(), *wreck.world}
            case Kind.CREATED_NOT_RECORDED | Kind.REPLACED_NOT_RECORDED:
                assert job.new in wreck.world
                assert job.new not in records.values()
            case Kind.DELETED_NOT_RECORDED | Kind.NOT_REPLACED | Kind.DELETED_THEN_UNKNOWN:
                assert job.old not in wreck.world
            case Kind.LEFT_DEPOSED:
                assert {job.old, job.new} <= wreck.world
            case Kind.NEVER_STARTED:
                assert job.new not in wreck.world
                assert job.change.actions == ("create",) or job.old in wreck.world
            case _:
                pass
        if finding.old_deleted:
            assert job.old not in wreck.world
    if evidence.settled:
        assert wreck.world <= set(records.values()) | wreck.forgotten


@settings(max_examples=200, deadline=None)
@given(wrecks(), st.data())
def test_no_completed_create_is_missed_however_little_is_left(wreck: Wreck, data: st.DataObject) -> None:
    """Lost lines, a cut one, no backup: one finding for each change, and no id that was heard is lost."""
    heard = wreck.lines[: data.draw(st.integers(0, len(wreck.lines)))]
    cut = heard[-1][: data.draw(st.integers(1, 40))] if heard else b""
    evidence = wreck.evidence((*heard, cut), backup=data.draw(st.booleans()))
    assert [finding.change for finding in evidence.outcomes] == [job.change for job in wreck.jobs]
    resolution = imports(evidence, {})
    listed = {one.address for one in resolution.imports} | {one.address for one in resolution.unresolved}
    kept = read_contents(state(wreck.kept))
    for line in map(json.loads, heard):
        hook = line["hook"]
        if line["type"] == "apply_complete" and hook["action"] == "create" and "id_value" in hook:
            address = hook["resource"]["addr"]
            held = [*kept.deposed.get(address, {}).values()]
            held += [kept.current[address]] if address in kept.current else []
            assert address in listed or hook["id_value"] in {one.id for one in held}
