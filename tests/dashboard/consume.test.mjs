import assert from "node:assert/strict";
import { test } from "node:test";
import { askable, consumedText, groupOfTopic, groupsNote } from "../../static/js/text/consume_text.js";

const client = (id, protocol, groups = ["g"]) => ({ client_id: id, protocol, consumer_groups: groups });

test("a result says what the listener returned and how long it took", () => {
  const answer = { client_id: "c1", result: "CR_LATER", remark: "", spent_ms: 12 };
  assert.deepEqual(consumedText(answer), { tone: "warn", sentence: "c1 answered CR_LATER after 12 ms: the listener wants the message again later.", remark: "" });
  assert.equal(consumedText({ ...answer, result: "CR_THROW_EXCEPTION", remark: "X\u202e" }).remark, "X⟨U+202E⟩");
  assert.equal(consumedText({ ...answer, result: "CR_NEW" }).tone, "none");
});

test("only RocketMQ's clients that consume in the group can be asked", () => {
  const clients = [client("java", "remoting"), client("web", "websocket"), client("producer", "remoting", [])];
  const { able, note } = askable(clients, "g");
  assert.deepEqual(able.map(({ client_id: id }) => id), ["java"]);
  assert.equal(note, "1 member is connected by WebSocket and cannot be asked.");
  assert.equal(askable([], "g").note, "No client of g is online.");
});

test("dead letters and retries belong to one group", () => {
  assert.equal(groupOfTopic("%DLQ%billing"), "billing");
  assert.equal(groupOfTopic("%RETRY%a_b"), "a_b");
  assert.equal(groupOfTopic("orders"), "");
  assert.match(groupsNote([], "orders"), /No group subscribes to orders/);
  assert.equal(groupsNote(["g"], "orders"), "");
});
