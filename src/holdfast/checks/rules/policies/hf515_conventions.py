"""Naming and tagging conventions of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.checks.model.globs import is_name
from holdfast.checks.model.interface import (
    CheckResult,
    Finding,
    Rule,
    Severity,
    Skipped,
    finding,
    known_at_run_time_only,
)
from holdfast.checks.model.subjects import CheckedStack, Resource, nested, value
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.nodes import Attribute, Block
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern


def _check_names(stack: CheckedStack) -> Iterator[CheckResult]:
    names = stack.checkout.config.checks.names
    unknown_names: list[tuple[str, str]] = []
    for resource, scope in stack.resources(mode="managed"):
        pattern = name_pattern(names, resource.type)
        wanted = expand_pattern(pattern, stack) if pattern is not None else None
        attribute, name = name_of(resource, scope)
        if wanted is None or attribute is None:
            continue
        if isinstance(name, Unknown):
            unknown_names.append((attribute.file, resource.address))
        elif isinstance(name, str) and not is_name(wanted, name):
            message = f"`{shorten(name)}` does not follow the convention `{wanted}`"
            yield finding(attribute, message, address=resource.address)
    yield from known_at_run_time_only("the name", unknown_names)


HF515 = Rule(
    id="HF515",
    title="Resource name does not follow the convention",
    fix="Build the name as `checks.names` in holdfast.yaml requires.",
    severity=Severity.WARNING,
    needs="`checks.names`",
    configured=lambda checkout: bool(checkout.config.checks.names),
    stack=_check_names,
)


def _check_tags(stack: CheckedStack) -> Iterator[CheckResult]:
    wanted = {
        name: pattern
        for name, required in stack.checkout.config.checks.tags.items()
        if (pattern := expand_pattern(required, stack)) is not None
    }
    if not wanted:
        return
    defaults = default_tags(stack)
    if defaults is None:
        yield Skipped(reason="the provider's `default_tags` are only known at run time")
        return
    unknown_tags: list[tuple[str, str]] = []
    for resource, scope in stack.resources(mode="managed"):
        attribute = resource.body.attribute("tags")
        if attribute is None and not has_tags(resource.type):
            continue
        tags = _effective_tags(attribute, scope, defaults)
        if tags is None or any(
            isinstance(tags.get(name), Unknown) and expected != "*" for name, expected in wanted.items()
        ):
            unknown_tags.append((resource.block.file, resource.address))
        if tags is not None:
            yield from _wrong_tags(attribute or resource.block, resource.address, tags, wanted)
    yield from known_at_run_time_only("the tags", unknown_tags)


def _effective_tags(
    attribute: Attribute | None, scope: Scope, defaults: Mapping[str, object]
) -> Mapping[str, object] | None:
    tags = evaluate(attribute.expression, scope) if attribute is not None else None
    if tags is None:
        return defaults
    return {**defaults, **tags} if isinstance(tags, Mapping) else None


def _wrong_tags(
    where: Attribute | Block, address: str, tags: Mapping[str, object], wanted: Mapping[str, str]
) -> Iterator[Finding]:
    for name, expected in wanted.items():
        if name not in tags:
            yield finding(where, f"the tag `{name}` is missing", address=address)
            continue
        has = tags[name]
        if isinstance(has, str) and not is_name(expected, has):
            yield finding(where, f"the tag `{name}` is `{shorten(has)}`, not `{expected}`", address=address)


HF516 = Rule(
    id="HF516",
    title="Resource tags do not follow the convention",
    fix="Set the tags that `checks.tags` in holdfast.yaml requires, preferably with the provider's "
    "`default_tags`.",
    severity=Severity.WARNING,
    needs="`checks.tags`",
    configured=lambda checkout: bool(checkout.config.checks.tags),
    stack=_check_tags,
)


# Conventions, expanded for one stack.


_PLACEHOLDER = pattern(r"\{([a-z]+)\}")
_NAMES: Final = ("name", "bucket", "identifier", "function_name", "cluster_identifier", "family", "alias")
_PREFIXES: Final = ("name_prefix", "bucket_prefix", "identifier_prefix", "cluster_identifier_prefix")
_RANDOM_SUFFIX: Final = "x" * 26
"""As long as the suffix that the provider adds to a prefix."""
_SHOWN: Final = 80
_TAGGED: Final = frozenset(
    f"aws_{name}"
    for name in (
        *("acm_certificate", "api_gateway_rest_api", "apigatewayv2_api", "backup_vault", "cloudtrail"),
        *("cloudfront_distribution", "cloudwatch_log_group", "codebuild_project", "db_instance"),
        *("docdb_cluster", "dynamodb_table", "ebs_volume", "ecr_repository", "ecs_cluster", "ecs_service"),
        *("efs_file_system", "eip", "eks_cluster", "eks_node_group", "elasticache_cluster"),
        *("elasticache_replication_group", "iam_policy", "iam_role", "iam_user", "instance"),
        *("internet_gateway", "kinesis_stream", "kms_key", "lambda_function", "launch_template", "lb"),
        *("lb_target_group", "mq_broker", "msk_cluster", "nat_gateway", "neptune_cluster"),
        *("network_acl", "network_interface", "opensearch_domain", "rds_cluster", "redshift_cluster"),
        *("route53_zone", "route_table", "s3_bucket", "secretsmanager_secret", "security_group"),
        *("sfn_state_machine", "sns_topic", "sqs_queue", "ssm_parameter", "subnet", "vpc", "vpc_endpoint"),
    )
)
"""Types that support tags even if the code sets none."""


def expand_pattern(pattern: str, stack: CheckedStack) -> str | None:
    """None if the stack lacks a part of the pattern."""
    stack_ = stack.stack
    parts = {
        "company": stack.checkout.config.company,
        "environment": stack_.environment,
        "account": stack_.account,
        "region": stack_.region,
        "stack": stack_.name,
    }
    if any(parts.get(name) is None for name in _PLACEHOLDER.findall(pattern)):
        return None
    return _PLACEHOLDER.sub(lambda match: str(parts[match[1]]), pattern)


def name_pattern(names: Mapping[str, str], type_: str) -> str | None:
    """The longest matching pattern wins."""
    patterns = [pattern for pattern in names if is_name(pattern, type_)]
    return names[max(patterns, key=len)] if patterns else None


def name_of(resource: Resource, scope: Scope) -> tuple[Attribute | None, object]:
    """The argument with the resource's name, and its value."""
    for name in (*_NAMES, *_PREFIXES):
        attribute = resource.body.attribute(name)
        if attribute is not None:
            name_value = value(resource.body, name, scope)
            made_up = name in _PREFIXES and isinstance(name_value, str)
            return attribute, f"{name_value}{_RANDOM_SUFFIX}" if made_up else name_value
    return None, UNKNOWN


def has_tags(type_: str) -> bool:
    return type_ in _TAGGED


def default_tags(stack: CheckedStack) -> Mapping[str, object] | None:
    """The tags that the root module's providers add to every resource; None if they are not known."""
    tags_: dict[str, object] = {}
    for provider in stack.module.blocks("provider"):
        for block in nested(provider.body, "default_tags"):
            tags = value(block.body, "tags", stack.scope)
            if not isinstance(tags, Mapping):
                return None
            tags_.update(tags)
    return tags_


def shorten(text: str) -> str:
    text = f"{text.removesuffix(_RANDOM_SUFFIX)}…" if text.endswith(_RANDOM_SUFFIX) else text
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
