/** Figures and sentences about the lake. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, currentFill, hasFinished, lakeFigures, lakeNotes } from "../../static/js/text/explain_lake.js";

const LAKE = {
  broker: "a", brokers: ["a"], folder: "/data/lake/store-1", position: "1000", behind_bytes: "1500000", synced_ms: "5000",
  messages: { rows: "7", files: 2, size: "300" }, polls: { rows: "1", files: 1, size: "50000" },
  gap_bytes: "0", missing_journal_files: 0, dropped_before_ms: null, dropped_messages: "0", dropped_polls: "0", ended_by: "safe end", segments_unread: 0, problem: "", under_way: false, status: "done", percent: 0, doing: "", cancel_requested: false, last_try_ms: null, last_failure: "", schedule: null,
};
const formats = { count: (value) => `#${value}`, ago: (ms) => `${ms} ms ago`, now: 9000 };

test("sizes are in decimal units", () => {
  assert.deepEqual([0, 999, 1000, "1500000", 123_456_789].map(bytes), ["0 B", "999 B", "1.0 kB", "1.5 MB", "123 MB"]);
});

test("the figures of the lake", () => {
  assert.deepEqual(lakeFigures(LAKE, formats), [["Messages", "#7 in 300 B"], ["Pull results", "#1 in 50.0 kB"],
    ["Behind the log", "1.5 MB"], ["Last filled", "4000 ms ago"], ["Folder", "/data/lake/store-1"]]);
  assert.deepEqual(lakeFigures({ ...LAKE, brokers: ["a", "b"] }, formats).at(-1), ["Broker", "a; fills cover all 2"]);
  assert.deepEqual(lakeFigures({ ...LAKE, under_way: true }, formats)[2], ["Behind the log", "1.5 MB; being filled"]);
  const other = Object.fromEntries(lakeFigures({ ...LAKE, behind_bytes: "0", synced_ms: null }, formats));
  assert.deepEqual([other["Behind the log"], other["Last filled"]], ["nothing", "never"]);
  assert.equal(Object.fromEntries(lakeFigures({ ...LAKE, behind_bytes: null }, formats))["Behind the log"], "unknown");
  assert.deepEqual(lakeFigures({ ...LAKE, folder: "" }, formats), [["State", "no lake yet"]]);
  assert.deepEqual(lakeFigures({ ...LAKE, folder: "", under_way: true, status: "waiting" }, formats), [["State", "no lake yet"]]);
  assert.deepEqual(lakeFigures({ ...LAKE, folder: "", under_way: true, status: "running" }, formats), [["State", "being filled for the first time"]]);
});

test("problems and losses", () => {
  assert.deepEqual(lakeNotes(LAKE, formats), []);
  const notes = lakeNotes({ ...LAKE, problem: "Damaged.", last_failure: "Full.", gap_bytes: "2000", missing_journal_files: 3, ended_by: "invalid record", segments_unread: 5 }, formats);
  assert.deepEqual(notes, ["Damaged.", "The last attempt to fill it failed: Full.",
    "2.0 kB of the log were deleted before the lake could read them.", "#3 files of the poll journal were deleted or damaged before the lake could read them.",
    "The lake stopped at byte #1000 of the log: the record there is invalid. #5 later segments are not read."]);
});

test("dropped data", () => {
  const lake = { ...LAKE, dropped_before_ms: "1767225600000", dropped_messages: "12", dropped_polls: "3" };
  assert.deepEqual(lakeNotes(lake, formats), [
    "Data from before 2026-01-01 (UTC) was dropped because of GLASSMQ_LAKE_KEEP_DAYS: #12 messages, #3 pull results."]);
});

test("the current fill", () => {
  assert.equal(currentFill(LAKE), null);
  assert.equal(currentFill({ ...LAKE, status: "failed" }), null);
  const queued = { ...LAKE, under_way: true, status: "queued" };
  assert.deepEqual(currentFill(queued), { status: "queued", word: "queued", doing: "waiting for a report worker", percent: null });
  const running = { ...queued, status: "running", percent: 40, doing: "writing" };
  assert.deepEqual(currentFill(running), { status: "running", word: "running", doing: "writing, 40 %", percent: 40 });
  assert.deepEqual(currentFill({ ...running, percent: 0, doing: "" }), { status: "running", word: "running", doing: "", percent: 0 });
  assert.equal(currentFill({ ...running, cancel_requested: true }).word, "stopping");
  const cancelled = currentFill({ ...LAKE, status: "cancelled" });
  assert.equal(cancelled.word, "cancelled");
  assert.match(cancelled.doing, /the next fill continues there/);
});

test("singular", () => {
  assert.deepEqual(lakeNotes({ ...LAKE, missing_journal_files: 1 }, formats), ["1 file of the poll journal was deleted or damaged before the lake could read it."]);
  assert.match(lakeNotes({ ...LAKE, ended_by: "invalid record", segments_unread: 1 }, formats)[0], /\. 1 later segment is not read\.$/);
});

test("a fill has finished when it succeeded or an attempt ended", () => {
  assert.equal(hasFinished(LAKE, LAKE), false);
  assert.equal(hasFinished({ ...LAKE, synced_ms: "6000" }, LAKE), true);
  assert.equal(hasFinished({ ...LAKE, last_try_ms: "6000" }, LAKE), true);
  assert.equal(hasFinished({ ...LAKE, synced_ms: "6000", under_way: true }, LAKE), false);
});
