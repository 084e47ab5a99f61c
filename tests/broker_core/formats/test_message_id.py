import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import message_id as ids

NOVEMBER = 1_793_491_200_000  # 2026-11-01T00:00Z


def test_the_offset_message_id_of_a_real_record() -> None:
    assert ids.encode_offset_message_id("10.0.0.1", 10_911, 1024) == "0A00000100002A9F0000000000000400"
    assert ids.offset_message_id_prefix("10.0.0.1", 10_911) + f"{1024:016X}" == "0A00000100002A9F0000000000000400"


@given(st.ip_addresses(), st.integers(0, 65_535), st.integers(0, (1 << 63) - 1))
def test_offset_ids_round_trip(host: object, port: int, physical_offset: int) -> None:
    text = ids.encode_offset_message_id(str(host), port, physical_offset)
    assert ids.decode_offset_message_id(text) == (str(host), port, physical_offset)


@pytest.mark.parametrize("text", ["", "0A", "x" * 32, "0A" * 15 + "  "])
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(ids.MessageIdError):
        ids.decode_offset_message_id(text)


def test_a_uniq_key_has_its_five_parts() -> None:
    generator = ids.UniqKeyGenerator("10.0.0.9", 0x12345, random.Random(1))
    instance = f"{random.Random(1).getrandbits(32):08X}"
    assert generator.next(NOVEMBER + 255) == f"0A0000092345{instance}000000FF0001"
    assert generator.next(NOVEMBER - 1)[20:28] == f"{31 * 86_400_000 - 1:08X}"
    assert len(ids.UniqKeyGenerator("::1", 1, random.Random(1)).next(NOVEMBER)) == 56


def test_sixty_thousand_keys_of_one_millisecond_are_unique() -> None:
    generator = ids.UniqKeyGenerator("10.0.0.9", 7, random.Random(3))
    assert len({generator.next(NOVEMBER) for _ in range(60_000)}) == 60_000
