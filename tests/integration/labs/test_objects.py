from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from provider import mirror
from workbench import Engine, Workbench

_ADDRESS = "lab_object.it"


def _it(**attributes: str) -> str:
    lines = "".join(f"  {name} = {json.dumps(value)}\n" for name, value in attributes.items())
    return f'resource "lab_object" "it" {{\n{lines}}}\n'


def _stored(objects: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_bytes()) for path in sorted(objects.glob("*.json"))]


def test_an_object_lives_through_create_update_replace_and_destroy(
    engine: Engine, *, tls: bool, bench_of: Callable[..., Workbench], objects: Path
) -> None:
    """Each change is made as what it is, and what stands as it should is left alone."""
    bench = bench_of(engine, tls=tls, LAB_DIRECTORY=str(objects))

    bench.write(_it(name="First", body="one", replace="x"))
    assert "1 added, 0 changed, 0 destroyed" in bench.apply()
    first = bench.instances()[_ADDRESS]["attributes"]
    assert first["id"].startswith("first-")
    assert _stored(objects) == [first]
    assert bench.planned() == {}

    bench.write(_it(name="First", body="two", kind="plain", secret="hush", replace="x"))
    assert "0 added, 1 changed, 0 destroyed" in bench.apply()
    assert _stored(objects) == [{**first, "body": "two", "kind": "plain", "secret": "hush"}]

    bench.write(_it(name="First", body="two", kind="plain", secret="hush", replace="y"))
    assert "1 added, 0 changed, 1 destroyed" in bench.apply()
    (replaced,) = _stored(objects)
    assert replaced["id"] != first["id"]
    assert bench.planned() == {}

    assert bench.planned("-destroy") == {_ADDRESS: "delete"}
    bench.run("destroy", "-auto-approve", "-input=false")
    assert _stored(objects) == []
    assert bench.instances() == {}
    assert bench.providers() == []


def test_plan_documents_tell_unknown_sensitive_and_replaced(bench: Workbench) -> None:
    """The id is unknown before it is made, the secret is marked, and a replacement says why."""
    bench.write(_it(name="a", secret="hush"))
    (change,) = bench.plan_document()["resource_changes"]
    assert change["change"]["actions"] == ["create"]
    assert change["change"]["after_unknown"] == {"id": True}
    assert change["change"]["after_sensitive"] == {"secret": True}
    assert "hush" not in bench.apply()

    bench.write(_it(name="renamed", secret="hush", replace="now"))
    (change,) = bench.plan_document()["resource_changes"]
    assert change["change"]["actions"] == ["delete", "create"]
    assert change["change"]["replace_paths"] == [["replace"]]
    assert change["action_reason"] == "replace_because_cannot_update"


def test_what_was_changed_outside_is_seen(bench: Workbench, objects: Path) -> None:
    """An edited file is an update back, a removed one a new create."""
    bench.write(_it(name="a", body="mine"))
    bench.apply()
    (path,) = objects.glob("*.json")

    path.write_text(json.dumps({**json.loads(path.read_bytes()), "body": "theirs"}))
    assert bench.planned() == {_ADDRESS: "update"}
    bench.apply()
    assert json.loads(path.read_bytes())["body"] == "mine"

    path.unlink()
    assert bench.planned() == {_ADDRESS: "create"}


def test_import_by_id_and_by_name(bench: Workbench, objects: Path) -> None:
    """What stands already is taken over under its own id, and nothing is left to change."""
    bench.write(_it(name="a", body="b"))
    bench.apply()
    made = bench.instances()[_ADDRESS]["attributes"]

    for key in (made["id"], "a"):
        bench.run("state", "rm", _ADDRESS)
        bench.run("import", "-input=false", _ADDRESS, key)
        assert bench.instances()[_ADDRESS]["attributes"] == made
        assert bench.planned() == {}
    assert _stored(objects) == [made]


def test_import_of_what_is_not_there_or_not_unique_is_refused(bench: Workbench, objects: Path) -> None:
    """A missing key and a name that two objects bear are each said clearly, and nothing is imported."""
    bench.write(_it(name="a"))
    said = bench.run("import", "-input=false", "-no-color", _ADDRESS, "nothing", exits=1)
    assert "There is no such lab object" in said
    assert 'No object has the id or the name "nothing"' in said

    objects.mkdir()
    for each in ("twin-1", "twin-2"):
        (objects / f"{each}.json").write_text(json.dumps({"id": each, "name": "twin"}))
    said = bench.run("import", "-input=false", "-no-color", _ADDRESS, "twin", exits=1)
    assert "twin-1, twin-2" in said
    assert not (bench.folder / "terraform.tfstate").exists()


