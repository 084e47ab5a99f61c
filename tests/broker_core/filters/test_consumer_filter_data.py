from broker_core.filters.bloom_filter import BloomFilterData
from broker_core.filters.consumer_filter_data import NEVER, ConsumerFilterData
from broker_core.filters.sql92.sql_filter import parse_sql


def test_it_matches_as_its_expression_and_knows_its_bits_by_byte() -> None:
    data = ConsumerFilterData("T", "g", parse_sql("a = 1"), BloomFilterData([9, 30, 8, 9], 112), 7, 1000)
    assert data.matches_record(b"a\x011") and not data.matches_record(b"a\x012")
    assert (data.expression, data.reads_properties, data.bitmaps_from) == ("a = 1", True, NEVER)
    assert data.bits == 1 << 9 | 1 << 30 | 1 << 8
    tables = dict(data.columns)
    assert [number for number, _ in data.columns] == [1, 3]
    assert [value for value in range(8) if tables[1][value]] == [3, 7]
    assert sum(tables[1]) == 64 and sum(tables[3]) == 128
