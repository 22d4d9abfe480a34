"""`inputs` read outputs of other stacks: real values, or mocks in a plan that is never applied."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Program, eventually, interrupt
from state_server import StateServer

TOKEN = "tok-9f31c7-never-shown"
NETWORK = """
    %s
    variable "vpc" { default = "vpc-1" }
    resource "terraform_data" "vpc" { input = var.vpc }
    output "vpc_id" { value = terraform_data.vpc.output }
    output "subnets" { value = ["a", "b"] }
    output "size" { value = { cpus = 2, spot = true } }
    output "token" {
      value     = join("-", ["tok", "9f31c7", "never", "shown"])
      sensitive = true
    }
"""
APP = """
    variable "vpc_id" { type = string }
    variable "subnets" { type = list(string) }
    variable "size" { type = object({ cpus = number, spot = bool }) }
    variable "token" { type = string }
    variable "domain" { type = string }
    resource "terraform_data" "app" {
      input = { vpc = var.vpc_id, count = length(var.subnets), more = var.size.cpus + 1, note = var.token }
    }
    output "app" { value = "${var.vpc_id} ${length(var.subnets)} ${var.size.cpus + 1} ${var.domain}" }
"""
INPUTS = """
            variables: { domain: from-variables }
            inputs:
              vpc_id: { output: "{environment}/network.vpc_id" }
              subnets: { output: "{environment}/network.subnets" }
              size: { output: "{environment}/network.size" }
              token: { output: "{environment}/network.token" }
              domain: "{environment}.example"
"""
BACKENDS = {
    "managed": "",
    "local": 'terraform {\n  backend "local" { path = "state/net.tfstate" }\n}',
    "http": 'terraform {\n  backend "http" {}\n}',
}


@pytest.fixture
def server() -> Iterator[StateServer]:
    with StateServer(user=("net", "only-for-the-network")) as running:
        yield running


def repository(holdfast: Program, backend: str = "", network: str = "", inputs: str = INPUTS) -> None:
    holdfast.write("network/main.tf", NETWORK % backend)
    holdfast.write("app/main.tf", APP)
    holdfast.write(
        "holdfast.yaml",
        f"""
        version: 1
        engine: {{parallelism: 1}}
        environments: {{dev: {{match: [dev]}}}}
        stacks:
          - name: dev/network
            module: network
            environment: dev
            {network}
          - name: dev/app
            module: app
            environment: dev
            {inputs.strip()}
        """,
    )


def behind_http(holdfast: Program, server: StateServer) -> str:
    """The backend of the network alone, with a password that only its entry names."""
    holdfast.environment["NET_PASSWORD"] = "only-for-the-network"
    address = server.address("net")
    return (
        f'backend: {{ settings: {{ address: "{address}", lock_address: "{address}", unlock_address: '
        f'"{address}", username: net, password: {{ secret: "env:NET_PASSWORD" }} }} }}'
    )


def holding(folder: Path, text: str) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and text.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("kind", ["managed", "local", "http"])
def test_outputs_reach_the_stack_that_reads_them(holdfast: Program, kind: str, server: StateServer) -> None:
    """Typed, after their stack in the same apply, with its credentials only, and never shown if sensitive."""
    entry = behind_http(holdfast, server) if kind == "http" else ""
    repository(holdfast, BACKENDS[kind], entry)
    blocked = holdfast.results("plan")["dev/app"]
    assert (blocked["status"], blocked["error"]["code"]) == ("blocked", "HF-INPUT-4")
    assert "dev/network has no state yet" in blocked["error"]["message"]
    assert "holdfast apply dev/network dev/app" in blocked["error"]["hint"]
    shown = [holdfast.ok("apply", "--yes")]
    assert 'app = "vpc-1 2 3 dev.example"' in shown[-1].out

    # Another value: the reader waits for it, and an earlier read in the same change does not count.
    holdfast.write("network/main.tf", (NETWORK % BACKENDS[kind]).replace("vpc-1", "vpc-2"))
    done = holdfast.results("apply", "--yes")
    assert done["dev/app"]["outputs"]["app"]["value"] == "vpc-2 2 3 dev.example"
    if kind == "http":
        again = ("plan", "dev/app", "--replace", "terraform_data.app")
        shown += [holdfast.ok(*again, "--verbose"), holdfast.ok(*again, "--json")]
        assert "dev/network.token is sensitive, but the variable token is not" in shown[-2].text
        run = done["dev/app"]["run"]
        shown += [holdfast.ok("runs", "show", run), holdfast.ok("runs", "log", run)]
    if kind == "managed":
        # The reader's state does not mark it, and another command has read no input.
        shown += [holdfast.ok("terraform", "dev/app", "--", "show"), holdfast.ok("state", "show", "dev/app")]
    assert [ran for ran in shown if TOKEN in ran.text] == []
    assert holding(holdfast.folder / ".holdfast", TOKEN) == []
    assert holding(holdfast.home, TOKEN) == []


def test_a_state_that_cannot_be_read_is_never_a_missing_output(
    holdfast: Program, server: StateServer
) -> None:
    """Not with a mock either: it fails and names the stack and the access that reading needs."""
    mocked = INPUTS.replace('" }', '", mock: x }')
    repository(holdfast, BACKENDS["http"], behind_http(holdfast, server), mocked)
    holdfast.ok("apply", "--yes", "dev/network")
    holdfast.environment["NET_PASSWORD"] = "wrong"
    config = (holdfast.folder / "holdfast.yaml").read_text()
    owned = config.replace("version: 1", "version: 1\ntargets: {aws: {owner: ci}}", 1)
    holdfast.write("holdfast.yaml", owned.replace("    backend:", "    target: aws\n    backend:"))
    failed = holdfast.results("plan", "dev/app", code=1)["dev/app"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "HF-INPUT-1")
    message = failed["error"]["message"]
    assert "the outputs of dev/network (target aws, owned by ci) cannot be read" in message
    assert "holdfast output dev/network" in failed["error"]["hint"]

    # The backend knows nothing of the state that it had.
    holdfast.environment["NET_PASSWORD"] = "only-for-the-network"
    server.forget = True
    failed = holdfast.results("plan", "dev/app", code=1)["dev/app"]
    assert "its backend reports no state; it last had 1 resource" in failed["error"]["message"]

    # A local state that is gone was there before: that is known, too.
    repository(holdfast, BACKENDS["local"], "", mocked)
    holdfast.ok("state", "adopt", "dev/network", "--start-empty", "--yes", code=0)
    holdfast.ok("apply", "--yes", "dev/network")
    (holdfast.folder / "network/state/net.tfstate").unlink()
    failed = holdfast.results("plan", "dev/app", code=1)["dev/app"]
    assert "is missing" in failed["error"]["message"]


def test_a_read_stops_with_the_change(holdfast: Program) -> None:
    """Ctrl-C while the other stack's backend does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/net"
        repository(holdfast, BACKENDS["http"], f'backend: {{ settings: {{ address: "{address}" }} }}')
        process = holdfast.start("plan", "dev/app", "--json")
        eventually(lambda: bool(select.select([silent], [], [], 0)[0]), what="a request for the state")
        interrupt(process)
    out, _ = process.communicate()
    assert process.returncode == 1
    assert json.loads(out)["stacks"][0]["status"] == "cancelled"


