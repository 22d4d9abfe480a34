"""Built-in functions that a policy must not call: those that reach the network or the system. Pure.

The input of a policy includes plans with secrets, and a pull request may add policies. A policy that can send
a request can send the plan. Functions that read schemas are forbidden too: a schema can refer to a URL, which
is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.checks.tools.rego.policies import PolicyFile

_FORBIDDEN: Final = (
    *("http.send", "net.lookup_ip_addr", "opa.runtime", "json.match_schema", "json.verify_schema"),
    # Of Conftest.
    *("parse_config_file", "parse_combined_config_files"),
)
_SAFE: Final = frozenset(
    (
        *("io.jwt.decode_verify", "io.jwt.encode_sign", "io.jwt.encode_sign_raw"),
        *("rand.intn", "time.now_ns", "uuid.rfc4122"),
    )
)
"""Nondeterministic functions that reach neither the network nor the system."""
_CALL: Final = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, _FORBIDDEN))})(?!\w)")
HINT: Final = "Remove the call. Write data that a policy needs beside its input as rules of another package."


def find_forbidden_calls(policies: Sequence[PolicyFile]) -> str | None:
    """The error message if a policy has such a call. The evaluator stops a call that is hidden."""
    first: dict[tuple[str, str], int] = {}
    for policy in policies:
        for call, line in policy.search(_CALL):
            first.setdefault((call[1], policy.path), line)
    calls = [(f"`{name}`", f"{path}:{line}") for (name, path), line in first.items()]
    return message(calls) if calls else None


def message(calls: Iterable[tuple[str, str]]) -> str:
    """The error message for these names and places."""
    where = ", ".join(f"{name} ({place})" for name, place in dict.fromkeys(calls))
    return f"policies can read secrets, so they must not call functions that reach outside: {where}"


def capabilities(text: bytes) -> str:
    """The capabilities of `opa` without the forbidden functions and without network access.

    Raises `ValueError`, `KeyError` or `TypeError` if the text is something else.
    """
    all_: dict[str, Any] = json.loads(text)
    functions = [function for function in all_["builtins"] if not _is_forbidden(function)]
    if not functions:
        raise ValueError("no functions")
    return json.dumps({**all_, "builtins": functions, "allow_net": []})


def _is_forbidden(function: Mapping[str, Any]) -> bool:
    name = function["name"]
    return name in _FORBIDDEN or (bool(function.get("nondeterministic")) and name not in _SAFE)


# For Conftest, which has no capabilities option: a query for every name in the parsed policies.

NAMES: Final = """
modules := {path: rego.parse_module(path, text) | some path, text in json.unmarshal(input.documents[0])}
answer := {path: names |
	some path, module in modules
	names := {concat(".", name) |
		walk(module, [_, term])
		term.type == "ref"
		name := [part.value | some part in term.value; is_string(part.value)]
	}
}
"""
"""Every name in each policy. Functions can only be called by name."""


def forbidden_names(names_by_path: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Each forbidden name in the answer to `NAMES`, with its file."""
    for path, names in names_by_path.items():
        for name in names:
            if (call := _CALL.match(name)) is not None:
                yield f"`{call[1]}`", path
