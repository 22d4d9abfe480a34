"""The backends of Terraform: which settings are secrets, identities, or locations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

MANAGED: Final = "holdfast"
"""Neither code nor configuration names a backend: Holdfast stores the state."""


class BackendType(Struct, frozen=True):
    """Names of settings; a dot leads to a nested one."""

    needs: tuple[str, ...] = ()
    """Required to know where the state is. If one is missing, it and others may come from elsewhere."""
    secrets: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    """Accounts, roles, users, profiles."""
    places: tuple[str, ...] = ()
    """Locations that differ between targets."""
    store: tuple[str, ...] = ()
    """What permissions are granted on: it should hold the states of one environment."""
    variables: Mapping[str, str] = {}
    """Environment variables that set a setting by default, with its name."""
    at_rest_unknown: str | None = None
    """Why the code does not show whether the state is encrypted at rest."""


_AZURE_SECRETS: Final = (
    *("access_key", "sas_token", "client_secret", "client_certificate", "client_certificate_password"),
    *("oidc_token", "oidc_request_token"),
)
_AZURE_IDENTITIES: Final = (
    *("subscription_id", "tenant_id", "client_id", "msi_endpoint", "client_certificate_path"),
    *("client_id_file_path", "client_secret_file_path", "oidc_token_file_path"),
    "ado_pipeline_service_connection_id",
)

BACKEND_TYPES: Final[Mapping[str, BackendType]] = {
    "local": BackendType(places=("path", "workspace_dir")),
    "inmem": BackendType(),
    "s3": BackendType(
        needs=("bucket", "key"),
        secrets=(
            *("access_key", "secret_key", "token", "sse_customer_key"),
            *("assume_role_with_web_identity.web_identity_token",),
        ),
        identities=(
            *("profile", "role_arn", "external_id", "session_name", "assume_role.role_arn"),
            *("assume_role.external_id", "assume_role.source_identity"),
            *("assume_role_with_web_identity.role_arn", "allowed_account_ids", "forbidden_account_ids"),
            *("shared_credentials_file", "shared_credentials_files", "shared_config_files"),
        ),
        places=(
            *("bucket", "key", "region", "kms_key_id", "dynamodb_table", "workspace_key_prefix"),
            *("endpoint", "endpoints"),
        ),
        store=("bucket",),
        variables={
            "AWS_ACCESS_KEY_ID": "access_key",
            "AWS_SECRET_ACCESS_KEY": "secret_key",
            "AWS_SESSION_TOKEN": "token",
            "AWS_SSE_CUSTOMER_KEY": "sse_customer_key",
            "AWS_ENDPOINT_URL_S3": "endpoint",
        },
    ),
    "azurerm": BackendType(
        needs=("storage_account_name", "container_name", "key"),
        secrets=_AZURE_SECRETS,
        identities=_AZURE_IDENTITIES,
        places=("storage_account_name", "container_name", "key", "resource_group_name", "endpoint"),
        store=("storage_account_name", "container_name"),
        variables={
            "ARM_ACCESS_KEY": "access_key",
            "ARM_SAS_TOKEN": "sas_token",
            "ARM_CLIENT_SECRET": "client_secret",
            "ARM_CLIENT_CERTIFICATE_PASSWORD": "client_certificate_password",
            "ARM_OIDC_TOKEN": "oidc_token",
        },
    ),
    "gcs": BackendType(
        needs=("bucket",),
        secrets=("credentials", "access_token", "encryption_key"),
        identities=("impersonate_service_account", "impersonate_service_account_delegates"),
        places=("bucket", "prefix", "kms_encryption_key", "storage_custom_endpoint"),
        store=("bucket",),
        variables={
            "GOOGLE_CREDENTIALS": "credentials",
            "GOOGLE_BACKEND_CREDENTIALS": "credentials",
            "GOOGLE_OAUTH_ACCESS_TOKEN": "access_token",
            "GOOGLE_ENCRYPTION_KEY": "encryption_key",
        },
    ),
    "http": BackendType(
        needs=("address",),
        secrets=("password", "client_private_key_pem"),
        identities=("username", "client_certificate_pem"),
        places=("address", "lock_address", "unlock_address"),
        variables={
            "TF_HTTP_ADDRESS": "address",
            "TF_HTTP_LOCK_ADDRESS": "lock_address",
            "TF_HTTP_UNLOCK_ADDRESS": "unlock_address",
            "TF_HTTP_USERNAME": "username",
            "TF_HTTP_PASSWORD": "password",
            "TF_HTTP_CLIENT_PRIVATE_KEY_PEM": "client_private_key_pem",
        },
        at_rest_unknown="the server of the http backend decides whether the state is encrypted at rest",
    ),
    "pg": BackendType(
        needs=("conn_str",),
        secrets=("password",),
        places=("conn_str", "schema_name", "table_name", "index_name"),
        variables={"PG_CONN_STR": "conn_str", "PGPASSWORD": "password", "PGSSLMODE": "sslmode"},
        at_rest_unknown="the database of the pg backend decides whether the state is encrypted at rest",
    ),
    "consul": BackendType(
        needs=("path",),
        secrets=("access_token", "http_auth"),
        identities=("cert_file", "key_file"),
        places=("address", "path", "datacenter"),
        variables={
            "CONSUL_HTTP_ADDR": "address",
            "CONSUL_HTTP_TOKEN": "access_token",
            "CONSUL_HTTP_AUTH": "http_auth",
        },
        at_rest_unknown="Consul decides whether the state is encrypted at rest",
    ),
    "kubernetes": BackendType(
        needs=("secret_suffix",),
        secrets=("token", "password", "client_key"),
        identities=("username", "client_certificate", "config_context_auth_info"),
        places=(
            *("secret_suffix", "namespace", "host", "config_path", "config_paths", "config_context"),
            "config_context_cluster",
        ),
        variables={
            "KUBE_HOST": "host",
            "KUBE_TOKEN": "token",
            "KUBE_PASSWORD": "password",
            "KUBE_CLIENT_KEY_DATA": "client_key",
        },
        at_rest_unknown="the cluster decides whether Secrets, and so the state, are encrypted at rest",
    ),
    "cos": BackendType(
        needs=("bucket",),
        secrets=("secret_id", "secret_key", "security_token"),
        identities=("assume_role.role_arn", "profile", "shared_credentials_dir"),
        places=("bucket", "prefix", "key", "region", "domain", "endpoint"),
        store=("bucket",),
        variables={
            "TENCENTCLOUD_SECRET_ID": "secret_id",
            "TENCENTCLOUD_SECRET_KEY": "secret_key",
            "TENCENTCLOUD_SECURITY_TOKEN": "security_token",
        },
    ),
    "oss": BackendType(
        needs=("bucket",),
        secrets=("access_key", "secret_key", "security_token"),
        identities=(
            *("assume_role.role_arn", "assume_role_role_arn", "ecs_role_name", "profile"),
            "shared_credentials_file",
        ),
        places=(
            *("bucket", "prefix", "key", "region", "endpoint", "tablestore_endpoint", "tablestore_table"),
        ),
        store=("bucket",),
        variables={
            "ALICLOUD_ACCESS_KEY": "access_key",
            "ALICLOUD_SECRET_KEY": "secret_key",
            "ALICLOUD_SECURITY_TOKEN": "security_token",
        },
    ),
    "oci": BackendType(
        needs=("bucket", "namespace"),
        secrets=("private_key", "private_key_password", "sse_customer_key"),
        identities=("tenancy_ocid", "user_ocid", "fingerprint", "private_key_path", "config_file_profile"),
        places=("bucket", "key", "namespace", "region", "kms_key_id", "workspace_key_prefix"),
        store=("namespace", "bucket"),
    ),
    "remote": BackendType(
        needs=("organization",), secrets=("token",), places=("hostname", "organization", "workspaces")
    ),
    "cloud": BackendType(secrets=("token",)),
}

REMOVED: Final[Mapping[str, str]] = {
    "artifactory": "http",
    "azure": "azurerm",
    "etcd": "consul",
    "etcdv3": "consul",
    "manta": "s3",
    "swift": "s3",
}
"""Backends that Terraform 1.3 removed, each with the closest replacement."""
