"""The options that all commands share: which cluster they talk to, and how they print."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt
from broker_core.cli.errors import client_errors, no_server
from broker_core.cli.glassmq_api import GlassmqApi
from broker_core.client import MQClientException
from broker_core.client.client_config import check_group
from broker_core.client.mq_client_api import parse_address
from broker_core.errors import RequestError
from broker_core.topics import validate_topic

T = TypeVar("T")
NAMESRV, URL = "127.0.0.1:9876", "http://127.0.0.1:8000"


class Target:
    """Where a command works, and whether it prints JSON. Shared options may stand before or after the command."""

    def __init__(self) -> None:
        self.namesrv = NAMESRV
        self.url = URL
        self.token = ""
        self.as_json = False

    @property
    def api(self) -> GlassmqApi:
        """GlassMQ's HTTP API at ``url``."""
        return GlassmqApi(self.url, self.token)

    def run_admin(self, work: Callable[[DefaultMQAdminExt], Awaitable[T]]) -> T:
        """Run ``work`` with a connected admin client, its errors turned into CommandError."""

        async def run() -> T:
            async with DefaultMQAdminExt(self.namesrv) as admin:
                await self.check_name_server(admin)
                result = await work(admin)
                for problem in admin.unavailable.values():
                    click.echo(f"glassmq: a broker does not answer, so its part is missing: {problem}", err=True)
                return result

        with client_errors():
            return asyncio.run(run())

    async def check_name_server(self, admin: DefaultMQAdminExt) -> dict[str, str]:
        """The masters by broker name. CommandError that says what to do if no name server answers."""
        try:
            return await admin.masters()
        except OSError as error:
            raise no_server("name server", self.namesrv, "--namesrv", error) from error


def read_topic(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """The name of a topic. BadParameter if RocketMQ does not allow it."""
    try:
        return validate_topic(value)
    except RequestError as error:
        raise click.BadParameter(error.remark) from error


def read_group(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """The name of a consumer group. BadParameter if RocketMQ does not allow it."""
    try:
        return check_group(value, "DEFAULT_CONSUMER")
    except MQClientException as error:
        raise click.BadParameter(str(error)) from error


topic_argument = click.argument("topic", callback=read_topic)


broker_option = click.option("--broker", default="", metavar="NAME", help="The broker to ask, if there are several.")


def check_name_servers(text: str) -> None:
    """BadParameter unless it is one ``host:port``, or several separated by semicolons."""
    try:
        for address in text.split(";"):
            parse_address(address)
    except MQClientException as error:
        raise click.BadParameter(str(error)) from error


def _setter(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            if field == "namesrv":
                check_name_servers(value)
            setattr(context.ensure_object(Target), field, value)

    return store


def shared_options(*, hidden: bool) -> list[click.Parameter]:
    """--namesrv, --url, --token and --json. Those of a command win over those before it."""
    env = {} if hidden else {"namesrv": "NAMESRV_ADDR", "url": "GLASSMQ_URL", "token": "GLASSMQ_API_TOKEN"}
    texts = {
        "namesrv": ("HOST:PORT", f"Name servers, separated by semicolons; {NAMESRV} unless NAMESRV_ADDR is set."),
        "url": ("URL", f"GlassMQ's web address; {URL} unless GLASSMQ_URL is set."),
        "token": ("TOKEN", "GlassMQ's access token; better in the variable GLASSMQ_API_TOKEN."),
    }
    options: list[click.Parameter] = [
        click.Option(
            [f"--{field}"],
            metavar=metavar,
            help=text,
            hidden=hidden,
            envvar=env.get(field),
            expose_value=False,
            callback=_setter(field),
        )
        for field, (metavar, text) in texts.items()
    ]
    options.append(
        click.Option(
            ["--json"],
            is_flag=True,
            help="Print JSON for programs.",
            expose_value=False,
            callback=_setter("as_json"),
        )
    )
    return options


class Command(click.Command):
    """A command that takes the shared options too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += shared_options(hidden=True)


pass_target = click.make_pass_decorator(Target, ensure=True)
