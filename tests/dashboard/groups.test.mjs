import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { MAX_EVENTS, MAX_RETRIES, initialState, mergeStreams, newestChange, reduce } from "../../static/js/client_events.js";
import { age, mergeBrokers, clientKind, explainEvent, explainQueue, groupState, heartbeat, lagText, countStates, uncommittedPulls, isFiltered,
  isPolledByAnother, joinNames, queueState, hasProblem, verdictLine, waitingText, worstOf } from "../../static/js/text/explain_group.js";
import { clientHref, deadLettersHref, groupHref } from "../../static/js/links.js";

const queue = (fields = {}) => ({ broker: "broker-a", topic: "orders", queue_id: 0, assigned_to: "java-1", polled_by: "java-1",
  polled_ms_ago: 300, state: "held", why: "java-1 waits at offset 40, the queue's end", offset: 40, pull_offset: 40, min_offset: 0,
  max_offset: 40, lag: 0, lag_ms: 0, locked_by: null, ...fields });
const member = (id, fields = {}) => ({ client_id: id, protocol: "remoting", language: "JAVA", version: "5.4.0",
  last_heartbeat_ms: 1_000, ...fields });

const retries = (fields = {}) => ({ broker: "broker-a", waiting: 0, next_due_ms: null, counted: true, dead_letter_topic: "%DLQ%billing",
  dead_letters: 0, dead_letters_from: 0, ...fields });

describe("the sentence about a queue", () => {
  test("does not repeat the owner's name", () => {
    assert.equal(explainQueue(queue(), 12_300), "Waits at offset 40, the queue's end. Held for 12 s.");
  });
  test("names any other client", () => {
    const taken = queue({ polled_by: "web-9", why: "web-9 waits at offset 40, the queue's end" });
    assert.equal(explainQueue(taken, null), "web-9 waits at offset 40, the queue's end. web-9 pulls from it, although it is assigned to java-1.");
  });
  test("counts messages that are pulled but not committed", () => {
    assert.match(explainQueue(queue({ offset: 37 }), 100), /Held for less than 1 s\. 3 messages are pulled but not committed yet\.$/);
    assert.equal(uncommittedPulls(queue({ offset: null })), 0);
    assert.equal(uncommittedPulls(queue({ offset: 39, pull_offset: 41 })), 1);
  });
  test("allows that a filter skipped some of them", () => {
    assert.match(explainQueue(queue({ offset: 37 }), 100, true), / 3 messages are pulled, or skipped by the filter, but not committed yet\.$/);
    const subscribed = (text) => ({ subscriptions: [{ topic: "orders", sub_string: text }] });
    assert.deepEqual(["*", "TagB"].map((text) => isFiltered(subscribed(text), "orders")), [false, true]);
    assert.ok(isFiltered(subscribed("*"), "other"), "the filter of another topic is unknown");
  });
  test("is empty when the broker gives no reason", () => assert.equal(explainQueue(queue({ why: "" }), null), ""));
  test("a problem is a queue that its owner does not poll, or that another client polls or locks", () => {
    assert.ok(!hasProblem(queue()));
    assert.ok(hasProblem(queue({ state: "not_polling" })));
    assert.ok(!hasProblem(queue({ state: "busy" })), "its client has messages, and consumes them");
    assert.ok(hasProblem(queue({ polled_by: "web-9" })));
    assert.ok(hasProblem(queue({ locked_by: "web-9" })));
    assert.ok(hasProblem(queue({ state: "unassigned", lag: 3 })) && !hasProblem(queue({ state: "unassigned" })));
    assert.ok(!isPolledByAnother(queue({ polled_by: "web-9", polled_ms_ago: 60_000 })), "60 s ago is not recent");
  });
  test("an unknown state is shown by its name", () => {
    assert.equal(queueState(queue({ state: "not_polling" })).word, "not polling");
    assert.equal(queueState(queue({ state: "brand_new" })).word, "brand_new");
  });
});

