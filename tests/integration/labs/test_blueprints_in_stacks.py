"""The shipped blueprints as stacks of a repository, with the secrets that blueprint.yaml names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from program import ROOT, Program
from site_payloads import PAYLOADS

from sdwan.cato import TOKEN, CatoApi
from sdwan.versa import PASSWORD, USERNAME, VersaDirector

_PSK = "a-key-that-nobody-sees"


def _blueprint(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "blueprints" / name / "blueprint.yaml").read_text())
    return parsed


def _stack(name: str) -> dict[str, Any]:
    settings = _blueprint(name)
    return {
        "name": name,
        "module": name,
        "variables": {**settings["inputs"], **PAYLOADS[name]},
        "env": settings["env"],
    }


@pytest.fixture
def repository(holdfast: Program, sdwan: Path) -> Program:
    for name in PAYLOADS:
        shutil.copytree(ROOT / "blueprints" / name, holdfast.folder / name)
    settings = {"version": 1, "stacks": [_stack(name) for name in PAYLOADS]}
    holdfast.write("holdfast.yaml", json.dumps(settings))
    holdfast.environment["TF_CLI_CONFIG_FILE"] = str(sdwan)
    return holdfast


@pytest.mark.long
def test_both_are_applied_with_the_secrets_they_name(repository: Program) -> None:
    """Every reference resolves, the services get the key, and nothing that people read has it."""
    with CatoApi() as cato, VersaDirector() as versa:
        repository.environment |= {
            "CATO_BASEURL": cato.endpoint,
            "CATO_TOKEN": TOKEN,
            "CATO_ACCOUNT_ID": "1000",
            "CATO_PSK": _PSK,
            "VERSA_DIRECTOR_URL": versa.url,
            "VERSA_USERNAME": USERNAME,
            "VERSA_PASSWORD": PASSWORD,
            "VERSA_ORGANIZATION": "ACME",
            "VERSA_PSK": _PSK,
        }
        ran = repository.run("apply", "--yes")
        assert ran.code == 0, ran.text
        (site,) = cato.sites().values()
        assert site["tunnels"]["primary"]["tunnels"][0]["psk"] == _PSK
        assert len(versa.devices()["branch1"]) == 2
        assert _PSK not in ran.text
        again = repository.run("plan", "--detailed-exitcode")
        assert again.code == 0, again.text


@pytest.mark.parametrize("name", list(PAYLOADS))
def test_what_is_not_read_exists(name: str) -> None:
    """A name of an attribute that no resource has would promise nothing."""
    code = (ROOT / "blueprints" / name / "main.tf").read_text()
    for entry in _blueprint(name)["not_read"]:
        assert f'resource "{entry.partition(".")[0]}"' in code
