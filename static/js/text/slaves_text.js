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

/** What is wrong, one sentence each: too few slaves, sends that waited in vain, a slave that was refused. */
export function slaveProblems(replication, nowMs) {
  const problems = [];
  const { ha_listen_port: port, slaves, slaves_needed: needed, timeouts, last_refused: refused } = replication;
  if (!port) problems.push("haListenPort is off, so no slave can connect.");
  if (slaves.length < needed) problems.push(`${plural(needed, "slave")} must have each message, and ${slaves.length} ${slaves.length === 1 ? "is" : "are"} connected.`);
  if (timeouts) problems.push(`${plural(timeouts, "request")} got FLUSH_SLAVE_TIMEOUT since the broker's start.`);
  if (refused) problems.push(`${refused.address} was refused ${ago(nowMs - Number(refused.at_ms))}: ${refused.reason}`);
  return problems;
}
