"""Groups, members and connections of the simulated broker: API answers and events."""

import time
from typing import Any

import msgspec

from broker_core import commands as c
from broker_core.verdicts.judge import judge

Json = dict[str, Any]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def client(client_id: str, **fields: Any) -> Json:
    """One connection; ``heartbeat_s`` and ``connected_s`` are ages."""
    now = wall_ms()
    beat, connected = fields.pop("heartbeat_s", 4), fields.pop("connected_s", 3700)
    return {
        "broker": "broker-a",
        "client_id": client_id,
        "protocol": "remoting",
        "remote": "10.0.4.17:50112",
        "language": "JAVA",
        "version": "5.4.0",
        "connected_at_ms": str(now - 1000 * connected),
        "last_heartbeat_ms": None if beat is None else str(now - 1000 * beat),
        "producer_groups": [],
        "consumer_groups": [],
        "holds": 1,
    } | fields


def queue(topic: str, queue_id: int, owner: str | None, **fields: Any) -> Json:
    """One queue of a group; by default its owner has a pull held at its end."""
    end, by = fields.get("max_offset", 1204), fields.get("polled_by", owner)
    view = {
        "broker": "broker-a",
        "topic": topic,
        "queue_id": queue_id,
        "assigned_to": owner,
        "polled_by": owner,
        "polled_ms_ago": 2300,
        "state": "held",
        "why": f"{by} waits at offset {end}, the queue's end",
        "offset": end,
        "pull_offset": end,
        "min_offset": 0,
        "max_offset": end,
        "locked_by": None,
    } | fields
    lag = None if view["offset"] is None else view["max_offset"] - view["offset"]
    view |= {"lag": lag, "lag_ms": fields.get("lag_ms", 0 if lag == 0 else None)}
    numbers = ("offset", "pull_offset", "min_offset", "max_offset", "lag", "lag_ms", "polled_ms_ago")
    return view | {name: None if view[name] is None else str(view[name]) for name in numbers}


def hold(topic: str, queue_id: int, group: str, client_id: str, held_s: float = 3) -> Json:
    now = wall_ms()
    return {
        "broker": "broker-a",
        "id": 1 + queue_id,
        "topic": topic,
        "queue_id": queue_id,
        "group": group,
        "client_id": client_id,
        "protocol": "remoting",
        "pull_from_offset": "1204",
        "queue_max_offset": "1204",
        "suspended_at_ms": str(now - int(1000 * held_s)),
        "deadline_ms": str(now + 9000),
        "filter": "*",
    }


def detail(group: str, members: list[Json], queues: list[Json], **fields: Any) -> Json:
    """The answer of /groups/{group}."""
    shares: dict[str, list[Json]] = {member["client_id"]: [] for member in members}
    for entry in queues:
        if entry["assigned_to"] in shares:
            shares[entry["assigned_to"]].append({name: entry[name] for name in ("broker", "topic", "queue_id")})
    topics = sorted({entry["topic"] for entry in queues})
    lags = [int(entry["lag"]) for entry in queues if entry["lag"] is not None]
    held = [
        hold(entry["topic"], entry["queue_id"], group, entry["polled_by"])
        for entry in queues
        if entry["state"] == "held"
    ]
    return {
        "broker": "broker-a",
        "group": group,
        "seq": "1",
        "topics": topics,
        "lag": None if lags == [] else str(sum(lags)),
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING" if members else "",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET" if members else "",
        "members": members,
        "subscriptions": [
            {"topic": topic, "sub_string": "*", "expression_type": "TAG", "sub_version": "1"} for topic in topics
        ]
        if members
        else [],
        "assignment": [{"client_id": owner, "queues": share} for owner, share in shares.items()],
        "queues": queues,
        "queues_total": len(queues),
        "offsets": [],
        "holds": held,
        "missing_topics": [],
        "retries": [retries(group)],
    } | fields


def retries(
    group: str, waiting: int = 0, due_s: float | None = None, dead_letters: int = 0, broker: str = "broker-a"
) -> Json:
    """Retries and dead letters of a group; the next retry is due in ``due_s``."""
    return {
        "broker": broker,
        "waiting": waiting,
        "counted": True,
        "dead_letters": str(dead_letters),
        "next_due_ms": None if due_s is None else str(wall_ms() + int(1000 * due_s)),
        "dead_letter_topic": f"%DLQ%{group}",
        "dead_letters_from": "0",
    }


def events(*entries: Json) -> list[Json]:
    """Events as the broker numbers them, some seconds apart."""
    now = wall_ms()
    return [
        {"seq": number, "wall_ms": now - 7000 * (len(entries) - number), "mono_ns": 1} | entry
        for number, entry in enumerate(entries)
    ]


