"""Producers' addresses against those that the format reads."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.sources.commit_log_columns import born_hosts
from tests.spark_jobs.segments import headers_of, log_of, segment_of

HOSTS = ["10.0.0.1", "2001:db8::ff", "10.0.0.255", "10.0.0.1", "::1", "2001:db8::ff", "255.255.255.255", "::a00:1"]


def found(hosts: list[str]) -> pa.DictionaryArray:
    """The addresses in records of these producers; a port is no part of an address."""
    segment = segment_of(log_of([{"born_host": host, "born_port": 1000 + number} for number, host in enumerate(hosts)]))
    return born_hosts(segment, headers_of(segment))


def test_both_kinds_of_address_in_any_order() -> None:
    column = found(HOSTS)
    assert column.to_pylist() == HOSTS
    assert len(column.dictionary) == len(set(HOSTS))


@pytest.mark.parametrize("kind", [".", ":"])
def test_addresses_of_one_kind(kind: str) -> None:
    hosts = [host for host in HOSTS if kind in host]
    column = found(hosts)
    assert column.to_pylist() == hosts
    assert len(column.dictionary) == len(set(hosts)) < len(hosts)


@given(st.lists(st.ip_addresses().map(str) | st.sampled_from(HOSTS), min_size=1, max_size=20))
def test_any_addresses(hosts: list[str]) -> None:
    assert found(hosts).to_pylist() == hosts


def test_some_of_the_records() -> None:
    segment = segment_of(log_of([{"born_host": host} for host in HOSTS]))
    headers = headers_of(segment)
    assert born_hosts(segment, headers.part(slice(0))).to_pylist() == []
    assert born_hosts(segment, headers.part(np.array([4, 6]))).to_pylist() == [HOSTS[4], HOSTS[6]]
