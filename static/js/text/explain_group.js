/** How groups, their queues and members, and their events are shown. The server judges the groups. Pure. */

import { acceptsAll } from "./explain.js";
import { UNKNOWN, count, isKnown, plural, span, withLocalTimes } from "./format.js";
import { queueKey } from "../reducer.js";
import { serverText } from "./server/texts.js";
import { language, t } from "./translate.js";
import { word } from "./words.js";

const RECENTLY_MS = 20_000;
const NAMED_AT_MOST = 4;
const EXPIRES_MS = 120_000;
const LATE_HEARTBEAT_MS = 45_000;

/** "a", "a and b", "a, b, c, d and 3 more". */
export function joinNames(names) {
  const shown = names.slice(0, NAMED_AT_MOST);
  if (names.length > NAMED_AT_MOST) return t("{0} and {1} more", shown.join(t(", ")), count(names.length - NAMED_AT_MOST));
  return shown.length < 2 ? shown.join("") : t("{0} and {1}", shown.slice(0, -1).join(t(", ")), shown.at(-1));
}

/** An age in at most two units; "12 s" under a minute. */
export const age = (ms) => (ms < 1000 ? t("less than 1 s") : span(ms));

export const isRetryTopic = (topic) => topic.startsWith("%RETRY%");

// --- Queues -------------------------------------------------------------------------------------------------------

const QUEUE_STATES = {
  held: { mark: "●", word: t("held"), tone: "good" },
  polling: { mark: "◔", word: t("polling"), tone: "calm" },
  busy: { mark: "◔", word: t("busy"), tone: "calm" },
  not_polling: { mark: "✖", word: t("not polling"), tone: "bad" },
  unassigned: { mark: "○", word: t("unassigned"), tone: "none" },
  not_known: { mark: "?", word: t("not known"), tone: "none" },
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
  const reason = language === "en" ? reasonOf(queue) : serverText(queue.why);
  const parts = [reason && !/[.!?]$/.test(reason) ? t("{0}.", reason) : reason];
  if (queue.state === "held" && heldMs !== null) parts.push(t("Held for {0}.", age(heldMs)));
  const uncommitted = uncommittedPulls(queue);
  if (uncommitted > 0) parts.push(filtered ? plural(uncommitted, "{0} message is pulled, or skipped by the filter, but not committed yet.", "{0} messages are pulled, or skipped by the filter, but not committed yet.")
    : plural(uncommitted, "{0} message is pulled but not committed yet.", "{0} messages are pulled but not committed yet."));
  if (isPolledByAnother(queue)) parts.push(t("{0} pulls from it, although it is assigned to {1}.", queue.polled_by, queue.assigned_to));
  return parts.filter(Boolean).join(language === "en" ? " " : "");
}

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
  errors: { mark: "✖", tone: "bad", rank: 2 },
  "falling behind": { mark: "▲", tone: "warn", rank: 3 },
  warnings: { mark: "▲", tone: "warn", rank: 4 },
  unknown: { mark: "?", tone: "none", rank: 5 },
  "catching up": { mark: "◔", tone: "calm", rank: 6 },
  over: { mark: "○", tone: "none", rank: 7 },
  ok: { mark: "●", tone: "good", rank: 8 },
};
const NEW_STATE = { mark: "·", tone: "none", rank: GROUP_STATES.unknown.rank };
/** The counted state of a group that has such a problem, unless its own state is as bad. */
const PROBLEM_STATES = { error: "errors", warning: "warnings" };
const SEVERITY_TONES = { error: "bad", warning: "warn", info: "none", ok: "good" };

/** Whether a group of the list is stopped while nothing waits for it. */
const isOver = ({ state, lag, unknown_queues: unknown }) => state === "stopped" && lag !== undefined && !lag && !unknown;

const ofState = (state) => GROUP_STATES[state] ?? NEW_STATE;

/** The state by which the list counts a group: the server's; "over" if the group is stopped while nothing waits; or "errors"
 * or "warnings" if a verdict is worse than the server's state, which is about progress alone. */
export function countedState(group) {
  if (isOver(group)) return "over";
  const problem = PROBLEM_STATES[group.severity];
  return problem && ofState(problem).rank < ofState(group.state).rank ? problem : group.state;
}

