"""The channels of alerts over HTTP. URLs and secrets go in and never come out."""

from typing import Annotated

from msgspec import Meta, field

from alerts import catalogue, sending
from alerts.evaluation import Notice
from alerts.models import AlertChannel
from alerts.rules import MAX_NAME, MAX_RECIPIENTS, MAX_SECRET, MAX_URL, ChannelKind, Rule, host_of
from alerts.sending import SendError
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Model
from api.resources.alerts.rules import NumberParams, ask, change, fields_of
from bridge.port import ResponseCode, SystemClock

ChannelName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Url = Annotated[str, Meta(max_length=MAX_URL, description="Where messages are posted, https:// or http://. A secret.")]
Secret = Annotated[
    str,
    Meta(
        max_length=MAX_SECRET,
        description="Of a DingTalk or Feishu robot: what it signs with. Of a webhook: its bearer token.",
    ),
]
Recipients = Annotated[list[str], Meta(max_length=MAX_RECIPIENTS, description="The addresses of an e-mail.")]


class NewChannel(Body, frozen=True, kw_only=True, gc=False):
    """A new channel. An `email` channel has `recipients`, the others a `url` and perhaps a `secret`."""

    name: ChannelName
    kind: ChannelKind
    url: Url = ""
    secret: Secret = ""
    recipients: Recipients = field(default_factory=list)
    enabled: bool = True


class ChangedChannel(Body, frozen=True, kw_only=True, gc=False):
    """The changes of a channel; null leaves a field unchanged, also `url` and `secret`."""

    name: ChannelName | None = None
    url: Url | None = None
    secret: Secret | None = None
    recipients: Recipients | None = None
    enabled: bool | None = None


class NewTestMessage(Body, frozen=True, kw_only=True, gc=False):
    """A message that says that it is a test. It has no fields yet."""


class ChannelView(Model, frozen=True, kw_only=True, gc=False):
    """A channel. Of its URL only the `host` is shown, of its secret only that there is one.

    `sent_ms`: when a message was accepted last; `failed_ms`: when a try failed last. `error` is why, empty if a
    message was accepted since.
    """

    id: int
    name: str
    kind: ChannelKind
    host: str
    has_secret: bool
    recipients: list[str]
    enabled: bool
    sent_ms: int | None
    failed_ms: int | None
    error: str


class Channels(Model, frozen=True, kw_only=True, gc=False):
    channels: list[ChannelView]


def _view(row: AlertChannel) -> ChannelView:
    return ChannelView(
        id=row.pk,
        name=row.name,
        kind=row.kind,  # type: ignore[arg-type]  # the catalogue checked it
        host=host_of(row.url) if row.url else "",
        has_secret=bool(row.secret),
        recipients=row.recipients,
        enabled=row.enabled,
        sent_ms=row.sent_ms,
        failed_ms=row.failed_ms,
        error=row.error,
    )


def _view_of(number: int) -> ChannelView:
    return next(_view(row) for row in catalogue.channel_rows() if row.pk == number)


async def get_channels(request: Request[Params]) -> Answer:
    """All channels, oldest first, with what became of their last messages."""
    return Answer(body=Channels(channels=[_view(row) for row in await ask(catalogue.channel_rows)]))


async def post_channel(request: Request[Params]) -> Answer:
    """Adds a channel: 201. 409 if another one has its name."""
    fields = fields_of(request.body)
    view = await change(lambda: _view_of(catalogue.add_channel(**fields).id))
    return Answer(body=view, status=201, headers={"location": f"{CHANNELS}/{view.id}"})


async def patch_channel(request: Request[NumberParams]) -> Answer:
    """Changes a channel, or switches it on or off."""
    fields = fields_of(request.body)
    return Answer(body=await change(lambda: _view_of(catalogue.change_channel(request.params.id, **fields).id)))


async def delete_channel(request: Request[NumberParams]) -> Answer:
    """Removes the channel, also from the rules that use it."""
    await change(lambda: catalogue.remove_channel(request.params.id))
    return Answer(status=204)


async def send_test_message(request: Request[NumberParams]) -> Answer:
    """Sends a test message once, and waits for the answer: 204. 502 with the reason if it is not accepted."""
    channel = await ask(lambda: catalogue.find_channel(request.params.id))
    rule = Rule(id=0, name=channel.name, what="engine_down", severity="info")
    wall_ms = SystemClock().now().wall_ms
    try:
        await sending.send(channel, Notice(rule=rule, firing=(), resolved=(), wall_ms=wall_ms, is_test=True))
    except SendError as error:
        raise Problem(502, f"{error}", code=ResponseCode.SYSTEM_ERROR) from error
    return Answer(status=204)


CHANNELS = "/api/v1/alerts/channels"

ROUTES = (
    Route(
        method="GET",
        path=CHANNELS,
        handler=get_channels,
        group="Alerts",
        summary="Channels of alerts",
        response=Channels,
        needs_broker=False,
    ),
    Route(
        method="POST",
        path=CHANNELS,
        handler=post_channel,
        group="Alerts",
        summary="Add a channel",
        bodies=(NewChannel,),
        response=ChannelView,
        status=201,
        problems=(409,),
        needs_broker=False,
    ),
    Route(
        method="PATCH",
        path=f"{CHANNELS}/{{id}}",
        handler=patch_channel,
        group="Alerts",
        summary="Change a channel, or switch it on or off",
        params=NumberParams,
        bodies=(ChangedChannel,),
        response=ChannelView,
        problems=(404, 409),
        needs_broker=False,
    ),
    Route(
        method="DELETE",
        path=f"{CHANNELS}/{{id}}",
        handler=delete_channel,
        group="Alerts",
        summary="Delete a channel",
        params=NumberParams,
        status=204,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="POST",
        path=f"{CHANNELS}/{{id}}/test",
        handler=send_test_message,
        group="Alerts",
        summary="Send a test message",
        params=NumberParams,
        bodies=(NewTestMessage,),
        body_optional=True,
        status=204,
        problems=(404, 502),
        needs_broker=False,
    ),
)
