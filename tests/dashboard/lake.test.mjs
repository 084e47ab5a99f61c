/** What the page says of the lake. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, figuresOf, fillOf, isFilled, notesOf } from "../../static/js/lake_words.js";

const LAKE = {
  folder: "/data/lake/store-1", position: "1000", behind_bytes: "1500000", synced_ms: "5000",
  messages: { rows: "7", files: 2, size: "300" }, polls: { rows: "1", files: 1, size: "50000" },
  gap_bytes: "0", missing_journal_files: 0, retired_bytes: "0", dropped_before_ms: null, dropped_messages: "0", dropped_polls: "0", ended_by: "safe end", segments_unread: 0, other_lakes: 0, problem: "", under_way: false, status: "done", percent: 0, doing: "", cancel_requested: false, last_try_ms: null, last_failure: "", schedule: null,
};
const said = { count: (value) => `#${value}`, ago: (ms) => `${ms} ms ago`, now: 9000 };

test("bytes are told in units of a thousand", () => {
  assert.deepEqual([0, 999, 1000, "1500000", 123_456_789].map(bytes), ["0 B", "999 B", "1.0 kB", "1.5 MB", "123 MB"]);
});

test("how far the lake is", () => {
  assert.deepEqual(figuresOf(LAKE, said), [["Messages", "#7 in 300 B"], ["Ends of pulls", "#1 in 50.0 kB"],
    ["Behind the log by", "1.5 MB"], ["Last filled", "4000 ms ago"], ["Folder", "/data/lake/store-1"]]);
  assert.deepEqual(figuresOf({ ...LAKE, under_way: true }, said)[2], ["Behind the log by", "1.5 MB; it is being filled"]);
  const other = Object.fromEntries(figuresOf({ ...LAKE, behind_bytes: "0", synced_ms: null }, said));
  assert.deepEqual([other["Behind the log by"], other["Last filled"]], ["nothing", "never"]);
  assert.equal(Object.fromEntries(figuresOf({ ...LAKE, behind_bytes: null }, said))["Behind the log by"], "not known");
  assert.deepEqual(figuresOf({ ...LAKE, folder: "" }, said), [["State", "There is none yet."]]);
  assert.deepEqual(figuresOf({ ...LAKE, folder: "", under_way: true, status: "queued" }, said), [["State", "There is none yet."]]);
  assert.deepEqual(figuresOf({ ...LAKE, folder: "", under_way: true }, said), [["State", "It is being filled for the first time."]]);
});

test("what has to be known", () => {
  assert.deepEqual(notesOf(LAKE, said), []);
  const notes = notesOf({ ...LAKE, problem: "Damaged.", last_failure: "Full.", gap_bytes: "2000", missing_journal_files: 3, ended_by: "invalid record", segments_unread: 5, other_lakes: 2 }, said);
  assert.deepEqual(notes, ["Damaged.", "The last try to fill it failed: Full.",
    "2.0 kB of the log were deleted before they could be read.", "#3 files of the poll journal were deleted before being read.",
    "The lake cannot go on behind byte #1000 of the log, since what lies there is not a valid record; #5 segments behind that are not read.",
    "Beside it there are #2 lakes of other stores that were at the same path; reports do not read them."]);
});

test("what is dropped, and what is not removed yet", () => {
  const lake = { ...LAKE, retired_bytes: "7000", dropped_before_ms: "1767225600000", dropped_messages: "12", dropped_polls: "3" };
  assert.deepEqual(notesOf(lake, said), [
    "What is of before 2026-01-01 (UTC) was dropped, as GLASSMQ_LAKE_KEEP_DAYS says: messages #12, ends of pulls #3."]);
  assert.deepEqual(figuresOf(lake, said).at(-2), ["Merged or dropped", "7.0 kB, removed when nobody reads it"]);
});

test("how the fill under way is", () => {
  assert.equal(fillOf(LAKE), null);
  assert.equal(fillOf({ ...LAKE, status: "failed" }), null);
  const queued = { ...LAKE, under_way: true, status: "queued" };
  assert.deepEqual(fillOf(queued), { status: "queued", word: "queued", doing: "until a report worker takes it up", percent: null });
  const running = { ...queued, status: "running", percent: 40, doing: "writing" };
  assert.deepEqual(fillOf(running), { status: "running", word: "running", doing: "writing, 40 %", percent: 40 });
  assert.deepEqual(fillOf({ ...running, percent: 0, doing: "" }), { status: "running", word: "running", doing: "", percent: 0 });
  assert.equal(fillOf({ ...running, cancel_requested: true }).word, "stopping");
  const cancelled = fillOf({ ...LAKE, status: "cancelled" });
  assert.equal(cancelled.word, "cancelled");
  assert.match(cancelled.doing, /next fill goes on from there/);
});

test("one is called one", () => {
  assert.deepEqual(notesOf({ ...LAKE, missing_journal_files: 1 }, said), ["1 file of the poll journal was deleted before being read."]);
  assert.match(notesOf({ ...LAKE, ended_by: "invalid record", segments_unread: 1 }, said)[0], /; 1 segment behind that is not read\.$/);
  assert.deepEqual(notesOf({ ...LAKE, other_lakes: 1 }, said), ["Beside it there is 1 lake of another store that was at the same path; reports do not read it."]);
});

test("a lake is filled when it says so, or when a try has failed", () => {
  assert.equal(isFilled(LAKE, LAKE), false);
  assert.equal(isFilled({ ...LAKE, synced_ms: "6000" }, LAKE), true);
  assert.equal(isFilled({ ...LAKE, last_try_ms: "6000" }, LAKE), true);
  assert.equal(isFilled({ ...LAKE, synced_ms: "6000", under_way: true }, LAKE), false);
});
