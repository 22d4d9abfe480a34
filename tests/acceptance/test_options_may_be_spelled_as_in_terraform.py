"""`-target=ADDR` is taken; what Holdfast does otherwise is answered with the way to do it."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Program
from small import stacks


def test_one_dash_is_as_good_as_two(holdfast: Program, tmp_path: Path) -> None:
    stacks(holdfast, "a")
    bundle = tmp_path / "bundle"
    address = holdfast.results("plan")["a"]["resources"][0]["address"]
    options = (f"-target={address}", f"-out={bundle}", "-detailed-exitcode", "-refresh-only=false")
    holdfast.ok("plan", *options, code=2)
    assert (bundle / "a").is_dir()
    assert '"version": 1' in holdfast.ok("plan", "-json", "a", "-target", address).out
    assert f"only {address}" in holdfast.ok("plan", "a", "-target", address).out
    nothing = "--target terraform_data.nope matches no resource"
    assert nothing in holdfast.ok("plan", "a", "-target=terraform_data.nope").out
    config = holdfast.folder / "holdfast.yaml"
    before = config.read_text()
    config.write_text(f"{before}guard: {{ target: deny }}\n")
    assert f"! only {address}" in holdfast.ok("plan", "a", "-target", address, code=3).out
    config.write_text(before)
    assert holdfast.ok("-version").out.startswith("holdfast ")
    assert "Usage" in holdfast.ok("plan", "-help").out
    holdfast.ok("plan", "-qv", "a")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("apply", "-auto-approve"), "Use --yes"),
        (("apply", "--auto-approve"), "Use --yes"),
        (("plan", "-lock-timeout=3s"), "--wait DURATION"),
        (("plan", "-refresh=false"), "Leave it out"),
        (("plan", "-targt=x"), "Did you mean '--target'?"),
        (("-chdir=live", "plan"), "--config"),
        (("apply", "--release", "x"), "--override"),
        (("validate",), "holdfast check --engine"),
        (("run", "--all", "plan"), "holdfast plan or holdfast apply"),
        (("taint", "x"), "holdfast plan --replace"),
        (("pln",), "Did you mean 'plan'?"),
        (("terraform", "a", "output", "-json"), "Write -- before the Terraform command"),
    ],
)
def test_the_error_names_the_way(holdfast: Program, arguments: tuple[str, ...], answer: str) -> None:
    stacks(holdfast, "a")
    error = holdfast.json(*arguments, code=64)["errors"][0]
    assert error["code"] == "HF-USE-1"
    assert answer in f"{error['message']} {error['hint']}"
