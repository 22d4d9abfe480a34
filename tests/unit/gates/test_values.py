from __future__ import annotations

from collections.abc import Mapping

import pytest
from gates_made import gate, gates_of, target_of

from holdfast.config.gates import Gate
from holdfast.deploy.outputs import TargetOutputs
from holdfast.deploy.verify import choose_gates
from holdfast.gates.catalogue import KINDS
from holdfast.gates.values import GateValues, MissingValue, filled, names_in
from holdfast.kernel.errors import ConfigError, UsageError

OUTPUTS = {"ip": "203.0.113.7", "by_env": {"dev": "203.0.113.8"}, "ports": [1], "on": True}


def values(
    outputs: Mapping[str, object] | TargetOutputs = OUTPUTS,
    facts: Mapping[str, object] | None = None,
    of_file: Mapping[str, object] | None = None,
) -> GateValues:
    read = outputs if isinstance(outputs, TargetOutputs) else TargetOutputs(values=outputs)
    return GateValues(
        target="aws",
        environment="dev",
        outputs=read.for_output,
        facts=TargetOutputs(facts=facts).for_fact,
        values=of_file or {},
    )


def test_every_text_is_filled() -> None:
    """In lists and mappings too; braces can be written."""
    http = gate(
        'http: { url: "https://{values.domain}/{environment}", contains: ["{{}} {outputs.by_env.dev}"], '
        'headers: { X-Target: "{target}" } }'
    )
    assert names_in(http.settings) == {"values.domain", "environment", "outputs.by_env.dev", "target"}
    settings = filled(http.settings, values(of_file={"domain": "{environment}.acme.example"}).text_of)
    assert settings.url == "https://dev.acme.example/dev"
    assert settings.contains == ("{} 203.0.113.8",)
    assert settings.headers == {"X-Target": "aws"}


def test_a_fact_has_a_name_with_dots() -> None:
    """As it is published."""
    assert values(facts={"gateway.address": "203.0.113.8"}).text_of("facts.gateway.address") == "203.0.113.8"


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("outputs.none", values(), "there is no output none"),
        ("outputs.ip.deeper", values(), "there is no output ip.deeper"),
        ("outputs.ports", values(), "not a text or a number"),
        ("outputs.ip", values(TargetOutputs(failure="the state is gone")), "the state is gone"),
        ("outputs.ip", values(TargetOutputs(withheld={"ip": "it is sensitive"})), "it is sensitive"),
        ("values.x", values(), "`values` has no x"),
        ("values.x", values(of_file={"x": "{account}"}), "not the name of a placeholder"),
        ("values.x", values(of_file={"x": "{values.x}"}), "contains itself"),
        ("facts.a", values(), "the target has no facts"),
        ("facts.a", values(facts={"b": 1}), "the facts of aws are b"),
    ],
)
def test_what_is_not_known_has_no_value(name: str, given: GateValues, says: str) -> None:
    """A gate with such a placeholder is not checked, and the reason names it."""
    with pytest.raises(MissingValue, match=says):
        given.text_of(name)


def test_which_gates_are_checked_where() -> None:
    """Once for the target, unless its texts differ by environment or it names its environments."""
    target = target_of(
        """
targets:
  aws:
    gates:
      - { name: once, http: { url: "https://acme.example" } }
      - { name: each, tcp: { host: "{outputs.ip}", port: 443 } }
      - { name: chosen, tcp: { host: acme.example, port: 443 }, environments: [prod] }
"""
    )

    def chosen(environments: tuple[str, ...], **options: object) -> list[tuple[str, str | None]]:
        gates = choose_gates(target, environments, **options)  # type: ignore[arg-type]
        return [(one.gate.name, one.environment) for one in gates]

    each = [("each", "dev"), ("each", "prod")]
    assert chosen(("dev", "prod")) == [("once", None), *each, ("chosen", "prod")]
    assert chosen(("dev", "prod"), only="dev") == [("once", None), ("each", "dev")]
    assert chosen(("dev", "prod"), names=("each",)) == each
    for options, code in (
        ({"names": ("ones",)}, "HF-GATE-2"),
        ({"only": "test"}, "HF-GATE-3"),
        ({"names": ("chosen",), "only": "dev"}, "HF-GATE-4"),
    ):
        with pytest.raises(UsageError) as error:
            chosen(("dev", "prod"), **options)
        assert error.value.problem.code == code
    with pytest.raises(UsageError, match="HF-GATE-3"):
        chosen(("dev",))


def test_a_target_without_gates_is_not_fine() -> None:
    """Nothing was checked, so it is an error."""
    target = target_of("targets: { aws: {} }\n")
    with pytest.raises(UsageError, match="HF-GATE-1"):
        choose_gates(target, ("dev",))


def test_the_catalogue_has_every_kind() -> None:
    """Each kind that can be configured is implemented, and the other way around."""
    settings = {"name", "deadline", "interval", "successes", "time_limit", "environments"}
    assert set(KINDS) == set(Gate.keys) - settings


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("- { name: a }", "HF-CONF-5"),
        ("- { name: a, tcp: { host: h, port: 1 }, run: [x] }", "HF-CONF-5"),
        ("- { name: a, run: [] }", "HF-CONF-5"),
        ("- { name: a, tcp: { host: h } }", "HF-CONF-5"),
        ("- { name: a, tcp: { host: h, port: 70000 } }", "HF-CONF-21"),
        ('- { name: a, tcp: { host: "{account}", port: 1 } }', "HF-CONF-19"),
        ('- { name: a, http: { url: "ftp://x" } }', "HF-CONF-6"),
        ("- { name: a, run: [x] }\n      - { name: a, run: [y] }", "HF-CONF-5"),
        ("- { name: a, argocd: {} }", "HF-CONF-5"),
        ("- { name: a, kubernetes: { name: b } }", "HF-CONF-5"),
        ("- { name: a, run: [x], deadline: 0 }", "HF-CONF-21"),
    ],
)
def test_mistakes_have_a_code(text: str, code: str) -> None:
    """And no gate is run with a mistake in the file."""
    with pytest.raises(ConfigError) as error:
        gates_of(f"      {text}\n")
    assert [problem.code for problem in error.value.problems] == [code]
