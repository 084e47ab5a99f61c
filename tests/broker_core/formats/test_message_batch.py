"""Batches: every cut and every lie about a length is refused."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import message_batch
from broker_core.formats.message_batch import BatchEntry, MessageBatchError, decode_batch, encode_batch
from tests.fakes.remoting import BATCH_OF_ONE

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
ENTRIES = st.lists(
    st.builds(BatchEntry, st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=60), TEXT), min_size=1, max_size=6
)


def encode(entry: BatchEntry) -> bytes:
    properties = entry.properties.encode()
    return (
        pack(">iiiii", 22 + len(entry.body) + len(properties), 0, 0, entry.flag, len(entry.body))
        + entry.body
        + pack(">h", len(properties))
        + properties
    )


def test_the_batch_that_rocketmq_writes() -> None:
    one = BatchEntry(0, b"m1", "UNIQ_KEY\x01A1\x02")
    assert decode_batch(BATCH_OF_ONE) == [one]
    assert decode_batch(BATCH_OF_ONE * 3) == [one] * 3
    assert encode(one) == BATCH_OF_ONE


@given(ENTRIES)
def test_round_trip(entries: list[BatchEntry]) -> None:
    assert decode_batch(b"".join(map(encode, entries))) == entries


@pytest.mark.parametrize("end", range(2 * len(BATCH_OF_ONE)))
def test_a_batch_that_is_cut_is_refused(end: int) -> None:
    if end == len(BATCH_OF_ONE):
        return
    with pytest.raises(MessageBatchError):
        decode_batch((BATCH_OF_ONE * 2)[:end])


@pytest.mark.parametrize("lie", [-(1 << 31), -1, 0, 1, 21, 23, 35, 37, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("at", [0, 16])
def test_lengths_that_lie(at: int, lie: int) -> None:
    """TOTALSIZE and BODYLENGTH."""
    data = bytearray(BATCH_OF_ONE * 2)
    data[at : at + 4] = lie.to_bytes(4, "big", signed=True)
    with pytest.raises(MessageBatchError, match="message 0"):
        decode_batch(bytes(data))


@pytest.mark.parametrize("lie", [-32768, -1, 0, 11, 13, 48, 32767])
def test_a_wrong_length_of_the_properties_is_refused(lie: int) -> None:
    data = bytearray(BATCH_OF_ONE * 2)
    data[22:24] = lie.to_bytes(2, "big", signed=True)
    with pytest.raises(MessageBatchError, match=f"{lie} of properties"):
        decode_batch(bytes(data))


def test_properties_that_are_no_text() -> None:
    with pytest.raises(MessageBatchError, match=r"message 1: .*UTF-8"):
        decode_batch(BATCH_OF_ONE + BATCH_OF_ONE[:-1] + b"\xff")
    with pytest.raises(MessageBatchError, match="UTF-8"):
        decode_batch(BATCH_OF_ONE[:-3] + b"\xed\xa0\x80")


def test_trailing_bytes() -> None:
    with pytest.raises(MessageBatchError, match="message 1: 1 bytes are left"):
        decode_batch(BATCH_OF_ONE + b"\0")


def test_a_batch_with_too_many_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_batch, "MAX_MESSAGES", 2)
    assert len(decode_batch(BATCH_OF_ONE * 2)) == 2
    with pytest.raises(MessageBatchError, match="more than 2"):
        decode_batch(BATCH_OF_ONE * 3)


@given(ENTRIES)
def test_a_producer_writes_what_a_broker_reads(entries: list[BatchEntry]) -> None:
    assert encode_batch(entries) == b"".join(map(encode, entries))
    assert decode_batch(encode_batch(entries)) == entries


def test_batches_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MessageBatchError, match="message 1: 32768 bytes of properties"):
        encode_batch([BatchEntry(0, b"", ""), BatchEntry(0, b"", "x" * 32_768)])
    monkeypatch.setattr(message_batch, "MAX_MESSAGES", 1)
    with pytest.raises(MessageBatchError, match="2 messages; the limit is 1"):
        encode_batch([BatchEntry(0, b"", "")] * 2)
