"""Which devices a rollout updates, and in which waves."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.fleet.rollout import DeviceResult, Wave, plan_rollout, rollout_key, waves_from
from holdfast.kernel.errors import Exit, UsageError

BLUEPRINT = {"name": "site", "version": "2", "digest": "new"}


def device(name: str, digest: str = "old", status: str = "present") -> dict[str, Any]:
    return {"blueprint": "site", "resource_id": name, "status": status, "blueprint_digest": digest}


@pytest.mark.parametrize(
    ("text", "devices", "ends"),
    [
        ("1,10%,100%", 40, (1, 4, 40)),
        ("1,10%,100%", 4, (1, 4)),
        ("1,10%,100%", 1, (1,)),
        ("5, 5, 50", 20, (5, 20)),
        ("10%", 25, (3, 25)),
        ("1", 0, ()),
    ],
)
def test_waves_end_with_all_devices(text: str, devices: int, ends: tuple[int, ...]) -> None:
    """Every wave has a device, and the last one ends with all of them."""
    assert waves_from(text).ends(devices) == ends


@pytest.mark.parametrize("text", ["", "0", "1,,2", "101%", "-1", "x", "1.5", "10 %", "²"])
def test_a_mistake_in_waves_is_named(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match="HF-USE-49"):
        waves_from(text)


def test_a_rollout_continues_with_the_wave_in_which_it_stopped() -> None:
    """Devices that have the version count for the waves, but get no event; incomplete ones never do."""
    devices = [device("a", "new"), device("b"), device("c"), device("d"), device("e", status="incomplete")]
    plan = plan_rollout(BLUEPRINT, devices, waves_from("1,50%,100%"))
    assert [[each["resource_id"] for each in wave] for wave in plan.waves] == [["b"], ["c", "d"]]
    assert (plan.total, plan.done) == (4, 1)
    assert [each["resource_id"] for each in plan.skipped] == ["e"]
    assert plan_rollout(BLUEPRINT, [device("a", "new")], waves_from("1")).waves == ()


def test_what_waits_or_is_gone_has_not_failed() -> None:
    """An unknown outcome is the most severe result of a wave."""
    statuses = ("succeeded", "gone", "waiting", "refused", "failed", "superseded", "running", "unknown")
    results = tuple(DeviceResult(resource_id="x", before="1", status=status) for status in statuses)
    assert [result.status for result in results if not result.failed] == ["succeeded", "gone", "waiting"]
    assert Wave(results=results).exit is Exit.UNKNOWN
    assert Wave(results=results[:3]).exit is Exit.WAITING
    assert Wave(results=results[:2]).exit is Exit.DONE


def test_a_key_belongs_to_a_version_a_device_and_a_try() -> None:
    """The same one twice is the same event on the server."""
    keys = {
        rollout_key("new", device("a"), 0),
        rollout_key("old", device("a"), 0),
        rollout_key("new", device("b"), 0),
        rollout_key("new", device("a"), 1),
    }
    assert len(keys) == 4
    assert rollout_key("new", device("a"), 0) in keys
    assert all(len(key) <= 255 and key.isascii() for key in keys)
