from pathlib import Path

import pytest

from broker_core.store.config_tables import TableWrite, load_table
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/store/config")
OLD = {"offsetTable": {"T@g": {0: 1}}}
NEW = {"offsetTable": {"T@g": {0: 2}}}


def test_writing_a_table_keeps_the_old_one_as_backup() -> None:
    files = SimulatedFiles()
    assert load_table(files, FOLDER, "consumerOffset") is None
    TableWrite(files, FOLDER, "consumerOffset", OLD).run()
    write = TableWrite(files, FOLDER, "consumerOffset", NEW)
    assert write.run() is write
    assert load_table(files, FOLDER, "consumerOffset") == NEW
    assert files.read(FOLDER / "consumerOffset.json") == b'{"offsetTable":{"T@g":{0:2}}}'
    assert files.read(FOLDER / "consumerOffset.json.bak") == b'{"offsetTable":{"T@g":{0:1}}}'


@pytest.mark.parametrize("damaged", [None, b"", b"{", b"[]"])
def test_a_damaged_table_falls_back_to_its_backup(damaged: bytes | None) -> None:
    files = SimulatedFiles()
    TableWrite(files, FOLDER, "t", OLD).run()
    TableWrite(files, FOLDER, "t", NEW).run()
    files.remove(FOLDER / "t.json")
    if damaged is not None:
        files.write(FOLDER / "t.json", damaged)
    assert load_table(files, FOLDER, "t") == OLD


@pytest.mark.parametrize("call", ["write", "rename", "sync_folder"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_failure_or_crash_at_any_step_leaves_a_complete_table(call: str, nth: int) -> None:
    files = SimulatedFiles()
    TableWrite(files, FOLDER, "t", OLD).run()
    TableWrite(files, FOLDER, "t", OLD).run()
    files.fail(call, nth, 5)
    failed = False
    try:
        TableWrite(files, FOLDER, "t", NEW).run()
    except OSError:
        failed = True
    assert failed is (nth == 1 or call == "rename")
    assert load_table(files, FOLDER, "t") in (OLD, NEW)
    files.crash()
    assert load_table(files, FOLDER, "t") in ([OLD, NEW] if failed else [NEW])
