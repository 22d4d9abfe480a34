"""S3 that answers late, not at all, twice, or loses the answer; that is away, or not what it should be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flaky_s3 import (
    Deaf,
    Fails,
    Fault,
    FlakyS3,
    HalfAnswer,
    LateAnswer,
    LateArrival,
    LostAnswer,
    LostRequest,
    Twice,
)

from holdfast.kernel.errors import Exit, HoldfastError, UsageError
from holdfast.store.place import describe, from_description, open_blobs
from holdfast.store.s3_blobs import S3Blobs, StoreUnreachable
from holdfast.system.aws import AwsCaller, AwsSettings, S3Timeouts

TRUSTING = S3Timeouts(tries=3, pause=0.01)
HURRIED = S3Timeouts(read=0.5, tries=6, pause=0.01)
"""For answers that are held up; all others have the time they need on a busy machine."""
SHORT = S3Timeouts(read=0.3, tries=2, pause=0.01)
FAULTS_OF_ONE_ANSWER = (
    LostAnswer(),
    LostRequest(),
    LateAnswer(),
    Twice(),
    Fails(500, "InternalError"),
    Fails(500, "InternalError", done=True),
    Fails(503, "SlowDown"),
    Fails(409, "ConditionalRequestConflict"),
    Fails(409, "ConditionalRequestConflict", done=True),
)


@pytest.fixture(scope="module")
def server() -> Iterator[FlakyS3]:
    with FlakyS3() as server:
        server.make_bucket("acme")
        yield server


@pytest.fixture
def s3(server: FlakyS3) -> Iterator[FlakyS3]:
    yield server
    server.calm()


@pytest.fixture(scope="module")
def callers(server: FlakyS3) -> dict[S3Timeouts, AwsCaller]:
    """One client for each timeouts."""
    asked = AwsCaller(server.variables, timeouts=TRUSTING)
    asked.client()
    return {
        timeouts: AwsCaller(server.variables, timeouts=timeouts, known=asked.known)
        for timeouts in (TRUSTING, HURRIED, SHORT)
    }


@pytest.fixture
def by_patience(callers: dict[S3Timeouts, AwsCaller], tmp_path: Path) -> dict[S3Timeouts, S3Blobs]:
    """The same place, with different timeouts."""
    return {
        timeouts: S3Blobs("acme", tmp_path.name, caller, timeouts) for timeouts, caller in callers.items()
    }


@pytest.fixture
def blobs(by_patience: dict[S3Timeouts, S3Blobs]) -> S3Blobs:
    return by_patience[TRUSTING]


@pytest.mark.parametrize("fault", FAULTS_OF_ONE_ANSWER, ids=repr)
def test_our_own_write_is_never_taken_for_another(
    s3: FlakyS3, by_patience: dict[S3Timeouts, S3Blobs], fault: Fault
) -> None:
    """Whatever becomes of one answer: creating, replacing and removing are known as our own doing."""
    blobs = by_patience[HURRIED if isinstance(fault, LateAnswer) else TRUSTING]
    s3.disturb(fault, method="PUT", times=1)
    assert blobs.create("used/a", b"1")
    item = blobs.read("used/a")
    assert item is not None
    s3.disturb(fault, method="PUT", times=1)
    tag = blobs.replace("used/a", b"2", tag=item.tag)
    item = blobs.read("used/a")
    assert item is not None
    assert (item.data, item.tag) == (b"2", tag)
    if not isinstance(fault, Twice):
        s3.disturb(fault, method="DELETE", times=1)
    assert blobs.remove("used/a", tag=item.tag)
    assert blobs.read("used/a") is None


@pytest.mark.parametrize("fault", FAULTS_OF_ONE_ANSWER, ids=repr)
def test_the_write_of_another_is_never_taken_for_ours(
    s3: FlakyS3, by_patience: dict[S3Timeouts, S3Blobs], fault: Fault
) -> None:
    """The same faults, and another writer was first, even with the same bytes."""
    blobs = by_patience[HURRIED if isinstance(fault, LateAnswer) else TRUSTING]
    blobs.write("used/a", b"1")
    old = blobs.read("used/a")
    blobs.write("used/a", b"2")
    assert old is not None
    s3.disturb(fault, method="PUT", times=1)
    assert not blobs.create("used/a", b"2")
    s3.disturb(fault, method="PUT", times=1)
    assert blobs.replace("used/a", b"2", tag=old.tag) is None
    assert not blobs.remove("used/a", tag=old.tag)
    item = blobs.read("used/a")
    assert item is not None
    assert item.data == b"2"


def test_a_request_that_arrives_after_its_repetition_changes_nothing(
    s3: FlakyS3, by_patience: dict[S3Timeouts, S3Blobs]
) -> None:
    """The first try is held up on its way; the second is done, and replaced; then the first arrives."""
    blobs = by_patience[HURRIED]
    s3.disturb(LateArrival(), method="PUT", times=1)
    assert blobs.create("leases/a", b"1")
    item = blobs.read("leases/a")
    assert item is not None
    tag = blobs.replace("leases/a", b"2", tag=item.tag)
    before = len(s3.calls)
    s3.calm()
    assert len(s3.calls) == before, "it had come in long ago, and is let through now"
    item = blobs.read("leases/a")
    assert item is not None
    assert (item.data, item.tag) == (b"2", tag)


def test_a_broken_answer_is_asked_for_again(s3: FlakyS3, blobs: S3Blobs) -> None:
    """Half a state is not a state."""
    blobs.write("states/a", b"x" * 100_000)
    s3.disturb(HalfAnswer(), method="GET", times=1)
    item = blobs.read("states/a")
    assert item is not None
    assert len(item.data) == 100_000


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (LostAnswer(), "HF-STORE-5"),
        (LostRequest(), "HF-STORE-5"),
        (Fails(503, "SlowDown"), "HF-STORE-5"),
        (Fails(404, "SomethingElse"), "HF-STORE-5"),
        (Fails(404, "NoSuchBucket"), "HF-STORE-7"),
        (Fails(403, "AccessDenied"), "HF-STORE-6"),
        (Fails(403, "SignatureDoesNotMatch"), "HF-STORE-6"),
    ],
    ids=repr,
)
def test_what_cannot_be_reached_is_an_error_and_never_absent(
    s3: FlakyS3, blobs: S3Blobs, fault: Fault, code: str
) -> None:
    """A store that is taken for empty would let a used plan be applied again."""
    blobs.write("used/a", b"1")
    s3.disturb(fault)
    for attempt in (
        lambda: blobs.read("used/a"),
        lambda: blobs.create("used/b", b"1"),
        lambda: blobs.replace("used/a", b"2", tag="x"),
        lambda: blobs.remove("used/a"),
        lambda: blobs.write("used/c", b"1"),
        lambda: blobs.names("used"),
    ):
        with pytest.raises(StoreUnreachable) as caught:
            attempt()
        assert caught.value.problem.code == code
        assert blobs.shown in caught.value.problem.message
        assert caught.value.problem.hint


def test_a_service_that_never_answers_is_not_waited_for_for_ever(
    s3: FlakyS3, by_patience: dict[S3Timeouts, S3Blobs]
) -> None:
    """Each try has its time limit."""
    blobs = by_patience[SHORT]
    s3.disturb(LateAnswer())
    with pytest.raises(StoreUnreachable, match="tried 2 times") as caught:
        blobs.read("used/a")
    assert caught.value.problem.code == "HF-STORE-5"


def test_a_service_that_is_away_is_waited_for_a_little(s3: FlakyS3, blobs: S3Blobs) -> None:
    """Refused connections are an error after a few tries; afterwards the same blob store works again."""
    blobs.write("used/a", b"1")
    with s3.refusing(), pytest.raises(StoreUnreachable, match="tried 3 times"):
        blobs.read("used/a")
    assert blobs.read("used/a") is not None


def test_names_come_in_pages(s3: FlakyS3, blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than S3 gives at once; a lost page is asked for again; a folder's own marker is no name."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "5")
    wanted = tuple(f"runs/{number:02}" for number in range(13))
    for name in wanted:
        blobs.write(name, b"x")
    blobs.write("runs/", b"")
    s3.disturb(LostAnswer(), method="GET", path="continuation-token", times=1)
    assert blobs.names("runs") == wanted
    assert sum("continuation-token" in call.path for call in s3.calls) == 3


def test_a_good_service_passes_the_probe_and_nothing_stays(s3: FlakyS3, blobs: S3Blobs) -> None:
    """Proved on first use; the proof leaves no trace. Lost answers do not make a good service look bad."""
    blobs.probe()
    s3.disturb(LostAnswer(), method="PUT", times=2)
    blobs.probe()
    assert blobs.names("probe") == ()


@pytest.mark.parametrize("to", ["If-None-Match", "If-Match"])
def test_a_service_that_ignores_conditions_is_refused(s3: FlakyS3, blobs: S3Blobs, to: str) -> None:
    """Two runs would both be first."""
    s3.disturb(Deaf((to,)), method="PUT")
    with pytest.raises(UsageError, match=to) as caught:
        blobs.probe()
    assert caught.value.problem.code == "HF-STORE-8"
    assert caught.value.exit == Exit.USAGE
    s3.calm()
    assert blobs.names("probe") == ()


def test_a_service_that_does_not_know_conditions_is_refused(s3: FlakyS3, blobs: S3Blobs) -> None:
    """It says so itself: it is not asked again, and not taken for a failing one."""
    s3.disturb(Fails(501, "NotImplemented"), method="PUT")
    with pytest.raises(UsageError) as caught:
        blobs.probe()
    assert caught.value.problem.code == "HF-STORE-8"


def test_removing_works_where_removing_knows_no_conditions(s3: FlakyS3, blobs: S3Blobs) -> None:
    """Many services know conditions on writing only."""
    blobs.write("a/b", b"1")
    item = blobs.read("a/b")
    assert item is not None
    s3.disturb(Fails(501, "NotImplemented"), method="DELETE", times=1)
    assert blobs.remove("a/b", tag=item.tag)
    assert blobs.read("a/b") is None


def test_credentials_that_ran_out_are_asked_for_again(s3: FlakyS3, tmp_path: Path) -> None:
    """Once: where new ones are refused too, that is the answer."""
    config = tmp_path / "config"
    config.write_text("[default]\naws_access_key_id = AKIASECOND\naws_secret_access_key = s\n")
    variables = s3.variables | {"AWS_CONFIG_FILE": str(config)}
    del variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]
    blobs = S3Blobs.open("s3://acme/x", variables, timeouts=TRUSTING, known=_first(s3, expires=None))
    s3.disturb(Fails(400, "ExpiredToken"), times=1)
    blobs.write("a/b", b"1")
    assert [_signer(call.headers) for call in s3.calls[-2:]] == ["AKIAFIRST", "AKIASECOND"]
    s3.disturb(Fails(400, "ExpiredToken"))
    with pytest.raises(StoreUnreachable) as caught:
        blobs.read("a/b")
    assert caught.value.problem.code == "HF-STORE-6"
    s3.calm()
    late = S3Blobs.open("s3://acme/x", variables, known=_first(s3, expires="2020-01-01T00:00:00+00:00"))
    late.read("a/b")
    assert _signer(s3.calls[-1].headers) == "AKIASECOND", "ended by the clock: not even tried"


def test_a_caller_without_an_endpoint_means_amazon(s3: FlakyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever endpoint a stack's environment names: the run store of another caller is not there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    known = AwsSettings(**_first(s3, expires=None) | {"endpoint": None})  # type: ignore[arg-type]
    caller = AwsCaller({}, timeouts=TRUSTING, known=known)
    assert caller.client().meta.endpoint_url == "https://s3.eu-west-1.amazonaws.com"


def _first(s3: FlakyS3, *, expires: str | None) -> dict[str, object]:
    known = AwsSettings(
        settings={"region": "eu-west-1"}, s3={}, proxies_config={}, endpoint=s3.url, proxies={},
        verify=None, key="AKIAFIRST", secret="s", token=None, expires=expires,
    )  # fmt: skip
    return known.document()


def _signer(headers: dict[str, str]) -> str:
    return headers["Authorization"].partition("Credential=")[2].partition("/")[0]


@pytest.mark.parametrize("way", ["keys", "a profile", "an endpoint in a file"])
def test_the_callers_variables_decide_and_not_this_processs(
    s3: FlakyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The store is also opened in a stack's environment: other keys, another endpoint, a proxy."""
    config = tmp_path / "config"
    config.write_text(
        f"[profile ours]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = s\nregion = eu-west-1\n"
        f"services = lab\n[services lab]\ns3 =\n  endpoint_url = {s3.url}\n"
    )
    home = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    keys = {"AWS_ACCESS_KEY_ID": "AKIAKEYS", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
    profile = {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "ours"}
    variables, signer = {
        "keys": (home | keys | {"AWS_ENDPOINT_URL": s3.url}, "AKIAKEYS"),
        "a profile": (home | profile | {"AWS_ENDPOINT_URL_S3": s3.url}, "AKIAPROFILE"),
        "an endpoint in a file": (home | profile, "AKIAPROFILE"),
    }[way]
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIASTACK",
        "AWS_SECRET_ACCESS_KEY": "stack",
        "AWS_SESSION_TOKEN": "stack",
        "AWS_PROFILE": "of-the-stack-and-nowhere-written",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_REGION": "ap-south-1",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "AWS_MAX_ATTEMPTS": "9",
    }.items():
        monkeypatch.setenv(name, value)
    blobs = open_blobs("s3://acme/who", tmp_path, variables)
    blobs.write("a/b", b"1")
    assert _signer(s3.calls[-1].headers) == signer
    assert "x-amz-security-token" not in {name.lower() for name in s3.calls[-1].headers}
    told = json.loads(json.dumps(describe(blobs)))
    again = from_description(told)
    item = again.read("a/b")
    assert item is not None
    assert item.data == b"1"
    assert _signer(s3.calls[-1].headers) == signer
    assert describe(again) == told


