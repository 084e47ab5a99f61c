import logging

import pytest

from broker_core.errors import RequestError
from broker_core.namesrv.namesrv_controller import KV_CONFIG, NamesrvController
from broker_core.namesrv.namesrv_options import NamesrvOptions
from tests.fakes.name_server import FOLDER, NameServerBench
from tests.fakes.simulated_files import SimulatedFiles


def test_without_changes_nothing_is_written() -> None:
    assert NameServerBench().write() == 0


def test_written_files_survive_a_power_cut() -> None:
    bench = NameServerBench()
    bench.controller.kv_config.put("a", "b", "c")
    bench.controller.update_config("orderMessageEnable=true\nfoo=bar\n")
    assert bench.write() == 2
    assert bench.files.read(FOLDER / "kvConfig.json") == b'{"configTable":{"a":{"b":"c"}}}'
    bench.files.crash()
    again = NamesrvController(FOLDER, bench.files)
    assert again.kv_config.get("a", "b") == "c" and again.options == NamesrvOptions(order_message_enable=True)
    assert again.next_write() is None


def test_a_failed_write_is_due_again() -> None:
    bench = NameServerBench()
    bench.controller.kv_config.put("a", "b", "c")
    bench.controller.update_config("orderMessageEnable=true")
    for _ in range(2):
        first, second = bench.controller.next_write(), bench.controller.next_write()
        assert first is not None and second is not None and bench.controller.next_write() is None
        bench.files.fail("write", 1, 5)
        with pytest.raises(OSError, match="simulated"):
            first.run()
        bench.controller.write_failed(first)
        bench.controller.write_failed(second)
    assert bench.write() == 2
    assert NamesrvController(FOLDER, bench.files).kv_config.get("a", "b") == "c"


@pytest.mark.parametrize("damaged", [b"\xff", b"orderMessageEnable=maybe", b"kvConfigPath=/x"])
def test_a_damaged_file_is_ignored_with_a_warning(damaged: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    files.write(FOLDER / "namesrv.properties", damaged)
    files.write(FOLDER / "kvConfig.json", b"{")
    with caplog.at_level(logging.WARNING):
        controller = NamesrvController(FOLDER, files)
    assert controller.options == NamesrvOptions() and controller.kv_config.as_table() == {"configTable": {}}
    assert "namesrv.properties" in caplog.text


def test_a_refused_change_changes_nothing() -> None:
    bench = NameServerBench()
    with pytest.raises(RequestError):
        bench.controller.update_config("orderMessageEnable=true\nkvConfigPath=/x")
    assert bench.controller.options == NamesrvOptions() and bench.write() == 0


def test_the_configuration_as_text() -> None:
    assert NameServerBench().controller.config() == (
        "configStorePath=/namesrv/namesrv.properties\nkvConfigPath=/namesrv/kvConfig.json\nlistenPort=9876\n"
        "orderMessageEnable=false\nreturnOrderTopicConfigToBroker=true\nscanNotActiveBrokerInterval=5000\n"
    )
    assert KV_CONFIG == "kvConfig"
