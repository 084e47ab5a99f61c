import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import rocketmq_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=5).filter(lambda key: "\0" not in key), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text('ab1:{,"\\ ', max_size=6) | st.integers(), values, max_size=4))
def test_tables_round_trip(table: dict[str | int, object]) -> None:
    assert rocketmq_json.decode(rocketmq_json.encode(table)) == table


def test_bare_keys_are_integers_and_quoted_ones_text() -> None:
    text = '{\n\t"offsetTable":{"T@g":{0:5,\n\t 12 :7},"x":{"0":1}},"note":"{3:4},5:","n":[1,2],-1:"a"}'
    assert rocketmq_json.decode(text.encode()) == {
        "offsetTable": {"T@g": {0: 5, 12: 7}, "x": {"0": 1}},
        "note": "{3:4},5:",
        "n": [1, 2],
        -1: "a",
    }


def test_a_table_is_written_as_by_fastjson() -> None:
    assert rocketmq_json.encode({"offsetTable": {"T@g": {0: 5, 1: 7}}, "ok": True, "f": 0.5}) == (
        '{"offsetTable":{"T@g":{0:5,1:7}},"ok":true,"f":0.5}'
    )


class Row(msgspec.Struct, rename="camel"):
    topic_name: str
    attributes: dict[str, object]


def test_a_struct_is_written_as_an_object() -> None:
    attributes: dict[str, object] = {"a": [1, None, 0.5, 10**30, True, 'ü\n\x1f"\\/'], "0": {}}
    row = Row("ü", attributes)
    assert rocketmq_json.encode({"t": {"ü": row}}) == rocketmq_json.encode({"t": {"ü": msgspec.to_builtins(row)}})


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff", b'{"a" 1}'])
def test_invalid_tables_are_refused(text: bytes) -> None:
    with pytest.raises(rocketmq_json.RocketmqJsonError):
        rocketmq_json.decode(text)
