/** How groups, their queues and members, and their events are shown. The server judges the groups. Pure. */

import { acceptsAll } from "./explain.js";
import { UNKNOWN, count, isKnown, plural, span, withLocalTimes } from "./format.js";
import { queueKey } from "../reducer.js";

const RECENTLY_MS = 20_000;
const NAMED_AT_MOST = 4;
const EXPIRES_MS = 120_000;
const LATE_HEARTBEAT_MS = 45_000;

/** "a", "a and b", "a, b, c, d and 3 more". */
export function joinNames(names) {
  const shown = names.slice(0, NAMED_AT_MOST);
  if (names.length > NAMED_AT_MOST) return `${shown.join(", ")} and ${count(names.length - NAMED_AT_MOST)} more`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** An age in at most two units; "12 s" under a minute. */
export const age = (ms) => (ms < 1000 ? "less than 1 s" : span(ms));

export const isRetryTopic = (topic) => topic.startsWith("%RETRY%");

// --- Queues -------------------------------------------------------------------------------------------------------

const QUEUE_STATES = {
  held: { mark: "●", word: "held", tone: "good" },
  polling: { mark: "◔", word: "polling", tone: "calm" },
  not_polling: { mark: "✖", word: "not polling", tone: "bad" },
  unassigned: { mark: "○", word: "unassigned", tone: "none" },
  not_known: { mark: "?", word: "not known", tone: "none" },
};

/** Mark, word and tone of a queue's state. An unassigned queue is a warning only while it has a lag. */
export function queueState(queue) {
  const state = QUEUE_STATES[queue.state] ?? { mark: "·", word: String(queue.state), tone: "none" };
  return queue.state === "unassigned" && queue.lag > 0 ? { ...state, tone: "warn" } : state;
}

/** Whether a client other than the one that the queue is assigned to pulled from it within the last 20 s. */
export function isPolledByAnother(queue) {
  return Boolean(queue.assigned_to && queue.polled_by !== queue.assigned_to && isRecentlyPolled(queue));
}

/** Whether a client pulled from the queue within the last 20 s. */
export const isRecentlyPolled = ({ polled_by: by, polled_ms_ago: ago }) => Boolean(by && isKnown(ago) && ago < RECENTLY_MS);

/** Whether the queue is stalled, polled by the wrong client, or locked by another member. */
export const hasProblem = (queue) => ["bad", "warn"].includes(queueState(queue).tone) || isPolledByAnother(queue)
  || Boolean(queue.locked_by && queue.assigned_to && queue.locked_by !== queue.assigned_to);

/** The broker's sentence about the queue, how long its pull has been held, and what is pulled but not committed.
 * `heldMs` is null when no pull is held; `filtered`: see isFiltered. */
export function explainQueue(queue, heldMs, filtered = false) {
  const reason = reasonOf(queue);
  const parts = [reason && !/[.!?]$/.test(reason) ? `${reason}.` : reason];
  if (queue.state === "held" && heldMs !== null) parts.push(`Held for ${age(heldMs)}.`);
  const uncommitted = uncommittedPulls(queue);
  if (uncommitted > 0) parts.push(`${plural(uncommitted, "message is", "messages are")} ${pulledNotCommitted(filtered)}.`);
  if (isPolledByAnother(queue)) parts.push(`${queue.polled_by} pulls from it, although it is assigned to ${queue.assigned_to}.`);
  return parts.filter(Boolean).join(" ");
}

const pulledNotCommitted = (filtered) => `pulled${filtered ? ", or skipped by the filter," : ""} but not committed yet`;

/** The broker's sentence, without the owner's name at its start: the row shows the name already. */
function reasonOf({ why, assigned_to: owner, polled_by: by }) {
  if (owner && why?.startsWith(`${owner} `)) return capitalize(why.slice(owner.length + 1));
  return by && why?.startsWith(by) ? why : capitalize(why ?? "");
}

export const capitalize = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** Whether the group's filter may skip messages of the topic. Only `*` certainly accepts all; an unknown filter may skip. */
export function isFiltered({ subscriptions }, topic) {
  const subscription = subscriptions.find((entry) => entry.topic === topic);
  return subscription === undefined || !acceptsAll(subscription.sub_string);
}

/** How many messages lie between the committed offset and the last pull: delivered, or skipped by the filter. */
export function uncommittedPulls(queue) {
  if (!isKnown(queue.offset) || !isKnown(queue.pull_offset) || queue.state === "unassigned") return 0;
  return Math.max(0, Math.min(queue.pull_offset, queue.max_offset) - queue.offset);
}

// --- Groups -------------------------------------------------------------------------------------------------------

const GROUP_STATES = {
  stalled: { mark: "✖", tone: "bad", rank: 0 },
  stopped: { mark: "■", tone: "bad", rank: 1 },
  "falling behind": { mark: "▲", tone: "warn", rank: 2 },
  unknown: { mark: "?", tone: "none", rank: 3 },
  "catching up": { mark: "◔", tone: "calm", rank: 4 },
  ok: { mark: "●", tone: "good", rank: 6 },
};
const SEVERITY_TONES = { error: "bad", warning: "warn", info: "none", ok: "good" };

/** Whether a group of the list is stopped while nothing waits for it. */
const isOver = ({ state, lag, unknown_queues: unknown }) => state === "stopped" && lag !== undefined && !lag && !unknown;

/** Mark, word, tone and rank (the worst first) of the state that the server gives a group. A stopped group is no problem
 * while nothing waits for it. `lag` and `unknown_queues` are those of the list, or undefined. */
export function groupState(group) {
  const known = GROUP_STATES[group.state] ?? { mark: "·", tone: "none", rank: 3 };
  return { ...known, ...(isOver(group) ? { mark: "○", tone: "none", rank: 5 } : {}), word: String(group.state) };
}

/** How many groups are in each state, the worst first, without empty states: [["stalled", 3], ["ok", 17]]. */
export function countStates(groups) {
  const counts = new Map(Object.keys(GROUP_STATES).map((state) => [state, 0]));
  for (const { state } of groups) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].filter(([, number]) => number);
}

