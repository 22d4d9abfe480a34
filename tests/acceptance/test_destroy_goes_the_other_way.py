"""`holdfast destroy`: what needs others goes first, by its typed name, through the same guard."""

from __future__ import annotations

import pytest
from program import Program


@pytest.fixture
def chain(holdfast: Program) -> Program:
    """`app` depends on `net`; both are applied."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks:
          - { name: net, module: net, environment: dev }
          - { name: app, module: app, environment: dev, depends_on: [net] }
        engine: { use: embedded }
        """,
    )
    holdfast.write("net/main.tf", 'resource "terraform_data" "net" {}\n')
    holdfast.write("app/main.tf", 'resource "terraform_data" "app" {}\n')
    holdfast.ok("apply", "--yes")
    return holdfast


def test_what_needs_others_goes_first(chain: Program) -> None:
    """Both end, `app` before `net`, and their states hold nothing."""
    done = chain.ok("destroy", "net", "app", "--yes-destroy", "net", "--yes-destroy", "app")
    assert done.text.index("app: destroyed") < done.text.index("net: destroying")
    for name in ("net", "app"):
        assert chain.json("state", "list", name)["resources"] == []
    runs = chain.json("runs", "list")["runs"]
    assert {one["operation"] for one in runs[:2]} == {"destroy"}
    assert "destroy app: applied" in chain.ok("audit", "show").text


def test_what_is_needed_stays(chain: Program) -> None:
    """`net` alone is refused while `app` holds something; nothing is touched."""
    refused = chain.ok("destroy", "net", "--yes-destroy", "net", code=3)
    assert "HF-DEST-1" in refused.text
    assert "holdfast destroy app net" in refused.text
    assert chain.json("state", "list", "net")["resources"] != []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("destroy",), "HF-USE"),
        (("destroy", "app"), "HF-USE-24"),
        (("destroy", "app", "--yes-destroy", "ap"), "HF-USE-24"),
        (("destroy", "app", "net", "--yes-destroy", "app"), "HF-USE-24"),
    ],
)
def test_a_name_must_be_said_in_full(chain: Program, words: tuple[str, ...], code: str) -> None:
    """Without a terminal nothing is asked, and nothing is destroyed by default."""
    assert code in chain.ok(*words, code=64).text
    assert chain.json("state", "list", "app")["resources"] != []


def test_production_goes_the_long_way(holdfast: Program, tmp_path: object) -> None:
    """Refused with the commands that do it: a plan of the end, overridden by its digest."""
    holdfast.write(
        "holdfast.yaml",
        "version: 1\nstacks: [{ name: db, module: db, environment: prod }]\nengine: { use: embedded }\n",
    )
    holdfast.write("db/main.tf", 'resource "terraform_data" "db" {}\n')
    holdfast.ok("apply", "--yes")
    refused = holdfast.ok("destroy", "db", "--yes-destroy", "db", code=3)
    assert "HF-GUARD-10" in refused.text
    assert "holdfast plan db --destroy --out bundle/" in refused.text
    bundle = f"{tmp_path}/bundle"
    digest = holdfast.results("plan", "db", "--destroy", "--out", bundle, code=3)["db"]["digest"]
    holdfast.ok("apply", "--plan", bundle, "--override", digest, "--reason", "it moved")
    assert holdfast.json("state", "list", "db")["resources"] == []
