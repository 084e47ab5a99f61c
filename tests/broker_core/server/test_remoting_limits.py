"""The states of a connection with their times, and the limits of all connections together."""

import pytest

from broker_core.server.remoting_limits import ChannelLimits, RemotingLimits, SharedLimits, State

LIMITS = RemotingLimits(idle=100, handshake=10, stalled=20, frame=5, frame_rate=100, unsent_in_all=100, unfinished=50)


@pytest.fixture
def channel() -> ChannelLimits:
    return ChannelLimits(LIMITS, 1000.0)


def test_an_open_connection_is_overdue_when_it_was_silent(channel: ChannelLimits) -> None:
    assert channel.state is State.OPEN
    assert not channel.is_overdue(1099, 0) and channel.is_overdue(1100, 0)
    channel.note_activity(1050)
    assert not channel.is_overdue(1149, 0) and channel.is_overdue(1150, 0)


def test_a_handshake_is_overdue_however_active_it_is(channel: ChannelLimits) -> None:
    channel.begin_handshake()
    channel.note_activity(1009)
    assert channel.state is State.HANDSHAKE
    assert not channel.is_overdue(1009, 0) and channel.is_overdue(1010, 0)
    channel.end_handshake()
    assert channel.state is State.OPEN and not channel.is_overdue(1010, 0)


def test_a_client_that_is_behind_is_overdue_when_it_reads_nothing(channel: ChannelLimits) -> None:
    channel.begin_handshake()
    channel.fall_behind(1005)
    assert channel.state is State.BEHIND and not channel.is_overdue(1024, 0)
    assert not channel.is_overdue(1024, 7), "it has taken some bytes"
    assert not channel.is_overdue(1043, 7) and channel.is_overdue(1044, 7)
    channel.catch_up()
    assert channel.state is State.HANDSHAKE


def test_an_incomplete_frame_is_overdue_when_its_rest_is_slow(channel: ChannelLimits) -> None:
    channel.note_unfinished(3, True, 1050)
    channel.note_activity(1054)
    assert channel.state is State.RECEIVING
    assert not channel.is_overdue(1055, 0) and channel.is_overdue(1055.1, 0)
    channel.note_unfinished(1000, False, 1055)
    assert not channel.is_overdue(1064.9, 0) and channel.is_overdue(1065, 0)
    channel.note_unfinished(10, True, 1065)
    assert not channel.is_overdue(1070, 0)
    channel.note_unfinished(0, False, 1070)
    assert channel.state is State.OPEN and not channel.is_overdue(1080, 0)


def test_the_rest_of_a_frame_is_not_late_while_nothing_is_read(channel: ChannelLimits) -> None:
    channel.note_unfinished(3, True, 1000)
    channel.pause()
    assert channel.state is State.OPEN and not channel.is_overdue(1050, 0)
    channel.resume(1050)
    assert not channel.is_overdue(1055, 0) and channel.is_overdue(1056, 0)


class Connection:
    """A connection with so many bytes of an incomplete frame, and so many unsent."""

    def __init__(self, shared: SharedLimits, unfinished: int = 0, unsent: int = 0) -> None:
        self.unfinished, self.unsent_counted = unfinished, 0
        self.unsent, self.shared = unsent, shared
        self.reasons: list[str] = []
        shared.add(self)

    def count_unsent(self) -> None:
        change, self.unsent_counted = self.unsent - self.unsent_counted, self.unsent
        self.shared.unsent += change

    def cut(self, why: str) -> None:
        self.reasons.append(why)


def test_the_connection_with_most_of_incomplete_frames_is_cut_off() -> None:
    shared = SharedLimits(LIMITS, lambda: 0)
    small, large = Connection(shared, unfinished=20), Connection(shared, unfinished=30)
    shared.count_unfinished(large, 50, has_whole=False)
    assert small.reasons == large.reasons == []
    shared.count_unfinished(large, 1, has_whole=False)
    assert (small.reasons, large.reasons) == ([], ["sent too much of an incomplete frame"])
    shared.remove(large)
    assert shared.unfinished == 21


def test_the_client_with_most_unsent_bytes_is_cut_off() -> None:
    shared = SharedLimits(LIMITS, lambda: 0)
    small, large = Connection(shared, unsent=40), Connection(shared, unsent=60)
    small.count_unsent()
    large.count_unsent()
    shared.limit_unsent()
    assert small.reasons == large.reasons == []
    large.unsent += 1
    large.count_unsent()
    shared.limit_unsent()
    assert (small.reasons, large.reasons) == ([], ["does not read, like too many others"])


def test_totals_that_are_out_of_date_cut_nobody_off() -> None:
    shared = SharedLimits(LIMITS, lambda: 0)
    connection = Connection(shared, unsent=200)
    connection.count_unsent()
    connection.unsent = 10
    shared.limit_unsent()
    assert connection.reasons == [] and shared.unsent == 10


def test_the_limit_of_unsent_bytes_allows_the_largest_answers_of_one_client() -> None:
    assert SharedLimits(LIMITS, lambda: 1000).max_unsent() == LIMITS.unsent
    assert SharedLimits(LIMITS, lambda: 20 << 20).max_unsent() == LIMITS.small_questions * (20 << 20)


def test_the_longest_incomplete_connection_makes_room() -> None:
    shared = SharedLimits(LIMITS, lambda: 0)
    first, second, third = (Connection(shared, unfinished=unfinished) for unfinished in (0, 7, 0))
    shared.count_unfinished(first, 0, has_whole=True)
    first.unfinished = 9
    shared.count_unfinished(first, 9, has_whole=False)
    shared.remove(third)
    assert shared.cut_incomplete()
    assert (first.reasons, len(second.reasons)) == ([], 1), "the second one has waited since it was accepted"
    assert shared.cut_incomplete() and not shared.cut_incomplete()
    assert (len(first.reasons), len(second.reasons), third.reasons) == (1, 1, [])


def test_connections_that_sent_whole_frames_keep_their_places() -> None:
    shared = SharedLimits(LIMITS, lambda: 0)
    first, second = Connection(shared), Connection(shared)
    shared.count_unfinished(first, 0, has_whole=True)
    assert shared.cut_incomplete() and not shared.cut_incomplete()
    assert (first.reasons, len(second.reasons)) == ([], 1)


def test_a_busy_connection_has_waited_only_since_its_last_whole_frame() -> None:
    shared = SharedLimits(LIMITS, lambda: 0)
    busy, silent, slow = Connection(shared, unfinished=5), Connection(shared), Connection(shared, unfinished=5)
    shared.count_unfinished(busy, 5, has_whole=True)
    shared.count_unfinished(slow, 5, has_whole=False)
    for connection in (silent, slow, busy):
        assert shared.cut_incomplete() and len(connection.reasons) == 1
