from __future__ import annotations

import pytest
from msgspec import structs
from results_made import result, stack

from holdfast.changes.dependencies import blocked_result, needs, reversed_dependencies, with_dependencies
from holdfast.kernel.errors import Problem
from holdfast.plans.result import StackResult, awaiting_approval, exit_code, planned_later
from holdfast.plans.status import Status

NETWORK, EKS, APP = stack("network"), stack("eks", "network"), stack("app", "eks")


def settled(*results: StackResult, among: tuple[object, ...] = (NETWORK, EKS, APP)) -> dict[str, StackResult]:
    return with_dependencies({one.stack.name: one for one in results}, among)  # type: ignore[arg-type]


def test_a_stack_waits_for_what_it_names() -> None:
    """Chosen stacks wait for chosen dependencies, and for nothing else."""
    assert needs([APP, EKS, NETWORK], [APP, EKS, NETWORK]) == {
        "app": ("eks",),
        "eks": ("network",),
        "network": (),
    }


def test_order_goes_through_a_stack_that_is_not_chosen() -> None:
    """`app` waits for `network` though `eks`, which stands between them, is not part of the change."""
    assert needs([APP, NETWORK], [APP, EKS, NETWORK]) == {"app": ("network",), "network": ()}


def test_only_the_nearest_count() -> None:
    """What a dependency waits for itself need not be waited for twice."""
    everything = [stack("a"), stack("b", "a"), stack("c", "b"), stack("d", "c", "b")]
    assert needs(everything, everything)["d"] == ("b", "c")
    assert needs([everything[0], everything[3]], everything)["d"] == ("a",)


def test_a_pending_dependency_is_a_note() -> None:
    """A plan made before its dependency is applied says that it may change."""
    after = settled(result(NETWORK, Status.PLANNED), result(EKS, Status.PLANNED))["eks"]
    assert after.status is Status.PLANNED
    assert after.digest is not None
    assert after.notes == (
        "planned before network, which it depends on, was applied; the plan may change then",
    )


def test_a_pending_dependency_is_a_note_through_a_stack_that_is_not_chosen() -> None:
    """Who stands between does not hide that something pending stands before."""
    after = settled(result(NETWORK, Status.PLANNED), result(APP, Status.UNCHANGED))["app"]
    assert after.status is Status.UNCHANGED
    assert "network" in after.notes[0]


def test_a_dependency_without_changes_leaves_no_note() -> None:
    """Nothing pending, nothing said."""
    assert settled(result(NETWORK, Status.UNCHANGED), result(EKS, Status.PLANNED))["eks"].notes == ()


def test_what_cannot_be_planned_before_its_dependency_exists_is_blocked() -> None:
    """Terraform's plan fails while the dependency is pending: blocked, with Terraform's words."""
    after = settled(result(NETWORK, Status.PLANNED), result(EKS, Status.FAILED, "HF-TF-3"))["eks"]
    assert after.status is Status.BLOCKED
    assert after.error is not None
    assert after.error.code == "HF-RUN-3"
    assert "network, which is not applied yet" in after.error.message
    assert "eks says HF-TF-3" in after.error.message


@pytest.mark.parametrize("code", ["HF-TF-1", "HF-TF-2", "HF-ENG-1", "HF-FILE-1"])
def test_a_fault_of_its_own_is_not_blamed_on_a_pending_dependency(code: str) -> None:
    """Bad code is `failed`, exit 1, however much its dependency has yet to do."""
    after = settled(result(NETWORK, Status.PLANNED), result(EKS, Status.FAILED, code))
    assert after["eks"].status is Status.FAILED
    assert int(exit_code(tuple(after.values()))) == 1


@pytest.mark.parametrize(
    "status", [Status.FAILED, Status.BLOCKED, Status.LOCKED, Status.CANCELLED, Status.UNKNOWN]
)
def test_what_depends_on_a_failure_is_blocked_to_the_end(status: Status) -> None:
    """Everything behind a stack without a plan is blocked, and nothing beside it."""
    after = settled(
        result(NETWORK, status),
        result(EKS, Status.PLANNED),
        result(APP, Status.UNCHANGED),
        result(stack("beside"), Status.PLANNED),
    )
    assert [after[name].status for name in ("eks", "app", "beside")] == [
        Status.BLOCKED,
        Status.BLOCKED,
        Status.PLANNED,
    ]
    assert after["eks"].digest is None


