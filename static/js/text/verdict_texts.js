/** The server's verdicts in another language than English, from their evidence. In English the server's own sentence is
 * shown. The tests compare the ids with the server's catalogue. Pure. */

import { count, dateTimeSeconds, isKnown, plural, span } from "./format.js";
import { joinNames } from "./explain_group.js";
import { serverText } from "./server/texts.js";
import { language, t } from "./translate.js";
import { ADVICE } from "./verdict_advice.js";

const names = (list) => joinNames(list ?? []);
const age = (ms) => (Number(ms) < 1000 ? t("less than 1 s") : span(Number(ms)));
const at = (ms) => dateTimeSeconds(Number(ms));
const messages = (number) => plural(number, "{0} message", "{0} messages");
const queues = (number) => plural(number, "{0} queue", "{0} queues");

const oldest = (e) => (isKnown(e.oldest_ms) && Number(e.waiting) ? t(", the oldest for {0}", age(e.oldest_ms)) : "");
const waiting = (e) => t("{0} waiting{1}", messages(e.waiting), oldest(e));
const soon = (ms, now) => (now === null ? "" : Number(ms) - now < 1000 ? t(" (now)") : t(" (in {0})", age(Number(ms) - now)));
const next = (ms, now) => (isKnown(ms) ? t(", the next at {0}{1}", dateTimeSeconds(Number(ms)), soon(ms, now)) : "");
const still = (e) => t("{0} unacknowledged for {1}", messages(e.messages), age(e.stands_still_ms));
const tries = (e) => (isKnown(e.tries) ? t(", try {0}", count(e.tries)) : "");
const cameBack = (e) => (isKnown(e.tried) ? t("{0} out of {1}", count(e.returned), messages(e.tried)) : messages(e.returned));
const failing = (e, now) => t("{0} came back in the last {1}{2}{3}", cameBack(e), age(e.window_ms), tries(e), next(e.next_due_ms, now));

