"""Whose store a folder is."""

import pytest

from broker_core.errors import StoreError, StoreLockedError
from broker_core.store.store_folder import MARKER, StoreFolder
from tests.fakes.engine import ROOT
from tests.fakes.simulated_files import SimulatedFiles

SEGMENT = ROOT / "commitlog" / f"{0:020d}"


def test_a_new_folder_becomes_this_brokers() -> None:
    files = SimulatedFiles()
    folder = StoreFolder.open(ROOT, files, adopt=False)
    assert folder.foreign and not folder.read_only
    folder.mark_new()
    assert files.read(ROOT / MARKER) == b"1\n"


def test_another_brokers_store_is_marked_only_when_it_is_adopted() -> None:
    files = SimulatedFiles()
    files.make_folders(SEGMENT.parent)
    files.write(SEGMENT, b"x")
    folder = StoreFolder.open(ROOT, files, adopt=False)
    folder.mark_new()
    folder.mark_adopted()
    assert folder.read_only and files.read(ROOT / MARKER) is None
    adopted = StoreFolder.open(ROOT, files, adopt=True)
    adopted.mark_new()
    assert files.read(ROOT / MARKER) is None
    adopted.mark_adopted()
    assert files.read(ROOT / MARKER) == b"1\n"


def test_a_folder_in_use_and_one_of_another_format_are_refused() -> None:
    files = SimulatedFiles()
    StoreFolder.open(ROOT, files, adopt=False)
    with pytest.raises(StoreLockedError, match="in use"):
        StoreFolder.open(ROOT, files, adopt=False)
    files.write(ROOT / MARKER, b"2\n")
    with pytest.raises(StoreError, match="has format b'2"):
        StoreFolder.open(ROOT, files, adopt=False)
