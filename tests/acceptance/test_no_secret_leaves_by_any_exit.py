from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from lab_stacks import lab_module
from program import Program, Ran

from provider.service import Fault, LabService

VARIABLE = 'canary/of+the"variable'
REFERENCE = "canary-of-the-reference"
ENVIRONMENT = "canary-of-the-environment"
ATTRIBUTE = "canary-of-the-attribute"
COMPUTED = "canary-of-the-computed-local"
NUMBER = 86420975
CANARIES = (VARIABLE, REFERENCE, ENVIRONMENT, ATTRIBUTE, COMPUTED, str(NUMBER))
SHORT = "q7z"
"""Too short to be searched for: it is hidden where it is marked."""

CODE = f"""
variable "url" {{}}
variable "password" {{
  sensitive = true
}}
variable "reference" {{}}
variable "pin" {{
  sensitive = true
}}
variable "port" {{
  sensitive = true
}}
variable "kind" {{
  default = ""
}}
provider "lab" {{
  url = var.url
}}
locals {{
  computed = sensitive(join("-", ["canary", "of", "the", "computed", "local"]))
}}
resource "lab_object" "one" {{
  name   = "one"
  kind   = var.kind
  body   = nonsensitive(base64encode("user:${{var.password}}"))
  secret = "{ATTRIBUTE}"
}}
resource "terraform_data" "two" {{
  input = {{
    password = var.password
    computed = local.computed
    port     = var.port
  }}
  provisioner "local-exec" {{
    command = "echo said \\"$CANARY\\"; echo '${{nonsensitive(var.password)}}' >&2; echo ${{var.reference}}"
  }}
}}
data "lab_environment" "here" {{
  names = ["CANARY"]
}}
output "marked" {{
  sensitive = true
  value     = {{ password = var.password, pin = var.pin }}
}}
output "unmarked" {{
  value = {{
    plain  = nonsensitive(var.password)
    base64 = nonsensitive(base64encode(var.password))
    url    = nonsensitive(urlencode(var.password))
    json   = nonsensitive(jsonencode({{ nested = jsonencode([var.password]) }}))
    lines  = "first\\n${{var.reference}}\\nlast"
    port   = nonsensitive(var.port)
  }}
}}
output "environment" {{
  value = data.lab_environment.here.values
}}
output "harmless" {{
  value = "seen"
}}
"""


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as service:
        yield service


