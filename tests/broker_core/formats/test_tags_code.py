import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import tags_code


def java_hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("TagA", 2_598_919),
        ("TagB", 2_598_920),
        ("TagC", 2_598_921),
        ("order-created", -392_709_271),
        ("订单", 1_129_459),
        ("*", 42),
        ("", 0),
    ],
)
def test_hash_codes_are_javas(tag: str, code: int) -> None:
    assert tags_code.tags_code(tag) == code


@given(st.text(st.characters(), max_size=60))
def test_hash_code_agrees_with_the_definition(text: str) -> None:
    assert tags_code.hash_code(text) == java_hash(text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_hash_can_be_continued(front: str, back: str) -> None:
    assert tags_code.hash_behind(tags_code.unsigned_hash(front), back) == tags_code.unsigned_hash(front + back)


def test_long_texts_are_hashed_too() -> None:
    for text in ("abcß" * 2000, "a" * 511, "b" * 512, "订" * 600):
        assert tags_code.hash_code(text) == java_hash(text)
        assert tags_code.hash_behind(tags_code.unsigned_hash("ab#"), text) == tags_code.unsigned_hash("ab#" + text)


def test_an_ext_address_is_below_every_code() -> None:
    assert tags_code.is_ext_address(-(1 << 63) + 40)
    assert not tags_code.is_ext_address(-(1 << 31))
