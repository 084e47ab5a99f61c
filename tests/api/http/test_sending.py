"""Encoding and sending in parts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.http.answer_memory import AnswerMemory, Share
from api.http.limits import FILE_PART, SMALL_ANSWER
from api.http.sending import encode_in_parts, send_file, send_parts


class List(msgspec.Struct):
    name: str
    messages: list[str]
    after: int = 7


@pytest.mark.parametrize("sizes", [[], [3], [3, 3], [100_000, 3, 100_000], [40_000] * 9, [1] * 100_000])
def test_parts_together_are_the_json_and_none_is_much_larger_than_it_must_be(sizes: list[int]) -> None:
    body = List('"messages":[]', ["x" * size for size in sizes])
    parts = encode_in_parts(msgspec.json.encode, body)
    assert b"".join(parts) == msgspec.json.encode(body)
    assert all(parts)
    if len(sizes) > 1:
        assert max(map(len, parts)) <= max(SMALL_ANSWER, *sizes) + 100


def test_other_bodies_are_one_part() -> None:
    assert encode_in_parts(msgspec.json.encode, {"messages": [1, 2]}) == [b'{"messages":[1,2]}']


async def test_the_memory_of_sent_parts_is_given_back() -> None:
    memory = AnswerMemory()
    taken: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        taken.append(memory.taken)

    with Share(memory) as share:
        assert share.grow(300_000)
        await send_parts(send, [bytes(100_000)] * 3, share)
    assert (taken, memory.taken) == ([300_000, 200_000, 100_000], 0)


async def test_a_file_is_sent_in_parts(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    path = tmp_path / "file"
    path.write_bytes(content)
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    await send_file(receive, send, path, [(b"a", b"b")], is_head=False)
    assert sent[0]["headers"] == [(b"a", b"b"), (b"content-length", b"%d" % len(content))]
    assert b"".join(message["body"] for message in sent[1:]) == content
    assert max(len(message["body"]) for message in sent[1:]) == FILE_PART
    assert [message["more_body"] for message in sent[1:-1]] == [True] * (len(sent) - 2)
    sent.clear()
    await send_file(receive, send, path, [], is_head=True)
    assert [message.get("body") for message in sent] == [None, b""]


async def test_no_more_of_a_file_is_read_when_its_client_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100 * FILE_PART))
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if len(sent) == 3:
            gone.set()
            await asyncio.sleep(0)

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    await send_file(receive, send, path, [], is_head=False)
    assert len(sent) < 10
    assert json.loads(dict(sent[0]["headers"])[b"content-length"]) == 100 * FILE_PART
