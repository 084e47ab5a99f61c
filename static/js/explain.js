/** Sentences that say why a consumer waits. Pure. */

import { cause, count, micros, millis, seconds } from "./format.js";
import { queueKey } from "./reducer.js";

/** Whether a filter lets every message through. */
export function acceptsAll(filter) {
  return !filter || filter.trim() === "*";
}

/** Why the hold waits, and until when. `queue` may be unknown, `now` is the broker's time or null. */
export function explainHold(hold, queue, now, { longPollingEnable = null } = {}) {
  return `${whatItWaitsFor(hold, queue)} ${untilWhen(hold, now, longPollingEnable)}`;
}

function whatItWaitsFor(hold, queue) {
  const where = queueKey(hold.topic, hold.queue_id);
  const wants = `Waits for offset ${count(hold.pull_from_offset)} of ${where};`;
  const end = queue ? queue.max_offset : hold.queue_max_offset;
  const arrived = end - hold.pull_from_offset;
  if (arrived <= 0) {
    const only = acceptsAll(hold.filter) ? "" : ` Only messages that ${hold.filter} accepts will wake it.`;
    return `${wants} the queue ends at ${count(end)}, so nothing new has arrived.${only}`;
  }
  const have = arrived === 1 ? "1 message has arrived" : `${count(arrived)} messages have arrived`;
  if (!acceptsAll(hold.filter)) {
    const they = arrived === 1 ? "it" : "them";
    return `${wants} ${have} since (the queue ends at ${count(end)}), but its filter ${hold.filter} rejects ${they}. `
      + "The next check of the table answers it without messages (filter advanced), so that its offset moves on.";
  }
  return `${wants} ${have} since (the queue ends at ${count(end)}), so it is being woken now.`;
}

function untilWhen(hold, now, longPollingEnable) {
  if (now === null) return "When it will be answered is unknown: the broker's clock is not known yet.";
  const left = hold.deadline_ms - now;
  if (left < 0) return `Its deadline passed ${seconds(-left)} ago, so its answer is due.`;
  const short = longPollingEnable === false ? " (longPollingEnable is off, so new pulls are held only briefly)" : "";
  return `It will be answered in ${seconds(left)} at the latest${short}.`;
}

/** How a hold ended. `wakeup` is null when its end is not among those that the page still knows. */
export function explainEnd(hold, wakeup) {
  const where = queueKey(hold.topic, hold.queue_id);
  if (!wakeup) return `No longer held on ${where}; how it ended is not among the wake-ups that this page still has.`;
  const { word, means } = cause(wakeup.cause);
  const held = `after ${micros(wakeup.held_us)}`;
  if (wakeup.cause === "channel_gone" || wakeup.cause === "cancelled") {
    return `Released ${held}: ${means}.`;
  }
  const brought = wakeup.messages === 1 ? "1 message" : `${count(wakeup.messages)} messages`;
  const wake = wakeup.wake_us > 0 ? `, ${micros(wakeup.wake_us)} after the message arrived` : "";
  return `Woken ${held} by ${word}: ${means}. It was answered with ${brought}${wake}.`;
}

/** One line for the in-page consumer: how a pull was answered. */
export function explainPull(hold, wakeUs, roundTripMs) {
  if (!hold) return "answered at once, without being held";
  const parts = [`held ${millis(hold.held_ms)}`, `woken by ${cause(hold.wake_cause).word}`];
  if (wakeUs !== null && wakeUs > 0) parts.push(`${micros(wakeUs)} after it arrived`);
  if (roundTripMs !== null) parts.push(`${millis(roundTripMs)} from Publish to this page`);
  return parts.join(", ");
}
