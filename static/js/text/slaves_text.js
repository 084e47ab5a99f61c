/** What the live page says about the slaves of a broker. */

import { ago, count, isKnown, plural, shortCount, span } from "./format.js";
import { choose, t } from "./translate.js";

const bytes = (value) => `${shortCount(Number(value))} B`;

/** When a send is acknowledged, by `replication` of GET /api/v1/broker. */
export function promiseText({ slaves_needed: needed, waiting }) {
  if (!needed) return t("sends are acknowledged without waiting for slaves");
  const now = waiting ? plural(waiting, "; {0} request waits now", "; {0} requests wait now") : "";
  return choose(needed, "a send is acknowledged when a slave has it{1}", "a send is acknowledged when {0} slaves have it{1}", needed, now);
}

/** One line for a slave, with ages at `nowMs`. */
export function slaveText(slave, nowMs) {
  const since = t("connected for {0}", span(nowMs - Number(slave.since_ms)));
  const reported = t("reported {0}", ago(nowMs - Number(slave.reported_ms)));
  if (!isKnown(slave.lag_bytes)) return t("{0}: acknowledges nothing; {1}, {2}", slave.address, since, reported);
  const rate = isKnown(slave.bytes_per_second) ? t(", {0}/s sent", bytes(slave.bytes_per_second)) : "";
  return t("{0}: {1} behind, has the log up to {2}{3}; {4}, {5}", slave.address, bytes(slave.lag_bytes), count(slave.slave_ack_offset), rate, since, reported);
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
  ({ promise: "", slaves: [], isEmpty: false, problems: [t("The slaves are not known at the moment: {0}", reason)] });

/** What is wrong, one sentence each: too few slaves that acknowledge, sends that waited in vain, a slave that was refused. */
export function slaveProblems(replication, nowMs) {
  const problems = [];
  const acknowledging = replication.slaves.filter(({ lag_bytes: lag }) => isKnown(lag)).length;
  const { ha_listen_port: port, slaves_needed: needed, timeouts, last_refused: refused } = replication;
  if (!port) problems.push(t("haListenPort is off, so no slave can connect."));
  if (acknowledging < needed) problems.push(plural(acknowledging, "{1} must have each message, and {0} is connected.", "{1} must have each message, and {0} are connected.", plural(needed, "{0} slave", "{0} slaves")));
  if (timeouts) problems.push(plural(timeouts, "{0} request got FLUSH_SLAVE_TIMEOUT since the broker's start.", "{0} requests got FLUSH_SLAVE_TIMEOUT since the broker's start."));
  if (refused) problems.push(t("{0} was refused {1}: {2}", refused.address, ago(nowMs - Number(refused.at_ms)), refused.reason));
  return problems;
}
