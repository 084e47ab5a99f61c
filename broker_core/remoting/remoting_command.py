"""One frame of RocketMQ's remoting protocol: a request or a response, in both directions and both header encodings.

All integers are big-endian and signed. L is the number of bytes after it; the header's length has 24 bits.

    +-------+------------+-------------------+----------+----------------------+
    | L (4) | type (1)   | header length (3) | header   | body                 |
    +-------+------------+-------------------+----------+----------------------+
            : 0 JSON     :                              : L - 4 - header bytes :
            : 1 ROCKETMQ :                              : "none" is 0 bytes    :

A JSON header is compact, its keys in alphabetical order; ``extFields`` and ``remark`` are left out when empty:

    {"code":0,"extFields":{"offset":"7"},"flag":1,"language":"PYTHON","opaque":3,"remark":"...",
     "serializeTypeCurrentRPC":"JSON","version":493}

A ROCKETMQ header; ``language`` is an index into ``LANGUAGES``, texts are UTF-8:

    +----------+--------------+-------------+------------+----------+----------+--------+----------+-----------+
    | code (2) | language (1) | version (2) | opaque (4) | flag (4) | size (4) | remark | size (4) | extFields |
    +----------+--------------+-------------+------------+----------+----------+--------+----------+-----------+
                                                 extFields, repeated: | size (2) | key | size (4) | value |

Bytes after the last field of a header are ignored, as are unknown JSON members.
"""

from struct import Struct
from struct import error as StructError
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from broker_core.codes import LANGUAGES, VERSION

MAX_FRAME = 16 * 1024 * 1024
"""Largest L that is accepted, in bytes; RocketMQ's default. Java peers count the length field too, so the largest frame
that is sent has an L of 4 less."""
RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
LANGUAGE = "PYTHON"
"""The language in all frames that are sent from here."""

MAX_LANGUAGE = 32
"""Characters of a sender's language that are read. It is stored for each client; RocketMQ's names are shorter."""

SerializeType = Literal["JSON", "ROCKETMQ"]


class RemotingProtocolError(Exception):
    """The peer's fault: these bytes do not follow the protocol, and nothing after them can be decoded.

    ``commands`` are the complete ones before these bytes in the same read.
    """

    def __init__(self, remark: str) -> None:
        super().__init__(remark)
        self.commands: list[RemotingCommand] = []


class RemotingCommand(msgspec.Struct, gc=False):
    """RocketMQ's RemotingCommand.

    ``code`` is a RequestCode, in a response a ResponseCode; ``opaque`` is the requester's number of the call;
    ``version`` is the sender's release (``codes.VERSION``). All ``ext_fields`` are text, because the Go client accepts
    nothing else. ``language`` is "" if the sender's is unknown.
    """

    code: int
    ext_fields: dict[str, str]
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str = ""
    language: str = LANGUAGE
    version: int = VERSION
    serialize_type: SerializeType = "JSON"

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY_FLAG != 0

    @staticmethod
    def request(
        code: int,
        ext_fields: dict[str, str],
        body: bytes = b"",
        *,
        opaque: int,
        oneway: bool = False,
        serialize_type: SerializeType = "JSON",
    ) -> "RemotingCommand":
        """A request to the peer."""
        return RemotingCommand(
            code, ext_fields, body, opaque, ONEWAY_FLAG if oneway else 0, serialize_type=serialize_type
        )

    def response(
        self, code: int, remark: str = "", ext_fields: dict[str, str] | None = None, body: bytes = b""
    ) -> "RemotingCommand":
        """The response to this request, in the request's encoding."""
        return RemotingCommand(
            code, ext_fields or {}, body, self.opaque, RESPONSE_FLAG, remark, serialize_type=self.serialize_type
        )

    def encode(self) -> bytes:
        """The whole frame.

        Raises ValueError for more than ``MAX_FRAME`` bytes in all and for text with lone surrogates; for a ROCKETMQ
        header also for a code or version outside int16 (POP_MESSAGE is 200050) and for a key above 32,767 bytes.
        """
        if self.serialize_type == "JSON":
            header, kind = _encode_json(self), 0
        else:
            header, kind = _encode_binary(self), _BINARY
        size, length = len(header), 4 + len(header) + len(self.body)
        if 4 + length > MAX_FRAME:
            raise ValueError(f"a frame of {4 + length} bytes is longer than the {MAX_FRAME} that clients accept")
        return b"".join((_HEAD.pack(length, kind | size), header, self.body))


_HEAD = Struct(">II")
_BINARY = 1 << 24


def decode(kind: int, header: bytes | memoryview, body: bytes) -> RemotingCommand:
    """A command from its parts; ``kind`` is the type byte. Raises RemotingProtocolError."""
    if kind == 0:
        return _decode_json(header, body)
    if kind == 1:
        return _decode_binary(header, body)
    raise RemotingProtocolError(f"a header of type {kind} is neither JSON (0) nor ROCKETMQ (1)")


# --- JSON headers ---------------------------------------------------------------------------------------------------

Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class _JsonHeader(msgspec.Struct, gc=False, rename={"ext_fields": "extFields"}):
    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | None = ""
    remark: str | None = ""
    ext_fields: dict[str, str] | None = None


