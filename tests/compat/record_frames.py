"""Records what stock clients and Apache RocketMQ say to each other: ``tests/golden/remoting.jsonl``.

    python -m tests.compat.record_frames

Clients talk to two small proxies, which pass everything on and keep the first frame of each kind: who sends it, what
it asks or answers, and with which response code. The name server's answers are changed on their way to the client so
that it finds the proxy instead of the broker; what is kept is what the server had sent. Nothing here uses GlassMQ's
own codec, which is to be checked with the result.
"""

import asyncio
import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat import go_program, java_program, mqadmin_scenario
from tests.compat.real_rocketmq import VERSION, RealRocketMQ, real_rocketmq
from tests.fakes.ports import unused_ports

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "remoting.jsonl"
JAVA_CASES = ("producer.", "push.", "group.", "retry.", "orderly.", "delay.", "lite.", "pull.", "query.", "codes.")
"""What needs no TLS and no third port, and is the protocol."""
LARGEST = 6_000
"""Bytes of a frame that is worth keeping: no case is in a body that is longer."""


def header(frame: bytes) -> dict[str, Any]:
    """Of a frame without its first four bytes: encoding, code, opaque, flag."""
    [word] = struct.unpack_from(">I", frame)
    kind, length = word >> 24, word & 0xFFFFFF
    if kind == 0:
        fields = json.loads(frame[4 : 4 + length])
        return {"encoding": "JSON", "code": fields["code"], "opaque": fields["opaque"], "flag": fields["flag"]}
    code, _language, _version, opaque, flag = struct.unpack_from(">hbhii", frame, 4)
    return {"encoding": "ROCKETMQ", "code": code, "opaque": opaque, "flag": flag}


class Recording:
    """The frames that are kept, by what distinguishes them."""

    def __init__(self) -> None:
        self.client = ""
        self.kept: dict[tuple[Any, ...], dict[str, Any]] = {}

    def record_frame(self, server: str, from_client: bool, frame: bytes, request_codes: dict[int, int]) -> None:
        """Look at one frame of a connection; ``request_codes`` has those of the other side by opaque."""
        head = header(frame)
        answer = bool(head["flag"] & 1)
        code = request_codes.get(head["opaque"], -1) if answer else head["code"]
        row = {
            "client": self.client,
            "server": server,
            "from": "client" if from_client else server,
            "kind": "response" if answer else "oneway" if head["flag"] & 2 else "request",
            "encoding": head["encoding"],
            "request_code": code,
        } | ({"response_code": head["code"]} if answer else {})
        if len(frame) <= LARGEST:
            self.kept.setdefault(tuple(row.values()), row | {"hex": (struct.pack(">I", len(frame)) + frame).hex()})


class Proxy:
    """Passes connections on to one server; ``replace`` is done to the bodies that it sends."""

    def __init__(self, name: str, upstream: int, recording: Recording, replace: tuple[bytes, bytes] = (b"", b"")):
        [self.port] = unused_ports(1)
        self._name, self._upstream, self._recording, self._replace = name, upstream, recording, replace

    async def start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        by_client: dict[int, int] = {}
        by_server: dict[int, int] = {}
        ways = [
            asyncio.create_task(self._pass(reader, up_writer, True, by_client, by_server)),
            asyncio.create_task(self._pass(up_reader, writer, False, by_server, by_client)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        writer.close()
        up_writer.close()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_client: bool,
        request_codes: dict[int, int],
        asked_by_other: dict[int, int],
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">I", length)[0])
                head = header(frame)
                if not head["flag"] & 1:
                    request_codes[head["opaque"]] = head["code"]
                self._recording.record_frame(self._name, from_client, frame, asked_by_other)
                writer.write(length + (frame if from_client or not self._replace[0] else frame.replace(*self._replace)))
                await writer.drain()


def drive(recording: Recording, namesrv: str, broker: str) -> Iterator[str]:
    """Run every client against the proxies; each time a word about what comes next."""
    yield (f"Java {VERSION}")
    consume(java_program.run("cases", "--namesrv", namesrv, "--parallel", "8", *JAVA_CASES))
    yield (f"Java {VERSION}, binary headers")
    consume(
        java_program.run(
            "cases",
            "--namesrv",
            namesrv,
            "--parallel",
            "8",
            "producer.",
            "push.",
            "lite.",
            "retry.",
            options=["-Drocketmq.serialize.type=ROCKETMQ"],
        )
    )
    yield ("Go 2.1.2")
    consume(go_program.run_cases(namesrv, broker))
    yield (f"mqadmin {VERSION}")
    mqadmin_scenario.run(namesrv, broker)


def consume(results: Iterator[dict[str, Any]]) -> None:
    """A client that fails behind the proxy would leave frames out without a word."""
    failed = [result for result in results if not result["ok"]]
    if failed:
        raise SystemExit("\n".join(f"{row['name']}: {row['detail'][:300]}" for row in failed))


async def record(servers: RealRocketMQ, recording: Recording) -> None:
    broker = Proxy("broker", servers.broker.port, recording)
    replace = (servers.broker.address.encode(), f"127.0.0.1:{broker.port}".encode())
    assert len(replace[0]) == len(replace[1]), "ports of as many digits: lengths must not change"
    namesrv = Proxy("namesrv", servers.namesrv.port, recording, replace)
    listening = [await broker.start(), await namesrv.start()]
    steps = drive(recording, f"127.0.0.1:{namesrv.port}", f"127.0.0.1:{broker.port}")
    while (client := await asyncio.to_thread(next, steps, None)) is not None:
        recording.client = client
        print(client, len(recording.kept), flush=True)
    for server in listening:
        server.close()


def main() -> None:
    recording = Recording()
    with real_rocketmq() as servers:
        asyncio.run(record(servers, recording))
    rows = sorted(recording.kept.values(), key=lambda row: [str(value).zfill(7) for value in row.values()][:-1])
    with GOLDEN.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    print(f"{len(rows)} frames in {GOLDEN}")


if __name__ == "__main__":
    main()
