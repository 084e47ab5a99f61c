import pytest

from broker_core.filters.bloom_filter import BloomFilter, BloomFilterData, murmur3_128


@pytest.mark.parametrize(
    ("error_rate", "expected", "hash_count", "bit_num"), [(20, 32, 3, 112), (20, 64, 3, 216), (10, 128, 4, 616)]
)
def test_the_size_of_a_bitmap(error_rate: int, expected: int, hash_count: int, bit_num: int) -> None:
    bloom_filter = BloomFilter(error_rate, expected)
    assert (bloom_filter.hash_count, bloom_filter.bit_num) == (hash_count, bit_num)


@pytest.mark.parametrize(
    ("group", "topic", "positions"),
    [
        ("CID_A", "TopicTest", [20, 68, 27]),
        ("group1", "topic1", [71, 62, 59]),
        ("golden_sql_group", "debian-packages", [78, 90, 108]),
    ],
)
def test_the_bits_of_a_subscription_are_rocketmqs(group: str, topic: str, positions: list[int]) -> None:
    data = BloomFilter(20, 32).data(group, topic)
    assert data == BloomFilterData(positions, 112)
    assert data.bits == sum(1 << position for position in positions)


def test_the_hash_of_texts_around_a_block() -> None:
    """Guava's murmur3_128 of "", and that a byte changes the hash in each part of a block."""
    assert murmur3_128(b"") == 0
    texts = [b"a" * length for length in (1, 7, 8, 9, 15, 16, 17, 24, 32, 33)]
    assert len({murmur3_128(text) for text in texts} | {murmur3_128(text[:-1] + b"b") for text in texts}) == 20
