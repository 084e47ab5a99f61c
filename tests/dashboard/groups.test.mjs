import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { MAX_EVENTS, MAX_RETRIES, initialState, newestChange, ofAll, reduce } from "../../static/js/client_events.js";
import { age, byGroup, clientKind, explainEvent, explainGroup, explainQueue, groupState, heartbeat, idleMembers, inHand, isFiltered,
  isTakenByAnother, listed, queueState, standsOut, waitingText } from "../../static/js/explain_group.js";
import { clientHref, deadLettersHref, groupHref } from "../../static/js/links.js";

const queue = (fields = {}) => ({ broker: "broker-a", topic: "orders", queue_id: 0, assigned_to: "java-1", polled_by: "java-1",
  polled_ms_ago: 300, state: "held", why: "java-1 waits at offset 40, the queue's end", offset: 40, pull_offset: 40, min_offset: 0,
  max_offset: 40, lag: 0, lag_ms: 0, locked_by: null, ...fields });
const member = (id, fields = {}) => ({ client_id: id, protocol: "remoting", language: "JAVA", version: "5.4.0",
  last_heartbeat_ms: 1_000, ...fields });

function group(fields = {}) {
  const queues = fields.queues ?? [queue(), queue({ queue_id: 1 })];
  const members = fields.members ?? [member("java-1")];
  return { message_model: members.length ? "CLUSTERING" : "", members, queues, holds: [], subscriptions: [{ topic: "orders", sub_string: "*" }],
    assignment: members.map(({ client_id: id }) => ({ client_id: id, queues: queues.filter((one) => one.assigned_to === id) })), ...fields };
}

const retries = (fields = {}) => ({ broker: "broker-a", waiting: 0, next_due_ms: null, counted: true, dead_letter_topic: "%DLQ%billing",
  dead_letters: 0, dead_letters_from: 0, ...fields });
const texts = (found) => found.map(({ text }) => text);
const tones = (found) => found.map(({ tone }) => tone);

describe("what is said of a queue", () => {
  test("does not name its owner again", () => {
    assert.equal(explainQueue(queue(), 12_300), "Waits at offset 40, the queue's end. Held for 12 s.");
  });
  test("names anybody else", () => {
    const taken = queue({ polled_by: "web-9", why: "web-9 waits at offset 40, the queue's end" });
    assert.equal(explainQueue(taken, null), "web-9 waits at offset 40, the queue's end. web-9 pulls from it, though it is java-1's share.");
  });
  test("says what is with the client", () => {
    assert.match(explainQueue(queue({ offset: 37 }), 100), /Held for less than 1 s\. 3 messages are with the client and not committed yet\.$/);
    assert.equal(inHand(queue({ offset: null })), 0);
    assert.equal(inHand(queue({ offset: 39, pull_offset: 41 })), 1);
  });
  test("does not say that the client has what a filter passed over", () => {
    assert.match(explainQueue(queue({ offset: 37 }), 100, true), / 3 messages are with the client, or passed over by its filter, and not committed yet\.$/);
    const taken = (text) => ({ subscriptions: [{ topic: "orders", sub_string: text }] });
    assert.deepEqual(["*", "TagB"].map((text) => isFiltered(taken(text), "orders")), [false, true]);
    assert.ok(isFiltered(taken("*"), "other"), "nobody knows what is taken of it");
  });
  test("is empty when the broker says nothing", () => assert.equal(explainQueue(queue({ why: "" }), null), ""));
  test("stands out when nobody asks, or somebody else does", () => {
    assert.ok(!standsOut(queue()));
    assert.ok(standsOut(queue({ state: "not_polling" })));
    assert.ok(standsOut(queue({ polled_by: "web-9" })));
    assert.ok(standsOut(queue({ locked_by: "web-9" })));
    assert.ok(standsOut(queue({ state: "unassigned", lag: 3 })) && !standsOut(queue({ state: "unassigned" })));
    assert.ok(!isTakenByAnother(queue({ polled_by: "web-9", polled_ms_ago: 60_000 })), "that was long ago");
  });
  test("has a mark, known or not", () => {
    assert.equal(queueState(queue({ state: "not_polling" })).word, "not polling");
    assert.equal(queueState(queue({ state: "brand_new" })).word, "brand_new");
  });
});

