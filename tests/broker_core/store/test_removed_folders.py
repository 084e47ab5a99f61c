"""Folders of deleted topics: renamed at once, removed later, also after a crash."""

import errno
from pathlib import Path

import pytest

from broker_core.clock import Now
from broker_core.store.removed_folders import RemovedFolders
from tests.fakes.simulated_files import SimulatedFiles

ROOT = Path("/store")
TOPIC = ROOT / "consumequeue" / "orders"


def now(seconds: float) -> Now:
    return Now(int(seconds * 1000), int(seconds * 1_000_000_000))


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    for queue_id in range(3):
        files.write(TOPIC / str(queue_id) / "0", b"units")
        files.sync_folder(TOPIC / str(queue_id))
    return files


def test_a_folder_is_renamed_at_once_and_removed_later(files: SimulatedFiles) -> None:
    folders = RemovedFolders(files, ROOT)
    folders.take(TOPIC)
    folders.take(ROOT / "consumequeue_ext" / "orders")  # there is none
    assert files.names(TOPIC) == [] and files.names(ROOT / "deleted" / "1") == ["0", "1", "2"]
    assert files.count("remove") == 0
    removal = folders.next_removal(now(0))
    assert removal is not None
    folders.removed(removal.run())
    assert files.names(ROOT / "deleted") == []
    assert folders.next_removal(now(100)) is None


def test_a_removal_that_fails_is_tried_again_after_ten_seconds(files: SimulatedFiles) -> None:
    folders = RemovedFolders(files, ROOT)
    folders.take(TOPIC)
    files.fail("remove", 2, errno.EIO)
    removal = folders.next_removal(now(0))
    assert removal is not None
    with pytest.raises(OSError, match="simulated"):
        removal.run()
    assert folders.next_removal(now(9.9)) is None  # meanwhile, tables are written
    again = folders.next_removal(now(10))
    assert again is not None
    folders.removed(again.run())
    assert files.names(ROOT / "deleted") == []


def test_a_folder_that_is_deleted_during_a_removal_is_removed_by_the_next(files: SimulatedFiles) -> None:
    folders = RemovedFolders(files, ROOT)
    folders.take(TOPIC)
    removal = folders.next_removal(now(0))
    assert removal is not None
    files.write(TOPIC / "0" / "0", b"units of a new topic with this name")
    folders.take(TOPIC)
    folders.removed(removal.run())
    assert files.names(ROOT / "deleted") == ["2"]
    following = folders.next_removal(now(0))
    assert following is not None
    folders.removed(following.run())
    assert files.names(ROOT / "deleted") == []


def test_what_the_last_run_did_not_remove_is_removed(files: SimulatedFiles) -> None:
    RemovedFolders(files, ROOT).take(TOPIC)
    files.kill()
    folders = RemovedFolders(files, ROOT)
    files.write(TOPIC / "0" / "0", b"units of a new topic with this name")
    folders.take(TOPIC)
    assert files.names(ROOT / "deleted") == ["1", "2"]
    removal = folders.next_removal(now(0))
    assert removal is not None
    folders.removed(removal.run())
    assert files.names(ROOT / "deleted") == []


def test_the_new_name_is_durable_before_a_file_is_removed(files: SimulatedFiles) -> None:
    """Otherwise a power cut could leave a topic with some of its queues."""
    folders = RemovedFolders(files, ROOT)
    folders.take(TOPIC)
    removal = folders.next_removal(now(0))
    assert removal is not None
    files.fail("remove", 1, errno.EIO)
    synced = files.count("sync_folder")
    with pytest.raises(OSError, match="simulated"):
        removal.run()
    assert files.count("sync_folder") == synced + 1
    files.crash()
    assert files.names(TOPIC) == []


def test_a_full_disk_does_not_keep_a_topic_from_being_deleted(files: SimulatedFiles) -> None:
    folders = RemovedFolders(files, ROOT)
    files.fail("rename", 1, errno.ENOSPC)
    folders.take(TOPIC)
    assert files.names(ROOT) == [] and folders.next_removal(now(0)) is None
