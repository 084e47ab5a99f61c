"""Situations that need a broker with options of its own, on a disk that can be filled."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Manage
from tests.e2e.conftest import wait_until_ready
from tests.e2e.waiting_site import Site, verdict

SEGMENT = 65_536
HOURS_2 = 7200
DISK_MIB = 64
OPTIONS = (
    f"mappedFileSizeCommitLog={SEGMENT}",
    "fileReservedTime=1",
    "cleanResourceInterval=1000",
    # On a small tmpfs whole files are reserved, and those of the index and of the timer are larger than the disk.
    "mappedFileSizeConsumeQueue=20000",
    "messageIndexEnable=false",
    "timerWheelEnable=false",
)

SITUATIONS = {
    "offset_deleted": "messages of deleted@0 were deleted before deleted-readers",
    "broker_refuses_messages": " % full",
}
"""The words of their verdicts."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of DISK_MIB, or a plain folder where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "glassmq-test", str(folder)]
    subprocess.run(command, capture_output=True, check=False)
    yield folder
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leave 1 MiB of the file system free."""
    with (disk / "ballast").open("wb") as file:
        system = os.fstatvfs(file.fileno())
        os.posix_fallocate(file.fileno(), 0, system.f_bavail * system.f_frsize - (1 << 20))


@pytest.mark.slow
async def test_deleted_messages_and_a_full_disk(manage: Manage, tmp_path: Path, disk: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("\n".join(OPTIONS))
    store = str(disk / "store")
    process = manage.start("broker", "--no-schedules", GLASSMQ_BROKER_CONF=str(conf), GLASSMQ_STORE_DIR=store)
    broker = await asyncio.to_thread(wait_until_ready, manage, process)
    deleted = await asyncio.to_thread(Site, broker, "deleted", manage.environment)
    async with deleted.stock("10.0.0.1@1") as client:
        await deleted.publish_many(100, "x" * (SEGMENT // 16))
        await client.commit(0)
        segments = sorted(disk.glob("**/commitlog/*"))
        for segment in segments[:2]:
            os.utime(segment, (time.time() - HOURS_2,) * 2)
        assert (await client.ask(329, {})).code == 0  # DELETE_EXPIRED_COMMITLOG
        _, found = await verdict(deleted, "offset_deleted", SITUATIONS["offset_deleted"])
        assert found["evidence"]["offset"] == 0 < found["evidence"]["min_offset"]
        if not disk.is_mount():
            pytest.skip("no file system can be mounted here, so no disk is full")
        fill(disk)
        answer, found = await verdict(deleted, "broker_refuses_messages", SITUATIONS["broker_refuses_messages"])
        assert found["evidence"]["problem"] in found["sentence"]
        refused = await deleted.call("POST", "/api/v1/topics/deleted/messages", {"body": "x", "queue_id": 0})
        assert not {"ok", "idle"} & {one["id"] for one in answer["verdicts"]}
        assert refused["status"] == 503 and " % full" in refused["detail"], "what the verdict says is true"
