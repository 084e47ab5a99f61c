"""The live board of the recent past."""

from msgspec import structs

from bridge.history.boards import ASK, KEPT, Boards
from broker_core.commands import Snapshot
from tests.fakes.engine import Bench


def snapshot(wall_ms: int, holds: int = 0) -> Snapshot:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1")
    bench.pull("orders", 1)
    reply = bench.call(ASK)
    assert isinstance(reply, Snapshot)
    return structs.replace(reply, wall_ms=wall_ms, holds_total=holds)


def test_the_board_of_a_moment_is_the_last_one_before_it() -> None:
    boards, first = Boards(), snapshot(1000, holds=3)
    boards.add(first)
    boards.add(structs.replace(first, wall_ms=2000))
    assert boards.at(999) is None
    assert boards.at(1000) == boards.at(1999) == first
    assert boards.at(1 << 60) == structs.replace(first, wall_ms=2000)
    assert [(board.wall_ms, board.holds_total) for board in boards.all()] == [(1000, 3), (2000, 3)]


def test_a_number_of_boards_is_kept() -> None:
    boards, one = Boards(), snapshot(0)
    for number in range(KEPT + 5):
        boards.add(structs.replace(one, wall_ms=number))
    assert [board.wall_ms for board in boards.all()] == list(range(5, KEPT + 5))


def test_a_clock_that_goes_back_leaves_no_board_of_the_future() -> None:
    boards, one = Boards(), snapshot(0)
    for wall_ms in (1000, 2000, 3000, 1500):
        boards.add(structs.replace(one, wall_ms=wall_ms))
    assert [board.wall_ms for board in boards.all()] == [1000, 1500]