def test_missing_credentials_are_reported(tmp_path: Path) -> None:
    """By its own code, with what can be set; no address is asked for them in vain."""
    variables = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    with pytest.raises(StoreUnreachable, match="no AWS credentials") as caught:
        S3Blobs.open("s3://acme/x", variables).read("a/b")
    assert caught.value.problem.code == "HF-STORE-6"
    keys = {"AWS_ACCESS_KEY_ID": "AKIAX", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "hunter2\n"}
    with pytest.raises(StoreUnreachable, match="whitespace") as caught:
        S3Blobs.open("s3://acme/x", variables | keys).read("a/b")
    assert "hunter2" not in str(caught.value)
    del keys["AWS_SESSION_TOKEN"]
    with pytest.raises(StoreUnreachable, match="nowhere:9") as caught:
        S3Blobs.open("s3://acme/x", variables | keys | {"AWS_ENDPOINT_URL_S3": "nowhere:9"}).read("a/b")
    assert caught.value.problem.code == "HF-STORE-5"
    with pytest.raises(StoreUnreachable, match="nowhere"):
        S3Blobs.open("s3://acme/x", variables | {"AWS_PROFILE": "nowhere"}).read("a/b")


def test_without_boto3_the_extra_is_named(tmp_path: Path) -> None:
    """It is an extra: a folder needs none of it, and S3 says which one to install."""
    program = """
import sys
from pathlib import Path
for name in [one for one in sys.modules if one.startswith("boto")]:
    del sys.modules[name]
sys.modules["botocore"] = None
from holdfast.kernel.errors import UsageError
from holdfast.store.place import describe, open_blobs
print(describe(open_blobs(".holdfast", Path("/r"), {})))
try:
    open_blobs("s3://acme/x", Path("/r"), {})
except UsageError as error:
    print(error.problem.code, error.problem.hint)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path, env=dict(os.environ),
    )  # fmt: skip
    folder, refused = done.stdout.splitlines()
    assert folder == "{'kind': 'folder', 'folder': '/r/.holdfast'}"
    assert refused.startswith("HF-STORE-4")
    assert "holdfast[aws]" in refused


@pytest.mark.parametrize(
    "address",
    ["s3://", "s3:///x", "s3://a b/x", "s3://acme/../x", "s3://acme//x", "s3://acme/x?y", "s3://k:hunter2@acme/x",
     "gs://acme/x", "https://k:hunter2@acme/x"],
)  # fmt: skip
def test_what_is_no_place_is_refused_without_repeating_a_password(address: str, tmp_path: Path) -> None:
    """Before anything is asked of anybody."""
    with pytest.raises(HoldfastError) as caught:
        open_blobs(address, tmp_path, {})
    assert caught.value.problem.code == "HF-STORE-1"
    assert caught.value.exit == Exit.USAGE
    assert "hunter2" not in str(caught.value)
