"""A full disk: retention runs first, readiness tells the truth, and the broker recovers by itself."""

import gc
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker_core import commands
from broker_core.codes import ResponseCode
from broker_core.commands import BrokerView, Failed
from broker_core.errors import UnavailableError
from broker_core.store.clean_commit_log import Clean
from broker_core.store.config_tables import TableWrite
from broker_core.store.message_store import MessageStore
from tests.fakes.engine import Bench, send
from tests.fakes.store_cases import SMALL, at, message, open_store


def full_bench() -> Bench:
    """A broker with some segments on a disk that has just become full."""
    bench = Bench(mapped_file_size_commit_log=65_536)
    for _ in range(40):
        bench.call(send("orders", b"x" * 4000, b"y" * 4000))
        bench.tick(1)
    bench.file_work()
    bench.files.used_percent = 99.0
    bench.files.full = True
    return bench


def problem(bench: Bench) -> str:
    view = bench.call(commands.GetBroker())
    assert isinstance(view, BrokerView)
    return view.problem


def test_retention_runs_although_no_table_can_be_written() -> None:
    bench = full_bench()
    bench.context.topics.dirty = True
    bench.tick(20_000)
    kinds = []
    for _ in range(3):
        work = bench.engine.next_file_work(bench.clock.now())
        kinds.append(type(work))
        if isinstance(work, Clean):
            bench.take(bench.engine.file_work_done(work.run(), bench.clock.now()))
        elif work is not None:
            with pytest.raises(OSError, match="No space"):
                work.run()
            bench.engine.file_work_failed(work, bench.clock.now())
        bench.tick(1000)
    assert kinds[0] is Clean
    assert TableWrite in kinds
    assert bench.context.store.min_physical_offset > 0


def test_readiness_says_what_publishing_says_and_recovers_by_itself() -> None:
    bench = full_bench()
    bench.files.used_percent = 50.0  # a quota, or room for others only
    refused = None
    for _ in range(40):
        answer = bench.call(send("orders", b"x" * 4000))
        if isinstance(answer, Failed):
            refused = answer
            break
    assert refused is not None and "accepts no more messages" in refused.remark
    assert problem(bench) == refused.remark
    bench.tick(2000)
    bench.engine.next_file_work(bench.clock.now())
    assert problem(bench) == refused.remark
    bench.files.full = False
    bench.tick(2000)
    while (work := bench.engine.next_file_work(bench.clock.now())) is not None:
        bench.engine.file_work_done(work.run(), bench.clock.now())
    assert problem(bench) == ""
    assert not isinstance(bench.call(send("orders", b"again")), Failed)


def test_a_refused_message_makes_retention_look_at_once() -> None:
    bench = full_bench()
    bench.files.used_percent = 50.0
    bench.tick(20_000)
    while (work := bench.engine.next_file_work(bench.clock.now())) is not None:
        bench.engine.file_work_failed(work, bench.clock.now())
        if isinstance(work, TableWrite):
            break
    bench.files.used_percent = 99.0
    while not isinstance(bench.call(send("orders", b"x" * 4000)), Failed):
        pass
    assert isinstance(bench.engine.next_file_work(bench.clock.now()), Clean)


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_on_a_full_disk_serves_reads_and_says_why_it_accepts_nothing(clean: bool) -> None:
    bench = full_bench()
    if clean:
        bench.files.full = False
        bench.flush()
        bench.engine.close(bench.clock.now())
        bench.files.full = True
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock, mapped_file_size_commit_log=65_536)
    assert "full" in problem(again) or "accepts no more messages" in problem(again)
    assert again.context.store.get_message("orders", 0, 0, 32, 1 << 20, None).status == "FOUND"


def test_a_start_with_a_torn_tail_on_a_full_disk_recovers_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    bench = full_bench()
    end = bench.context.store.appended_offset
    bench.files.kill()
    segment = max(path for path in bench.files._names if path.parent.name == "commitlog")
    bench.files._names[segment].volatile[end % 65_536 : end % 65_536 + 5] = b"wrong"
    bench.files.used_percent = 50.0
    again = Bench(files=bench.files, clock=bench.clock, mapped_file_size_commit_log=65_536)
    assert "recovery waits for space" in problem(again)
    assert isinstance(again.call(send("orders", b"refused")), Failed)
    assert again.context.store.get_message("orders", 0, 0, 32, 1 << 20, None).status == "FOUND"
    again.files.full = False
    again.tick(2000)
    again.file_work()
    assert problem(again) == ""
    assert not isinstance(again.call(send("orders", b"again")), Failed)
    assert any("are not valid records; they are kept in quarantine" in record.message for record in caplog.records)


