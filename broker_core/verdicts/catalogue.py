"""The situations in which a group can be. ``docs/verdicts.md`` is generated from this table."""

from typing import Any, NamedTuple

from broker_core.verdicts.verdict import Severity, Verdict


class Situation(NamedTuple):
    """``severities``: the worst first; ``when``: the condition; ``advice``: what to do."""

    id: str
    severities: tuple[Severity, ...]
    when: str
    advice: str

    def verdict(
        self, sentence: str, evidence: dict[str, Any], severity: Severity | None = None, advice: str = ""
    ) -> Verdict:
        """The group is in this situation. By default with its worst severity and its advice."""
        severity = severity or self.severities[0]
        assert severity in self.severities, f"{self.id} is never {severity}"
        return Verdict(
            id=self.id, severity=severity, sentence=sentence, evidence=evidence, advice=advice or self.advice
        )


_TABLE: tuple[Situation, ...] = (
    Situation(
        "broker_away",
        ("error",),
        "a broker of the cluster does not answer, so what the group does there is unknown",
        "Start the broker, or name one that answers with ?broker=.",
    ),
    Situation(
        "attached",
        ("info",),
        "the broker is a copy of one of another cluster, and RocketMQ does not report which pulls it holds",
        "Nothing. Judge by the lag and by the committed offsets.",
    ),
    Situation(
        "broker_draining",
        ("error",),
        "the broker is shutting down: it answers held pulls and refuses new ones",
        "Wait until the broker is back. Its clients reconnect by themselves.",
    ),
    Situation(
        "broker_refuses_messages",
        ("warning",),
        "the broker accepts no messages (its disk is full, a flush failed, its store is read-only)",
        "Remove the reason that the sentence states. Until then no new message can arrive.",
    ),
    Situation(
        "holds_used_up",
        ("warning",),
        "the limit of held pulls is reached, so further pulls are refused (FLOW_CONTROL)",
        "Raise the option maxHolds, or let fewer clients pull.",
    ),
    Situation(
        "engine_busy",
        ("warning",),
        "within the last 10 s commands waited 1 s or longer for their turn or its end, or 100 ms or longer in three "
        "different seconds, or were refused for that",
        "Look at the broker's processor, and who sends so much: the page of connections lists the clients.",
    ),
    Situation(
        "slaves_behind",
        ("warning",),
        "within the last 30 s the broker, a SYNC_MASTER, answered requests with FLUSH_SLAVE_TIMEOUT (12)",
        "Look at the broker's slaves: GET /api/v1/broker lists them. The messages are stored and can be consumed.",
    ),
    Situation(
        "flush_behind",
        ("warning",),
        "stored messages are not visible to consumers yet, because SYNC_FLUSH waits for the disk",
        "Look at the disk's latency. Messages become visible when they are on the disk.",
    ),
    Situation(
        "pulls_refused",
        ("error",),
        "the broker refused the newest pulls of a client; this ends with its next success, or a minute after the last "
        "refusal",
        "Remove the reason that the sentence states; the client pulls again by itself.",
    ),
    Situation(
        "no_member",
        ("error", "info"),
        "no client is a member of the group or pulls for it; an error if messages wait (also for another try), or if "
        "they may wait and the group has committed an offset",
        "Start a consumer of this group.",
    ),
    Situation(
        "may_not_consume",
        ("error",),
        "the group's consumeEnable is off, or a topic's perm does not contain 4 (read)",
        "Switch consumeEnable of the group on, or give the topic the perm 6.",
    ),
    Situation(
        "every_message_fails",
        ("error",),
        "each message that the group received came back: sent back, or not acknowledged before its lease was over",
        "Read the log of the listener: it throws, returns RECONSUME_LATER, sends a nack, or acknowledges too late.",
    ),
    Situation(
        "heartbeat_late",
        ("error", "warning"),
        "a member sent no heartbeat for 45 s; after 120 s it is removed and its queues go to others; "
        "a warning while nothing waits",
        "Look whether the client's process is stopped or swapped out, or its network is cut.",
    ),
    Situation(
        "listener_blocked",
        ("error",),
        "messages were handed to a client, and its committed offset has not moved for 30 s (`patience_ms`)",
        "Look at the client's threads: mqadmin consumerStatus -g GROUP -i CLIENT -s prints their stacks (request 307).",
    ),
    Situation(
        "not_acknowledged",
        ("error",),
        "messages were sent to a WebSocket consumer, or received with a lease, and none of them is acknowledged for "
        "30 s (`patience_ms`)",
        "Let the consumer send an ack for each message that it has consumed.",
    ),
    Situation(
        "no_permits",
        ("error", "warning"),
        "a WebSocket consumer has queues, but has given no permits; a warning while nothing waits",
        "Let the consumer send a permit frame: nothing is sent without permits.",
    ),
    Situation(
        "not_pulling",
        ("error", "warning"),
        "a queue is assigned to a member that does not pull from it; a warning while nothing waits",
        "Look whether the client called suspend(), waits for a slow listener, or uses another strategy of allocation.",
    ),
    Situation(
        "locked_by_another",
        ("error",),
        "the group consumes in order, and another client holds the lock of the queue",
        "Wait for the lock to expire (60 s after its last renewal), or stop its owner.",
    ),
    Situation(
        "stands_still",
        ("error",),
        "messages wait in a queue for more than 30 s (`patience_ms`) without a commit, and no other error explains it",
        "Read the log of the client that pulls from these queues. If no client does, start one that does.",
    ),
    Situation(
        "subscriptions_disagree",
        ("error",),
        "members of the group subscribe to different topics or filters",
        "Give all members of a group the same subscriptions, or use one group for each.",
    ),
    Situation(
        "filter_rejects_all",
        ("warning",),
        "none of the newest messages passed the filter, and the group received none since the broker started",
        "Compare the tags or properties that the producer sets with the subscription.",
    ),
    Situation(
        "topic_missing",
        ("warning",),
        "the group subscribes to a topic that does not exist",
        "Correct the name, create the topic, or send a first message to it if autoCreateTopicEnable is on.",
    ),
    Situation(
        "topic_not_subscribed",
        ("warning",),
        "messages wait in a topic to which no member of the group subscribes (any more)",
        "Subscribe to the topic, or delete the group's offsets of it.",
    ),
    Situation(
        "pulled_by_another",
        ("warning",),
        "a client pulls from a queue that is assigned to another member",
        "Give all members the same strategy of allocation.",
    ),
    Situation(
        "offset_deleted",
        ("warning",),
        "the committed offset is below the queue's min offset: messages were deleted before they were consumed; this "
        "ends when the group commits an offset that is not below it",
        "Raise fileReservedTime, or consume faster. The group continues with the oldest message that is left.",
    ),
    Situation(
        "offset_beyond_end",
        ("warning",),
        "the committed offset is above the queue's max offset, as after a restore of older files",
        "Reset the group's offset. Its next pull is moved to the queue's end.",
    ),
    Situation(
        "falling_behind",
        ("warning",),
        "the group consumes, but its lag grew by more than noise (16 messages, or a sixteenth) and has not shrunk",
        "Add members (up to one for each queue), or make the listener faster.",
    ),
    Situation(
        "some_messages_fail",
        ("warning",),
        "some of the group's messages came back: sent back, or not acknowledged before their lease was over",
        "Read the log of the listener. If it receives with a lease, let it acknowledge in time, or extend the lease.",
    ),
    Situation(
        "rebalancing",
        ("info",),
        "a member joined or left within the last 20 s, and a queue is not pulled yet",
        "Wait: clients share the queues within 20 s.",
    ),
    Situation(
        "catching_up",
        ("info",),
        "the group consumes messages that have waited for more than 30 s (`patience_ms`), and its lag does not grow",
        "Wait while the lag shrinks. If it stays the same, add members (up to one for each queue).",
    ),
    Situation(
        "consuming",
        ("info",),
        "messages arrived or were handed to a client a moment ago, and none of them is committed yet",
        "Wait for the next commit: Java clients commit every 5 s.",
    ),
    Situation(
        "retries_pending",
        ("info",),
        "messages that the group sent back wait for another try, or became dead letters",
        "Resend dead letters when their reason is gone.",
    ),
    Situation(
        "delayed_pending",
        ("info",),
        "producers delayed messages of a topic to which the group subscribes, and they are not due yet",
        "Wait until they are due.",
    ),
    Situation(
        "reset_pending",
        ("info",),
        "the group's offset was reset, and the client has not asked since",
        "Wait for the client's next pull.",
    ),
    Situation(
        "started_at_end",
        ("info",),
        "the group is new and started at the end of its queues, so it does not receive older messages",
        "Reset the offset to receive older messages.",
    ),
    Situation(
        "broadcasting",
        ("info",),
        "each member receives every message and keeps its own offsets, so the lag is unknown here",
        "Look at the members' offsets in the client (offsets.json).",
    ),
    Situation(
        "more_members_than_queues",
        ("info",),
        "a member has no queue, because a queue is consumed by one member at a time",
        "Give the topic more queues, or stop the members without a queue.",
    ),
    Situation(
        "pulled_by_non_members",
        ("info",),
        "clients that are not members pull or receive in the group's name, over HTTP or a WebSocket",
        "Nothing: such clients choose their queues themselves, or receive messages of all queues with a lease.",
    ),
    Situation(
        "lag_unknown",
        ("info",),
        "the group has committed no offset in a queue that has messages; or its queues or retries are not all counted",
        "Wait for the group's first commit there.",
    ),
    Situation(
        "ok",
        ("ok",),
        "the committed offset moved within the last 30 s (`patience_ms`), and no message waits longer",
        "Nothing.",
    ),
    Situation(
        "idle",
        ("ok",),
        "nothing waits: the group has consumed its queues to their ends, or they are empty",
        "Nothing. A new message is delivered at once where a pull is held.",
    ),
)

CATALOGUE: dict[str, Situation] = {situation.id: situation for situation in _TABLE}
"""By id, in the order in which verdicts of the same severity are listed."""

_OF_BROKERS = {
    "broker_away",
    "broker_draining",
    "broker_refuses_messages",
    "holds_used_up",
    "engine_busy",
    "slaves_behind",
    "flush_behind",
}

PROBLEMS: dict[str, tuple[Severity, ...]] = {
    name: tuple(severity for severity in one.severities if severity in ("error", "warning"))
    for name, one in CATALOGUE.items()
    if name not in _OF_BROKERS and {"error", "warning"} & set(one.severities)
}
"""The errors and warnings about a group itself, which lists of groups and alerts have, with their severities."""

RANKS: dict[str, int] = {name: rank for rank, name in enumerate(CATALOGUE)}