/** By id: the sentence for (evidence, group, now). `now` is the broker's time in ms, or null. */
export const VERDICTS = {
  broker_away: (e, group) => t("No answer from {0}: what {1} does there is unknown.", names(e.brokers), group),
  attached: (e) => t("{0} attached: which pulls are held there, and when clients pulled last, is not known. {1}", names(e.brokers),
    isKnown(e.offsets_age_ms) ? t("The committed offsets are {0} old, so messages in the lag may be consumed already.", age(e.offsets_age_ms))
      : t("Its committed offsets have not been fetched yet, so the lag is not known.")),
  broker_draining: (e) => t("Broker {0} is shutting down and refuses pulls; {1} left to answer.", e.broker, plural(e.holds, "{0} held pull", "{0} held pulls")),
  broker_refuses_messages: (e) => t("Broker {0} accepts no messages: {1}.", e.broker, serverText(e.problem)),
  holds_used_up: (e) => t("Broker {0} holds {1} pulls, its limit; it refuses further ones.", e.broker, count(e.holds)),
  engine_busy: (e) => t("Broker {0} is busy: commands waited up to {1} ms for their turn; {2} got SYSTEM_BUSY.", e.broker, count(e.late_ms), count(e.refused)),
  slaves_behind: (e) => t("Broker {0} answered {1} requests with FLUSH_SLAVE_TIMEOUT: inSyncReplicas needs {2} slaves with each message, and {3} of them are connected.",
    e.broker, count(e.slave_timeouts), count(e.slaves_needed), count(e.slaves)),
  flush_behind: (e) => t("{0} bytes of stored messages wait for the disk of broker {1} and are not visible to consumers yet.", count(e.undispatched_bytes), e.broker),
  pulls_refused: (e) => t("The pulls of {0} from {1} are refused since {2}, {3} times, last at {4}: {5}.", names(e.client_ids), names(e.topics), at(e.since_ms),
    `${e.counted ? "" : t("at least ")}${count(e.count)}`, at(e.last_ms), serverText(e.reason)),
  may_not_consume: (e, group) => (e.topics ? t("{0} may not be read at broker {1}: the perm does not contain 4 (read).", names(e.topics), e.broker)
    : t("Group {0} may not consume at broker {1}: its consumeEnable is off.", group, e.broker)),
  every_message_fails: (e, group, now) => t("Every message fails: {0}.", failing(e, now)),
  no_member: (e, group) => t("No member of {0} is online, and no client pulls for it. {1}", group, withoutMembers(e)),
  heartbeat_late: (e, group, now) => t("{0} has sent no heartbeat since {1}{2}; its process is frozen or its network is cut. It has {3}.", e.client_id, at(e.last_heartbeat_ms),
    now === null ? "" : t(" ({0})", age(Math.max(0, now - Number(e.last_heartbeat_ms)))), queues(e.queues.length)),
  listener_blocked: (e, group) => t("{0} stands still: {1} handed to {2}, nothing committed for {3}; {4}{5}.", group, messages(e.messages), e.client_id, age(e.stands_still_ms),
    e.is_alive ? t("its listener is probably blocked") : t("its listener is blocked, or its process or its network stood still"),
    e.orderly ? t(" (orderly, {0} suspended)", names(e.suspended)) : ""),
  not_acknowledged: (e, group) => (isKnown(e.messages) ? t("{0} stands still: {1} has {2}{3}.", group, e.client_id, still(e), afterwards(e))
    : t("{0} assigned to {1}, which does not ask for messages: its permits are used up, and it has not acknowledged {2}.", names(e.queues), e.client_id, messages(e.unacknowledged))),
  no_permits: (e) => t("{0} assigned to {1}, which does not ask for messages: it has given no permits.", names(e.queues), e.client_id),
  not_pulling: (e) => t("{0} assigned to {1}, {2}.", names(e.queues), e.client_id, notAsking(e)),
  locked_by_another: (e) => t("{0} has the lock of {1}; {2}, which has the queue, waits for it.", e.locked_by, e.queue, e.assigned_to),
  stands_still: (e, group) => t("{0} stands still: {1} in {2}, and the committed offset has not moved{3}.", group, waiting(e), names(e.queues), unmoved(e)),
  subscriptions_disagree: (e) => t("The members disagree about {0}: {1}; each message reaches only the owner of its queue ({2} reached nobody).", e.topic,
    names(Object.entries(e.expressions).map(([client, expression]) => t("{0}: {1}", client, expression || "–"))), count(e.unreached)),
  filter_rejects_all: (e) => t("{0} of {1} came since {2}, none passed {3}. {4}.", messages(e.messages), e.topic, at(e.since_ms), e.expression, whyNonePassed(e)),
  topic_missing: (e, group) => t("{0} subscribes to {1}, which does not exist.", group, names(e.topics)),
  topic_not_subscribed: (e) => t("No member subscribes to {0}, where {1} wait.", names(e.topics), messages(e.waiting)),
  pulled_by_another: (e) => t("{0} is assigned to {1}, but {2} pulls from it: {3}.", e.queue, e.assigned_to, e.polled_by,
    e.is_member ? t("the members allocate queues differently") : t("{0} is not a member", e.polled_by)),
  offset_deleted: (e, group) => t("{0} of {1} were deleted before {2} consumed them: its offset is {3}, and the queue begins at {4}.", messages(Number(e.min_offset) - Number(e.offset)), e.queue, group,
    count(e.offset), count(e.min_offset)),
  offset_beyond_end: (e, group) => t("The offset of {0} in {1} is {2}, but the queue ends at {3}.", group, e.queue, count(e.offset), count(e.max_offset)),
  falling_behind: (e, group) => t("{0} falls behind: {1}, {2} more than at an earlier commit.", group, waiting(e), count(e.growth)),
  some_messages_fail: (e, group, now) => t("Some messages fail: {0}.", failing(e, now)),
  rebalancing: (e) => t("The members changed {0} ago: {1} gets {2} and has not pulled yet.", age(e.changed_ms_ago), e.client_id, names(e.queues)),
  catching_up: (e, group) => (Number(e.growth ?? -1) < 0 ? t("{0} catches up: {1}{2}.", group, waiting(e), isKnown(e.growth) ? t(", {0} fewer than at an earlier commit", count(-Number(e.growth))) : "")
    : t("{0} keeps its distance: {1}, {2} more than at an earlier commit.", group, waiting(e), count(e.growth))),
  consuming: (e, group) => t("{0}, and {1} has committed none of them yet.", Number(e.handed) ? t("{0} handed to clients", messages(e.handed)) : waiting(e), group),
  retries_pending: (e, group, now) => t("{0}{1} wait for another try{2}; {3} dead.", e.counted ? "" : t("at least "), messages(e.waiting), Number(e.waiting) ? next(e.next_due_ms, now) : "", count(e.dead_letters)),
  delayed_pending: (e, group, now) => t("{0}{1} of {2} delayed and not due yet{3}.", e.counted ? "" : t("at least "), messages(e.messages), e.topic, next(e.next_due_ms, now)),
  reset_pending: (e, group) => t("The answer to the next pull from {0} moves {1} to offset {2}.", e.queue, group, count(e.offset)),
  started_at_end: (e, group) => t("{0} is new and started at the end of {1}: it does not receive {2} that are older.", group, names(e.queues), messages(e.older_messages)),
  broadcasting: (e, group) => t("{0} consumes by broadcasting: {1} receive every message and keep the offsets. The lag is unknown here.", group, plural(e.members, "{0} member", "{0} members")),
  more_members_than_queues: (e) => t("{0} for {1}: {2} without a queue.", plural(e.members, "{0} member", "{0} members"), queues(e.queues), names(e.client_ids)),
  pulled_by_non_members: (e) => t("No member is online, but {0} pull in the group's name.", names(e.client_ids)),
  lag_unknown: (e, group) => unknownLag(e, group),
  ok: (e, group) => t("{0} keeps up: its committed offset moved {1} ago, and {2}.", group, age(e.moved_ms_ago), Number(e.waiting) ? waiting(e) : t("nothing waits")),
  idle: (e, group) => t("Nothing waits for {0}: {1}.{2}", group, e.is_empty ? t("its queues are empty") : t("it has consumed its queues to their ends"), isKnown(e.held) ? t(" Pulls are held on {0} of {1}.", count(e.held), queues(e.queues)) : ""),
};

