"""Seconds until a broker with 1 GB of 1 KiB bodies is ready again after kill -9.

    python benchmarks/recovery.py [GB]

Goal: under 10 s.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from common import broker, title


async def fill(port: int, size: int) -> int:
    """Publish 1 KiB bodies until the log has ``size`` bytes; returns their number."""
    body = json.dumps({"messages": [{"body": "x" * 1024, "tag": "TagA", "keys": ["k"]}] * 512})
    request = (
        f"POST /api/v1/topics/big/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
    sent = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while sent * 1330 < size:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201"), head
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        sent += 512
    writer.close()
    return sent


def main() -> None:
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else "1") * 1e9)
    title(f"Ready again after kill -9, {size / 1e9:g} GB of 1 KiB bodies")
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as folder:
        data = Path(folder)
        with broker(data=data) as (port, process):
            sent = asyncio.run(fill(port, size))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        began = time.perf_counter()
        with broker(data=data):
            print(f"  {sent:,} messages; ready after {time.perf_counter() - began:.1f} s, with the start of processes")


if __name__ == "__main__":
    main()
