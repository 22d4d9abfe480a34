from __future__ import annotations

from msgspec import structs

from holdfast.plans.saved_plan import DigestParts, canonical

PARTS = DigestParts(plan="p", lineage="l", serial=1, lock=None, inputs="i", policy="p", made="one")


def test_two_plans_of_the_same_bytes_are_two_plans() -> None:
    """Terraform's plan files differ by a timestamp of whole seconds: a digest names one making."""
    assert PARTS.digest() != structs.replace(PARTS, made="another").digest()
    assert PARTS.digest() == structs.replace(PARTS).digest()


def test_every_part_decides() -> None:
    """Whatever part changes, it is another digest."""
    others = [
        structs.replace(PARTS, plan="q"),
        structs.replace(PARTS, lineage="m"),
        structs.replace(PARTS, serial=2),
        structs.replace(PARTS, lock="k"),
        structs.replace(PARTS, inputs="j"),
        structs.replace(PARTS, policy="0"),
    ]
    assert len({PARTS.digest(), *(one.digest() for one in others)}) == len(others) + 1


def test_one_value_has_one_text() -> None:
    """In whatever order its parts were put together."""
    assert canonical({"b": {"y": 1, "x": "ü"}, "a": 2}) == canonical({"a": 2, "b": {"x": "ü", "y": 1}})
    assert canonical({"a": "ü"}) == '{"a":"ü"}'.encode()