def facts(entry: Json) -> c.GroupFacts:
    """What the engine would know about the group of a detail, so that its verdicts are the server's own."""
    members = [member | {"version": 0} for member in entry["members"]]
    of_detail = entry | {"t": "ConsumerGroupDetail", "members": members, "retries": entry["retries"][0]}
    condition = c.BrokerCondition(
        broker="broker-a", up_ms=1, draining=False, problem="", holds=1, max_holds=9, undispatched_bytes=0
    )
    return c.GroupFacts(
        detail=msgspec.convert(of_detail, type=c.ConsumerGroupDetail, strict=False),
        broker=condition,
        now_ms=wall_ms(),
        consume_enable=True,
        unreadable_topics=[],
        changed_ms=None,
        refused=[],
        disagreements=[],
        windows=[],
        recent=[],
        returned=c.ReturnedMessages(delivered=0, returned=0, window_ms=0),
        delayed=[],
    )


def verdicts(entry: Json) -> Json:
    """The answer of /groups/{group}/verdicts."""
    answer: Json = msgspec.to_builtins(judge([facts(entry)]))
    return answer


def problems(answer: Json) -> Json:
    """What the list of groups says of these verdicts."""
    found = [one for one in answer["verdicts"] if one["severity"] in ("error", "warning")]
    return {
        "severity": found[0]["severity"] if found else None,
        "problems": list(dict.fromkeys(one["id"] for one in found)),
    }


class FakeGroups:
    """What ``/groups``, ``/groups/{group}`` and ``/clients`` answer in a scenario."""

    def __init__(self, details: list[Json], others: list[Json], happened: list[Json]) -> None:
        self.details = {entry["group"]: entry for entry in details}
        self.others = others
        self.events = happened
        self.failing = ""

    def groups(self, brokers: list[str]) -> Json:
        """The same answers for each broker."""
        return {
            "seq": "1",
            "groups": [
                {
                    "broker": broker,
                    "group": name,
                    "lag": entry["lag"],
                    "holds": len(entry["holds"]),
                    "topics": entry["topics"],
                    "members": len(entry["members"]),
                    "message_model": entry["message_model"],
                    "state": verdicts(entry)["state"],
                    "unknown_queues": sum(queue["lag"] is None for queue in entry["queues"]),
                    "oldest_ms": max((int(q["lag_ms"]) for q in entry["queues"] if q["lag_ms"]), default=0) or None,
                    "consume_tps": 12.5 if entry["members"] else 0.0,
                    "retrying": sum(retry["waiting"] for retry in entry["retries"]),
                    "dead_letters": str(sum(int(retry["dead_letters"]) for retry in entry["retries"])),
                    **problems(verdicts(entry)),
                }
                for broker in brokers
                for name, entry in sorted(self.details.items())
            ],
        }

    def clients(self) -> Json:
        found = {member["client_id"]: member for entry in self.details.values() for member in entry["members"]}
        for name, entry in self.details.items():
            for member in entry["members"]:
                found[member["client_id"]]["consumer_groups"] = sorted({*member["consumer_groups"], name})
        every = [*found.values(), *self.others]
        return {"seq": "1", "total": len(every), "clients": every}


JAVA = ["10.0.4.17@8812#2804798893962", "10.0.4.18@911#2804798911004"]


def empty() -> FakeGroups:
    return FakeGroups([], [], [])


