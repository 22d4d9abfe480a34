from __future__ import annotations

import pytest

from holdfast.onboarding.scan_scripts import (
    BackendConfigOption,
    as_template,
    backend_config_options,
    consistent_settings,
    is_script,
)


@pytest.mark.parametrize(
    ("line", "setting", "value"),
    [
        ('terraform init -backend-config="key=$ENV/x.tfstate"', "key", "$ENV/x.tfstate"),
        ("terraform init -backend-config 'bucket=b' -input=false", "bucket", "b"),
        ("tofu init -backend-config=key=${{ matrix.account }}/x", "key", "${{ matrix.account }}/x"),
        ("terraform init -backend-config=envs/prod.hcl", None, "envs/prod.hcl"),
    ],
)
def test_settings_are_found(line: str, setting: str | None, value: str) -> None:
    """Each way in which scripts hand a setting over is seen, with its line."""
    assert backend_config_options(f"# nothing\n{line}\n", "run.sh") == (
        BackendConfigOption(path="run.sh", line=2, setting=setting, value=value),
    )


def test_a_comment_says_nothing() -> None:
    """A line that does not run is not what is done today."""
    assert backend_config_options('# terraform init -backend-config="key=a"\n', "run.sh") == ()


def test_variables_become_placeholders() -> None:
    """A script's variables are the parts of the path that have the same name."""
    assert (
        as_template("${ENV}/$SERVICE.tfstate", ("environment", "service"))
        == "{environment}/{service}.tfstate"
    )
    assert as_template("${{ matrix.account }}/x", ("account",)) == "{account}/x"


@pytest.mark.parametrize("value", ["$OTHER/x", "$(date)/x", "`pwd`/x", "${A:-b}/x"])
def test_what_cannot_be_followed(value: str) -> None:
    """A variable that nothing here is called by leaves the place unknown."""
    assert as_template(value, ("environment",)) is None


def test_scripts_that_disagree() -> None:
    """Two scripts with two places tell nothing."""
    found = backend_config_options("init -backend-config=key=a\ninit -backend-config=key=b\n", "run.sh")
    assert consistent_settings(found) is None
    assert consistent_settings(found[:1]) == {"key": found[0]}


def test_where_scripts_are() -> None:
    """Pipelines count, other files do not."""
    assert is_script(".github/workflows/plan.yml")
    assert is_script("tools/Makefile")
    assert not is_script("docs/notes.md")
    assert not is_script("config/app.yml")
