"""`holdfast blueprints`: a new one works, mistakes are named with their place, a server's are listed."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from answering import Answer, Answering, Asked, told
from blueprints_made import SETTINGS, make_blueprint
from program import ROOT, Program

from holdfast import __version__
from holdfast.fleet.blueprint import load_blueprint
from holdfast.fleet.payload import FILE_NAME, file_content, payload_problems
from holdfast.system.environment import Environment
from holdfast.system.source_archive import unpack

KEYS = (
    "name", "version", "description", "digest", "outputs", "deletion", "vanished", "concurrency",
    "payload_schema",
)  # fmt: skip
TOKEN = "hfs_token-of-the-test"
ENVIRONMENT = Environment(variables={})


def on_server(name: str) -> dict[str, object]:
    values = {"name": name, "version": "1.0", "outputs": ["id"], "deletion": "deny", "payload_schema": {}}
    return {**dict.fromkeys(KEYS), **values}


@pytest.fixture
def server() -> Iterator[Answering]:
    """Two pages of blueprints, as `GET /api/v1/blueprints` has them."""

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}" or asked.path != "/api/v1/blueprints":
            found = told({"code": "HF-SRV-1", "message": "no", "hint": None}, 404)
        elif asked.query.get("cursor") == "after-a":
            found = told({"version": 1, "blueprints": [on_server("b")], "next": None})
        else:
            found = told({"version": 1, "blueprints": [on_server("a")], "next": "after-a"})
        return Answer(
            status=found.status, body=found.body, headers={**found.headers, "Holdfast-Version": __version__}
        )

    with Answering(answer) as running:
        yield running


def test_a_new_blueprint_is_valid_and_can_be_applied(holdfast: Program, tmp_path: Path) -> None:
    """What workers get is run with a payload; the outputs are those that the client gets."""
    created = holdfast.json("blueprints", "new", "branch-site")
    assert created["folder"] == "blueprints/branch-site"
    document = holdfast.json("blueprints", "validate")
    assert document == holdfast.json("blueprints", "list") == {
        "version": 1, "blueprints": [created["blueprint"]],
    }  # fmt: skip
    assert tuple(created["blueprint"]) == KEYS
    blueprint = load_blueprint(
        holdfast.folder / created["folder"], Environment(variables=holdfast.environment)
    )
    assert blueprint.digest == created["blueprint"]["digest"]
    payload = {"site_name": "berlin-1", "networks": ["10.0.0.0/24"], "asn": None}
    assert payload_problems(blueprint.schema, payload) == ()
    wrong = payload_problems(blueprint.schema, {"site_name": "-", "asn": 0.5})
    assert [problem.path for problem in wrong] == ["/asn", "/site_name"]
    device = tmp_path / "device"
    unpack(BytesIO(blueprint.content), device)
    (device / FILE_NAME).write_bytes(file_content(payload))
    result = holdfast.json("apply", "device", "--yes", cwd=device)["stacks"][0]
    assert (result["status"], list(result["outputs"])) == ("applied", ["site_id"])


def test_what_comes_with_holdfast_can_be_copied(holdfast: Program) -> None:
    """Under a name of one's own, valid as it is."""
    command = ("blueprints", "new", "branch", "--from", "cato-ipsec-site")
    copied = holdfast.json(*command)["blueprint"]
    assert (copied["name"], copied["outputs"]) == ("branch", ["site_id", "bgp_peer_id"])
    assert holdfast.json("blueprints", "validate")["blueprints"] == [copied]
    assert holdfast.json(*command, code=64)["errors"][0]["code"] == "HF-BLUE-10"
    wrong = holdfast.ok("blueprints", "new", "other", "--from", "../x", code=64).err
    assert "HF-BLUE-11" in wrong
    assert "cato-ipsec-site, versa-site" in wrong


def test_the_wheel_has_the_blueprints(holdfast: Program, tmp_path: Path) -> None:
    """And the program finds them there, without the source."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    holdfast.environment["PYTHONPATH"] = str(tmp_path / "installed")
    copied = holdfast.json("blueprints", "new", "versa-site", "--from", "versa-site")["blueprint"]
    assert copied["digest"] == load_blueprint(ROOT / "blueprints/versa-site", ENVIRONMENT).digest


def test_an_existing_folder_is_not_touched(holdfast: Program) -> None:
    holdfast.write("blueprints/site/main.tf", "# mine\n")
    error = holdfast.json("blueprints", "new", "site", code=64)["errors"][0]
    assert (error["code"], bool(error["hint"])) == ("HF-BLUE-10", True)
    assert [path.name for path in (holdfast.folder / "blueprints/site").iterdir()] == ["main.tf"]
    assert holdfast.json("blueprints", "new", "../site", code=64)["errors"][0]["code"] == "HF-BLUE-9"
    assert holdfast.json("blueprints", "new", "site", "--folder", "other")["folder"] == "other/site"


@pytest.mark.parametrize("name", ["true", "1.10", "0x1f", "a@b+c"])
def test_any_name_is_written_as_text(holdfast: Program, name: str) -> None:
    assert holdfast.json("blueprints", "new", name)["blueprint"]["name"] == name


def test_every_mistake_in_every_folder_is_listed(holdfast: Program) -> None:
    make_blueprint(holdfast.folder / "one", settings=SETTINGS + "stack: {}\n")
    make_blueprint(holdfast.folder / "two", settings=SETTINGS.replace("[site_id]", "[site_ids]"))
    errors = holdfast.json("blueprints", "validate", "one", "two", code=64)["errors"]
    assert [(error["code"], error["file"], error["line"]) for error in errors] == [
        ("HF-CONF-4", "one/blueprint.yaml", 6),
        ("HF-BLUE-7", "two/blueprint.yaml", 4),
    ]
    shown = holdfast.run("blueprints", "validate", "two")
    assert shown.code == 64
    assert "two/blueprint.yaml:4" in shown.err
    assert holdfast.json("blueprints", "validate", "none", code=64)["errors"][0]["code"] == "HF-BLUE-1"


def test_the_blueprints_of_a_server_are_listed(holdfast: Program, server: Answering) -> None:
    """All pages of it. A folder wins over HOLDFAST_URL."""
    make_blueprint(holdfast.folder / "here")
    token = {"HOLDFAST_TOKEN": TOKEN}
    document = holdfast.json("blueprints", "list", "--server", server.url, env=token)
    assert document == {"version": 1, "blueprints": [on_server("a"), on_server("b")]}
    by_variable = {**token, "HOLDFAST_URL": server.url}
    assert holdfast.json("blueprints", "list", env=by_variable) == document
    shown = holdfast.ok("blueprints", "list", env=by_variable).out
    assert "deletion: deny" in shown
    assert "2 blueprints" in shown
    assert [asked.query.get("limit") for asked in server.asked] == ["200"] * 6
    local = holdfast.json("blueprints", "list", "here", env=by_variable)
    assert [each["name"] for each in local["blueprints"]] == ["site"]
    assert len(server.asked) == 6
    both = holdfast.json("blueprints", "list", "here", "--server", server.url, env=token, code=64)
    assert both["errors"][0]["code"] == "HF-USE-4"
    refused = holdfast.run("blueprints", "list", "--server", server.url, env={"HOLDFAST_TOKEN": "other"})
    assert refused.code != 0
    assert json.dumps("other") not in refused.text
