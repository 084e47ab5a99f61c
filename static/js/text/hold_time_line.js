/** The time line of one held pull, from its events. Pure. */

import { acceptsAll, isPop, waitReason } from "./explain.js";
import { cause, clockTime, count, micros, millis, plural } from "./format.js";
import { queueKey } from "../reducer.js";

const STEPS = {
  pull_held: (e) => ["held", "calm", isPop(e) ? `it pops from ${queueKey(e.topic, e.queue_id)}, which had no message for it` : `it asked for offset ${count(e.pull_from_offset)} of ${queueKey(e.topic, e.queue_id)}, which ended at `
    + `${count(e.queue_max_offset)}, so there was no message${acceptsAll(e.filter) ? "" : ` that its filter ${e.filter} accepts`}`],
  pull_passed_over: (e) => ["passed over", "warn", `${range(e)} arrived, and its filter rejected ${isOne(e) ? "it" : "them"} by ${e.by}`],
  pull_woken: (e) => ["woken", e.cause === "arrival" ? "good" : e.cause === "missed_arrival" ? "bad" : "warn",
    `after ${micros(Number(e.held_us))}: ${cause(e.cause).means}${e.wake_us > 0 ? `; its answer was ready ${micros(Number(e.wake_us))} after the arrival` : ""}`],
  pull_released: (e) => ["released", "warn", `after ${micros(Number(e.held_us))}: ${cause(e.cause).means}`],
  pull_answered: (e) => ["answered", e.messages > 0 ? "good" : "calm", `${e.status}, with ${plural(Number(e.messages), "message")}${e.next_begin_offset < 0 ? "" : `; its next offset is ${count(e.next_begin_offset)}`}`],
  messages_delivered: (e) => ["delivered", "good", `${range(e)}, ${isOne(e) ? "" : "the oldest "}${millis(Number(e.latency_ms))} after it was stored`],
};

const isOne = (e) => Number(e.to_offset) - Number(e.from_offset) === 1;

/** Offsets from `from_offset` to `to_offset`, without the latter. */
function range({ from_offset: from, to_offset: to }) {
  const last = Number(to) - 1;
  return Number(from) === last ? `the message at offset ${count(from)}` : `the messages at offsets ${count(from)} to ${count(last)}`;
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
  if (!hold) return "It is not held any more.";
  const passed = events.findLast(({ type }) => type === "pull_passed_over");
  const end = Number(passed?.to_offset ?? hold.queue_max_offset);
  const row = { ...hold, pull_from_offset: Number(hold.pull_from_offset) };
  return `${waitReason(row, { max_offset: end })} It is answered at ${clockTime(Number(hold.deadline_ms))} at the latest.`;
}

/** Whose pull it is: its row while it is held, otherwise an event of it; {} if neither is known. */
export function ownerOf({ hold, events }) {
  return hold ?? events.find(({ type }) => type === "pull_held") ?? events.find(({ group }) => group !== undefined) ?? {};
}
