"""The trees of the parser are large: only those of the last files are kept."""

from __future__ import annotations

from holdfast.hcl import native
from holdfast.hcl.nodes import Body, File
from holdfast.hcl.reader import constant, read


def is_built(body: Body) -> bool:
    """Whether nothing in it needs the tree any more."""
    return all(attribute.lazy._build is None for attribute in body.attributes) and all(
        block.lazy._build is None and is_built(block.body) for block in body.blocks
    )


def some(name: str, size: int = 0) -> File:
    padding = f"# {'x' * size}\n"
    return read(f'{padding}a "b" {{\n  c {{\n    d = "{name}"\n  }}\n}}\n', f"{name}.tf")


def test_older_files_are_built_and_their_trees_freed() -> None:
    """What they contain stays the same; the last file is built on first use."""
    first = some("first")
    for number in range(2):
        some(f"f{number}", native._MOST_BYTES // 2)
    last = some("last", native._MOST_BYTES // 2)
    assert is_built(first.body)
    assert not any(block.lazy._build is None for block in last.body.blocks)
    attribute = first.body.blocks[0].body.blocks[0].body.attributes[0]
    assert (constant(attribute.expression), attribute.place.line) == ("first", 4)


def test_one_large_file_keeps_its_tree_until_the_next() -> None:
    large = some("large", 2 * native._MOST_BYTES)
    assert not is_built(large.body)
    some("next", 10)
    assert is_built(large.body)
