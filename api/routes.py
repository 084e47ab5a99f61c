"""The route table: every resource of the API in one place. Requests are routed by it, the OpenAPI document is made
from it, and a test walks it.
"""

from typing import Any

from api import (
    broker,
    clients,
    events,
    groups,
    health,
    holds,
    lake,
    messages,
    metrics,
    offsets,
    openapi,
    pulls,
    report_schedules,
    reports,
    topics,
)
from api.http import Header, Route
from api.limits import MAX_REQUEST_BODY
from api.request import Answer, Params, Request
from api.schemas import (
    BrokerDetail,
    BrokerOptions,
    Brokers,
    Client,
    Clients,
    CommittedOffsets,
    FoundOffset,
    GroupDetail,
    GroupOffsets,
    Groups,
    Health,
    Holds,
    Messages,
    MessageView,
    OffsetsReset,
    OffsetsToCommit,
    Published,
    PublishMessage,
    PublishMessages,
    PullResult,
    Queues,
    ResetOffsets,
    SnapshotView,
    TimelineView,
    TopicConfig,
    Topics,
)
from bridge.port import commands

IDEMPOTENCY_KEY = Header("Idempotency-Key",
    "At most 128 printable ASCII characters; a repeat within idempotencyWindowMills is answered as the first was.")
PREFER = Header("Prefer", "`wait=N` (RFC 7240): wait N seconds where `wait_ms` is not given.")
LAST_EVENT_ID = Header("Last-Event-ID", "The id of the last event that was seen; the stream goes on behind it.")

QUEUE = "/api/v1/topics/{topic}/queues/{queue_id}"

_MESSAGES = (
    Route(method="POST", path="/api/v1/topics/{topic}/messages", handler=messages.publish, group="Messages",
        summary="Publish", params=messages.PublishParams, bodies=(PublishMessage, PublishMessages), raw_body=True,
        body_limit=MAX_REQUEST_BODY, response=Published, status=201, headers=(IDEMPOTENCY_KEY,),
        problems=(403, 404, 409, 413, 429, 504)),
    Route(method="GET", path=f"{QUEUE}/messages", handler=pulls.pull, group="Messages", summary="Pull, by long polling",
        params=pulls.PullParams, response=PullResult, headers=(PREFER,), problems=(403, 404, 429, 504)),
    Route(method="GET", path="/api/v1/messages", handler=messages.find_messages, group="Messages",
        summary="Find messages by key", params=messages.KeyParams, response=Messages, problems=(404, 504)),
    Route(method="GET", path="/api/v1/messages/{id}", handler=messages.get_message, group="Messages",
        summary="One message", params=messages.MessageParams, response=MessageView, problems=(404, 504)),
    Route(method="GET", path="/api/v1/messages/{id}/timeline", handler=messages.get_timeline, group="Messages",
        summary="What became of a message", params=messages.MessageParams, response=TimelineView, problems=(404, 504)),
)

_TOPICS = (
    Route(method="GET", path="/api/v1/topics", handler=topics.get_topics, group="Topics", summary="All topics",
        params=topics.TopicsParams, response=Topics, problems=(504,)),
    Route(method="GET", path="/api/v1/topics/{topic}", handler=topics.get_topic, group="Topics", summary="One topic",
        params=topics.TopicParams, response=commands.TopicView, problems=(404, 504)),
    Route(method="PUT", path="/api/v1/topics/{topic}", handler=topics.put_topic, group="Topics",
        summary="Create or change a topic", params=topics.TopicParams, bodies=(TopicConfig,),
        response=commands.TopicView, problems=(403, 409, 504)),
    Route(method="DELETE", path="/api/v1/topics/{topic}", handler=topics.delete_topic, group="Topics",
        summary="Delete a topic, its queues and its offsets", params=topics.TopicParams, status=204,
        problems=(403, 404, 504)),
    Route(method="GET", path="/api/v1/topics/{topic}/queues", handler=topics.get_queues, group="Topics",
        summary="Queues of a topic", params=topics.TopicParams, response=Queues, problems=(404, 504)),
    Route(method="GET", path="/api/v1/queues", handler=topics.get_queues, group="Topics",
        summary="Queues of all topics", params=topics.QueuesParams, response=Queues, problems=(404, 504)),
    Route(method="GET", path=f"{QUEUE}/offset", handler=topics.search_offset, group="Topics",
        summary="The offset at a time", params=topics.SearchParams, response=FoundOffset, problems=(404, 504)),
)

