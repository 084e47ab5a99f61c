import pytest

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.namesrv.namesrv_options import NamesrvOptions, as_properties, change_options


def test_defaults_are_rocketmqs() -> None:
    options = NamesrvOptions()
    assert not options.order_message_enable and options.return_order_topic_config_to_broker
    assert options.scan_not_active_broker_interval == 5000


def test_changes_are_given_as_text() -> None:
    changed = change_options(NamesrvOptions(), {"orderMessageEnable": "true", "scanNotActiveBrokerInterval": "700"})
    assert changed == NamesrvOptions(order_message_enable=True, scan_not_active_broker_interval=700)
    assert change_options(changed, {"serverWorkerThreads": "8"}) == changed


@pytest.mark.parametrize("name", ["kvConfigPath", "configStorePath", "configBlackList"])
def test_paths_of_files_cannot_be_changed(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        change_options(NamesrvOptions(), {name: "/x"})
    assert caught.value.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("name", "value"),
    [("orderMessageEnable", "maybe"), ("scanNotActiveBrokerInterval", "99"), ("scanNotActiveBrokerInterval", "x")],
)
def test_invalid_values_are_refused(name: str, value: str) -> None:
    with pytest.raises(RequestError, match=name) as caught:
        change_options(NamesrvOptions(), {name: value})
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_properties() -> None:
    assert as_properties({"b": True, "a": 5, "c": "x"}) == "a=5\nb=true\nc=x\n"