/** A verdict as a line of the page: {tone, text, advice}. Advice is shown where there is something to do. */
export function verdictLine({ severity, sentence, advice }) {
  return { tone: SEVERITY_TONES[severity] ?? "none", text: withLocalTimes(sentence), advice: ["error", "warning"].includes(severity) ? advice : "" };
}

/** The lag of a group in the list: "912", "≥ 912" or "unknown". */
export function lagText({ lag, unknown_queues: unknown }) {
  if (!isKnown(lag) || (unknown && !lag)) return UNKNOWN;
  return `${unknown ? "≥ " : ""}${count(lag)}`;
}

/**
 * The messages that wait for a retry: "3; next retry in 8 s". While the broker has not counted all of them, another one
 * may be due earlier. `now` is the broker's time, or null.
 */
export function waitingText(retries, now) {
  const waiting = sum(retries, "waiting");
  const least = retries.every(({ counted }) => counted) ? "" : "at least ";
  if (!waiting) return least ? "not counted yet" : "none";
  const due = Math.min(...retries.map((entry) => entry.next_due_ms).filter(isKnown));
  if (now === null || !Number.isFinite(due)) return `${least}${count(waiting)}`;
  const when = due <= now ? "due now" : `in ${age(due - now)}`;
  return `${least}${count(waiting)}; ${least ? "one retry" : "next retry"} ${when}`;
}

export const sum = (list, name) => list.reduce((total, entry) => total + (entry[name] ?? 0), 0);

/** The sum of the known values; null if there are values and none is known. */
export function knownSum(list, name) {
  const known = list.map((entry) => entry[name]).filter(isKnown);
  return known.length || !list.length ? known.reduce((total, value) => total + value, 0) : null;
}

