from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provider import service as service_module
from provider.service import Fault, LabService
from workbench import Engine, Workbench, eventually

_TWO = 'resource "lab_object" "it" {\n  for_each = toset(["a", "b"])\n  name     = each.key\n}\n'
_ONE = 'resource "lab_object" "it" {\n  name = "a"\n}\n'


def _asked(url: str, method: str = "GET", body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method=method)  # noqa: S310 (loopback)
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 (loopback)
        return json.loads(answer.read())


def test_objects_live_behind_the_service(served: Workbench, service: LabService) -> None:
    """Create, drift, update and destroy go through the service, and it reports each call."""
    served.write(_ONE + 'data "lab_object" "it" {\n  name = "seen"\n}\n')
    service.put("seen-1", {"name": "seen", "body": "x"})
    served.apply()
    ((made, values),) = [(key, value) for key, value in service.objects().items() if key != "seen-1"]
    assert values["name"] == "a"
    assert served.planned() == {}

    service.put(made, {"body": "theirs"})
    assert served.planned() == {"lab_object.it": "update"}
    served.apply()
    service.remove(made)
    assert served.planned() == {"lab_object.it": "create"}
    served.apply()
    served.run("destroy", "-auto-approve", "-input=false")

    assert list(service.objects()) == ["seen-1"]
    changes = [call.operation for call in service.calls() if call.operation not in ("read", "find")]
    assert changes == ["create", "update", "create", "delete"]
    assert all(call.status in (200, 201, 404) for call in service.calls())


def test_import_finds_objects_behind_the_service(served: Workbench, service: LabService) -> None:
    """By id and by name, as with files; and what is missing is said."""
    service.put("obj-1", {"name": "a/b c"})
    served.write('resource "lab_object" "it" {\n  name = "a/b c"\n}\n')
    for key in ("obj-1", "a/b c"):
        served.run("import", "-input=false", "lab_object.it", key)
        assert served.instances()["lab_object.it"]["attributes"]["id"] == "obj-1"
        served.run("state", "rm", "lab_object.it")
    said = served.run("import", "-input=false", "-no-color", "lab_object.it", "nothing", exits=1)
    assert "There is no such lab object" in said


def test_a_failure_before_creating_leaves_nothing(served: Workbench, service: LabService) -> None:
    """The service's text and status reach the user, and only the object that failed is missing."""
    service.misbehave(
        Fault(operation="create", what="fail-before", name="b", status=503, text="No room today.")
    )
    served.write(_TWO)
    said = served.apply(exits=1)
    assert "The lab service refused to create: 503 Service Unavailable" in said
    assert "No room today." in said
    assert [each["name"] for each in service.objects().values()] == ["a"]
    assert served.planned() == {'lab_object.it["b"]': "create"}


def test_a_failure_after_creating_leaves_an_object_that_no_state_knows(
    served: Workbench, service: LabService
) -> None:
    """The next plan wants to create what already stands: the mistake that a careful tool must catch."""
    service.misbehave(Fault(operation="create", what="fail-after"))
    served.write(_ONE)
    assert "500 Internal Server Error" in served.apply(exits=1)
    assert len(service.objects()) == 1
    assert served.instances() == {}
    assert served.planned() == {"lab_object.it": "create"}


def test_throttled_calls_are_429_with_a_text_and_counted(served: Workbench, service: LabService) -> None:
    """The next two creates are throttled, the third is not."""
    service.misbehave(Fault(operation="create", what="throttle", count=2))
    served.write(_TWO)
    said = served.apply(exits=1)
    assert said.count("429 Too Many Requests") == 2
    assert "Rate exceeded" in said
    served.apply()
    assert [call.status for call in service.calls("create")] == [429, 429, 201, 201]


def test_update_and_delete_can_fail_too(served: Workbench, service: LabService) -> None:
    """A failed update or delete keeps the object in the state as it was."""
    served.write(_ONE)
    served.apply()
    before = served.instances()
    service.misbehave(Fault(operation="update", what="fail-before"))
    served.write(_ONE.replace("}", '  body = "new"\n}'))
    assert "refused to update: 500" in served.apply(exits=1)
    assert served.instances()["lab_object.it"]["attributes"] == before["lab_object.it"]["attributes"]
    service.misbehave(Fault(operation="delete", what="fail-before"))
    assert "refused to delete: 500" in served.run("destroy", "-auto-approve", "-no-color", exits=1)
    assert list(served.instances()) == ["lab_object.it"]
    service.misbehave(Fault(operation="read", what="fail-before"))
    assert "refused to read: 500" in served.run("plan", "-no-color", exits=1)


def test_delays_are_kept(served: Workbench, service: LabService) -> None:
    """A delayed create is answered late, and well."""
    service.misbehave(Fault(operation="create", what="delay", seconds=0.3))
    served.write(_ONE)
    served.apply()
    (call,) = service.calls("create")
    assert call.ended is not None
    assert call.ended - call.started >= 0.3


