"""Addresses in records, as text. There are few different ones, so each is put into words once."""

import numpy as np
import pyarrow as pa

from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.commit_log_headers import Headers, Segment
from spark_jobs.commit_log_slices import slices

_BORN_HOST_AT = 48


def born_hosts(segment: Segment, headers: Headers) -> pa.DictionaryArray:
    """The address of each record's producer, without its port."""
    is_v6 = headers.sys_flag & BORN_HOST_V6 != 0
    if not is_v6.any():
        return _told(pa.array(headers.number("born_host")))
    return _told(slices(segment.octets, headers.at + _BORN_HOST_AT, np.where(is_v6, np.int64(16), np.int64(4))))


def _told(hosts: pa.Array) -> pa.DictionaryArray:
    """Addresses in words: 4 or 16 bytes, or the number that four bytes are."""
    different = hosts.dictionary_encode()
    texts = [host_text(host if isinstance(host, bytes) else host.to_bytes(4, "big"))
        for host in different.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(different.indices, pa.array(texts, pa.string()))
