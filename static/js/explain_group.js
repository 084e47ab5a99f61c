/** Sentences about groups, their members and queues, and about their events. Pure. */

import { acceptsAll } from "./explain.js";
import { count, isKnown, plural, span } from "./format.js";
import { queueKey } from "./reducer.js";

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
};

/** Mark, word and tone of a queue's state. An unassigned queue is a warning only while it has a lag. */
export function queueState(queue) {
  const state = QUEUE_STATES[queue.state] ?? { mark: "·", word: String(queue.state), tone: "none" };
  return queue.state === "unassigned" && queue.lag > 0 ? { ...state, tone: "warn" } : state;
}

/** Whether a client other than the one that the queue is assigned to pulled from it within the last 20 s. */
export function isPolledByAnother(queue) {
  return Boolean(queue.assigned_to && queue.polled_by && queue.polled_by !== queue.assigned_to
    && queue.polled_ms_ago !== null && queue.polled_ms_ago < RECENTLY_MS);
}

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

/** The state of a group in the list, from its few figures. `rank` sorts the worst first. The list counts only lag behind
 * committed offsets, so a lag of 0 means that none is known. */
export function groupState(group) {
  if (!group.members) {
    if (group.holds) return { mark: "◌", word: "pulled by non-members", tone: "calm", rank: 2 };
    return group.lag > 0 ? { mark: "✖", word: "no members", tone: "bad", rank: 0 }
      : { mark: "○", word: "no members", tone: "none", rank: 4 };
  }
  if (group.lag > 0) {
    return group.holds ? { mark: "◔", word: "behind", tone: "calm", rank: 3 }
      : { mark: "▲", word: "behind, no held pull", tone: "warn", rank: 1 };
  }
  return { mark: "●", word: "no known lag", tone: "good", rank: 5 };
}

/**
 * Why the group's consumers wait or do not consume: [{tone, text}], the worst first. `broker` is the page's broker when
 * the page shows one of several.
 */
export function explainGroup(group, broker = "") {
  const own = group.queues.filter((queue) => !isRetryTopic(queue.topic));
  const lines = group.members.length ? withMembers(group, own, broker) : withoutMembers(group);
  lines.push(...lagLines(group), ...retryLines(group));
  if (!lines.some(({ tone }) => tone === "bad" || tone === "warn") && group.members.length) lines.push(noProblem(group, own));
  return lines.length ? lines : [{ tone: "none", text: "The group has no queues and no held pulls." }];
}

function withoutMembers(group) {
  if (!group.holds.length) {
    const recent = [...new Set(group.queues.filter(({ state }) => state === "polling").map(({ polled_by: by }) => by || "a client"))];
    if (recent.length) return [{ tone: "calm", text: `No member is online, but ${joinNames(recent)} pulled for this group a moment ago.` }];
    return [{ tone: sum(group.queues, "lag") > 0 ? "bad" : "none", text: "No member is online, and no client is pulling." }];
  }
  const clients = [...new Set(group.holds.map((hold) => hold.client_id).filter(Boolean))];
  const pulls = group.holds.length === 1 ? "1 pull is" : `${count(group.holds.length)} pulls are`;
  return [{ tone: "calm", text: `No member is online, but ${pulls} held for this group${clients.length ? `, from ${joinNames(clients)}` : ""}. `
    + "A pull that names a group does not make its client a member: such clients choose their queues themselves." }];
}

