"""In a job for a change under review, `notify` counts only as the default branch had it last."""

from __future__ import annotations

import pytest
from alerts_made import settings_of

from holdfast.notify.alerts.outbox import Outbox
from holdfast.notify.alerts.review import counts, with_merged

MERGED = (
    '{ channels: { ops: { slack: { webhook: { secret: "env:HOOK" } } } },'
    " routes: [ { channel: ops, environments: [prod] } ] }"
)


def test_what_the_default_branch_had_counts() -> None:
    assert counts(settings_of(MERGED), with_merged(Outbox(), settings_of(MERGED)))
    assert not counts(settings_of(MERGED), Outbox()), "nothing is merged yet"


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("env:HOOK", "env:AWS_SECRET_ACCESS_KEY"),
        ("[prod]", "[dev]"),
        ("ops", "other"),
        ("channel: ops,", "channel: ops, hours: { from: '08:00', to: '08:01', zone: UTC },"),
        ('slack: { webhook: { secret: "env:HOOK" } }', "console: true"),
    ],
)
def test_any_other_setting_does_not(part: str, changed: str) -> None:
    settings = settings_of(MERGED.replace(part, changed))
    assert not counts(settings, with_merged(Outbox(), settings_of(MERGED)))


@pytest.mark.parametrize(
    ("secret", "counted"),
    [("file:hook.txt", False), ("dotenv:.env#HOOK", False), ("file:/run/secrets/hook", True)],
)
def test_a_secret_in_a_file_of_the_change_does_not(secret: str, counted: bool) -> None:  # noqa: FBT001
    """The change can have another file of that name."""
    settings = settings_of(MERGED.replace("env:HOOK", secret))
    assert counts(settings, with_merged(Outbox(), settings)) is counted
