"""`checks:` in holdfast.yaml: what it says, and what is wrong with it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from holdfast.config.checks import CheckSettings, Level
from holdfast.config.read import parse
from holdfast.config.settings import Config
from holdfast.kernel.errors import ConfigError

ROOT = Path("/repository")


def read(checks: str) -> Config:
    text = f"version: 1\nenvironments: {{ dev: {{}} }}\nchecks:\n{checks}"
    return parse(text, file="holdfast.yaml", root=ROOT, path=ROOT / "holdfast.yaml")


def mistakes(checks: str) -> list[tuple[str, int | None]]:
    with pytest.raises(ConfigError) as caught:
        read(checks)
    return [(one.code, one.place.line if one.place else None) for one in caught.value.problems]


def test_nothing_is_said_by_default() -> None:
    """Without the key every rule has its own severity and nothing is waived."""
    config = parse("version: 1\n", file="holdfast.yaml", root=ROOT, path=ROOT / "holdfast.yaml")
    assert config.checks == CheckSettings()


def test_severities_everywhere_by_environment_and_by_path() -> None:
    """`off` is a word here, not YAML's false; each has its place."""
    checks = read(
        "  rules: { HF101: off, HF7*: note }\n"
        "  environments:\n    dev: { rules: { HF102: warning } }\n    prod: { rules: { HF102: error } }\n"
        "  paths:\n    - path: ./modules//old/\n      rules: { CKV_AWS_20: off }\n"
    ).checks
    assert [(one.rule, one.level, one.place.line) for one in checks.rules] == [
        ("HF101", Level.OFF, 4),
        ("HF7*", Level.NOTE, 4),
    ]
    assert checks.environments["dev"][0].level is Level.WARNING
    assert [(one.path, one.rules[0].rule) for one in checks.paths] == [("modules/old", "CKV_AWS_20")]


def test_a_waiver_has_an_owner_a_reason_and_an_end() -> None:
    """The day is a day; the rest says what it is about."""
    (waiver,) = read(
        "  waivers:\n"
        "    - { rule: HF101, path: a/**, address: 'helm_release.*', stack: prod/*, owner: team,"
        " reason: moved next month, until: 2027-01-31 }\n"
    ).checks.waivers
    assert (waiver.rule, waiver.path, waiver.address, waiver.stack) == (
        "HF101",
        "a/**",
        "helm_release.*",
        "prod/*",
    )
    assert (waiver.owner, waiver.reason, waiver.until) == ("team", "moved next month", date(2027, 1, 31))
    assert waiver.place.line == 5


@pytest.mark.parametrize(
    ("checks", "found"),
    [
        ("  rules: { HF101: loud }\n", [("HF-CONF-7", 4)]),
        ("  rules: { '1x': off }\n", [("HF-CONF-6", 4)]),
        ("  environments: { test: { rules: {} } }\n", [("HF-CONF-26", 4)]),
        ("  paths: [{ rules: {} }]\n", [("HF-CONF-5", 4)]),
        ("  paths: [{ path: ../out }]\n", [("HF-CONF-16", 4)]),
        ("  paths: [{ path: '*********' }]\n", [("HF-CONF-16", 4)]),
        ("  waivers: [{ rule: HF101, owner: o, reason: r, until: 2027-02-30 }]\n", [("HF-CONF-27", 4)]),
        ("  waivers: [{ rule: HF101, owner: o, reason: r, until: soon }]\n", [("HF-CONF-6", 4)]),
        ("  waivers: [{ rule: HF1*, owner: o, reason: r, until: 2027-01-31 }]\n", [("HF-CONF-6", 4)]),
        (
            "  waivers: [{ path: a }]\n",
            [("HF-CONF-5", 4), ("HF-CONF-5", 4), ("HF-CONF-5", 4), ("HF-CONF-5", 4)],
        ),
    ],
)
def test_mistakes_have_a_code_and_a_place(checks: str, found: list[tuple[str, int]]) -> None:
    """A waiver without an owner, a reason or an end is none; so is a day that is not in the calendar."""
    assert mistakes(checks) == found
