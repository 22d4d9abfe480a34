"""`aws-sm:` and `aws-ssm:` against moto's server, and against one that refuses."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from answering import Answer, Answering, Asked, told
from botocore.session import Session
from moto.server import ThreadedMotoServer

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import HoldfastError, Problem
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.sources.interface import ReadSecret, Timeouts
from holdfast.system.environment import Environment

KEYS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2-of-aws"}
NOWHERE = {
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}
QUICK = Timeouts(request=5.0, total=20.0, tries=1, pause=0.01)


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    session = Session(session_vars={"config_file": (None, None, "/dev/null", None)})
    given = {"endpoint_url": url, "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    secrets = session.create_client("secretsmanager", region_name="eu-west-1", **given)
    secrets.create_secret(Name="prod/db", SecretString='{"password": "hunter2-1"}')
    secrets.put_secret_value(SecretId="prod/db", SecretString='{"password": "hunter2-2"}')
    secrets.create_secret(Name="binary", SecretBinary=b"\xff\xfe")
    arn = secrets.create_secret(Name="by-arn", SecretString="hunter2-arn")["ARN"]
    parameters = session.create_client("ssm", region_name="eu-west-1", **given)
    parameters.put_parameter(Name="/prod/token", Value="hunter2-ssm", Type="SecureString")
    elsewhere = session.create_client("ssm", region_name="us-east-2", **given)
    elsewhere.put_parameter(Name="/prod/token", Value="hunter2-ohio", Type="SecureString")
    for client in (secrets, parameters, elsewhere):
        client.close()
    yield f"{url}|{arn}"
    server.stop()


def looked(
    refs: list[str], variables: Mapping[str, str], *, identify: bool = False, timeouts: Timeouts = QUICK
) -> dict[str, ReadSecret | Problem]:
    made = [
        SecretRef(scheme=scheme, locator=rest) for scheme, _, rest in (ref.partition(":") for ref in refs)
    ]
    environment = Environment(variables={**NOWHERE, **variables})
    found = SecretReader(environment, Path("/"), timeouts=timeouts, identify=identify).read_all(made)
    for one in found.values():
        assert not isinstance(one, HoldfastError) or "hunter2" not in f"{one} {one.problem}"
    return {str(ref): one.problem if isinstance(one, HoldfastError) else one for ref, one in found.items()}


def code(found: ReadSecret | Problem) -> str:
    assert isinstance(found, Problem)
    assert found.hint
    return found.code


def test_all_in_one_go(cloud: str) -> None:
    """Secrets and parameters, by name, ARN, version, field and region, each with its own end."""
    url, _, arn = cloud.partition("|")
    expected = {
        "aws-sm:prod/db#password": "hunter2-2",
        "aws-sm:prod/db#password?version=AWSPREVIOUS": "hunter2-1",
        "aws-sm:prod/db?region=eu-west-1": '{"password": "hunter2-2"}',
        f"aws-sm:{arn}": "hunter2-arn",
        "aws-ssm:/prod/token": "hunter2-ssm",
        "aws-ssm:/prod/token?region=us-east-2": "hunter2-ohio",
    }
    wrong = {
        "aws-sm:absent": "HF-SEC-10",
        "aws-ssm:/absent": "HF-SEC-10",
        "aws-sm:prod/db#pasword": "HF-SEC-14",
        "aws-sm:binary": "HF-SEC-16",
        "aws-sm:a b": "HF-SEC-9",
    }
    found = looked(
        [*expected, *wrong], {**KEYS, "AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-west-1"}, identify=True
    )
    values = {ref: one.secret.reveal() for ref, one in found.items() if isinstance(one, ReadSecret)}
    assert values == expected
    versions = {ref: one.version for ref, one in found.items() if isinstance(one, ReadSecret)}
    assert versions["aws-ssm:/prod/token"] == "1"
    current, previous = (versions[f"aws-sm:prod/db#password{at}"] for at in ("", "?version=AWSPREVIOUS"))
    assert current
    assert previous
    assert current != previous
    assert {ref: code(found[ref]) for ref in wrong} == wrong
    by = {one.by for one in found.values() if isinstance(one, ReadSecret)}
    assert len(by) == 1
    assert by.pop().startswith("arn:aws:sts::123456789012:")


def refusing(asked: Asked) -> Answer:
    if b"GetCallerIdentity" in asked.body:
        who = "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/ci</Arn>"
        end = "</GetCallerIdentityResult></GetCallerIdentityResponse>"
        return Answer(body=f"{who}{end}".encode(), headers={"Content-Type": "text/xml"})
    return told({"__type": "AccessDeniedException", "Message": "not authorized to perform this"}, 400)


def test_not_allowed() -> None:
    """Names the identity that was used, and what it needs; where even that is not told, its keys' origin."""
    with Answering(refusing) as server:
        variables = {**KEYS, "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "eu-west-1"}
        found = looked(["aws-sm:a", "aws-ssm:/a"], variables)
        assert {code(one) for one in found.values()} == {"HF-SEC-11"}
        (one, other) = found.values()
        assert isinstance(one, Problem)
        assert isinstance(other, Problem)
        assert one.message.startswith(
            "arn:aws:iam::1:user/ci (keys in the environment) is not allowed to read aws-sm:a:"
        )
        assert "secretsmanager:GetSecretValue" in str(one.hint)
        assert "ssm:GetParameter" in str(other.hint)


def test_without_an_identity() -> None:
    """No keys, a profile that is not there, keys that can be none: said without showing them."""
    assert code(looked(["aws-sm:a"], {"AWS_REGION": "eu-west-1"})["aws-sm:a"]) == "HF-SEC-15"
    absent = looked(["aws-sm:a"], {"AWS_PROFILE": "nobody", "AWS_REGION": "x"})["aws-sm:a"]
    assert isinstance(absent, Problem)
    assert (absent.code, "nobody" in absent.message) == ("HF-SEC-15", True)
    broken = {**KEYS, "AWS_SECRET_ACCESS_KEY": "hunter2\nx", "AWS_REGION": "x"}
    assert code(looked(["aws-sm:a"], broken)["aws-sm:a"]) == "HF-SEC-15"


def test_no_region_and_no_server() -> None:
    """Where to ask is not guessed; who is not there, or silent, is told apart."""
    assert code(looked(["aws-sm:a"], KEYS)["aws-sm:a"]) == "HF-SEC-18"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        closed = {**KEYS, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": url}
        assert code(looked(["aws-ssm:/a"], closed)["aws-ssm:/a"]) == "HF-SEC-12"
    with Answering(lambda _: told({})) as server:
        server.hold()
        silent = {**KEYS, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": server.url}
        timeouts = Timeouts(request=0.2, total=20.0, tries=1)
        assert code(looked(["aws-sm:a"], silent, timeouts=timeouts)["aws-sm:a"]) == "HF-SEC-13"
        short = Timeouts(request=10.0, total=0.05, tries=1)
        assert code(looked(["aws-sm:a"], silent, timeouts=short)["aws-sm:a"]) == "HF-SEC-13"


def test_who_asked_where_aws_does_not_say() -> None:
    """A service that answers nonsense is not believed, and the origin of the keys is told instead."""
    with Answering(lambda _: told({"__type": "AccessDeniedException"}, 400)) as server:
        variables = {**KEYS, "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "eu-west-1"}
        found = looked(["aws-sm:a"], variables)["aws-sm:a"]
    assert isinstance(found, Problem)
    assert found.message.startswith(
        "the AWS identity of keys in the environment is not allowed to read aws-sm:a:"
    )
