from __future__ import annotations

import json

from answering import Answer, Answering
from gates_made import closed_port, dns_server, tls_server
from kubernetes_server import small_cluster
from program import Program

MODULE = """
output "address" { value = "127.0.0.1" }
output "password" {
  value     = "hunter2-of-the-gateway"
  sensitive = true
}
"""


def platform(holdfast: Program, gates: str) -> None:
    holdfast.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{}}, prod: {{}} }}
        targets:
          aws:
            facts: {{ repository: "https://git.example/facts.git", map: {{ gateway.address: address }} }}
            gates:
              {gates}
        stacks:
          - name: "{{environment}}/net"
            matrix: {{ environment: [dev, prod] }}
            module: net
            target: aws
        """,
    )
    holdfast.write("net/main.tf", MODULE)


def test_what_was_applied_is_verified(holdfast: Program) -> None:
    """Before the apply, gates that need its outputs are unchecked, exit 1; afterwards all pass, exit 0.

    The run history has what was observed.
    """
    with (
        Answering(lambda _: Answer(body=b"it is ok")) as server,
        dns_server({"acme.example": ("127.0.0.1",), "*.acme.example": ("127.0.0.1",)}) as (_, resolver),
        tls_server(holdfast.folder, "portal.acme.example") as (port, _),
    ):
        platform(
            holdfast,
            f"""
              - {{ name: gateway, tcp: {{ host: "{{outputs.address}}", port: {server.port} }} }}
              - {{ name: portal, http: {{ url: "{server.url}", contains: ok }}, successes: 2, interval: 1s }}
              - {{ name: dns, dns: {{ name: [acme.example, "*.acme.example"], equals: "{{facts.gateway.address}}", resolvers: "{resolver}" }} }}
              - {{ name: certificate, tls: {{ host: portal.acme.example, address: 127.0.0.1, port: {port}, ca_file: ca.pem }} }}
              - {{ name: smoke, run: [sh, -c, "test $TARGET_NAME-$ENVIRONMENT_NAME = aws-prod"], environments: [prod] }}
            """.strip(),  # noqa: E501 - as in a file
        )
        before = json.loads(holdfast.ok("verify", "aws", "--json", code=1).out)
        assert before["summary"] == {"passed": 3, "failed": 0, "unchecked": 4}
        assert not before["passed"]
        holdfast.ok("apply", "--yes")
        shown = holdfast.ok("verify", "aws")
        assert "gateway (dev)" in shown.out
        assert " 7 passed, 0 failed " in shown.out
    run = json.loads(holdfast.ok("runs", "list", "--json").out)["runs"][0]
    assert (run["operation"], run["target"], run["stack"], run["status"]) == (
        "verify",
        "aws",
        None,
        "unchanged",
    )
    details = json.loads(holdfast.ok("runs", "show", run["id"], "--json").out)["run"]
    assert {gate["result"] for gate in details["gates"]} == {"passed"}
    assert "✓ smoke (prod)" in holdfast.ok("runs", "show", run["id"]).out


def test_a_gate_that_does_not_pass_fails_the_command(holdfast: Program) -> None:
    """With what was seen, how often, the last response, and what to do; no secret in any of it."""
    body = b"password = hunter2-of-the-gateway"
    with Answering(lambda _: Answer(status=503, body=body)) as server:
        pace = "deadline: 2s, interval: 1s"
        platform(
            holdfast,
            f"""
              - {{ name: portal, http: {{ url: "{server.url}" }}, {pace} }}
              - {{ name: gateway, tcp: {{ host: "{{outputs.address}}", port: {closed_port()} }}, {pace} }}
              - {{ name: leak, http: {{ url: "{server.url}/{{outputs.password}}" }}, {pace} }}
            """.strip(),
        )
        holdfast.ok("apply", "--yes")
        shown = holdfast.ok("verify", "aws", code=1)
        assert [asked.path for asked in server.asked if asked.path != "/"] == []
    assert "portal: " in shown.out
    assert "status 503 instead of 200, seen 3 times in 2s" in shown.out
    assert "last response, 503" in shown.out
    assert "Then: holdfast verify aws --gate portal" in shown.out
    assert "the output password of dev/net is sensitive" in shown.out
    assert " 0 passed, 3 failed, 2 not checked " in shown.out
    run = json.loads(holdfast.ok("runs", "list", "--json").out)["runs"][0]
    stored = holdfast.ok("runs", "show", run["id"], "--json")
    assert run["status"] == "failed"
    assert "hunter2" not in shown.text + stored.text
    assert "503" in stored.out


def test_nothing_verified_is_never_fine(holdfast: Program) -> None:
    """An unknown target, gate or environment, and a target without gates, are mistakes: exit 64."""
    platform(holdfast, '- { name: smoke, run: ["true"] }')
    for arguments, code in (
        (("azure",), "HF-USE-60"),
        (("aws", "--gate", "smokes"), "HF-GATE-2"),
        (("aws", "--environment", "prd"), "HF-GATE-3"),
    ):
        assert code in holdfast.ok("verify", *arguments, code=64).err
    assert holdfast.ok("verify", "aws", "--environment", "prod").code == 0
    platform(holdfast, "[]")
    assert "HF-GATE-1" in holdfast.ok("verify", "aws", code=64).err


def test_a_gate_asks_the_cluster_of_its_target(holdfast: Program) -> None:
    """In the context that an output names, not the current one; a context that is missing is unchecked."""
    holdfast.write("net/main.tf", 'output "kube_context" { value = "small" }\n')
    with small_cluster(holdfast.folder) as (cluster, _):
        holdfast.write(
            "holdfast.yaml",
            """
            version: 1
            targets:
              aws:
                kubernetes: { context: "{outputs.kube_context}", kubeconfig: kubeconfig }
                gates:
                  - name: default
                    kubernetes: { api_version: v1, kind: Service, name: web, condition: Ready }
            stacks:
              - { name: dev/net, environment: dev, module: net, target: aws }
            """,
        )
        assert "there is no output kube_context" in holdfast.ok("verify", "aws", code=1).out
        holdfast.ok("apply", "--yes")
        cluster.put(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
        assert "Service web is Ready" in holdfast.ok("verify", "aws").out
        text = (holdfast.folder / "holdfast.yaml").read_text()
        (holdfast.folder / "holdfast.yaml").write_text(text.replace("{outputs.kube_context}", "other"))
        assert "there is no context other" in holdfast.ok("verify", "aws", code=1).out