@pytest.mark.parametrize(
    ("status", "exit_"), [(Status.UNKNOWN, 6), (Status.LOCKED, 4), (Status.REFUSED, 3), (Status.CANCELLED, 1)]
)
def test_a_graver_answer_is_never_hidden_by_blocked(status: Status, exit_: int) -> None:
    """An unknown outcome stays exit 6 though what it depends on is blocked too."""
    after = settled(result(NETWORK, Status.BLOCKED), result(EKS, status, "HF-STATE-3"), among=(NETWORK, EKS))
    assert after["eks"].status is status
    assert int(exit_code(tuple(after.values()))) == exit_


@pytest.mark.parametrize("status", [Status.PLANNED, Status.REFUSED, Status.WAITING])
@pytest.mark.parametrize("of", [Status.PLANNED, Status.UNCHANGED, Status.WAITING])
def test_whatever_is_yet_to_be_applied_is_pending(status: Status, of: Status) -> None:
    """Also what is refused or waits for people: it may be applied later."""
    after = settled(result(NETWORK, status), result(EKS, of))["eks"]
    assert after.status is of
    assert after.notes == (
        "planned before network, which it depends on, was applied; the plan may change then",
    )


def test_what_waits_for_people_is_not_hidden_by_a_failure_before_it() -> None:
    """It stays waiting, exit 5, and says what stands in its way."""
    after = settled(result(NETWORK, Status.FAILED), result(EKS, Status.WAITING))["eks"]
    assert after.status is Status.WAITING
    assert after.notes == ("depends on network, which failed",)


def test_one_fault_of_its_own_among_several_is_enough() -> None:
    """Only where nothing but the plan failed can a dependency be to blame."""
    failed = result(EKS, Status.FAILED, "HF-TF-3")
    for more in ((*failed.problems, Problem(code="HF-TF-2", message="bad code")), ()):
        own = structs.replace(failed, problems=more)
        assert settled(result(NETWORK, Status.PLANNED), own)["eks"].status is Status.FAILED


def test_an_end_goes_the_other_way() -> None:
    """What others need waits for them, and the words say so."""
    waits = needs([APP, EKS, NETWORK], [APP, EKS, NETWORK])
    assert reversed_dependencies(waits) == {"network": ("eks",), "eks": ("app",), "app": ()}
    stays = blocked_result(result(NETWORK, Status.PLANNED), "eks", Status.FAILED, destroys=True)
    assert stays.error is not None
    assert stays.error.message == "network is used by eks, which failed"
    assert stays.error.hint == "Destroy eks first: holdfast destroy eks"
    waiting = blocked_result(result(EKS, Status.PLANNED), "network", Status.FAILED)
    assert waiting.error is not None
    assert waiting.error.message == "eks depends on network, which failed"
    assert (stays.digest, waiting.digest) == (None, None)


def test_what_waits_for_an_approval_is_told_apart() -> None:
    """Also through a blocked stack. Its next step is the approval, not an apply, which cannot work."""
    network = result(NETWORK, Status.WAITING)
    eks = blocked_result(result(EKS, Status.PLANNED), "network", network.status)
    app = blocked_result(result(APP, Status.PLANNED), "eks", eks.status)
    assert awaiting_approval([network, eks, app]) == {"network", "eks", "app"}
    assert awaiting_approval([result(NETWORK, Status.FAILED), eks, app]) == frozenset()
    for stopped, hint in (
        (eks, "Get network approved first, as described there."),
        (app, "See what blocks eks."),
    ):
        assert stopped.error is not None
        assert stopped.error.hint == hint


def test_stacks_that_can_be_planned_only_after_others_are_counted() -> None:
    """Also through a blocked one; not where something failed on the way, for that must be fixed first."""
    no_plan = Problem(code="HF-TF-3", message="not there")
    lacks = [
        structs.replace(result(of, Status.FAILED), error=no_plan, problems=(no_plan,)) for of in (EKS, APP)
    ]
    after = settled(result(NETWORK, Status.PLANNED), *lacks)
    assert [after[name].blocked_by for name in ("eks", "app")] == ["network", "eks"]
    assert planned_later(after.values()) == 2
    assert planned_later(settled(result(NETWORK, Status.FAILED), *lacks).values()) == 0
    missing_output = result(EKS, Status.BLOCKED)
    assert planned_later(settled(result(NETWORK, Status.WAITING), missing_output).values()) == 1
    assert planned_later(settled(missing_output).values()) == 1
    assert planned_later(settled(result(NETWORK, Status.PLANNED), result(EKS, Status.PLANNED)).values()) == 0
