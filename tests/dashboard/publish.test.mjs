import assert from "node:assert/strict";
import { test } from "node:test";

import { messagesOf, requestsOf } from "../../static/js/publish_fields.js";

test("only the fields that are filled in are sent", () => {
  assert.deepEqual(messagesOf({ body: "a\nb" }), [{ body: "a\nb", body_encoding: "utf8" }]);
  assert.deepEqual(messagesOf({ body: "x", tag: " A ", keys: "k1  k2", queue: "3", delay: "4", properties: "trace=a=b\n\n colour = red " }),
    [{ body: "x", body_encoding: "utf8", tag: "A", keys: ["k1", "k2"], queue_id: 3, properties: { trace: "a=b", colour: "red", DELAY: "4" } }]);
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
