"""However a stack is renamed: what it would create a second time gives it away."""

from __future__ import annotations

import json
from typing import Any

from guard_made import plan, resource
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from results_made import stack

from holdfast.config.stack_rules import RuleKind
from holdfast.plans.renames import Likeness, OrphanedState, likeness
from holdfast.plans.state_continuity import Origin
from holdfast.store.run_store import StateRecord
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.statefile.model import State, read_state

NAMES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True)
VALUES = st.sampled_from(({"size": "large"}, {"size": 3, "tags": {"a": ["x"]}}, {"size": None, "on": True}))
ORIGINS = st.builds(Origin, source=st.sampled_from(("x", "y")), variables=st.sampled_from(("1", "2")))
KINDS = st.sampled_from((RuleKind.NAMED, RuleKind.FOLDER, RuleKind.VARIABLES))


def state(values: dict[str, dict[str, Any]]) -> State:
    """With what only the provider knows, as a real one has."""
    resources = [
        {
            "mode": "managed",
            "type": "x",
            "name": name,
            "provider": "p",
            "instances": [{"attributes": {**attributes, "id": f"id-{name}", "computed": [1]}}],
        }
        for name, attributes in values.items()
    ]
    document = {"version": 4, "serial": 1, "lineage": "old", "resources": resources, "outputs": {}}
    found = read_state(json.dumps(document).encode())
    assert isinstance(found, State)
    return found


def creating(values: dict[str, dict[str, Any]]) -> Plan:
    changes = []
    for name, attributes in values.items():
        change = resource(f"x.{name}", "create", before=None)
        change["change"]["after"] = attributes
        changes.append(change)
    return plan(*changes)


def orphan(held: State, origin: Origin) -> OrphanedState:
    record = StateRecord(
        place="p",
        lineage="old",
        serial=1,
        resources=1,
        seen="",
        source=origin.source,
        variables=origin.variables,
    )
    return OrphanedState(name="old", record=record, state=held, lineage="old", serial=1)


@given(NAMES, VALUES, ORIGINS, ORIGINS, KINDS, st.booleans(), st.data())
def test_planned_values_that_are_in_the_old_state_refuse_the_new_stack(
    names: list[str],
    values: dict[str, Any],
    old: Origin,
    new: Origin,
    kind: RuleKind,
    moved: bool,  # noqa: FBT001  a column of the table
    data: st.DataObject,
) -> None:
    """Whatever its name, its files and its variables, and also if less than half of it changes as well."""
    edited = data.draw(st.integers(0, len(names) // 2))
    planned = {name: {**values, "edited": True} if at < edited else values for at, name in enumerate(names)}
    held = orphan(state(dict.fromkeys(names, values)), old)
    how = likeness(structs.replace(stack("new"), kind=kind), new, creating(planned), held, moved=moved)
    assert how is not None
    assert how.refuses


@given(NAMES, ORIGINS, KINDS)
def test_addresses_alone_are_a_warning(names: list[str], origin: Origin, kind: RuleKind) -> None:
    """Two stacks of one module have the same addresses, and need not be the same stack."""
    held = orphan(
        state({name: {"size": "large"} for name in names}), Origin(source="elsewhere", variables="other")
    )
    planned = creating({name: {"size": "small"} for name in names})
    new = structs.replace(stack("new"), kind=kind)
    assert likeness(new, origin, planned, held, moved=False) is Likeness.SAME_ADDRESSES
    other = creating({f"other_{name}": {"size": "large"} for name in names})
    assert likeness(new, origin, other, held, moved=False) is None
    assert likeness(new, origin, other, held, moved=True) is Likeness.MOVED
