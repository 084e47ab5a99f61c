import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { describeChange, describeRun, formatFigure, lastResult, parseRun, queuedText, runRequest, stateText, windowOf } from "../../static/js/report_window.js";

const NOW = Date.UTC(2026, 10, 21, 17, 5, 33);
const form = (fields = {}) => ({ choice: "all", from: "", to: "", topic: "", group: "", compare: false, ...fields });

describe("a time range", () => {
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

describe("the request of a run", () => {
  test("has no bounds or filters by default", () => {
    assert.deepEqual(runRequest(form(), NOW), { from_ms: null, to_ms: null, topic: null, consumer_group: null, compare: false });
  });
  test("strips blanks around names", () => {
    assert.deepEqual(runRequest(form({ topic: " orders ", group: "a", choice: "yesterday", compare: true }), NOW), {
      from_ms: Date.UTC(2026, 10, 20), to_ms: Date.UTC(2026, 10, 21), topic: "orders", consumer_group: "a", compare: true });
  });
  test("is refused when its end is not after its start", () => {
    assert.throws(() => runRequest(form({ choice: "custom", from: "2026-11-20T10:30", to: "2026-11-20T10:30" }), NOW), /later than its start/);
  });
  test("refuses a comparison without a start and an end", () => {
    assert.throws(() => runRequest(form({ compare: true }), NOW), /with a start and an end/);
  });
});

test("the time range and filters of a run as text", () => {
  assert.equal(describeRun({}), "all stored data");
  assert.equal(describeRun({ from_ms: Date.UTC(2026, 10, 20), to_ms: Date.UTC(2026, 10, 21, 9, 7), topic: "orders", consumer_group: "a", broker: "broker-b" }),
    "2026-11-20 00:00 to 2026-11-21 09:07 UTC, topic orders, group a, broker broker-b");
  assert.equal(describeRun({ from_ms: Date.UTC(2026, 0, 2), to_ms: null }), "since 2026-01-02 00:00 UTC");
  assert.equal(describeRun({ from_ms: 0 }), "since 1970-01-01 00:00 UTC");
});

test("a queued run names what it waits for", () => {
  const run = { created_ms: 1_000 };
  assert.equal(queuedText(run, false, 30_000), "waiting for the report worker");
  assert.equal(queuedText(run, true, 900_000), "waiting for the report worker");
  assert.equal(queuedText(run, false, 181_000), "for 3 min; no report worker has started it. Is one running?");
});

test("figures have units, and unknown figures are unknown", () => {
  assert.equal(formatFigure("us", 1_500), "1.5 ms");
  assert.equal(formatFigure("share", 0.12345), "12.35 %");
  assert.equal(formatFigure("bytes", 1_536), "1.5 KiB");
  assert.equal(formatFigure("number", 1_234_567), "1,234,567");
  assert.equal(formatFigure("number", 1.3456), "1.35");
  assert.equal(formatFigure("ms", null), "unknown");
  assert.deepEqual(["us", "ms", "number"].map((kind) => formatFigure(kind, 0)), ["less than 1 µs", "less than 1 ms", "0"], "half a millisecond is 0 in whole ones");
});

describe("a change", () => {
  test("has a direction only where the figure has one", () => {
    assert.deepEqual(describeChange({ value: 150, before: 100, better: "" }), { text: "+50 %", tone: "" });
    assert.deepEqual(describeChange({ value: 150, before: 100, better: "less" }), { text: "+50 %", tone: "bad" });
    assert.deepEqual(describeChange({ value: 75, before: 100, better: "less" }), { text: "−25 %", tone: "good" });
  });
  test("is null without both figures", () => {
    assert.equal(describeChange({ value: 1, before: null, better: "" }), null);
    assert.equal(describeChange({ value: null, before: 3, better: "" }), null);
  });
  test("compares figures that are sent as strings as numbers", () => {
    const figures = (value, before) => parseRun({ created_ms: "5", started_ms: null, finished_ms: null, words: [], notes: [], headlines: [{ value, before, better: "more" }] }).headlines[0];
    assert.deepEqual(describeChange(figures(3, "0")), { text: "none before", tone: "good" });
    assert.deepEqual(describeChange(figures(7, "7")), { text: "unchanged", tone: "" });
    assert.equal(figures(7, null).before, null);
  });
  test("from 0 has no percentage", () => {
    assert.deepEqual(describeChange({ value: 3, before: 0, better: "more" }), { text: "none before", tone: "good" });
    assert.deepEqual(describeChange({ value: 0, before: 0, better: "more" }), { text: "unchanged", tone: "" });
  });
});

describe("a report at a glance", () => {
  const done = { status: "done", finished_ms: NOW - 5000, words: ["A sentence."], notes: ["Bytes are missing.", "A file too."], parameters: { topic: "orders" },
    headlines: [{ label: "Messages", kind: "number", value: 1234 }, { label: "Size", kind: "bytes", value: 2048 }, { label: "More", kind: "number", value: 1 }] };
  test("has the last finished run, not the newest one", () => {
    assert.deepEqual(lastResult([{ status: "failed" }, done], NOW), {
      figures: "Messages: 1,234 · Size: 2 KiB", notes: "Bytes are missing. A file too.", range: "all stored data, topic orders", when: "5 s ago" });
  });
  test("has a sentence where there is no headline, and nothing without a run", () => {
    assert.equal(lastResult([{ ...done, headlines: [] }], NOW).figures, "A sentence.");
    assert.deepEqual(lastResult([{ status: "running" }], NOW), { figures: "", notes: "", range: "", when: "" });
  });
  test("says how far the newest run is", () => {
    assert.deepEqual([undefined, { status: "running", percent: 40 }, { status: "queued" }, { status: "failed" }, { status: "done" }].map(stateText),
      ["not run yet", "running, 40 %", "queued", "failed", "done"]);
  });
});
