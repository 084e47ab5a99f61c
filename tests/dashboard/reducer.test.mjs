import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { MAX_WAKEUPS, brokerTime, initialState, queueKey, reduce } from "../../static/js/reducer.js";

const HISTOGRAM = { bounds: [100, 1000], counts: [0, 0, 0] };

function hold(id, fields = {}) {
  return { broker: "broker-a", id, topic: "orders", queue_id: 0, group: "billing", client_id: "c", protocol: "http",
    pull_from_offset: 7, queue_max_offset: 7, suspended_at_ms: 1000, deadline_ms: 16_000, filter: "*", ...fields };
}

function queue(maxOffset, fields = {}) {
  return { broker: "broker-a", topic: "orders", queue_id: 0, min_offset: 0, max_offset: maxOffset,
    last_store_time_ms: null, holds: 0, ...fields };
}

function wakeup(seq, holdId = seq) {
  return { seq, wall_ms: seq, hold_id: holdId, topic: "orders", queue_id: 0, group: "g", client_id: "c",
    cause: "arrival", held_us: 1, wake_us: 1, messages: 1 };
}

function snapshot(fields = {}) {
  return { type: "snapshot", broker: "broker-a", epoch: 3, seq: 10, wall_ms: 50_000, long_polling_enable: true,
    short_polling_time_mills: 1000, problem: "", holds_total: 1, holds: [hold(1)], queues_total: 1,
    queues: [queue(7)], wakeups: [wakeup(4), wakeup(9)], counters: { pulls_received: 5 }, wakeup_us: HISTOGRAM,
    held_ms: HISTOGRAM, positions: { min: 0, appended: 1, flushed: 1, dispatched: 1 }, ...fields };
}

function delta(from, to, fields = {}) {
  return { type: "delta", broker: "broker-a", epoch: 3, seq_from: from, seq_to: to, wall_ms: 50_200,
    holds: { added: [], removed: [], total: 1 }, queues: { changed: [], removed: [] }, wakeups: [],
    counters: { pulls_received: 6 }, wakeup_us: HISTOGRAM, held_ms: HISTOGRAM, long_polling_enable: true, problem: "",
    dropped: 0, ...fields };
}

const begun = (fields) => reduce(initialState(), snapshot(fields), 49_000);

/** Deep-frozen states show at once when a reduction writes into what it was given. States share the Maps of holds and
 * queues, but not what is in them. */
function frozen(state) {
  for (const value of Object.values(state)) if (Array.isArray(value)) Object.freeze(value);
  for (const value of [...state.holds.values(), ...state.queues.values()]) Object.freeze(value);
  return Object.freeze(state);
}

describe("a snapshot", () => {
  test("sets every value; a value that was not sent is null", () => {
    const before = initialState();
    assert.equal(before.holdsTotal, null);
    assert.equal(before.counters, null);
    assert.equal(before.longPollingEnable, null);
    const state = begun();
    assert.deepEqual([...state.holds.keys()], [1]);
    assert.equal(state.queues.get(queueKey("orders", 0)).max_offset, 7);
    assert.deepEqual(state.wakeups.map((w) => w.seq), [9, 4], "newest first");
    assert.equal(state.longPollingEnable, true);
    assert.equal(state.needsSnapshot, false);
  });

  test("replaces holds and queues", () => {
    const state = reduce(frozen(begun()), snapshot({ seq: 20, holds: [hold(2)], queues: [] }), 49_500);
    assert.deepEqual([...state.holds.keys()], [2]);
    assert.equal(state.queues.size, 0);
  });

  test("of a new epoch drops the old wake-ups", () => {
    const state = reduce(frozen(begun()), snapshot({ epoch: 4, seq: 1, wakeups: [] }), 49_500);
    assert.deepEqual(state.wakeups, []);
    assert.equal(state.epoch, 4);
  });

  test("after a long silence restarts the rates", () => {
    const state = reduce(frozen(begun()), snapshot({ seq: 900, wall_ms: 90_000, queues: [queue(5000)] }), 89_000);
    assert.equal(state.watchedSinceMs, 90_000);
    assert.deepEqual(state.queues.get("orders@0").samples, [[90_000, 5000]]);
    assert.equal(state.history.length, 1);
  });
});