_GROUPS = (
    Route(method="GET", path="/api/v1/groups", handler=groups.get_groups, group="Groups", summary="All groups",
        response=Groups, problems=(504,)),
    Route(method="GET", path="/api/v1/groups/{group}", handler=groups.get_group, group="Groups",
        summary="One group: members, who has which queue, lag, held pulls", params=groups.GroupParams,
        response=GroupDetail, problems=(404, 504)),
    Route(method="DELETE", path="/api/v1/groups/{group}", handler=groups.delete_group, group="Groups",
        summary="Delete a group without members: its configuration and its offsets", params=groups.GroupParams,
        status=204, problems=(403, 404, 409, 504)),
    Route(method="GET", path="/api/v1/groups/{group}/offsets", handler=offsets.get_offsets, group="Groups",
        summary="Consumed offsets", params=offsets.GroupOffsetsParams, response=GroupOffsets, problems=(404, 504)),
    Route(method="PUT", path="/api/v1/groups/{group}/offsets", handler=offsets.put_offsets, group="Groups",
        summary="Commit offsets", params=offsets.GroupParams, bodies=(OffsetsToCommit,), body_limit=MAX_REQUEST_BODY,
        response=CommittedOffsets, problems=(403, 404, 413, 504)),
    Route(method="POST", path="/api/v1/groups/{group}/offsets/reset", handler=offsets.reset_offsets, group="Groups",
        summary="Reset offsets, or preview it", params=offsets.GroupParams, bodies=(ResetOffsets,),
        response=OffsetsReset, problems=(403, 404, 504)),
    Route(method="GET", path="/api/v1/clients", handler=clients.get_clients, group="Groups",
        summary="Clients that are connected", params=clients.ClientsParams, response=Clients, problems=(504,)),
    Route(method="GET", path="/api/v1/clients/{id}", handler=clients.get_client, group="Groups", summary="One client",
        params=clients.ClientParams, response=Client, problems=(404, 504)),
)

_OBSERVING = (
    Route(method="GET", path="/api/v1/holds", handler=holds.get_holds, group="Observing",
        summary="The pullRequestTable", params=holds.HoldsParams, response=Holds, problems=(504,)),
    Route(method="GET", path="/api/v1/holds/{id}", handler=holds.get_hold, group="Observing", summary="One held pull",
        params=holds.HoldParams, response=commands.HoldView, problems=(404, 504)),
    Route(method="GET", path="/api/v1/events", handler=events.stream_events, group="Observing",
        summary="Events as they happen (server-sent events)", params=events.EventsParams,
        response_type="text/event-stream", headers=(LAST_EVENT_ID,), streaming=True, problems=(504,)),
    Route(method="GET", path="/api/v1/snapshot", handler=broker.get_snapshot, group="Observing",
        summary="Everything at one moment", params=broker.SnapshotParams, response=SnapshotView, problems=(504,)),
)

_BROKER = (
    Route(method="GET", path="/api/v1/brokers", handler=broker.get_brokers, group="Broker", summary="All brokers",
        response=Brokers, problems=(504,)),
    Route(method="GET", path="/api/v1/broker", handler=broker.get_broker, group="Broker", summary="The broker",
        response=BrokerDetail, problems=(504,)),
    Route(method="GET", path="/api/v1/broker/config", handler=broker.get_config, group="Broker",
        summary="Its options", response=BrokerOptions, problems=(504,)),
    Route(method="PATCH", path="/api/v1/broker/config", handler=broker.patch_config, group="Broker",
        summary="Change options while it runs", bodies=(dict[str, Any],), response=BrokerOptions, problems=(504,)),
)

RUN = "/api/v1/reports/{name}/runs/{id}"
SCHEDULES = "/api/v1/reports/{name}/schedules"

