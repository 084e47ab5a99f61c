import gc
import weakref
from collections.abc import Iterator

import pytest

from broker_core.server.garbage_collection import collect_young, freeze


class Node:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_collections_do_not_look_at_what_existed_at_the_start() -> None:
    old = [[] for _ in range(100)]  # type: ignore[var-annotated]
    garbage = weakref.ref(Node())
    freeze()
    assert garbage() is None, "cycles are collected first, or they would stay for ever"
    looked_at = {id(one) for one in gc.get_objects()}
    assert not looked_at & set(map(id, old))


def test_later_cycles_are_collected() -> None:
    freeze()
    assert gc.isenabled()
    garbage = weakref.ref(Node())
    gc.collect()
    assert garbage() is None


def test_a_full_collection_does_not_look_at_fields_of_events_again() -> None:
    fields = tuple(str(number) for number in range(2))
    assert gc.is_tracked(fields)
    collect_young()
    assert not gc.is_tracked(fields)