def test_an_output_that_does_not_exist_is_named_with_those_that_do(holdfast: Program) -> None:
    repository(holdfast, inputs='inputs: { vpc_id: { output: "dev/network.vpc_idd" } }')
    holdfast.ok("apply", "--yes", "dev/network")
    failed = holdfast.results("plan", "dev/app", code=1)["dev/app"]
    assert failed["error"]["code"] == "HF-INPUT-3"
    assert failed["error"]["hint"] == "Did you mean `vpc_id`? Its outputs: size, subnets, token, vpc_id."


def test_mocks_are_marked_and_never_applied(holdfast: Program) -> None:
    """In every view of the plan and in its bundle; an apply waits for the real value."""
    mocks = (
        "inputs: { vpc_id: { output: dev/network.vpc_id, mock: vpc-mock }, subnets: [a], "
        "size: { cpus: 1, spot: false }, token: t, domain: d }"
    )
    repository(holdfast, inputs=mocks)
    shown = holdfast.ok("config", "show", "dev/app").out
    assert 'output dev/network.vpc_id, mock "vpc-mock"' in shown
    assert '["dev/network"]' in shown
    planned = holdfast.ok("plan", "--out", "bundle")
    assert "with mocks: vpc_id" in planned.text
    note = "vpc_id is a mock, because dev/network has no state yet"
    assert note in planned.text
    expected = [{"variable": "vpc_id", "output": "dev/network.vpc_id", "value": "vpc-mock"}]
    assert json.loads((holdfast.folder / "bundle/dev/app/summary.json").read_text())["mocks"] == expected
    document = holdfast.results("plan")
    assert (document["dev/app"]["mocks"], document["dev/network"]["mocks"]) == (expected, [])
    assert "ready, with mocks: `vpc_id`" in holdfast.ok("plan", "--format", "markdown").out
    assert note in holdfast.ok("runs", "show", document["dev/app"]["run"]).text

    # A mock must not hide a name that no apply will ever create.
    repository(holdfast, inputs=mocks.replace("vpc_id, mock", "vpc_idd, mock"))
    error = holdfast.results("plan", code=1)["dev/app"]["error"]
    assert (error["code"], error["hint"][:24]) == ("HF-INPUT-3", "Did you mean `vpc_id`? I")
    repository(holdfast, inputs=mocks)

    alone = holdfast.results("apply", "--yes", "dev/app", code=1)["dev/app"]
    assert (alone["status"], alone["error"]["code"]) == ("blocked", "HF-INPUT-4")
    done = holdfast.results("apply", "--yes")
    assert done["dev/app"]["outputs"]["app"]["value"] == "vpc-1 1 2 d"
    assert done["dev/app"]["mocks"] == []
    # Once there is a value, it is never replaced by the mock.
    assert holdfast.results("plan")["dev/app"]["status"] == "unchanged"


