"""What a repository's own `.checkov.yaml` says, and which of it is passed on to Checkov. Pure.

Checkov itself would take all of it: Python code to run, a file to write its report to instead of telling it,
an address to send it to. What chooses checks is passed on, and what it leaves out is told; what only decides
how Checkov ends or what it prints means nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from holdfast.config import yaml
from holdfast.config.problems import Problems

FILES: Final = (".checkov.yaml", ".checkov.yml")
_CHECK, _SKIP, _PATHS, _OTHERS = "check", "skip-check", "skip-path", "external-checks-dir"
_NO_MATTER: Final = frozenset(
    (
        *("branch", "compact", "create-baseline", "directory", "evaluate-variables", "file", "framework"),
        *("hard-fail-on", "mask", "no-fail-on-crash", "no-guide", "output", "output-file-path", "quiet"),
        *("repo-id", "skip-download", "skip-framework", "skip-resources-without-violations", "soft-fail"),
        *("soft-fail-on", "summary-position"),
    )
)


class Settings(NamedTuple):
    checks: tuple[str, ...] = ()
    """These alone; none: all."""
    skipped: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Folders with checks of the repository's own."""
    left_out: tuple[str, ...] = ()
    """What is asked for and not passed on."""

    def flags(self, own: str) -> Iterator[str]:
        """`own` is a check of ours, which is wanted whatever else is."""
        if self.checks:
            yield f"--check={','.join((*self.checks, own))}"
        if self.skipped:
            yield f"--skip-check={','.join(self.skipped)}"
        yield from (f"--skip-path={path}" for path in self.paths)


def settings(text: str, file: str) -> Settings | None:
    """None where it cannot be read."""
    problems = Problems()
    node = yaml.read(text, file=file, problems=problems)
    if len(problems) or not isinstance(node, yaml.MapNode):
        return Settings() if not len(problems) and _is_empty(node) else None
    said = {entry.key.replace("_", "-"): tuple(_texts(entry.value)) for entry in node.entries}
    return _settings(said)


def _settings(said: Mapping[str, tuple[str, ...]]) -> Settings:
    known = _NO_MATTER | {_CHECK, _SKIP, _PATHS, _OTHERS}
    return Settings(
        checks=_listed(said.get(_CHECK, ())),
        skipped=_listed(said.get(_SKIP, ())),
        paths=said.get(_PATHS, ()),
        others=said.get(_OTHERS, ()),
        left_out=tuple(sorted(key for key in said if key not in known)),
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
    return tuple(one.strip() for text in texts for one in text.split(",") if one.strip())
