"""A story told in RocketMQ's own ``mqadmin`` commands, and what each of them prints.

The same story for any broker: a topic and a group are made, six messages sent and consumed, everything is looked at
while the clients are there, then changed, looked at again, and taken away. What may differ from one broker, machine
or run to the next (addresses, ids, times, rates) is replaced by its name, so that the rest can be compared word by
word. ``tests/golden/mqadmin.json`` is what RocketMQ 5.4.0 prints; this module, run as a program, writes it.
"""

import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.compat import java_program
from tests.compat.program import Program
from tests.compat.real_rocketmq import real_rocketmq

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "mqadmin.json"
BROKER_NAME = "broker-a"
SUMMED_SECONDS = 180
TOPIC, GROUP, OTHER_GROUP, PRODUCERS = "mqadmin-topic", "mqadmin-group", "mqadmin-group-2", "mqadmin-producers"

TOPICS = ("mqadmin-list-1", "mqadmin-list-2")
GROUPS = ("mqadmin-groups-1", "mqadmin-groups-2")
"""Those that are made from a list in a file."""

SUMS = ("statsAll", "-t", TOPIC)
SENT = 6
ENDLESS_SECONDS = 8

STORY: tuple[tuple[str, ...], ...] = (
    ("updateTopic", "-b", "{broker}", "-t", TOPIC, "-r", "2", "-w", "2"),
    ("updateSubGroup", "-b", "{broker}", "-g", GROUP),
    ("updateSubGroup", "-b", "{broker}", "-g", OTHER_GROUP, "-r", "3", "-q", "2"),
    ("@producer", PRODUCERS),
    *(("@send", TOPIC, str(i % 2), "tagA", f"key{i}", f"body {i}") for i in range(SENT)),
    ("@consumer", GROUP, TOPIC),
    ("clusterList",),
    ("clusterList", "-m"),
    ("topicList",),
    ("topicList", "-c"),
    ("topicRoute", "-t", TOPIC),
    ("topicRoute", "-t", TOPIC, "-l"),
    ("topicRoute", "-t", "no-such-topic"),
    ("topicStatus", "-t", TOPIC),
    ("topicStatus", "-t", "no-such-topic"),
    ("topicClusterList", "-t", TOPIC),
    ("consumerProgress", "-g", GROUP),
    ("consumerProgress", "-g", GROUP, "-t", TOPIC),
    ("consumerProgress",),
    ("consumerConnection", "-g", GROUP),
    ("consumerConnection", "-g", "no-such-group"),
    ("producerConnection", "-g", PRODUCERS, "-t", TOPIC),
    ("producer", "-b", "{broker}"),
    ("consumerStatus", "-g", GROUP),
    ("queryMsgById", "-i", "{offset_id}", "-t", TOPIC),
    ("queryMsgByKey", "-t", TOPIC, "-k", "key3"),
    ("queryMsgByKey", "-t", TOPIC, "-k", "tagA", "-p", "T"),
    ("queryMsgByUniqueKey", "-t", TOPIC, "-i", "{id}"),
    ("queryMsgByOffset", "-t", TOPIC, "-b", BROKER_NAME, "-i", "0", "-o", "1"),
    ("brokerStatus", "-b", "{broker}"),
    ("getBrokerConfig", "-b", "{broker}"),
    ("getNamesrvConfig",),
    SUMS,
    ("brokerConsumeStats", "-b", "{broker}"),
    ("getConsumerConfig", "-g", GROUP),
    ("getConsumerConfig", "-g", OTHER_GROUP),
    ("allocateMQ", "-t", TOPIC, "-i", "10.0.0.1,10.0.0.2"),
    ("queryCq", "-t", TOPIC, "-q", "0", "-i", "0", "-c", "2", "-b", "{broker}"),
    ("haStatus", "-b", "{broker}"),
    ("sendMessage", "-t", TOPIC, "-p", "hello", "-k", "key7", "-c", "tagB", "-b", BROKER_NAME, "-i", "0"),
    ("checkMsgSendRT", "-t", TOPIC, "-a", "3", "-s", "100"),
    ("consumeMessage", "-t", TOPIC, "-b", BROKER_NAME, "-i", "0", "-o", "0", "-c", "2"),
    ("printMsg", "-t", TOPIC, "-d", "true", "-s", "tagB"),
    ("printMsgByQueue", "-t", TOPIC, "-a", BROKER_NAME, "-i", "1", "-p", "true", "-d", "true"),
    ("cloneGroupOffset", "-s", GROUP, "-d", OTHER_GROUP, "-t", TOPIC, "-o", "true"),
    ("consumerProgress", "-g", OTHER_GROUP),
    ("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "0"),
    ("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "now"),
    ("skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC),
    ("updateBrokerConfig", "-b", "{broker}", "-k", "maxTransferCountOnMessageInMemory", "-v", "32"),
    ("updateKvConfig", "-s", "mqadmin-space", "-k", "key", "-v", "value"),
    ("deleteKvConfig", "-s", "mqadmin-space", "-k", "key"),
    ("updateTopicPerm", "-t", TOPIC, "-b", "{broker}", "-p", "4"),
    ("topicRoute", "-t", TOPIC, "-l"),
    ("updateTopicPerm", "-t", TOPIC, "-b", "{broker}", "-p", "6"),
    ("wipeWritePerm", "-b", BROKER_NAME),
    ("addWritePerm", "-b", BROKER_NAME),
    ("cleanExpiredCQ", "-b", "{broker}"),
    ("deleteExpiredCommitLog", "-b", "{broker}"),
    ("cleanUnusedTopic", "-b", "{broker}"),
    ("@stop",),
    ("consumerConnection", "-g", GROUP),
    ("producerConnection", "-g", PRODUCERS, "-t", TOPIC),
    ("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "0"),
    ("consumerProgress", "-g", GROUP),
    ("setConsumeMode", "-b", "{broker}", "-t", TOPIC, "-g", GROUP, "-m", "POP", "-q", "2"),
    ("deleteSubGroup", "-b", "{broker}", "-g", OTHER_GROUP),
    ("deleteTopic", "-c", "DefaultCluster", "-t", TOPIC),
    ("topicRoute", "-t", TOPIC),
    ("sendMsgStatus", "-b", BROKER_NAME, "-s", "64", "-c", "3"),
    ("@seconds", str(ENDLESS_SECONDS), "clusterRT", "-c", "DefaultCluster", "-a", "5", "-s", "64", "-i", "1"),
    ("updateOrderConf", "-t", TOPIC, "-m", "put", "-v", f"{BROKER_NAME}:2"),
    ("updateOrderConf", "-t", TOPIC, "-m", "get"),
    ("updateOrderConf", "-t", TOPIC, "-m", "delete"),
    ("updateTopicList", "-b", "{broker}", "-f", "{folder}/topics.json"),
    ("topicRoute", "-t", TOPICS[1], "-l"),
    ("updateSubGroupList", "-b", "{broker}", "-f", "{folder}/groups.json"),
    ("getConsumerConfig", "-g", GROUPS[1]),
    ("exportMetadata", "-c", "DefaultCluster", "-f", "{folder}"),
    ("exportConfigs", "-c", "DefaultCluster", "-f", "{folder}"),
    ("exportMetrics", "-c", "DefaultCluster", "-f", "{folder}"),
    ("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"),
    *(("deleteTopic", "-c", "DefaultCluster", "-t", topic) for topic in TOPICS),
    *(("deleteSubGroup", "-b", "{broker}", "-g", group) for group in GROUPS),
)

OWN_TOPICS = re.compile(rf"^(%RETRY%)?{TOPIC[:7]}\S*$")
LINES_OF_OWN = {"topicList", "consumerProgress", "brokerConsumeStats", "statsAll"}
"""Commands that list what is in a broker; only what this story made is compared."""
OPTIONS = {
    "brokerName",
    "brokerClusterName",
    "brokerId",
    "autoCreateTopicEnable",
    "longPollingEnable",
    "maxMessageSize",
    "flushDiskType",
    "fileReservedTime",
    "deleteWhen",
    "messageDelayLevel",
}
"""Of the hundreds that getBrokerConfig prints."""
RUNTIME = {
    "brokerVersionDesc",
    "brokerActive",
    "bootTimestamp",
    "runtime",
    "putTps",
    "getTotalTps",
    "getFoundTps",
    "getMissTps",
    "getTransferredTps",
    "msgPutTotalTodayNow",
    "msgGetTotalTodayNow",
    "msgPutTotalTodayMorning",
    "msgPutTotalYesterdayMorning",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "earliestMessageTimeStamp",
    "putMessageTimesTotal",
    "putMessageAverageSize",
    "putMessageSizeTotal",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "sendThreadPoolQueueSize",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
}
"""Of those that brokerStatus prints."""

REPLACED = (
    (re.compile(r"\S+@i-mqadmin-\S+-\d+(?=[\s,]|$)"), "<client id>"),
    (re.compile(r"\d{13}/<client id>"), "<file>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?"), "<time>"),
    (re.compile(r"\b[0-9A-F]{56}\b|\b[0-9A-F]{32}\b"), "<id>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<ms>"),
    (re.compile(r"(?i)(commitlog *offset[:=]\s*|MasterCommitLogMaxOffset\s+|physicOffset=)\d+"), r"\1<place>"),
    (re.compile(r"@<id>@\d+"), "@<id>@<place>"),
    (re.compile(r"(storeSize|physicSize)=\d+"), r"\1=<size>"),  # an id is longer where the client has IPv6
    (re.compile(r"\b\d+\.\d+\b"), "<number>"),
    (re.compile(r"V\d+_\d+_\d+"), "<version>"),
    (re.compile(r"(OK, )\d+"), r"\1<count>"),
)


def printed_by(mqadmin: Program, *command: str) -> str:
    """What a command prints: its output, and after it the failure, if there was one."""
    mqadmin.write_line(json.dumps(command))
    line = mqadmin.line()
    return str(line["out"]) + (f"\n{line['failure']}" if line["failure"] else "")


def write_lists(folder: Path) -> None:
    """The files of updateTopicList and updateSubGroupList."""
    topics = [{"topicName": name, "readQueueNums": 3, "writeQueueNums": 3, "perm": 6} for name in TOPICS]
    groups = [{"groupName": name, "retryMaxTimes": 4} for name in GROUPS]
    (folder / "topics.json").write_text(json.dumps(topics))
    (folder / "groups.json").write_text(json.dumps(groups))


def complete_sums(mqadmin: Program) -> str:
    """What statsAll prints once its sums contain all messages sent and consumed; empty before.

    A broker adds to the sums every 10 s, at first to those of the last minute. After a minute they are 0 until the
    next addition to those of the last hour. So they are looked at from the beginning.
    """
    printed = printed_by(mqadmin, *SUMS)
    return printed if printed.split()[-2:] == [str(SENT), str(SENT)] else ""


def own_lines(command: str, lines: list[str]) -> list[str]:
    """Of a list of everything in the broker, the head and what belongs to the story; no order is promised."""
    head = [line for line in lines if line.startswith("#")]
    return head + sorted(
        line
        for line in lines
        if line and not line.startswith("#") and any(OWN_TOPICS.match(word) for word in line.split())
    )


def name_of(command: Sequence[str]) -> str:
    """The name of mqadmin's command."""
    return command[2] if command[0] == "@seconds" else command[0]


def normalised(command: tuple[str, ...], printed: str) -> list[str]:
    """What is left when everything that may differ has been replaced."""
    name = name_of(command)
    for pattern, word in REPLACED:
        printed = pattern.sub(word, printed)
    lines = [" ".join(line.split()) for line in printed.strip().splitlines()]
    if name in LINES_OF_OWN and "-g" not in command:
        return own_lines(name, lines)
    if name == "getBrokerConfig":
        return sorted(line for line in lines if line.split(" ")[0] in OPTIONS)
    if name == "brokerStatus":
        return sorted(word for line in lines if (word := line.split(" ")[0].rstrip(":")) in RUNTIME)
    if name == "getNamesrvConfig":
        return sorted(line.split(" ")[0] for line in lines if line.startswith("listenPort"))
    if name == "sendMsgStatus":
        return [re.sub(r"(rt=|queueId=|queueOffset=)\d+", r"\1<n>", line) for line in lines]
    if name == "clusterRT":
        return sorted(set(lines))
    if name == "producer":
        return sorted(line for line in lines if "<client id>" in line)
    if name == "clusterList":
        return [re.sub(r"\b\d+(?=[ ,(m|-]|$)", "<n>", line) for line in lines]
    if name in {
        "resetOffsetByTime",
        "skipAccumulatedMessage",
        "consumerProgress",
        "printMsg",
        "checkMsgSendRT",
        "consumerConnection",
    }:
        lines = sorted(re.sub(r" \d+$", " <ms>", line) if name == "checkMsgSendRT" else line for line in lines)
    return [line for line in lines if line]


def without_inflight(printed: str) -> str:
    """consumerProgress without what is in flight.

    The Java client waits 10 s before it follows a reset. So it may have been stopped before or after its last pull.
    """
    printed = re.sub(r"(Inflight Total: *)\d+", r"\1<n>", printed)
    return re.sub(r"(?m)^(\S+ +\S+ +\d+ +\d+ +\d+ +\d+ +)\d+", r"\1<n>", printed)


def run(namesrv: str, broker: str) -> dict[str, list[str]]:
    """The story against one broker: what is printed, normalised, by number and command. @ commands are left out."""
    lines: dict[str, list[str]] = {}
    sums, consumes, stopped = "", False, False
    with (
        tempfile.TemporaryDirectory() as folder,
        java_program.start_program("mqadmin", "--namesrv", namesrv) as mqadmin,
    ):
        names = {"broker": broker, "id": "", "offset_id": "", "folder": folder}
        write_lists(Path(folder))
        for number, words in enumerate(STORY):
            command = tuple(word.format(**names) for word in words)
            if command == SUMS:
                until = time.monotonic() + SUMMED_SECONDS
                while not sums and time.monotonic() < until:
                    time.sleep(0.5)
                    sums = complete_sums(mqadmin)
            elif consumes and not sums:
                sums = complete_sums(mqadmin)
            printed = sums if command == SUMS and sums else printed_by(mqadmin, *command)
            consumes |= command[0] == "@consumer"
            stopped |= command[0] == "@stop"
            for body in re.findall(r"Message Body Path: +(\S+)", printed):
                Path(body).unlink(missing_ok=True)
            if command[0] == "@send":
                names["id"], names["offset_id"] = printed.split()
            elif command[0] == "@seconds" or not command[0].startswith("@"):
                if stopped and command[0] == "consumerProgress":
                    printed = without_inflight(printed)
                printed = printed.replace(folder, "<folder>")
                lines[f"{number:02} {' '.join(words)}"] = normalised(command, printed)
    return lines


def main() -> None:
    with real_rocketmq() as servers:
        printed = run(servers.namesrv.address, servers.broker.address)
    GOLDEN.write_text(json.dumps(printed, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(printed)} commands in {GOLDEN}")


if __name__ == "__main__":
    main()
