"""``glassmq doctor``: checks a set-up from the clients' side, and says what to fix."""

import asyncio
import sys
from typing import Literal, NamedTuple

import click

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt
from broker_core.cli.errors import FAILED, CommandError
from broker_core.cli.output import print_json, print_line, printable
from broker_core.cli.target import Command, Target, pass_target
from broker_core.client import MQClientException
from broker_core.version import VERSION

Level = Literal["ok", "warning", "error"]
STYLES: dict[Level, str] = {"ok": "green", "warning": "yellow", "error": "red"}
DISK_WARNING, DISK_ERROR = 0.75, 0.90
"""diskMaxUsedSpaceRatio, above which brokers delete old files, and the ratio above which they refuse messages."""
LOCAL_HOSTS = ("127.", "localhost", "::1")


class Finding(NamedTuple):
    """The outcome of one check. ``advice`` is empty if there is nothing to do."""

    level: Level
    text: str
    advice: str = ""


@click.command(cls=Command)
@pass_target
def doctor(target: Target) -> int:
    """Check the name server, the brokers and the HTTP API, and say what to fix. Exit code 1 if something is wrong."""
    findings = [Finding("ok", f"glassmq {VERSION}, Python {sys.version.split()[0]}")]
    findings += asyncio.run(check_cluster(target.namesrv))
    findings += check_api(target)
    has_error = any(finding.level == "error" for finding in findings)
    if target.as_json:
        print_json({"ok": not has_error, "findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            print_line(f"{click.style(f'{finding.level:8}', fg=STYLES[finding.level])}{printable(finding.text)}")
            if finding.advice:
                print_line(f"        {printable(finding.advice)}")
    return FAILED if has_error else 0


async def check_cluster(namesrv: str) -> list[Finding]:
    """Whether the name servers answer, and each broker at its registered address."""
    try:
        async with DefaultMQAdminExt(namesrv) as admin:
            masters = await admin.masters()
            findings = [Finding("ok", f"name server {namesrv} knows {', '.join(sorted(masters))}")]
            for name, address in sorted(masters.items()):
                findings += await check_broker(admin, name, address, namesrv)
            return findings
    except OSError as error:
        return [
            Finding(
                "error",
                f"no name server answers at {namesrv}: {error}",
                "Start a broker with `glassmq up`, or name its address with --namesrv.",
            )
        ]
    except MQClientException as error:
        return [Finding("error", str(error), "Look at the brokers' logs: they say why they do not register.")]


async def check_broker(admin: DefaultMQAdminExt, name: str, address: str, namesrv: str) -> list[Finding]:
    """Whether one broker answers, how full its disk is, and whether clients elsewhere can reach its address."""
    begin_s = asyncio.get_running_loop().time()
    try:
        figures = await admin.fetch_broker_runtime_stats(address)
    except (OSError, MQClientException) as error:
        return [
            Finding(
                "error",
                f"broker {name} is registered as {address}, and does not answer there: {error}",
                "Clients connect to this address. Set brokerIP1 (GLASSMQ_BROKER_IP1) to one that they can reach, or "
                "start the broker.",
            )
        ]
    took_ms = (asyncio.get_running_loop().time() - begin_s) * 1000
    version = figures.get("brokerVersionDesc", "unknown")
    findings = [Finding("ok", f"broker {name} at {address} answers within {took_ms:.0f} ms; version {version}")]
    if address.startswith(LOCAL_HOSTS) and not namesrv.startswith(LOCAL_HOSTS):
        findings.append(
            Finding(
                "error",
                f"broker {name} tells clients on other machines to connect to {address}, which is their own machine",
                "Set brokerIP1 (GLASSMQ_BROKER_IP1) to an address that they can reach.",
            )
        )
    return findings + disk_findings(name, figures)


def disk_findings(name: str, figures: dict[str, str]) -> list[Finding]:
    """What the fill level of a broker's disk means."""
    try:
        ratio = float(figures["commitLogDiskRatio"])
    except (KeyError, ValueError):
        return []
    if ratio < 0:
        return []
    text = f"the disk of {name} is {ratio:.0%} full"
    if ratio >= DISK_ERROR:
        return [Finding("error", text, "The broker refuses messages. Free some space, or lower fileReservedTime.")]
    if ratio >= DISK_WARNING:
        return [Finding("warning", text, "The broker deletes its oldest files now. Free some space.")]
    return [Finding("ok", text)]


def check_api(target: Target) -> list[Finding]:
    """Whether GlassMQ's HTTP API answers and its brokers accept messages."""
    try:
        answer = target.api.get("/api/v1/brokers")
        brokers = [
            target.api.get("/api/v1/broker", broker=line["broker"]) for line in answer["brokers"] if line["available"]
        ]
    except CommandError as error:
        return [
            Finding(
                "warning",
                f"the HTTP API at {target.url} cannot be used: {error.message}",
                "Without it, holds, top, why and timeline do not work; the other commands do.",
            )
        ]
    findings = [Finding("ok", f"the HTTP API at {target.url} answers")]
    findings += [
        Finding("error", f"broker {line['broker']} does not answer its web process: {line['problem']}", "Start it.")
        for line in answer["brokers"]
        if not line["available"]
    ]
    for broker in brokers:
        if broker["problem"]:
            findings.append(
                Finding(
                    "error", f"broker {broker['broker']} accepts no messages: {broker['problem']}", "Fix this problem."
                )
            )
        if not broker["config"].get("longPollingEnable", True):
            findings.append(
                Finding(
                    "warning",
                    f"long polling of {broker['broker']} is off, so consumers wait for up to shortPollingTimeMills",
                    "Set longPollingEnable=true.",
                )
            )
    return findings
