"""Frames out of a stream: however it is cut, and whatever is in it."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.remoting.frame_decoder import MAX_HEADER, FrameDecoder
from broker_core.remoting.remoting_command import MAX_FRAME, RemotingCommand, RemotingProtocolError
from tests.broker_core.remoting.test_remoting_command import GO_BINARY_FRAME, JAVA_ANSWER, JAVA_QUERY_ROUTE, frames


def frame(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


GOLDEN = [frame(JAVA_QUERY_ROUTE), frame(JAVA_ANSWER, b"\x00\xffbody"), GO_BINARY_FRAME]


def feed_in_pieces(data: bytes, cuts: list[int]) -> list[RemotingCommand]:
    decoder, commands = FrameDecoder(), []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        commands += decoder.feed(data[begin:end])
    assert decoder.unfinished == 0
    return commands


def test_frames_of_one_read_come_together_with_their_bodies() -> None:
    commands = FrameDecoder().feed(b"".join(GOLDEN))
    assert [(command.code, command.serialize_type, command.body) for command in commands] == [
        (105, "JSON", b""),
        (0, "JSON", b"\x00\xffbody"),
        (11, "ROCKETMQ", b""),
    ]


def test_byte_by_byte() -> None:
    data = b"".join(GOLDEN)
    assert feed_in_pieces(data, list(range(1, len(data)))) == FrameDecoder().feed(data)


@given(st.lists(frames(), max_size=5), st.data())
def test_cut_anywhere(commands: list[RemotingCommand], draw: st.DataObject) -> None:
    data = b"".join(command.encode() for command in commands)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    assert feed_in_pieces(data, cuts) == commands


@pytest.mark.parametrize("golden", GOLDEN)
def test_a_truncated_frame_is_waited_for_and_nothing_else(golden: bytes) -> None:
    for end in range(len(golden)):
        decoder = FrameDecoder()
        assert decoder.feed(golden[:end]) == []
        assert decoder.unfinished == end
        (command,) = decoder.feed(golden[end:] + golden[:3])
        assert command.encode()[8:] != b""
        assert decoder.unfinished == 3


@pytest.mark.parametrize("golden", GOLDEN)
def test_a_truncated_frame_with_the_length_of_what_is_there_is_refused_or_has_a_shorter_body(golden: bytes) -> None:
    header_end = 8 + int.from_bytes(golden[5:8], "big")
    for end in range(8, len(golden)):
        short = struct.pack(">i", end - 4) + golden[4:end]
        if end >= header_end:
            assert FrameDecoder().feed(short)[0].body == golden[header_end:end]
        else:
            with pytest.raises(RemotingProtocolError, match="longer than its frame"):
                FrameDecoder().feed(short)


@pytest.mark.parametrize("length", [0, 3, -1, -(1 << 31), MAX_FRAME + 1, (1 << 31) - 1])
@pytest.mark.parametrize("more", [b"", b"\0", bytes(100)])
def test_a_length_that_cannot_be_is_refused_as_soon_as_it_is_there(length: int, more: bytes) -> None:
    data = struct.pack(">i", length) + more
    with pytest.raises(RemotingProtocolError, match=f"a frame of {length} bytes is"):
        FrameDecoder().feed(data)
    decoder = FrameDecoder()
    assert decoder.feed(data[:3]) == []
    with pytest.raises(RemotingProtocolError, match=f"a frame of {length} bytes is"):
        decoder.feed(data[3:])


def test_the_smallest_frame_has_a_header_that_is_refused() -> None:
    with pytest.raises(RemotingProtocolError, match="not JSON of RocketMQ's form"):
        FrameDecoder().feed(bytes.fromhex("00000004 00000000"))


def test_a_header_longer_than_its_frame_is_refused_before_the_frame_is_there() -> None:
    with pytest.raises(RemotingProtocolError, match="a header of 101 bytes is longer than its frame of 104"):
        FrameDecoder().feed(struct.pack(">iI", 104, 101))


def test_the_largest_header() -> None:
    header = b'{"code":7,"remark":"%b"}'
    header %= b"r" * (MAX_HEADER - len(header) + 2)
    assert len(FrameDecoder().feed(frame(header))[0].remark) > MAX_HEADER - 30
    with pytest.raises(RemotingProtocolError, match=f"a header of {MAX_HEADER + 1} bytes"):
        FrameDecoder().feed(struct.pack(">iI", MAX_FRAME, MAX_HEADER + 1))


def test_the_largest_frame_in_small_pieces() -> None:
    data = frame(JAVA_ANSWER, bytes(MAX_FRAME - 4 - len(JAVA_ANSWER)))
    assert len(data) == 4 + MAX_FRAME
    (command,) = feed_in_pieces(data, list(range(1000, len(data), 1000)))
    assert len(command.body) == MAX_FRAME - 4 - len(JAVA_ANSWER)


def test_frames_before_the_garbage_are_not_lost() -> None:
    for garbage in (b"GET / HTTP/1.1\r\n", frame(b"no json"), frame(JAVA_ANSWER, kind=7)):
        with pytest.raises(RemotingProtocolError) as caught:
            FrameDecoder().feed(GOLDEN[0] + GOLDEN[1] + garbage)
        assert [command.code for command in caught.value.commands] == [105, 0]


def test_a_complete_frame_is_not_kept() -> None:
    decoder = FrameDecoder()
    decoder.feed(GOLDEN[0][:50])
    (command,) = decoder.feed(GOLDEN[0][50:])
    decoder.feed(GOLDEN[1][:5])
    assert command == FrameDecoder().feed(GOLDEN[0])[0]
    assert decoder.unfinished == 5


@pytest.mark.seeds(2)
def test_thousands_of_spoiled_frames(seed: int) -> None:
    """Each is read, waited for, or refused by the one documented error. ``make torture`` makes 100,000."""
    chance = random.Random(seed)
    for _ in range(10_000):
        data = bytearray(b"".join(chance.choices(GOLDEN, k=chance.randint(1, 3))))
        for _ in range(chance.randint(1, 4)):
            spoil(data, chance)
        decoder = FrameDecoder()
        try:
            decoder.feed(bytes(data))
        except RemotingProtocolError as error:
            assert str(error)
        assert decoder.unfinished <= len(data)


def spoil(data: bytearray, chance: random.Random) -> None:
    """Change, remove, add or double some bytes; sometimes those of a length."""
    at = chance.randrange(len(data)) if data else 0
    what = chance.randrange(5)
    if what == 0:
        data[at : at + 1] = chance.randbytes(1)
    elif what == 1:
        at = chance.choice((0, at))
        data[at : at + 4] = struct.pack(
            ">i", chance.choice((0, -1, 1, 4, 127, MAX_FRAME, MAX_FRAME + 1, (1 << 31) - 1))
        )
    elif what == 2:
        del data[at : at + chance.randint(1, 20)]
    elif what == 3:
        data[at:at] = chance.choice((b'"', b"{", b"\xff", b"\0", b"null", b"[[[", b"1e999", b"\\ud800"))
    else:
        data[at:at] = data[at : at + chance.randint(1, 40)]


@given(st.binary(max_size=200))
def test_any_bytes_at_all(data: bytes) -> None:
    try:
        commands = FrameDecoder().feed(data)
    except RemotingProtocolError:
        return
    assert all(isinstance(command, RemotingCommand) for command in commands)
