"""RocketMQ's file of offsets, and what is read when it is damaged."""

from pathlib import Path

import pytest

from broker_core.client import MQClientException
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.commands import MessageQueue

QUEUES = [MessageQueue(topic="T", broker_name="b", queue_id=number) for number in range(2)]
JAVA = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"b",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:7
\t}
}"""
"""As RocketMQ writes it."""


def store_of(folder: Path) -> LocalFileOffsetStore:
    store = LocalFileOffsetStore(str(folder), "10.0.0.1@DEFAULT", "g")
    store.load()
    return store


async def test_offsets_are_written_as_rocketmq_reads_them(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    assert await store.read_store(QUEUES[0]) is None and store.read_memory(QUEUES[0]) == -1
    await store.persist(QUEUES)
    assert not store.path.exists()  # there is nothing to write
    await store.store_now(QUEUES[0], 5)
    assert store_of(tmp_path).table() == {QUEUES[0]: 5}  # a consumer that is killed at once begins there again
    store.update_offset(QUEUES[0], 7)
    store.update_offset(QUEUES[0], 6, increase_only=True)
    await store.persist(QUEUES)
    assert store.path == tmp_path / "10.0.0.1@DEFAULT" / "g" / "offsets.json"
    assert store.path.read_bytes() == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}'
    store.update_offset(QUEUES[1], 1)
    store.remove_offset(QUEUES[0])  # it is kept
    await store.persist(QUEUES)
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]
    assert store_of(tmp_path).table() == {QUEUES[0]: 7, QUEUES[1]: 1}


async def test_the_file_of_the_java_client_is_read(tmp_path: Path) -> None:
    path = store_of(tmp_path).path
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA)
    assert await store_of(tmp_path).read_store(QUEUES[0]) == 7


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"offsetTable":[]}', b'{"offsetTable":{"x":1}}', JAVA.replace(b":7", b":-7"), b"\xff"],
)
async def test_the_copy_is_read_if_the_file_is_damaged(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = store_of(tmp_path).path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(MQClientException, match=r"offsets.json: .*Repair the file, or remove it"):
        store_of(tmp_path)
    path.with_name("offsets.json.bak").write_bytes(JAVA)
    assert store_of(tmp_path).table() == {QUEUES[0]: 7}
    path.unlink()  # a power cut between the two renames
    assert store_of(tmp_path).table() == {QUEUES[0]: 7}
    assert "cannot be read" in caplog.text


async def test_a_file_that_cannot_be_written_is_written_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(tmp_path / "folder")
    (tmp_path / "folder").write_text("in the way")
    store.update_offset(QUEUES[0], 7)
    await store.persist(QUEUES)
    assert "could not be written" in caplog.text
    (tmp_path / "folder").unlink()
    await store.persist(QUEUES)
    assert store_of(tmp_path / "folder").table() == {QUEUES[0]: 7}


@pytest.mark.parametrize("client_id", ["", "a/b", ".."])
def test_a_client_id_that_is_no_name_of_a_folder(client_id: str, tmp_path: Path) -> None:
    with pytest.raises(MQClientException, match="name of a folder"):
        LocalFileOffsetStore(str(tmp_path), client_id, "g")
