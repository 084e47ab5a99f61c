"""Where a lake is: folders, and an S3 that may be busy."""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector

from broker_core.formats import lake_position
from spark_jobs.errors import LakeBusyError, LakeError, UnsupportedUrlError
from spark_jobs.lake import delta
from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.storage import filesystem_of, lake_location, remove_files, write_whole
from spark_jobs.lake.tasks import read_remote
from spark_jobs.sources.commit_log_columns import TABLE
from tests.fakes.s3_server import s3_server
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.lakes import NOW, fill, lake_of, run_here
from tests.spark_jobs.stores import Written, make_store, publish_end

pytestmark = pytest.mark.slow
HOUR = 3_600_000


@pytest.mark.parametrize(
    "text", ["s3://bucket", "s3:///lake", "s3://bucket/lake?x=1", "gs://bucket/lake", "file://host/x"]
)
def test_urls_that_cannot_hold_a_lake_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedUrlError):
        lake_location(text)


def test_places_for_a_lake(tmp_path: Path) -> None:
    assert lake_location("s3://bucket/a/b/") == "s3://bucket/a/b"
    assert lake_location(f"file://{tmp_path}/my%20lakes") == str(tmp_path / "my lakes")
    assert lake_location(f"file://{tmp_path}/x") == lake_location(f"{tmp_path}/y/../x") == str(tmp_path / "x")


def test_on_a_full_disk_the_file_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "file", b"before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "file", b"after")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"before"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of an S3 that fails every tenth call."""
    with s3_server(fail_every=10) as url:
        yield url


@pytest.fixture
def url(bucket: str, tmp_path: Path) -> str:
    return f"{bucket}/{tmp_path.name}"


@pytest.fixture
def written(tmp_path: Path) -> Written:
    made = make_store(tmp_path / "store", 40, step_ms=HOUR)
    (tmp_path / "store" / "glassmq").touch()
    publish_end(tmp_path / "store", made.records[20][2])
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    return made


def files_of(url: str) -> set[str]:
    """The Parquet files of messages, active or not."""
    filesystem, inside = filesystem_of(f"{url}/messages")
    listed = filesystem.get_file_info(FileSelector(inside, recursive=True))
    return {f"s3://{info.path}" for info in listed if info.extension == "parquet"}


def offsets(lake: Lake) -> list[int]:
    paths = [file.path for file in lake.messages]
    numbers = [pa.RecordBatch.from_pydict({"id": range(len(paths))})]
    window = ("store_ts", None, None)
    return sorted(
        offset
        for rows in read_remote(paths, TABLE.arrow(["physical_offset"]), window, numbers)
        for offset in rows.column("physical_offset").to_pylist()
    )


def test_a_lake_in_a_bucket_gets_each_message_once(
    url: str, tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fill(tmp_path / "store", url)
    assert (first.messages, first.polls, first.lake) == (20, 20, url)
    position = lake_position.decode((tmp_path / "store" / lake_position.FILE_NAME).read_bytes())
    assert position == lake_position.LakePosition(first.position, NOW, url)
    assert fill(tmp_path / "store", url).messages == 0
    publish_end(tmp_path / "store", written.end)
    monkeypatch.setattr(delta, "FEW", 2)
    monkeypatch.setattr(delta, "MANY", 2)
    again = fill(tmp_path / "store", url, now_ms=int(time.time() * 1000))
    assert (again.messages, again.awaited_lake) == (20, "")
    assert again.merged_files > 0
    lake = lake_of(tmp_path / "store", url)
    assert offsets(lake) == [record[2] for record in written.records]
    active = {file.path for file in lake.messages}
    retired = files_of(url) - active
    assert files_of(url) > active, "what was compacted stays for six hours"
    remove_files(f"{url}/messages", lambda info: f"s3://{info.path}" in retired)
    assert files_of(url) == active


def test_the_slower_of_two_fills_of_a_bucket_fails(url: str, tmp_path: Path, written: Written) -> None:
    fill(tmp_path / "store", url)
    publish_end(tmp_path / "store", written.end)

    def overtaken(target: Any, works: Any) -> Any:
        done = run_here(target, works)
        assert fill(tmp_path / "store", url).messages == 20
        return done

    with pytest.raises(LakeBusyError, match="Another process has filled the lake"):
        fill(tmp_path / "store", url, overtaken)
    lake = lake_of(tmp_path / "store", url)
    assert offsets(lake) == [record[2] for record in written.records]
    assert {file.path for file in lake.messages} == files_of(url)


def test_without_a_server_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_store(tmp_path / "store", 1)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((LakeError, OSError), match=r"."):
        find_lake("s3://away/lakes", "store")
