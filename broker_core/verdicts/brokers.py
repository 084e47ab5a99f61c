"""Situations that a broker causes."""

from collections.abc import Iterator

from broker_core.verdicts.catalogue import CATALOGUE
from broker_core.verdicts.group import Group
from broker_core.verdicts.verdict import Verdict, joined, plural, span


def _age(age_ms: int | None) -> str:
    """How old the committed offsets of attached brokers are, as a sentence."""
    if age_ms is None:
        return "Its committed offsets have not been fetched yet, so the lag is not known."
    return f"The committed offsets are {span(age_ms)} old, so messages in the lag may be consumed already."


def broker_verdicts(group: Group) -> Iterator[Verdict]:
    """What keeps the group waiting, although its consumers are well."""
    if group.unavailable:
        yield CATALOGUE["broker_away"].verdict(
            f"No answer from {joined(group.unavailable)}: what {group.name} does there is unknown.",
            {"brokers": list(group.unavailable)},
        )
    if group.attached:
        unknown = "" if group.are_members_known else "; its members are being asked for"
        yield CATALOGUE["attached"].verdict(
            f"{joined(group.attached)} {'is' if len(group.attached) == 1 else 'are'} attached: which pulls are held "
            f"there, and when clients pulled last, is not known{unknown}. {_age(group.offsets_age_ms)}",
            {"brokers": group.attached, "offsets_age_ms": group.offsets_age_ms},
        )
    for broker in (one.broker for one in group.facts):
        if broker.draining:
            yield CATALOGUE["broker_draining"].verdict(
                f"Broker {broker.broker} is shutting down and refuses pulls; "
                f"{plural(broker.holds, 'held pull is', 'held pulls are')} left to answer.",
                {"broker": broker.broker, "holds": broker.holds},
            )
        elif broker.problem:
            yield CATALOGUE["broker_refuses_messages"].verdict(
                f"Broker {broker.broker} accepts no messages: {broker.problem}.",
                {"broker": broker.broker, "problem": broker.problem},
            )
        if broker.holds >= broker.max_holds:
            yield CATALOGUE["holds_used_up"].verdict(
                f"Broker {broker.broker} holds {broker.holds:,} pulls, its limit; it refuses further ones.",
                {"broker": broker.broker, "holds": broker.holds, "max_holds": broker.max_holds},
            )
        if broker.late_ms is not None:
            refused = f"; {plural(broker.refused, 'command')} got SYSTEM_BUSY" if broker.refused else ""
            yield CATALOGUE["engine_busy"].verdict(
                f"Broker {broker.broker} is busy: commands waited up to {broker.late_ms:,} ms for their turn{refused}.",
                {"broker": broker.broker, "late_ms": broker.late_ms, "refused": broker.refused},
            )
        if broker.slave_timeouts:
            yield CATALOGUE["slaves_behind"].verdict(
                f"Broker {broker.broker} answered {plural(broker.slave_timeouts, 'request')} with FLUSH_SLAVE_TIMEOUT: "
                f"inSyncReplicas needs {plural(broker.slaves_needed, 'slave')} with each message, and "
                f"{broker.slaves} {'is' if broker.slaves == 1 else 'are'} connected.",
                {
                    "broker": broker.broker,
                    "slave_timeouts": broker.slave_timeouts,
                    "slaves_needed": broker.slaves_needed,
                    "slaves": broker.slaves,
                },
            )
        if broker.undispatched_bytes:
            yield CATALOGUE["flush_behind"].verdict(
                f"{broker.undispatched_bytes:,} bytes of stored messages wait for the disk of broker {broker.broker} "
                "and are not visible to consumers yet.",
                {"broker": broker.broker, "undispatched_bytes": broker.undispatched_bytes},
            )
