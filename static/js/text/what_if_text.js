/** The same waits under other ways to poll, in words. Pure. */

import { count, dateTime, isKnown, micros, plural, span } from "./format.js";

const interval = (ms) => (ms < 1000 ? `${ms} ms` : span(ms));

/** The name of a method; `intervalMs` is that of short polling. */
export function methodText(method, intervalMs) {
  return { long_polling: "long polling (GlassMQ)", short_polling: `short polling every ${interval(intervalMs)}`,
    stock_rocketmq: "stock RocketMQ" }[method] ?? method;
}

/** A row of the table: name, requests, empty answers and delays, as texts. */
export function methodRow(totals, intervalMs) {
  const { method, requests, empty, p50_us: p50, p99_us: p99, max_us: max } = totals;
  return [methodText(method, intervalMs), count(requests), count(empty), micros(p50), micros(p99), micros(max)];
}

/** What was replayed, and how many requests short polling would have sent: sentences. */
export function summaryText({ pulls, empty, waits, complete, from_ms: from, to_ms: to, interval_ms: every, methods }) {
  const range = complete ? "" : ` Only those from ${dateTime(from)} to ${dateTime(to)} were looked at: there were too many.`;
  if (!pulls) return `No pull of this topic ended in this time, so there is nothing to replay.${range}`;
  const happened = `${plural(pulls, "pull")} ended, ${count(empty)} without messages: ${plural(waits, "wait")}.`;
  const [long, short] = methods;
  const more = short.requests - long.requests;
  const amount = more ? `${plural(Math.abs(more), "request")} ${more > 0 ? "more" : "fewer"}` : "as many requests";
  const cost = ` Short polling every ${interval(every)} would have sent ${amount}.`;
  const late = isKnown(short.p50_us) ? ` Messages would have been given ${micros(short.p50_us)} after they came (p50), instead of ${micros(long.p50_us)}.` : "";
  return `${happened}${cost}${late}${range}`;
}

export const sampleNote = ({ methods: [{ samples }], waits }) =>
  (waits ? `delays of ${plural(samples, "wait")} whose arrival is known` : "");
