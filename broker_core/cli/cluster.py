"""``glassmq topics``, ``groups``, ``lag`` and ``reset-offset``: by RocketMQ's protocol, so on any cluster."""

from typing import Any

import click

from broker_core.cli.consume import read_time_ms
from broker_core.cli.default_mq_admin_ext import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    DefaultMQAdminExt,
    OffsetWrapper,
)
from broker_core.cli.errors import NOT_FOUND, UNREACHABLE, CommandError
from broker_core.cli.output import local_time, number, print_json, print_line, print_table
from broker_core.cli.target import Command, Target, pass_target
from broker_core.client import MQBrokerException
from broker_core.codes import ResponseCode
from broker_core.commands import MessageQueue

END_OF_QUEUE = -1
"""The time by which RESET_OFFSET means the end of a queue."""


@click.command(cls=Command)
@click.option("--all", "with_system", is_flag=True, help="Show retry topics, dead letters and RocketMQ's own too.")
@pass_target
def topics(target: Target, with_system: bool) -> None:
    """List the topics with their queues and stored messages."""

    async def work(admin: DefaultMQAdminExt) -> dict[str, Any]:
        names = await admin.fetch_all_topic_list()
        if not with_system:
            system = await admin.system_topics()
            names = [name for name in names if name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]

        async def describe(topic: str) -> dict[str, Any]:
            queues = await admin.examine_topic_stats(topic)
            return {
                "topic": topic,
                "brokers": sorted({queue.broker_name for queue in queues}),
                "queues": len(queues),
                "messages": sum(ends.max_offset - ends.min_offset for ends in queues.values()),
                "last_store_time_ms": max((ends.last_update_timestamp for ends in queues.values()), default=0) or None,
            }

        return {"topics": await admin.gather(describe, names), "unavailable": sorted(admin.unavailable)}

    answer = target.run_admin(work)
    if target.as_json:
        print_json(answer)
        return
    print_table(
        ("TOPIC", "BROKERS", "#QUEUES", "#MESSAGES", "LAST STORED"),
        (
            (
                row["topic"],
                ", ".join(row["brokers"]),
                number(row["queues"]),
                number(row["messages"]),
                local_time(row["last_store_time_ms"]),
            )
            for row in answer["topics"]
        ),
    )


@click.command(cls=Command)
@pass_target
def groups(target: Target) -> None:
    """List the consumer groups with their members and lag."""

    async def work(admin: DefaultMQAdminExt) -> dict[str, Any]:
        async def describe(group: str) -> dict[str, Any]:
            queues = await consumed_queues(admin, group)
            members = await admin.examine_consumer_connection_info(group)
            return {
                "group": group,
                "members": len(members.connection_set) if members else 0,
                "topics": sorted({queue.topic for queue in queues if not queue.topic.startswith(RETRY_PREFIX)}),
                "lag": known_lag(queues),
                "queues_without_offset": without_offset(queues),
            }

        rows = await admin.gather(describe, await admin.consumer_groups())
        return {"groups": rows, "unavailable": sorted(admin.unavailable)}

    answer = target.run_admin(work)
    if target.as_json:
        print_json(answer)
        return
    rows = answer["groups"]
    print_table(
        ("GROUP", "#MEMBERS", "#LAG", "TOPICS"),
        ((row["group"], number(row["members"]), number(row["lag"]), ", ".join(row["topics"])) for row in rows),
    )
    if missing := sum(row["queues_without_offset"] for row in rows):
        print_line(
            f"The lag is without {missing} queue{'' if missing == 1 else 's'} in which nothing is committed; "
            "glassmq lag GROUP lists them."
        )


async def consumed_queues(admin: DefaultMQAdminExt, group: str) -> dict[MessageQueue, OffsetWrapper]:
    """The group in all queues of its topics, sorted. A broker reports no queue of a topic unless the group is there."""
    queues = await admin.examine_consume_stats(group)
    for topic in sorted({queue.topic for queue in queues if not queue.topic.startswith(RETRY_PREFIX)}):
        try:
            ends = await admin.examine_topic_stats(topic)
        except MQBrokerException as error:
            if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            continue  # it was deleted, and its offsets were not
        for queue, end in ends.items():
            queues.setdefault(queue, OffsetWrapper(end.max_offset, -1))
    return dict(sorted(queues.items(), key=lambda item: (item[0].topic, item[0].broker_name, item[0].queue_id)))


def without_offset(queues: dict[MessageQueue, OffsetWrapper]) -> int:
    """In how many queues nothing is committed."""
    return sum(offsets.lag is None for offsets in queues.values())


def known_lag(queues: dict[MessageQueue, OffsetWrapper]) -> int | None:
    """The lag in all queues with a committed offset; None if there is none."""
    known = [offsets.lag for offsets in queues.values() if offsets.lag is not None]
    return sum(known) if known else None


