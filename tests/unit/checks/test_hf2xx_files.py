"""HF201 to HF206: files that Git must not keep, in the tree and in its history."""

from __future__ import annotations

import pytest
from checkouts import check, checkout, messages, of, skips, the

from holdfast.checks.engine.running import NO_HISTORY, Available, CheckInputs
from holdfast.checks.model.contents import Commit, History
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.checks.secrets.committed_files import NO_GIT

FILES = ("HF201", "HF202", "HF203", "HF204", "HF205", "HF206")
PEM = b"-----BEGIN RSA PRIVATE " + b"KEY-----\nMIIEpAIBAAKCAQEA7Qw2ErTy9UiOp3LkJhGfDsA1\n-----END"
CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUF\n-----END"
STATE = b'{"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "a", "resources": []}'
PLAN = b'{"format_version": "1.2", "planned_values": {}, "resource_changes": []}'
TRACE = b"2026-01-01T00:00:00.000Z [TRACE] terraform.NewContext: starting"

FOUND = [
    ("HF201", "terraform.tfstate", STATE),
    ("HF201", "live/a/terraform.tfstate.backup", b""),
    ("HF201", "errored.tfstate", STATE),
    ("HF201", "terraform.tfstate.d/prod/terraform.tfstate", STATE),
    ("HF201", ".terraform.tfstate.lock.info", b"{}"),
    ("HF201", "old/pulled.json", STATE),
    ("HF201", "old/powershell.json", STATE.decode().encode("utf-16")),
    ("HF201", "old/state", STATE),
    ("HF201", "old/prod.state", STATE),
    ("HF202", "tfplan", b""),
    ("HF202", "prod.tfplan", b""),
    ("HF202", "components/terraform/vpc/acme-prod-vpc.planfile", b""),
    ("HF202", "live/plan.out", b""),
    ("HF202", "tfplan.json", PLAN),
    ("HF202", "out/run7", b"PK\x03\x04..tfplan..tfstate.."),
    ("HF202", "out/run7.dat", b"PK\x03\x04..tfplan..tfstate.."),
    ("HF202", "shown.json", PLAN),
    ("HF203", ".terraform/terraform.tfstate", STATE),
    ("HF203", "live/.terraform/providers/registry.terraform.io/x", b""),
    ("HF203", ".terragrunt-cache/a/main.tf", b""),
    ("HF204", "crash.log", b""),
    ("HF204", "live/crash.2026-01-02.log", b""),
    ("HF204", "debug.log", TRACE),
    ("HF205", "keys/id_rsa", b""),
    ("HF205", "id_ed25519", b""),
    ("HF205", "tls/server.key", PEM),
    ("HF205", "tls/server.pem", PEM),
    ("HF205", "store.p12", b"\x30\x82"),
    ("HF205", "keys.txt", b"# created: now\n" + b"AGE-SECRET-" + b"KEY-1" + b"Q" * 58),
    ("HF205", "client.ovpn", b"<key>\n" + PEM),
    ("HF206", ".env", b"DB_PASSWORD=hunter2\n"),
    ("HF206", "app/.env.production", b"A=1\n"),
    ("HF206", "prod.env", b"export API_TOKEN='abc'\n"),
    (
        "HF206",
        ".aws/credentials",
        b"[default]\naws_secret_access_key = wJq8LrX2vZ9kT4nB7mYc3FhD6sGpA1eU5oQiRtWx\n",
    ),
    ("HF206", ".terraformrc", b'credentials "app.terraform.io" {\n  token = "abc"\n}\n'),
    ("HF206", "kubeconfig.yaml", b"users:\n- user:\n    token: abcdefgh12345678\n"),
    ("HF206", ".git-credentials", b"https://a:b@c"),
    ("HF206", "ci/aws-credentials", b"aws_secret_access_key = " + b"q7Rz2Lw9Xk4Tn8Vb3Md6q7Rz2Lw9"),
    ("HF206", "etc/my.cnf", b"[client]\npassword=Summer2024\n"),
    ("HF206", "kubeconfig", b"client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJ\n"),
    ("HF206", ".npmrc", b"//registry.npmjs.org/:_authToken=abc\n"),
]
LEFT_ALONE = [
    ("HF201", "modules/tfstate/main.tf"),
    ("HF201", "docs/terraform.tfstate.md"),
    ("HF201", "tfstate-bucket.json"),
    ("HF201", "backend.tfstate.tf"),
    ("HF202", "plan.sh"),
    ("HF202", ".github/workflows/tfplan.yml"),
    ("HF202", "payment-plan.json"),
    ("HF203", ".terraform.lock.hcl"),
    ("HF203", ".terraform-version"),
    ("HF203", "docs/terraform/a.md"),
    ("HF204", "crash.py"),
    ("HF204", "access.log"),
    ("HF205", "id_rsa.pub"),
    ("HF205", "tls/ca.pem"),
    ("HF206", ".env.example"),
    ("HF206", "environment.tf"),
    ("HF206", "prod.env"),
    ("HF206", ".terraformrc"),
    ("HF206", "modules/kubeconfig/main.tf"),
    ("HF206", "kubeconfig.tf"),
    ("HF206", "docs/credentials.md"),
]


@pytest.mark.parametrize(("id_", "path", "content"), FOUND)
def test_a_file_that_git_must_not_keep_is_found(id_: str, path: str, content: bytes) -> None:
    """Whatever folder it lies in, it is found by one rule, at its own path, and by no other of these."""
    report = check([the(one) for one in FILES], {path: content, "main.tf": ""})
    assert [(one.rule.id, one.file) for one in report.findings] == [(id_, path)]


