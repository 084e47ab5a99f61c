"""The tables in ``config/``: which is written next. RocketMQ's ConfigManagers, persisted by its scheduled tasks."""

from typing import TYPE_CHECKING, Any

from broker_core.clock import Now
from broker_core.processors.context import Context
from broker_core.processors.group_commit import DeletionCommit
from broker_core.processors.pop.check_point_log import note_progress
from broker_core.store.config_tables import TableWrite
from broker_core.store.schedule_message_service import DELAY_OFFSETS
from broker_core.store.timer.timer_message_store import TIMER_METRICS

if TYPE_CHECKING:
    from broker_core.consumers.message_request_mode_manager import MessageRequestModeManager
    from broker_core.consumers.subscription_group_manager import SubscriptionGroupManager

CONSUMER_FILTER = "consumerFilter"
FILTERS_INTERVAL_NS = 10_000_000_000
OFFSETS_A_TURN = 50_000
"""Consumed offsets copied in one turn for the next write of consumerOffset.json, or freed: about a millisecond."""


ORDER_INFOS = "consumerOrderInfo"


class TableWrites:
    """The writes of one engine. A changed table is written soon, those that change all the time at their intervals.

    Consumed offsets wait until the check points of what was popped are on the disk: else a power cut would keep the
    offset behind a message and lose the check point that gives it again.
    """

    def __init__(self, context: Context, deletions: DeletionCommit) -> None:
        self._context = context
        self._deletions = deletions
        self._next_offsets_write_ns = self._next_delayed_write_ns = self._next_timers_write_ns = 0
        self._next_orders_write_ns = 0
        self._next_filters_write_ns = 0
        self._offsets: dict[str, Any] | None = None
        self._offsets_need = 0
        self._tables: dict[str, SubscriptionGroupManager | MessageRequestModeManager] = {
            "subscriptionGroup": context.subscription_groups,
            "messageRequestMode": context.request_modes,
        }

    def next(self, now: Now) -> TableWrite | None:
        """The write that is due, if any."""
        context, offsets = self._context, self._context.offsets
        if context.topics.dirty:
            context.topics.dirty = False
            self._deletions.begin("topics")
            return context.store.table_write("topics", context.topics.as_table())
        table = self._next_table(now)
        if table is not None:
            return table
        is_due = offsets.urgent or now.mono_ns >= self._next_offsets_write_ns
        if self._offsets is None and offsets.dirty and not offsets.has_work and is_due:
            self._next_offsets_write_ns = now.mono_ns + context.options.flush_consumer_offset_interval * 1_000_000
            self._deletions.begin("consumerOffset")
            note_progress(context)
            offsets.begin_copy()
            offsets.work(OFFSETS_A_TURN)
        copy = offsets.take_copy()
        if copy is not None:
            self._offsets, self._offsets_need = copy, context.check_points.log_end
        if self._offsets is not None and self._offsets_need <= context.store.flushed_offset:
            copy, self._offsets = self._offsets, None
            return context.store.table_write("consumerOffset", copy)
        return self._next_of_delayed(now)

    def _next_of_delayed(self, now: Now) -> TableWrite | None:
        context = self._context
        if now.mono_ns >= self._next_delayed_write_ns:
            work = context.store.delayed.next_write(context.store.flushed_offset, now)
            if work is not None:
                self._next_delayed_write_ns = now.mono_ns + context.options.flush_delay_offset_interval * 1_000_000
                return work
        timers = context.store.timers
        if timers.counts.is_to_write and now.mono_ns >= self._next_timers_write_ns:
            self._next_timers_write_ns = now.mono_ns + context.options.flush_delay_offset_interval * 1_000_000
            return context.store.table_write(TIMER_METRICS, timers.metrics_table(now.wall_ms), suffix="")
        return None

    def _next_table(self, now: Now) -> TableWrite | None:
        context = self._context
        for name, table in self._tables.items():
            if table.dirty:
                table.dirty = False
                return context.store.table_write(name, table.as_table())
        orders = context.order_infos
        if orders.dirty and now.mono_ns >= self._next_orders_write_ns:
            orders.dirty = False
            self._next_orders_write_ns = now.mono_ns + context.options.flush_consumer_offset_interval * 1_000_000
            return context.store.table_write(ORDER_INFOS, orders.copy_table())
        if context.filters.dirty and now.mono_ns >= self._next_filters_write_ns:
            self._next_filters_write_ns = now.mono_ns + FILTERS_INTERVAL_NS
            context.filters.dirty = False
            return context.store.table_write(CONSUMER_FILTER, context.filters.as_table(now))
        return None

    def failed(self, work: TableWrite) -> None:
        """The table stays dirty, and is written again later."""
        context = self._context
        context.offsets.urgent |= work.name == "consumerOffset" and bool(context.deletions)
        context.topics.dirty |= work.name == "topics"
        context.filters.dirty |= work.name == CONSUMER_FILTER
        context.offsets.dirty |= work.name == "consumerOffset"
        context.order_infos.dirty |= work.name == ORDER_INFOS
        if work.name in self._tables:
            self._tables[work.name].dirty = True
        context.store.timers.counts.changed |= work.name == TIMER_METRICS
        if work.name == DELAY_OFFSETS:
            context.store.delayed.write_failed()

    def write_all(self) -> None:
        """Write the tables that are not the store's own, when the broker stops. OSError when the disk refuses."""
        context = self._context
        note_progress(context)
        write = context.store.table_write
        write("topics", context.topics.as_table()).run()
        write("subscriptionGroup", context.subscription_groups.as_table()).run()
        if context.request_modes.dirty:
            write("messageRequestMode", context.request_modes.as_table()).run()
        if context.order_infos.dirty:
            write(ORDER_INFOS, context.order_infos.copy_table()).run()
        write("consumerOffset", context.offsets.as_table()).run()
        if context.filters.dirty:
            write(CONSUMER_FILTER, context.filters.as_table(context.clock.now())).run()
        if context.store.timers.counts.is_to_write:
            table = context.store.timers.metrics_table(context.clock.now().wall_ms)
            write(TIMER_METRICS, table, suffix="").run()
