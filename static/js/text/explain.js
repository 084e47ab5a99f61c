/** Sentences that explain why a pull is held and how it ended. Pure. */

import { cause, clockTime, count, isAnswered, micros, millis, plural, seconds } from "./format.js";
import { queueKey } from "../reducer.js";

/** Whether a filter lets every message through. */
export function acceptsAll(filter) {
  return !filter || filter.trim() === "*";
}

/** Whether a pop is held: the broker keeps the group's offsets, so the hold has none. */
export function isPop(hold) {
  return hold.pull_from_offset < 0;
}

/** Why the pull is held, and until when. `queue` may be undefined; `now` is the broker's time, or null. */
export function explainHold(hold, queue, now, { longPollingEnable = null } = {}) {
  return `${waitReason(hold, queue)} ${waitEnd(hold, now, longPollingEnable)}`;
}

/** Why the pull is held. */
export function waitReason(hold, queue) {
  const where = queueKey(hold.topic, hold.queue_id);
  if (isPop(hold)) {
    const from = hold.queue_id < 0 ? `any queue of ${hold.topic}` : where;
    const message = acceptsAll(hold.filter) ? "a message" : `a message that its filter ${hold.filter} accepts`;
    return `Waits to pop ${message} from ${from}; the broker gives each message to one member of the group.`;
  }
  const offset = `Waits for offset ${count(hold.pull_from_offset)} of ${where};`;
  const end = queue ? queue.max_offset : hold.queue_max_offset;
  const arrived = end - hold.pull_from_offset;
  if (arrived <= 0) {
    const only = acceptsAll(hold.filter) ? "" : ` Only a message that its filter ${hold.filter} accepts wakes it.`;
    return `${offset} the queue ends at ${count(end)}, so no new message has arrived.${only}`;
  }
  const have = arrived === 1 ? "1 message has arrived" : `${count(arrived)} messages have arrived`;
  if (!acceptsAll(hold.filter)) {
    const them = arrived === 1 ? "it" : "them";
    return `${offset} ${have} since (the queue ends at ${count(end)}), but its filter ${hold.filter} rejects ${them}. `
      + "The next check of the pullRequestTable answers it without messages (filter advanced), so that its offset moves on.";
  }
  return `${offset} ${have} since (the queue ends at ${count(end)}), so it is being woken now.`;
}

function waitEnd(hold, now, longPollingEnable) {
  if (now === null) return "The time of its answer is unknown, because the broker's clock is not known yet.";
  const left = hold.deadline_ms - now;
  if (left < 0) return `Its deadline passed ${seconds(-left)} ago, so its answer is due.`;
  const short = longPollingEnable === false ? " (longPollingEnable is off: new pulls are held for shortPollingTimeMills only)" : "";
  return `It will be answered in ${seconds(left)} at the latest${short}.`;
}

/** How a hold ended. `wakeup` is null when the page no longer has it. */
export function explainEnd(hold, wakeup) {
  const where = queueKey(hold.topic, hold.queue_id);
  if (!wakeup) return `No longer held on ${where}; how it ended is unknown: this page no longer has its wake-up.`;
  const { word, means } = cause(wakeup.cause);
  const held = `after ${micros(wakeup.held_us)}`;
  if (!isAnswered(wakeup.cause)) {
    return `Released ${held}: ${means}.`;
  }
  const brought = wakeup.messages === 1 ? "1 message" : `${count(wakeup.messages)} messages`;
  const wake = wakeup.wake_us > 0 ? `, ${micros(wakeup.wake_us)} after the message arrived` : "";
  return `Woken ${held} by ${word}: ${means}. It was answered with ${brought}${wake}.`;
}

/** A selected hold on a board of the past that is older than the hold. */
export function explainUnbegun(hold) {
  return `Not held yet at this moment: its hold began at ${clockTime(hold.suspended_at_ms)}.`;
}

/** How a pull of the in-page consumer was answered, in one line. */
export function explainPull(hold, wakeUs, roundTripMs) {
  if (!hold) return "answered at once, not held";
  const parts = [`held ${millis(hold.held_ms)}`, `woken by ${cause(hold.wake_cause).word}`];
  if (wakeUs !== null && wakeUs > 0) parts.push(`${micros(wakeUs)} after the arrival`);
  if (roundTripMs !== null) parts.push(`${millis(roundTripMs)} from Publish to this page`);
  return parts.join(", ");
}

/** What switching long polling on or off does to the pulls that are held now. `state` is the page's. */
export function switchEffect(on, { holds, holdsTotal, shortPollingTimeMills }) {
  const groups = new Set([...holds.values()].map(({ group }) => group)).size;
  const held = holdsTotal === null ? "an unknown number of held pulls"
    : `${plural(holdsTotal, "held pull")} of ${holds.size < holdsTotal ? "at least " : ""}${plural(groups, "group")}`;
  if (on) return `Affects ${held}, and every pull from now on: it is held until a message arrives or its own deadline passes.`;
  const brief = shortPollingTimeMills === null ? "shortPollingTimeMills" : `${count(shortPollingTimeMills)} ms (shortPollingTimeMills)`;
  return `Affects ${held}, and every pull from now on: it is held for ${brief} only, so consumers ask far more often and receive empty answers.`;
}
