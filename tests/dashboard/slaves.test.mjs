/** What the live page says about slaves. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { knownSlaves, promiseText, slaveProblems, slaveText, unknownSlaves } from "../../static/js/text/slaves_text.js";

const NOW = 1_700_000_100_000;
const slave = (fields = {}) => ({ address: "10.0.0.12:50000", since_ms: "1700000000000", slave_ack_offset: "5000", transferred: "5000",
  reported_ms: "1700000098000", lag_bytes: "0", bytes_per_second: null, in_sync: true, ...fields });
const replication = (fields = {}) => ({ broker_role: "SYNC_MASTER", ha_listen_port: 10912, slaves_needed: 1, slaves: [slave()], waiting: 0,
  timeouts: 0, refused: 0, last_refused: null, ...fields });

test("a slave is described by its lag, its offset and its age", () => {
  assert.equal(slaveText(slave(), NOW), "10.0.0.12:50000: 0 B behind, has the log up to 5,000; connected for 1 min 40 s, reported 2 s ago");
  assert.match(slaveText(slave({ lag_bytes: "700", bytes_per_second: "300" }), NOW), /: 700 B behind, .*, 300 B\/s sent; /);
});

test("a lag that is not known is not 0", () => {
  assert.equal(slaveText(slave({ lag_bytes: null, slave_ack_offset: "-1099511627776" }), NOW),
    "10.0.0.12:50000: acknowledges nothing; connected for 1 min 40 s, reported 2 s ago");
});

test("the promise says how many slaves a send waits for", () => {
  assert.equal(promiseText(replication({ slaves_needed: 0 })), "sends are acknowledged without waiting for slaves");
  assert.equal(promiseText(replication()), "a send is acknowledged when a slave has it");
  assert.equal(promiseText(replication({ slaves_needed: 2, waiting: 3 })), "a send is acknowledged when 2 slaves have it; 3 requests wait now");
});

test("problems are sentences, and there are none while all is well", () => {
  assert.deepEqual(slaveProblems(replication(), NOW), []);
  const refused = { address: "10.0.0.9:1", reason: "its log ends at 9, but this broker's at 5", at_ms: "1700000099000" };
  assert.deepEqual(slaveProblems(replication({ ha_listen_port: 0, slaves: [], timeouts: 2, last_refused: refused }), NOW), [
    "haListenPort is off, so no slave can connect.",
    "1 slave must have each message, and 0 are connected.",
    "2 requests got FLUSH_SLAVE_TIMEOUT since the broker's start.",
    "10.0.0.9:1 was refused 1 s ago: its log ends at 9, but this broker's at 5",
  ]);
});

test("a follower that acknowledges nothing is no slave that has the messages", () => {
  const observer = slave({ lag_bytes: null, slave_ack_offset: "-1099511627776" });
  assert.deepEqual(slaveProblems(replication({ slaves: [observer] }), NOW), ["1 slave must have each message, and 0 are connected."]);
});

test("ages are by the broker's clock", () => {
  const answer = { replication: replication(), started_at_ms: "1700000000000", uptime_ms: "100000" };
  assert.match(knownSlaves(answer).slaves[0], /connected for 1 min 40 s, reported 2 s ago$/);
  assert.equal(knownSlaves({ ...answer, replication: replication({ ha_listen_port: 0, slaves_needed: 0, slaves: [] }) }), null);
});

test("while the broker does not answer, nothing is said about the number of slaves", () => {
  assert.deepEqual(unknownSlaves("no answer"), { promise: "", slaves: [], isEmpty: false, problems: ["The slaves are not known at the moment: no answer"] });
});
