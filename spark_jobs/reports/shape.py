"""The shape of a report: what it reads, the facts it makes of that, and what is derived from them.

    messages, polls, ...  --facts-->  small tables by minute  --tables, figures-->  what people get

Facts are computed by one scan and can be added up further, so that one scan serves every table, a window of time and
the period before it. Each has the columns ``broker`` and ``minute_ts``, and ``topic`` and ``group`` where it knows
them; what belongs to no group has the group ''. With several brokers a table gets rows for all of them together,
computed of the same facts with ALL_BROKERS as their broker. Queues of different brokers are different queues: facts
that count or rank queues therefore have their broker in a second column, ``home``, as well.

Two names have a meaning of their own. ``stored`` has a row at least for every broker and segment of the log
(``segment``, ``messages``, ``bytes``, ``end``), from which it is known what was not a record. ``left_out`` says what
the others lack (``reason``, a key of LEFT_OUT, and ``count``).

What a number is, its column's name says: ``_ts`` a time and ``_ms``, ``_us`` a duration, in ms since 1970, ms and us;
``_share`` a part of 1; ``bytes`` and ``size`` in bytes. A null is not known, or there is none.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL_BROKERS = "*"
"""The broker of rows that are about all brokers together."""
LEFT_OUT = {
    "broker_topic": "queues of the broker's own topics, as those of delays, timers, transactions and pop",
    "own_messages": "messages in the broker's own topics, whose queues nobody evens out",
    "deleted": "queues of topics or groups that were deleted",
    "clock_back": "times that lie before what they follow: a clock went back, or two clocks differ",
    "filtered": "messages that were given through a filter: which ones of the queue they were, nothing says",
    "not_in_the_log": "messages that are not in the log any more, or not yet",
    "not_due_known": "delayed messages of which no consume queue says when they were due",
    "no_unique_key": "delayed messages without a UNIQ_KEY, by which the delivered copy would be found",
}
"""Why something is missing in a report's figures."""


class Inputs(NamedTuple):
    """What there is to read, as a report asked for it; a table is empty where the store has nothing of the kind."""

    messages: "DataFrame"
    """The commit logs, with the report's ``reads`` and ``broker``."""
    polls: "DataFrame"
    """The poll journals, with the report's ``polls`` and ``broker``."""
    offsets: "Callable[[], DataFrame]"
    """How far each group is, as the broker has last stored it: OFFSETS. Made when it is called for."""
    topics: "Callable[[], DataFrame]"
    """The topics there are, with or without messages: TOPICS. Made when it is called for."""
    groups: "Callable[[], DataFrame]"
    """The consumer groups there are: GROUPS. Made when it is called for."""
    pop_retries: "Callable[[], DataFrame]"
    """The topics for retries of pop, with their groups and topics: POP_RETRIES. Made when it is called for."""
    bounds: tuple[int, ...] = ()
    """Where a period of time begins that has figures of its own, ms, ascending."""
    to_ms: int | None = None
    """Where the last of them ends."""
    brokers: int = 1
    """How many brokers there are."""
    of: "Callable[[Report], Inputs] | None" = None
    """The same as another report asks for it; None: all that any asks for is here."""
    read: "Callable[[dict[str, DataFrame], int, int], dict[str, DataFrame]] | None" = None
    """(facts, part, parts) -> the same, read now and kept: that part of all that a report reads by and by."""
    topic: str | None = None
    group: str | None = None
    """The topic and the group that the run is about, for facts that are no longer told apart by them."""


OFFSETS = "broker string, `group` string, topic string, queue_id int, offset long"
GROUPS = "broker string, `group` string"
POP_RETRIES = "broker string, topic string, pop_group string, pop_topic string"
TOPICS = "broker string, topic string, queues int"


class Table(NamedTuple):
    """A table of the result: computed of the facts named ``of``, with exactly this schema (DDL)."""

    of: str
    make: Callable[["DataFrame"], "DataFrame"]
    schema: str
    worst: str = ""
    """The column whose largest values come first; tables without one are ordered by time or by their columns."""
    across: bool = True
    """Whether it has rows for all brokers together, where there are several."""


class Figure(NamedTuple):
    """A figure that stands for the whole report, and which way it should go."""

    name: str
    label: str
    better: Literal["", "more", "less"] = ""
    of_journal: bool = False
    """Whether it is not known of a store without a poll journal."""
    report: str = ""
    """The report that tells more of it, if it is another one."""


class Chart(NamedTuple):
    """A picture of a table.

    ``time``: a line over ``minute_ts`` for each of ``y``; with ``split`` one for each of its values, and ``y`` is what
    may be looked at. ``stack``: the same, on top of each other. ``bars``: a bar for each value of ``split``.
    ``histogram``: a bar for each ``from_...`` to ``to_...``. ``choose``: a column, one of whose values is looked at.
    """

    kind: Literal["time", "stack", "histogram", "bars"]
    title: str
    table: str
    y: tuple[str, ...]
    split: tuple[str, ...] = ()
    choose: str = ""
    per_second: bool = False
    """What was counted is divided by the seconds of the step."""
    merge: Literal["sum", "max"] = "sum"
    """How rows that share a place in the picture become one."""


FiguresOf = Callable[..., "DataFrame"]
"""(facts, *keys) -> one row for each of the keys, with figures beside them; without keys one row in all."""


class Report(NamedTuple):
    """Everything about a report that its run needs. The rows of the first table are those of the summary."""

    reads: tuple[str, ...]
    """Columns of the commit log; empty when it does not read it."""
    polls: tuple[str, ...]
    """Columns of the poll journal; empty when it does not read it."""
    facts: Callable[[Inputs], dict[str, "DataFrame"]]
    tables: Mapping[str, Table]
    figures: Mapping[str, FiguresOf]
    """By the facts they are made of."""
    headlines: tuple[Figure, ...]
    charts: tuple[Chart, ...]
    looks_back: bool = False
    """Whether it needs the journal from before the window as well."""
    within_window: bool = False
    """Whether messages that were stored outside of the window are of no use to it."""
