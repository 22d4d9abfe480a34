"""What every evaluator of Rego is asked, and how it says that it cannot tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.kernel.values import MaskedStruct

SECONDS = 300.0
INSTALL = "Install `opa` (openpolicyagent.org), or the extra `rego`: pip install 'holdfast[rego]'."


class NoAnswer(Exception):  # noqa: N818 - what happened
    """The evaluator said nothing that can be believed."""


class Document(MaskedStruct, frozen=True, kw_only=True):
    """What policies are asked about: a plan, or a file of code."""

    value: Mapping[str, Any]
    path: str | None = None
    stack: str | None = None


def as_json(value: object) -> str:
    """Without escapes for what is not ASCII: regopy compares texts as they are written."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
