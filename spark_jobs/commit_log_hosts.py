"""Addresses in records, as text. There are few different ones, so each is put into words once."""

import numpy as np
import pyarrow as pa

from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.commit_log_groups import same_numbers, same_texts
from spark_jobs.commit_log_headers import Headers, Segment

_BORN_HOST_AT = 48


def born_hosts(segment: Segment, headers: Headers) -> pa.DictionaryArray:
    """The address of each record's producer, without its port."""
    at, length = headers.at + _BORN_HOST_AT, np.where(headers.sys_flag & BORN_HOST_V6 != 0, 16, 4)
    is_v6 = (length == 16).any()
    found = same_texts(segment, at, length) if is_v6 else same_numbers(headers.born_host[np.newaxis])
    texts = [host_text(bytes(segment.buffer[begin:begin + size]))
        for begin, size in zip(at[found.first].tolist(), length[found.first].tolist(), strict=True)]
    return pa.DictionaryArray.from_arrays(pa.array(found.of, pa.int32()), pa.array(texts, pa.string()))
