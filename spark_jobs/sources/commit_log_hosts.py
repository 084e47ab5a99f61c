"""Addresses in records, as text. There are few different ones, so each is converted once."""

import numpy as np
import pyarrow as pa

from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.sources.commit_log_headers import Headers, Segment
from spark_jobs.sources.commit_log_slices import slices

_BORN_HOST_AT = 48


def born_hosts(segment: Segment, headers: Headers) -> pa.DictionaryArray:
    """The address of each record's producer, without its port."""
    is_v6 = headers.sys_flag & BORN_HOST_V6 != 0
    length = np.where(is_v6, 16, 4).astype(np.int64)
    addresses = slices(segment, headers.at + _BORN_HOST_AT, length).dictionary_encode()
    texts = [host_text(address) for address in addresses.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(addresses.indices, pa.array(texts, pa.string()))