def busy() -> FakeGroups:
    """Groups without problems, and one member without a queue."""
    java = [client(name) for name in JAVA]
    go = client("10.0.4.21@731", language="GO", version="4.5.2", remote="10.0.4.21:41002")
    web = client("billing-dashboard", protocol="websocket", language="HTTP", version="", remote="10.0.4.40:51877")
    orders = [queue("orders", number, [*JAVA, "10.0.4.21@731"][number]) for number in range(3)]
    orders[1] |= {"offset": "1180", "pull_offset": "1204", "lag": "24", "lag_ms": "3100"}
    packages = [queue("debian-packages", number, "mirror-1", max_offset=18_200 + number) for number in range(4)]
    details = [
        detail(
            "billing",
            [*java, go, web],
            [queue("%RETRY%billing", 0, JAVA[0], max_offset=0), *orders],
            subscriptions=[
                {"topic": "orders", "sub_string": "TagA || TagB", "expression_type": "TAG", "sub_version": "1"}
            ],
        ),
        detail("mirror-sync", [client("mirror-1", language="GO", version="4.5.2")], packages),
        detail(
            "audit",
            [],
            [
                queue(
                    "orders",
                    number,
                    None,
                    state="unassigned",
                    polled_by=None,
                    polled_ms_ago=None,
                    why="the group has no member",
                    offset=900,
                    pull_offset=None,
                    lag_ms=5_400_000,
                )
                for number in range(3)
            ],
        ),
        detail("page-consumer", [], [queue("quickstart", 0, None, polled_by="page-1x", offset=None)]),
    ]
    others = [
        client("producer-eu-1", producer_groups=["orders-producer", "CLIENT_INNER_PRODUCER"], holds=0),
        client("", language="", version="", heartbeat_s=None, connected_s=2, holds=0),
        client("page-1x", protocol="websocket", language="", version="", heartbeat_s=None),
    ]
    happened = events(
        {"type": "client_connected", "client_id": "", "protocol": "remoting", "remote": "10.0.4.17:50112"},
        {
            "type": "client_identified",
            "client_id": JAVA[0],
            "protocol": "remoting",
            "remote": "10.0.4.17:50112",
            "language": "JAVA",
            "version": 493,
        },
        {
            "type": "group_member_joined",
            "group": "billing",
            "client_id": JAVA[0],
            "protocol": "remoting",
            "remote": "10.0.4.17:50112",
            "members": 4,
        },
        {
            "type": "subscription_changed",
            "group": "billing",
            "topic": "orders",
            "client_id": JAVA[0],
            "expression": "TagA || TagB",
            "previous": "TagA",
        },
        {"type": "consumer_ids_notified", "group": "billing", "cause": "joined", "members": 4},
        {
            "type": "queue_taken",
            "group": "billing",
            "topic": "orders",
            "queue_id": 0,
            "client_id": JAVA[0],
            "previous": JAVA[1],
        },
        {"type": "queue_locked", "group": "audit", "topic": "orders", "queue_id": 2, "client_id": "audit-7f3c"},
        {"type": "offset_reset", "group": "audit", "topic": "orders", "queue_id": 2, "offset": 900, "previous": 1100},
        {"type": "group_member_left", "group": "audit", "client_id": "audit-7f3c", "cause": "expired", "members": 0},
    )
    return FakeGroups(details, others, happened)


def broken() -> FakeGroups:
    """A group with every kind of problem."""
    late = client(JAVA[0], heartbeat_s=77, holds=0)
    well, idle = client(JAVA[1]), client("zz-spare", protocol="websocket", language="HTTP", version="", holds=0)
    stuck = {
        "state": "not_polling",
        "polled_ms_ago": 45_000,
        "offset": 1100,
        "pull_offset": 1140,
        "lag_ms": 61_000,
        "why": f"{JAVA[0]} has sent no heartbeat for 1 min 17 s: its process is frozen or its network is cut",
    }
    queues = [
        queue("orders", 0, JAVA[0], **stuck),
        queue("orders", 1, JAVA[0], **stuck),
        queue("orders", 2, JAVA[1], offset=None, pull_offset=1204),
        queue(
            "orders",
            3,
            JAVA[1],
            polled_by="zz-spare",
            polled_ms_ago=400,
            locked_by="zz-spare",
            why="zz-spare waits at offset 1204, the queue's end",
        ),
        queue(
            "old-orders",
            0,
            None,
            state="unassigned",
            why="no member subscribes to the topic",
            polled_by="gone-1",
            polled_ms_ago=900_000,
            offset=10,
            max_offset=60,
            lag_ms=86_400_000,
        ),
    ]
    happened = [
        *busy().events,
        *events(
            {
                "type": "message_sent_back",
                "group": "billing",
                "topic": "orders",
                "message_id": "0A00000100002A9F0000",
                "reconsume_times": 1,
                "delay_level": 3,
                "physical_offset": 4711,
            },
            {
                "type": "message_dead_lettered",
                "group": "billing",
                "topic": "orders",
                "message_id": "0A00000100002A9F0001",
                "reconsume_times": 16,
                "reason": "exhausted",
                "physical_offset": 4712,
            },
        ),
    ]
    happened = [entry | {"seq": number} for number, entry in enumerate(happened)]
    return FakeGroups(
        [
            detail(
                "billing", [late, well, idle], queues, missing_topics=["oders"], retries=[retries("billing", 3, 75, 2)]
            )
        ],
        [],
        happened,
    )


def hostile(text: str) -> FakeGroups:
    """Names that are markup."""
    member = client(text, remote=text, language=text, version=text)
    one = queue(text, 0, text, why=text)
    happened = events(
        {
            "type": "group_member_joined",
            "group": text,
            "client_id": text,
            "protocol": "remoting",
            "remote": text,
            "members": 1,
        },
        {"type": text},
    )
    return FakeGroups([detail(text, [member], [one])], [client(text, producer_groups=[text])], happened)
