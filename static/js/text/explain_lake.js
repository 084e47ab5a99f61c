/** Figures and sentences about the lake. 64-bit integers are strings. */

import { serverText } from "./server/texts.js";
import { choose, t } from "./translate.js";
import { word } from "./words.js";

/** Reasons why the lake stops before the end of the log. */
const STOPS = { "invalid record": t("the record there is invalid") };
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
  if (!lake.folder) return [[t("State"), lake.status === "running" ? t("being filled for the first time") : t("no lake yet")]];
  const behind = lake.behind_bytes === null ? t("unknown") : Number(lake.behind_bytes) ? bytes(lake.behind_bytes) : t("nothing");
  return [
    [t("Messages"), t("{0} in {1}", count(lake.messages.rows), bytes(lake.messages.size))],
    [t("Pull results"), t("{0} in {1}", count(lake.polls.rows), bytes(lake.polls.size))],
    [t("Behind the log"), lake.under_way ? t("{0}; being filled", behind) : behind],
    [t("Last filled"), lake.synced_ms === null ? t("never") : ago(now - Number(lake.synced_ms))],
    [t("Folder"), lake.folder],
    ...(lake.brokers.length > 1 ? [[t("Broker"), t("{0}; fills cover all {1}", lake.broker, lake.brokers.length)]] : []),
  ];
}

const CANCELLED_NOTE = t("What was already written stays; the next fill continues there.");

/** The state of the running or queued fill, or of the last one if it was cancelled; otherwise null. */
export function currentFill(lake) {
  if (!lake.under_way) return lake.status === "cancelled" ? { status: "cancelled", word: t("cancelled"), doing: CANCELLED_NOTE, percent: null } : null;
  const runs = lake.status === "running";
  return {
    status: lake.status,
    word: lake.cancel_requested ? t("stopping") : word(lake.status),
    doing: lake.status === "queued" ? t("waiting for a report worker") : runs && lake.doing ? `${serverText(lake.doing)}, ${lake.percent} %` : "",
    percent: runs ? lake.percent : null,
  };
}

/** Problems and losses, one sentence each. */
export function lakeNotes(lake, { count }) {
  const notes = [];
  if (lake.problem) notes.push(serverText(lake.problem));
  if (lake.last_failure) notes.push(t("The last attempt to fill it failed: {0}", serverText(lake.last_failure)));
  if (Number(lake.gap_bytes)) notes.push(t("{0} of the log were deleted before the lake could read them.", bytes(lake.gap_bytes)));
  if (Number(lake.missing_journal_files)) notes.push(choose(lake.missing_journal_files, "1 file of the poll journal was deleted or damaged before the lake could read it.", "{0} files of the poll journal were deleted or damaged before the lake could read them.", count(lake.missing_journal_files)));
  if (lake.dropped_before_ms !== null) {
    const day = new Date(Number(lake.dropped_before_ms)).toISOString().slice(0, 10);
    notes.push(t("Data from before {0} (UTC) was dropped because of GLASSMQ_LAKE_KEEP_DAYS: {1} messages, {2} pull results.", day, count(lake.dropped_messages), count(lake.dropped_polls)));
  }
  const stop = STOPS[lake.ended_by];
  if (stop) notes.push(choose(lake.segments_unread, "The lake stopped at byte {1} of the log: {2}. 1 later segment is not read.", "The lake stopped at byte {1} of the log: {2}. {0} later segments are not read.", count(lake.segments_unread), count(lake.position), stop));
  return notes;
}

/** Whether a fill, or an attempt, ended since the lake had the state `before`. */
export function hasFinished(lake, before) {
  return !lake.under_way && (lake.synced_ms !== before.synced_ms || lake.last_try_ms !== before.last_try_ms);
}
