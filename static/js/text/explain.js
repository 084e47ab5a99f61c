/** Sentences that explain why a pull is held and how it ended. Pure. */

import { cause, count, dateTime, isAnswered, micros, millis, plural, seconds } from "./format.js";
import { queueKey } from "../reducer.js";
import { choose, t } from "./translate.js";

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
    const from = hold.queue_id < 0 ? t("any queue of {0}", hold.topic) : where;
    if (hold.waits_for) return waitForOrder(hold);
    const message = acceptsAll(hold.filter) ? t("a message") : t("a message that its filter {0} accepts", hold.filter);
    return t("Waits to pop {0} from {1}; the broker gives each message to one member of the group.", message, from);
  }
  const offset = t("Waits for offset {0} of {1};", count(hold.pull_from_offset), where);
  const end = queue ? queue.max_offset : hold.queue_max_offset;
  const arrived = end - hold.pull_from_offset;
  if (arrived <= 0) {
    const only = acceptsAll(hold.filter) ? "" : t(" Only a message that its filter {0} accepts wakes it.", hold.filter);
    return t("{0} the queue ends at {1}, so no new message has arrived.{2}", offset, count(end), only);
  }
  const have = plural(arrived, "{0} message has arrived since", "{0} messages have arrived since");
  if (!acceptsAll(hold.filter)) {
    return choose(arrived, "{0} {1} (the queue ends at {2}), but its filter {3} rejects it. The next check of the pullRequestTable answers it without messages (filter advanced), so that its offset moves on.",
      "{0} {1} (the queue ends at {2}), but its filter {3} rejects them. The next check of the pullRequestTable answers it without messages (filter advanced), so that its offset moves on.",
      offset, have, count(end), hold.filter);
  }
  return t("{0} {1} (the queue ends at {2}), so it is being woken now.", offset, have, count(end));
}

/** For what a pop in order waits: the messages of a queue's last pop must be acknowledged or visible again. */
export function waitForOrder({ topic, waits_for: { queue_id, messages, client_id, until_ms } }) {
  const who = client_id || t("an unknown client");
  return choose(messages, "Waits to pop in order: when its hold began, {2} was handed out to {1}, with {0} acknowledgement missing. The queue is free when it comes, at {3} at the latest.",
    "Waits to pop in order: when its hold began, {2} was handed out to {1}, with {0} acknowledgements missing. The queue is free when they come, at {3} at the latest.",
    count(messages), who, queueKey(topic, queue_id), dateTime(until_ms));
}

function waitEnd(hold, now, longPollingEnable) {
  if (now === null) return t("The time of its answer is unknown, because the broker's clock is not known yet.");
  const left = hold.deadline_ms - now;
  if (left < 0) return t("Its deadline passed {0} ago, so its answer is due.", seconds(-left));
  const short = longPollingEnable === false ? t(" (longPollingEnable is off: new pulls are held for shortPollingTimeMills only)") : "";
  return t("It will be answered in {0} at the latest{1}.", seconds(left), short);
}

/** How a hold ended. `wakeup` is null when the page no longer has it. */
export function explainEnd(hold, wakeup) {
  const where = queueKey(hold.topic, hold.queue_id);
  if (!wakeup) return t("No longer held on {0}; how it ended is unknown: this page no longer has its wake-up.", where);
  const { word, means } = cause(wakeup.cause);
  const held = t("after {0}", micros(wakeup.held_us));
  if (!isAnswered(wakeup.cause)) {
    return t("Released {0}: {1}.", held, means);
  }
  const brought = plural(wakeup.messages, "{0} message", "{0} messages");
  const wake = wakeup.wake_us > 0 ? t(", {0} after the message arrived", micros(wakeup.wake_us)) : "";
  return t("Woken {0} by {1}: {2}. It was answered with {3}{4}.", held, word, means, brought, wake);
}

/** A selected hold on a board of the past that is older than the hold. */
export function explainUnbegun(hold) {
  return t("Not held yet at this moment: its hold began at {0}.", dateTime(hold.suspended_at_ms));
}

/** How a pull of the in-page consumer was answered, in one line. */
export function explainPull(hold, wakeUs, roundTripMs) {
  if (!hold) return t("answered at once, not held");
  const parts = [t("held {0}", millis(hold.held_ms)), t("woken by {0}", cause(hold.wake_cause).word)];
  if (wakeUs !== null && wakeUs > 0) parts.push(t("{0} after the arrival", micros(wakeUs)));
  if (roundTripMs !== null) parts.push(t("{0} from Publish to this page", millis(roundTripMs)));
  return parts.join(t(", "));
}

/** What switching long polling on or off does to the pulls that are held now. `state` is the page's. */
export function switchEffect(on, { holds, holdsTotal, shortPollingTimeMills }) {
  const groups = new Set([...holds.values()].map(({ group }) => group)).size;
  const held = holdsTotal === null ? t("an unknown number of held pulls")
    : t("{0} of {1}{2}", plural(holdsTotal, "{0} held pull", "{0} held pulls"), holds.size < holdsTotal ? t("at least ") : "", plural(groups, "{0} group", "{0} groups"));
  if (on) return t("Affects {0}, and every pull from now on: it is held until a message arrives or its own deadline passes.", held);
  const brief = shortPollingTimeMills === null ? "shortPollingTimeMills" : t("{0} ms (shortPollingTimeMills)", count(shortPollingTimeMills));
  return t("Affects {0}, and every pull from now on: it is held for {1} only, so consumers ask far more often and receive empty answers.", held, brief);
}