test("the state of a group is the server's", () => {
  const shown = (state, fields = {}) => groupState({ state, ...fields });
  assert.deepEqual(["stalled", "stopped", "falling behind", "unknown", "catching up", "ok", "brand new"].map((state) => shown(state).tone),
    ["bad", "bad", "warn", "none", "calm", "good", "none"]);
  assert.equal(shown("brand new").word, "brand new");
  assert.equal(shown("stopped", { lag: 0, unknown_queues: 0 }).tone, "none");
  assert.deepEqual([{ lag: 3, unknown_queues: 0 }, { lag: 0, unknown_queues: 1 }].map((fields) => shown("stopped", fields).tone), ["bad", "bad"]);
  const ranks = ["stalled", "stopped", "falling behind", "unknown", "catching up", "ok"].map((state) => shown(state).rank);
  assert.deepEqual(ranks, [...ranks].sort((a, b) => a - b));
});

test("a group with an error or a warning is not green, whatever its progress", () => {
  const shown = (state, severity, ...problems) => { const { tone, word } = groupState({ state, severity, problems }); return `${tone}: ${word}`; };
  assert.equal(shown("ok", "error", "subscriptions_disagree", "topic_missing"), "bad: subscriptions disagree");
  assert.equal(shown("ok", "warning", "topic_missing"), "warn: topic missing");
  assert.equal(shown("ok", "warning", "brand_new"), "warn: brand_new");
  assert.equal(shown("falling behind", "warning", "falling_behind"), "warn: falling behind");
  assert.equal(shown("falling behind", "error", "pulls_refused"), "bad: pulls refused");
  assert.equal(shown("stalled", "error", "listener_blocked"), "bad: stalled");
  assert.equal(shown("ok", null), "good: ok");
  const groups = [["ok", "error"], ["ok", "warning"], ["ok", null], ["stalled", "error"], ["unknown", "warning"]].map(([state, severity]) => ({ state, severity }));
  assert.deepEqual(countStates(groups), [["stalled", 1], ["errors", 1], ["warnings", 2], ["ok", 1]]);
});

test("the worst verdict decides how a group's page shows the state", () => {
  const verdicts = [["error", "a"], ["error", "a"], ["warning", "b"], ["info", "c"]].map(([severity, id]) => ({ severity, id }));
  assert.deepEqual(worstOf(verdicts), { severity: "error", problems: ["a", "b"] });
  assert.deepEqual(worstOf(verdicts.slice(3)), { severity: null, problems: [] });
});

test("the states of all groups are counted, the worst first", () => {
  const groups = ["ok", "stalled", "ok", "stopped", "stalled", "odd"].map((state) => ({ state }));
  assert.deepEqual(countStates(groups), [["stalled", 2], ["stopped", 1], ["ok", 2], ["odd", 1]]);
  const leftOver = { state: "stopped", lag: 0, unknown_queues: 0 };
  assert.deepEqual(countStates([leftOver, { ...leftOver, lag: 3 }, leftOver]), [["stopped", 1], ["over", 2]]);
  assert.deepEqual(countStates([]), []);
});

test("an unknown lag is shown as unknown, never as 0", () => {
  const shown = [[0, 0], [912, 0], [912, 2], [0, 2], [null, 0], [null, 2]].map(([lag, unknown]) => lagText({ lag, unknown_queues: unknown }));
  assert.deepEqual(shown, ["0", "912", "≥ 912", "unknown", "unknown", "unknown"]);
});

test("a verdict has its tone, and advice where there is something to do", () => {
  const line = (severity) => verdictLine({ id: "x", severity, sentence: "S.", advice: "A." });
  assert.deepEqual(["error", "warning", "info", "ok", "new"].map((severity) => line(severity).tone), ["bad", "warn", "none", "good", "none"]);
  assert.deepEqual(["error", "warning", "info", "ok"].map((severity) => line(severity).advice), ["A.", "A.", "", ""]);
  assert.equal(line("error").text, "S.");
});

test("waiting retries are added up over all brokers", () => {
  assert.equal(waitingText([retries()], 5_000), "none");
  assert.equal(waitingText([retries({ counted: false })], 5_000), "not counted yet");
  const two = [retries({ waiting: 2, next_due_ms: 13_000 }), retries({ waiting: 1, next_due_ms: 9_000 }), retries()];
  assert.deepEqual([5_000, 9_000, null].map((now) => waitingText(two, now)), [
    "3; next retry in 4 s", "3; next retry due now", "3"]);
  assert.equal(waitingText([retries({ waiting: 1_500, next_due_ms: 9_000, counted: false })], 5_000), "at least 1,500; one retry in 4 s");
});

