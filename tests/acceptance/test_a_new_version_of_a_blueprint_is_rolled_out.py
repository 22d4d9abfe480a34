"""`holdfast blueprints rollout`: wave after wave, until too many devices fail; then it is continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blueprints_made import make_blueprint
from fleet_commands import CODE, Commands
from fleet_made import SETTINGS, SITE, fleet_of
from program import Program

REQUIRED = 'variable "region" {\n  type = string\n}\n'


@pytest.mark.long
def test_a_rollout_stops_at_a_failure_and_is_continued(holdfast: Program, tmp_path: Path) -> None:
    """A device that fails keeps later waves as they are; what is done is not done again."""
    blueprints, names = tmp_path / "blueprints", ("a", "b", "c", "d")
    make_blueprint(blueprints / "site", settings=SETTINGS, code=SITE)
    with fleet_of(holdfast, tmp_path, blueprints) as admin:
        mine = Commands(holdfast, admin.as_role("operator", "client"))
        for name in names:
            mine.submit("create", name, "--set", f"site_name={'boom' if name == 'b' else name}")
        assert "4 devices have site 1.0.0" in mine.ok("blueprints", "rollout", "site").out

    make_blueprint(blueprints / "site", settings=SETTINGS.replace("1.0.0", "1.1.0"), code=CODE)
    with fleet_of(holdfast, tmp_path, blueprints) as admin:
        mine = Commands(holdfast, admin.as_role("operator", "client"))
        rollout = ("blueprints", "rollout", "site", "--waves", "1,50%,100%")
        assert "HF-USE-5 " in mine.ok(*rollout, code=64).err, "it asks before it begins"
        assert versions(mine) == dict.fromkeys(names, "1.0.0")

        stopped = mine.ok(*rollout, "--yes", code=1).out
        assert "3 waves of 1, 1, 2" in stopped
        assert "Wave 2 of 3: 1 device\n" in stopped
        assert "The vendor does not accept this site." in stopped
        assert "Stopped: 3 devices left to update" in stopped
        assert versions(mine) == {"a": "1.1.0", "b": "1.0.0", "c": "1.0.0", "d": "1.0.0"}

        again = mine.json(*rollout, "--yes", code=1)
        (wave,) = again["waves"]
        assert [device["resource_id"] for device in wave["devices"]] == ["b"]
        assert wave["devices"][0]["event"] not in stopped, "it was tried again"

        tolerant = mine.json(*rollout, "--yes", "--max-failures", "1", code=1)
        assert (tolerant["updated"], tolerant["left"]) == (2, 1)
        mine.submit("update", "b", "--set", "site_name=b")
        finished = mine.json(*rollout)
        assert (finished["waves"], finished["left"]) == ([], 0)
        assert versions(mine) == dict.fromkeys(names, "1.1.0")
        outputs = mine.json("events", "list", "--device", "site/d", "--limit", "1")["events"][0]["outputs"]
        assert outputs == {"site": {"name": "d", "size": 1}}, "a device keeps its payload"

    make_blueprint(blueprints / "site", settings=SETTINGS.replace("1.0.0", "2.0.0"), code=CODE + REQUIRED)
    with fleet_of(holdfast, tmp_path, blueprints) as admin:
        mine = Commands(holdfast, admin.as_role("operator", "client"))
        refused = mine.json("blueprints", "rollout", "site", "--yes", code=3)
        (device,) = refused["waves"][0]["devices"]
        assert (device["status"], device["event"]) == ("refused", None)
        assert device["error"]["code"] == "HF-EVENT-15"
        assert "at /payload/region: is required" in device["error"]["message"]


def versions(mine: Commands) -> dict[str, Any]:
    listed = mine.json("devices", "list", "--blueprint", "site")["devices"]
    return {device["resource_id"]: device["blueprint_version"] for device in listed}
