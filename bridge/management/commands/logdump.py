"""``manage.py logdump STORE``: the records of a commit log, one line each, also while a broker writes to it.

The store is only read: nothing is locked or written. With ``--follow`` new records are printed as they become safe to
read, until Ctrl-C.
"""

import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError

from broker_core.formats.commit_log_files import read_records
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError
from broker_core.formats.message_properties import KEYS, TAGS, UNIQ_KEY, decode

LOOK_SECONDS = 0.2
COLUMNS = "OFFSET\tSTORED\tTOPIC\tQUEUE\tQUEUE_OFFSET\tSIZE\tMESSAGE_ID\tTAG\tKEYS"


class Command(BaseCommand):
    """Prints what ``broker_core.formats.commit_log_files`` reads."""

    help = "Print the records of a commit log; a broker may be writing to it."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("store", type=Path, help="the store's folder, which has commitlog/ in it")
        parser.add_argument("--from", type=int, default=0, dest="offset", help="physical offset of the first record")
        parser.add_argument("--topic", default="", help="print the records of this topic only")
        parser.add_argument("--follow", action="store_true", help="print new records as well, until Ctrl-C")

    def handle(self, *args: Any, **options: Any) -> None:
        store, offset, topic = options["store"], options["offset"], options["topic"]
        try:
            is_headed = False
            while True:
                records = read_records(store, offset)
                record = next(records, None)  # raises for a folder that is not a store: before the header
                if not is_headed:
                    self.stdout.write(COLUMNS)
                    is_headed = True
                while record is not None:
                    offset = record.physical_offset + record.size
                    if topic in ("", record.topic):
                        self.stdout.write(line(record))
                    record = next(records, None)
                self.stdout.flush()
                if not options["follow"]:
                    return
                time.sleep(LOOK_SECONDS)
        except RecordError as error:
            raise CommandError(f"{store}: {error}.") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CommandError(f"{store} is not a store: it has no commitlog folder.") from error
        except KeyboardInterrupt:
            return


def line(record: CommitLogRecord) -> str:
    """The columns of a record; characters that a terminal does not print are escaped."""
    properties = decode(record.properties)
    stored = datetime.fromtimestamp(record.store_timestamp / 1000, UTC)
    columns = (
        record.physical_offset,
        f"{stored:%Y-%m-%dT%H:%M:%S}.{record.store_timestamp % 1000:03}Z",
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.size,
        properties.get(UNIQ_KEY, "-"),
        properties.get(TAGS, "-"),
        properties.get(KEYS, "-"),
    )
    return "\t".join(printable(str(column)) for column in columns)


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
