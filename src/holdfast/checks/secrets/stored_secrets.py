"""Secrets in plans and states: attributes of resources, never values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.checks.code.argument_values import named_texts
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.known_secrets import is_known
from holdfast.secrets.entropy import is_secret_name, looks_random
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan, ResourceChange
from holdfast.terraform.plan.values import marked_texts, sensitive_values, texts
from holdfast.terraform.statefile.model import StateOutput, StateResource

_SHORTEST = 8
_PUBLIC = frozenset({("aws_iam_access_key", "id")})


class StoredSecrets(NamedTuple):
    address: str
    mode: str
    type: str
    paths: tuple[str, ...]
    """Without indexes, sorted."""
    unmarked: tuple[str, ...] = ()
    """Those that are not marked sensitive, so that Terraform shows them."""


def secrets_in_plan(plan: Plan) -> Iterator[StoredSecrets]:
    """Secrets that the plan adds to the state. Unchanged ones are found in the state."""
    for change in plan.changes:
        if (
            change.deposed is None
            and change.has_effect
            and change.kind not in (ChangeKind.DELETE, ChangeKind.FORGET)
        ):
            secrets = _planned_secrets(change)
            if secrets is not None:
                yield secrets


def _planned_secrets(change: ResourceChange) -> StoredSecrets | None:
    values = change.change
    address, kind, after = change.address, (change.mode, change.type), _read(values.after)
    unknown = _read(values.after_unknown)
    secrets = _stored_secrets(address, kind, after, mask=_read(values.after_sensitive), unknown=unknown)
    if (
        secrets is None
        or change.importing is not None
        or change.kind not in (ChangeKind.UPDATE, ChangeKind.NO_OP)
    ):
        return secrets
    before = _read(values.before)
    return _new_secrets(
        secrets, after, _stored_secrets(address, kind, before, mask=_read(values.before_sensitive)), before
    )


def _new_secrets(
    secrets: StoredSecrets, after: Any, old: StoredSecrets | None, before: Any
) -> StoredSecrets | None:
    """Secrets that are new: another value, or one that lost its mark."""
    if old is None:
        return secrets

    def is_new(path: str) -> bool:
        if path not in old.paths or (path in secrets.unmarked and path not in old.unmarked):
            return True
        steps = tuple(path.split("."))
        return list(secret_facts.parts(after, steps)) != list(secret_facts.parts(before, steps))

    paths = tuple(filter(is_new, secrets.paths))
    unmarked = tuple(path for path in secrets.unmarked if path in paths)
    return secrets._replace(paths=paths, unmarked=unmarked) if paths else None


def secrets_in_state(resources: Iterable[StateResource]) -> Iterator[StoredSecrets]:
    """By address; deposed instances count with their address."""
    for resource in resources:
        marked = [_steps(path) for path in resource.sensitive_paths or ()]
        secrets = _stored_secrets(
            resource.address, (resource.mode, resource.type), resource.read(), marked=marked
        )
        if secrets is not None:
            yield secrets


def _steps(path: Any) -> tuple[str, ...]:
    """A path in a state: attributes and map keys."""
    steps = path if isinstance(path, list) else ()
    values = (step.get("value") for step in steps if isinstance(step, dict))
    keys = (value.get("value") if isinstance(value, dict) else value for value in values)
    return tuple(key for key in keys if isinstance(key, str))


def _stored_secrets(
    address: str,
    kind: tuple[str, str],
    value: Any,
    *,
    mask: Any = False,
    unknown: Any = False,
    marked: list[tuple[str, ...]] | None = None,
) -> StoredSecrets | None:
    mode, type_ = kind
    listed = secret_facts.secret_attributes(mode, type_)
    marked_by_path: dict[str, bool] = {}
    for attribute in listed:
        if attribute.kind != secret_facts.SENSITIVE or (
            type_ == "aws_ssm_parameter" and _is_plain_parameter(value)
        ):
            continue
        if any(_is_set(part) for part in secret_facts.parts(value, attribute.steps)) or any(
            part is True for part in secret_facts.parts(unknown, attribute.steps)
        ):
            marked_by_path[attribute.path] = True
    for steps in (*(marked or ()), *_marked_paths(value, mask)):
        path = ".".join(steps)
        known = any(
            secret_facts.overlaps(attribute.steps, steps)
            for attribute in listed
            if attribute.path in marked_by_path
        )
        if path and not known and any(_is_set(part) for part in secret_facts.parts(value, steps)):
            marked_by_path[path] = True
    for names, text in named_texts(value):
        steps = names or ("",)
        covered = any(secret_facts.is_at_or_below(tuple(path.split(".")), steps) for path in marked_by_path)
        if not covered and (type_, ".".join(steps)) not in _PUBLIC and _is_secret(listed, steps, text):
            marked_by_path[".".join(steps)] = False
    if not marked_by_path:
        return None
    unmarked = tuple(path for path, hidden in marked_by_path.items() if not hidden)
    return StoredSecrets(address, mode, type_, tuple(sorted(marked_by_path)), tuple(sorted(unmarked)))


def _is_plain_parameter(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") in ("String", "StringList")


def _is_secret(listed: tuple[secret_facts.SecretAttribute, ...], steps: tuple[str, ...], text: str) -> bool:
    """Unmarked secrets: by format anywhere, by name only where secrets are often put."""
    if is_known(text):
        return True
    possible = (attribute for attribute in listed if attribute.kind == secret_facts.POSSIBLE)
    named = is_secret_name(steps[-1]) and looks_random(text)
    return named and any(secret_facts.is_at_or_below(attribute.steps, steps) for attribute in possible)


def _is_set(value: object) -> bool:
    """`{}` and `""` are empty."""
    if isinstance(value, Mapping):
        return any(_is_set(part) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_is_set(part) for part in value)
    return value is not None and value != "" and not isinstance(value, bool)


def _marked_paths(value: Any, mask: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if mask is True:
        yield above
    elif isinstance(mask, dict):
        for name, part in mask.items():
            yield from _marked_paths(
                value.get(name) if isinstance(value, dict) else value, part, (*above, name)
            )
    elif isinstance(mask, list):
        for part in mask:
            yield from _marked_paths(value, part, above)


def outputs_in_plan(plan: Plan) -> Iterator[str]:
    """Unmarked outputs that contain a value that is marked elsewhere in the plan.

    Unchanged outputs are found in the state.
    """
    unmarked = {
        output.name: shown_texts
        for output in plan.outputs
        if (output.kind is not ChangeKind.NO_OP or _read(output.change.before_sensitive) is True)
        and _read(output.change.after_sensitive) is not True
        and (shown_texts := [text for text in texts(_read(output.change.after)) if len(text) >= _SHORTEST])
    }
    # All values of a large plan are only read if an output could show one.
    secrets = {text for text in sensitive_values(plan) if len(text) >= _SHORTEST} if unmarked else set()
    yield from (name for name, shown_texts in unmarked.items() if _shows(shown_texts, secrets))


def outputs_in_state(resources: Iterable[StateResource], outputs: Iterable[StateOutput]) -> Iterator[str]:
    secrets = set(_secrets_of(resources))
    for output in outputs:
        if not output.sensitive and _shows(output.read(), secrets):
            yield output.name


def _secrets_of(resources: Iterable[StateResource]) -> Iterator[str]:
    for resource in resources:
        listed = secret_facts.secret_attributes(resource.mode, resource.type)
        paths = [fact.steps for fact in listed if fact.kind == secret_facts.SENSITIVE]
        paths += [_steps(path) for path in resource.sensitive_paths or ()]
        value = resource.read() if any(paths) else None
        for steps in filter(None, paths):
            for part in secret_facts.parts(value, steps):
                secrets = marked_texts(part, True)  # noqa: FBT003 - a mask, which is `true` or a shape
                yield from (text for text in secrets if len(text) >= _SHORTEST)


def _shows(value: Any, secrets: set[str]) -> bool:
    return bool(secrets) and any(secret in text for text in texts(value) for secret in secrets)


def _read(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)
