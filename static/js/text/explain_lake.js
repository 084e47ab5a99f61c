/** Figures and sentences about the lake. 64-bit integers are strings. */

/** Reasons why the lake stops before the end of the log. */
const STOPS = { "invalid record": "the record there is invalid" };
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** A size in decimal units: 1234567 is "1.2 MB". */
export function bytes(size) {
  let value = Number(size);
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** The lake's figures as [name, value]. */
export function lakeFigures(lake, { count, ago, now }) {
  if (!lake.folder) return [["State", lake.under_way && lake.status !== "queued" ? "being filled for the first time" : "no lake yet"]];
  const behind = lake.behind_bytes === null ? "unknown" : Number(lake.behind_bytes) ? bytes(lake.behind_bytes) : "nothing";
  return [
    ["Messages", `${count(lake.messages.rows)} in ${bytes(lake.messages.size)}`],
    ["Pull results", `${count(lake.polls.rows)} in ${bytes(lake.polls.size)}`],
    ["Behind the log", lake.under_way ? `${behind}; being filled` : behind],
    ["Last filled", lake.synced_ms === null ? "never" : ago(now - Number(lake.synced_ms))],
    ...(Number(lake.retired_bytes) ? [["Merged or dropped", `${bytes(lake.retired_bytes)}, removed when no report reads it`]] : []),
    ["Folder", lake.folder],
    ...(lake.brokers.length > 1 ? [["Broker", `${lake.broker}; fills cover all ${lake.brokers.length}`]] : []),
  ];
}

const CANCELLED_NOTE = "What was already written stays; the next fill continues there.";

/** The state of the running or queued fill, or of the last one if it was cancelled; otherwise null. */
export function currentFill(lake) {
  if (!lake.under_way) return lake.status === "cancelled" ? { status: "cancelled", word: "cancelled", doing: CANCELLED_NOTE, percent: null } : null;
  const runs = lake.status === "running";
  return {
    status: lake.status,
    word: lake.cancel_requested ? "stopping" : lake.status,
    doing: lake.status === "queued" ? "waiting for a report worker" : runs && lake.doing ? `${lake.doing}, ${lake.percent} %` : "",
    percent: runs ? lake.percent : null,
  };
}

/** Problems and losses, one sentence each. */
export function lakeNotes(lake, { count }) {
  const notes = [];
  if (lake.problem) notes.push(lake.problem);
  if (lake.last_failure) notes.push(`The last attempt to fill it failed: ${lake.last_failure}`);
  if (Number(lake.gap_bytes)) notes.push(`${bytes(lake.gap_bytes)} of the log were deleted before the lake could read them.`);
  if (Number(lake.missing_journal_files)) notes.push(`${Number(lake.missing_journal_files) === 1 ? "1 file of the poll journal was" : `${count(lake.missing_journal_files)} files of the poll journal were`} deleted before the lake could read ${Number(lake.missing_journal_files) === 1 ? "it" : "them"}.`);
  if (lake.dropped_before_ms !== null) {
    const day = new Date(Number(lake.dropped_before_ms)).toISOString().slice(0, 10);
    notes.push(`Data from before ${day} (UTC) was dropped because of GLASSMQ_LAKE_KEEP_DAYS: ${count(lake.dropped_messages)} messages, ${count(lake.dropped_polls)} pull results.`);
  }
  const stop = STOPS[lake.ended_by];
  if (stop) notes.push(`The lake stopped at byte ${count(lake.position)} of the log: ${stop}. ${Number(lake.segments_unread) === 1 ? "1 later segment is" : `${count(lake.segments_unread)} later segments are`} not read.`);
  const others = lake.other_lakes;
  if (others) notes.push(`The folder also has ${others === 1 ? "a lake of another store that was" : `${count(others)} lakes of other stores that were`} at the same path; reports do not read ${others === 1 ? "it" : "them"}.`);
  return notes;
}

/** Whether a fill, or an attempt, ended since the lake had the state `before`. */
export function hasFinished(lake, before) {
  return !lake.under_way && (lake.synced_ms !== before.synced_ms || lake.last_try_ms !== before.last_try_ms);
}
