import assert from "node:assert/strict";
import { test } from "node:test";

import { topicHref } from "../../static/js/links.js";
import { changeWarning, changeWarnings, isOwnTopic, permText, queuesText, topicText } from "../../static/js/text/topic_text.js";

test("a topic in words", () => {
  const config = { perm: 6, read_queues: 4, write_queues: 4 };
  assert.deepEqual([[config], [config, { ...config, perm: 4, read_queues: 2 }], []].map(topicText), ["Read, write; 4 queues.", "6 queues at 2 brokers.", ""]);
  assert.deepEqual([6, 4, 2, 7, 0].map(permText), ["read, write", "read", "write", "read, write, inherit", "none"]);
  assert.equal(queuesText({ read_queues: 4, write_queues: 4 }), "4");
  assert.equal(queuesText({ read_queues: 8, write_queues: 4 }), "4 written, 8 read");
  assert.deepEqual(["orders", "%RETRY%g", "%DLQ%g", "SELF_TEST_TOPIC"].map((topic) => isOwnTopic({ topic, system: false })), [false, true, true, true]);
  assert.equal(topicHref("%DLQ%a"), "/topics/%25DLQ%25a");
});

test("a change says what it takes away", () => {
  const before = { read_queues: 4, write_queues: 4, perm: 6 };
  assert.equal(changeWarning(before, { read: 8, write: 8, perm: 6 }), "");
  assert.equal(changeWarning(before, { read: 4, write: 2, perm: 6 }), "");
  assert.match(changeWarning(before, { read: 3, write: 3, perm: 6 }), /1 queue can no longer/);
  assert.match(changeWarning(before, { read: 4, write: 6, perm: 4 }), /nobody reads.*Producers will be refused/);
});

test("a change of a topic at several brokers says what each of them loses", () => {
  const at = (broker, queues) => ({ broker, perm: 6, read_queues: queues, write_queues: queues });
  const change = { read: 4, write: 4, perm: 6 };
  assert.equal(changeWarnings([at("a", 4)], change), "");
  assert.equal(changeWarnings([at("a", 4), at("b", 8)], change),
    "This sets it at 2 brokers. At b: Messages in 4 queues can no longer be consumed.");
});
