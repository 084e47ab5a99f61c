"""Addresses in records, as text. There are few different ones, so each is put into words once."""

import numpy as np
import pyarrow as pa

from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.sources.commit_log_groups import same_numbers, same_texts
from spark_jobs.sources.commit_log_headers import Headers, Segment

_BORN_HOST_AT = 48


def born_hosts(segment: Segment, headers: Headers) -> pa.DictionaryArray:
    """The address of each record's producer, without its port."""
    is_v6 = headers.sys_flag & BORN_HOST_V6 != 0
    if is_v6.any():
        found = same_texts(segment, headers.at + _BORN_HOST_AT, np.where(is_v6, 16, 4))
    else:
        found = same_numbers(headers.born_host[np.newaxis])
    texts = []
    for row in found.first.tolist():
        at = int(headers.at[row]) + _BORN_HOST_AT
        texts.append(host_text(bytes(segment.buffer[at : at + (16 if is_v6[row] else 4)])))
    return pa.DictionaryArray.from_arrays(pa.array(found.of.astype(np.int32)), pa.array(texts, pa.string()))