/** The worse state of a group at two brokers. A broker where the group is stopped and nothing waits has only its old
 * offsets, so the other broker's state counts. */
function worse(one, other) {
  if (isOver(one) !== isOver(other)) return isOver(one) ? other.state : one.state;
  return groupState(one).rank <= groupState(other).rank ? one.state : other.state;
}

const largest = (one, other) => (isKnown(one) && isKnown(other) ? Math.max(one, other) : one ?? other ?? null);

/** Merges the entries of several brokers into one a group. Lag and holds are added up. A client is a member at each
 * broker that it is connected to, so `members` is the largest number of one broker, not the sum. */
export function mergeBrokers(groups) {
  const merged = new Map();
  for (const { broker, ...group } of groups) {
    const entry = merged.get(group.group);
    merged.set(group.group, entry === undefined ? { ...group, brokers: [broker] } : { ...entry,
      state: worse(entry, group), unknown_queues: entry.unknown_queues + group.unknown_queues,
      brokers: [...entry.brokers, broker], topics: [...new Set([...entry.topics, ...group.topics])].sort(),
      lag: knownSum([entry, group], "lag"), oldest_ms: largest(entry.oldest_ms, group.oldest_ms),
      consume_tps: knownSum([entry, group], "consume_tps"), retrying: knownSum([entry, group], "retrying"),
      dead_letters: sum([entry, group], "dead_letters"), holds: knownSum([entry, group], "holds"), members: Math.max(entry.members, group.members),
      message_model: entry.message_model || group.message_model });
  }
  return [...merged.values()];
}

// --- Clients ------------------------------------------------------------------------------------------------------

const LANGUAGES = { JAVA: "Java", GO: "Go", CPP: "C++", DOTNET: ".NET", PYTHON: "Python", NODE_JS: "Node.js", RUST: "Rust",
  PHP: "PHP", RUBY: "Ruby", ERLANG: "Erlang", DELPHI: "Delphi" };

/** A client's language and version, or its protocol: "Java 5.4.0", "WebSocket". */
export function clientKind(client) {
  if (client.protocol === "websocket") return "WebSocket";
  if (client.protocol === "http") return "HTTP";
  const language = LANGUAGES[client.language] ?? client.language;
  if (!language) return "RocketMQ";
  return client.version ? `${language} ${client.version}` : language;
}

/** The age of the last heartbeat: {text, tone}. A WebSocket, or a producer without groups, sends none. */
export function heartbeat(client, now) {
  if (client.last_heartbeat_ms === null && client.connected_at_ms === null) return { text: "unknown", tone: "none" };
  if (client.last_heartbeat_ms === null) return { text: "none", tone: client.protocol === "websocket" ? "none" : "calm" };
  if (now === null) return { text: "unknown", tone: "none" };
  const since = Math.max(0, now - client.last_heartbeat_ms);
  const tone = since > EXPIRES_MS ? "bad" : since > LATE_HEARTBEAT_MS ? "warn" : "none";
  return { text: since < 1000 ? "now" : `${span(since)} ago`, tone };
}

// --- Events -------------------------------------------------------------------------------------------------------

const LEFT = { unregister: "it unregistered", channel_closed: "its connection closed", expired: "it sent no heartbeat for 120 s",
  unlisted: "its broker does not list it any more" };
const NOTIFIED = { joined: "a member joined", reconnected: "a member reconnected", left: "a member left",
  subscription: "a subscription changed", retry_topic: "the group's retry topic was created" };
/** Whether the event is about a dead letter that was sent again: a consumer's own retries begin at 1. */
export const isResent = ({ reconsume_times: times }) => Number(times) === 0;
/** Whether a popped message came back: its lease is over, or it was given back. Only messages that are sent back are delayed. */
export const isUnacknowledged = ({ delay_level: level }) => Number(level) === 0;
/** Why a message is dead, by the `reason` of its event. */
export const DEAD = { exhausted: "the group's maximum of retries is reached", asked: "its consumer asked for it",
  ordered: "the group consumes in order, and its consumer gave the message up" };