test("entries of one group on several brokers are merged", () => {
  const line = (broker, fields) => ({ broker, group: "g", topics: ["orders"], lag: 1, holds: 2, members: 3, message_model: "CLUSTERING",
    state: "ok", unknown_queues: 0, ...fields });
  const more = { oldest_ms: 9, consume_tps: 0.5, retrying: null, dead_letters: 1, severity: "warning", problems: ["topic_missing"] };
  const lines = [line("a", more), line("a", { group: "alone" }), line("b", { topics: ["bills", "orders"], members: 2, message_model: "",
    state: "stalled", unknown_queues: 3, oldest_ms: 4, consume_tps: 1, retrying: 2, dead_letters: 3, severity: "error", problems: ["not_pulling", "topic_missing"] })];
  assert.deepEqual(mergeBrokers(lines), [
    { group: "g", topics: ["bills", "orders"], lag: 2, holds: 4, members: 3, message_model: "CLUSTERING", state: "stalled",
      unknown_queues: 3, brokers: ["a", "b"], oldest_ms: 9, consume_tps: 1.5, retrying: 2, dead_letters: 4,
      severity: "error", problems: ["not_pulling", "topic_missing"] },
    { group: "alone", topics: ["orders"], lag: 1, holds: 2, members: 3, message_model: "CLUSTERING", state: "ok",
      unknown_queues: 0, brokers: ["a"] }]);
});

test("a broker with only old offsets of a group does not stop it", () => {
  const line = (broker, state, lag, unknown = 0) => ({ broker, group: "g", topics: [], lag, holds: 0, members: 0, message_model: "",
    state, unknown_queues: unknown });
  const state = (...lines) => mergeBrokers(lines)[0].state;
  const ok = line("a", "ok", 3);
  const over = line("b", "stopped", 0);
  assert.equal(state(ok, over), "ok");
  assert.equal(state(over, ok), "ok");
  assert.equal(state(over, ok, over), "ok");
  assert.equal(state(over, over), "stopped");
  assert.equal(state(ok, line("b", "stopped", 1)), "stopped", "messages wait there");
  assert.equal(state(ok, line("b", "stopped", 0, 1)), "stopped", "messages may wait there");
});

test("an unknown lag stays unknown when brokers are merged", () => {
  const line = (broker, lag) => ({ broker, group: "g", topics: [], lag, holds: 0, members: 0, message_model: "" });
  assert.deepEqual([[null, null], [null, 2], [3, null]].map(([a, b]) => mergeBrokers([line("a", a), line("b", b)])[0].lag), [null, 2, 3]);
});

describe("clients", () => {
  test("have a type", () => {
    assert.deepEqual([member("a"), member("a", { language: "GO", version: "4.5.2" }), member("a", { language: "", version: "" }),
      member("a", { protocol: "websocket", language: "HTTP" }), member("a", { language: "COBOL", version: "" })].map(clientKind),
    ["Java 5.4.0", "Go 4.5.2", "RocketMQ", "WebSocket", "COBOL"]);
  });
  test("have a heartbeat age, marked when late", () => {
    const at = (now) => heartbeat(member("a"), now);
    assert.deepEqual([at(1_200), at(31_000), at(61_000), at(131_000)].map(({ text, tone }) => `${text} ${tone}`),
      ["now none", "30 s ago none", "1 min ago warn", "2 min 10 s ago bad"]);
    assert.equal(heartbeat(member("a"), null).text, "unknown");
    assert.equal(heartbeat(member("a", { last_heartbeat_ms: null, connected_at_ms: null }), 5).text, "unknown");
    assert.equal(heartbeat(member("a", { last_heartbeat_ms: null, connected_at_ms: 1 }), 5).text, "none");
    assert.equal(heartbeat(member("a", { last_heartbeat_ms: null }), 5).text, "none");
  });
  test("are listed up to a maximum", () => {
    assert.equal(joinNames(["a"]), "a");
    assert.equal(joinNames(["a", "b", "c"]), "a, b and c");
    assert.equal(joinNames(["a", "b", "c", "d", "e", "f"]), "a, b, c, d and 2 more");
  });
  test("have addresses for any name", () => {
    assert.equal(groupHref("%RETRY%a"), "/groups/%25RETRY%25a");
    assert.equal(clientHref("1.2.3.4@5#6"), "/connections?client=1.2.3.4%405%236");
    assert.equal(deadLettersHref(retries()), "/groups/billing/dead-letters?broker=broker-a");
  });
  test("ages are short", () => assert.deepEqual([age(10), age(12_000), age(61_000)], ["less than 1 s", "12 s", "1 min 1 s"]));
});