@pytest.mark.parametrize(("id_", "path"), LEFT_ALONE)
def test_a_file_that_is_only_about_it_is_left_alone(id_: str, path: str) -> None:
    """Code, texts, models, public halves, and files of settings without a secret belong in Git."""
    content = {
        "tls/ca.pem": CERTIFICATE,
        "prod.env": b"LOG_LEVEL=info\n",
        "access.log": b"GET / 200\n",
        "kubeconfig.tf": b"client-key-data: ${base64encode(module.cluster.client_key)}\n",
    }
    assert messages(check(the(id_), {path: content.get(path, b"{}")}, config=""), the(id_)) == []


@pytest.mark.parametrize(
    "content", [b"sops_version=3.9\nPASSWORD=ENC[AES256_GCM,data:x]\n", b"", b"# nothing\n"]
)
def test_an_encrypted_environment_file_is_not_reported(content: bytes) -> None:
    """Encrypted values may be in Git; an empty file holds nothing."""
    assert of(check(the("HF206"), {".env": content}, config=""), the("HF206")) == []


def test_a_harmless_environment_file_is_only_a_note() -> None:
    """It is where the next secret will be put, and holds none yet."""
    found = of(check(the("HF206"), {".env": "LOG_LEVEL=info\n"}, config=""), the("HF206"))
    assert [one.severity for one in found] == [Severity.NOTE]


def test_a_folder_is_reported_once() -> None:
    """A working folder holds thousands of files, and is one mistake."""
    files = {f"live/.terraform/modules/{number}.tf": "" for number in range(5)}
    found = of(check(the("HF203"), {**files, ".terraform/x": ""}, config=""), the("HF203"))
    assert [one.message for one in found] == [
        "a working directory of Terraform is committed to Git (`.terraform`)",
        "a working directory of Terraform is committed to Git (`live/.terraform`)",
    ]


def test_a_file_that_git_does_not_keep_yet_is_a_warning() -> None:
    """It is not too late: the hint says what `.gitignore` needs."""
    made = checkout({"terraform.tfstate": STATE, "main.tf": ""}, tracked=["main.tf"])
    (found,) = of(check(the("HF201"), made), the("HF201"))
    assert found.severity is Severity.WARNING
    assert found.hint == "Add `terraform.tfstate` to `.gitignore`."


@pytest.mark.parametrize("id_", FILES)
def test_without_git_nothing_is_known(id_: str) -> None:
    """A folder outside Git is not reported as fine: the rule says that it could not look."""
    made = checkout({"terraform.tfstate": STATE}, config="")
    made.tracked = None
    assert skips(check(the(id_), made), the(id_))[0] == NO_GIT


def past(files: dict[str, str], *commits: Commit) -> CheckInputs:
    made = checkout(files, config="")
    return CheckInputs(history=Available(items=(History(checkout=made, commits=commits),)))


def looked(id_: str, path: str) -> Report:
    commit = Commit(id="0123456789abcdef", date="2025-03-04T05:06:07+00:00", paths=(path, "README.md"))
    return check(the(id_), {"main.tf": ""}, inputs=past({"main.tf": ""}, commit))


@pytest.mark.parametrize(
    ("id_", "path"),
    [
        ("HF201", "a/terraform.tfstate"),
        ("HF202", "a/prod.tfplan"),
        ("HF203", "a/.terraform/x"),
        ("HF204", "crash.log"),
        ("HF205", "id_rsa"),
        ("HF205", "server.key"),
        ("HF206", ".env"),
    ],
)
def test_a_file_that_was_taken_out_is_still_in_the_history(id_: str, path: str) -> None:
    """The finding names the commit and its day, and says that taking the file away was not enough."""
    (found,) = of(looked(id_, path), the(id_))
    assert "was added in commit 0123456789ab of 2025-03-04 and is still in the history" in found.message
    assert "Rotate every secret" in (found.hint or "")
    assert found.file == path


def test_history_reports_a_path_once_and_not_if_the_tree_has_it() -> None:
    """The newest commit speaks for a path, and a file that is still there is found in the tree."""
    commits = (
        Commit(id="b" * 40, date="2025-03-05", paths=("x.tfstate", "kept.tfstate")),
        Commit(id="a" * 40, date="2025-03-04", paths=("x.tfstate",)),
    )
    at_hand = past({"kept.tfstate": ""}, *commits)
    found = of(check(the("HF201"), {"kept.tfstate": ""}, config="", inputs=at_hand), the("HF201"))
    assert [(one.file, "bbbbbbbbbbbb" in one.message) for one in found] == [
        ("kept.tfstate", False),
        ("x.tfstate", True),
    ]


def test_a_history_that_was_not_read_is_not_fine() -> None:
    """Without `--history` the report says so."""
    assert NO_HISTORY in skips(check(the("HF201"), {"main.tf": ""}), the("HF201"))


@pytest.mark.parametrize(
    ("id_", "path", "content"), [next(one for one in FOUND if one[0] == id_) for id_ in FILES]
)
def test_a_file_is_waived_by_its_path(id_: str, path: str, content: bytes) -> None:
    """Such files have no line to write on: the configuration waives them."""
    config = (
        "version: 1\nchecks:\n  waivers:\n"
        f"    - {{rule: {id_}, path: {path}, reason: a fixture, owner: me, until: 2027-01-01}}\n"
    )
    (found,) = of(check(the(id_), {path: content}, config=config), the(id_))
    assert found.waived
