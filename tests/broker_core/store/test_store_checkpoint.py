from pathlib import Path

import pytest

from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.safe_end import SafeEnd
from broker_core.store.store_checkpoint import StoreCheckpoint
from tests.fakes.simulated_files import SimulatedFiles

ROOT = Path("/store")
MARKS = Checkpoint(1, 2), SafeEnd(3, 4, 5, 6, 7, 8, 9)


def test_checkpoint_files_are_on_the_disk_when_written() -> None:
    files = SimulatedFiles()
    store_checkpoint = StoreCheckpoint(files, ROOT)
    assert store_checkpoint.read() == (Checkpoint(), None)
    store_checkpoint.write(Checkpoint(0, 0), SafeEnd(0, 0, 0, 0, 0, 0))
    store_checkpoint.write(*MARKS)
    files.sync_folder(ROOT)
    files.crash()
    assert StoreCheckpoint(files, ROOT).read() == MARKS
    assert files.size(ROOT / "checkpoint") == files.size(ROOT / "safe_end") == 4096


def test_a_disk_error_is_raised() -> None:
    files = SimulatedFiles()
    files.fail("flush", 2, 5)
    with pytest.raises(OSError, match="simulated"):
        StoreCheckpoint(files, ROOT).write(*MARKS)
