/** What is said of the lake. Numbers of 64 bits come as strings. */

/** Ends of a log behind which there may be more. */
const STOPS = { "invalid record": "what lies there is not a valid record", "missing segment": "the next segment is missing" };
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Bytes for people: 1 234 567 is "1.2 MB". */
export function bytes(size) {
  let value = Number(size);
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** [name, value] of what there is. */
export function figuresOf(lake, { count, ago, now }) {
  if (!lake.folder) return [["State", lake.under_way && lake.status !== "queued" ? "It is being filled for the first time." : "There is none yet."]];
  const behind = lake.behind_bytes === null ? "not known" : Number(lake.behind_bytes) ? bytes(lake.behind_bytes) : "nothing";
  return [
    ["Messages", `${count(lake.messages.rows)} in ${bytes(lake.messages.size)}`],
    ["Ends of pulls", `${count(lake.polls.rows)} in ${bytes(lake.polls.size)}`],
    ["Behind the log by", lake.under_way ? `${behind}; it is being filled` : behind],
    ["Last filled", lake.synced_ms === null ? "never" : ago(now - Number(lake.synced_ms))],
    ...(Number(lake.retired_bytes) ? [["Merged or dropped", `${bytes(lake.retired_bytes)}, removed when nobody reads it`]] : []),
    ["Folder", lake.folder],
  ];
}

const KEPT = "What was written before stays; the next fill goes on from there.";

/** How the fill under way is, or that the last one was cancelled; null: there is nothing to say of it. */
export function fillOf(lake) {
  if (!lake.under_way) return lake.status === "cancelled" ? { status: "cancelled", word: "cancelled", doing: KEPT, percent: null } : null;
  const runs = lake.status === "running";
  return {
    status: lake.status,
    word: lake.cancel_requested ? "stopping" : lake.status,
    doing: lake.status === "queued" ? "until a report worker takes it up" : runs && lake.doing ? `${lake.doing}, ${lake.percent} %` : "",
    percent: runs ? lake.percent : null,
  };
}

/** What has to be known, a sentence each. */
export function notesOf(lake, { count }) {
  const notes = [];
  if (lake.problem) notes.push(lake.problem);
  if (lake.last_failure) notes.push(`The last try to fill it failed: ${lake.last_failure}`);
  if (Number(lake.gap_bytes)) notes.push(`${bytes(lake.gap_bytes)} of the log were deleted before they could be read.`);
  if (Number(lake.missing_journal_files)) notes.push(`${Number(lake.missing_journal_files) === 1 ? "1 file of the poll journal was" : `${count(lake.missing_journal_files)} files of the poll journal were`} deleted before being read.`);
  if (lake.dropped_before_ms !== null) {
    const day = new Date(Number(lake.dropped_before_ms)).toISOString().slice(0, 10);
    notes.push(`What is of before ${day} (UTC) was dropped, as GLASSMQ_LAKE_KEEP_DAYS says: messages ${count(lake.dropped_messages)}, ends of pulls ${count(lake.dropped_polls)}.`);
  }
  const stop = STOPS[lake.ended_by];
  if (stop) notes.push(`The lake cannot go on behind byte ${count(lake.position)} of the log, since ${stop}; ${Number(lake.segments_unread) === 1 ? "1 segment behind that is" : `${count(lake.segments_unread)} segments behind that are`} not read.`);
  const others = lake.other_lakes;
  if (others) notes.push(`Beside it there ${others === 1 ? "is 1 lake of another store that was" : `are ${count(others)} lakes of other stores that were`} at the same path; reports do not read ${others === 1 ? "it" : "them"}.`);
  return notes;
}

/** Whether filling the lake, or trying to, has come to its end since it was as ``before``. */
export function isFilled(lake, before) {
  return !lake.under_way && (lake.synced_ms !== before.synced_ms || lake.last_try_ms !== before.last_try_ms);
}
