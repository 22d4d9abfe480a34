"""One call creates, changes or deletes a device, and returns its outputs."""

from __future__ import annotations

from pathlib import Path

from fleet_made import fleet
from program import Program


def test_a_device_is_created_updated_and_deleted_in_one_call_each(holdfast: Program, tmp_path: Path) -> None:
    """With its outputs, its state under its own name, and every mistake at its place."""
    with fleet(holdfast, tmp_path) as client:
        created = client.submit("create", "branch-1", {"site_name": "one"})
        assert created.status == 200, created.body
        assert created.body["status"] == "succeeded", created.body
        assert created.body["outputs"] == {"site": {"name": "one", "size": 1}}
        assert set(created.body["timings"]) == {"queued", "init", "plan", "apply"}
        updated = client.submit("update", "branch-1", {"site_name": "one", "size": 2})
        assert updated.body["outputs"] == {"site": {"name": "one", "size": 2}}
        assert updated.body["plan"]["changes"]["update"] == 1

        refused = client.submit("update", "branch-1", {"size": "x", "sice": 1})
        assert refused.status == 422
        assert {error["path"] for error in refused.body["errors"]} == {
            "/payload/site_name",
            "/payload/size",
            "/payload/sice",
        }
        assert client.submit("create", "branch-1", {"site_name": "one"}).status == 409
        assert client.submit("update", "branch-2", {"site_name": "two"}).status == 409

        deleted = client.submit("delete", "branch-1")
        assert deleted.body["status"] == "succeeded", deleted.body
        assert client.request("GET", "/api/v1/devices").body["devices"] == []
        (device,) = client.request("GET", "/api/v1/devices?status=absent").body["devices"]
        assert device["state"] == "fleet/default/site/branch-1"
