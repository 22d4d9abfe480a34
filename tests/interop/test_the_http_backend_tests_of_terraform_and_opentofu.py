"""The tests of the `http` backend in the source of Terraform and of OpenTofu, against our server.

Their handlers are replaced by `http_backend/adapter.go`, which passes every request on to the server. Nothing
else of the tests is changed. Needs Go and a Go module proxy; the first build takes some minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from other_tools import real
from server_made import made_server

from holdfast.database.database import Database

ADAPTER = Path(__file__).parent / "http_backend" / "adapter.go"
PACKAGE = "internal/backend/remote-state/http"


class Source(NamedTuple):
    module: str
    file: str
    """That has the handler."""
    handler: str
    tests: tuple[str, ...]
    """Those that send requests."""


TERRAFORM = Source(
    "github.com/hashicorp/terraform@v1.15.5",
    "test_backend.go",
    "TestHTTPBackend",
    ("TestHTTPClient", "TestHTTPClient_lockErrors", "TestMTLSServer_WithCertPasses"),
)
OPENTOFU = Source(
    "github.com/opentofu/opentofu@v1.12.6",
    "client_test.go",
    "testHTTPHandler",
    ("TestHTTPClient", "TestMTLSServer_WithCertPasses"),
)


@pytest.mark.long
@pytest.mark.parametrize("source", [TERRAFORM, OPENTOFU], ids=["terraform", "opentofu"])
def test_the_http_backend_tests(source: Source, database: Database, tmp_path: Path) -> None:
    go = real("go")
    folder = tmp_path / "source"
    shutil.copytree(_source_folder(go, source), folder, copy_function=shutil.copyfile)
    (folder / PACKAGE).chmod(0o700)  # Folders in Go's cache are read-only.
    _use_adapter(folder / PACKAGE, source)
    with made_server(database) as server:
        ran = subprocess.run(
            [go, "test", "-count=1", "-v", "-trimpath", f"./{PACKAGE}"],
            cwd=folder,
            env=_environment() | {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": server.admin},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.findall(r"^--- PASS: (\S+)", ran.stdout, re.MULTILINE)
    assert set(source.tests) <= set(passed), ran.stdout
    answers = Counter((line["method"], line["status"]) for line in server.log.lines if "method" in line)
    reached = {method for method, _ in answers}
    assert {"GET", "PUT", "POST", "DELETE", "LOCK", "UNLOCK"} <= reached, answers
    assert {status for _, status in answers} == {200, 404, 423}, answers


def _source_folder(go: Path, source: Source) -> Path:
    downloaded = subprocess.run(
        [go, "mod", "download", "-json", source.module],
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(downloaded.stdout or "{}")
    if "Dir" not in answer:
        pytest.skip(f"{source.module} cannot be downloaded: {answer.get('Error', downloaded.stderr)}")
    return Path(answer["Dir"])


def _use_adapter(package: Path, source: Source) -> None:
    """Their handlers get other names, and ours take their place."""
    names = {
        source.file: ((source.handler, "Handle"), (source.handler, "HandleWebDAV")),
        "server_test.go": (("httpServer", "handleState"),),
    }
    for name, handlers in names.items():
        text = (package / name).read_text()
        for type_, method in handlers:
            head = f"func (h *{type_}) {method}("
            assert text.count(head) == 1, head
            text = text.replace(head, f"func (h *{type_}) unused{method}(")
        (package / name).write_text(text)
    (package / "holdfast_test.go").write_text(ADAPTER.read_text().replace("HANDLER", source.handler))


def _environment() -> dict[str, str]:
    settings = {"GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    return {**os.environ, **settings}
