"""Reading a request: path, query, body, within limits."""

import asyncio
import json
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from api.http.problems import Problem
from api.http.request import (
    ClientGone,
    Params,
    decode_json,
    expect,
    path_segments,
    read_body,
    read_headers,
    read_params,
    read_query,
    require_json,
)
from bridge.port import commands


def scope(path: bytes = b"/", query: bytes = b"") -> dict[str, object]:
    return {"raw_path": path, "path": path.decode(), "query_string": query, "headers": []}


def refused(call: object, *arguments: object) -> Problem:
    with pytest.raises(Problem) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value


def test_an_encoded_slash_stays_inside_its_part() -> None:
    assert path_segments(scope(b"/a/%2E.%2Fx/b")) == ["a", "../x", "b"]
    assert path_segments({"path": "/a/b", "headers": []}) == ["a", "b"]


@pytest.mark.parametrize("path", [b"/a/../x", b"/a/%2e%2e/x", b"/./x", b"/%FF"])
def test_paths_that_lead_elsewhere_are_refused(path: bytes) -> None:
    assert refused(path_segments, scope(path)).status == 400


def test_a_query_is_read_once_each() -> None:
    assert read_query(scope(query=b"a=1&b=%C3%A4&c=")) == {"a": "1", "b": "ä", "c": ""}
    assert refused(read_query, scope(query=b"a=1&a=2")).errors[0].pointer == "/a"
    assert refused(read_query, scope(query=b"a=%FF")).status == 400
    assert refused(read_query, scope(query=b"a=" + b"x" * 20_000)).status == 414


class Numbers(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    offset: int
    limit: Annotated[int, Meta(ge=1)] | None = None
    broker_id: int | Literal["all"] = 0


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_parameters_are_taken_or_refused_with_a_problem(values: dict[str, str]) -> None:
    try:
        assert isinstance(read_params(values, Numbers).offset, int)
    except Problem as problem:
        assert problem.status == 400
        assert problem.errors


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"offset": "x"},
        {"offset": "1.5"},
        {"offset": "1.0"},
        {"offset": "null"},
        {"offset": "1", "limit": "1e3"},
        {"offset": "1e3"},
        {"offset": "+1"},
        {"offset": "1_000"},
        {"offset": "٣"},
        {"offset": "1\n"},
        {"offset": "1", "ofset": "2"},
        {"offset": "1", "int64": "text"},
        {"offset": ""},
    ],
)
def test_parameters_that_are_wrong(values: dict[str, str]) -> None:
    assert refused(read_params, values, Numbers).status == 400


def test_whole_numbers_are_read() -> None:
    assert read_params({"offset": "-7", "limit": "7"}, Numbers) == Numbers(offset=-7, limit=7)
    assert read_params({"offset": "0", "limit": "null", "broker_id": "all"}, Numbers).limit is None


def test_first_of_two_equal_headers_counts() -> None:
    assert read_headers({"headers": [(b"a", b"1"), (b"a", b"2")]}) == {b"a": b"1"}


def receiver(*messages: dict[str, object]) -> object:
    queue: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    for message in messages:
        queue.put_nowait(message)
    return queue.get


def chunk(body: bytes, more: bool = False) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_parts() -> None:
    assert await read_body(receiver(chunk(b"ab", True), chunk(b"c")), {}, 3) == b"abc"  # type: ignore[arg-type]
    assert await read_body(receiver(chunk(b"abc")), {}, 3) == b"abc"  # type: ignore[arg-type]


@pytest.mark.parametrize("messages", [[chunk(b"abcd")], [chunk(b"ab", True), chunk(b"cd", True)]])
async def test_a_body_that_is_too_large_is_not_read_to_its_end(messages: list[dict[str, object]]) -> None:
    with pytest.raises(Problem) as caught:
        await read_body(receiver(*messages), {}, 3)  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.headers) == (413, {"connection": "close"})


@pytest.mark.parametrize(("length", "status"), [(b"4", 413), (b"9" * 40, 413), (b"-1", 400), (b"x", 400)])
async def test_content_length_is_believed_before_anything_is_read(length: bytes, status: int) -> None:
    with pytest.raises(Problem) as caught:
        await read_body(receiver(), {b"content-length": length}, 3)  # type: ignore[arg-type]
    assert caught.value.status == status


@pytest.mark.parametrize("messages", [[{"type": "http.disconnect"}], [chunk(b"a", True), {"type": "http.disconnect"}]])
async def test_a_client_that_disconnects_while_it_sends(messages: list[dict[str, object]]) -> None:
    with pytest.raises(ClientGone):
        await read_body(receiver(*messages), {}, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("content_type", [b"application/json", b"Application/JSON; charset=UTF-8"])
def test_json_is_taken(content_type: bytes) -> None:
    require_json({b"content-type": content_type})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"content-type": b"text/plain"},
        {b"content-type": b"application/x-www-form-urlencoded"},
        {b"content-type": b"application/json; charset=latin-1"},
        {b"content-type": b"application/json", b"content-encoding": b"gzip"},
    ],
)
def test_anything_else_is_415(headers: dict[bytes, bytes]) -> None:
    assert refused(require_json, headers).status == 415


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":1', b'"\xff"', b"[" * 100_000, b"nul", b'{"offset":1}{}'])
def test_a_body_that_is_not_json_is_400(body: bytes) -> None:
    assert refused(decode_json, body, dict[str, object]).status == 400


@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.integers() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    try:
        assert isinstance(decode_json(body, Numbers), Numbers)
    except Problem as problem:
        assert problem.status == 400


def test_an_answer_of_another_type_is_our_own_defect() -> None:
    assert expect(commands.Done(), commands.Done) == commands.Done()
    assert refused(expect, commands.Done(), commands.Sent).status == 500
    assert msgspec.json.encode(commands.Done()) == b'{"t":"Done"}'
