import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import message_body as bodies

COMPRESSORS = {
    bodies.ZLIB_LEGACY: zlib.compress,
    bodies.ZLIB: zlib.compress,
    bodies.LZ4: lz4.frame.compress,
    bodies.ZSTD: zstandard.ZstdCompressor().compress,
}


@given(st.binary(max_size=500), st.sampled_from(sorted(COMPRESSORS)))
def test_every_kind_is_decompressed_up_to_its_limit(body: bytes, kind: int) -> None:
    packed = COMPRESSORS[kind](body)
    assert bodies.decompress(packed, kind | 1, len(body)) == body
    if body:
        with pytest.raises(bodies.BodyError, match="larger"):
            bodies.decompress(packed, kind | 1, len(body) - 1)


@pytest.mark.parametrize("kind", sorted(COMPRESSORS))
def test_a_decompression_bomb_is_refused(kind: int) -> None:
    with pytest.raises(bodies.BodyError, match="larger"):
        bodies.decompress(COMPRESSORS[kind](bytes(50_000_000)), kind | 1, 1000)


@pytest.mark.parametrize("kind", sorted(COMPRESSORS))
def test_damage_is_reported(kind: int) -> None:
    packed = COMPRESSORS[kind](b"some body " * 50)
    for damaged in (packed[:-5], packed[:8], b"", b"plain text, not compressed at all"):
        with pytest.raises(bodies.BodyError):
            bodies.decompress(damaged, kind | 1, 10_000)


def test_an_uncompressed_body_is_returned_unchanged() -> None:
    assert bodies.decompress(b"abc", 0x300, 0) == b"abc"


def test_an_unknown_kind_is_reported() -> None:
    with pytest.raises(bodies.BodyError, match="type 5"):
        bodies.decompress(b"abc", 0x501, 10)
