"""The shape of a report: what it reads, the facts that it computes from this, and the tables and figures of the facts.

    messages, polls, ...  --facts-->  small tables by minute  --tables, figures-->  what people get

Facts are computed by one scan and can be added up further, so that one scan serves every table, a window of time and
the period before it. Each fact has the columns ``broker`` and ``minute_ts``, and ``topic`` and ``group`` if they are
known. A fact that belongs to no group has the group null; '' is the group of clients that name none.

With several brokers a table also gets rows for all of them together. These rows are computed from the same facts, with
ALL_BROKERS as their broker. Queues of different brokers are different queues. Facts that count or rank queues therefore
repeat their broker in a second column, ``home``.

Two facts have a meaning of their own. ``stored`` has at least one row for every broker and segment of the log
(``segment``, ``messages``, ``bytes``, ``end``). They show which bytes of a segment are not records. ``left_out`` has
what the other facts lack (``reason``, a key of LEFT_OUT, and ``count``).

The name of a column says what its numbers are. ``_ts`` is a time in ms since 1970, ``_ms`` and ``_us`` are durations,
``_share`` is a part of 1; ``bytes`` and ``size`` are in bytes. Null means unknown, or none.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL_BROKERS = "*"
"""The broker of rows that are about all brokers together."""
LEAST_EACH = 10
"""``skew`` compares the queues of a topic, or the clients of a group, from so many messages each on average. Of fewer
messages one queue gets several times as many as another by chance."""
LEFT_OUT = {
    "broker_topic": "queues of the broker's own topics, such as those of delays, timers, transactions and pop",
    "own_messages": "messages in the broker's own topics, whose queues are not meant to be even",
    "no_queue": "messages in queues that their topic does not have: damaged ones, or those of a former topic",
    "deleted": "queues of topics or groups that were deleted",
    "no_commit": "queues of groups that did not commit around the window: their offsets then are unknown",
    "clock_back": "times that lie before what they follow: a clock went back, or two clocks differ",
    "filtered": "messages that were given through a filter: it is not known which messages of the queue they were",
    "not_in_the_log": "messages that are not in the log any more, or not yet, or were stored long before the window",
    "not_due_known": "delayed messages whose due time is unknown, because no consume queue has it",
    "no_unique_key": "delayed messages without a UNIQ_KEY, by which the delivered copy would be found",
}
"""Why something is missing in a report's figures."""


class Inputs(NamedTuple):
    """What a report can read. A table is empty if the store has nothing of this kind."""

    messages: "DataFrame"
    """The commit logs, with the report's ``reads`` and ``broker``."""
    polls: "DataFrame"
    """The poll journals, with the report's ``polls`` and ``broker``."""
    table: "Callable[[str], DataFrame]"
    """One of the broker's own tables, by its name in SCHEMAS. It is created by the call."""
    bounds: tuple[int, ...] = ()
    """Beginnings of the periods that have figures of their own, ms, ascending."""
    to_ms: int | None = None
    """The end of the last period, ms."""
    brokers: int = 1
    """The number of brokers."""
    of: "Callable[[str], Inputs] | None" = None
    """The inputs of the report of that name. None: these inputs have everything that any report reads."""
    read: "Callable[[dict[str, DataFrame], int, int], dict[str, DataFrame]] | None" = None
    """(facts, part, parts) -> the same facts, computed now and cached. ``part`` of ``parts``: how much of the report's
    reading this is, for the progress."""
    since_ms: int | None = None
    """Messages and polls of the time from then on are complete; None: everything was read."""
    is_current: bool = True
    """Whether they are complete up to now."""
    settled_ms: int = 0
    """Commits from before then are in the table of offsets: the broker has written it since."""
    stored_at: "Callable[[DataFrame], DataFrame] | None" = None
    """(broker, topic, queue_id, offset) -> STORED_AT: the store time of each of these messages, null if the store does
    not have it any more."""
    topic: str | None = None
    group: str | None = None
    """The topic and the group of the run, for facts that have no such column."""


SCHEMAS = {
    "offsets": "broker string, `group` string, topic string, queue_id int, offset long",
    "topics": "broker string, topic string, queues int, known_queues int",
    "groups": "broker string, `group` string",
    "pop_retries": "broker string, topic string, pop_group string, pop_topic string",
    "queue_ends": "broker string, topic string, queue_id int, end_offset long",
}
"""Of the brokers' tables: the offsets of groups, as they were last stored; all topics, with or without messages, and
how many queues they have and ever had; all consumer groups; the topics for retries of pop, with their groups and
topics; where the queues end now."""
STORED_AT = "broker string, topic string, queue_id int, offset long, oldest_ts long"


class Table(NamedTuple):
    """A table of the result, computed from the facts named ``of``."""

    of: str
    make: Callable[["DataFrame"], "DataFrame"]
    worst: str = ""
    """The column whose largest values come first; of the same time, if the table has times."""
    across: bool = True
    """Whether it also has rows for all brokers together if there are several."""


class Figure(NamedTuple):
    """A figure that stands for the whole report, and which way it should go."""

    name: str
    label: str
    better: Literal["", "more", "less"] = ""
    of_journal: bool = False
    """Whether it is unknown for a store without a poll journal."""
    report: str = ""
    """The report with the details, if it is another one."""


class Chart(NamedTuple):
    """A picture of a table.

    ``time``: a line over ``minute_ts`` for each of ``y``; with ``split`` a line for each of its values, and the reader
    chooses one of ``y``. ``stack``: the same lines, on top of each other. ``bars``: a bar for each value of ``split``.
    ``histogram``: a bar for each ``from_...`` to ``to_...``. ``choose``: a column of which the reader chooses a value.
    """

    kind: Literal["time", "stack", "histogram", "bars"]
    title: str
    table: str
    y: tuple[str, ...]
    split: tuple[str, ...] = ()
    choose: str = ""
    per_second: bool = False
    """Whether the counts are divided by the seconds of a step."""
    merge: Literal["sum", "max"] = "sum"
    """How rows at the same place of the picture are combined."""


FiguresOf = Callable[..., "DataFrame"]
"""(facts, *keys) -> one row for each value of the keys, with its figures; without keys a single row."""


class Report(NamedTuple):
    """All that a run of the report needs. The rows of the first table are those of the summary."""

    reads: tuple[str, ...]
    """Columns of the commit log; empty if the report does not read it."""
    polls: tuple[str, ...]
    """Columns of the poll journal; empty if the report does not read it."""
    facts: Callable[[Inputs], dict[str, "DataFrame"]]
    tables: Mapping[str, Table]
    figures: Mapping[str, FiguresOf]
    """By the name of the facts that they are computed from."""
    headlines: tuple[Figure, ...]
    charts: tuple[Chart, ...]
