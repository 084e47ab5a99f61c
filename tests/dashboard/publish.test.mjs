import assert from "node:assert/strict";
import { test } from "node:test";

import { messagesOf, pressKeys, requestsOf, sendAll } from "../../static/js/publish_fields.js";

test("only the fields that are filled in are sent", () => {
  assert.deepEqual(messagesOf({ body: "a\nb" }), [{ body: "a\nb", body_encoding: "utf8" }]);
  assert.deepEqual(messagesOf({ body: "x", tag: " A ", keys: "k\u30001  k2", queue: "3", delay: "4", properties: "trace=a=b\n\n colour = red " }),
    [{ body: "x", body_encoding: "utf8", tag: "A", keys: ["k\u30001", "k2"], queue_id: 3, properties: { trace: "a=b", colour: "red", DELAY: "4" } }]);
});

test("each line is a message; delayed ones are published one by one", () => {
  const lines = messagesOf({ body: "a\n \nb\r\n", lines: true });
  assert.deepEqual(lines.map(({ body }) => body), ["a", "b"]);
  assert.equal(requestsOf(lines).length, 1);
  assert.equal(requestsOf(messagesOf({ body: "a\nb", lines: true, delay: "1" })).length, 2);
});

test("what is wrong is said", () => {
  assert.throws(() => messagesOf({ body: "x", queue: "-1" }), /queue is a number/);
  assert.throws(() => messagesOf({ body: "x", delay: "0" }), /1 or more/);
  assert.throws(() => messagesOf({ body: "x", properties: "novalue" }), /name=value; “novalue” is not/);
  assert.throws(() => messagesOf({ body: " \n", lines: true }), /at least one line/);
  assert.throws(() => messagesOf({ body: "x\n".repeat(1001), lines: true }), /1,001 messages are too many/);
});

test("a failure says how many messages are stored already", async () => {
  const delayed = messagesOf({ body: "a\nb\nc\nd", lines: true, delay: "1" });
  const keys = [];
  const failing = (status) => async (some, key) => {
    keys.push(key);
    if (keys.length > 2) throw Object.assign(new Error("The disk is full."), { status });
    return some;
  };
  await assert.rejects(sendAll(delayed, "k", failing(507)), { message: "2 of 4 messages stored; The disk is full." });
  assert.deepEqual(keys, ["k-0", "k-1", "k-2"]);
  keys.length = 0;
  await assert.rejects(sendAll(delayed, "k", failing(0)), { message: "at least 2 of 4 messages stored; The disk is full." });
  keys.length = 0;
  assert.equal((await sendAll(delayed.slice(0, 2), "k", failing(0))).length, 2);
});

test("a press has a new key, unless the one before failed with the same content", () => {
  let number = 0;
  const presses = pressKeys(() => `key-${(number += 1)}`);
  assert.deepEqual([presses.keyOf("a"), presses.keyOf("a")], ["key-1", "key-2"]);
  presses.pressFailed();
  assert.deepEqual([presses.keyOf("a"), presses.keyOf("b"), presses.keyOf("a")], ["key-2", "key-3", "key-4"]);
  presses.pressFailed();
  presses.keyOf("a");
  assert.equal(presses.keyOf("a"), "key-5", "the press before did not fail");
});
