"""Senders, slaves and the disk in any order: what SYNC_MASTER acknowledges is where it promised."""

import random
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from tests.fakes.engine import Bench, send

STEPS = 300


@pytest.mark.seeds(20)
def test_nothing_is_acknowledged_that_too_few_slaves_have(seed: int) -> None:
    chance = random.Random(seed)
    needed = chance.choice((1, 1, 2))
    flush = chance.choice(("ASYNC_FLUSH", "SYNC_FLUSH"))
    bench = Bench(
        seed=seed, broker_role="SYNC_MASTER", in_sync_replicas=needed + 1, slave_timeout=500, sync_flush_timeout=700,
        flush_disk_type=flush,
    )  # fmt: skip
    acknowledged: dict[str, int] = {}
    """What the connected slaves have."""
    waiting: dict[int, int] = {}
    """The requests that are not answered, and where their messages end."""
    answers = {ResponseCode.SUCCESS: 0, ResponseCode.FLUSH_SLAVE_TIMEOUT: 0, ResponseCode.FLUSH_DISK_TIMEOUT: 0}

    def check() -> None:
        """Look at every answer in the turn that gave it."""
        store = bench.context.store
        for request, end in list(waiting.items()):
            answer: Any = bench.final(request)
            if answer is None:
                continue
            del waiting[request]
            answers[answer.code] += 1
            if answer.code == ResponseCode.SUCCESS:
                assert sum(offset >= end for offset in acknowledged.values()) >= needed
                assert flush == "ASYNC_FLUSH" or store.flushed_offset >= end

    for _ in range(STEPS):
        step, slave = chance.randrange(10), f"slave-{chance.randrange(3)}"
        end = bench.context.store.appended_offset
        if step < 4:
            requests = bench.submit(
                *[send("orders", b"x" * chance.randrange(600)) for _ in range(chance.randrange(1, 4))]
            )
            waiting |= dict.fromkeys(requests, bench.context.store.appended_offset)
        elif step < 7:
            offset = chance.choice((end, chance.randint(0, end), chance.randint(0, end), -(1 << 40)))
            acknowledged[slave] = offset
            report = c.ReportSlaveMaxOffset(address=slave, slave_ack_offset=offset, transferred=max(offset, 0))
            bench.call(report, connection=slave)
        elif step < 8:
            acknowledged.pop(slave, None)
            bench.call(c.RemoveSlave(address=slave, reason="gone", refused=False), connection=slave)
        elif step < 9:
            bench.flush()
        else:
            bench.tick(chance.choice((1, 100, 600)))
        check()
    bench.tick(1000)
    check()
    assert not waiting, "everybody is answered"
    assert answers[ResponseCode.SUCCESS] and answers[ResponseCode.FLUSH_SLAVE_TIMEOUT]
