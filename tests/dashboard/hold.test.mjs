import assert from "node:assert/strict";
import { test } from "node:test";

import { aboutHold, ownerOf, stepsOfHold } from "../../static/js/text/hold_time_line.js";

const held = { type: "pull_held", wall_ms: 1000, hold_id: 7, topic: "orders", queue_id: 0, group: "billing", client_id: "c",
  pull_from_offset: "5", queue_max_offset: "5", filter: "TagA" };
const passed = { type: "pull_passed_over", wall_ms: 1500, hold_id: 7, topic: "orders", queue_id: 0, from_offset: "5", to_offset: "7", by: "tags" };
const row = { id: 7, topic: "orders", queue_id: 0, group: "billing", pull_from_offset: "5", queue_max_offset: "5", deadline_ms: 16_000, filter: "TagA" };
const texts = (...events) => stepsOfHold({ events }).map(({ word, text }) => `${word}: ${text}`);

test("a pull that was woken by an arrival", () => {
  const woken = { type: "pull_woken", wall_ms: 2000, cause: "arrival", held_us: "1000000", wake_us: "164" };
  const answered = { type: "pull_answered", wall_ms: 2000, status: "FOUND", messages: 1, next_begin_offset: "6" };
  const delivered = { type: "messages_delivered", wall_ms: 2000, from_offset: "5", to_offset: "6", latency_ms: "1" };
  assert.deepEqual(texts({ ...held, filter: "*" }, woken, answered, delivered), [
    "held: it asked for offset 5 of orders@0, which ended at 5, so there was no message",
    "woken: after 1.0 s: a message that its filter accepts arrived; its answer was ready 164 µs after the arrival",
    "answered: FOUND, with 1 message; its next offset is 6",
    "delivered: the message at offset 5, 1 ms after it was stored",
  ]);
  assert.deepEqual(texts({ ...delivered, latency_ms: "0" }), ["delivered: the message at offset 5, as soon as it was stored"]);
});

test("a pull whose filter rejected what came, and whose client went away", () => {
  const released = { type: "pull_released", wall_ms: 2000, cause: "channel_gone", held_us: "1000000" };
  assert.deepEqual(texts(held, passed, released), [
    "held: it asked for offset 5 of orders@0, which ended at 5, so there was no message that its filter TagA accepts",
    "passed over: the messages at offsets 5 to 6 arrived, and its filter rejected them by tags",
    "released: after 1.0 s: its client disconnected, so it was not answered",
  ]);
});

test("an answer says what the filter passed over when the queue was read, and by what", () => {
  const answered = { type: "pull_answered", wall_ms: 2000, status: "FOUND", messages: 2, next_begin_offset: "9" };
  const said = (passed, byBitmap) => texts({ ...answered, passed_over: passed, passed_over_by_bitmap: byBitmap })[0];
  const start = "answered: FOUND, with 2 messages; its next offset is 9";
  assert.equal(said(0, 0), start);
  assert.equal(said(1, 0), `${start}; its filter passed over 1 message`);
  assert.equal(said(1200, 0), `${start}; its filter passed over 1,200 messages`);
  assert.equal(said(3, 3), `${start}; its filter passed over 3 messages by bitmap`);
  assert.equal(said("3", "2"), `${start}; its filter passed over 3 messages, 2 of them by bitmap, the others by their properties`);
});

test("a pop that was held", () => {
  const pop = { ...held, queue_id: -1, pull_from_offset: "-1", queue_max_offset: "-1" };
  const answered = { type: "pull_answered", wall_ms: 2000, status: "NO_MESSAGE_IN_QUEUE", messages: 0, next_begin_offset: "-1" };
  assert.deepEqual(texts(pop, answered), [
    "held: it pops from orders@any, which had no message for it",
    "answered: NO_MESSAGE_IN_QUEUE, with 0 messages",
  ]);
  assert.match(aboutHold({ hold: { ...row, ...pop, deadline_ms: 16_000 }, events: [pop] }), /^Waits to pop a message .* from any queue of orders;/);
});

test("a pull that is held says why and until when, and one that is not says so", () => {
  assert.match(aboutHold({ hold: row, events: [held] }), /^Waits for offset 5 .* no new message has arrived\. Only a message .* It is answered at .* at the latest\.$/);
  assert.match(aboutHold({ hold: row, events: [held, passed] }), /2 messages have arrived since \(the queue ends at 7\), but its filter TagA rejects them/);
  assert.equal(aboutHold({ hold: null, events: [held] }), "It is not held any more.");
});

test("its owner is known from its row or from any event with a group", () => {
  assert.equal(ownerOf({ hold: row, events: [] }), row);
  assert.equal(ownerOf({ hold: null, events: [passed, held] }), held);
  assert.deepEqual(ownerOf({ hold: null, events: [passed] }), {});
});