/** What becomes of messages that are not acknowledged. */
function afterwards(e) {
  if (e.topic) return t(" from {0}; they are hidden until the lease is over", e.topic);
  if (Number(e.permits ?? 1) === 0) return t("; its permits are used up, so it gets no more");
  return e.is_full ? t("; too many are not acknowledged, so it gets no more") : "";
}

function notAsking(e) {
  if (isKnown(e.last_pull_ms_ago)) return t("which has not asked for {0}: it is suspended, frozen, cut off, or busy with its messages", age(e.last_pull_ms_ago));
  if (e.others?.length) return t("but the last pull came from {0}", names(e.others));
  return e.has_pulled ? t("which does not ask for messages") : t("which has not asked for messages yet");
}

function unmoved(e) {
  const moved = isKnown(e.moved_ms_ago) ? t(" for {0}", age(e.moved_ms_ago)) : "";
  const taken = (e.taken ?? []).map((one) => t("{0} took {1} over {2} ago", one.client_id, one.queue, age(one.ms_ago)));
  return taken.length ? `${moved}${t("; ")}${names(taken)}` : moved;
}

/** The tags of the messages, or what an SQL92 filter said of them. */
function whyNonePassed(e) {
  if (!isKnown(e.false)) return t("Tags: {0}", names(Object.entries(e.tags).map(([tag, number]) => `${tag || t("(no tag)")} ${count(number)}`)) || "–");
  return names([
    ...(e.false ? [t("It is false for {0}", count(e.false))] : []),
    ...(e.unknown ? [t("unknown for {0} (for example because a property is missing)", count(e.unknown))] : []),
    ...(e.failed ? [t("an error for {0}, such as: {1}", count(e.failed), e.problem)] : []),
  ]);
}

function withoutMembers(e) {
  const known = Number(e.waiting) ? `${waiting(e)}${t(". ")}` : Number(e.retrying) ? t("{0} wait for another try.", messages(e.retrying)) : "";
  const unknown = Number(e.unknown_queues) ? t("The lag of {0} is unknown.", queues(e.unknown_queues)) : "";
  const expired = e.expired ? t(" {0} was removed at {1}, because it sent no heartbeat for 2 min.", e.expired, at(e.expired_ms)) : "";
  return `${`${known}${unknown}` || t("Nothing waits.")}${expired}`;
}

function unknownLag(e, group) {
  if (Array.isArray(e.queues)) return t("The lag of {0} is unknown: {1} has committed no offset in {2}.", queues(e.queues.length), group, names(e.queues));
  if (e.brokers) return t("The retries of {0} are not counted yet, so more messages may wait for another try.", group);
  return Number(e.total) > Number(e.shown) ? t("{0} has {1} queues, and only {2} of them were looked at; the others are unknown.", group, count(e.total), count(e.shown))
    : t("{0} has no queue: no topic exists to which its members subscribe, or in which it has an offset.", group);
}

/** The sentence of a verdict in the page's language: the server's own in English, or if the id is not known here. */
export function verdictSentence({ id, sentence, evidence }, group, now) {
  return language === "en" || !VERDICTS[id] ? sentence : VERDICTS[id](evidence, group, now);
}

/** What to do, in the page's language; the server's words if they are not in the catalog. */
export function verdictAdvice({ advice }) {
  const words = / -g (.+) -i (.+) -s prints /.exec(advice); // of a command for a shell, quoted by the server
  if (words) {
    return t("Look at the client's threads: mqadmin consumerStatus -g {0} -i {1} -s prints their stacks (request 307).", words[1], words[2]);
  }
  return ADVICE.includes(advice) ? t(advice) : advice;
}