const UNLOCKED = { unlock: "released it", unregister: "left the group", expired: "did not renew it" };

const EVENTS = {
  client_connected: (e) => ["●", "connected", "good", `${clientName(e)} connected from ${e.remote || "an unknown address"}.`],
  client_identified: (e) => ["●", "identified", "calm", `${e.remote} is ${clientName(e)}, ${clientKind({ ...e, version: "" })}.`],
  client_lost: (e) => ["○", "disconnected", "none", `${clientName(e)} at ${e.remote || "an unknown address"} disconnected${releasedHolds(e)}.`],
  group_member_joined: (e) => ["▲", "joined", "good", `${e.client_id} joined. ${memberCount(e)}`],
  group_member_left: (e) => ["▼", "left", e.cause === "unregister" ? "none" : "warn",
    `${e.client_id} left: ${LEFT[e.cause] ?? e.cause}. ${memberCount(e)}`],
  subscription_changed: (e) => ["✎", "subscription", "calm", subscriptionChange(e)],
  consumer_ids_notified: (e) => ["↻", "rebalance", "calm",
    `${e.members === 1 ? "1 member was" : `${count(e.members)} members were`} notified to rebalance: ${NOTIFIED[e.cause] ?? e.cause}.`],
  queue_taken: (e) => ["→", "queue", "calm", `${e.client_id} now pulls from ${queueKey(e.topic, e.queue_id)}${
    e.previous ? `, instead of ${e.previous}` : ""}.`],
  queue_locked: (e) => ["■", "locked", "calm", `${e.client_id} locked ${queueKey(e.topic, e.queue_id)} to consume it in order.`],
  queue_unlocked: (e) => ["□", "unlocked", e.cause === "expired" ? "warn" : "none",
    `The lock on ${queueKey(e.topic, e.queue_id)} ended: ${e.client_id} ${UNLOCKED[e.cause] ?? e.cause}.`],
  offset_reset: (e) => ["⇤", "offset reset", "warn", `The offset of ${queueKey(e.topic, e.queue_id)} was reset to ${count(e.offset)}${
    e.previous >= 0 ? `; it was ${count(e.previous)}` : ""}.`],
  message_sent_back: (e) => (isResent(e) ? ["↪", "sent again", "calm",
    `The dead letter ${e.message_id} of ${e.topic} was sent to the group again, as a first attempt.`] : ["↩", "retry", "warn",
    `Message ${e.message_id} of ${e.topic} ${isUnacknowledged(e) ? "came back without an ack" : "was sent back"} and will be delivered again (retry ${count(e.reconsume_times)}).`]),
  message_dead_lettered: (e) => ["✖", "dead letter", "bad",
    `Message ${e.message_id} of ${e.topic} was moved to the dead letter queue: ${DEAD[e.reason] ?? e.reason}.`],
  subscription_group_changed: (e) => ["✎", "configuration", "none", `The group's configuration was ${e.action}.`],
};

/** One event: {mark, word, tone, text}. */
export function explainEvent(event) {
  const [mark, word, tone, text] = EVENTS[event.type]?.(event) ?? ["·", String(event.type).replaceAll("_", " "), "none", ""];
  return { mark, word, tone, text };
}

const clientName = (e) => e.client_id || "A client";
const memberCount = ({ members }) => `The group has ${members === 0 ? "no members" : plural(members, "member")} now.`;
const releasedHolds = (e) => (e.holds_released > 0
  ? `; ${count(e.holds_released)} of its held pulls ${e.holds_released === 1 ? "was" : "were"} released` : "");

function subscriptionChange(e) {
  if (!e.expression) return `The group no longer subscribes to ${e.topic}.`;
  if (!e.previous) return `The group subscribes to ${e.topic}: ${e.expression}.`;
  return `The group's subscription to ${e.topic} changed from ${e.previous} to ${e.expression}.`;
}
