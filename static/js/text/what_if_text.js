/** The same waits under other ways to poll, in words. Pure. */

import { count, dateTime, isKnown, micros, plural, span } from "./format.js";
import { t } from "./translate.js";

const interval = (ms) => (ms < 1000 ? t("{0} ms", ms) : span(ms));

/** The name of a method; `intervalMs` is that of short polling. */
export function methodText(method, intervalMs) {
  return { long_polling: t("long polling (GlassMQ)"), short_polling: t("short polling every {0}", interval(intervalMs)),
    stock_rocketmq: t("stock RocketMQ") }[method] ?? method;
}

/** A row of the table: name, requests, empty answers and delays, as texts. `delays` replaces p50, p99 and the maximum if they
 * are of few waits: each delay. */
export function methodRow(totals, intervalMs) {
  const { method, requests, empty, p50_us: p50, p99_us: p99, max_us: max, delays_us: delays } = totals;
  const row = { method: methodText(method, intervalMs), requests: count(requests), empty: count(empty) };
  return delays.length ? { ...row, delays: delays.map(micros).join(t(", ")) } : { ...row, p50: micros(p50), p99: micros(p99), max: micros(max) };
}

/** What was replayed, and how many requests short polling would have sent: sentences. */
export function summaryText({ pulls, empty, waits, complete, from_ms: from, to_ms: to, interval_ms: every, methods }) {
  const range = complete ? t(" Pulls that ended by {0} are included.", dateTime(to)) : t(" Only those from {0} to {1} were looked at: there were too many.", dateTime(from), dateTime(to));
  if (!pulls) return t("No pull of this topic ended in this time, so there is nothing to replay.{0}", range);
  const happened = t("{0} ended, {1} without messages: {2}.", plural(pulls, "{0} pull", "{0} pulls"), count(empty), plural(waits, "{0} wait", "{0} waits"));
  const [long, short] = methods;
  const more = short.requests - long.requests;
  const cost = !more ? t(" Short polling every {0} would have sent as many requests.", interval(every))
    : more > 0 ? plural(more, " Short polling every {1} would have sent {0} request more.", " Short polling every {1} would have sent {0} requests more.", interval(every))
      : plural(-more, " Short polling every {1} would have sent {0} request fewer.", " Short polling every {1} would have sent {0} requests fewer.", interval(every));
  const late = !isKnown(short.p50_us) ? "" : short.delays_us.length ? t(" Messages would have been given {0} after they came at most, instead of {1}.", micros(short.max_us), micros(long.max_us)) : t(" Messages would have been given {0} after they came (p50), instead of {1}.", micros(short.p50_us), micros(long.p50_us));
  return `${happened}${cost}${late}${range}`;
}

export const sampleNote = ({ methods: [{ samples }], waits }) =>
  (waits ? plural(samples, "delays of {0} wait whose arrival is known", "delays of {0} waits whose arrival is known") : "");
