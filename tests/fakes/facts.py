"""Facts of one group at one broker, for verdicts. By default one member consumes one queue to its end."""

from typing import Any

from broker_core import commands as c
from broker_core.verdicts.judge import judge
from broker_core.verdicts.verdict import Verdict, Verdicts

NOW_MS = 1_763_917_450_000
"""17:04:10 UTC."""


def queue(queue_id: int = 0, **fields: Any) -> c.GroupQueueView:
    """A queue with 100 messages, all consumed, on which java-1 has a held pull."""
    given: dict[str, Any] = {
        "topic": "orders",
        "queue_id": queue_id,
        "assigned_to": "java-1",
        "polled_by": "java-1",
        "polled_ms_ago": 2000,
        "state": "held",
        "offset": 100,
        "pull_offset": 100,
        "min_offset": 0,
        "max_offset": 100,
        "moved_ms_ago": 400_000,
    } | fields
    if given["offset"] is None:
        lag = None if given["max_offset"] > given["min_offset"] else 0
    else:
        lag = max(0, given["max_offset"] - given["offset"])
    return c.GroupQueueView(**({"lag": lag, "lag_ms": None if lag is None else 0 if not lag else 600_000} | given))


def client(client_id: str = "java-1", beat_ms_ago: int = 4000, **fields: Any) -> c.ClientView:
    given: dict[str, Any] = {
        "broker": "broker-a",
        "client_id": client_id,
        "protocol": "remoting",
        "remote": "ip:1",
        "language": "JAVA",
        "version": 493,
        "connected_at_ms": NOW_MS - 900_000,
        "last_heartbeat_ms": NOW_MS - beat_ms_ago,
        "producer_groups": [],
        "consumer_groups": ["g"],
        "holds": 1,
    }
    return c.ClientView(**(given | fields))


def subscription(topic: str = "orders", expression: str = "*") -> c.SubscriptionData:
    return c.SubscriptionData(topic=topic, sub_string=expression)


def retries(waiting: int = 0, due_ms: int | None = None, dead: int = 0, counted: bool = True) -> c.GroupRetries:
    return c.GroupRetries(
        broker="broker-a",
        waiting=waiting,
        next_due_ms=due_ms,
        counted=counted,
        dead_letter_topic="%DLQ%g",
        dead_letters=dead,
        dead_letters_from=0,
    )


def condition(**fields: Any) -> c.BrokerCondition:
    given: dict[str, Any] = {
        "broker": "broker-a",
        "up_ms": 900_000,
        "draining": False,
        "problem": "",
        "holds": 1,
        "max_holds": 100_000,
        "undispatched_bytes": 0,
    }
    return c.BrokerCondition(**(given | fields))


def facts(
    *queues: c.GroupQueueView, members: list[c.ClientView] | None = None, at: str = "broker-a", **fields: Any
) -> c.GroupFacts:
    """The facts of group ``g``; ``fields`` replace those of the detail or of the facts."""
    of_detail = {
        name: fields.pop(name) for name in c.ConsumerGroupDetail.__struct_fields__ if name in fields.keys() - {"broker"}
    }
    shown = list(queues or (queue(),))
    here = [client()] if members is None else members
    detail: dict[str, Any] = {
        "seq": 1,
        "broker": at,
        "group": "g",
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING" if here else "",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "members": here,
        "subscriptions": [subscription()],
        "queues": shown,
        "queues_total": len(shown),
        "missing_topics": [],
        "retries": retries(),
    }
    given: dict[str, Any] = {
        "detail": c.ConsumerGroupDetail(**(detail | of_detail)),
        "broker": condition(broker=at),
        "now_ms": NOW_MS,
        "consume_enable": True,
        "unreadable_topics": [],
        "changed_ms": NOW_MS - 800_000,
        "refused": [],
        "disagreements": [],
        "windows": [],
        "recent": [],
        "returned": c.ReturnedMessages(delivered=0, returned=0, window_ms=0),
        "delayed": [],
    }
    return c.GroupFacts(**(given | fields))


def window(
    client_id: str = "web-1", permits: int = 0, unacknowledged: int = 0, is_full: bool = False
) -> c.ClientWindow:
    own = c.ConsumerWindow(topic="orders", permits=permits, unacknowledged=unacknowledged, is_full=is_full)
    return c.ClientWindow(client_id=client_id, reported_ms=NOW_MS - 1000, window=own)


def recent(topic: str = "orders", expression: str = "TagX", **fields: Any) -> c.RecentMessages:
    given: dict[str, Any] = {
        "topic": topic,
        "expression": expression,
        "messages": 40,
        "passed": 0,
        "unreached": 0,
        "since_ms": NOW_MS - 600_000,
        "tags": [c.TagCount(tag="TagA", messages=20), c.TagCount(tag="TagB", messages=20)],
        "delivered": False,
    }
    return c.RecentMessages(**(given | fields))


def refusal(code: int = 24, count: int = 353, **fields: Any) -> c.RefusedPulls:
    given: dict[str, Any] = {
        "client_id": "java-1",
        "topic": "orders",
        "queue_id": 0,
        "code": code,
        "reason": "group g does not subscribe to topic orders",
        "count": count,
        "since_ms": NOW_MS - 600_000,
        "last_ms": NOW_MS - 1000,
    }
    return c.RefusedPulls(**(given | fields))


def verdicts(*one: c.GroupFacts, **more: Any) -> Verdicts:
    return judge(one, **more)


def first(*one: c.GroupFacts, **more: Any) -> tuple[str, str, str]:
    """(state, id, sentence) of the worst verdict."""
    answer = judge(one, **more)
    return answer.state, answer.verdicts[0].id, answer.verdicts[0].sentence


def found(answer: Verdicts, name: str) -> Verdict:
    return next(verdict for verdict in answer.verdicts if verdict.id == name)


def ids(answer: Verdicts) -> list[str]:
    return [verdict.id for verdict in answer.verdicts]
