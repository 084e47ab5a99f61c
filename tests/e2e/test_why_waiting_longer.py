"""Situations that take most of a minute, or a broker of their own."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.conftest import Manage
from tests.e2e.conftest import wait_until_ready
from tests.e2e.waiting_site import Site, verdict

SEGMENT = 65_536
HOURS_2 = 7200


@pytest.mark.slow
async def test_a_late_heartbeat_and_deleted_messages(manage: Manage, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(f"mappedFileSizeCommitLog={SEGMENT}\nfileReservedTime=1\n")
    process = manage.start("broker", "--no-schedules", GLASSMQ_BROKER_CONF=str(conf))
    broker = await asyncio.to_thread(wait_until_ready, manage, process)
    frozen = await asyncio.to_thread(Site, broker, "frozen", manage.environment)
    deleted = await asyncio.to_thread(Site, broker, "deleted", manage.environment)
    async with frozen.stock("10.0.0.1@1"), deleted.stock("10.0.0.2@2") as client:  # no heartbeat follows
        await deleted.publish_many(100, "x" * (SEGMENT // 16))
        await client.commit(0)
        segments = sorted(Path(manage.environment["GLASSMQ_DATA_DIR"]).glob("**/commitlog/*"))
        for segment in segments[:2]:
            os.utime(segment, (time.time() - HOURS_2,) * 2)
        assert (await client.ask(329, {})).code == 0  # DELETE_EXPIRED_COMMITLOG
        _, found = await verdict(deleted, "offset_deleted", "messages of deleted@0 were deleted before deleted-readers")
        assert found["evidence"]["offset"] == 0 < found["evidence"]["min_offset"]
        answer, found = await verdict(frozen, "heartbeat_late", "10.0.0.1@1 has sent no heartbeat for")
        assert found["evidence"]["queues"] == ["frozen@0"]
        assert not {"ok", "idle"} & {one["id"] for one in answer["verdicts"]}
