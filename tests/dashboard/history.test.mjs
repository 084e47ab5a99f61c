/** The history's figures. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { RANGES, lonely, missing, points, rangeOf, timeLabels, withRange } from "../../static/js/history.js";

const answer = { from_ms: 1_000_000, step_ms: 10_000, kept_from_ms: 0, problem: "", left_out: 0,
  metrics: [{ name: "holds", values: [1, null, 3] }, { name: "lag", values: [null, null, 0] }] };

test("a point stands at the end of its step, and a gap stays a gap", () => {
  assert.deepEqual(points(answer, ["lag", "holds"]), [[1010, 1020, 1030], [null, null, 0], [1, null, 3]]);
});

test("the time axis begins where the history does, and has 30 steps at least", () => {
  const values = Array.from({ length: 100 }, (_, i) => i);
  const shown = (kept) => points({ ...answer, kept_from_ms: kept, metrics: [{ name: "holds", values }] }, ["holds"]);
  const first = (kept) => [shown(kept)[0][0], shown(kept)[1][0], shown(kept)[0].length];
  assert.deepEqual(first(0), [1010, 0, 100]);
  assert.deepEqual(first(1_000_000), [1010, 0, 100]);
  assert.deepEqual(first(1_400_000), [1410, 40, 60]);
  assert.deepEqual(first(1_990_000), [1710, 70, 30]);
  assert.deepEqual(first(null), [1710, 70, 30]);
});

test("a value without neighbours is found, so that it can be drawn", () => {
  assert.deepEqual(lonely([1, null, 2, 3, null, 0]), [0, 5]);
  assert.deepEqual(lonely([null, undefined]), []);
});

test("the range is in the page's address", () => {
  const [hour, day] = RANGES;
  assert.equal(rangeOf("?history=24h"), day);
  assert.equal(rangeOf("?history=nope&x=1"), hour);
  assert.equal(withRange("?broker=b&x=1", day), "?broker=b&x=1&history=24h");
  assert.equal(withRange("?history=24h", hour), "");
});

test("labels show the day where it changes", () => {
  const at = (...parts) => new Date(...parts).getTime() / 1000;
  assert.deepEqual(timeLabels([at(2026, 10, 22, 23, 50), at(2026, 10, 23, 0, 0), at(2026, 10, 23, 0, 10)]), ["23:50", "11-23", "00:10"]);
  assert.deepEqual(timeLabels([at(2026, 10, 22, 18, 0), at(2026, 10, 23, 6, 0)]), ["18:00", "11-23"]);
  assert.deepEqual(timeLabels([at(2026, 10, 22, 18, 0), at(2026, 10, 22, 18, 0, 30)]), ["18:00:00", "18:00:30"]);
});

test("what is missing is said", () => {
  const time = (ms) => `t${ms}`;
  assert.equal(missing(answer, time), "");
  assert.equal(missing({ ...answer, kept_from_ms: 1_010_000 }, time), "Recorded since t1010000.");
  assert.equal(missing({ ...answer, kept_from_ms: null, step_ms: 600_000 }, time), "Nothing is recorded yet. A point is added every 10 min.");
  assert.match(missing({ ...answer, kept_from_ms: null, left_out: 7 }, time), /7 topics and groups are not recorded/);
  assert.equal(missing({ ...answer, problem: "The disk is full." }, time), "The disk is full.");
});
