"""The late `dataclass` beside the standard one: whatever can be seen of a value is the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from holdfast.kernel import late_dataclass
from holdfast.kernel.late_dataclass import dataclass as late

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, late], ids=["standard", "late"])


def shapes(dataclass: Decorator) -> Any:
    field: Any = dataclasses.field if dataclass is dataclasses.dataclass else late_dataclass.field

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Point:
        """A point."""

        kinds: ClassVar[int] = 3
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, hash=False)
        hidden: str = field(default="h", repr=False, compare=False)
        made: str = field(default="m", init=False)

        @property
        def sum(self) -> int:
            return self.x + self.y

    return Point


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StandardPair:
    a: int
    b: tuple[int, ...] = ()


@late(frozen=True, slots=True, kw_only=True)
class LatePair:
    a: int
    b: tuple[int, ...] = ()


@BOTH
def test_a_value_is_made_of_its_fields(dataclass: Decorator) -> None:
    """Names, defaults and factories give what they say, each value with a list of its own."""
    point = shapes(dataclass)
    one, other = point(x=1), point(x=1, y=5)
    assert (one.x, one.y, one.tags, one.hidden, one.made, one.sum) == (1, 2, [], "h", "m", 3)
    assert other.y == 5
    assert one.tags is not other.tags
    assert point.kinds == 3
    assert point.__doc__ == "A point."


@BOTH
@pytest.mark.parametrize(
    ("values", "named"), [((1,), {}), ((), {}), ((), {"x": 1, "z": 2}), ((), {"x": 1, "made": "n"})]
)
def test_what_does_not_fit_is_refused(dataclass: Decorator, values: Any, named: Any) -> None:
    """By position, missing, unknown and not to be given: before the first value and after it."""
    point = shapes(dataclass)
    for _ in range(2):
        with pytest.raises(TypeError):
            point(*values, **named)
        point(x=1)


@BOTH
def test_a_frozen_value_stays(dataclass: Decorator) -> None:
    """Nothing can be set, deleted or added."""
    one = shapes(dataclass)(x=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        one.new = 2
    assert not hasattr(one, "__dict__")


@BOTH
def test_values_are_compared_shown_and_hashed_by_their_fields(dataclass: Decorator) -> None:
    """What does not count for comparison or showing does not count."""
    point = shapes(dataclass)
    assert point(x=1) == point(x=1, hidden="other")
    assert point(x=1) != point(x=2)
    assert point(x=1) != (1, 2)
    assert hash(point(x=1, tags=["a"])) == hash(point(x=1, tags=["b"]))
    assert repr(point(x=1)).endswith("Point(x=1, y=2, tags=[], made='m')")


@BOTH
def test_the_standard_library_understands_it(dataclass: Decorator) -> None:
    """`fields`, `replace`, `asdict` and copies."""
    one = shapes(dataclass)(x=1, tags=["a"])
    assert [field.name for field in dataclasses.fields(one)] == ["x", "y", "tags", "hidden", "made"]
    assert dataclasses.replace(one, y=7).y == 7
    assert dataclasses.asdict(one)["tags"] == ["a"]
    assert copy.deepcopy(one) == one


@pytest.mark.parametrize("pair", [StandardPair, LatePair])
def test_a_frozen_slotted_value_can_be_pickled(pair: Any) -> None:
    """It crosses to other processes as it is."""
    packed = pickle.dumps(pair(a=1, b=(2,)))
    assert pickle.loads(packed) == pair(a=1, b=(2,))  # noqa: S301 - made a line ago


@BOTH
def test_a_class_that_grows_another_has_the_fields_of_both(dataclass: Decorator) -> None:
    """In the order of their declaration, with defaults redeclared."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Base:
        a: int
        b: int = 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Grown(Base):
        c: int
        b: int = 5

    assert repr(Grown(a=1, c=2)).endswith("Grown(a=1, b=5, c=2)")
    assert Base(a=1) != Grown(a=1, c=1, b=1)
    assert isinstance(Grown(a=1, c=2), Base)


@BOTH
def test_a_value_that_is_not_frozen_can_be_changed(dataclass: Decorator) -> None:
    """It has no hash, and what is done after its making is done."""

    @dataclass(slots=True)
    class Count:
        number: int
        twice: int = 0

        def __post_init__(self) -> None:
            self.twice = 2 * self.number

    count = Count(3)
    count.number = 9
    assert (count.number, count.twice) == (9, 6)
    with pytest.raises(TypeError):
        hash(count)
    match count:
        case Count(number, twice):
            assert (number, twice) == (9, 6)


@BOTH
def test_own_methods_stay(dataclass: Decorator) -> None:
    """What a class says itself is not overwritten, and without `eq` a value equals itself only."""

    @dataclass(frozen=True, slots=True, kw_only=True, eq=False)
    class Named:
        name: str

        def __repr__(self) -> str:
            return "***"

    assert repr(Named(name="a")) == "***"
    assert Named(name="a") != Named(name="a")
    assert len({Named(name="a"), Named(name="a")}) == 2


@pytest.mark.parametrize("shared", [[], {}, set()])
def test_a_default_that_all_values_would_share_is_refused(shared: object) -> None:
    """As the standard refuses it."""

    class Odd:
        x: object = shared

    Odd.__annotations__ = {"x": "object"}
    with pytest.raises(TypeError, match="share"):
        late_dataclass.dataclass(Odd)


def test_what_is_not_offered_is_refused_at_once() -> None:
    """Not when the first value is made."""

    class Odd:
        x: dataclasses.InitVar[int]

    Odd.__annotations__ = {"x": "InitVar[int]"}
    with pytest.raises(TypeError, match="not offered"):
        late_dataclass.dataclass(Odd)
