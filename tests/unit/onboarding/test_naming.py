from __future__ import annotations

import pytest

from holdfast.onboarding.naming import environment_word, environments_for, is_region, path_pattern
from holdfast.stacks.environment import recognise


@pytest.mark.parametrize(
    "value", ["dev", "Dev", "acme-dev", "staging2", "payments_test", "non-prod", "x-preprod"]
)
def test_words_before_production(value: str) -> None:
    """What clearly is no production is read as such."""
    word = environment_word(value)
    assert word is not None
    assert not word.production


@pytest.mark.parametrize("value", ["prod", "acme-prd", "live", "PRODUCTION", "dev-prod"])
def test_words_of_production(value: str) -> None:
    """A value that speaks of production is production, whatever else it speaks of."""
    word = environment_word(value)
    assert word is not None
    assert word.production


@pytest.mark.parametrize("value", ["shared", "mgmt", "devices", "product", "contest", ""])
def test_other_words(value: str) -> None:
    """A word that only begins like an environment is none."""
    assert environment_word(value) is None


@pytest.mark.parametrize(
    "value", ["eu-west-1", "us-gov-east-1", "westeurope", "us-central1", "eastus2", "uksouth"]
)
def test_regions(value: str) -> None:
    """Regions of the large clouds are known by their shape."""
    assert is_region(value)


@pytest.mark.parametrize("value", ["network", "eu", "us-east", "west-team", "central"])
def test_no_regions(value: str) -> None:
    """A name that merely holds a direction is no region."""
    assert not is_region(value)


def test_shape_names_the_parts() -> None:
    """Parts of a path get the names people use for them."""
    paths = [("Accounts", "a", "net", "x"), ("Accounts", "b", "db", "y")]
    assert path_pattern(paths, leaf="name") == ("Accounts", "{account}", "{service}", "{name}")
    paths = [("live", "dev", "eu-west-1", "net"), ("live", "prod", "us-east-1", "db")]
    assert path_pattern(paths, leaf="component") == ("live", "{environment}", "{region}", "{component}")


def test_one_account_is_still_a_place_for_others() -> None:
    """A part whose meaning is known stays open although it has one value today."""
    assert path_pattern([("accounts", "acme", "net", "x")], leaf="name") == (
        "accounts",
        "{account}",
        "{service}",
        "{name}",
    )


def test_a_file_name_that_says_nothing_stays() -> None:
    """`envs/prod/terraform.tfvars` is about `prod`, not about `terraform`."""
    assert path_pattern([("envs", "prod", "terraform"), ("envs", "dev", "terraform")], leaf="name") == (
        "envs",
        "{environment}",
        "terraform",
    )


def test_environments_agree_with_the_words() -> None:
    """Every value is recognised as what its words say, and what no word tells is handed back."""
    values = ("acme-dev", "acme-prod", "acme-non-prod", "staging", "dev-prod", "mgmt")
    environments, unmatched = environments_for(values)
    assert unmatched == ("mgmt",)
    for value in values[:-1]:
        word, found = environment_word(value), recognise(value, environments)
        assert word is not None
        assert found is not None
        assert found.production == word.production, value
    assert recognise("other-dev", environments) is not None