describe("an event", () => {
  const text = (type, fields) => explainEvent({ type, group: "g", client_id: "c", topic: "t", queue_id: 1, ...fields }).text;
  test("is a sentence", () => {
    assert.deepEqual([
      text("client_connected", { remote: "10.0.0.1:5" }), text("client_connected", { client_id: "", remote: "10.0.0.1:5" }),
      text("client_identified", { remote: "10.0.0.1:5", language: "GO", protocol: "remoting", version: 317 }),
      text("client_lost", { remote: "10.0.0.1:5", holds_released: 2 }), text("group_member_joined", { members: 1 }),
      text("group_member_left", { cause: "expired", members: 0 }), text("group_member_left", { cause: "unregister", members: 2 }),
      text("subscription_changed", { expression: "TagA", previous: "" }), text("subscription_changed", { expression: "", previous: "TagA" }),
      text("subscription_changed", { expression: "*", previous: "TagA" }), text("consumer_ids_notified", { cause: "left", members: 1 }),
      text("queue_taken", { previous: "d" }), text("queue_taken", { previous: "" }), text("queue_locked"),
      text("queue_unlocked", { cause: "expired" }), text("offset_reset", { offset: 5, previous: -1 }),
      text("offset_reset", { offset: 5, previous: 1_000 }), text("subscription_group_changed", { action: "created" }),
      text("message_sent_back", { message_id: "AB", reconsume_times: 1 }), text("message_dead_lettered", { message_id: "AB", reason: "asked" }),
    ], [
      "c connected from 10.0.0.1:5.", "A client connected from 10.0.0.1:5.", "10.0.0.1:5 is c, Go.",
      "c at 10.0.0.1:5 disconnected; 2 of its held pulls were released.", "c joined. The group has 1 member now.",
      "c left: it sent no heartbeat for 120 s. The group has no members now.", "c left: it unregistered. The group has 2 members now.",
      "The group subscribes to t: TagA.", "The group no longer subscribes to t.", "The group's subscription to t changed from TagA to *.",
      "1 member was notified to rebalance: a member left.", "c now pulls from t@1, instead of d.", "c now pulls from t@1.",
      "c locked t@1 to consume it in order.", "The lock on t@1 ended: c did not renew it.", "The offset of t@1 was reset to 5.",
      "The offset of t@1 was reset to 5; it was 1,000.", "The group's configuration was created.",
      "Message AB of t was sent back and will be delivered again (retry 1).",
      "Message AB of t was moved to the dead letter queue: its consumer asked for it.",
    ]);
  });
  test("of an unknown type is shown by its name", () => {
    assert.deepEqual(explainEvent({ type: "brand_new" }), { mark: "·", word: "brand new", tone: "none", text: "" });
  });
});

