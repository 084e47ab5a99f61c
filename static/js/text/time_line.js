/** The story of a message, from its events. Pure. */

import { count, dateTime, isKnown, isSystemTopic, micros, millis, plural } from "./format.js";
import { DEAD, capitalize, isResent, isUnacknowledged } from "./explain_group.js";
import { dueOf } from "./message_text.js";
import { queueKey } from "../reducer.js";
import { t } from "./translate.js";

const number = (value) => (isKnown(value) ? Number(value) : null);

const STEPS = {
  messages_stored: (e) => [t("stored"), "calm", t("in the commit log, for {0}", queueKey(e.topic, e.queue_id))],
  flush_done: (e) => [t("flushed"), "good", t("on the disk; the flush took {0}", micros(number(e.took_us)))],
  messages_dispatched: (e) => [t("dispatched"), "calm", t("in {0}{1}", queueKey(e.topic, e.queue_id), isSystemTopic(e.topic) ? "" : t(", where consumers see it"))],
  half_message_stored: (e) => [t("half"), "warn", t("waits for the end of its transaction, then for {0}", e.topic)],
  transaction_checked: (e) => [t("checked"), "warn",
    t("check {0}: {1}", count(e.checks), e.client_id ? t("{0} was asked how its transaction ends", e.client_id) : t("no producer of {0} is connected", e.producer_group))],
  transaction_ended: (e) => ({
    committed: [t("committed"), "good", t("{0} ended its transaction: consumers see it", e.producer_group)],
    rolled_back: [t("rolled back"), "bad", t("{0} ended its transaction: no consumer sees it", e.producer_group)],
  })[e.outcome] ?? [t("given up"), "bad", t("the transaction did not end: {0}", e.reason)],
  messages_delayed: (e, message) => [t("delayed"), "warn", number(e.level) ? t("by delay level {0}", count(e.level)) : timed(e, message)],
  delay_elapsed: (e) => [t("due"), "good", `${number(e.level) ? t("the delay of level {0} is over", count(e.level)) : t("its time has come")}${late(e)}`],
  message_recalled: () => [t("recalled"), "bad", t("its producer recalled it: no consumer sees it")],
  delayed_messages_lost: (e) => [t("lost"), "bad", t("cannot be delivered: {0}", e.reason)],
  pull_woken: (e) => [t("woken"), "good", t("a pull that was held for {0}: {1}", millis(number(e.held_us) / 1000), wokenBy(e))],
  messages_delivered: (e) => [t("delivered"), "good", t("to {0}{1}", e.client_id || t("a client"), others(e))],
  messages_acknowledged: (e) => (e.late ? [t("late ack"), "warn", t("changed nothing: the delivery that it names no longer hides the message")]
    : [t("acknowledged"), "good", t("its delivery to the group is complete")]),
  invisible_time_changed: (e) => [t("lease"), "calm", number(e.invisible_ms) ? t("hidden for {0} from then on", millis(number(e.invisible_ms))) : t("visible again")],
  offset_committed: (e) => [t("committed"), "good", t("{0} moved the offset of {1} to {2}", e.client_id || t("the group"), queueKey(e.topic, e.queue_id), count(e.offset))],
  message_sent_back: (e) => (isResent(e) ? [t("sent again"), "calm", t("a dead letter, as a first attempt")] : [isUnacknowledged(e) ? t("no ack") : t("sent back"), "warn", t("to be delivered again (retry {0})", count(e.reconsume_times))]),
  message_dead_lettered: (e) => [t("dead"), "bad", t("moved to the dead letter queue: {0}", DEAD[e.reason] ?? e.reason)],
};

const timed = ({ wall_ms: at }, { properties }) => ("TIMER_OUT_MS" in properties ? t("until {0}", dateTime(dueOf(properties, number(at)))) : t("until its own time"));
const late = ({ late_ms: ms }) => (number(ms) > 0 ? t("; it was {0} late", millis(number(ms))) : "");
const wokenBy = (e) => (number(e.wake_us) > 0 ? t("{0} after the arrival", micros(number(e.wake_us))) : e.cause.replaceAll("_", " "));
const others = ({ messages }) => (number(messages) > 1 ? plural(number(messages) - 1, ", with {0} other message", ", with {0} other messages") : "");

/** The events of a message in the order of time; those that only the poll journal has are made from its entries. */
export function eventsOf({ events, journal = [] }) {
  const key = ({ type, wall_ms: at, group, client_id: client }) => [type, Number(at), group, client].join(" ");
  const known = new Set(events.map(key));
  const older = journal.flatMap(fromJournal).filter((event) => !known.has(key(event)));
  return older.length ? [...older, ...events].sort((a, b) => Number(a.wall_ms) - Number(b.wall_ms)) : events;
}

