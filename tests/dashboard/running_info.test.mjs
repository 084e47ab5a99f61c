/** What clients of attached brokers answered, in words. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { askedText, clientsOf, stacksText } from "../../static/js/text/running_info.js";

const NOW = 1_700_000_000_000;
const queue = (fields = {}) => ({ topic: "orders", queue_id: 0, cached: 4, pulled_ms: String(NOW - 2000), consumed_ms: null, locked: false, ...fields });
const client = (fields = {}) => ({ client_id: "c1", problem: "", properties: {}, queues: [queue()], stacks: null, ...fields });
const broker = (fields = {}) => ({ broker: "broker-a", source: "10.0.0.1:10911", members: 1, clients: [client()],
  queues: [{ topic: "orders", queue_id: 0, offset: "3", pull_offset: "7" }], ...fields });

test("what is unknown is not 0", () => {
  const [{ queues: [one] }] = clientsOf({ brokers: [broker({ queues: [{ topic: "orders", queue_id: 0, offset: "3", pull_offset: null }] })] }, NOW);
  assert.deepEqual([one.place, one.cached, one.handed, one.consumed, one.pulled], ["orders@0", 4, null, "unknown", "2 s ago"]);
});

test("a client of several brokers is one client, with the queues of all", () => {
  const other = broker({ broker: "broker-b", clients: [client({ problem: "no answer", queues: [] })] });
  const [one, ...more] = clientsOf({ brokers: [other, broker()] }, NOW);
  assert.equal(more.length, 0);
  assert.deepEqual([one.problem, one.queues.map(({ place, handed }) => [place, handed])], ["", [["orders@0 at broker-a", 4]]]);
});

test("clients with messages come first", () => {
  const clients = [client({ client_id: "a", queues: [queue({ cached: 0 })] }), client({ client_id: "b" })];
  assert.deepEqual(clientsOf({ brokers: [broker({ clients })] }, NOW).map(({ id }) => id), ["b", "a"]);
});

test("a client is described by its version, start and threads", () => {
  const properties = { PROP_CLIENT_VERSION: "V5_4_0", PROP_CONSUMER_START_TIMESTAMP: String(NOW - 60_000), PROP_THREADPOOL_CORE_SIZE: "20" };
  assert.match(clientsOf({ brokers: [broker({ clients: [client({ properties })] })] }, NOW)[0].about, /^5\.4\.0, started 1 min.* ago, 20 threads$/);
});

test("the threads that call the listener come first", () => {
  assert.equal(stacksText("main  a\nmain  b\n\nConsumeMessageThread_g_1  c\n\nlogback  d\n"), "ConsumeMessageThread_g_1  c\n\nmain  a\nmain  b\n\nlogback  d\n");
});

test("an answer says whom it leaves out", () => {
  const none = broker({ broker: "broker-c", members: 0, clients: [] });
  assert.equal(askedText({ brokers: [broker({ members: 60 }), none], problems: { "broker-b": "busy" } }),
    "broker-a (10.0.0.1:10911) asked 1 of 60 members; broker-c (10.0.0.1:10911) has no member of the group; broker-b: busy");
});
