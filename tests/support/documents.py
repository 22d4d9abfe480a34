"""The documents of `--json` as the design promises them, written down a second time as JSON Schema.

Every field must be there; what is absent is null. Fields may be added.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

Schema = dict[str, Any]
STATUSES = (
    "unchanged", "planned", "applied", "failed", "blocked", "refused", "locked", "waiting", "cancelled",
    "removed", "unknown",
)  # fmt: skip
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer", "minimum": 0}
TRUTH: Schema = {"type": "boolean"}
NAMES: Schema = {"type": "array", "items": TEXT}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [{"type": "null"}, schema]}


def record(**fields: Schema) -> Schema:
    return {"type": "object", "required": list(fields), "properties": fields}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


ENGINE = record(kind={"enum": ["binary", "embedded"]}, version=TEXT)
COUNTS = record(
    **dict.fromkeys(("create", "update", "replace", "delete", "forget", "import", "move", "read"), NUMBER)
)
ERROR = record(code={"type": "string", "pattern": "^HF-[A-Z]+-[0-9]+$"}, message=TEXT, hint=maybe(TEXT))
OUTPUT: Schema = {
    **record(value={}, sensitive=TRUTH),
    "if": {"properties": {"sensitive": {"const": True}}},
    "then": {"properties": {"value": {"type": "null"}}},
}

STACKS = record(
    version={"const": 1},
    stacks=many(
        record(
            name=TEXT,
            environment=maybe(TEXT),
            production=TRUTH,
            account=maybe(TEXT),
            region=maybe(TEXT),
            target=maybe(TEXT),
            module=TEXT,
            variables=NAMES,
            backend=record(type=TEXT),
            engine=maybe(ENGINE),
            depends_on=NAMES,
            reasons=NAMES,
        )
    ),
    removed=many(record(name=TEXT, variables=maybe(TEXT), resources=maybe(NAMES), reason=TEXT)),
)
CHANGE = record(
    version={"const": 1},
    stacks=many(
        record(
            name=TEXT,
            environment=maybe(TEXT),
            production=TRUTH,
            status={"enum": list(STATUSES)},
            engine=maybe(ENGINE),
            run=maybe(TEXT),
            digest=maybe({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            changes=maybe(COUNTS),
            resources=many(record(address=TEXT, actions=NAMES, reason=maybe(TEXT))),
            guard=maybe(
                record(
                    decision=TEXT,
                    reasons=many(record(code=TEXT, address=maybe(TEXT), message=TEXT)),
                )
            ),
            outputs={"type": "object", "additionalProperties": OUTPUT},
            duration_ms=NUMBER,
            error=maybe(ERROR),
        )
    ),
    summary={"type": "object"},
)
RUNS = record(
    version={"const": 1},
    runs=many(
        record(
            id=TEXT,
            stack=maybe(TEXT),
            operation=maybe(TEXT),
            status=maybe({"enum": list(STATUSES)}),
            started=maybe(TEXT),
            ended=maybe(TEXT),
            who=maybe(TEXT),
        )
    ),
)
ERRORS = record(
    version={"const": 1},
    errors={
        **many(
            record(**ERROR["properties"], file=maybe(TEXT), line=maybe({"type": "integer", "minimum": 1}))
        ),
        "minItems": 1,
    },
)


def require(document: object, schema: Schema) -> None:
    faults = [
        f"{fault.json_path}: {fault.message}" for fault in Draft202012Validator(schema).iter_errors(document)
    ]
    assert not faults, "\n".join(faults)