@pytest.fixture
def repository(with_lab: Program, service: LabService, workplace: Path, tmp_path: Path) -> Program:
    (tmp_path / "reference").write_text(REFERENCE + "\n")
    # A short path: the sockets of providers lie below it.
    scratch = Path(tempfile.mkdtemp(prefix="s", dir=workplace))
    with_lab.environment |= {"OUTER_CANARY": ENVIRONMENT, "TMPDIR": str(scratch)}
    with_lab.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{dev: {{match: [dev]}}}}
        stacks:
          - name: canaries
            module: module
            environment: dev
            variables_files: [canaries.tfvars]
            variables:
              url: "{service.url}"
              reference: {{secret: "file:{tmp_path / "reference"}"}}
            env: {{CANARY: {{secret: "env:OUTER_CANARY"}}}}
        """,
    )
    with_lab.write("module/main.tf", lab_module(CODE))
    with_lab.write(
        "canaries.tfvars",
        f"password = {json.dumps(VARIABLE)}\npin = {json.dumps(SHORT)}\nport = {NUMBER}\n",
    )
    return with_lab


def forms(canary: str) -> set[str]:
    """As it is, and in the encodings that travel through Terraform."""
    inner = base64.b64encode(b"user:" + canary.encode()).decode()[8:-4]
    return {
        canary,
        json.dumps(canary)[1:-1],
        json.dumps(json.dumps(canary))[3:-3],
        quote(canary, safe=""),
        base64.b64encode(canary.encode()).decode().rstrip("="),
        inner,
        canary.encode().hex(),
    }


FORMS = sorted({form for canary in CANARIES for form in forms(canary)})


def shown(ran: Ran) -> Ran:
    found = [form for form in FORMS if form in ran.text]
    assert found == [], ran.text
    assert "Traceback" not in ran.text, ran.text
    return ran


def test_no_command_shows_or_leaves_a_secret(repository: Program, tmp_path: Path) -> None:
    """Each command, as text and as JSON, on a stack full of secrets; then every file that is left."""
    written = {file for file in repository.folder.rglob("*") if file.is_file()}
    bundle = tmp_path / "bundle"
    shown(repository.ok("stacks"))
    shown(repository.ok("plan", "--verbose"))
    shown(repository.ok("plan", "--json", "--out", str(bundle)))
    applied = shown(repository.ok("apply", "--plan", str(bundle)))
    assert "harmless" in applied.text
    shown(repository.ok("output", "canaries"))
    outputs = json.loads(shown(repository.ok("output", "canaries", "--json")).out)["outputs"]
    assert outputs["harmless"] == {"value": "seen", "sensitive": False}
    assert outputs["marked"] == {"value": None, "sensitive": True}
    assert outputs["unmarked"]["value"] == {
        "plain": "***",
        "base64": "***",
        "url": "***",
        "json": '{"nested":"[\\"***\\"]"}',
        "lines": "first\n***\nlast",
        "port": "***",
    }
    assert outputs["environment"]["value"] == {"CANARY": "***"}
    assert shown(repository.ok("state", "list", "canaries")).out.split() == [
        "lab_object.one",
        "terraform_data.two",
    ]
    shown(repository.ok("doctor", "--json"))
    shown(repository.ok("apply", "--yes", "--json"))
    (run,) = (one["id"] for one in repository.json("runs", "list")["runs"] if one["status"] == "applied")
    log = shown(repository.ok("runs", "log", run, env={"OUTER_CANARY": None}))
    assert "said ***" in log.text
    shown(repository.ok("runs", "log", run, "--json"))
    shown(repository.ok("runs", "show", run))
    shown(repository.ok("state", "show", "canaries", "--json"))
    _nothing_is_left(repository, written, tmp_path)


def test_no_record_report_or_version_shows_a_secret(repository: Program, tmp_path: Path) -> None:
    """What people said, what pull requests are told, what versions of states differ in, and the way back."""
    written = {file for file in repository.folder.rglob("*") if file.is_file()}
    bundle, actions = tmp_path / "bundle", tmp_path / "user"
    telling = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(actions / "summary"),
        "GITHUB_OUTPUT": str(actions / "output"),
        "RUNNER_TEMP": str(actions),
    }
    report = shown(repository.ok("plan", "--format", "markdown"))
    assert "lab_object.one" in report.out
    shown(repository.ok("plan", "--github", env=telling))
    assert (actions / "summary").read_text()
    shown(repository.ok("secrets", "check"))
    repository.ok("apply", "--yes")
    repository.write("canaries.tfvars", (repository.folder / "canaries.tfvars").read_text() + 'kind = "b"\n')
    repository.ok("apply", "--yes")
    shown(repository.ok("state", "versions", "canaries"))
    shown(repository.ok("state", "diff", "canaries", "1"))
    shown(repository.ok("state", "diff", "canaries", "1", "--json"))
    said = f"because {REFERENCE} is {VARIABLE}"
    planned = shown(repository.ok("plan", "--destroy", "--json", "--out", str(bundle)))
    digest = json.loads(planned.out)["stacks"][0]["digest"]
    shown(repository.ok("apply", "--plan", str(bundle), "--override", digest, "--reason", said))
    shown(repository.ok("state", "rollback", "canaries", "2", "--yes"))
    shown(repository.ok("audit", "show"))
    record = shown(repository.ok("audit", "export"))
    assert "because" in record.out
    _nothing_is_left(repository, written, tmp_path)


def test_terraforms_own_words_show_no_secret(repository: Program, tmp_path: Path) -> None:
    """`show` and `output`, whose JSON prints every secret in clear, also those that are short."""
    written = {file for file in repository.folder.rglob("*") if file.is_file()}
    repository.ok("apply", "--yes")
    shown(repository.ok("terraform", "canaries", "--", "show"))
    document = json.loads(shown(repository.ok("terraform", "canaries", "--", "show", "-json")).out)
    objects = {one["address"]: one for one in document["values"]["root_module"]["resources"]}
    assert objects["lab_object.one"]["values"]["secret"] == "***"
    assert objects["lab_object.one"]["values"]["name"] == "one"
    printed = json.loads(shown(repository.ok("terraform", "canaries", "--", "output", "-json")).out)
    assert printed["marked"]["value"] == "***"
    assert printed["harmless"]["value"] == "seen"
    assert SHORT not in json.dumps([document, printed])
    refused = shown(repository.ok("terraform", "canaries", "--", "state", "pull", code=3))
    assert "holdfast state pull" in refused.text
    _nothing_is_left(repository, written, tmp_path)


@pytest.mark.parametrize("flag", ["--verbose", pytest.param("--json", marks=pytest.mark.long)])
def test_an_error_of_a_provider_shows_no_secret(
    repository: Program, service: LabService, tmp_path: Path, flag: str
) -> None:
    """Neither when the apply fails nor when there is not even a plan, whatever the provider quotes."""
    written = {file for file in repository.folder.rglob("*") if file.is_file()}
    told = (VARIABLE, quote(VARIABLE, safe=""), REFERENCE, ENVIRONMENT, ATTRIBUTE)
    quoted = f"cannot log in with {', '.join(told)}"
    service.misbehave(Fault(operation="create", what="fail-before", status=400, text=quoted))
    failed = shown(repository.ok("apply", "--yes", flag, code=1))
    assert "cannot log in with ***" in failed.text
    service.misbehave(Fault(operation="read", what="fail-before", status=400, count=None, text=quoted))
    repository.ok("apply", "--yes", code=0)
    unplanned = shown(repository.ok("plan", flag, code=1))
    assert "cannot log in with ***" in unplanned.text
    _nothing_is_left(repository, written, tmp_path)


def _nothing_is_left(repository: Program, written: set[Path], tmp_path: Path) -> None:
    """What Holdfast wrote, in the repository, in its home and in bundles, holds no secret in clear.

    A work directory holds the user's own files as they are: what is written in the code is written there.
    """
    folders = (
        repository.folder,
        repository.home,
        tmp_path / "bundle",
        Path(repository.environment["TMPDIR"]),
        tmp_path / "user",
    )
    files = [
        file for folder in folders for file in folder.rglob("*") if file.is_file() and file not in written
    ]
    own = {file.read_bytes() for file in written}
    left = {file: content for file in files if (content := file.read_bytes()) not in own}
    assert left
    assert [
        str(file) for file, content in left.items() if any(one.encode() in content for one in FORMS)
    ] == []
