import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { dateTime, dateTimeSeconds, visible } from "../../static/js/text/format.js";
import { messageHref } from "../../static/js/links.js";
import { bodyLine, bodyText, deadText, purposeOf, viewsOf } from "../../static/js/text/message_text.js";
import { explainEvent } from "../../static/js/text/explain_group.js";
import { newMessages } from "../../static/js/search_state.js";
import { eventsOf, groupsOf, stepsOf } from "../../static/js/text/time_line.js";

const text = (body) => ({ body, body_encoding: "utf8" });
const binary = (...bytes) => ({ body: Buffer.from(bytes).toString("base64"), body_encoding: "base64" });

describe("what a message is for", () => {
  const now = new Date(2026, 10, 23, 12, 0, 0).getTime();
  const timer = (properties) => purposeOf({ topic: "rmq_sys_wheel_timer", store_time_ms: String(now), properties: { REAL_TOPIC: "orders", ...properties } }, now);

  test("is said of those that wait for their time, and of recalls", () => {
    assert.equal(timer({ TIMER_OUT_MS: String(now) }), "It is due for orders at 12:00:01.000.");
    assert.equal(timer({ TIMER_DELAY_MS: "3250", TIMER_OUT_MS: String(now + 3000) }), "It is due for orders at 12:00:03.250.");
    assert.equal(timer({ TIMER_DELAY_SEC: "3", TIMER_OUT_MS: String(now + 2000) }), "It is due for orders at 12:00:03.000.");
    assert.equal(timer({ TIMER_DELIVER_MS: String(now + 709), TIMER_OUT_MS: String(now) }), "It is due for orders at 12:00:00.709.");
    assert.match(timer({ TIMER_OUT_MS: String(now), TIMER_DEL_UNIQKEY: "A" }), /^It is a recall of the message with the same id, which was due for orders at/);
    assert.equal(purposeOf({ topic: "SCHEDULE_TOPIC_XXXX", properties: { REAL_TOPIC: "orders", DELAY: "3" } }), "It is for orders, after the delay of level 3.");
  });
  test("is not said of others", () => assert.equal(purposeOf({ topic: "orders", properties: { TIMER_OUT_MS: "1" } }), ""));
});

describe("a body", () => {
  test("is JSON only if it is an object or a list", () => {
    assert.deepEqual(viewsOf(text(' {"a": 1}')), ["json", "text", "hex"]);
    for (const body of ["12", '"x"', "{a: 1}", ""]) assert.deepEqual(viewsOf(text(body)), ["text", "hex"], body);
    assert.deepEqual(viewsOf(binary(255)), ["hex", "text"]);
  });
  test("keeps numbers that JavaScript cannot hold", () => {
    const { text: shown } = bodyText(text('{"id":12345678901234567890,"list":[1,{}],"s":"a,\\"{b"}'), "json", 1000);
    assert.equal(shown, '{\n  "id": 12345678901234567890,\n  "list": [\n    1,\n    {}\n  ],\n  "s": "a,\\"{b"\n}');
    assert.deepEqual(JSON.parse(shown).s, 'a,"{b');
  });
  test("is cut, and says how long it is", () => {
    assert.deepEqual(bodyText(text("x".repeat(100)), "text", 10), { text: "x".repeat(10), shown: 10, total: 100, unit: "character" });
    const hex = bodyText(binary(72, 105, 0, 255), "hex", 3);
    assert.equal(hex.text, `00000000  48 69 00${" ".repeat(39)}  Hi.`);
    assert.deepEqual([hex.shown, hex.total], [3, 4]);
  });
  test("that is deep or large is shown in a moment", () => {
    const deep = `${"[".repeat(4000)}${"]".repeat(4000)}`;
    assert.ok(bodyText(text(deep), "json", 100).text.startsWith("[\n  ["));
    const whole = bodyText(text("[1]"), "json", 100);
    assert.deepEqual([whole.shown, whole.total], [7, 7]);
    const long = JSON.stringify(Array.from({ length: 200_000 }, (_, i) => i));
    assert.equal(bodyText(text(long), "json", 10).text, "[\n  0,\n  1");
    const nested = bodyText(text("[".repeat(4_000_000)), "json", 100);
    assert.deepEqual([nested.text.length, nested.shown, nested.total], [100, 100, null]);
  });
  test("shows characters that would hide or turn text", () => {
    assert.equal(visible("a\u202Egpj.exe\u0000\u200b\n\t"), "a⟨U+202E⟩gpj.exe⟨U+0000⟩⟨U+200B⟩\n\t");
    assert.equal(visible("\u061c\u180e"), "⟨U+061C⟩⟨U+180E⟩");
    assert.equal(bodyLine(text("a\n\u202eb")), "a ⟨U+202E⟩b");
    assert.deepEqual([bodyLine(text("")), bodyLine(text(" \n"))], ["empty", "blank"]);
    const batch = { ...text("x"), properties: { INNER_NUM: "3", INNER_BASE: "0" } };
    assert.equal(bodyLine(batch), "a batch of 3 messages");
  });
});