@click.command(cls=Command)
@click.argument("group")
@pass_target
def lag(target: Target, group: str) -> None:
    """Show how far a group is behind in each queue: the messages after its committed offset."""

    async def work(admin: DefaultMQAdminExt) -> dict[str, Any]:
        queues = await consumed_queues(admin, group)
        members = await admin.examine_consumer_connection_info(group)
        if not queues and members is None:
            raise CommandError(f"no broker knows a group {group!r} with offsets or members", NOT_FOUND)
        return {
            "group": group,
            "lag": known_lag(queues),
            "members": [member.client_id for member in members.connection_set] if members else [],
            "queues": [
                {
                    "topic": queue.topic,
                    "broker": queue.broker_name,
                    "queue_id": queue.queue_id,
                    "offset": offsets.consumer_offset if offsets.consumer_offset >= 0 else None,
                    "max_offset": offsets.broker_offset,
                    "lag": offsets.lag,
                    "last_consumed_time_ms": offsets.last_timestamp or None,
                }
                for queue, offsets in queues.items()
            ],
            "queues_without_offset": without_offset(queues),
            "unavailable": sorted(admin.unavailable),
        }

    answer = target.run_admin(work)
    if target.as_json:
        print_json(answer)
        return
    members = len(answer["members"])
    print_table(
        ("TOPIC", "BROKER", "#QUEUE", "#COMMITTED", "#END", "#LAG", "LAST CONSUMED WAS STORED"),
        (
            (
                queue["topic"],
                queue["broker"],
                queue["queue_id"],
                number(queue["offset"]),
                number(queue["max_offset"]),
                number(queue["lag"]),
                local_time(queue["last_consumed_time_ms"]),
            )
            for queue in answer["queues"]
        ),
    )
    missing = answer["queues_without_offset"]
    note = f", without {missing} queue{'' if missing == 1 else 's'} in which nothing is committed" if missing else ""
    print_line(f"lag {number(answer['lag'])}{note}, {members} member{'' if members == 1 else 's'}")


@click.command("reset-offset", cls=Command)
@click.argument("group")
@click.argument("topic")
@click.option("--to", required=True, metavar="first|last|TIME", help="Where the group continues.")
@click.option("--yes", is_flag=True, help="Reset the offsets. Without this, only the preview is printed.")
@pass_target
def reset_offset(target: Target, group: str, topic: str, to: str, yes: bool) -> None:
    """Preview how a group's offsets in TOPIC would move; with --yes, move them.

    "again" counts messages that will be delivered once more, "skipped" those that will not be delivered.
    """
    timestamp_ms = {"first": 0, "last": END_OF_QUEUE}.get(to)
    if timestamp_ms is None:
        timestamp_ms = read_time_ms(to)

    async def work(admin: DefaultMQAdminExt) -> dict[str, Any]:
        changes = await preview_reset(admin, group, topic, timestamp_ms)
        has_members = await admin.examine_consumer_connection_info(group) is not None
        if yes and admin.unavailable:
            raise CommandError(f"nothing was reset: {'; '.join(admin.unavailable.values())}", UNREACHABLE)
        if yes:
            await apply_reset(admin, group, topic, timestamp_ms, changes, has_members=has_members)
        return {
            "group": group,
            "topic": topic,
            "dry_run": not yes,
            "changes": changes,
            "unavailable": sorted(admin.unavailable),
        }

    answer = target.run_admin(work)
    if target.as_json:
        print_json(answer)
        return
    print_table(
        ("BROKER", "#QUEUE", "#BEFORE", "#AFTER", "#AGAIN", "#SKIPPED"),
        (
            (row["broker"], row["queue_id"], *(number(row[name]) for name in ("before", "after", "again", "skipped")))
            for row in answer["changes"]
        ),
    )
    print_line("The offsets were reset." if yes else "Nothing was changed. Add --yes to reset the offsets.")


async def preview_reset(admin: DefaultMQAdminExt, group: str, topic: str, timestamp_ms: int) -> list[dict[str, Any]]:
    """What a reset to the time would do in each queue. Offsets that are not known are None.

    CommandError for a group that has never consumed from the topic.
    """
    stats = await admin.examine_consume_stats(group)
    committed = {queue: offsets for queue, offsets in stats.items() if queue.topic == topic}
    masters = await admin.topic_masters(topic)
    if not committed and await admin.examine_consumer_connection_info(group) is None:
        raise CommandError(f"no broker knows a group {group!r} that consumes {topic!r}", NOT_FOUND)

    async def change(queue: MessageQueue) -> dict[str, Any]:
        address = masters[queue.broker_name]
        if timestamp_ms == END_OF_QUEUE:
            after = await admin.max_offset(address, queue)
        elif timestamp_ms == 0:
            after = await admin.min_offset(address, queue)
        else:
            after = await admin.search_offset(address, queue, timestamp_ms)
        before = committed[queue].consumer_offset if queue in committed else -1
        return {
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "before": before if before >= 0 else None,
            "after": after,
            "again": max(0, before - after) if before >= 0 else None,
            "skipped": max(0, after - before) if before >= 0 else None,
        }

    return await admin.gather(change, await admin.examine_topic_stats(topic))


async def apply_reset(
    admin: DefaultMQAdminExt,
    group: str,
    topic: str,
    timestamp_ms: int,
    changes: list[dict[str, Any]],
    *,
    has_members: bool,
) -> None:
    """Reset a group. Brokers tell its members, which would otherwise commit their old offsets again."""
    masters = await admin.topic_masters(topic)
    if has_members:
        for address in masters.values():
            await admin.reset_offset_by_timestamp(address, topic, group, timestamp_ms)
        return
    for row in changes:
        queue = MessageQueue(topic=topic, broker_name=row["broker"], queue_id=row["queue_id"])
        await admin.update_consumer_offset(masters[queue.broker_name], group, queue, row["after"])