/** Mark, word, tone and rank (the worst first) of a group: of its worst problem, or else of the state that the server gives
 * it. A stopped group is no problem while nothing waits for it. `lag` and `unknown_queues` are those of the list, or
 * undefined; `severity` and `problems` those of the list or of `worstOf`. */
export function groupState(group) {
  const state = countedState(group);
  const isProblem = Object.values(PROBLEM_STATES).includes(state);
  return { ...ofState(state), word: word(isProblem ? group.problems[0] : group.state) };
}

/** The severity of the worst verdict that is an error or a warning, or null, and the ids of all of them; the worst verdict
 * comes first. */
export function worstOf(verdicts) {
  const found = verdicts.filter(({ severity }) => severity in PROBLEM_STATES);
  return { severity: found[0]?.severity ?? null, problems: [...new Set(found.map(({ id }) => id))] };
}

/** How many groups are in each counted state, the worst first, without empty states: [["stalled", 3], ["ok", 17]]. */
export function countStates(groups) {
  const counts = new Map(Object.keys(GROUP_STATES).map((state) => [state, 0]));
  for (const state of groups.map(countedState)) counts.set(state, (counts.get(state) ?? 0) + 1);
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
  const least = retries.every(({ counted }) => counted) ? "" : t("at least ");
  if (!waiting) return least ? t("not counted yet") : t("none");
  const due = Math.min(...retries.map((entry) => entry.next_due_ms).filter(isKnown));
  if (now === null || !Number.isFinite(due)) return `${least}${count(waiting)}`;
  const when = due <= now ? t("due now") : t("in {0}", age(due - now));
  return `${least}${count(waiting)}${least ? t("; one retry {0}", when) : t("; next retry {0}", when)}`;
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
  return ofState(one.state).rank <= ofState(other.state).rank ? one.state : other.state;
}

/** The problems of a group at two brokers, the worse ones first. */
function allProblems(one, other) {
  const [worst, rest] = one.severity === "error" || !other.severity || other.severity === one.severity ? [one, other] : [other, one];
  return { severity: worst.severity ?? null, problems: [...new Set([...worst.problems ?? [], ...rest.problems ?? []])] };
}

const largest = (one, other) => (isKnown(one) && isKnown(other) ? Math.max(one, other) : one ?? other ?? null);

/** Merges the entries of several brokers into one a group. Lag and holds are added up. A client is a member at each
 * broker that it is connected to, so `members` is the largest number of one broker, not the sum. */