function withMembers(group, own, broker) {
  const lines = [];
  for (const [client, queues] of byOwner(own.filter((queue) => queue.state === "not_polling" && queue.assigned_to))) {
    lines.push(...notPollingLines(client, queues));
  }
  if (group.missing_topics?.length) lines.push({ tone: "warn", text: missingTopics(group.missing_topics, broker) });
  const orphans = own.filter((queue) => queue.state === "unassigned");
  if (orphans.length) {
    lines.push({ tone: sum(orphans, "lag") > 0 ? "warn" : "none",
      text: `No member subscribes to ${joinNames([...new Set(orphans.map((queue) => queue.topic))])}.` });
  }
  const members = new Set(group.members.map(({ client_id: id }) => id));
  for (const queue of own.filter(isPolledByAnother)) {
    const reason = members.has(queue.polled_by) ? "the members allocate queues differently, or have not rebalanced yet"
      : `${queue.polled_by} is not a member`;
    lines.push({ tone: "warn", text: `${queuePlace(queue)} is assigned to ${queue.assigned_to}, but ${queue.polled_by} pulls from it: ${reason}.` });
  }
  const idle = idleMembers(group);
  if (idle.length) lines.push({ tone: "none", text: idleSentence(group, own, idle) });
  return lines;
}

function missingTopics(topics, broker) {
  const where = broker ? ` on ${broker}` : "";
  const [which, create] = topics.length === 1 ? ["this topic does not exist", "it, or send a first message to it"]
    : ["these topics do not exist", "them, or send a first message to each"];
  return `The group subscribes to ${joinNames(topics)}, but ${which}${where}. Create ${create} if autoCreateTopicEnable is on.`;
}

/** The broker remembers the last pull of each queue alone, so what the owner did before another client is unknown. */
function notPollingLines(client, queues) {
  const last = { own: [], other: [], none: [] };
  for (const queue of queues) last[queue.polled_by === client ? "own" : queue.polled_by ? "other" : "none"].push(queue);
  const line = (list, text) => ({ tone: "bad", text: `${joinNames(list.map(queuePlace))} ${be(list)} assigned to ${client}, ${text(list)}` });
  return [
    last.own.length && line(last.own, (list) => `which has not pulled for ${age(Math.min(...list.map((queue) => queue.polled_ms_ago)))}. `
      + "It may be busy, paused or stuck."),
    last.other.length && line(last.other, (list) => `but the last pull came from ${joinNames([...new Set(list.map((queue) => queue.polled_by))])}.`),
    last.none.length && line(last.none, (list) => `which has not pulled from ${list.length === 1 ? "it" : "them"} yet.`),
  ].filter(Boolean);
}

const be = (list) => (list.length === 1 ? "is" : "are");
const queuePlace = (queue) => queueKey(queue.topic, queue.queue_id);

function byOwner(queues) {
  const owners = new Map();
  for (const queue of queues) owners.set(queue.assigned_to, [...(owners.get(queue.assigned_to) ?? []), queue]);
  return owners;
}

/** The members of a CLUSTERING group that have no queue. */
export function idleMembers(group) {
  if (group.message_model !== "CLUSTERING") return [];
  return group.assignment.filter(({ queues }) => !queues.length).map(({ client_id: id }) => id);
}

function idleSentence(group, own, idle) {
  const queues = own.filter((queue) => queue.assigned_to).length;
  return `${plural(group.members.length, "member")} for ${plural(queues, "queue")}: ${joinNames(idle)} ${idle.length === 1 ? "has" : "have"} `
    + "no queue. A queue is consumed by one member at a time.";
}

/** The known lag in messages and time, and for how many queues it is unknown. */
function lagLines(group) {
  const lines = [];
  const behind = group.queues.filter((queue) => queue.lag > 0);
  if (behind.length) lines.push({ tone: "none", text: lagSentence(group, behind) });
  const unknown = group.queues.filter((queue) => !isKnown(queue.lag)).length;
  if (unknown) lines.push({ tone: "none", text: `The lag of ${plural(unknown, "queue")} is unknown: the group has not committed an offset there.` });
  return lines;
}

function lagSentence(group, behind) {
  const oldest = Math.max(...behind.map((queue) => queue.lag_ms ?? 0));
  const pulled = behind.filter((queue) => uncommittedPulls(queue) > 0);
  const messages = pulled.reduce((total, queue) => total + uncommittedPulls(queue), 0);
  const lag = sum(behind, "lag");
  const stored = oldest > 0 ? `; the oldest was stored ${age(oldest)} ago` : "";
  const first = `Lag: ${plural(lag, "message")} in ${plural(behind.length, "queue")}${stored}.`;
  if (!messages) return first;
  const which = messages === lag ? (lag === 1 ? "It" : "All of them") : `${count(messages)} of them`;
  return `${first} ${which} ${messages === 1 ? "is" : "are"} ${pulledNotCommitted(pulled.some(({ topic }) => isFiltered(group, topic)))}.`;
}