class _LooseJsonHeader(_JsonHeader, gc=False, rename={"ext_fields": "extFields"}):
    ext_fields: dict[str, msgspec.Raw] | None = None  # type: ignore[assignment]


_json_header = msgspec.json.Decoder(_JsonHeader)
_loose_json_header = msgspec.json.Decoder(_LooseJsonHeader)
_text = msgspec.json.Decoder(str)
_to_json = msgspec.json.Encoder().encode


def _decode_json(data: bytes | memoryview, body: bytes) -> RemotingCommand:
    try:
        try:
            header = _json_header.decode(data)
            ext_fields = header.ext_fields or {}
        except msgspec.ValidationError:  # perhaps extFields has a number, which RocketMQ accepts
            loose = _loose_json_header.decode(data)
            header, ext_fields = loose, _to_text(loose.ext_fields or {})
    except (ValueError, RecursionError) as error:
        raise RemotingProtocolError(f"the header is not JSON of RocketMQ's form: {error}") from error
    return RemotingCommand(
        header.code,
        ext_fields,
        body,
        header.opaque,
        header.flag,
        header.remark or "",
        (header.language or "")[:MAX_LANGUAGE],
        header.version,
    )


def _to_text(fields: dict[str, msgspec.Raw]) -> dict[str, str]:
    """Texts unchanged, numbers and booleans in their JSON form, without nulls. ValueError for other values."""
    texts = {}
    for name, raw in fields.items():
        value = bytes(raw)
        if value[:1] == b'"':
            texts[name] = _text.decode(value)
        elif value[:1] in b"{[":
            raise ValueError(f"extFields.{name} must be text, a number or a boolean")
        elif value != b"null":
            texts[name] = value.decode("ascii")
    return texts


def _encode_json(command: RemotingCommand) -> bytes:
    fields = command.ext_fields
    return b'{"code":%d%b,"flag":%d,"language":%b,"opaque":%d%b,"serializeTypeCurrentRPC":"JSON","version":%d}' % (
        command.code,
        b',"extFields":' + _to_json(fields) if fields else b"",
        command.flag,
        _to_json(command.language),
        command.opaque,
        b',"remark":' + _to_json(command.remark) if command.remark else b"",
        command.version,
    )


# --- ROCKETMQ headers -----------------------------------------------------------------------------------------------

_FIXED = Struct(">hBhii")
_KEY_SIZE = Struct(">h")
_SIZE = Struct(">i")


def _decode_binary(data: bytes | memoryview, body: bytes) -> RemotingCommand:
    header = bytes(data)
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, at = _read_text(header, _FIXED.size, _SIZE)
        (size,) = _SIZE.unpack_from(header, at)
        end = _end(header, at + 4, size)
        ext_fields, at = {}, at + 4
        while at < end:
            key, at = _read_text(header, at, _KEY_SIZE)
            ext_fields[key], at = _read_text(header, at, _SIZE)
        if at > end:
            raise ValueError("the last extField ends after the extFields' total size")
    except (StructError, ValueError) as error:
        raise RemotingProtocolError(f"the header is not a valid ROCKETMQ header: {error}") from error
    return RemotingCommand(
        code,
        ext_fields,
        body,
        opaque,
        flag,
        remark,
        LANGUAGES[language] if language < len(LANGUAGES) else "",
        version,
        "ROCKETMQ",
    )


def _read_text(header: bytes, at: int, size_field: Struct) -> tuple[str, int]:
    """Read a size field and that many bytes of text. Returns (the text, the position after it)."""
    (size,) = size_field.unpack_from(header, at)
    begin = at + size_field.size
    end = _end(header, begin, size)
    return header[begin:end].decode("utf-8"), end


def _end(header: bytes, begin: int, size: int) -> int:
    end: int = begin + size
    if size < 0 or end > len(header):
        raise ValueError(f"{size} bytes at {begin} are not inside a header of {len(header)} bytes")
    return end


def _encode_binary(command: RemotingCommand) -> bytes:
    remark = command.remark.encode("utf-8")
    fields = bytearray()
    for key, value in command.ext_fields.items():
        raw_key, raw_value = key.encode("utf-8"), value.encode("utf-8")
        fields += _pack(_KEY_SIZE, len(raw_key)) + raw_key + _pack(_SIZE, len(raw_value)) + raw_value
    fixed = _pack(
        _FIXED,
        command.code,
        _LANGUAGE_ORDINALS.get(command.language, _OTHER),
        command.version,
        command.opaque,
        command.flag,
    )
    return b"".join((fixed, _pack(_SIZE, len(remark)), remark, _pack(_SIZE, len(fields)), fields))


def _pack(numbers: Struct, *values: int) -> bytes:
    try:
        return numbers.pack(*values)
    except StructError as error:
        raise ValueError(f"{values} does not fit in a ROCKETMQ header ({error}); use a JSON header") from error


_LANGUAGE_ORDINALS = {name: ordinal for ordinal, name in enumerate(LANGUAGES)}
_OTHER = _LANGUAGE_ORDINALS["OTHER"]