describe("a delta", () => {
  test("adds and removes holds in the Map that all states share, and counts its changes", () => {
    const change = { added: [hold(2), hold(3)], removed: [1], total: 2 };
    const before = begun();
    const state = reduce(frozen(before), delta(11, 14, { holds: change }), 49_200);
    assert.deepEqual([...state.holds.keys()], [2, 3]);
    assert.equal(state.holds, before.holds, "a copy of 10,000 rows for each delta would be 20 MB of garbage a second");
    assert.equal(state.holdsChanges, before.holdsChanges + 3);
    assert.equal(state.holdsTotal, 2);
    assert.equal(state.seq, 14);
    assert.equal(state.counters.pulls_received, 6);
  });

  test("updates and removes queues", () => {
    const before = begun();
    const moved = reduce(frozen(before), delta(11, 12, { queues: { changed: [queue(9)], removed: [] } }), 49_200);
    assert.equal(moved.queues.get("orders@0").max_offset, 9);
    assert.equal(moved.queuesChanges, before.queuesChanges + 1);
    const gone = reduce(frozen(moved), delta(13, 13, { queues: { changed: [], removed: [["orders", 0]] } }), 49_300);
    assert.equal(gone.queues.size, 0);
    assert.equal(gone.queuesChanges, moved.queuesChanges + 1);
    assert.equal(reduce(frozen(gone), delta(14, 14), 49_400).queuesChanges, gone.queuesChanges);
  });

  test("as a heartbeat (seq_from = seq_to + 1) changes only the clock", () => {
    const before = begun();
    const state = reduce(frozen(before), delta(11, 10, { wall_ms: 52_000 }), 51_000);
    assert.equal(state.needsSnapshot, false);
    assert.equal(state.seq, 10);
    assert.equal(state.wallMs, 52_000);
    assert.equal(state.holdsChanges, before.holdsChanges);
  });

  test("after a gap is not applied and needs a snapshot", () => {
    const state = reduce(frozen(begun()), delta(13, 14, { holds: { added: [hold(9)], removed: [], total: 2 } }), 49_200);
    assert.equal(state.needsSnapshot, true);
    assert.equal(state.gaps, 1);
    assert.deepEqual([...state.holds.keys()], [1]);
  });

  test("is ignored until the snapshot after a gap", () => {
    const gap = reduce(begun(), delta(13, 14), 49_200);
    const later = reduce(frozen(gap), delta(15, 16), 49_300);
    assert.equal(later, gap);
    assert.equal(reduce(later, snapshot({ seq: 16 }), 49_400).needsSnapshot, false);
  });

  test("before any snapshot needs one", () => {
    const state = reduce(initialState(), delta(1, 2), 1);
    assert.equal(state.needsSnapshot, true);
    assert.equal(state.seq, null);
  });

  test("of another epoch needs a snapshot", () => {
    const state = reduce(frozen(begun()), delta(11, 12, { epoch: 4 }), 49_200);
    assert.equal(state.needsSnapshot, true);
    assert.equal(state.epoch, 3);
  });

  test("older than the snapshot is ignored", () => {
    const before = begun();
    assert.equal(reduce(before, delta(5, 9, { holds: { added: [hold(8)], removed: [], total: 1 } }), 49_100), before);
  });

  test("that overlaps the snapshot is applied", () => {
    const state = reduce(frozen(begun()), delta(8, 12, { holds: { added: [hold(2)], removed: [], total: 2 } }), 49_100);
    assert.equal(state.needsSnapshot, false);
    assert.deepEqual([...state.holds.keys()], [1, 2]);
    assert.equal(state.seq, 12);
  });

  test("needs a snapshot when there are more rows than the broker has holds", () => {
    const state = reduce(frozen(begun()), delta(8, 12, { holds: { added: [hold(2)], removed: [], total: 1 } }), 49_100);
    assert.equal(state.needsSnapshot, true);
  });

  test("needs a snapshot when holds were left out", () => {
    const change = { added: [hold(2)], removed: [], total: 9 };
    assert.equal(reduce(frozen(begun()), delta(11, 12, { holds: change, dropped: 7 }), 49_100).needsSnapshot, true);
  });

  test("is applied when the holds left out exceed a snapshot's limit", () => {
    const many = Array.from({ length: 1000 }, (_, i) => hold(i + 1));
    const state = reduce(begun({ holds: many, holds_total: 3000 }), delta(11, 12, { dropped: 7, holds: { added: [], removed: [], total: 3000 } }), 49_100);
    assert.equal(state.needsSnapshot, false);
  });

  test("adds up dropped wake-ups", () => {
    const first = reduce(begun(), delta(11, 12, { dropped: 5 }), 49_100);
    assert.equal(reduce(first, delta(13, 14, { dropped: 2 }), 49_200).dropped, 7);
  });
});

