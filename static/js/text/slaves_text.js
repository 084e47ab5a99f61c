/** What the live page says about the slaves of a broker. */

import { ago, count, isKnown, plural, shortCount, span } from "./format.js";

const bytes = (value) => `${shortCount(Number(value))} B`;

/** When a send is acknowledged, by `replication` of GET /api/v1/broker. */
export function promiseText({ slaves_needed: needed, waiting }) {
  if (!needed) return "sends are acknowledged without waiting for slaves";
  const now = waiting ? `; ${plural(waiting, "request")} wait${waiting === 1 ? "s" : ""} now` : "";
  return `a send is acknowledged when ${needed === 1 ? "a slave has" : `${needed} slaves have`} it${now}`;
}

/** One line for a slave, with ages at `nowMs`. */
export function slaveText(slave, nowMs) {
  const since = `connected for ${span(nowMs - Number(slave.since_ms))}`;
  const reported = `reported ${ago(nowMs - Number(slave.reported_ms))}`;
  if (!isKnown(slave.lag_bytes)) return `${slave.address}: acknowledges nothing; ${since}, ${reported}`;
  const rate = isKnown(slave.bytes_per_second) ? `, ${bytes(slave.bytes_per_second)}/s sent` : "";
  return `${slave.address}: ${bytes(slave.lag_bytes)} behind, has the log up to ${count(slave.slave_ack_offset)}${rate}; ${since}, ${reported}`;
}

/** What the panel shows of an answer of GET /api/v1/broker; null if the broker neither has nor needs slaves. */
export function knownSlaves({ replication, started_at_ms: startedMs, uptime_ms: uptimeMs }) {
  if (!replication.ha_listen_port && !replication.slaves_needed) return null;
  const nowMs = Number(startedMs) + Number(uptimeMs); // by the broker's clock, as the times of the slaves
  return { promise: promiseText(replication), slaves: replication.slaves.map((slave) => slaveText(slave, nowMs)),
    isEmpty: replication.slaves.length === 0, problems: slaveProblems(replication, nowMs) };
}

/** What it shows when there is no answer: no number of slaves, not even 0. */
export const unknownSlaves = (reason) =>
  ({ promise: "", slaves: [], isEmpty: false, problems: [`The slaves are not known at the moment: ${reason}`] });

/** What is wrong, one sentence each: too few slaves that acknowledge, sends that waited in vain, a slave that was refused. */
export function slaveProblems(replication, nowMs) {
  const problems = [];
  const acknowledging = replication.slaves.filter(({ lag_bytes: lag }) => isKnown(lag)).length;
  const { ha_listen_port: port, slaves_needed: needed, timeouts, last_refused: refused } = replication;
  if (!port) problems.push("haListenPort is off, so no slave can connect.");
  if (acknowledging < needed) problems.push(`${plural(needed, "slave")} must have each message, and ${acknowledging} ${acknowledging === 1 ? "is" : "are"} connected.`);
  if (timeouts) problems.push(`${plural(timeouts, "request")} got FLUSH_SLAVE_TIMEOUT since the broker's start.`);
  if (refused) problems.push(`${refused.address} was refused ${ago(nowMs - Number(refused.at_ms))}: ${refused.reason}`);
  return problems;
}
