"""The code hosts whose webhooks are understood."""

from __future__ import annotations

from typing import Final

from holdfast.notify.webhooks.azure import AZURE_WEBHOOK
from holdfast.notify.webhooks.github import GITHUB_WEBHOOK
from holdfast.notify.webhooks.gitlab import GITLAB_WEBHOOK
from holdfast.notify.webhooks.interface import WebhookHost

WEBHOOK_HOSTS: Final[tuple[WebhookHost, ...]] = (GITHUB_WEBHOOK, GITLAB_WEBHOOK, AZURE_WEBHOOK)


def webhook_host(name: str) -> WebhookHost:
    """Raises KeyError."""
    return {webhook.host.name: webhook for webhook in WEBHOOK_HOSTS}[name]
