"""A file is passed over only where no name in it can sound secret."""

from __future__ import annotations

import pytest

from holdfast.checks.secrets.known_secrets import may_name_secrets, names_secret


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "my-api-key", "clientSecret", "x_token"]
)
def test_what_holds_a_name_that_sounds_secret_is_checked(name: str) -> None:
    """However it is written."""
    assert names_secret(name)
    assert may_name_secrets(f'locals {{\n  {name} = "x"\n}}\n')


@pytest.mark.parametrize("name", ["prod_mixpanel_token", "posthogApiKey"])
def test_what_every_visitor_of_a_page_gets_is_no_secret(name: str) -> None:
    """The browser sends it to the analytics."""
    assert not names_secret(name)
    assert names_secret(name.replace("mixpanel", "deploy").replace("posthog", "deploy"))


def test_words_of_the_company_count() -> None:
    """As they do for the names themselves."""
    assert names_secret("losung", ("losung",))
    assert may_name_secrets('Losung = "x"', ("losung",))
    assert not may_name_secrets('Losung = "x"')


def test_an_escape_may_hide_a_name() -> None:
    """A letter that is written as an escape is as good as any."""
    assert may_name_secrets('{"pass\\u0077ord": "x"}')


def test_other_code_is_passed_over() -> None:
    """That is most of it."""
    assert not may_name_secrets('resource "aws_s3_bucket" "b" {\n  bucket = "acme"\n}\n')
