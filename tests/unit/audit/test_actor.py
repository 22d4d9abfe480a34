from __future__ import annotations

from types import MappingProxyType

from holdfast.audit.actor import current_actor
from holdfast.system.environment import Environment


def acting(**variables: str) -> Environment:
    return Environment(variables=MappingProxyType(variables))


def test_a_person_is_who_the_system_says() -> None:
    """A variable that anybody can set never becomes the name; it is kept as what was claimed."""
    environment = acting(USER="somebody-else", SUDO_USER="ada")
    who = current_actor(environment)
    assert (who.kind, who.name) == ("person", environment.user)
    assert who.claims == {"login": "somebody-else", "sudo": "ada"}
    assert who.shown == f"{environment.user}@{environment.host}"


def test_what_the_variables_repeat_is_no_claim() -> None:
    """A claim beside the name says that something differs."""
    environment = acting()
    assert current_actor(acting(USER=environment.user)).claims == {}


def test_a_job_says_who_started_it_and_where() -> None:
    """Actor, repository, run, workflow and ref are in the record, under the names that tokens use."""
    who = current_actor(
        acting(
            CI="true",
            GITHUB_ACTIONS="true",
            GITHUB_ACTOR="ada",
            GITHUB_REPOSITORY="acme/infra",
            GITHUB_RUN_ID="77",
            GITHUB_RUN_NUMBER="411",
            GITHUB_WORKFLOW="apply",
            GITHUB_REF="refs/heads/main",
            GITHUB_SHA="",
        )
    )
    assert (who.kind, who.name, who.shown) == ("github-actions", "ada", "ci:acme/infra#411")
    assert who.claims == {
        "actor": "ada",
        "repository": "acme/infra",
        "run_id": "77",
        "run_number": "411",
        "workflow": "apply",
        "ref": "refs/heads/main",
    }


def test_no_variable_changes_the_machine_and_its_user() -> None:
    """They identify an unverified actor, whatever else the environment claims."""
    claimed: tuple[dict[str, str], ...] = (
        {},
        {"USER": "eve", "LOGNAME": "eve", "SUDO_UID": "7", "HOSTNAME": "other"},
        {"CI": "1"},
        {"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "eve"},
    )
    assert len({(who.machine, who.uid) for who in (current_actor(acting(**one)) for one in claimed)}) == 1


def test_another_ci_is_not_a_person() -> None:
    """Nobody sits before a runner, whatever its system user is called."""
    assert current_actor(acting(CI="1")).kind == "ci"


def test_variables_verify_no_actor() -> None:
    """Whatever the variables say: unproved, and the record says why."""
    for variables in ({}, {"CI": "1"}, {"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "ada"}):
        who = current_actor(acting(**variables))
        assert who.document()["verified"] is False
        assert who.because