/** How many messages entered the retry topic so far (its queues' max offsets), and how many are dead letters. */
function retryLines({ queues, retries }) {
  const times = sum(queues.filter(({ topic }) => isRetryTopic(topic)), "max_offset");
  const dead = sum(retries ?? [], "dead_letters");
  return [
    times > 0 && { tone: "none", text: `Retry topic: ${plural(times, "message")} so far. Members sent them back to consume them again later.` },
    dead > 0 && { tone: "none", text: `Dead letter queue: ${plural(dead, "message")}, which the group does not receive again.` },
  ].filter(Boolean);
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

function noProblem(group, own) {
  const held = own.filter((queue) => queue.state === "held").length;
  if (own.length && held === own.length) {
    const strict = group.subscriptions.some(({ topic, sub_string: text }) => !isRetryTopic(topic) && !acceptsAll(text));
    const pulls = own.length === 1 ? "A pull is held on its only queue" : `Pulls are held on all ${count(own.length)} queues`;
    return { tone: "good", text: `${pulls}: a new message${strict ? " that the subscription accepts" : ""} is delivered at once.` };
  }
  const online = group.members.length === 1 ? "1 member is online" : `${count(group.members.length)} members are online`;
  return { tone: "good", text: own.length ? `${online}. Pulls are held on ${count(held)} of ${plural(own.length, "queue")}.` : `${online}. The group has no queues.` };
}

export const sum = (list, name) => list.reduce((total, entry) => total + (entry[name] ?? 0), 0);

/** The sum of the known values; null if there are values and none is known. */
export function knownSum(list, name) {
  const known = list.map((entry) => entry[name]).filter(isKnown);
  return known.length || !list.length ? known.reduce((total, value) => total + value, 0) : null;
}

/** Merges the entries of several brokers into one a group. Lag and holds are added up. A client is a member at each
 * broker that it is connected to, so `members` is the largest number of one broker, not the sum. */
export function mergeBrokers(groups) {
  const merged = new Map();
  for (const { broker, ...group } of groups) {
    const entry = merged.get(group.group);
    merged.set(group.group, entry === undefined ? { ...group, brokers: [broker] } : { ...entry,
      brokers: [...entry.brokers, broker], topics: [...new Set([...entry.topics, ...group.topics])].sort(),
      lag: knownSum([entry, group], "lag"), holds: entry.holds + group.holds, members: Math.max(entry.members, group.members),
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
  if (client.last_heartbeat_ms === null) return { text: "none", tone: client.protocol === "websocket" ? "none" : "calm" };
  if (now === null) return { text: "unknown", tone: "none" };
  const since = Math.max(0, now - client.last_heartbeat_ms);
  const tone = since > EXPIRES_MS ? "bad" : since > LATE_HEARTBEAT_MS ? "warn" : "none";
  return { text: since < 1000 ? "now" : `${span(since)} ago`, tone };
}

// --- Events -------------------------------------------------------------------------------------------------------

const LEFT = { unregister: "it unregistered", channel_closed: "its connection closed", expired: "it sent no heartbeat for 120 s" };
const NOTIFIED = { joined: "a member joined", reconnected: "a member reconnected", left: "a member left",
  subscription: "a subscription changed", retry_topic: "the group's retry topic was created" };
const DEAD = { exhausted: "the group's maximum of retries is reached", asked: "its consumer asked for it",
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
  message_sent_back: (e) => ["↩", "retry", "warn",
    `Message ${e.message_id} of ${e.topic} was sent back and will be delivered again (retry ${count(e.reconsume_times)}).`],
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
