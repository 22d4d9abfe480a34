"""Contracts as files say them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from holdfast.contract.reading import BUILT_IN, PART_KEYS, InvalidContract, built_in, read_contract
from holdfast.contract.schema import Contract, Type


def read(text: str) -> Contract:
    found = read_contract(textwrap.dedent(text), file="c.yaml")
    assert isinstance(found, Contract)
    return found


def broken(text: str) -> list[tuple[int | None, str]]:
    found = read_contract(textwrap.dedent(text), file="c.yaml")
    assert isinstance(found, InvalidContract)
    return [(one.place.line if one.place else None, one.message) for one in found.problems]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_contract_can_be_read(name: str) -> None:
    """And is called what its file is called."""
    assert built_in(name).name == name


def test_the_contract_of_the_platform() -> None:
    """What every stack with a cluster gives."""
    outputs = built_in("platform-v1").outputs
    assert {name: part.type for name, part in outputs.items()} == {
        "cluster_name": Type.STRING,
        "cluster_type": Type.STRING,
        "kube_context": Type.STRING,
        "cluster_gateway_public_address": Type.ADDRESS,
        "env_gateway_public_addresses": Type.OBJECT,
        "dns_challenge_identities": Type.OBJECT,
        "secrets_source_uri": Type.URI,
    }
    assert outputs["cluster_type"].one_of == ("azure", "aws", "local")
    assert set(outputs["env_gateway_public_addresses"].keys) == {"dev", "staging", "prod"}
    assert outputs["env_gateway_public_addresses"].keys["prod"].aliases == ("production",)
    identities = outputs["dns_challenge_identities"].keys
    assert set(identities) == {"argocd", "dev", "staging", "prod"}
    assert {one.any_of for one in identities.values()} == {("azure_client_id", "aws_role_arn")}


def test_a_contract_extends_another() -> None:
    """With outputs of its own; one of the same name is its own."""
    found = read("""\
        version: 1
        name: acme
        extends: platform-v1
        outputs:
          registry: hostname
          kube_context: { type: string, required: false }
        """)
    assert found.name == "acme"
    assert found.outputs["registry"].type is Type.HOSTNAME
    assert found.outputs["cluster_name"].required
    assert not found.outputs["kube_context"].required


def test_types_can_be_named() -> None:
    """What is said where they are used wins."""
    found = read("""\
        version: 1
        types:
          zone: { type: string, says: a zone, one_of: [a, b] }
        outputs:
          first: zone
          second: { type: zone, says: the other zone }
          all: { type: list, items: zone }
        """)
    assert (found.outputs["first"].says, found.outputs["second"].says) == ("a zone", "the other zone")
    assert found.outputs["second"].one_of == ("a", "b")
    items = found.outputs["all"].items
    assert items is not None
    assert items.says == "a zone"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("outputs: { a: string }\n", 1, "version"),
        ("version: 2\noutputs: { a: string }\n", 1, "version"),
        ("version: 1\n", 1, "`outputs`"),
        ("version: 1\noutputs: [a]\n", 2, "mapping"),
        ("version: 1\noutput: {}\noutputs: { a: string }\n", 2, "unknown key `output`"),
        ("version: 1\noutputs:\n  a: text\n", 3, "no type `text`"),
        ("version: 1\noutputs:\n  a: {}\n", 3, "needs a `type`"),
        ("version: 1\noutputs:\n  a: [string]\n", 3, "mapping"),
        (
            "version: 1\noutputs:\n  a: { type: string, keys: { b: string } }\n",
            3,
            "only for an object",
        ),
        ("version: 1\noutputs:\n  a: { type: string, items: string }\n", 3, "`items` is only for a list"),
        ("version: 1\noutputs:\n  a: { type: number, one_of: [1] }\n", 3, "`one_of` is only for a string"),
        ("version: 1\noutputs:\n  a: { type: object, any_of: [b] }\n", 3, "`any_of` names `b`"),
        ("version: 1\noutputs:\n  a: { type: string, required: maybe }\n", 3, "true or false"),
        ("version: 1\noutputs:\n  a: { type: string, aliases: [{}] }\n", 3, "list of strings"),
        ("version: 1\noutputs:\n  a: { type: string, unless: b }\n", 3, "`unless` must name one output"),
        ("version: 1\noutputs:\n  a: { type: string, unless: { b: c } }\n", 1, "`a` depends on `b`"),
        ("version: 1\nextends: other\noutputs: { a: string }\n", 2, "`other` is not a built-in contract"),
        ("version: 1\ntypes: { string: number }\noutputs: { a: string }\n", 2, "a built-in type"),
        ("version: 1\ntypes: { a: { type: list, items: a } }\noutputs: { a: a }\n", 2, "contains itself"),
        ("version: 1\noutputs: {\n", 3, "YAML"),
        ("- a\n", 1, "mapping"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text: str, line: int, says: str) -> None:
    """What is wrong, where."""
    found = broken(text)
    assert any(says in message for _, message in found), found
    assert found[0][0] == line


def test_every_mistake_is_reported_at_once() -> None:
    """A person mends them all before the next try."""
    assert len(broken("version: 1\noutputs:\n  a: x\n  b: y\n  c: { type: z }\n")) == 3


def test_the_example_of_the_page_can_be_read() -> None:
    """What a reader copies works."""
    page = (Path(__file__).parents[3] / "docs" / "contract.md").read_text("utf-8")
    example = page.split("## A contract of your own")[1].split("```yaml\n")[1].split("```")[0]
    assert {"registry", "vault", "cluster_name"} <= set(read(example).outputs)


def test_every_type_and_key_is_on_the_page() -> None:
    """What can be written is documented, and so is what is built in."""
    page = (Path(__file__).parents[3] / "docs" / "contract.md").read_text("utf-8")
    words = [*Type, *PART_KEYS, *built_in("platform-v1").outputs]
    assert [word for word in words if f"`{word}`" not in page] == []
