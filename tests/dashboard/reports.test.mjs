import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { about, asked, change, moment, numbered, queuedText, windowOf, written } from "../../static/js/report_window.js";

const NOW = Date.UTC(2026, 10, 21, 17, 5, 33);
const form = (fields = {}) => ({ choice: "all", from: "", to: "", topic: "", group: "", compare: false, ...fields });

describe("a part of time", () => {
  test("is whole minutes", () => {
    assert.deepEqual(windowOf("hour", NOW), { from_ms: Date.UTC(2026, 10, 21, 16, 5), to_ms: Date.UTC(2026, 10, 21, 17, 5) });
    assert.deepEqual(windowOf("week", NOW), { from_ms: Date.UTC(2026, 10, 14, 17, 5), to_ms: Date.UTC(2026, 10, 21, 17, 5) });
  });
  test("of yesterday is a day of UTC", () => {
    assert.deepEqual(windowOf("yesterday", NOW), { from_ms: Date.UTC(2026, 10, 20), to_ms: Date.UTC(2026, 10, 21) });
  });
  test("may be open", () => {
    assert.deepEqual(windowOf("all", NOW), { from_ms: null, to_ms: null });
    assert.deepEqual(windowOf("custom", NOW, { from: "2026-11-20T10:30" }), { from_ms: Date.UTC(2026, 10, 20, 10, 30), to_ms: null });
  });
});

describe("what is asked for", () => {
  test("is everything when nothing is chosen", () => {
    assert.deepEqual(asked(form(), NOW), { from_ms: null, to_ms: null, topic: null, consumer_group: null, compare: false });
  });
  test("has names without the blanks around them", () => {
    assert.deepEqual(asked(form({ topic: " orders ", group: "a", choice: "yesterday", compare: true }), NOW), {
      from_ms: Date.UTC(2026, 10, 20), to_ms: Date.UTC(2026, 10, 21), topic: "orders", consumer_group: "a", compare: true });
  });
  test("is refused when it ends before it begins", () => {
    assert.throws(() => asked(form({ choice: "custom", from: "2026-11-20T10:30", to: "2026-11-20T10:30" }), NOW), /later than the beginning/);
  });
  test("is refused when there is no time before it", () => {
    assert.throws(() => asked(form({ compare: true }), NOW), /from when to when/);
  });
});

test("what a run was about is said in words", () => {
  assert.equal(about({}, NOW), "everything");
  assert.equal(about({ from_ms: Date.UTC(2026, 10, 20), to_ms: Date.UTC(2026, 10, 21, 9, 7), topic: "orders", consumer_group: "a" }, NOW),
    "20 Nov 00:00 to 21 Nov 09:07 UTC, topic orders, group a");
  assert.equal(about({ from_ms: Date.UTC(2026, 0, 2), to_ms: null }, NOW), "from 2 Jan 00:00 UTC on");
  assert.equal(about({ from_ms: 0 }, NOW), "from 1 Jan 1970 00:00 UTC on");
  assert.equal(moment(Date.UTC(2026, 4, 9, 3, 4), NOW), "9 May 03:04");
});

test("a run that waits says for what, and asks for a worker where none seems to be", () => {
  const run = { created_ms: 1_000 };
  assert.equal(queuedText(run, false, 30_000), "until the report worker has time");
  assert.equal(queuedText(run, true, 900_000), "until the report worker has time");
  assert.equal(queuedText(run, false, 181_000), "for 3 min; no report worker has taken it up: is one running?");
});

test("figures are written in their units, and the unknown as unknown", () => {
  assert.equal(written("us", 1_500), "1.5 ms");
  assert.equal(written("share", 0.12345), "12.35 %");
  assert.equal(written("bytes", 1_536), "1.5 KiB");
  assert.equal(written("number", 1_234_567), "1,234,567");
  assert.equal(written("number", 1.3456), "1.35");
  assert.equal(written("ms", null), "unknown");
});

describe("a change", () => {
  test("has a direction only where the figure has one", () => {
    assert.deepEqual(change({ value: 150, before: 100, better: "" }), { text: "+50 %", tone: "" });
    assert.deepEqual(change({ value: 150, before: 100, better: "less" }), { text: "+50 %", tone: "bad" });
    assert.deepEqual(change({ value: 75, before: 100, better: "less" }), { text: "−25 %", tone: "good" });
  });
  test("is none without both figures", () => {
    assert.equal(change({ value: 1, before: null, better: "" }), null);
    assert.equal(change({ value: null, before: 3, better: "" }), null);
  });
  test("goes by numbers, also of figures that come as strings", () => {
    const figures = (value, before) => numbered({ created_ms: "5", started_ms: null, finished_ms: null, headlines: [{ value, before, better: "more" }] }).headlines[0];
    assert.deepEqual(change(figures(3, "0")), { text: "none before", tone: "good" });
    assert.deepEqual(change(figures(7, "7")), { text: "as before", tone: "" });
    assert.equal(figures(7, null).before, null);
  });
  test("from nothing has no percent", () => {
    assert.deepEqual(change({ value: 3, before: 0, better: "more" }), { text: "none before", tone: "good" });
    assert.deepEqual(change({ value: 0, before: 0, better: "more" }), { text: "as before", tone: "" });
  });
});
