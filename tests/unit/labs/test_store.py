from __future__ import annotations

import pytest

from provider.service import Fault
from provider.store import LabObject, StoreError, look_up, new_id, the_one_named


class BlobStore:
    """Objects in memory, for questions that need no file."""

    def __init__(self, *objects: LabObject) -> None:
        self._objects = {each["id"]: each for each in objects}

    def create(self, values: LabObject) -> LabObject:
        raise NotImplementedError

    def read(self, object_id: str) -> LabObject | None:
        return self._objects.get(object_id)

    def update(self, object_id: str, values: LabObject) -> LabObject:
        raise NotImplementedError

    def delete(self, object_id: str) -> None:
        raise NotImplementedError

    def find(self, name: str) -> list[LabObject]:
        return [each for each in self._objects.values() if each["name"] == name]


def test_an_id_goes_before_a_name() -> None:
    """An object whose name is another's id does not hide that other."""
    blobs = BlobStore({"id": "x", "name": "first"}, {"id": "y", "name": "x"})
    assert look_up(blobs, "x")["name"] == "first"
    assert look_up(blobs, "first")["id"] == "x"
    assert the_one_named(blobs, "x")["id"] == "y"


def test_a_name_that_two_objects_bear_is_refused_with_their_ids() -> None:
    """To guess would be to import the wrong one."""
    blobs = BlobStore({"id": "b", "name": "twin"}, {"id": "a", "name": "twin"})
    with pytest.raises(StoreError, match="use an id: a, b"):
        look_up(blobs, "twin")


@pytest.mark.parametrize(
    ("name", "start"),
    [("My Server #1", "my-server-1-"), ("../../etc", "etc-"), ("Ünïcode", "n-code-"), ("", "object-")],
)
def test_ids_are_safe_as_file_names_and_never_the_same(name: str, start: str) -> None:
    """A name can hold anything; the id it leads to cannot."""
    first, second = new_id(name), new_id(name)
    assert first.startswith(start)
    assert first != second


def test_a_fault_answers_with_its_own_text_or_a_fitting_one() -> None:
    """Throttling is always 429; failures have the status they were given."""
    assert Fault(operation="create", what="throttle", status=503).answer == (
        429,
        "Rate exceeded: try again later.",
    )
    assert Fault(operation="read", what="fail-before", status=503, text="no").answer == (503, "no")