def test_offsets_are_not_answered_while_messages_wait_for_space_in_their_queues() -> None:
    """Otherwise the answer to a pull would move a consumer back to 0, and it would consume everything again."""
    bench = Bench(mapped_file_size_commit_log=65_536)
    for _ in range(100):
        bench.send("orders", b"x" * 100)
    bench.tick(20_000)
    bench.file_work()
    bench.flush()
    bench.files.kill()
    bench.files.remove_folder(bench.context.store.root / "consumequeue")
    bench.files.full = True
    again = Bench(files=bench.files, clock=bench.clock, mapped_file_size_commit_log=65_536)
    queue = {"topic": "orders", "queue_id": 0}
    questions = [
        commands.PullMessage(**queue, queue_offset=100, suspend_timeout_ms=15_000, consumer_group="g"),
        commands.PullMessage(**queue, queue_offset=50, consumer_group="g"),
        commands.GetMaxOffset(**queue),
        commands.GetMinOffset(**queue),
        commands.SearchOffset(**queue, timestamp_ms=0),
        commands.QueryOffset(**queue, group="g"),
        commands.ResetConsumerOffset(topic="orders", group="g", to="max"),
    ]
    for question in questions:
        answer = again.call(question)
        assert isinstance(answer, Failed) and answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer
        assert "recovery waits for space" in answer.remark
    again.files.full = False
    for _ in range(3):
        again.tick(2000)
        again.file_work()
    assert problem(again) == ""
    assert again.call(commands.GetMaxOffset(**queue)) == commands.FoundOffset(offset=100)
    request_id = again.pull("orders", 100)
    assert again.final(request_id) is None
    assert again.pulled(again.pull("orders", 50)).records


def test_readiness_does_not_forget_a_queue_without_space() -> None:
    """The log may have reserved space ahead while a queue's next file has none."""
    bench = Bench(mapped_file_size_consume_queue=2000)
    for _ in range(99):
        bench.call(send("orders", b"x", queue_id=0))
    bench.flush()
    bench.files.full = True
    refused = bench.call(send("orders", b"x", b"y", queue_id=0))
    assert isinstance(refused, Failed)
    bench.tick(2000)
    bench.engine.next_file_work(bench.clock.now())
    assert problem(bench) == refused.remark
    bench.files.full = False
    bench.tick(2000)
    bench.engine.next_file_work(bench.clock.now())
    assert problem(bench) == ""


@pytest.fixture
def small_ext4(tmp_path: Path) -> Iterator[Path]:
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    try:
        with image.open("wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"an ext4 file system cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(store: MessageStore) -> int:
    """Store messages until the disk refuses one; returns their number."""
    for number in range(100_000):
        try:
            store.append([message(number, size=3000)], at(number))
        except UnavailableError as error:
            assert "No space left on device" in error.remark
            return number
        store.reput()
    raise AssertionError("the disk is never full")


@pytest.mark.parametrize("clean", [True, False])
def test_a_real_disk_is_filled_read_restarted_and_emptied_by_retention(small_ext4: Path, clean: bool) -> None:
    store = open_store(small_ext4 / "store", SMALL)
    stored = fill(store)
    assert "No space left on device" in store.problem
    if clean:
        store.close(at(stored))
    elif store._lock is not None:
        store._lock.release()
    del store
    gc.collect()  # maps of removed files would keep their space
    store = open_store(small_ext4 / "store", SMALL, ms=100_000)
    assert store.max_offset("T", 0) == stored
    assert store.get_message("T", 0, 0, 32, 1 << 20, None).status == "FOUND"
    assert "full" in store.problem
    for seconds in range(200, 400, 20):
        clean_up = store.next_clean(at(seconds * 1000))
        if clean_up is not None:
            store.cleaned(clean_up.run(), at(seconds * 1000))
    assert store.problem == ""
    assert store.append([message(stored)], at(500_000)).requests[0].queue_offset == stored
    store.close(at(500_001))


def use_all_space(path: Path) -> None:
    """Append to a file until the disk has no block left."""
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))


def test_a_damaged_log_on_a_real_full_disk_is_read_and_repaired_when_there_is_space(small_ext4: Path) -> None:
    root = small_ext4 / "store"
    store = open_store(root, SMALL)
    stored = fill(store)
    places = [store._queues.find("T", 0).unit(offset)[0] for offset in (stored - 10, stored - 1)]
    assert store._lock is not None
    store._lock.release()
    del store
    gc.collect()
    for place in places:  # one in the middle of the log, and a torn end
        with (root / "commitlog" / f"{place - place % 65_536:020d}").open("r+b") as segment:
            segment.seek(place % 65_536 + 100)
            segment.write(b"\xff\xff")
    (root / "safe_end").unlink()
    for ms in (100_000, 101_000):
        use_all_space(small_ext4 / "others")
        store = open_store(root, SMALL, ms=ms)
        assert "full" in store.problem
        assert store.max_offset("T", 0) == stored - 1
        assert store.get_message("T", 0, stored - 2, 1, 1 << 20, None).status == "FOUND"
        store.close(at(ms))
        del store
        gc.collect()
    store = open_store(root, SMALL, ms=102_000)
    for seconds in range(200, 400, 20):
        clean_up = store.next_clean(at(seconds * 1000))
        if clean_up is not None:
            store.cleaned(clean_up.run(), at(seconds * 1000))
    assert store.problem == ""
    assert len(list(root.glob("quarantine/*.damaged"))) == len(list(root.glob("quarantine/*.tail"))) == 1
    assert store.append([message(stored)], at(500_000)).requests[0].queue_offset == stored - 1
    store.close(at(500_001))