LOCAL = 'terraform {\n  backend "local" {}\n}\n'
READERS = """
    version: 1
    environments: {dev: {match: [dev]}}
    stacks:
      - { name: dev/net, module: net, environment: dev }
      - { name: dev/app, module: app, environment: dev }
      - { name: dev/dns, module: dns, environment: dev, inputs: { zone: { output: dev/app.name } } }
"""


def three_stacks(holdfast: Program) -> None:
    """`dev/dns` reads an output of `dev/app`, whose code reads the state of `dev/net`. No `depends_on`."""
    holdfast.write("holdfast.yaml", READERS)
    holdfast.write(
        "net/main.tf", LOCAL + 'output "vpc_id" { value = "vpc-1" }\noutput "unread" { value = 1 }\n'
    )
    holdfast.write(
        "app/main.tf",
        LOCAL
        + 'data "terraform_remote_state" "net" {\n  backend = "local"\n'
        + '  config = { path = "${path.module}/../net/terraform.tfstate" }\n}\n'
        + 'output "name" { value = "app-${data.terraform_remote_state.net.outputs.vpc_id}" }\n'
        + 'resource "terraform_data" "app" {}\n',
    )
    holdfast.write("dns/main.tf", 'variable "zone" {}\noutput "zone" { value = var.zone }\n')


def test_what_is_read_decides_order_selection_and_who_is_named(holdfast: Program) -> None:
    """Dependencies follow from inputs and remote states; a change of an output names its readers."""
    three_stacks(holdfast)
    listed = {stack["name"]: stack for stack in holdfast.json("stacks", "--json")["stacks"]}
    assert listed["dev/app"]["depends_on"] == ["dev/net"]
    assert listed["dev/app"]["derived"] == [
        {"stack": "dev/net", "source": "data.terraform_remote_state.net", "file": "app/main.tf", "line": 4}
    ]
    assert [one["source"] for one in listed["dev/dns"]["derived"]] == ["input zone"]
    below = holdfast.json("stacks", "dev/net", "--dependents", "--json")["stacks"]
    assert {one["name"]: one["reasons"][0] for one in below} == {
        "dev/app": "depends on dev/net",
        "dev/dns": "depends on dev/app",
        "dev/net": "matches dev/net",
    }
    above = holdfast.json("stacks", "dev/app", "--dependencies", "--json")["stacks"]
    assert {one["name"]: one["reasons"][0] for one in above} == {
        "dev/app": "matches dev/app",
        "dev/net": "dev/app depends on it",
    }

    done = holdfast.ok("apply", "dev/net", "--dependents", "--yes").text
    assert "1 of 3 stacks, 2 more by dependencies" in done
    assert done.index("dev/net: applied") < done.index("dev/app: applied") < done.index("dev/dns: applied")
    assert 'zone = "app-vpc-1"' in done
    refused = holdfast.json("destroy", "dev/net", "--yes-destroy", "dev/net", "--json", code=3)
    assert "dev/app depends on it and still has resources" in refused["errors"][0]["message"]

    net = (holdfast.folder / "net/main.tf").read_text()
    holdfast.write("net/main.tf", net.replace("vpc-1", "vpc-2").replace("value = 1", "value = 2"))
    planned = holdfast.ok("plan", "dev/net").text
    assert "changes outputs that others read: vpc_id (dev/app)" in planned
    footer = "Not selected, but reading outputs that change: dev/app (vpc_id). Add them with --dependents."
    assert planned.splitlines()[-1].strip() == footer
    (readers,) = (result["readers"] for result in holdfast.results("plan", "dev/net").values())
    assert readers == [{"stack": "dev/app", "outputs": ["vpc_id"], "selected": False}]

    holdfast.write("net/main.tf", LOCAL + 'output "unread" { value = 2 }\n')
    markdown = holdfast.ok("plan", "dev/net", "--format", "markdown").out.replace("`", "")
    assert "removes outputs that others read: vpc_id (dev/app)" in markdown
    assert footer in markdown
