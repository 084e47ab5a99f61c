from pathlib import Path

from broker_core.formats.consume_queue_ext_unit import ADDRESS_BASE, encode
from broker_core.store.consume_queue_ext import ConsumeQueueExt
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue, file_name
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/ext")


def test_units_are_found_by_address_in_any_file() -> None:
    files = SimulatedFiles()
    first, second = encode(11, 1, b"abc"), encode(22, 2)
    files.write(FOLDER / file_name(0), (first + second + b"\xff\xff").ljust(100, b"\0"))
    files.write(FOLDER / file_name(100), second.ljust(100, b"\0"))
    ext = ConsumeQueueExt(MappedFileQueue(files, OpenMaps(4), FOLDER, 4096))
    codes = [
        unit.tags_code if unit else None
        for unit in (ext.unit(ADDRESS_BASE + offset) for offset in (0, len(first), len(first + second), 100, 200))
    ]
    assert codes == [11, 22, None, 22, None]
