/** Sentences about groups, their members and queues, and about what becomes of them. Pure. */

import { acceptsAll } from "./explain.js";
import { count, isKnown, some, span } from "./format.js";
import { queueKey } from "./reducer.js";

const RECENTLY_MS = 20_000;
const NAMED_AT_MOST = 4;
const EXPIRES_MS = 120_000;
const LATE_HEARTBEAT_MS = 45_000;

/** "a", "a and b", "a, b, c, d and 3 more". */
export function listed(names) {
  const shown = names.slice(0, NAMED_AT_MOST);
  if (names.length > NAMED_AT_MOST) return `${shown.join(", ")} and ${count(names.length - NAMED_AT_MOST)} more`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** An age in at most two units; under a minute "12 s". */
export const age = (ms) => (ms < 1000 ? "less than 1 s" : span(ms));

export const retryTopic = (topic) => topic.startsWith("%RETRY%");

// --- Queues -------------------------------------------------------------------------------------------------------

const QUEUE_STATES = {
  held: { mark: "●", word: "held", tone: "good" },
  polling: { mark: "◔", word: "polling", tone: "calm" },
  not_polling: { mark: "✖", word: "not polling", tone: "bad" },
  unassigned: { mark: "○", word: "nobody", tone: "none" },
};

/** Mark, word and tone of a queue's state. Nobody on a queue with messages is worse than nobody on an empty one. */
export function queueState(queue) {
  const found = QUEUE_STATES[queue.state] ?? { mark: "·", word: String(queue.state), tone: "none" };
  return queue.state === "unassigned" && queue.lag > 0 ? { ...found, tone: "warn" } : found;
}

/** Whether somebody other than the one who should have it asked for it a moment ago. */
export function isTakenByAnother(queue) {
  return Boolean(queue.assigned_to && queue.polled_by && queue.polled_by !== queue.assigned_to
    && queue.polled_ms_ago !== null && queue.polled_ms_ago < RECENTLY_MS);
}

export const standsOut = (queue) => ["bad", "warn"].includes(queueState(queue).tone) || isTakenByAnother(queue)
  || Boolean(queue.locked_by && queue.assigned_to && queue.locked_by !== queue.assigned_to);

/** What the broker says of the queue, how long it is so, and what is under way. `heldMs` is null when it is not held;
 * `filtered`: see isFiltered. */
export function explainQueue(queue, heldMs, filtered = false) {
  const said = sentence(queue);
  const parts = [said && !/[.!?]$/.test(said) ? `${said}.` : said];
  if (queue.state === "held" && heldMs !== null) parts.push(`Held for ${age(heldMs)}.`);
  const under = inHand(queue);
  if (under > 0) {
    const passed = filtered ? ", or passed over by its filter," : "";
    parts.push(`${some(under, "message is", "messages are")} with the client${passed} and not committed yet.`);
  }
  if (isTakenByAnother(queue)) parts.push(`${queue.polled_by} pulls from it, though it is ${queue.assigned_to}'s share.`);
  return parts.filter(Boolean).join(" ");
}

/** What the broker says, as a sentence beside the name of the queue's owner, which need not be said again. */
function sentence({ why, assigned_to: owner, polled_by: by }) {
  if (owner && why?.startsWith(`${owner} `)) return capital(why.slice(owner.length + 1));
  return by && why?.startsWith(by) ? why : capital(why ?? "");
}

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** Whether some messages of the topic may be passed over for the group: all that is certain is that `*` takes each. */
export function isFiltered({ subscriptions }, topic) {
  const found = subscriptions.find((subscription) => subscription.topic === topic);
  return found === undefined || !acceptsAll(found.sub_string);
}

/** Messages that its client is past and has not committed: it has them, or the filter passed them over. */
export function inHand(queue) {
  if (!isKnown(queue.offset) || !isKnown(queue.pull_offset) || queue.state === "unassigned") return 0;
  return Math.max(0, Math.min(queue.pull_offset, queue.max_offset) - queue.offset);
}

// --- Groups -------------------------------------------------------------------------------------------------------

/** How a group of the list is, from its few figures. `rank` sorts the worst first. */
export function groupState(group) {
  if (!group.members) {
    if (group.holds) return { mark: "◌", word: "pulled by no member", tone: "calm", rank: 2 };
    return group.lag > 0 ? { mark: "✖", word: "nobody is there", tone: "bad", rank: 0 }
      : { mark: "○", word: "nobody is there", tone: "none", rank: 4 };
  }
  if (group.lag > 0) {
    return group.holds ? { mark: "◔", word: "at work", tone: "calm", rank: 3 }
      : { mark: "▲", word: "behind, and not waiting", tone: "warn", rank: 1 };
  }
  return { mark: "●", word: "up to date", tone: "good", rank: 5 };
}

/**
 * Why the group's consumers wait or do not consume: [{tone, text}], the worst first. `broker` is the one that was asked
 * alone, if one was.
 */
export function explainGroup(group, broker = "") {
  const own = group.queues.filter((queue) => !retryTopic(queue.topic));
  const found = group.members.length ? withMembers(group, own, broker) : withoutMembers(group);
  const behind = behindSentence(group);
  if (behind) found.push(behind);
  found.push(...notConsumed(group));
  if (!found.some(({ tone }) => tone === "bad" || tone === "warn") && group.members.length) found.push(allIsWell(group, own));
  return found.length ? found : [{ tone: "none", text: "Nothing is consumed for this group, and nothing waits for it." }];
}

function withoutMembers(group) {
  if (!group.holds.length) {
    const lately = [...new Set(group.queues.filter(({ state }) => state === "polling").map(({ polled_by: by }) => by || "a client"))];
    if (lately.length) return [{ tone: "calm", text: `No member is online, but ${listed(lately)} pulled in its name a moment ago.` }];
    const waiting = sum(group.queues, "lag");
    return [{ tone: waiting > 0 ? "bad" : "none", text: "No member is online, so nobody asks for its messages." }];
  }
  const who = [...new Set(group.holds.map((hold) => hold.client_id).filter(Boolean))];
  const pulls = group.holds.length === 1 ? "1 pull waits" : `${count(group.holds.length)} pulls wait`;
  return [{ tone: "calm", text: `No member is online, but ${pulls} in its name${who.length ? `, of ${listed(who)}` : ""}. `
    + "A pull that names a group registers nobody: such clients choose their queues themselves." }];
}

function withMembers(group, own, broker) {
  const found = [];
  for (const [client, queues] of byOwner(own.filter((queue) => queue.state === "not_polling" && queue.assigned_to))) {
    found.push({ tone: "bad", text: notPolling(client, queues) });
  }
  if (group.missing_topics?.length) found.push({ tone: "warn", text: missing(group.missing_topics, broker) });
  const orphans = own.filter((queue) => queue.state === "unassigned");
  if (orphans.length) {
    found.push({ tone: sum(orphans, "lag") > 0 ? "warn" : "none",
      text: `No member subscribes to ${listed([...new Set(orphans.map((queue) => queue.topic))])} any more.` });
  }
  for (const queue of own.filter(isTakenByAnother)) {
    found.push({ tone: "warn", text: `${queuePlace(queue)} is ${queue.assigned_to}'s share, but ${queue.polled_by} pulls from it: `
      + "the members do not share alike, or have not shared anew yet." });
  }
  const idle = idleMembers(group);
  if (idle.length) found.push({ tone: "none", text: idleSentence(group, own, idle) });
  return found;
}

function missing(topics, broker) {
  const one = topics.length === 1;
  const where = broker ? ` at ${broker}` : "";
  return `It subscribes to ${listed(topics)}, but there ${one ? "is no such topic" : "are no such topics"}${where}: nothing comes from there `
    + `until somebody makes ${one ? "it" : "them"}, or, with autoCreateTopicEnable on, sends a first message.`;
}

function notPolling(client, queues) {
  const last = queues.map((queue) => queue.polled_ms_ago).filter(isKnown);
  const which = listed(queues.map(queuePlace));
  if (last.length < queues.length) return `${which} ${be(queues)} assigned to ${client}, which has not pulled from ${them(queues)} yet.`;
  return `${which} ${be(queues)} assigned to ${client}, which has not pulled for ${age(Math.min(...last))}: it is busy with what it `
    + "has, paused, or stuck.";
}

const be = (list) => (list.length === 1 ? "is" : "are");
const them = (list) => (list.length === 1 ? "it" : "them");
const queuePlace = (queue) => queueKey(queue.topic, queue.queue_id);

function byOwner(queues) {
  const owners = new Map();
  for (const queue of queues) owners.set(queue.assigned_to, [...(owners.get(queue.assigned_to) ?? []), queue]);
  return owners;
}

/** Members of a group that shares its queues who have none of them. */
export function idleMembers(group) {
  if (group.message_model !== "CLUSTERING") return [];
  return group.assignment.filter(({ queues }) => !queues.length).map(({ client_id: id }) => id);
}

function idleSentence(group, own, idle) {
  const queues = own.filter((queue) => queue.assigned_to).length;
  return `${some(group.members.length, "member")} for ${some(queues, "queue")}: ${listed(idle)} ${idle.length === 1 ? "has" : "have"} `
    + "nothing to do. A queue is consumed by one member at a time.";
}

function behindSentence(group) {
  const behind = group.queues.filter((queue) => queue.lag > 0);
  if (!behind.length) return null;
  const oldest = Math.max(...behind.map((queue) => queue.lag_ms ?? 0));
  const under = behind.filter((queue) => inHand(queue) > 0);
  const hand = under.reduce((total, queue) => total + inHand(queue), 0);
  const passed = under.some(({ topic }) => isFiltered(group, topic)) ? ", or passed over by its filter" : "";
  const wait = oldest > 0 ? `, the oldest for ${age(oldest)}` : "";
  const lag = sum(behind, "lag");
  const which = hand === lag ? (lag === 1 ? "It" : "All of them") : `${count(hand)} of them`;
  const handed = hand > 0 ? ` ${which} ${hand === 1 ? "is" : "are"} with a client${passed}, and not committed yet.` : "";
  return { tone: "none", text: `${some(lag, "message waits", "messages wait")} in ${some(behind.length, "queue")}${wait}.${handed}` };
}

/** What came again from the retry topic so far, which its end counts, and what does not come again. */
function notConsumed({ queues, retries }) {
  const times = sum(queues.filter(({ topic }) => retryTopic(topic)), "max_offset");
  const dead = sum(retries ?? [], "dead_letters");
  return [
    times > 0 && { tone: "none", text: `Its members could not consume some messages and gave them back: ${some(times, "time")} so far one came `
      + "again from the retry topic." },
    dead > 0 && { tone: "none", text: `${some(dead, "message is", "messages are")} in its dead letter queue, and not given to it again.` },
  ].filter(Boolean);
}

/**
 * What waits for another try: "3, the next one in 8 s"; while not all are counted, one may be due earlier.
 * `now` is the broker's time, or null.
 */
export function waitingText(retries, now) {
  const waiting = sum(retries, "waiting");
  const least = retries.every(({ counted }) => counted) ? "" : "at least ";
  if (!waiting) return least ? "not counted yet" : "none";
  const due = Math.min(...retries.map((entry) => entry.next_due_ms).filter(isKnown));
  const which = least ? "one of them" : "the next one";
  const when = now === null ? "" : due <= now ? `, ${which} is due` : `, ${which} in ${age(due - now)}`;
  return `${least}${count(waiting)}${when}`;
}

function allIsWell(group, own) {
  const held = own.filter((queue) => queue.state === "held").length;
  const members = some(group.members.length, "member");
  if (own.length && held === own.length) {
    const strict = group.subscriptions.some(({ topic, sub_string: text }) => !retryTopic(topic) && !acceptsAll(text));
    return { tone: "good", text: `${own.length === 1 ? "Its queue is" : `All ${count(own.length)} queues are`} held: a message that comes`
      + `${strict ? ", and that its subscription accepts," : ""} is handed on at once.` };
  }
  return { tone: "good", text: `${members} ${group.members.length === 1 ? "consumes" : "consume"} ${some(own.length, "queue")}; ${count(held)} of them ${held === 1 ? "waits" : "wait"} for messages.` };
}

export const sum = (list, name) => list.reduce((total, entry) => total + (entry[name] ?? 0), 0);

/** One line a group of what several brokers say of it. A client is a member at each of them, so the most members that
 * one broker has are taken, not their sum. */
export function byGroup(groups) {
  const found = new Map();
  for (const { broker, ...group } of groups) {
    const known = found.get(group.group);
    found.set(group.group, known === undefined ? { ...group, brokers: [broker] } : { ...known,
      brokers: [...known.brokers, broker], topics: [...new Set([...known.topics, ...group.topics])].sort(),
      lag: known.lag + group.lag, holds: known.holds + group.holds, members: Math.max(known.members, group.members),
      message_model: known.message_model || group.message_model });
  }
  return [...found.values()];
}

// --- Clients ------------------------------------------------------------------------------------------------------

const LANGUAGES = { JAVA: "Java", GO: "Go", CPP: "C++", DOTNET: ".NET", PYTHON: "Python", NODE_JS: "Node.js", RUST: "Rust",
  PHP: "PHP", RUBY: "Ruby", ERLANG: "Erlang", DELPHI: "Delphi" };

/** What a client speaks, in two or three words: "Java 5.4.0", "WebSocket". */
export function clientKind(client) {
  if (client.protocol === "websocket") return "WebSocket";
  if (client.protocol === "http") return "HTTP";
  const language = LANGUAGES[client.language] ?? client.language;
  if (!language) return "RocketMQ";
  return client.version ? `${language} ${client.version}` : language;
}

/** How long ago the last heartbeat was: {text, tone}. A WebSocket or producer without groups needs none. */
export function heartbeat(client, now) {
  if (client.last_heartbeat_ms === null) return { text: "none", tone: client.protocol === "websocket" ? "none" : "calm" };
  if (now === null) return { text: "unknown", tone: "none" };
  const since = Math.max(0, now - client.last_heartbeat_ms);
  const tone = since > EXPIRES_MS ? "bad" : since > LATE_HEARTBEAT_MS ? "warn" : "none";
  return { text: since < 1000 ? "now" : `${span(since)} ago`, tone };
}

// --- What happened ------------------------------------------------------------------------------------------------

const LEFT = { unregister: "said good-bye", channel_closed: "lost its connection", expired: "has sent no heartbeat for 120 s" };
const NOTIFIED = { joined: "a member came", reconnected: "a member came back", left: "a member left",
  subscription: "a subscription changed", retry_topic: "the group's retry topic is new" };
const DEAD = { exhausted: "the group has tried as often as it may", asked: "its consumer asked for that",
  ordered: "it came again from a group that consumes in order" };
const UNLOCKED = { unlock: "gave it back", unregister: "left the group", expired: "has not renewed it" };

const EVENTS = {
  client_connected: (e) => ["●", "came", "good", `${name(e)} connected from ${e.remote || "somewhere"}.`],
  client_identified: (e) => ["●", "said who", "calm", `${e.remote} is ${name(e)}, ${clientKind({ ...e, version: "" })}.`],
  client_lost: (e) => ["○", "went", "none", `${name(e)} at ${e.remote || "its address"} is gone${released(e)}.`],
  group_member_joined: (e) => ["▲", "joined", "good", `${e.client_id} joined; ${members(e.members)}.`],
  group_member_left: (e) => ["▼", "left", e.cause === "unregister" ? "none" : "warn",
    `${e.client_id} ${LEFT[e.cause] ?? e.cause}; ${members(e.members)}.`],
  subscription_changed: (e) => ["✎", "subscription", "calm", subscription(e)],
  consumer_ids_notified: (e) => ["↻", "rebalance", "calm",
    `${members(e.members, "was told", "were told")} to share the queues anew, since ${NOTIFIED[e.cause] ?? e.cause}.`],
  queue_taken: (e) => ["→", "took", "calm", `${e.client_id} pulls from ${queueKey(e.topic, e.queue_id)} now${
    e.previous ? `, instead of ${e.previous}` : ""}.`],
  queue_locked: (e) => ["■", "locked", "calm", `${e.client_id} locked ${queueKey(e.topic, e.queue_id)} to consume it in order.`],
  queue_unlocked: (e) => ["□", "unlocked", e.cause === "expired" ? "warn" : "none",
    `The lock of ${queueKey(e.topic, e.queue_id)} is free: ${e.client_id} ${UNLOCKED[e.cause] ?? e.cause}.`],
  offset_reset: (e) => ["⇤", "reset", "warn", `The offset of ${queueKey(e.topic, e.queue_id)} was set to ${count(e.offset)}${
    e.previous >= 0 ? `; it was ${count(e.previous)}` : ""}.`],
  message_sent_back: (e) => ["↩", "again", "warn",
    `Message ${e.message_id} of ${e.topic} was not consumed and comes again, for try ${count(e.reconsume_times + 1)}.`],
  message_dead_lettered: (e) => ["✖", "dead", "bad",
    `Message ${e.message_id} of ${e.topic} went to the dead letter queue: ${DEAD[e.reason] ?? e.reason}.`],
  subscription_group_changed: (e) => ["✎", "group", "none", `The group's configuration was ${e.action}.`],
};

/** One event: {mark, word, tone, text}. */
export function explainEvent(event) {
  const [mark, word, tone, text] = EVENTS[event.type]?.(event) ?? ["·", String(event.type).replaceAll("_", " "), "none", ""];
  return { mark, word, tone, text };
}

const name = (e) => e.client_id || "A client";
const members = (number, one = "member now", many = "members now") => {
  if (one === "member now") return number === 0 ? "no member is left" : some(number, one, many);
  return number === 1 ? `1 member ${one}` : `${count(number)} members ${many}`;
};
const released = (e) => (e.holds_released > 0 ? `; ${some(e.holds_released, "hold")} of it ${e.holds_released === 1 ? "was" : "were"} released` : "");

function subscription(e) {
  if (!e.expression) return `Nobody takes ${e.topic} any more.`;
  if (!e.previous) return `${e.topic} is taken now: ${e.expression}.`;
  return `What is taken of ${e.topic} is now ${e.expression}; it was ${e.previous}.`;
}
