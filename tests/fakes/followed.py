"""A master's commit log as its HA port sends it, and an engine that follows it."""

from collections.abc import Iterable, Iterator
from typing import Any

from broker_core.commands import AppendToCommitLog, Reply
from broker_core.remoting import auto_switch_transfer
from broker_core.remoting.ha_transfer import TRANSFER, Block, HaSlave
from tests.fakes.engine import Bench

SEGMENT = 65_536


def master(messages: int, size: int = 700, **options: Any) -> Bench:
    """A broker with small segments and so many messages in two topics."""
    bench = Bench(mapped_file_size_commit_log=SEGMENT, **options)
    for number in range(messages):
        bench.clock.advance(1)
        topic = "payments" if number % 5 == 0 else "orders"
        bench.send(topic, b"%06d" % number + b"x" * size, queue_id=number % 3, tag="even" if number % 2 == 0 else "odd")
    return bench


def log_of(bench: Bench) -> bytes:
    """All bytes of a commit log that begins at 0, without what is reserved after its end."""
    end, data = bench.context.store.appended_offset, b""
    files = bench.context.store._log.mapped_files
    for file in files.all():
        data += bytes(file.buffer[: file.size])
    return data[:end]


def transfers(log: bytes, begin: int, sizes: Iterable[int], segment: int = SEGMENT) -> Iterator[bytes]:
    """The log from ``begin`` on in transfers of these sizes, then of 4 KiB. A size of 0 is a heartbeat."""
    rest = iter(sizes)
    position = begin
    while position < len(log):
        size = next(rest, 4096)
        room = segment - position % segment
        part = log[position : position + min(size, room)]
        yield TRANSFER.pack(position, len(part)) + part
        position += len(part)


def in_controller_mode(transfer: bytes) -> bytes:
    """The same transfer as a broker in controller mode sends it."""
    offset, size = TRANSFER.unpack_from(transfer)
    header = auto_switch_transfer.TRANSFER_HEADER.pack(auto_switch_transfer.TRANSFER, size, offset, 3, 0, offset)
    return header + transfer[TRANSFER.size :]


def handshake(epochs: int = 2) -> bytes:
    """What a broker in controller mode answers to a handshake."""
    size = epochs * auto_switch_transfer.EPOCH_BYTES
    return auto_switch_transfer.HANDSHAKE_ANSWER.pack(auto_switch_transfer.HANDSHAKE, size, 0, 3) + b"\1" * size


def received(stream: bytes, begin: int, cuts: Iterable[int] = ()) -> list[Block]:
    """The blocks that a slave makes of a stream that arrives in parts which end at ``cuts``."""
    slave = HaSlave(begin, SEGMENT)
    blocks, start = [], 0
    for cut in (*sorted(cuts), len(stream)):
        blocks += slave.feed(stream[start:cut])
        start = cut
    return blocks


def follower(**more: Any) -> Bench:
    """An engine with an empty copy."""
    return Bench(mapped_file_size_commit_log=SEGMENT, follows=True, **more)


def append(bench: Bench, blocks: Iterable[Block]) -> list[Reply]:
    """Append these blocks to the copy, and dispatch all."""
    replies = [
        bench.call(AppendToCommitLog(offset=block.offset, data=block.data, store_timestamp=block.store_timestamp))
        for block in blocks
    ]
    bench.tick()
    return replies


def blocks_of(log: bytes, begin: int = 0) -> list[Block]:
    """The whole log in blocks."""
    first = max(begin, 1) if begin == 0 else begin
    return received(b"".join(transfers(log, first, [32 << 10])), begin)
