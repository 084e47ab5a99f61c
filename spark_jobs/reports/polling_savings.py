"""The report ``polling_savings``: what the same consumers would have asked for, and waited, by short polling.

Each pull is taken as it was, held for the time ``held``; a short poller that begins at the same moment asks at 0, i,
2i, ... instead, of the interval i:

    found messages that arrived after a = held - wake     1 + ceil(a / i) requests, given to it ceil(a / i) * i - a late
    found nothing                                         max(1, ceil(held / i)) requests
    timed out                                             the same of what was granted: held is some ms more
    was answered at once                                  1 request, the same

Long polling made one request and was late by ``wake``. Delays are compared over the holds in which an arrival's moment
is known; what was there already when it was asked for waits for nobody.

The requests of short polling are the most that it takes, because one answer may have what several pulls were held for.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import sampled, spread, spread_columns
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.spreads import bars_table, grouped, share, sums
from spark_jobs.reports.steps import MINUTE_MS, floored

POLLS = ("at_ms", "kind", "cause", "topic", "group", "messages", "held_us", "wake_us", "granted_ms")
KEYS = ("broker", "method", "topic", "group", "minute_ts")
LONG = "long polling"
INTERVALS_US = {"short polling, 1 s": 1_000_000, "short polling, 100 ms": 100_000}


def pulls(polls: DataFrame) -> DataFrame:
    """A row for each pull: how long it was held and meant to wait, whether and after how long messages arrived."""
    waited = "if(cause = 'timeout', granted_ms * 1000L, held)"
    return (
        polls.where("kind != 'committed'")
        .selectExpr("*", "messages > 0 AS found", "greatest(held_us, 0L) AS held")
        .selectExpr("*", f"{waited} AS waited", "if(found and kind = 'woken', bigint(wake_us), null) AS wake")
        .selectExpr("*", "greatest(held - coalesce(wake, 0L), 0L) AS arrived")
        .withColumn("minute_ts", floored(F.col("at_ms")))
    )


def asked(pulls: DataFrame) -> DataFrame:
    """A row for each pull and method: requests that it takes, and how late the messages are given (us), if known."""
    methods = [f"'{LONG}', 1L, wake, held"]
    for method, interval in INTERVALS_US.items():
        before, in_vain = (f"({us} + {interval - 1}) div {interval}" for us in ("arrived", "waited"))
        requests = f"if(found, {before} + 1, greatest({in_vain}, 1))"
        methods.append(f"'{method}', {requests}, if(wake is null, null, {before} * {interval} - arrived), 0L")
    rows = f"stack({len(methods)}, {', '.join(methods)}) AS (method, requests, delay, open)"
    return pulls.selectExpr("broker", "topic", "`group`", "minute_ts", rows)


def counted(asked: DataFrame) -> DataFrame:
    """Requests, samples of the delays, and the time that pulls were held open, by method, topic, group and minute."""
    return sampled(asked, *KEYS, value="delay", requests="sum(requests)", open_us="sum(open)")


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    return {"requests": inputs.polls.transform(pulls).transform(asked).transform(counted)}


def _by(*keys: str) -> Table:
    columns = (*keys, "method", "requests", "saved_requests", "saved_share", "samples", *spread_columns("us"))
    return Table("requests", lambda facts: savings(facts, "broker", *keys).select("broker", *columns), worst="requests")


def savings(facts: DataFrame, *keys: str) -> DataFrame:
    """Requests and delays by method. ``saved_requests``: how many more requests than long polling the method needs."""
    requests = sums(
        facts,
        *keys,
        "method",
        requests="sum(requests)",
        open_us="sum(open_us)",
        first_ts="min(minute_ts)",
        last_ts="max(minute_ts)",
    )
    beside = F.max(F.when(F.col("method") == LONG, F.col("requests"))).over(Window.partitionBy(*keys))
    saved = requests.withColumn("saved_requests", F.when(F.col("method") != LONG, F.col("requests") - beside))
    delays = spread(facts, *keys, "method", unit="us")
    return (
        saved.join(delays, [*keys, "method"], "left")
        .withColumn("samples", F.coalesce("samples", F.lit(0)))
        .withColumn("saved_share", F.expr(share("saved_requests", "requests")))
    )


def figures(facts: DataFrame, *keys: str) -> DataFrame:
    """Requests made and saved, what a hold costs (how many pulls lie open on average), and the usual delays."""

    def of(column: str, method: str) -> str:
        return f"max({column}) FILTER (WHERE method = '{method}')"

    short, shorter = INTERVALS_US
    return sums(
        savings(facts, *keys),
        *keys,
        requests=f"coalesce({of('requests', LONG)}, 0)",
        saved_requests_1s=f"coalesce({of('saved_requests', short)}, 0)",
        saved_requests_100ms=f"coalesce({of('saved_requests', shorter)}, 0)",
        open_pulls=f"round(sum(open_us) / 1000 / (max(last_ts) - min(first_ts) + {MINUTE_MS}), 2)",
        delay_p50_us=of("p50_us", LONG),
        delay_1s_p50_us=of("p50_us", short),
        delay_100ms_p50_us=of("p50_us", shorter),
    )


REPORT = Report(
    reads=(),
    polls=POLLS,
    facts=facts,
    tables={
        "by_topic": _by("topic"),
        "by_method": _by(),
        "by_group": _by("topic", "group"),
        "by_minute": grouped("requests", "minute_ts", "method", requests="sum(requests)", open_us="sum(open_us)"),
        "histogram": bars_table("requests", "method", unit="us"),
    },
    figures={"requests": figures},
    headlines=(
        Figure("requests", "Requests made"),
        Figure("saved_requests_1s", "Saved at most beside polling each second", "more"),
        Figure("saved_requests_100ms", "Saved at most beside polling each 100 ms", "more"),
        Figure("open_pulls", "Pulls held open on average"),
        Figure("delay_p50_us", "Half of the messages given within", "less"),
        Figure("delay_1s_p50_us", "By polling each second, within"),
        Figure("delay_100ms_p50_us", "By polling each 100 ms, within"),
    ),
    charts=(
        Chart("bars", "Requests that the same messages take", "by_method", ("requests",), split=("method",)),
        Chart("time", "Requests", "by_minute", ("requests",), split=("method",), per_second=True),
        Chart("histogram", "How late messages are given", "histogram", ("samples",), choose="method"),
    ),
)