describe("the stream of a page", () => {
  const event = (seq) => ({ type: "queue_locked", seq });
  const snapshot = (fields) => ({ type: "snapshot", broker: "b", epoch: 3, seq: 10, wall_ms: 5_000, client_events: [event(4), event(9)], ...fields });
  const delta = (from, to, events = [], fields = {}) => ({ type: "delta", broker: "b", epoch: 3, seq_from: from, seq_to: to, wall_ms: 6_000,
    client_events: events, ...fields });
  const started = () => Object.freeze(reduce(initialState(), snapshot(), 4_000));
  const seqs = (state) => state.events.map(({ seq }) => seq);

  test("starts with a snapshot, newest first", () => {
    assert.deepEqual(seqs(started()), [9, 4]);
    assert.equal(started().clockOffsetMs, 1_000);
    assert.ok(!started().needsSnapshot);
  });
  test("continues with deltas", () => {
    const state = reduce(started(), delta(11, 14, [event(12), event(14)]), 5_000);
    assert.deepEqual(seqs(state), [14, 12, 9, 4]);
    assert.equal(state.seq, 14);
    const quiet = started();
    assert.equal(reduce(quiet, delta(11, 10), 5_000).events, quiet.events, "without events the list stays the same object");
  });
  test("needs a snapshot after a gap, a new epoch or a loss", () => {
    assert.ok(reduce(started(), delta(20, 30), 5_000).needsSnapshot);
    assert.ok(reduce(started(), delta(11, 12, [], { epoch: 4 }), 5_000).needsSnapshot);
    assert.ok(reduce(started(), { type: "lost" }, 5_000).needsSnapshot);
    assert.ok(reduce(initialState(), delta(1, 2), 5_000).needsSnapshot);
  });
  test("merges a snapshot after a gap, and starts empty with a new epoch", () => {
    assert.deepEqual(seqs(reduce(started(), snapshot({ seq: 20, client_events: [event(9), event(18)] }), 5_000)), [18, 9, 4]);
    assert.deepEqual(seqs(reduce(started(), snapshot({ epoch: 4, seq: 2, client_events: [event(1)] }), 5_000)), [1]);
  });
  test("of one group keeps only its events", () => {
    const events = [{ ...event(1), group: "a" }, { ...event(2), group: "b" }, event(3)];
    const state = reduce(initialState(), snapshot({ client_events: events }), 1, "a");
    assert.deepEqual(seqs(state), [1]);
    assert.deepEqual(seqs(reduce(state, delta(11, 12, [{ ...event(11), group: "b" }, { ...event(12), group: "a" }]), 2, "a")), [12, 1]);
  });
  test("of several brokers is one list by time, with each event's broker", () => {
    const at = (seq, ms) => ({ ...event(seq), wall_ms: ms });
    const first = reduce(initialState(), snapshot({ client_events: [at(1, 10), at(2, 30)] }), 1);
    const other = reduce(initialState(), snapshot({ broker: "c", client_events: [at(1, 20), at(7, 30)] }), 1);
    assert.deepEqual(mergeStreams([first, other]).map(({ broker, seq }) => `${broker}${seq}`), ["c7", "b2", "c1", "b1"]);
    assert.equal(mergeStreams([first, initialState()]), first.events, "without events of the other broker the list stays the same object");
    const many = reduce(initialState(), snapshot({ client_events: Array.from({ length: MAX_EVENTS }, (_, seq) => at(seq, seq)) }), 1);
    assert.equal(mergeStreams([first, many]).length, MAX_EVENTS);
  });
  test("is bounded", () => {
    const many = Array.from({ length: 500 }, (_, seq) => event(seq));
    assert.equal(reduce(initialState(), snapshot({ client_events: many, seq: 500 }), 1).events.length, MAX_EVENTS);
  });
  test("keeps other events when there are many retries", () => {
    const again = Array.from({ length: 500 }, (_, seq) => ({ type: seq % 2 ? "message_sent_back" : "message_dead_lettered", seq: 11 + seq }));
    const before = started();
    const state = reduce(before, delta(11, 510, again), 5_000);
    assert.equal(state.events.length, MAX_RETRIES + 2);
    assert.deepEqual(seqs(state).slice(-3), [511 - MAX_RETRIES, 9, 4]);
    assert.equal(newestChange(state.events), newestChange(before.events));
    assert.equal(newestChange(reduce(state, delta(511, 511, [event(511)]), 6_000).events).seq, 511);
    assert.equal(mergeStreams([state, state]).length, MAX_RETRIES + 4);
    assert.equal(newestChange(again), undefined);
  });
  test("ignores unknown frames and old deltas", () => {
    const state = started();
    assert.equal(reduce(state, { type: "pong" }, 1), state);
    assert.equal(reduce(state, delta(3, 5), 1), state, "older than the snapshot");
  });
});