export function mergeBrokers(groups) {
  const merged = new Map();
  for (const { broker, ...group } of groups) {
    const entry = merged.get(group.group);
    merged.set(group.group, entry === undefined ? { ...group, brokers: [broker] } : { ...entry,
      ...allProblems(entry, group), state: worse(entry, group), unknown_queues: entry.unknown_queues + group.unknown_queues,
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
  if (client.last_heartbeat_ms === null && client.connected_at_ms === null) return { text: t("unknown"), tone: "none" };
  if (client.last_heartbeat_ms === null) return { text: t("none"), tone: client.protocol === "websocket" ? "none" : "calm" };
  if (now === null) return { text: t("unknown"), tone: "none" };
  const since = Math.max(0, now - client.last_heartbeat_ms);
  const tone = since > EXPIRES_MS ? "bad" : since > LATE_HEARTBEAT_MS ? "warn" : "none";
  return { text: since < 1000 ? t("now") : t("{0} ago", span(since)), tone };
}

// --- Events -------------------------------------------------------------------------------------------------------

const LEFT = { unregister: t("it unregistered"), channel_closed: t("its connection closed"), expired: t("it sent no heartbeat for 120 s"),
  unlisted: t("its broker does not list it any more") };
const NOTIFIED = { joined: t("a member joined"), reconnected: t("a member reconnected"), left: t("a member left"),
  subscription: t("a subscription changed"), retry_topic: t("the group's retry topic was created") };
/** Whether the event is about a dead letter that was sent again: a consumer's own retries begin at 1. */
export const isResent = ({ reconsume_times: times }) => Number(times) === 0;
/** Whether a popped message came back: its lease is over, or it was given back. Only messages that are sent back are delayed. */
export const isUnacknowledged = ({ delay_level: level }) => Number(level) === 0;
/** Why a message is dead, by the `reason` of its event. */
export const DEAD = { exhausted: t("the group's maximum of retries is reached"), asked: t("its consumer asked for it"),
  ordered: t("the group consumes in order, and its consumer gave the message up") };
const UNLOCKED = { unlock: t("released it"), unregister: t("left the group"), expired: t("did not renew it") };

const EVENTS = {
  client_connected: (e) => ["●", t("connected"), "good", t("{0} connected from {1}.", clientName(e), e.remote || t("an unknown address"))],
  client_identified: (e) => ["●", t("identified"), "calm", t("{0} is {1}, {2}.", e.remote, clientName(e), clientKind({ ...e, version: "" }))],
  client_lost: (e) => ["○", t("disconnected"), "none", t("{0} at {1} disconnected{2}.", clientName(e), e.remote || t("an unknown address"), releasedHolds(e))],
  group_member_joined: (e) => ["▲", t("joined"), "good", t("{0} joined. {1}", e.client_id, memberCount(e))],
  group_member_left: (e) => ["▼", t("left"), e.cause === "unregister" ? "none" : "warn",
    t("{0} left: {1}. {2}", e.client_id, LEFT[e.cause] ?? e.cause, memberCount(e))],
  subscription_changed: (e) => ["✎", t("subscription"), "calm", subscriptionChange(e)],
  consumer_ids_notified: (e) => ["↻", t("rebalance"), "calm",
    plural(e.members, "{0} member was notified to rebalance: {1}.", "{0} members were notified to rebalance: {1}.", NOTIFIED[e.cause] ?? e.cause)],
  queue_taken: (e) => ["→", t("queue"), "calm", t("{0} now pulls from {1}{2}.", e.client_id, queueKey(e.topic, e.queue_id), e.previous ? t(", instead of {0}", e.previous) : "")],
  queue_locked: (e) => ["■", t("locked"), "calm", t("{0} locked {1} to consume it in order.", e.client_id, queueKey(e.topic, e.queue_id))],
  queue_unlocked: (e) => ["□", t("unlocked"), e.cause === "expired" ? "warn" : "none",
    t("The lock on {0} ended: {1} {2}.", queueKey(e.topic, e.queue_id), e.client_id, UNLOCKED[e.cause] ?? e.cause)],
  offset_reset: (e) => ["⇤", t("offset reset"), "warn", t("The offset of {0} was reset to {1}{2}.", queueKey(e.topic, e.queue_id), count(e.offset), e.previous >= 0 ? t("; it was {0}", count(e.previous)) : "")],
  message_sent_back: (e) => (isResent(e) ? ["↪", t("sent again"), "calm",
    t("The dead letter {0} of {1} was sent to the group again, as a first attempt.", e.message_id, e.topic)] : ["↩", t("retry"), "warn",
    isUnacknowledged(e) ? t("Message {0} of {1} came back without an ack and will be delivered again (retry {2}).", e.message_id, e.topic, count(e.reconsume_times))
      : t("Message {0} of {1} was sent back and will be delivered again (retry {2}).", e.message_id, e.topic, count(e.reconsume_times))]),
  message_dead_lettered: (e) => ["✖", t("dead letter"), "bad",
    t("Message {0} of {1} was moved to the dead letter queue: {2}.", e.message_id, e.topic, DEAD[e.reason] ?? e.reason)],
  subscription_group_changed: (e) => ["✎", t("configuration"), "none", t("The group's configuration was {0}.", word(e.action))],
};

/** One event: {mark, word, tone, text}. */
export function explainEvent(event) {
  const [mark, word, tone, text] = EVENTS[event.type]?.(event) ?? ["·", String(event.type).replaceAll("_", " "), "none", ""];
  return { mark, word, tone, text };
}

const clientName = (e) => e.client_id || t("A client");
const memberCount = ({ members }) => (members === 0 ? t("The group has no members now.") : plural(members, "The group has {0} member now.", "The group has {0} members now."));
const releasedHolds = (e) => (e.holds_released > 0
  ? plural(e.holds_released, "; {0} of its held pulls was released", "; {0} of its held pulls were released") : "");

function subscriptionChange(e) {
  if (!e.expression) return t("The group no longer subscribes to {0}.", e.topic);
  if (!e.previous) return t("The group subscribes to {0}: {1}.", e.topic, e.expression);
  return t("The group's subscription to {0} changed from {1} to {2}.", e.topic, e.previous, e.expression);
}
