/** The story of a message, from its events. Pure. */

import { count, dateTime, isKnown, isSystemTopic, micros, millis, plural, span } from "./format.js";
import { DEAD, capitalize, isResent, isUnacknowledged } from "./explain_group.js";
import { dueOf } from "./message_text.js";
import { queueKey } from "../reducer.js";

const number = (value) => (isKnown(value) ? Number(value) : null);

const STEPS = {
  messages_stored: (e) => ["stored", "calm", `in the commit log, for ${queueKey(e.topic, e.queue_id)}`],
  flush_done: (e) => ["flushed", "good", `on the disk; the flush took ${micros(number(e.took_us))}`],
  messages_dispatched: (e) => ["dispatched", "calm", `in ${queueKey(e.topic, e.queue_id)}${isSystemTopic(e.topic) ? "" : ", where consumers see it"}`],
  half_message_stored: (e) => ["half", "warn", `waits for the end of its transaction, then for ${e.topic}`],
  transaction_checked: (e) => ["checked", "warn",
    `check ${count(e.checks)}: ${e.client_id ? `${e.client_id} was asked how its transaction ends` : `no producer of ${e.producer_group} is connected`}`],
  transaction_ended: (e) => ({
    committed: ["committed", "good", `${e.producer_group} ended its transaction: consumers see it`],
    rolled_back: ["rolled back", "bad", `${e.producer_group} ended its transaction: no consumer sees it`],
  })[e.outcome] ?? ["given up", "bad", `the transaction did not end: ${e.reason}`],
  messages_delayed: (e, message) => ["delayed", "warn", number(e.level) ? `by delay level ${count(e.level)}` : timed(e, message)],
  delay_elapsed: (e) => ["due", "good", `${number(e.level) ? `the delay of level ${count(e.level)} is over` : "its time has come"}${late(e)}`],
  message_recalled: () => ["recalled", "bad", "its producer recalled it: no consumer sees it"],
  delayed_messages_lost: (e) => ["lost", "bad", `cannot be delivered: ${e.reason}`],
  pull_woken: (e) => ["woken", "good", `a pull that was held for ${millis(number(e.held_us) / 1000)}: ${wokenBy(e)}`],
  messages_delivered: (e) => ["delivered", "good", `to ${e.client_id || "a client"}${others(e)}`],
  offset_committed: (e) => ["committed", "good", `${e.client_id || "the group"} moved the offset of ${queueKey(e.topic, e.queue_id)} to ${count(e.offset)}`],
  message_sent_back: (e) => (isResent(e) ? ["sent again", "calm", "a dead letter, as a first attempt"] : [isUnacknowledged(e) ? "no ack" : "sent back", "warn", `to be delivered again (retry ${count(e.reconsume_times)})`]),
  message_dead_lettered: (e) => ["dead", "bad", `moved to the dead letter queue: ${DEAD[e.reason] ?? e.reason}`],
};

const timed = ({ wall_ms: at }, { properties }) => ("TIMER_OUT_MS" in properties ? `until ${dateTime(dueOf(properties, number(at)))}` : "until its own time");
const late = ({ late_ms: ms }) => (number(ms) > 0 ? `; it was ${span(number(ms))} late` : "");
const wokenBy = (e) => (number(e.wake_us) > 0 ? `${micros(number(e.wake_us))} after the arrival` : e.cause.replaceAll("_", " "));
const others = ({ messages }) => (number(messages) > 1 ? `, with ${plural(number(messages) - 1, "other message")}` : "");

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
    steps.unshift({ at: number(message.store_time_ms), word: "stored", tone: "calm", group: "",
      text: `in the commit log, for ${queueKey(message.topic, message.queue_id)}` });
  }
  return [{ at: number(message.born_time_ms), word: "born", tone: "none", group: "", text: `at its producer, ${message.born_host}` },
    ...steps];
}

/** What each group did with the message: [{group, word, tone, text}], in the order in which they received it. Unless the
 * events are `complete`, a group may have received the message although no event says so. */
export function groupsOf(message, events, complete) {
  const groups = new Map();
  for (const event of events) {
    if (!event.group) continue;
    if (!groups.has(event.group)) groups.set(event.group, { delivered: [], committed: null, sentBack: 0, resent: 0, dead: null });
    const entry = groups.get(event.group);
    if (event.type === "messages_delivered") entry.delivered.push(number(event.wall_ms));
    if (event.type === "offset_committed") entry.committed = number(event.wall_ms);
    if (event.type === "message_sent_back") entry[isResent(event) ? "resent" : "sentBack"] += 1;
    if (event.type === "message_dead_lettered") entry.dead = event.reason;
  }
  const stored = number(message.store_time_ms);
  return [...groups].map(([group, entry]) => ({ group, ...outcome(entry, stored, complete) }));
}

function outcome({ delivered, committed, sentBack, resent, dead }, stored, complete) {
  const after = (at) => `${millis(Math.max(0, at - stored))} after it was stored`;
  const parts = [];
  if (delivered.length) parts.push(`delivered ${after(delivered[0])}${delivered.length > 1 ? `, ${count(delivered.length)} times in all` : ""}`);
  if (sentBack) parts.push(`sent back ${sentBack === 1 ? "once" : `${count(sentBack)} times`}`);
  if (resent) parts.push(`sent again ${resent === 1 ? "once" : `${count(resent)} times`} after it was dead`);
  if (committed !== null) parts.push(`committed ${after(committed)}`);
  const text = capitalize(`${parts.join("; ")}.`);
  if (dead !== null) return { word: "dead", tone: "bad", text };
  if (committed !== null && !delivered.length && !sentBack && !resent) return passed(after(committed), complete);
  if (committed !== null) return { word: sentBack ? "sent back" : "committed", tone: sentBack ? "warn" : "good", text };
  return { word: delivered.length ? "delivered" : sentBack ? "sent back" : "sent again", tone: "calm", text: `${text.slice(0, -1)}; not committed yet, as far as is known.` };
}

/** The offset moved past a message that no event delivers: it is consumed only if an event is missing. */
function passed(when, complete) {
  if (complete) return { word: "passed", tone: "calm", text: `Never delivered: skipped by a filter or a reset. The offset moved past it ${when}.` };
  return { word: "committed", tone: "none", text: `Committed ${when}. It is not known whether it was delivered: older events are no longer kept.` };
}
