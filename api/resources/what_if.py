"""The last minutes of a topic's pulls under other ways to poll."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import OptionalGroupName, TopicName
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Model, Unavailable
from api.http.threads import in_thread
from bridge.port import ResponseCode, SystemClock, commands, compare_polling, decode_pulls, waits_of

MINUTE_MS = 60_000


class WhatIfParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    minutes: Annotated[int, Meta(ge=1, le=60, description="How much of the past is replayed.")] = 5
    interval_ms: Annotated[int, Meta(ge=1, le=60_000, description="Between two requests of short polling.")] = 1000
    group: OptionalGroupName = ""


class PollingTotals(Model, frozen=True, kw_only=True, gc=False):
    """All waits under one method: requests, those answered without messages, and how late messages were given.

    The delays are those of `samples` waits in which the moment of the arrival is known; null without any. They
    are in microseconds, but the model behind them is coarser. Fewer than 20 are too few for percentiles:
    `delays_us` has each of them then, the smallest first, and is empty otherwise.
    """

    method: Literal["long_polling", "short_polling", "stock_rocketmq"]
    requests: int
    empty: int
    samples: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None
    delays_us: list[int]


class WhatIf(Model, frozen=True, kw_only=True, gc=False):
    """The same waits under three methods.

    `pulls` that ended between `from_ms` and `to_ms` made `waits`; `empty` of them were answered without messages. Not
    `complete`: there were more than 10,000, or more of the journal than is looked through.
    """

    topic: str
    from_ms: int
    to_ms: int
    interval_ms: int
    pulls: int
    empty: int
    waits: int
    complete: bool
    methods: list[PollingTotals]
    unavailable: Unavailable | UnsetType = UNSET


async def get_what_if(request: Request[WhatIfParams]) -> Answer:
    """Replays the waits of the topic's consumers: each from the first pull until messages came.

    Long polling is what happened; short polling asks again `interval_ms` after each answer without messages, and an
    answer has up to 32 messages; stock RocketMQ finds arrivals in rounds of 1 ms and ends holds at a check every 5 s.
    Messages arrive when they arrived, and an answer takes as long as it took. The pulls come from the poll journal,
    which is written every `pollJournalFlushInterval`. Pulls that ended after `to_ms` may be missing.
    """
    params = request.params
    to_ms = SystemClock().now().wall_ms
    from_ms = to_ms - params.minutes * MINUTE_MS
    command = commands.GetPulls(topic=params.topic, group=params.group, since_ms=from_ms)
    replies = await brokers.ask_all(params.broker, command, commands.Pulls)
    kept = [reply for reply in replies.by_broker.values() if reply.journal]
    if not kept:
        raise Problem(
            409,
            "the broker keeps no poll journal, which has the ends of pulls: it is attached or read-only, or "
            "pollJournalEnable is off",
            code=ResponseCode.ILLEGAL_OPERATION,
        )

    def work() -> WhatIf:
        pulls = [decode_pulls(reply.strings, reply.entries) for reply in kept]
        consumers = [waits for of_broker in pulls for waits in waits_of(of_broker)]
        times = [pull.at_ms for of_broker in pulls for pull in of_broker]
        complete = all(reply.complete for reply in kept)
        return WhatIf(
            topic=params.topic,
            from_ms=min(times, default=from_ms) if not complete else from_ms,
            to_ms=max(times, default=to_ms) if not complete else min(reply.written_ms for reply in kept),
            interval_ms=params.interval_ms,
            pulls=len(times),
            empty=sum(pull.messages <= 0 for of_broker in pulls for pull in of_broker),
            waits=sum(map(len, consumers)),
            complete=complete,
            methods=[PollingTotals(**totals._asdict()) for totals in compare_polling(consumers, params.interval_ms)],
            unavailable=replies.missing,
        )

    return Answer(body=await in_thread(work))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/topics/{topic}/what-if",
        handler=get_what_if,
        group="Topics",
        summary="The last minutes under other ways to poll",
        params=WhatIfParams,
        response=WhatIf,
        problems=(404, 409, 504),
    ),
)