def test_data_sources_read_objects_and_the_environment(
    engine: Engine, bench_of: Callable[..., Workbench], objects: Path
) -> None:
    """An object is found by id and by name; the environment is the one that this run was given."""
    bench = bench_of(engine, LAB_DIRECTORY=str(objects), GIVEN="yes")
    bench.write(
        _it(name="a", body="b")
        + 'data "lab_object" "by_id" { id = lab_object.it.id }\n'
        + 'data "lab_object" "by_name" {\n  name = "a"\n  depends_on = [lab_object.it]\n}\n'
        + 'data "lab_environment" "it" { names = ["GIVEN", "NOT_GIVEN"] }\n'
        + 'output "bodies" { value = [data.lab_object.by_id.body, data.lab_object.by_name.body] }\n'
        + 'output "values" { value = data.lab_environment.it.values }\n'
        + 'output "pid" { value = data.lab_environment.it.pid }\n'
    )
    bench.apply()
    outputs = json.loads(bench.run("output", "-json"))
    assert outputs["bodies"]["value"] == ["b", "b"]
    assert outputs["values"]["value"] == {"GIVEN": "yes"}
    assert outputs["pid"]["value"] > 0


def test_a_data_source_that_finds_nothing_fails(bench: Workbench) -> None:
    """A plan that needs an object that is not there says which."""
    bench.write('data "lab_object" "it" { name = "missing" }\n')
    said = bench.run("plan", "-input=false", "-no-color", exits=1)
    assert 'No object has the id or the name "missing"' in said


def test_a_place_for_objects_must_be_given_once(bench_of: Callable[..., Workbench], objects: Path) -> None:
    """Neither place and both places are refused; the configuration goes before the environment."""
    nowhere = bench_of(folder="nowhere")
    nowhere.write(_it(name="a"))
    assert "does not know where objects are kept" in nowhere.run("plan", "-no-color", exits=1)

    both = bench_of(folder="both", LAB_DIRECTORY=str(objects), LAB_URL="http://127.0.0.1:1")
    both.write(_it(name="a"))
    assert "Give either LAB_DIRECTORY or LAB_URL" in both.run("plan", "-no-color", exits=1)
    both.write(f'provider "lab" {{ directory = "{objects}" }}\n' + _it(name="a"))
    both.apply()
    assert len(_stored(objects)) == 1


def test_a_kind_can_fail_on_purpose(bench_of: Callable[..., Workbench], objects: Path) -> None:
    """Each kind leaves the world, the state and the next plan as it promises."""
    bench = bench_of(LAB_DIRECTORY=str(objects))

    bench.write(_it(name="a", kind="fail-create"))
    assert "The create failed on purpose" in bench.apply(exits=1)
    assert (_stored(objects), bench.instances()) == ([], {})

    bench.write(_it(name="a", kind="lose-create"))
    assert "The answer was lost" in bench.apply(exits=1)
    assert (len(_stored(objects)), bench.instances()) == (1, {})

    bench.write(_it(name="a", kind="taint-create"))
    assert "The object is not ready" in bench.apply(exits=1)
    assert bench.instances()[_ADDRESS]["status"] == "tainted"
    assert bench.planned() == {_ADDRESS: "replace"}
    bench.run("untaint", _ADDRESS)

    bench.write(_it(name="a", kind="fail-update"))
    assert "The update failed on purpose" in bench.apply(exits=1)
    assert bench.instances()[_ADDRESS]["attributes"]["kind"] == "taint-create"

    bench.write(_it(name="a", kind="fail-delete"))
    bench.apply()
    assert "The delete failed on purpose" in bench.run("destroy", "-auto-approve", "-no-color", exits=1)
    assert list(bench.instances()) == [_ADDRESS]

    bench.write(_it(name="a", kind="fail-read"))
    bench.apply()
    assert "The read failed on purpose" in bench.run("plan", "-no-color", exits=1)


def test_the_example_of_the_readme_works(bench: Workbench, objects: Path) -> None:
    """Who follows the page gets what it says."""
    page = Path(mirror.__file__).with_name("README.md").read_text(encoding="utf-8")
    bench.folder.mkdir()
    (bench.folder / "main.tf").write_text(page.partition("```hcl\n")[2].partition("```")[0])
    bench.run("init", "-input=false")
    bench.apply()
    (stored,) = _stored(objects)
    assert str(stored["id"]).startswith("server-")
    assert json.loads(bench.run("output", "-json"))["id"]["value"] == stored["id"]
