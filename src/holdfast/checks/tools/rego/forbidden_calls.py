"""What a policy may not call: whatever leads out of the evaluation. Pure.

Policies are asked about plans with their secrets, and a pull request may bring policies. One that could send
a request could send the plan. A schema can name an address that is fetched when it is read, so the functions
that read schemas lead out as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.checks.tools.rego.policies import Policy

_OUT: Final = (
    *("http.send", "net.lookup_ip_addr", "opa.runtime", "json.match_schema", "json.verify_schema"),
    # Conftest's own.
    *("parse_config_file", "parse_combined_config_files"),
)
_HARMLESS: Final = frozenset(
    (
        *("io.jwt.decode_verify", "io.jwt.encode_sign", "io.jwt.encode_sign_raw"),
        *("rand.intn", "time.now_ns", "uuid.rfc4122"),
    )
)
"""Of what gives another answer each time, which mostly means that it looks outside: those that do not."""
_CALL: Final = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, _OUT))})(?!\w)")
HINT: Final = (
    "Take the call away. What a policy must know beside its input can stand in a policy of its own, as rules "
    "of another package."
)


def calls(policies: Sequence[Policy]) -> str | None:
    """What is wrong, where one of them is written down: its first place in each file.

    Who hides a call is stopped by the evaluator.
    """
    first: dict[tuple[str, str], int] = {}
    for policy in policies:
        for call, line in policy.finds(_CALL):
            first.setdefault((call[1], policy.path), line)
    found = [(f"`{name}`", f"{path}:{line}") for (name, path), line in first.items()]
    return refused(found) if found else None


def refused(found: Iterable[tuple[str, str]]) -> str:
    """A name and where it stands, for each."""
    where = ", ".join(f"{name} ({place})" for name, place in dict.fromkeys(found))
    return f"policies see secrets, so nothing that they call may lead outside: {where}"


def capabilities(text: bytes) -> str:
    """Those of `opa` itself, without the functions that lead out, and without any network.

    `ValueError`, `KeyError` or `TypeError` where it says something else.
    """
    found: dict[str, Any] = json.loads(text)
    functions = [one for one in found["builtins"] if not _leads_out(one)]
    if not functions:
        raise ValueError("no functions")
    return json.dumps({**found, "builtins": functions, "allow_net": []})


def _leads_out(function: Mapping[str, Any]) -> bool:
    name = function["name"]
    return name in _OUT or (bool(function.get("nondeterministic")) and name not in _HARMLESS)


# For an evaluator that cannot say what it can do: the policies as it understands them, looked through.

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
"""Whatever each of them names: functions are called by names that stand there, and by nothing else."""


def named(answer: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """What of it leads out, and in which file."""
    for path, names in answer.items():
        for name in names:
            if (call := _CALL.match(name)) is not None:
                yield f"`{call[1]}`", path
