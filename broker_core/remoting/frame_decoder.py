"""Decodes a stream of bytes, in pieces of any size, into frames (their layout is in ``remoting_command.py``)."""

from struct import Struct

from broker_core.remoting.remoting_command import MAX_FRAME, RemotingCommand, RemotingProtocolError, decode

MAX_HEADER = 1024 * 1024
"""Largest header that is accepted, in bytes. This limit is GlassMQ's own: clients' largest headers have some 200 KiB,
and the decoded fields of a header take ten times its bytes of memory."""

_HEAD = Struct(">iI")
_LENGTH = Struct(">i")


class FrameDecoder:
    """Decodes the bytes of one connection into commands. It cannot be used after an error.

    ``unfinished`` is how many bytes of an incomplete frame are buffered. A frame's bytes are copied only twice, into
    the buffer and out of it, however small the pieces are in which they arrive.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = 4  # while the buffer is shorter, nothing new can be decoded

    @property
    def unfinished(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[RemotingCommand]:
        """The frames that are complete now. Raises RemotingProtocolError, which contains those before the bad one."""
        buffer = self._buffer
        if not buffer:
            commands, end = self._cut(data)
            if end < len(data):
                buffer += data[end:]
            return commands
        buffer += data
        if len(buffer) < self._wanted:
            return []
        with memoryview(buffer) as whole:
            commands, end = self._cut(whole)
        del buffer[:end]
        return commands

    def _cut(self, data: bytes | memoryview) -> tuple[list[RemotingCommand], int]:
        """The complete frames, and the position after the last one."""
        commands: list[RemotingCommand] = []
        at, end = 0, len(data)
        self._wanted = 4
        try:
            while end - at >= 8:
                length, word = _HEAD.unpack_from(data, at)
                if not 4 <= length <= MAX_FRAME:
                    _check_length(length)
                header_size = word & 0xFFFFFF
                if header_size > length - 4 or header_size > MAX_HEADER:
                    raise RemotingProtocolError(
                        f"a header of {header_size} bytes is longer than its frame of "
                        f"{length}, or than the {MAX_HEADER} that are allowed"
                    )
                stop = at + 4 + length
                if stop > end:
                    self._wanted = 4 + length
                    break
                body = at + 8 + header_size
                content = bytes(data[body:stop]) if body < stop else b""
                commands.append(decode(word >> 24, data[at + 8 : body], content))
                at = stop
            if 4 <= end - at < 8:
                _check_length(*_LENGTH.unpack_from(data, at))
                self._wanted = 8
        except RemotingProtocolError as error:
            error.commands = commands
            raise
        return commands, at


def _check_length(length: int) -> None:
    if not 4 <= length <= MAX_FRAME:
        raise RemotingProtocolError(f"a frame of {length} bytes is shorter than 4 or longer than {MAX_FRAME}")
