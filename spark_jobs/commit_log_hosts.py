"""Addresses in records, as text. There are few different ones, so each is put into words once."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.commit_log_headers import Headers, Positions, Segment, gather

_BORN_HOST_AT = 48


def born_hosts(segment: Segment, headers: Headers) -> pa.Array:
    """The address of each record's producer, without its port."""
    is_v6 = headers.sys_flag & BORN_HOST_V6 != 0
    at = headers.at + _BORN_HOST_AT
    texts = np.empty(len(at), object)
    texts[~is_v6] = _told(gather(segment, at[~is_v6], ">u4"), 4)
    texts[is_v6] = _told(_sixteen_bytes(segment, at[is_v6]), 16)
    return pa.array(texts, pa.string())


def _sixteen_bytes(segment: Segment, at: Positions) -> NDArray[Any]:
    halves = np.empty(len(at), [("high", ">u8"), ("low", ">u8")])
    halves["high"], halves["low"] = gather(segment, at, ">u8"), gather(segment, at + 8, ">u8")
    return halves


def _told(hosts: NDArray[Any], size: int) -> NDArray[np.object_]:
    different, place = np.unique(hosts, return_inverse=True)
    texts = np.array([host_text(host) for host in _packed(different, size)], object)
    return texts[place] if len(hosts) else np.empty(0, object)


def _packed(hosts: NDArray[Any], size: int) -> list[bytes]:
    data = hosts.astype(">u4").tobytes() if size == 4 else hosts.tobytes()
    return [data[start:start + size] for start in range(0, len(data), size)]
