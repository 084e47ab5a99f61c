"""What the reader of a report has to know before its figures."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from spark_jobs.job import BrokerStore, Job
from spark_jobs.output.notes import MOST_DAMAGE, damage_notes, journal_notes, notes_of_run, unknown_notes
from spark_jobs.output.result import Result
from spark_jobs.reports import load
from spark_jobs.sources.commit_log_damage import DAMAGED, Gap
from spark_jobs.sources.commit_log_segments import plan_log
from spark_jobs.sources.poll_journal_files import JournalSurvey, survey
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import make_store

SOURCE = {"torn_segments": [], "mean_size": 0.0, "unknown_messages": 0, "unknown_queues": []}


def store(folder: Path, broker: str, count: int) -> Any:
    """A broker's store with so many messages and no poll journal, as ``StoreInputs`` describes it."""
    make_store(folder / broker, count)
    journal = survey(folder / broker)
    return SimpleNamespace(
        broker=broker,
        store=folder / broker,
        plan=plan_log(folder / broker),
        journal=journal,
        lake=None,
        window=(None, None),
    )


def notes(folder: Path, *stores: Any, rows: int = 1, cut: tuple[str, ...] = (), **more: Any) -> list[str]:
    result = Result({"by_group": pa.table({"lag": [1] * rows})}, {}, [], 60_000, list(cut))
    job = Job("consumer_lag", tuple(BrokerStore(found.broker, folder) for found in stores), folder, **more)
    return notes_of_run(load("consumer_lag"), stores, [SOURCE] * len(stores), result, job)


def test_the_notes_of_several_brokers_name_their_broker(tmp_path: Path) -> None:
    full, empty = store(tmp_path, "a", 3), store(tmp_path, "b", 0)
    (missing,) = notes(tmp_path, full)
    assert missing.startswith("This store has no poll journal, so a part of this report is missing:")
    assert notes(tmp_path, full, empty) == [
        f"a: {missing}",
        f"b: {missing}",
        "b: The commit log of this store is empty.",
    ]


def test_a_restriction_that_nothing_fits_is_repeated(tmp_path: Path) -> None:
    said = notes(tmp_path, store(tmp_path, "a", 3), rows=0, topic="orders", consumer_group="g", from_ms=0)
    assert said[-1] == (
        "The commit log has no message of what was asked for: topic orders, group g, this window of time."
    )


def test_tables_that_were_cut_are_named_last(tmp_path: Path) -> None:
    said = notes(tmp_path, store(tmp_path, "a", 3), store(tmp_path, "b", 3), cut=("by_queue",))
    assert said[-1] == "The table by_queue is too long for this report and contains its first rows only."


def test_topics_with_batch_consume_queues_are_named(tmp_path: Path) -> None:
    found = store(tmp_path, "a", 3)
    for number in range(7):
        (tmp_path / "a" / "batchconsumequeue" / f"batches-{number}" / "0").mkdir(parents=True)
    assert notes(tmp_path, found)[0] == (
        "Each batch of a producer counts as one message in topics with queue.type=BatchCQ: "
        "batches-0, batches-1, batches-2, batches-3, batches-4 and 2 more."
    )


def test_entries_that_the_journal_lacks_are_said(tmp_path: Path) -> None:
    """A file that cannot be read, one that is damaged in its middle, and one that is closed in order."""
    make_store(tmp_path / "a", 3)
    entries = [entry(number) for number in range(100)]
    unreadable, damaged, _ = make_journal(tmp_path / "a", entries, entries, entries, lost=1)
    unreadable.write_bytes(b"x" + unreadable.read_bytes()[1:])
    data = bytearray(damaged.read_bytes())
    data[len(data) // 3] ^= 1
    damaged.write_bytes(data)
    journal = survey(tmp_path / "a")
    about, *others = journal_notes(journal)
    files = f"{unreadable.name}, {damaged.name}"
    assert about.startswith(f"{journal.torn_bytes:,} bytes of the poll journal, in {files}, cannot be read: ")
    numbers = [int(word.replace(",", "")) for word in about.split("about ")[1].split() if word[0].isdigit()]
    assert journal.entries < 200 and numbers[1] == journal.entries + numbers[0]
    assert others == [
        "A crash may have cut off the last entries of 2 files of the poll journal.",
        f"This report lacks {journal.lost:,} entries that the broker could not write to its poll journal.",
    ]
    assert journal_notes(journal._replace(torn_entries=0))[0].endswith(
        "cannot be read: this report lacks the entries there."
    )


@pytest.mark.parametrize(("count", "s", "ies"), [(1, "", "y"), (2, "s", "ies")])
def test_notes_on_one_thing_and_on_several(tmp_path: Path, count: int, s: str, ies: str) -> None:
    journal = SimpleNamespace(
        torn_bytes=count, torn_files=["f"], torn_entries=count, entries=0, cut_off_files=count, lost=count
    )
    assert journal_notes(cast("JournalSurvey", journal)) == [
        f"{count} byte{s} of the poll journal, in f, cannot be read: this report lacks about {count} of {count} "
        f"entr{ies}.",
        f"A crash may have cut off the last entries of {count} file{s} of the poll journal.",
        f"This report lacks {count} entr{ies} that the broker could not write to its poll journal.",
    ]
    assert unknown_notes({"unknown_messages": count, "unknown_queues": ["t"]})[0].startswith(
        f"The broker does not have the topic or queue of {count} message{s}: t."
    )
    make_store(tmp_path, 1)
    gaps = [Gap(DAMAGED, 0, count, count)] * (MOST_DAMAGE + count)
    *_, last, others = damage_notes(plan_log(tmp_path), SOURCE | {"mean_size": 1.0}, gaps)
    assert last == (
        f"From offset 0 to {count} the commit log is missing or damaged: {count} byte{s}, about {count} message{s}."
    )
    size = count * count
    assert others == f"The same is true of {count} more place{s}, {size} byte{'s' if size > 1 else ''} in all."
