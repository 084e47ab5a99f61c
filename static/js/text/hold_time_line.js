/** The time line of one held pull, from its events. Pure. */

import { acceptsAll, isPop, waitReason } from "./explain.js";
import { cause, count, dateTime, micros, millis, plural } from "./format.js";
import { queueKey } from "../reducer.js";
import { choose, t } from "./translate.js";

const STEPS = {
  pull_held: (e) => [t("held"), "calm", isPop(e) ? t("it pops from {0}, which had no message for it", queueKey(e.topic, e.queue_id)) : t("it asked for offset {0} of {1}, which ended at {2}, so there was no message{3}", count(e.pull_from_offset), queueKey(e.topic, e.queue_id), count(e.queue_max_offset), acceptsAll(e.filter) ? "" : t(" that its filter {0} accepts", e.filter))],
  pull_passed_over: (e) => [t("passed over"), "warn", choose(size(e), "{0} arrived, and its filter rejected it by {1}", "{0} arrived, and its filter rejected them by {1}", range(e), rejectedBy(e.by))],
  pull_woken: (e) => [t("woken"), e.cause === "arrival" ? "good" : e.cause === "missed_arrival" ? "bad" : "warn",
    t("after {0}: {1}{2}", micros(Number(e.held_us)), cause(e.cause).means, e.wake_us > 0 ? t("; its answer was ready {0} after the arrival", micros(Number(e.wake_us))) : "")],
  pull_released: (e) => [t("released"), "warn", t("after {0}: {1}", micros(Number(e.held_us)), cause(e.cause).means)],
  pull_answered: (e) => [t("answered"), e.messages > 0 ? "good" : "calm", plural(Number(e.messages), "{1}, with {0} message{2}", "{1}, with {0} messages{2}", e.status, `${e.next_begin_offset < 0 ? "" : t("; its next offset is {0}", count(e.next_begin_offset))}${skipped(e)}`)],
  messages_delivered: (e) => [t("delivered"), "good", Number(e.latency_ms) // 0: stored in the same turn of the broker, whose events have one time
    ? choose(size(e), "{0}, {1} after it was stored", "{0}, the oldest {1} after it was stored", range(e), millis(Number(e.latency_ms)))
    : choose(size(e), "{0}, as soon as it was stored", "{0}, as soon as they were stored", range(e))],
};

/** What of a message its filter has looked at. */
function rejectedBy(by) {
  return { tags: t("tags"), properties: t("properties"), bitmap: t("bitmap") }[by] ?? by;
}

/** How many messages the filter rejected when the queue was read, and by what. */
function skipped({ passed_over: passed, passed_over_by_bitmap: byBitmap }) {
  if (!Number(passed)) return "";
  const why = !Number(byBitmap) ? "" : Number(byBitmap) === Number(passed) ? t(" by bitmap") : t(", {0} of them by bitmap, the others by their properties", count(byBitmap));
  return plural(Number(passed), "; its filter passed over {0} message{1}", "; its filter passed over {0} messages{1}", why);
}

const size = (e) => Number(e.to_offset) - Number(e.from_offset);

/** Offsets from `from_offset` to `to_offset`, without the latter. */
function range({ from_offset: from, to_offset: to }) {
  const last = Number(to) - 1;
  return Number(from) === last ? t("the message at offset {0}", count(from)) : t("the messages at offsets {0} to {1}", count(from), count(last));
}

/** The steps in the order of time: [{at, word, tone, text}]. */
export function stepsOfHold({ events }) {
  return events.filter(({ type }) => STEPS[type]).map((event) => {
    const [word, tone, text] = STEPS[event.type](event);
    return { at: Number(event.wall_ms), word, tone, text };
  });
}

/** A sentence that says why it is held, by its own events, and until when; or that it is not held any more. */
export function aboutHold({ hold, events }) {
  if (!hold) return t("It is not held any more.");
  const passed = events.findLast(({ type }) => type === "pull_passed_over");
  const end = Number(passed?.to_offset ?? hold.queue_max_offset);
  const row = { ...hold, pull_from_offset: Number(hold.pull_from_offset) };
  return t("{0} It is answered at {1} at the latest.", waitReason(row, { max_offset: end }), dateTime(Number(hold.deadline_ms)));
}

/** Whose pull it is: its row while it is held, otherwise an event of it; {} if neither is known. */
export function ownerOf({ hold, events }) {
  return hold ?? events.find(({ type }) => type === "pull_held") ?? events.find(({ group }) => group !== undefined) ?? {};
}