describe("why a group waits", () => {
  test("all is well", () => {
    assert.deepEqual(explainGroup(group()), [{ tone: "good", text: "All 2 queues are held: a message that comes is handed on at once." }]);
    assert.match(texts(explainGroup(group({ queues: [queue(), queue({ state: "polling" })] })))[0], /^1 member consumes 2 queues; 1 of them waits for messages\.$/);
  });
  test("the retry topic is not counted", () => {
    const queues = [queue(), queue({ topic: "%RETRY%billing", state: "not_polling", max_offset: 0 })];
    assert.deepEqual(texts(explainGroup(group({ queues }))), ["Its queue is held: a message that comes is handed on at once."]);
  });
  test("what came again is said", () => {
    const queues = [queue(), queue({ topic: "%RETRY%billing", offset: 3, pull_offset: 3, max_offset: 3 })];
    assert.deepEqual(texts(explainGroup(group({ queues }))).map((text) => text.split(": ")[1]), [
      "3 times so far one came again from the retry topic.",
      "a message that comes is handed on at once."]);
  });
  test("dead letters are said, and are no reason to wait", () => {
    const found = explainGroup(group({ retries: [retries({ dead_letters: 1 }), retries({ broker: "broker-b", dead_letters: 2 })] }));
    assert.deepEqual(texts(found).map((text) => text.split(":")[0]), [
      "3 messages are in its dead letter queue, and not given to it again.", "All 2 queues are held"]);
  });
  test("a topic that is not there is said first", () => {
    const found = explainGroup(group({ missing_topics: ["typo"] }));
    assert.deepEqual(tones(found), ["warn"]);
    assert.match(found[0].text, /^It subscribes to typo, but there is no such topic: nothing comes from there until somebody makes it, or, with autoCreateTopicEnable on, /);
    assert.match(texts(explainGroup(group({ missing_topics: ["typo"] }), "broker-a"))[0], /there is no such topic at broker-a: /);
    assert.match(texts(explainGroup(group({ missing_topics: ["a", "b"] })))[0], /^It subscribes to a and b, but there are no such topics: .* makes them,/);
  });
  test("a subscription to some messages is said", () => {
    const subscriptions = [{ topic: "orders", sub_string: "TagB" }, { topic: "%RETRY%billing", sub_string: "*" }];
    assert.match(texts(explainGroup(group({ subscriptions })))[0], /: a message that comes, and that its subscription accepts, is handed on at once\.$/);
  });
  test("assigned and not polling comes first", () => {
    const stuck = { state: "not_polling", polled_ms_ago: 45_000, offset: 30, lag: 10, lag_ms: 61_000 };
    const found = explainGroup(group({ queues: [queue(stuck), queue({ ...stuck, queue_id: 1, polled_ms_ago: 50_000 })] }));
    assert.deepEqual(tones(found), ["bad", "none"]);
    assert.equal(found[0].text, "orders@0 and orders@1 are assigned to java-1, which has not pulled for 45 s: it is busy with what it has, paused, or stuck.");
    assert.equal(found[1].text, "20 messages wait in 2 queues, the oldest for 1 min 1 s. All of them are with a client, and not committed yet.");
  });
  test("what a filter passed over is not said to be with a client", () => {
    const subscriptions = [{ topic: "orders", sub_string: "TagB" }];
    const found = explainGroup(group({ subscriptions, queues: [queue({ offset: 30, lag: 12, max_offset: 42 })] }));
    assert.match(texts(found)[0], /^12 messages wait in 1 queue\. 10 of them are with a client, or passed over by its filter, and not committed yet\.$/);
  });
  test("never pulled at all", () => {
    const found = explainGroup(group({ queues: [queue({ state: "not_polling", polled_by: null, polled_ms_ago: null })] }));
    assert.equal(found[0].text, "orders@0 is assigned to java-1, which has not pulled from it yet.");
  });
  test("more members than queues", () => {
    const idle = group({ members: [member("java-1"), member("spare"), member("zeta")] });
    assert.deepEqual(idleMembers(idle), ["spare", "zeta"]);
    assert.match(texts(explainGroup(idle))[0], /^3 members for 2 queues: spare and zeta have nothing to do\./);
    assert.deepEqual(idleMembers({ ...idle, message_model: "BROADCASTING" }), []);
  });
  test("nobody is online", () => {
    const alone = { members: [], assignment: [], queues: [queue({ state: "unassigned", assigned_to: null, offset: 30, lag: 10, lag_ms: 5_000 })] };
    assert.deepEqual(explainGroup(group(alone)), [
      { tone: "bad", text: "No member is online, so nobody asks for its messages." },
      { tone: "none", text: "10 messages wait in 1 queue, the oldest for 5 s." }]);
    assert.match(texts(explainGroup(group({ ...alone, holds: [{ client_id: "page-1" }] })))[0], /but 1 pull waits in its name, of page-1\./);
    const lately = { queues: [queue({ state: "polling", assigned_to: null, polled_by: "10.0.0.1:7" })] };
    assert.equal(texts(explainGroup(group({ ...alone, ...lately })))[0], "No member is online, but 10.0.0.1:7 pulled in its name a moment ago.");
    assert.equal(explainGroup(group({ members: [], assignment: [], queues: [] }))[0].tone, "none");
  });
  test("a topic that nobody subscribes to any more", () => {
    const found = explainGroup(group({ queues: [queue(), queue({ topic: "old", state: "unassigned", assigned_to: null, lag: 1 })] }));
    assert.deepEqual(found[0], { tone: "warn", text: "No member subscribes to old any more." });
  });
  test("members that do not share alike", () => {
    const found = explainGroup(group({ queues: [queue({ polled_by: "web-9" })] }));
    assert.match(found[0].text, /^orders@0 is java-1's share, but web-9 pulls from it/);
  });
});

test("a group of the list is rated by its few figures", () => {
  const rated = (fields) => groupState({ members: 2, holds: 2, lag: 0, ...fields });
  assert.deepEqual([rated({}), rated({ lag: 5 }), rated({ lag: 5, holds: 0 }), rated({ members: 0, holds: 0, lag: 5 }),
    rated({ members: 0, holds: 0 }), rated({ members: 0 })].map(({ tone, word }) => `${tone}: ${word}`), [
    "good: up to date", "calm: at work", "warn: behind, and not waiting", "bad: nobody is there", "none: nobody is there",
    "calm: pulled by no member"]);
});

test("what waits for another try is counted over all brokers", () => {
  assert.equal(waitingText([retries()], 5_000), "none");
  assert.equal(waitingText([retries({ counted: false })], 5_000), "not counted yet");
  const two = [retries({ waiting: 2, next_due_ms: 13_000 }), retries({ waiting: 1, next_due_ms: 9_000 }), retries()];
  assert.deepEqual([5_000, 9_000, null].map((now) => waitingText(two, now)), [
    "3, the next one in 4 s", "3, the next one is due", "3"]);
  assert.equal(waitingText([retries({ waiting: 1_500, next_due_ms: 9_000, counted: false })], 5_000), "at least 1,500, one of them in 4 s");
});

test("a group of several brokers is one line", () => {
  const line = (broker, fields) => ({ broker, group: "g", topics: ["orders"], lag: 1, holds: 2, members: 3, message_model: "CLUSTERING", ...fields });
  const lines = [line("a"), line("a", { group: "alone" }), line("b", { topics: ["bills", "orders"], members: 2, message_model: "" })];
  assert.deepEqual(byGroup(lines), [
    { group: "g", topics: ["bills", "orders"], lag: 2, holds: 4, members: 3, message_model: "CLUSTERING", brokers: ["a", "b"] },
    { group: "alone", topics: ["orders"], lag: 1, holds: 2, members: 3, message_model: "CLUSTERING", brokers: ["a"] }]);
});

describe("clients", () => {
  test("speak something", () => {
    assert.deepEqual([member("a"), member("a", { language: "GO", version: "4.5.2" }), member("a", { language: "", version: "" }),
      member("a", { protocol: "websocket", language: "HTTP" }), member("a", { language: "COBOL", version: "" })].map(clientKind),
    ["Java 5.4.0", "Go 4.5.2", "RocketMQ", "WebSocket", "COBOL"]);
  });
  test("beat, late or not", () => {
    const at = (now) => heartbeat(member("a"), now);
    assert.deepEqual([at(1_200), at(31_000), at(61_000), at(131_000)].map(({ text, tone }) => `${text} ${tone}`),
      ["now none", "30 s ago none", "1 min ago warn", "2 min 10 s ago bad"]);
    assert.equal(heartbeat(member("a"), null).text, "unknown");
    assert.equal(heartbeat(member("a", { last_heartbeat_ms: null }), 5).text, "none");
  });
  test("are listed, not all of them", () => {
    assert.equal(listed(["a"]), "a");
    assert.equal(listed(["a", "b", "c"]), "a, b and c");
    assert.equal(listed(["a", "b", "c", "d", "e", "f"]), "a, b, c, d and 2 more");
  });
  test("have addresses whatever their names", () => {
    assert.equal(groupHref("%RETRY%a"), "/groups/%25RETRY%25a");
    assert.equal(clientHref("1.2.3.4@5#6"), "/connections?client=1.2.3.4%405%236");
    assert.equal(deadLettersHref(retries({ dead_letters_from: 7 })),
      "/api/v1/topics/%25DLQ%25billing/queues/0/messages?offset=7&limit=32&wait_ms=0&broker=broker-a");
  });
  test("ages are short", () => assert.deepEqual([age(10), age(12_000), age(61_000)], ["less than 1 s", "12 s", "1 min 1 s"]));
});

describe("what happened", () => {
  const said = (type, fields) => explainEvent({ type, group: "g", client_id: "c", topic: "t", queue_id: 1, ...fields }).text;
  test("is a sentence", () => {
    assert.deepEqual([
      said("client_connected", { remote: "10.0.0.1:5" }), said("client_connected", { client_id: "", remote: "10.0.0.1:5" }),
      said("client_identified", { remote: "10.0.0.1:5", language: "GO", protocol: "remoting", version: 317 }),
      said("client_lost", { remote: "10.0.0.1:5", holds_released: 2 }), said("group_member_joined", { members: 1 }),
      said("group_member_left", { cause: "expired", members: 0 }), said("group_member_left", { cause: "unregister", members: 2 }),
      said("subscription_changed", { expression: "TagA", previous: "" }), said("subscription_changed", { expression: "", previous: "TagA" }),
      said("subscription_changed", { expression: "*", previous: "TagA" }), said("consumer_ids_notified", { cause: "left", members: 1 }),
      said("queue_taken", { previous: "d" }), said("queue_taken", { previous: "" }), said("queue_locked"),
      said("queue_unlocked", { cause: "expired" }), said("offset_reset", { offset: 5, previous: -1 }),
      said("offset_reset", { offset: 5, previous: 1_000 }), said("subscription_group_changed", { action: "created" }),
      said("message_sent_back", { message_id: "AB", reconsume_times: 1 }), said("message_dead_lettered", { message_id: "AB", reason: "asked" }),
    ], [
      "c connected from 10.0.0.1:5.", "A client connected from 10.0.0.1:5.", "10.0.0.1:5 is c, Go.",
      "c at 10.0.0.1:5 is gone; 2 holds of it were released.", "c joined; 1 member now.",
      "c has sent no heartbeat for 120 s; no member is left.", "c said good-bye; 2 members now.",
      "t is taken now: TagA.", "Nobody takes t any more.", "What is taken of t is now *; it was TagA.",
      "1 member was told to share the queues anew, since a member left.", "c pulls from t@1 now, instead of d.", "c pulls from t@1 now.",
      "c locked t@1 to consume it in order.", "The lock of t@1 is free: c has not renewed it.", "The offset of t@1 was set to 5.",
      "The offset of t@1 was set to 5; it was 1,000.", "The group's configuration was created.",
      "Message AB of t was not consumed and comes again, for try 2.",
      "Message AB of t went to the dead letter queue: its consumer asked for that.",
    ]);
  });
  test("is shown even when it is new to the page", () => {
    assert.deepEqual(explainEvent({ type: "brand_new" }), { mark: "·", word: "brand new", tone: "none", text: "" });
  });
});

describe("the stream of a page", () => {
  const event = (seq) => ({ type: "queue_locked", seq });
  const snapshot = (fields) => ({ type: "snapshot", broker: "b", epoch: 3, seq: 10, wall_ms: 5_000, client_events: [event(4), event(9)], ...fields });
  const delta = (from, to, events = [], fields = {}) => ({ type: "delta", broker: "b", epoch: 3, seq_from: from, seq_to: to, wall_ms: 6_000,
    client_events: events, ...fields });
  const begun = () => Object.freeze(reduce(initialState(), snapshot(), 4_000));
  const seqs = (state) => state.events.map(({ seq }) => seq);

  test("begins with a snapshot, newest first", () => {
    assert.deepEqual(seqs(begun()), [9, 4]);
    assert.equal(begun().clockOffsetMs, 1_000);
    assert.ok(!begun().needsSnapshot);
  });
  test("goes on with deltas", () => {
    const state = reduce(begun(), delta(11, 14, [event(12), event(14)]), 5_000);
    assert.deepEqual(seqs(state), [14, 12, 9, 4]);
    assert.equal(state.seq, 14);
    const quiet = begun();
    assert.equal(reduce(quiet, delta(11, 10), 5_000).events, quiet.events, "nothing happened: the list is the same");
  });
  test("a gap, another epoch and a loss ask for a snapshot", () => {
    assert.ok(reduce(begun(), delta(20, 30), 5_000).needsSnapshot);
    assert.ok(reduce(begun(), delta(11, 12, [], { epoch: 4 }), 5_000).needsSnapshot);
    assert.ok(reduce(begun(), { type: "lost" }, 5_000).needsSnapshot);
    assert.ok(reduce(initialState(), delta(1, 2), 5_000).needsSnapshot);
  });
  test("a snapshot after a gap repeats nothing, and one of a new epoch begins anew", () => {
    assert.deepEqual(seqs(reduce(begun(), snapshot({ seq: 20, client_events: [event(9), event(18)] }), 5_000)), [18, 9, 4]);
    assert.deepEqual(seqs(reduce(begun(), snapshot({ epoch: 4, seq: 2, client_events: [event(1)] }), 5_000)), [1]);
  });
  test("of one group has that group's alone", () => {
    const events = [{ ...event(1), group: "a" }, { ...event(2), group: "b" }, event(3)];
    const state = reduce(initialState(), snapshot({ client_events: events }), 1, "a");
    assert.deepEqual(seqs(state), [1]);
    assert.deepEqual(seqs(reduce(state, delta(11, 12, [{ ...event(11), group: "b" }, { ...event(12), group: "a" }]), 2, "a")), [12, 1]);
  });
  test("of several brokers is one list by time, each event with its broker", () => {
    const at = (seq, ms) => ({ ...event(seq), wall_ms: ms });
    const first = reduce(initialState(), snapshot({ client_events: [at(1, 10), at(2, 30)] }), 1);
    const other = reduce(initialState(), snapshot({ broker: "c", client_events: [at(1, 20), at(7, 30)] }), 1);
    assert.deepEqual(ofAll([first, other]).map(({ broker, seq }) => `${broker}${seq}`), ["c7", "b2", "c1", "b1"]);
    assert.equal(ofAll([first, initialState()]), first.events, "nothing came from the other one: the list is the same");
    const many = reduce(initialState(), snapshot({ client_events: Array.from({ length: MAX_EVENTS }, (_, seq) => at(seq, seq)) }), 1);
    assert.equal(ofAll([first, many]).length, MAX_EVENTS);
  });
  test("is bounded", () => {
    const many = Array.from({ length: 500 }, (_, seq) => event(seq));
    assert.equal(reduce(initialState(), snapshot({ client_events: many, seq: 500 }), 1).events.length, MAX_EVENTS);
  });
  test("many messages that come again push nothing else out, and change nothing", () => {
    const again = Array.from({ length: 500 }, (_, seq) => ({ type: seq % 2 ? "message_sent_back" : "message_dead_lettered", seq: 11 + seq }));
    const before = begun();
    const state = reduce(before, delta(11, 510, again), 5_000);
    assert.equal(state.events.length, MAX_RETRIES + 2);
    assert.deepEqual(seqs(state).slice(-3), [511 - MAX_RETRIES, 9, 4]);
    assert.equal(newestChange(state.events), newestChange(before.events));
    assert.equal(newestChange(reduce(state, delta(511, 511, [event(511)]), 6_000).events).seq, 511);
    assert.equal(ofAll([state, state]).length, MAX_RETRIES + 4);
    assert.equal(newestChange(again), undefined);
  });
  test("frames of other kinds change nothing", () => {
    const state = begun();
    assert.equal(reduce(state, { type: "pong" }, 1), state);
    assert.equal(reduce(state, delta(3, 5), 1), state, "older than the snapshot");
  });
});
