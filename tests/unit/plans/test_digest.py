from __future__ import annotations

import dataclasses

from holdfast.plans.digest import DigestParts, canonical

PARTS = DigestParts(plan="p", lineage="l", serial=1, lock=None, inputs="i", policy="p", made="one")


def test_two_plans_of_the_same_bytes_are_two_plans() -> None:
    """Terraform's plan files differ by a timestamp of whole seconds: a digest names one making."""
    assert PARTS.digest() != dataclasses.replace(PARTS, made="another").digest()
    assert PARTS.digest() == dataclasses.replace(PARTS).digest()


def test_every_part_decides() -> None:
    """Whatever part changes, it is another digest."""
    others = [
        dataclasses.replace(PARTS, plan="q"),
        dataclasses.replace(PARTS, lineage="m"),
        dataclasses.replace(PARTS, serial=2),
        dataclasses.replace(PARTS, lock="k"),
        dataclasses.replace(PARTS, inputs="j"),
        dataclasses.replace(PARTS, policy="0"),
    ]
    assert len({PARTS.digest(), *(one.digest() for one in others)}) == len(others) + 1


def test_one_value_has_one_text() -> None:
    """In whatever order its parts were put together."""
    assert canonical({"b": {"y": 1, "x": "ü"}, "a": 2}) == canonical({"a": 2, "b": {"x": "ü", "y": 1}})
    assert canonical({"a": "ü"}) == '{"a":"ü"}'.encode()