def test_a_service_that_is_not_there_is_an_error_of_its_own(bench_of: Callable[..., Workbench]) -> None:
    """No answer at all is told apart from an answer that refuses."""
    with LabService() as gone:
        url = gone.url
    bench = bench_of(LAB_URL=url)
    bench.write(_ONE)
    assert "The lab service did not answer" in bench.apply(exits=1)


def test_an_interrupt_lets_the_running_create_reach_the_state(
    engine: Engine, *, tls: bool, bench_of: Callable[..., Workbench], service: LabService
) -> None:
    """After one SIGINT the object being made is in the state, and no provider process is left."""
    bench = bench_of(engine, tls=tls, LAB_URL=service.url)
    bench.write(_ONE)
    service.misbehave(Fault(operation="create", what="hold"))
    with bench.start("apply", "-auto-approve", "-input=false", "-no-color") as process:
        eventually(lambda: service.calls("create"), what="the create arrives")
        assert bench.providers()
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        for line in process.stdout:
            if "Stopping operation" in line:
                break
        service.release()
        rest = process.stdout.read()
    assert process.returncode == 1, rest
    assert list(bench.instances()) == ["lab_object.it"]
    assert bench.instances()["lab_object.it"]["attributes"]["id"] in service.objects()
    assert bench.providers() == []
    assert list(bench.scratch.glob("lab-*")) == []


def test_no_provider_outlives_a_killed_terraform(
    engine: Engine, bench_of: Callable[..., Workbench], service: LabService
) -> None:
    """SIGKILL of Terraform ends its providers, though the service goes on with what it was asked."""
    bench = bench_of(engine, LAB_URL=service.url)
    bench.write(_ONE)
    service.misbehave(Fault(operation="create", what="hold", before=True))
    with bench.start("apply", "-auto-approve", "-input=false") as process:
        eventually(lambda: service.calls("create"), what="the create arrives")
        assert bench.providers()
        process.kill()
        process.communicate()
    eventually(lambda: not bench.providers(), what="the provider ends", within=10)
    assert service.objects() == {}
    service.release()
    eventually(service.objects, what="the object is made after the kill")


def test_a_slow_directory_has_made_the_object_before_it_answers(
    bench_of: Callable[..., Workbench], objects: Path
) -> None:
    """With a delay the file is there while Terraform still waits: a killed run loses it from the state."""
    bench = bench_of(LAB_DIRECTORY=str(objects), LAB_DELAY="60")
    bench.write(_ONE)
    with bench.start("apply", "-auto-approve", "-input=false") as process:
        eventually(lambda: list(objects.glob("*.json")), what="the object is made")
        assert process.poll() is None
        process.kill()
        process.communicate()
    eventually(lambda: not bench.providers(), what="the provider ends", within=10)
    assert len(list(objects.glob("*.json"))) == 1
    quick = bench_of(LAB_DIRECTORY=str(objects))
    assert quick.planned("-lock=false") == {"lab_object.it": "create"}


def test_the_service_is_told_and_asked_over_http() -> None:
    """As a program of its own it serves the same: objects, faults, release and calls."""
    program = Path(service_module.__file__)
    with subprocess.Popen(
        [sys.executable, program, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            made = _asked(f"{url}/objects", "POST", {"name": "a", "secret": "hush"})
            assert _asked(f"{url}/objects?name=a") == {"objects": [made]}
            assert _asked(f"{url}/objects/{made['id']}", "PUT", {"body": "b"}) == {**made, "body": "b"}
            _asked(f"{url}/faults", "POST", {"operation": "read", "what": "throttle", "text": "slow down"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                _asked(f"{url}/objects/{made['id']}")
            assert (refused.value.code, refused.value.read()) == (429, b"slow down\n")
            refused.value.close()
            assert _asked(f"{url}/objects/{made['id']}", "DELETE")["id"] == made["id"]
            calls = _asked(f"{url}/calls")["calls"]
            assert [(call["operation"], call["status"]) for call in calls] == [
                ("create", 201), ("find", 200), ("update", 200), ("read", 429), ("delete", 200),
            ]  # fmt: skip
            assert "hush" not in json.dumps(calls)
            _asked(f"{url}/calls", "DELETE")
            assert _asked(f"{url}/calls") == {"calls": []}
        finally:
            os.kill(process.pid, signal.SIGINT)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/faults", {"operation": "dance", "what": "throttle"}, 400),
        ("POST", "/faults", {"operation": "read", "what": "explode"}, 400),
        ("POST", "/faults", {"operation": "read", "what": "throttle", "more": 1}, 400),
        ("POST", "/objects", ["not", "an", "object"], 400),
        ("PUT", "/objects", {}, 404),
        ("GET", "/elsewhere", None, 404),
    ],
)
def test_the_service_refuses_what_it_does_not_understand(
    service: LabService, method: str, path: str, body: object, status: int
) -> None:
    """A fault with a typing error must not pass for one that was set."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        _asked(service.url + path, method, body)
    assert refused.value.code == status
    refused.value.close()
