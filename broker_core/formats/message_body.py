"""Decompressing stored bodies. Producers compress them; brokers never change them.

sysFlag bit 0       compressed
sysFlag bits 8-10   0 zlib (from before the bits existed), 1 LZ4 frame, 2 Zstandard, 3 zlib
"""

import zlib

COMPRESSED = 1
COMPRESSION_TYPE_MASK = 0x700
ZLIB_LEGACY, LZ4, ZSTD, ZLIB = 0x000, 0x100, 0x200, 0x300


class BodyError(ValueError):
    """The body cannot be decompressed: it does not match its sysFlag, or is larger than the limit."""


class BodyTooLargeError(BodyError):
    """The decompressed body is larger than the limit."""


def decompress(body: bytes, sys_flag: int, max_size: int) -> bytes:
    """The body as the application sent it.

    Raises BodyTooLargeError if it is larger than ``max_size`` bytes, BodyError if it is damaged.
    """
    if not sys_flag & COMPRESSED:
        return body
    kind = sys_flag & COMPRESSION_TYPE_MASK
    inflate = {ZLIB_LEGACY: _zlib, LZ4: _lz4, ZSTD: _zstd, ZLIB: _zlib}.get(kind)
    if inflate is None:
        raise BodyError(f"unknown compression type {kind >> 8}; known are 0 zlib, 1 LZ4, 2 Zstandard, 3 zlib")
    plain, whole = inflate(body, max_size + 1)
    if len(plain) > max_size:
        raise BodyTooLargeError(f"the decompressed body is larger than {max_size} bytes")
    if not whole:
        raise BodyError("the compressed body is truncated")
    return plain


def _zlib(body: bytes, limit: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    try:
        return stream.decompress(body, limit), stream.eof
    except zlib.error as error:
        raise BodyError(f"the body is not a zlib stream: {error}") from error


def _lz4(body: bytes, limit: int) -> tuple[bytes, bool]:
    import lz4.frame  # imported here, because Spark workers that read no LZ4 need not have it

    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        return stream.decompress(body, max_length=limit), stream.eof
    except RuntimeError as error:
        raise BodyError(f"the body is not an LZ4 frame: {error}") from error


def _zstd(body: bytes, limit: int) -> tuple[bytes, bool]:
    import zstandard  # as above

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        with decompressor.stream_reader(body) as stream:
            plain = stream.read(limit)
        if len(plain) == limit:
            return plain, False
        # Only the interface without a limit reports whether the frame is complete; its output is known to be small.
        whole = decompressor.decompressobj()
        return whole.decompress(body), whole.eof
    except zstandard.ZstdError as error:
        raise BodyError(f"the body is not a Zstandard frame: {error}") from error
