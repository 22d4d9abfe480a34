"""What is wrong with a request is said in words, for every field, and once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Meta, Struct
from msgspec.structs import fields

from holdfast.identity.roles import Role
from holdfast.server.exceptions import standard_denial
from holdfast.server.routes import runs, sources, states, store, store_audit, store_blobs, tokens, webhooks
from holdfast.server.validation import WORDS, body_problems, parameter_problems
from holdfast.store.server_runs.phases import RunPhase

ROUTES = (runs, sources, states, store, store_audit, store_blobs, tokens, webhooks)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"operation": 5, "x": 1},
            {
                "/x": "there is no field `x`",
                "/operation": "must be a string, not a whole number",
                "/source": "`source` is missing",
                "/stack": "`stack` is missing",
            },
        ),
        (
            {"operation": "aply", "stack": "", "source": {"upload": 5, "a/b": 1}, "target": ["a", 3]},
            {
                "/operation": "`aply` is not one of plan, apply, destroy, reconcile",
                "/stack": "must not be empty",
                "/source/a~1b": "there is no field `a/b`",
                "/source/upload": "must be a string or null, not a whole number",
                "/target/1": "must be a string, not a whole number",
            },
        ),
        ([], {"": "must be an object, not a list"}),
        ({"operation": "plan", "stack": "a", "source": {"upload": "u"}}, {}),
    ],
)
def test_every_wrong_field_is_named(body: object, expected: dict[str, str]) -> None:
    problems = body_problems(runs.NewRunRequest, body)
    assert {problem.path: problem.message for problem in problems} == expected


def test_no_regular_expression_is_shown() -> None:
    (url,) = body_problems(sources.NewRepository, {"name": "infra", "url": "file:///srv/infra"})
    denial = standard_denial(422, errors=(url,))
    assert denial.message.startswith("the request is not valid: `url`: must be https://HOST/PATH, ssh://")
    (role,) = body_problems(tokens.NewToken, {"role": "root", "name": "ada"})
    assert role.message.startswith("`root` is not one of viewer, ")
    assert Role.RUN not in role.message.split(", ")


def test_every_pattern_of_a_route_has_words() -> None:
    """Or its field says what it must be."""
    without = {meta.pattern for meta in _metas() if meta.pattern not in WORDS and not meta.description}
    assert without == set()
    assert len({meta.pattern for meta in _metas()}) > 8


def test_no_pattern_accepts_a_line_break_at_the_end() -> None:
    """`$` would: such a name looks like another one wherever it is printed."""
    patterns = {str(meta.pattern) for meta in _metas()}
    assert [pattern for pattern in patterns if not pattern.endswith(r"\Z")] == []
    named = {"name": "ada\n", "role": "viewer"}
    (name,) = body_problems(tokens.NewToken, named)
    assert (name.path, name.message) == ("/name", "must not be empty or contain control characters")


def test_unknown_parameters_and_values_are_named() -> None:
    types: dict[str, Any] = {"stack": str | None, "phase": RunPhase | None}
    given = [("stak", "a"), ("phase", "don"), ("stack", "a")]
    assert [(one.path, one.message) for one in parameter_problems(types, given)] == [
        ("/stak", "there is no parameter `stak`; the parameters are stack, phase"),
        ("/phase", "`don` is not one of queued, planning, waiting, applying, done"),
    ]


def _metas() -> list[Meta]:
    """Of all fields of the bodies that the modules of routes define."""
    values = [value for module in ROUTES for value in vars(module).values()]
    structs = [value for value in values if isinstance(value, type) and issubclass(value, Struct)]
    types = [field.type for struct in structs for field in fields(struct)]
    parts = [part for type_ in types for part in (type_, *getattr(type_, "__args__", ()))]
    metas = (meta for part in parts for meta in getattr(part, "__metadata__", ()))
    return [meta for meta in metas if isinstance(meta, Meta) and meta.pattern is not None]
