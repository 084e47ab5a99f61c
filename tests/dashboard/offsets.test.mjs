import assert from "node:assert/strict";
import { test } from "node:test";

import { changeText, changesText, continuesText, resetBody } from "../../static/js/text/offset_changes.js";

const change = (before, after) => ({ topic: "orders", queue_id: 0, before, after });

test("a change says how many messages come again or are skipped", () => {
  assert.equal(changeText(change("40", "10")), "orders@0: 40 → 10, 30 again");
  assert.equal(changeText(change("40", "1240")), "orders@0: 40 → 1,240, 1,200 skipped");
  assert.equal(changeText(change(null, "7")), "orders@0: no offset → 7");
  assert.equal(changesText([change("40", "10"), change("1", "2"), change(null, "3")]), "30 messages again, 1 message skipped in 3 queues.");
  assert.equal(changesText([change(null, "3")]), "New offsets in 1 queue.");
  assert.equal(changesText([]), "Nothing changes: the group is there already.");
});

test("the request names the queue and one target", () => {
  const fields = { topic: "orders", to: "max", time: "", offset: "", queue: "" };
  assert.deepEqual(resetBody(fields), { topic: "orders", to: "max" });
  assert.deepEqual(resetBody({ ...fields, to: "offset", offset: " 12 ", queue: "0" }), { topic: "orders", queue_id: 0, offset: 12 });
  assert.deepEqual(resetBody({ ...fields, to: "time", time: "1970-01-01T00:00:01Z" }), { topic: "orders", to: 1000 });
  assert.throws(() => resetBody({ ...fields, to: "offset", offset: "-1" }), /whole number/);
  assert.throws(() => resetBody({ ...fields, to: "time" }), /date and a time/);
});

test("a client that pulls without being a member undoes the reset", () => {
  const queue = (by, ago = 100) => ({ polled_by: by, polled_ms_ago: ago });
  const group = (queues, members = [], holds = []) => continuesText({ queues, members: members.map((id) => ({ client_id: id })), holds });
  assert.deepEqual(group([queue(null, null), queue("old", 60_000)]), { text: "No member is online; the next one begins at the new offsets.", isUndone: false });
  assert.deepEqual(group([queue("x"), queue("x")]),
    { text: "x pulls without being a member; its next commit overwrites the reset. Stop it first.", isUndone: true });
  assert.match(group([], [], [{ client_id: "y" }]).text, /^y pulls without being a member/);
  assert.match(group([queue("y"), queue("x"), queue("m")], ["m"]).text, /^x and y pull without being members; their next .* One member is online/);
  assert.deepEqual(group([queue("m")], ["m", "n"]), { text: "2 members are online and will continue from the new offsets.", isUndone: false });
});
