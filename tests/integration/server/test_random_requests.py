"""Schemathesis: random requests by the description of the API. None is a 5xx, every failure is a problem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from postgres_made import MadePostgres
from schemathesis import Case, CheckContext, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from server_made import MadeServer, made_server

from holdfast.database.database import Database

REQUESTS = 4
"""Per route and kind of data; `make test-long` sends more."""


@pytest.fixture(scope="module")
def server(postgres: MadePostgres) -> Iterator[MadeServer]:
    with (
        postgres.new_database() as address,
        Database.open(address) as database,
        made_server(database, limits={"exchanges": 10_000, "failed_logins": 10_000}) as server,
    ):
        yield server


def is_problem_document(_: CheckContext, response: Response, __: Case[Any]) -> bool | None:
    if response.status_code >= 400:
        assert response.headers["content-type"] == ["application/problem+json"]
        assert {"code", "message", "hint", "errors"} <= set(response.json())
    return None


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_random_requests(server: MadeServer, mode: GenerationMode) -> None:
    _send_all(server, mode, REQUESTS)


@pytest.mark.long
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_many_random_requests(server: MadeServer, mode: GenerationMode) -> None:
    _send_all(server, mode, 30)


def _send_all(server: MadeServer, mode: GenerationMode, count: int) -> None:
    document = json.loads(server.send("GET", "/openapi.json").body)
    schema: Any = schemathesis.openapi.from_dict(document)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == sum(len(item) for item in document["paths"].values())
    session = requests.Session()
    checks: Any = [
        not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
        is_problem_document,
    ]
    for operation in operations:
        strategy = _cases(operation, mode)
        if strategy is None:
            continue

        @seed(17)
        @settings(
            max_examples=count,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def send(case: Any) -> None:
            case.call_and_validate(
                base_url=server.url,
                session=session,
                headers={"Authorization": f"Bearer {server.admin}"},
                checks=checks,
            )

        send()


def _cases(operation: Any, mode: GenerationMode) -> st.SearchStrategy[Any] | None:
    """None: a route without parameters takes no wrong data."""
    if mode is GenerationMode.NEGATIVE and not (operation.body or list(operation.iter_parameters())):
        return None
    strategy: st.SearchStrategy[Any] = operation.as_strategy(generation_mode=mode)
    return strategy
