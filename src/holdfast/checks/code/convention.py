"""Naming and tagging conventions of the configuration, expanded for one stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.checks.model.globs import is_name
from holdfast.checks.model.subjects import CheckedStack, Resource, nested, value
from holdfast.hcl.eval.evaluate import Scope
from holdfast.hcl.nodes import Attribute
from holdfast.hcl.reader import UNKNOWN
from holdfast.kernel.patterns import pattern

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
    return _PLACEHOLDER.sub(lambda found: str(parts[found[1]]), pattern)


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
