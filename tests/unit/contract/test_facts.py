from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.comparison import OutputValue
from holdfast.contract.facts import EnvironmentFacts, OutputsOfStack, build_facts
from holdfast.contract.facts_file import About, facts_text, read_facts
from holdfast.contract.reading import built_in
from holdfast.kernel.yaml_text import yaml_text

GATEWAYS = {"dev": "192.0.2.1", "staging": "192.0.2.2", "production": "192.0.2.3"}


def of(stack: str, environment: str | None, *, contract: bool = False, **outputs: object) -> OutputsOfStack:
    return OutputsOfStack(
        stack=stack,
        environment=environment,
        outputs={
            name: value if isinstance(value, OutputValue) else OutputValue(value=value)
            for name, value in outputs.items()
        },
        contract=built_in("platform-v1") if contract else None,
    )


def built(mapping: dict[str, str], environment: str, *sources: OutputsOfStack) -> EnvironmentFacts:
    return build_facts(mapping, environment, sources, is_secret=lambda text: "hunter2" in text)


def test_a_part_of_an_output_is_a_fact_under_either_name_of_production() -> None:
    """`{environment}` is filled in; prod is production; a platform that all share serves each."""
    shared = of("cluster", None, contract=True, env_gateway_public_addresses=GATEWAYS)
    mapping = {"gateway.address": "env_gateway_public_addresses.{environment}"}
    addresses = [
        built(mapping, name, shared).facts["gateway.address"] for name in ("dev", "prod", "production")
    ]
    assert addresses == ["192.0.2.1", "192.0.2.3", "192.0.2.3"]
    assert built(mapping, "dev", shared).tree == {"gateway": {"address": "192.0.2.1"}}


def test_the_stacks_of_an_environment_come_first() -> None:
    """Others count only for an environment without a stack of its own, and then they must agree."""
    sources = (of("dev/c", "dev", a=1), of("prod/c", "prod", a=2))
    assert built({"x": "a"}, "dev", *sources).facts == {"x": 1}
    assert built({"x": "a"}, "production", *sources).facts == {"x": 2}
    ambiguous = built({"x": "a"}, "staging", *sources)
    assert [problem.code for problem in ambiguous.problems] == ["HF-FACT-3"]
    assert built({"x": "a"}, "staging", of("a", "dev", a=1), of("b", "prod", a=1)).facts == {"x": 1}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (OutputValue(value="x", sensitive=True), "HF-FACT-1"),
        ({"a": ["text with hunter2"]}, "HF-FACT-1"),
        ({"hunter2": 1}, "HF-FACT-1"),
        (None, "HF-FACT-2"),
    ],
)
def test_what_is_secret_or_missing_is_no_fact(value: object, code: str) -> None:
    """Marked or not, at any depth; and no message has the value."""
    (problem,) = built({"x": "a"}, "dev", of("s", "dev", a=value)).problems
    assert problem.code == code
    assert "hunter2" not in f"{problem.message}{problem.hint}".replace("x.hunter2", "")


def test_the_contract_decides_about_types_and_what_may_be_missing() -> None:
    """A wrong type is refused; an optional output without a value is left out, a required one is not."""
    source = of("s", "dev", contract=True, cluster_type="local", kube_context=7)
    mapping = {"context": "kube_context", "dns": "dns_challenge_identities.dev", "name": "cluster_name"}
    facts = built(mapping, "dev", source)
    assert [problem.code for problem in facts.problems] == ["HF-FACT-4", "HF-FACT-2"]
    assert facts.absent == ("dns",)
    aws = built(
        {"dns": "dns_challenge_identities.dev"}, "dev", of("s", "dev", contract=True, cluster_type="aws")
    )
    assert [problem.code for problem in aws.problems] == ["HF-FACT-2"]


ABOUT = About(target="aws", environment="dev", stacks=("s",), by="ci:acme/infra#1", commit="0" * 40)
TREE = {"gateway": {"address": "192.0.2.1", "port": 443}, "zones": ["a", {"b": [[], {}]}]}


def test_a_file_says_what_is_in_it_and_where_it_is_from() -> None:
    """It is valid YAML with exactly the facts."""
    text = facts_text(ABOUT, TREE)
    file = read_facts(text)
    assert yaml.safe_load(text) == TREE
    assert (file.about, file.edited) == (ABOUT, False)
    assert file.differing({"gateway.address": "192.0.2.9", "gateway.port": 443, "new": 1}) == (
        *("gateway.address", "new", "zones"),
    )


@given(st.data())
def test_every_edit_is_noticed(data: st.DataObject) -> None:
    """Any byte of the file, header and digest included; and what is cut off or added."""
    text = facts_text(ABOUT, TREE)
    at = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.characters(exclude_characters=text[at], codec="utf-8"))
    assert read_facts(text[:at] + new + text[at + 1 :]).edited
    assert read_facts(text[:at]).edited
    assert read_facts(text[:at] + new + text[at:]).edited or new == "\r"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values))
def test_yaml_is_read_as_it_was_meant(document: dict[str, object]) -> None:
    """Every text, key and number comes back with its type."""
    assert yaml.safe_load(yaml_text(document)) == document
