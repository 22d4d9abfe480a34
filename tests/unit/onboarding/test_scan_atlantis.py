from __future__ import annotations

import pytest

from holdfast.onboarding.scan_atlantis import Project, read_atlantis


def test_a_project_is_read_whole() -> None:
    """Everything that Holdfast can use is taken, and what it cannot is named."""
    found = read_atlantis(
        """
version: 3
projects:
  - name: net
    dir: ./live/net/
    workspace: prod
    terraform_version: v1.5.7
    terraform_distribution: opentofu
    execution_order_group: 2
    depends_on: [base]
    workflow: custom
    autoplan: { when_modified: ["*.tf"] }
""",
        "atlantis.yaml",
    )
    assert found.problem is None
    assert found.projects == (
        Project(
            folder="live/net",
            name="net",
            workspace="prod",
            version="1.5.7",
            tofu=True,
            group=2,
            depends_on=("base",),
            unsupported=("a custom workflow",),
        ),
    )


@pytest.mark.parametrize("text", ["a: [", "projects: 7", "projects: [{name: x}]", "projects: [{dir: ../x}]"])
def test_an_invalid_file_is_reported(text: str) -> None:
    """What is wrong with the file is a sentence, never an exception."""
    found = read_atlantis(text, "atlantis.yaml")
    assert found.projects == ()
    assert found.problem


@pytest.mark.parametrize("text", ["", "[]", "version: 3"])
def test_a_file_without_projects(text: str) -> None:
    """A file without projects is no mistake."""
    found = read_atlantis(text, "atlantis.yaml")
    assert found.projects == ()
    assert found.problem is None