function fromJournal({ at_ms: at, kind, cause, topic, queue_id: queue, group, client_id: client, messages, held_us: held,
  wake_us: wake, next_offset: offset }) {
  const common = { wall_ms: at, topic, queue_id: queue, group, client_id: client };
  if (kind === "committed") return [{ ...common, type: "offset_committed", offset }];
  const delivered = { ...common, type: "messages_delivered", messages };
  return kind === "woken" ? [{ ...common, type: "pull_woken", cause, held_us: held, wake_us: wake }, delivered] : [delivered];
}

/**
 * The steps of a message in the order of time: [{at, word, tone, text, group}]. The first one is its birth, by its
 * producer's clock; all others are by the broker's. `group` is empty for what no group did.
 */
export function stepsOf(message, events) {
  const receivers = new Set(events.filter(({ type }) => type === "messages_delivered").map(({ group }) => group));
  const steps = events.filter(({ type }) => STEPS[type]).map((event) => {
    const [word, tone, text] = STEPS[event.type](event, message);
    const isPassed = event.type === "offset_committed" && !receivers.has(event.group);
    return { at: number(event.wall_ms), word, tone: isPassed ? "calm" : tone, text, group: event.group ?? "" };
  });
  if (!events.some(({ type }) => type === "messages_stored")) {
    const at = number(message.store_time_ms);
    const before = steps.filter((step) => step.at < at).length; // events of earlier copies, such as the one that was sent back
    steps.splice(before, 0, { at, word: t("stored"), tone: "calm", group: "",
      text: t("in the commit log, for {0}", queueKey(message.topic, message.queue_id)) });
  }
  return [{ at: number(message.born_time_ms), word: t("born"), tone: "none", group: "", text: t("at its producer, {0}", message.born_host) },
    ...steps];
}

/** What each group did with the message: [{group, word, tone, text}], in the order in which they received it. Unless the
 * events are `complete`, a group may have received the message although no event says so. */
export function groupsOf(message, events, complete) {
  const groups = new Map();
  for (const event of events) {
    if (!event.group || event.late || event.type === "invisible_time_changed") continue; // says nothing about the outcome
    if (!groups.has(event.group)) groups.set(event.group, { delivered: [], isPopped: false, acknowledged: null, committed: null, sentBack: 0, resent: 0, dead: message.topic === `%DLQ%${event.group}` ? "" : null });
    const entry = groups.get(event.group);
    if (event.type === "messages_delivered") {
      entry.delivered.push(number(event.wall_ms));
      entry.isPopped = entry.committed === number(event.wall_ms); // a pop moves the offset itself, when it delivers
      if (entry.isPopped) entry.committed = null;
    }
    if (event.type === "messages_acknowledged") entry.acknowledged = number(event.wall_ms);
    if (event.type === "offset_committed") entry.committed = number(event.wall_ms);
    if (event.type === "message_sent_back") entry[isResent(event) ? "resent" : "sentBack"] += 1;
    if (event.type === "message_dead_lettered") entry.dead = event.reason;
  }
  const stored = number(message.store_time_ms);
  return [...groups].map(([group, entry]) => ({ group, ...outcome(entry, stored, complete) }));
}

function outcome({ delivered, isPopped, acknowledged, committed, sentBack, resent, dead }, stored, complete) {
  // Events of one turn of the broker have one time: 0 ms is not measured.
  const after = (at) => at > stored ? t("{0} after it was stored", millis(at - stored))
    : at < stored ? t("{0} before this copy was stored", millis(stored - at)) : t("as soon as it was stored");
  const parts = [];
  if (delivered.length) parts.push(t("delivered {0}{1}", after(delivered[0]), delivered.length > 1 ? t(", {0} times in all", count(delivered.length)) : ""));
  if (sentBack) parts.push(plural(sentBack, "sent back once", "sent back {0} times"));
  if (resent) parts.push(plural(resent, "sent again once after it was dead", "sent again {0} times after it was dead"));
  if (acknowledged !== null) parts.push(t("acknowledged {0}", after(acknowledged)));
  if (committed !== null) parts.push(t("committed {0}", after(committed)));
  const text = capitalize(t("{0}.", parts.join(t("; "))));
  if (dead !== null) return { word: t("dead"), tone: "bad", text };
  if (acknowledged !== null) return { word: t("acknowledged"), tone: "good", text };
  if (committed !== null && !delivered.length && !sentBack && !resent) return passed(after(committed), complete);
  if (committed !== null) return { word: sentBack ? t("sent back") : t("committed"), tone: sentBack ? "warn" : "good", text };
  return { word: delivered.length ? t("delivered") : sentBack ? t("sent back") : t("sent again"), tone: "calm",
    text: isPopped ? t("{0}; not acknowledged yet, as far as is known.", text.slice(0, -1)) : t("{0}; not committed yet, as far as is known.", text.slice(0, -1)) };
}

/** The offset moved past a message that no event delivers: it is consumed only if an event is missing. */
function passed(when, complete) {
  if (complete) return { word: t("passed"), tone: "calm", text: t("Never delivered: skipped by a filter or a reset. The offset moved past it {0}.", when) };
  return { word: t("committed"), tone: "none", text: t("Committed {0}. It is not known whether it was delivered: older events are no longer kept.", when) };
}
