import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.errors import RequestError
from broker_core.namesrv import kv_config_manager
from broker_core.namesrv.kv_config_manager import MAX_NAME, MAX_VALUE, KVConfigManager


def test_values_are_set_and_deleted() -> None:
    config = KVConfigManager(None)
    assert config.get("a", "b") is None and config.entries("a") is None and not config.dirty
    config.put("a", "b", "c d")
    assert config.dirty and config.get("a", "b") == "c d" and config.entries("a") == {"b": "c d"}
    config.dirty = False
    config.delete("a", "x")
    config.delete("x", "b")
    assert not config.dirty
    config.delete("a", "b")
    assert config.dirty and config.get("a", "b") is None and config.entries("a") == {}


def test_the_table_has_rocketmqs_form() -> None:
    config = KVConfigManager({"configTable": {"a": {}, "ORDER_TOPIC_CONFIG": {"t1": "b1:4;b2:4"}}})
    assert config.get("ORDER_TOPIC_CONFIG", "t1") == "b1:4;b2:4"
    assert config.as_table() == {"configTable": {"a": {}, "ORDER_TOPIC_CONFIG": {"t1": "b1:4;b2:4"}}}
    assert KVConfigManager({}).as_table() == KVConfigManager({"configTable": None}).as_table() == {"configTable": {}}


def test_the_table_is_a_copy() -> None:
    config = KVConfigManager(None)
    config.put("a", "b", "1")
    table = config.as_table()
    config.put("a", "b", "2")
    assert table == {"configTable": {"a": {"b": "1"}}}


@pytest.mark.parametrize(
    ("namespace", "key", "value"),
    [("n" * (MAX_NAME + 1), "k", ""), ("n", "k" * (MAX_NAME + 1), ""), ("n", "k", "v" * (MAX_VALUE + 1))],
)
def test_texts_that_are_too_long_are_refused(namespace: str, key: str, value: str) -> None:
    config = KVConfigManager(None)
    with pytest.raises(RequestError):
        config.put(namespace, key, value)
    assert not config.dirty and config.as_table() == {"configTable": {}}


def test_the_total_length_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config_manager, "MAX_CHARACTERS", 10)
    config = KVConfigManager(None)
    config.put("n", "k", "12345678")
    with pytest.raises(RequestError):
        config.put("n", "k", "123456789")
    with pytest.raises(RequestError):
        config.put("n", "l", "")
    config.put("n", "k", "1")
    config.put("n", "l", "123456")
    config.delete("n", "l")
    config.put("m", "l", "12345")


small = st.sampled_from(["", "a", "bb", "ccc"])


@given(st.lists(st.tuples(st.booleans(), small, small, small), max_size=30))
def test_the_total_length_is_counted_correctly(steps: list[tuple[bool, str, str, str]]) -> None:
    config = KVConfigManager(None)
    for put, namespace, key, value in steps:
        config.put(namespace, key, value) if put else config.delete(namespace, key)
    table = config.as_table()
    assert (
        KVConfigManager(table)._characters
        == config._characters
        == sum(
            len(namespace) + sum(len(key) + len(value) for key, value in entries.items())
            for namespace, entries in table["configTable"].items()
        )
    )
