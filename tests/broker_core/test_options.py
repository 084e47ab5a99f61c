"""Options under RocketMQ's names: text as in broker.conf, clear errors, changes while running."""

import pytest

from broker_core.errors import RequestError
from broker_core.options import (
    DESCRIPTIONS,
    PYTHON_NAMES,
    Options,
    change_options,
    make_options,
    rocketmq_name,
)


@pytest.mark.parametrize("hours", ["24", "4;99", ";", ""])
def test_delete_when_accepts_hours_of_a_day_only(hours: str) -> None:
    with pytest.raises(RequestError, match="deleteWhen"):
        make_options({"deleteWhen": hours})
    assert make_options({"deleteWhen": "04;23;7"}).delete_when == "04;23;7"


def test_names() -> None:
    assert rocketmq_name("long_polling_enable") == "longPollingEnable"
    assert rocketmq_name("broker_ip1") == "brokerIP1"
    assert PYTHON_NAMES["mappedFileSizeCommitLog"] == "mapped_file_size_commit_log"


def test_defaults_are_rocketmqs() -> None:
    options = Options()
    assert options.long_polling_enable and options.short_polling_time_mills == 1000
    assert options.mapped_file_size_commit_log == 1 << 30 and options.mapped_file_size_consume_queue == 6_000_000
    assert options.flush_disk_type == "ASYNC_FLUSH" and options.max_message_size == 4 * 1024 * 1024


def test_text_values_are_converted() -> None:
    options = make_options({"longPollingEnable": "false", "shortPollingTimeMills": "250", "brokerName": "b2"})
    assert (options.long_polling_enable, options.short_polling_time_mills, options.broker_name) == (False, 250, "b2")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"nonsense": "1"}, "nonsense"),
        ({"listenPort": "70000"}, "listenPort"),
        ({"maxHolds": "many"}, "maxHolds"),
        ({"flushDiskType": "SOMETIMES"}, "flushDiskType"),
        ({"brokerName": "../x"}, "brokerName"),
    ],
)
def test_errors_contain_the_wrong_value(values: dict[str, str], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        make_options(values)


def test_only_changeable_options_change() -> None:
    changed = change_options(Options(), {"longPollingEnable": False})
    assert not changed.long_polling_enable and changed.listen_port == 10911
    with pytest.raises(RequestError, match="in broker") as caught:
        change_options(Options(), {"listenPort": 1})
    assert caught.value.pointer == "/listenPort"
    with pytest.raises(RequestError):
        change_options(Options(), {"longPollingEnable": "perhaps"})


@pytest.mark.parametrize("name", ["brokerConfigPath", "configBlackList"])
def test_what_no_request_may_change(name: str) -> None:
    with pytest.raises(RequestError, match=name) as refused:
        change_options(Options(), {"longPollingEnable": False, name: "x"})
    assert refused.value.code == 16


def test_every_option_is_described() -> None:
    assert set(DESCRIPTIONS) == set(PYTHON_NAMES)
    assert all(len(entry["description"]) > 10 for entry in DESCRIPTIONS.values())
    assert DESCRIPTIONS["longPollingEnable"]["changeable"] and not DESCRIPTIONS["listenPort"]["changeable"]


@pytest.mark.parametrize("text", ["", "127.0.0.1:9876", "a:1;b-c.d:65535", "[::1]:9876"])
def test_name_servers(text: str) -> None:
    assert make_options({"namesrvAddr": text}).namesrv_addr == text


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:1;", "a:1,b:2 ", "a:1 ;b:2", "a:123456"])
def test_invalid_lists_of_name_servers_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="namesrvAddr"):
        make_options({"namesrvAddr": text})