describe("the address of a message", () => {
  test("has its id, or the offset id if the id has strange characters", () => {
    assert.equal(messageHref({ message_id: "7F00", topic: "a|b" }), "/messages/7F00?topic=a%7Cb");
    assert.equal(messageHref({ message_id: "../x", offset_message_id: "0A" }), "/messages/0A");
    assert.equal(messageHref({ message_id: "a/b" }), "/messages/a%2Fb");
  });
});

describe("a time", () => {
  test("has its date if it is not today", () => {
    const now = new Date(2026, 10, 23, 12).getTime();
    const east = -new Date(2026, 10, 22).getTimezoneOffset() / 60;
    const zone = east ? `GMT${east > 0 ? "+" : ""}${east}` : "UTC";
    assert.equal(dateTime(new Date(2026, 10, 23, 9, 5).getTime(), now), "09:05:00.000");
    assert.equal(dateTime(new Date(2026, 10, 22, 9, 5).getTime(), now), `2026-11-22 09:05:00.000 ${zone}`);
    assert.equal(dateTimeSeconds(new Date(2026, 10, 22, 9, 5).getTime(), now), `2026-11-22 09:05:00 ${zone}`);
    assert.equal(dateTime(null), "unknown");
  });
});

describe("the time line", () => {
  const message = { topic: "orders", queue_id: 0, born_time_ms: "990", store_time_ms: "1000", born_host: "10.0.0.2:1" };
  const events = [
    { type: "messages_stored", wall_ms: "1000", topic: "orders", queue_id: 0 },
    { type: "pull_woken", wall_ms: "1000", group: "a", client_id: "c1", cause: "arrival", held_us: 3_000_000, wake_us: 210 },
    { type: "messages_delivered", wall_ms: "1000", group: "a", client_id: "c1", messages: 3 },
    { type: "flush_done", wall_ms: "1500", took_us: 900 },
    { type: "messages_delivered", wall_ms: "1600", group: "b", client_id: "c2", messages: 1 },
    { type: "offset_committed", wall_ms: "2000", group: "a", client_id: "c1", topic: "orders", queue_id: 0, offset: "1" },
  ];
  test("has a step for each event", () => {
    const steps = stepsOf(message, events);
    assert.deepEqual(steps.map(({ word, group }) => word + group), ["born", "stored", "wokena", "delivereda", "flushed", "deliveredb", "committeda"]);
    assert.equal(steps[2].text, "a pull that was held for 3.0 s: 210 µs after the arrival");
    assert.equal(steps[3].text, "to c1, with 2 other messages");
  });
  test("begins with the message itself when its events are gone", () => {
    assert.deepEqual(stepsOf(message, []).map(({ at, word }) => [at, word]), [[990, "born"], [1000, "stored"]]);
  });
  test("puts a copy behind the events of earlier copies", () => {
    const earlier = [{ type: "messages_delivered", wall_ms: "991", group: "a", client_id: "c1", messages: 1 }, events[5]];
    assert.deepEqual(stepsOf(message, earlier).map(({ word }) => word), ["born", "delivered", "stored", "committed"]);
    const [outcome] = groupsOf({ ...message, topic: "%DLQ%a" }, earlier, false);
    assert.deepEqual(outcome, { group: "a", word: "dead", tone: "bad",
      text: "Delivered 9 ms before this copy was stored; committed 1.0 s after it was stored." });
  });
  test("says until when a message waits for its time", () => {
    const due = Date.now();
    const properties = { TIMER_DELIVER_MS: String(due), TIMER_OUT_MS: String(due - 1) };
    const waits = [{ type: "messages_stored", wall_ms: "1000", topic: "rmq_sys_wheel_timer", queue_id: 0 }, { type: "messages_delayed", wall_ms: "1000", level: 0 }];
    assert.equal(stepsOf({ ...message, properties }, waits).at(-1).text, `until ${dateTime(due)}`);
  });
  test("does not say that consumers see a message in the queue of its delay", () => {
    const dispatched = (topic) => stepsOf(message, [{ type: "messages_dispatched", wall_ms: "1000", topic, queue_id: 2 }]).at(-1).text;
    assert.equal(dispatched("SCHEDULE_TOPIC_XXXX"), "in SCHEDULE_TOPIC_XXXX@2");
    assert.equal(dispatched("orders"), "in orders@2, where consumers see it");
  });
  test("takes from the poll journal what the events no longer have", () => {
    const entry = (fields) => ({ at_ms: 1000, kind: "woken", cause: "arrival", topic: "orders", queue_id: 0, group: "a", client_id: "c1",
      messages: 3, held_us: 5, wake_us: 7, next_offset: "1", ...fields });
    const journal = [entry(), entry({ at_ms: 1600, kind: "answered_at_once", group: "b", client_id: "c2" }), entry({ at_ms: 2000, kind: "committed" })];
    assert.deepEqual(eventsOf({ events: [], journal }).map(({ type, group }) => [type, group]), [["pull_woken", "a"],
      ["messages_delivered", "a"], ["messages_delivered", "b"], ["offset_committed", "a"]]);
    assert.equal(eventsOf({ events, journal }).length, events.length);
  });
  test("says what became of the message in each group", () => {
    assert.deepEqual(groupsOf(message, events, true).map(({ group, word }) => [group, word]), [["a", "committed"], ["b", "delivered"]]);
    assert.equal(groupsOf(message, events, true)[0].text, "Delivered as soon as it was stored; committed 1.0 s after it was stored.");
    assert.match(groupsOf(message, events, true)[1].text, /not committed yet, as far as is known\.$/);
  });
  test("does not say that a message was sent back whose lease is over", () => {
    const back = (level) => [{ type: "message_sent_back", wall_ms: "3000", group: "c", message_id: "M", topic: "orders", reconsume_times: 1, delay_level: level }];
    assert.deepEqual([3, 0].map((level) => stepsOf(message, back(level)).at(-1).word), ["sent back", "no ack"]);
    assert.match(explainEvent(back(0)[0]).text, /^Message M of orders came back without an ack and will be delivered again \(retry 1\)\.$/);
  });
  const popped = [
    { type: "offset_committed", wall_ms: "1000", group: "a", client_id: "c1", topic: "orders", queue_id: 0, offset: "1" },
    { type: "messages_delivered", wall_ms: "1000", group: "a", client_id: "c1", messages: 1 },
  ];
  const acknowledged = (fields) => ({ type: "messages_acknowledged", wall_ms: "2000", group: "a", topic: "orders", queue_id: 0, offsets: ["0"], late: false, ...fields });
  test("says that a popped message waits for its acknowledgement, although the offset moved", () => {
    const [waiting] = groupsOf(message, popped, true);
    assert.deepEqual([waiting.word, waiting.text], ["delivered", "Delivered as soon as it was stored; not acknowledged yet, as far as is known."]);
    const [ended] = groupsOf(message, [...popped, acknowledged()], true);
    assert.deepEqual([ended.word, ended.tone, ended.text], ["acknowledged", "good", "Delivered as soon as it was stored; acknowledged 1.0 s after it was stored."]);
    assert.deepEqual(groupsOf(message, [...popped, acknowledged({ late: true })], true), [waiting], "a late one changed nothing");
    assert.deepEqual(groupsOf(message, [acknowledged({ group: "other", late: true })], true), []);
  });
  test("has steps for acknowledgements and changed leases", () => {
    const change = (ms) => ({ type: "invisible_time_changed", wall_ms: "1500", group: "a", topic: "orders", queue_id: 0, offset: "0", invisible_ms: ms });
    const steps = stepsOf(message, [...popped, change("30000"), change("0"), acknowledged(), acknowledged({ late: true })]).slice(-4);
    assert.deepEqual(steps.map(({ word, text }) => `${word}: ${text}`), ["lease: hidden for 30.0 s from then on", "lease: visible again",
      "acknowledged: its delivery to the group is complete", "late ack: changed nothing: the delivery that it names no longer hides the message"]);
  });
  test("calls a dead letter that was sent again so, not a retry 0", () => {
    const again = [{ type: "message_sent_back", wall_ms: "3000", topic: "orders", group: "c", message_id: "M", reconsume_times: 0 }];
    assert.deepEqual(stepsOf(message, again).at(-1).word, "sent again");
    const [outcome] = groupsOf(message, again, true);
    assert.equal(outcome.word, "sent again");
    assert.match(outcome.text, /^Sent again once after it was dead; not committed yet/);
    assert.match(explainEvent(again[0]).text, /^The dead letter M of orders was sent to the group again, as a first attempt\.$/);
    assert.match(explainEvent({ ...again[0], reconsume_times: 1 }).text, /delivered again \(retry 1\)/);
  });
  test("calls a message that was skipped passed, not committed", () => {
    const skipped = [{ type: "offset_committed", wall_ms: "3000", topic: "orders", queue_id: 0, group: "c", client_id: "c1", offset: "9" }];
    const [whole] = groupsOf(message, skipped, true);
    assert.deepEqual([whole.word, whole.tone], ["passed", "calm"]);
    assert.match(whole.text, /^Never delivered: skipped by a filter or a reset\. The offset moved past it .* after it was stored\.$/);
    assert.equal(stepsOf(message, skipped).at(-1).tone, "calm");
    const [partial] = groupsOf(message, skipped, false);
    assert.equal(partial.tone, "none");
    assert.match(partial.text, /It is not known whether it was delivered/);
  });
});

describe("new messages of a search", () => {
  const news = (answer, ...known) => newMessages(answer, new Set(known), (id) => id);
  test("are above the list, or between its messages", () => {
    assert.deepEqual(news([9, 8, 7, 6], 7, 6), [9, 8]);
    assert.deepEqual(news([9, 8, 7, 6], 8, 6), [9, 7]);
    assert.deepEqual(news([9, 8]), [9, 8]);
  });
  test("are not those that are older than the list", () => {
    assert.deepEqual(news([9, 8, 7, 6, 5], 8, 7), [9]);
  });
});

test("a dead letter tells whether the group's maximum was reached", () => {
  assert.equal(deadText(1, null), "after 1 attempt");
  assert.equal(deadText(17, 16), "after 17 attempts: the group's maximum of retries, 16, is reached");
  assert.match(deadText(16, 16), /^after 16 attempts: its consumer gave it up, or allows fewer/);
});
