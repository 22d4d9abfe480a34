"""Reads `.checkov.yaml`, and which of its settings are passed on to Checkov. Pure.

Checkov itself would follow all of them: Python code to run, a file or a URL for its report. Settings that
select checks are passed on; what they leave out is reported. Settings for the exit code or the output have no
effect here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.config import yaml
from holdfast.config.problems import Problems

FILES: Final = (".checkov.yaml", ".checkov.yml")
_CHECK, _SKIP, _PATHS, _OTHERS = "check", "skip-check", "skip-path", "external-checks-dir"
_NO_EFFECT: Final = frozenset(
    (
        *("branch", "compact", "create-baseline", "directory", "evaluate-variables", "file", "framework"),
        *("hard-fail-on", "mask", "no-fail-on-crash", "no-guide", "output", "output-file-path", "quiet"),
        *("repo-id", "skip-download", "skip-framework", "skip-resources-without-violations", "soft-fail"),
        *("soft-fail-on", "summary-position"),
    )
)


class CheckovSettings(NamedTuple):
    checks: tuple[str, ...] = ()
    """Only these; empty: all."""
    skipped: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Folders with the repository's own checks."""
    left_out: tuple[str, ...] = ()
    """Settings that are not passed on."""

    def flags(self, own: str) -> Iterator[str]:
        """`own` is a check of Holdfast, which always runs."""
        if self.checks:
            yield f"--check={','.join((*self.checks, own))}"
        if self.skipped:
            yield f"--skip-check={','.join(self.skipped)}"
        yield from (f"--skip-path={path}" for path in self.paths)


def read_settings(text: str, file: str) -> CheckovSettings | None:
    """None if the file is not valid."""
    problems = Problems()
    node = yaml.read(text, file=file, problems=problems)
    if len(problems) or not isinstance(node, yaml.MapNode):
        return CheckovSettings() if not len(problems) and _is_empty(node) else None
    values = {entry.key.replace("_", "-"): tuple(_texts(entry.value)) for entry in node.entries}
    known = _NO_EFFECT | {_CHECK, _SKIP, _PATHS, _OTHERS}
    return CheckovSettings(
        checks=_listed(values.get(_CHECK, ())),
        skipped=_listed(values.get(_SKIP, ())),
        paths=values.get(_PATHS, ()),
        others=values.get(_OTHERS, ()),
        left_out=tuple(sorted(key for key in values if key not in known)),
    )


def _is_empty(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value is None


def _texts(node: yaml.Node) -> Iterator[str]:
    match node:
        case yaml.ScalarNode():
            yield node.text
        case yaml.ListNode():
            for item in node.items:
                yield from _texts(item)
        case _:
            return


def _listed(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`A,B` is two."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