describe("wake-ups", () => {
  test("are sorted newest first, without duplicates", () => {
    const state = reduce(begun(), delta(11, 12, { wakeups: [wakeup(9), wakeup(11), wakeup(12)] }), 49_100);
    assert.deepEqual(state.wakeups.map((w) => w.seq), [12, 11, 9, 4]);
  });

  test("are bounded", () => {
    const many = Array.from({ length: 500 }, (_, i) => wakeup(11 + i));
    const state = reduce(begun(), delta(11, 510, { wakeups: many }), 49_100);
    assert.equal(state.wakeups.length, MAX_WAKEUPS);
    assert.equal(state.wakeups[0].seq, 510);
  });

  test("of one event are told apart by their hold", () => {
    const state = reduce(begun(), delta(11, 12, { wakeups: [wakeup(12, 1), wakeup(12, 2)] }), 49_100);
    assert.equal(state.wakeups.filter((w) => w.seq === 12).length, 2);
  });
});

describe("a loss of the engine", () => {
  test("keeps the state and needs a snapshot", () => {
    const state = reduce(frozen(begun()), { type: "lost", reason: "restarting" }, 60_000);
    assert.equal(state.needsSnapshot, true);
    assert.deepEqual([...state.holds.keys()], [1]);
  });
});

test("unknown frames change nothing", () => {
  const state = begun();
  assert.equal(reduce(state, { type: "pong" }, 1), state);
  assert.equal(reduce(state, null, 1), state);
});

describe("the broker's clock", () => {
  test("is unknown before the first frame", () => assert.equal(brokerTime(initialState(), 5), null));

  test("uses the frame with the least delay", () => {
    let state = begun(); // 1,000 ms ahead
    state = reduce(state, delta(11, 11, { wall_ms: 50_200 }), 49_900); // delayed by 700 ms on its way
    assert.equal(brokerTime(state, 50_000), 51_000);
  });
});

describe("the offset samples of a queue", () => {
  test("is bounded, about one sample a second", () => {
    let state = begun();
    for (let i = 1; i <= 400; i += 1) {
      const change = { changed: [queue(7 + i)], removed: [] };
      state = reduce(state, delta(10 + i, 10 + i, { wall_ms: 50_000 + 100 * i, queues: change }), 49_000 + 100 * i);
    }
    const { samples } = state.queues.get("orders@0");
    assert.ok(samples.length <= 20, `${samples.length} samples`);
    assert.deepEqual(samples.at(-1), [90_000, 407]);
    assert.ok(samples[0][0] <= 80_100, "reaches back ten seconds");
    assert.ok(state.history.length <= 60);
  });

  test("restarts when the offset goes back", () => {
    const back = delta(11, 11, { queues: { changed: [queue(0)], removed: [] } });
    assert.deepEqual(reduce(begun(), back, 49_100).queues.get("orders@0").samples, [[50_200, 0]]);
  });
});
