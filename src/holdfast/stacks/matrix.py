"""The combinations of a matrix: one stack each, with the files and folders that its values come from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from holdfast.config.matrix import MatrixAxis, MatrixSource
from holdfast.config.problems import Problems
from holdfast.config.stack_rules import StackRule
from holdfast.stacks.listing import Tree, has_file
from holdfast.stacks.pattern import compile_pattern, matching_paths

ReadItems = Callable[[str], tuple[str, ...] | None]
"""From a path to the list in the file; None if it cannot be read."""


class Combination(Struct, frozen=True, kw_only=True):
    values: Mapping[str, str]
    sources: tuple[str, ...]


def combinations(rule: StackRule, tree: Tree, read: ReadItems, problems: Problems) -> Iterator[Combination]:
    """One without values for an entry without a matrix."""
    for axis in rule.axes.values():
        file = axis.file if isinstance(axis, MatrixSource) else None
        if file is not None and not has_file(tree, file):
            problems.add(
                "HF-STACK-13",
                f"{file}, which the matrix of {rule.name} takes values from, does not exist",
                place=rule.place_of("matrix"),
                hint="Paths are relative to holdfast.yaml.",
            )
    axes = {name: tuple(_values(name, axis, tree, read)) for name, axis in rule.axes.items()}
    for chosen in itertools.product(*axes.values()):
        values = dict(zip(axes, (value for value, _ in chosen), strict=True))
        if not any(_matches(values, pattern) for pattern in rule.excluded):
            sources = dict.fromkeys(source for _, source in chosen if source is not None)
            yield Combination(values=values, sources=tuple(sources))


def _matches(values: Mapping[str, str], pattern: Mapping[str, str]) -> bool:
    return all(values.get(name) == value for name, value in pattern.items())


def _values(name: str, axis: MatrixAxis, tree: Tree, read: ReadItems) -> Iterator[tuple[str, str | None]]:
    """Each value once, with the path that it comes from.

    If its file cannot be read, the values are not known: one stack stands for all, with `{name}` in its name.
    """
    if not isinstance(axis, MatrixSource):
        yield from ((value, None) for value in axis if isinstance(value, str))
    elif axis.file is not None:
        items = read(axis.file) if has_file(tree, axis.file) else ()
        yield from ((item, axis.file) for item in ((f"{{{name}}}",) if items is None else items))
    else:
        folders = axis.folders is not None
        pattern = compile_pattern(axis.folders or axis.files or "")
        paths: dict[str, str] = {}
        for path, captured in sorted(matching_paths(pattern, tree, folders=folders)):
            last = path.rpartition("/")[2]
            paths.setdefault(captured.get(name) or (last if folders else last.partition(".")[0]), path)
        yield from paths.items()