_REPORTS = (
    Route(method="GET", path="/api/v1/reports", handler=reports.get_reports, group="Reports", summary="All reports",
        response=reports.Reports, needs_broker=False),
    Route(method="POST", path="/api/v1/reports/{name}/runs", handler=reports.post_run, group="Reports",
        summary="Run a report", params=reports.ReportParams, bodies=(reports.NewRun,), response=reports.RunView,
        status=202, problems=(404, 409), needs_broker=False),
    Route(method="GET", path="/api/v1/reports/{name}/runs", handler=reports.get_runs, group="Reports",
        summary="Runs of a report", params=reports.ReportParams, response=reports.Runs, problems=(404,),
        needs_broker=False),
    Route(method="GET", path=RUN, handler=reports.get_run, group="Reports", summary="One run and how far it is",
        params=reports.RunParams, response=reports.RunView, problems=(404,), needs_broker=False),
    Route(method="DELETE", path=RUN, handler=reports.delete_run, group="Reports",
        summary="Cancel a run, or remove one that has ended", params=reports.RunParams, response=reports.RunView,
        status=202, or_nothing=True, problems=(404,), needs_broker=False),
    Route(method="GET", path=f"{RUN}/log", handler=reports.get_log, group="Reports",
        summary="What was said during a run that did not end well", params=reports.RunParams,
        response_type="text/plain", streaming=True, problems=(404,), needs_broker=False),
    Route(method="GET", path=f"{RUN}/files/{{file}}", handler=reports.get_file, group="Reports",
        summary="A file of a run", params=reports.FileParams, response_type="application/octet-stream",
        streaming=True, problems=(404,), needs_broker=False),
    Route(method="GET", path=SCHEDULES, handler=report_schedules.get_schedules, group="Reports",
        summary="When a report runs by itself", params=reports.ReportParams, response=report_schedules.Schedules,
        problems=(404,), needs_broker=False),
    Route(method="POST", path=SCHEDULES, handler=report_schedules.post_schedule, group="Reports",
        summary="Have a report run by itself", params=reports.ReportParams, bodies=(report_schedules.NewSchedule,),
        response=reports.ScheduleView, status=201, problems=(404, 409), needs_broker=False),
    Route(method="PATCH", path=f"{SCHEDULES}/{{id}}", handler=report_schedules.patch_schedule, group="Reports",
        summary="Change when it does, or switch it off", params=report_schedules.ScheduleParams,
        bodies=(report_schedules.ChangedSchedule,), response=reports.ScheduleView, problems=(404, 409),
        needs_broker=False),
    Route(method="DELETE", path=f"{SCHEDULES}/{{id}}", handler=report_schedules.delete_schedule, group="Reports",
        summary="Remove a schedule", params=report_schedules.ScheduleParams, status=204, problems=(404,),
        needs_broker=False),
    Route(method="GET", path="/api/v1/lake", handler=lake.get_lake, group="Reports",
        summary="The lake, and how far it is", response=lake.LakeView, needs_broker=False),
    Route(method="POST", path="/api/v1/lake/sync", handler=lake.post_sync, group="Reports",
        summary="Fill the lake with what is new", bodies=(lake.NewSync,), body_optional=True, status=202,
        problems=(409, 503), needs_broker=False),
    Route(method="DELETE", path="/api/v1/lake/sync", handler=lake.delete_sync, group="Reports",
        summary="Cancel filling the lake", response=lake.LakeView, status=202, problems=(404,), needs_broker=False),
    Route(method="PATCH", path="/api/v1/lake/schedule", handler=lake.patch_schedule, group="Reports",
        summary="When the lake is filled by itself", bodies=(report_schedules.ChangedSchedule,),
        response=reports.ScheduleView, needs_broker=False),
)


async def _openapi(request: Request[Params]) -> Answer:
    return Answer(content=openapi.document(ROUTES), headers={"cache-control": "no-cache"})


_SERVICE = (
    Route(method="GET", path="/livez", handler=health.livez, group="Service", summary="Is this process alive",
        response=Health, needs_broker=False),
    Route(method="GET", path="/readyz", handler=health.readyz, group="Service", summary="Can a message be published",
        response=Health, problems=(504,)),
    Route(method="GET", path="/metrics", handler=metrics.metrics, group="Service", summary="Prometheus metrics",
        response_type="text/plain", needs_broker=False),
    Route(method="GET", path="/api/v1/openapi.json", handler=_openapi, group="Service", summary="This document",
        response=dict[str, Any], needs_broker=False),
    Route(method="GET", path="/api/docs", handler=openapi.docs_page, group="Service",
        summary="This document, to read and try", response_type="text/html", needs_broker=False),
)

ROUTES: tuple[Route, ...] = (*_MESSAGES, *_TOPICS, *_GROUPS, *_OBSERVING, *_BROKER, *_REPORTS, *_SERVICE)
