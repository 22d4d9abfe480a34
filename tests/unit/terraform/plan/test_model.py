from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.kernel.errors import EngineError
from holdfast.terraform.plan.actions import REASONS, ChangeKind
from holdfast.terraform.plan.model import Plan, ResourceChange, read_plan

PLANS = Path(__file__).parents[1] / "plans"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def recorded(name: str) -> Plan:
    return read_plan((PLANS / f"{name}.json").read_bytes())


def changes(plan: Plan) -> dict[str, ResourceChange]:
    return {change.address: change for change in plan.changes}


def written(*resources: dict[str, Any], **more: Any) -> Plan:
    document = {"format_version": "1.2", "terraform_version": "1.17.0", "resource_changes": resources, **more}
    return read_plan(json.dumps(document).encode())


def resource(
    *actions: str, reason: str | None = None, change: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    found = {"address": "x.y", "mode": "managed", "type": "x", "name": "y", "provider_name": "p", **more}
    found["change"] = {"actions": actions, "before": None, "after": None, **(change or {})}
    return found | ({"action_reason": reason} if reason is not None else {})


@pytest.mark.parametrize("file", sorted(PLANS.glob("*.json")), ids=lambda file: file.stem)
def test_every_recorded_plan_is_understood(file: Path) -> None:
    """No plan of a supported engine is refused because it could not be read."""
    plan = read_plan(file.read_bytes())
    assert plan.understood
    assert plan.format_version == "1.2"
    assert plan.terraform_version == file.stem.split("-")[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_kind_of_change_is_distinguished(engine: str) -> None:
    """What Terraform plans to do to each resource is what Holdfast shows."""
    found = changes(recorded(f"{engine}-changes"))
    kinds = {address.removeprefix("terraform_data."): change.kind for address, change in found.items()}
    assert kinds == {
        "counted[0]": ChangeKind.NO_OP,
        "counted[1]": ChangeKind.DELETE,
        "counted[2]": ChangeKind.DELETE,
        "deleted": ChangeKind.DELETE,
        'each["a"]': ChangeKind.NO_OP,
        'each["b"]': ChangeKind.DELETE,
        "forgotten": ChangeKind.FORGET,
        "imported": ChangeKind.NO_OP,
        "kept": ChangeKind.NO_OP,
        "moved_and_updated": ChangeKind.UPDATE,
        "new_name": ChangeKind.NO_OP,
        "replaced": ChangeKind.DELETE_THEN_CREATE,
        "replaced_first": ChangeKind.CREATE_THEN_DELETE,
        "requested": ChangeKind.DELETE_THEN_CREATE,
        "trigger": ChangeKind.UPDATE,
        "triggered": ChangeKind.DELETE_THEN_CREATE,
        "updated": ChangeKind.UPDATE,
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_changes_are_counted_as_the_documents_promise(engine: str) -> None:
    """A replacement counts once; imports and moves count beside the rest."""
    assert recorded(f"{engine}-changes").counts.document() == {
        "create": 0,
        "update": 3,
        "replace": 4,
        "delete": 4,
        "forget": 1,
        "import": 1,
        "move": 2,
        "read": 0,
    }
    assert recorded(f"{engine}-create").counts.document()["read"] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_every_change_is_explained_in_a_sentence(engine: str) -> None:
    """Users read what happens and why, not a name from Terraform's source."""
    found = changes(recorded(f"{engine}-changes"))
    expected = {
        "counted[1]": "deleted because index [1] is outside the new `count`",
        "deleted": "deleted because it is no longer in the configuration",
        'each["b"]': 'deleted because key ["b"] is no longer in `for_each`',
        "imported": "imported from an-id-from-elsewhere",
        "kept": "unchanged",
        "moved_and_updated": "updated in place, moved from terraform_data.moved_and_updated_old",
        "new_name": "moved from terraform_data.old_name",
        "replaced": "replaced because `triggers_replace` changes",
        "requested": "replaced because the replacement was requested",
    }
    assert {name: found[f"terraform_data.{name}"].explanation for name in expected} == expected


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_no_known_reason_is_shown_as_a_code(reason: str) -> None:
    """Every reason in Terraform's and OpenTofu's source has words."""
    plan = written(resource("delete", reason=reason))
    assert plan.understood
    assert "because" in plan.changes[0].explanation
    assert "_because_" not in plan.changes[0].explanation
    assert "{" not in plan.changes[0].explanation


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        ("nothing", False),
        ("move-only", True),
        ("import-only", True),
        ("outputs-only", True),
        ("destroy", True),
        ("drift", True),
        ("drift-normal", True),
        ("targeted", True),
        ("tainted", True),
    ],
)
def test_no_changes_means_that_applying_would_do_nothing(engine: str, situation: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    """A move, an import, a new output or a refreshed state is not "no changes"."""
    assert recorded(f"{engine}-{situation}").has_changes is expected


def test_unchanged_outputs_are_no_changes() -> None:
    """An output that is listed with no-op does not make a plan worth applying."""
    unchanged = {"o": {"actions": ["no-op"], "before": 1, "after": 1}}
    assert not written(output_changes=unchanged, applyable=False).has_changes


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_that_failed_half_way_says_so(engine: str) -> None:
    """The file of a failed plan can be read, and is not taken for a good one."""
    plan = recorded(f"{engine}-errored")
    assert plan.errored
    assert plan.applyable is (None if engine.startswith("tofu") else False)


def test_a_targeted_plan_is_incomplete() -> None:
    """Terraform says that -target leaves things out; OpenTofu does not say."""
    assert recorded("terraform-1.15.5-targeted").complete is False
    assert recorded("terraform-1.15.5-create").complete is True
    assert recorded("tofu-1.12.6-targeted").complete is None


@pytest.mark.parametrize("engine", ENGINES)
def test_drift_is_kept_apart_from_changes(engine: str) -> None:
    """What happened outside is not shown as something that the plan will do."""
    plan = recorded(f"{engine}-drift")
    assert plan.changes == ()
    assert [(drift.address, drift.kind) for drift in plan.drift] == [("local_file.f", ChangeKind.DELETE)]


def test_parts_of_an_address_are_kept() -> None:
    """Module, index and provider are there for rules that ask about them."""
    found = changes(recorded("terraform-1.15.5-module"))['module.n["y"].terraform_data.in[0]']
    assert (found.module, found.index, found.mode, found.type, found.name) == (
        'module.n["y"]',
        0,
        "managed",
        "terraform_data",
        "in",
    )
    assert found.provider == "terraform.io/builtin/terraform"


def test_resources_of_the_state_are_counted_for_budgets() -> None:
    """A budget in percent needs the number of resources, in modules too."""
    assert recorded("terraform-1.15.5-module").prior_resources == 1
    assert recorded("terraform-1.15.5-changes").prior_resources == 17
    assert recorded("terraform-1.15.5-create").prior_resources == 0


def test_opentofu_can_forget_the_old_resource() -> None:
    """["forget","create"] creates one object and forgets another; nothing is destroyed."""
    plan = recorded("tofu-1.12.6-pair")
    (change,) = plan.changes
    assert change.kind is ChangeKind.FORGET_THEN_CREATE
    assert not change.destroys
    assert (plan.counts.create, plan.counts.forget, plan.counts.replace) == (1, 1, 0)


@pytest.mark.parametrize(
    ("actions", "kind"),
    [
        (("create", "forget"), ChangeKind.CREATE_THEN_FORGET),
        (("forget", "create"), ChangeKind.FORGET_THEN_CREATE),
        (("create", "delete"), ChangeKind.CREATE_THEN_DELETE),
        (("delete", "create"), ChangeKind.DELETE_THEN_CREATE),
        (("read",), ChangeKind.READ),
        (("no-op",), ChangeKind.NO_OP),
    ],
)
def test_pairs_keep_their_order(actions: tuple[str, ...], kind: ChangeKind) -> None:
    """Which comes first decides whether there is a gap in service."""
    assert written(resource(*actions)).changes[0].kind is kind


@pytest.mark.parametrize(
    "actions", [("frob",), ("delete", "frob"), ("delete", "delete"), (), ("update", "create")]
)
def test_an_unknown_action_is_kept_and_not_understood(actions: tuple[str, ...]) -> None:
    """What is not understood is shown as it is, and never taken for nothing."""
    plan = written(resource(*actions))
    (change,) = plan.changes
    assert change.kind is ChangeKind.UNKNOWN
    assert change.actions == actions
    assert not plan.understood
    assert change.has_effect
    assert change.destroys == ("delete" in actions)
    assert all(action in change.explanation for action in actions)


def test_an_unknown_reason_is_kept_and_not_understood() -> None:
    """A new reason of a new version is shown as Terraform writes it and refused."""
    plan = written(resource("delete", reason="delete_because_full_moon"))
    assert not plan.understood
    assert plan.changes[0].reason == "delete_because_full_moon"
    assert "delete_because_full_moon" in plan.changes[0].explanation


def test_an_unknown_mode_is_not_understood() -> None:
    """An unknown mode is refused."""
    assert not written(resource("create", mode="ephemeral")).understood


def test_an_unknown_action_of_an_output_is_not_understood() -> None:
    """Outputs are changes too."""
    assert not written(output_changes={"o": {"actions": ["frob"]}}).understood


def test_actions_of_providers_are_read_and_count_as_changes() -> None:
    """An action has effects although no resource changes."""
    plan = written(
        applyable=False,
        action_invocations=[
            {
                "address": "action.aws_lambda_invoke.warm",
                "type": "aws_lambda_invoke",
                "name": "warm",
                "provider_name": "registry.terraform.io/hashicorp/aws",
                "config_values": {"payload": "x"},
                "lifecycle_action_trigger": {
                    "triggering_resource_address": "aws_lambda_function.f",
                    "action_trigger_event": "AfterCreate",
                    "action_trigger_block_index": 0,
                    "actions_list_index": 0,
                },
            },
            {"address": "action.x.y", "type": "x", "name": "y", "invoke_action_trigger": {}},
        ],
        deferred_action_invocations=[
            {"reason": "deferred_prereq", "action_invocation": {"address": "action.x.late"}}
        ],
    )
    warm, asked, late = plan.action_invocations
    assert (warm.triggered_by, warm.event, warm.deferred) == ("aws_lambda_function.f", "AfterCreate", None)
    assert asked.triggered_by is None
    assert late.deferred == "deferred_prereq"
    assert plan.has_changes


def test_deferred_changes_are_read_with_their_reason() -> None:
    """What is postponed is neither a change of this plan nor forgotten."""
    deferred = {"reason": "instance_count_unknown", "resource_change": resource("create")}
    plan = written(deferred_changes=[deferred], complete=False)
    assert plan.changes == ()
    assert [(late.reason, late.change.kind) for late in plan.deferred] == [
        ("instance_count_unknown", ChangeKind.CREATE)
    ]
    unknown = {"reason": "x", "resource_change": resource("frob")}
    assert not written(deferred_changes=[unknown]).understood


def test_imports_by_identity_and_deposed_instances_are_read() -> None:
    """The plan contains the import id of a resource, and the key of a deposed instance."""
    plan = written(
        resource("no-op", change={"importing": {"identity": {"bucket": "b", "region": "r"}}}),
        resource("no-op", change={"importing": {"unknown": True}}),
        resource("delete", deposed="0a1b2c3d"),
    )
    by_identity, unknown, deposed = plan.changes
    assert str(by_identity.importing) == '{"bucket":"b","region":"r"}'
    assert str(unknown.importing) == "(known after apply)"
    assert deposed.deposed == "0a1b2c3d"
    assert "left over from an earlier replacement" in deposed.explanation
    assert (plan.counts.import_, plan.counts.delete) == (2, 1)


def test_the_attributes_that_force_a_replacement_are_named_but_not_endlessly() -> None:
    """`replaced because …` stays one line."""
    paths = [["name"], ["rule", 0, "port"], ["tags", "a b"], ["four"], ["five"]]
    plan = written(
        resource("delete", "create", reason="replace_because_cannot_update", change={"replace_paths": paths})
    )
    assert plan.changes[0].explanation == (
        'replaced because `name`, `rule[0].port`, `tags["a b"]` and 2 more change'
    )


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_older_formats_are_read_without_what_they_lack(version: str) -> None:
    """A plan of Terraform 1.1 has no `applyable`, no `errored`."""
    document = {
        "format_version": version,
        "terraform_version": "1.1.9",
        "resource_changes": [resource("create")],
    }
    plan = read_plan(json.dumps(document).encode())
    assert (plan.applyable, plan.complete, plan.errored) == (None, None, False)
    assert plan.has_changes


@pytest.mark.parametrize("version", ["0.2", "1.3", "2.0", "", None, "1.20"])
def test_an_unknown_format_is_an_error(version: str | None) -> None:
    """What a newer engine means by its words is not guessed."""
    with pytest.raises(EngineError) as caught:
        read_plan(json.dumps({"format_version": version, "resource_changes": []}).encode())
    assert caught.value.problem.code == "HF-PLAN-1"


def test_an_unknown_format_is_named_even_when_its_shape_is_unknown_too() -> None:
    """Format 2.0 is reported as format 2.0, not as a broken document."""
    with pytest.raises(EngineError) as caught:
        read_plan(b'{"format_version": "2.0", "resource_changes": {"a": 1}}')
    assert caught.value.problem.code == "HF-PLAN-1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"format_version": "1.2", "resource_changes": [{}]}',
        b'{"format_version": "1.2", "resource_changes": [{"address": "a", "change": {"actions": "create"}}]}',
        b'{"format_version": "1.2", "resource_changes": null}',
        b"[" * 100_000,
    ],
)
def test_a_document_that_is_no_plan_is_an_error_with_a_code(data: bytes) -> None:
    """Nonsense from an engine is an engine error, never a traceback and never an empty plan."""
    with pytest.raises(EngineError) as caught:
        read_plan(data)
    assert caught.value.problem.code in {"HF-PLAN-1", "HF-PLAN-2"}


def test_what_is_printed_of_a_plan_holds_no_values() -> None:
    """A plan in a log line or a failed assertion shows no secret."""
    plan = recorded("terraform-1.15.5-create")
    assert "hunter2" not in repr(plan)
    assert "hunter2" not in repr(plan.changes[-1].change)
