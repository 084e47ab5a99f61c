"""Producers' addresses against those that the format reads."""

from pathlib import Path

import numpy as np

from broker_core.formats import commit_log_record
from spark_jobs.commit_log_headers import Segment, read_headers
from spark_jobs.commit_log_hosts import born_hosts


def test_both_kinds_of_address_in_any_order(tmp_path: Path) -> None:
    hosts = ["10.0.0.1", "2001:db8::ff", "10.0.0.255", "10.0.0.1", "::1", "2001:db8::ff", "255.255.255.255"]
    log, positions = b"", []
    for host in hosts:
        positions.append(len(log))
        log += commit_log_record.encode(topic="t", queue_id=0, queue_offset=0, physical_offset=len(log), body=b"x",
            born_host=host, born_port=1234)
    path = tmp_path / "segment"
    path.write_bytes(log)
    segment = Segment.open(str(path), 0, 0, path.stat().st_size)
    headers = read_headers(segment, np.array(positions, np.int64), len(log))
    assert born_hosts(segment, headers).to_pylist() == hosts
    assert born_hosts(segment, headers.part(slice(0))).to_pylist() == []
