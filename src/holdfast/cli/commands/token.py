"""`holdfast token`: tokens of the server."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Yes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.identity.client import ServerClient

HELP = "Create, list and revoke tokens of the server."
COMMANDS = ("create", "list", "revoke")
_PATH = "/api/v1/tokens"


def create(
    invocation: Invocation,
    role: Annotated[
        str, Option("--role", metavar="ROLE", help="viewer, planner, operator, approver, admin or ci.")
    ],
    name: Annotated[str | None, Option("--name", metavar="NAME", help="Whose token it is.")] = None,
    tenant: Annotated[
        str | None, Option("--tenant", metavar="TENANT", help="Default: the tenant of your own token.")
    ] = None,
    stack: Annotated[
        list[str] | None,
        Option("--stack", metavar="PATTERN", help="Only these stacks. Can be repeated. Default: as --state."),
    ] = None,
    state: Annotated[
        list[str] | None,
        Option("--state", metavar="PATTERN", help="Only these states. Can be repeated. Default: as --stack."),
    ] = None,
    group: Annotated[
        list[str] | None,
        Option("--group", metavar="NAME", help="A group that rules about approvals name. Can be repeated."),
    ] = None,
    expires: Annotated[
        str | None,
        Option("--expires", metavar="WHEN", help="A duration such as 90d, or a time. Default: never."),
    ] = None,
) -> Exit:
    """Create a token and print it, once: only a digest of it is stored."""
    if expires is not None and expires.isdigit():
        raise UsageError(
            "HF-USE-12",
            f"--expires {expires} has no unit",
            hint=f"Write days, for example --expires {expires}d.",
        )
    wanted = {
        "role": role, "name": name, "tenant": tenant, "stacks": stack, "states": state, "groups": group,
        "expires": expires,
    }  # fmt: skip
    given = {key: value for key, value in wanted.items() if value}
    created = _client(invocation).send("POST", _PATH, given)
    # The redactor masks tokens everywhere else.
    sys.stdout.write((json.dumps(created, indent=2) if invocation.as_json else created["token"]) + "\n")
    if not invocation.as_json:
        sys.stdout.flush()
        sys.stderr.write(f" {_line(created)}. It is not shown again.\n")
    return Exit.DONE


def list_(invocation: Invocation) -> Exit:
    """List the tokens of your tenant, without their secrets."""
    tokens = sorted(_client(invocation).pages(_PATH, "tokens"), key=lambda token: str(token["created"]))
    lines = [f" {_line(token)}, {_last_use(token)}" for token in tokens]
    return invocation.answer({"version": 1, "tokens": tokens}, *lines, f" {plural(len(tokens), 'token')}")


def revoke(
    invocation: Invocation,
    token_id: Annotated[str, Argument(metavar="ID", help="As `token list` shows it.")],
    keep_created: Annotated[
        bool, Option("--keep-created", help="Keep the tokens that were created with it.")
    ] = False,
    yes: Yes = False,
) -> Exit:
    """Revoke a token at once, and those that were created with it."""
    from urllib.parse import quote

    from holdfast.cli.confirmation import confirm_at_once
    from holdfast.identity.client import current_token

    query, client = "?keep_created=true" if keep_created else "", _client(invocation)
    own = current_token(client)["id"] == token_id
    question = "This is the token that you use now: you need another one afterwards. Revoke it?"
    if own and not confirm_at_once(invocation.console, question, yes=yes):
        return Exit.FAILED
    client.send("DELETE", f"{_PATH}/{quote(token_id, safe='')}{query}")
    others = "" if keep_created else " and the tokens that were created with it"
    return invocation.answer({"version": 1, "revoked": token_id}, f" Revoked {token_id}{others}.")


def _client(invocation: Invocation) -> ServerClient:
    from holdfast.identity.client import ServerClient, current_login

    login = current_login(invocation.environment)
    invocation.console.redactor.register(login.token)
    return ServerClient(login, invocation.environment)


def _line(token: dict[str, Any]) -> str:
    """`abcd… ada: operator in default, stacks dev/*, until 2027-01-31 12:00:00Z`."""
    from holdfast.cli.views.state import moment
    from holdfast.system import clock

    parts = [f"{token['role']} in {'all tenants' if token['tenant'] == '*' else token['tenant']}"]
    parts += [f"{key} {' '.join(token[key])}" for key in ("stacks", "states") if token[key] != ["*"]]
    if token.get("groups"):
        parts.append(f"groups {' '.join(token['groups'])}")
    if token["expires"]:
        is_over = clock.seconds_since(token["expires"]) >= 0
        parts.append(f"{'expired' if is_over else 'until'} {moment(token['expires'])}")
    if token["revoked"]:
        parts.append(f"revoked {moment(token['revoked'])}")
    return f"{token['id']}  {token['name']}: {', '.join(parts)}"


def _last_use(token: dict[str, Any]) -> str:
    from holdfast.cli.views.state import moment

    return f"last used {moment(token['last_used'])}" if token["last_used"] else "never used"
