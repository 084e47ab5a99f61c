/** What a run of a report is asked for, and how its headlines are written. Pure. */

import { UNKNOWN, count, isKnown, micros, millis, span } from "./format.js";

const MINUTE = 60_000;
const SOON_MS = 30_000;
const DAY = 86_400_000;

/** The parts of time that are offered, and how long they are. Days begin at midnight UTC. */
export const WINDOWS = {
  all: "everything there is", hour: "the last hour", day: "the last 24 hours", yesterday: "yesterday (UTC)",
  week: "the last 7 days", custom: "from … to …",
};
const SPANS = { hour: 60 * MINUTE, day: DAY, week: 7 * DAY };

/** Bounds of a choice, whole minutes; `from` and `to` are texts of datetime-local fields, read as UTC. */
export function windowOf(choice, now, { from = "", to = "" } = {}) {
  if (choice === "yesterday") return { from_ms: floor(now, DAY) - DAY, to_ms: floor(now, DAY) };
  if (choice in SPANS) return { from_ms: floor(now, MINUTE) - SPANS[choice], to_ms: floor(now, MINUTE) };
  if (choice === "custom") return { from_ms: utc(from), to_ms: utc(to) };
  return { from_ms: null, to_ms: null };
}

const floor = (value, step) => value - value % step;
const utc = (text) => text ? Date.parse(`${text}Z`) : null;

/** The body of the request that starts a run. An Error, with a sentence, for what cannot be run. */
export function asked({ choice, from, to, topic, group, compare }, now) {
  const bounds = windowOf(choice, now, { from, to });
  if (bounds.from_ms !== null && bounds.to_ms !== null && bounds.to_ms <= bounds.from_ms) throw new Error("The end has to be later than the beginning.");
  if (compare && (bounds.from_ms === null || bounds.to_ms === null)) throw new Error("To compare with the time before, say from when to when.");
  return { ...bounds, topic: topic.trim() || null, consumer_group: group.trim() || null, compare: Boolean(compare) };
}

const two = (value) => String(value).padStart(2, "0");

/** "21 Nov 17:05" in UTC, with the year where it is not that of now: "31 Dec 2025 17:05". */
export function moment(ms, now) {
  const date = new Date(ms);
  const year = date.getUTCFullYear() === new Date(now).getUTCFullYear() ? "" : ` ${date.getUTCFullYear()}`;
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][date.getUTCMonth()];
  return `${date.getUTCDate()} ${month}${year} ${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
}

/** What a run was about, in words: "21 Nov 00:00 to 22 Nov 00:00 UTC, topic orders". */
export function about({ from_ms: from = null, to_ms: to = null, topic = null, consumer_group: group = null }, now) {
  const time = from === null && to === null ? "everything" : from === null ? `to ${moment(to, now)} UTC`
    : to === null ? `from ${moment(from, now)} UTC on` : `${moment(from, now)} to ${moment(to, now)} UTC`;
  return [time, topic && `topic ${topic}`, group && `group ${group}`].filter(Boolean).join(", ");
}

const fine = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

/** A figure in its unit. */
export function written(kind, value) {
  if (!isKnown(value)) return UNKNOWN;
  if (kind === "us") return micros(value);
  if (kind === "ms") return millis(value);
  if (kind === "share") return `${fine.format(100 * value)} %`;
  if (kind === "bytes") return bytes(value);
  return Number.isInteger(value) ? count(value) : fine.format(value);
}

function bytes(value) {
  const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${fine.format(value / 1024 ** step)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
}

/** A run with its times and figures as numbers: those of 64 bits come as strings. */
export function numbered(run) {
  const number = (value) => isKnown(value) ? Number(value) : null;
  return { ...run, created_ms: number(run.created_ms), started_ms: number(run.started_ms), finished_ms: number(run.finished_ms),
    headlines: run.headlines.map((figure) => ({ ...figure, value: number(figure.value), before: number(figure.before) })) };
}

/** Why a run that is queued has not begun: the worker has others to do, or there may be none. */
export function queuedText({ created_ms: created }, isWorkerBusy, now) {
  if (isWorkerBusy || now - created < SOON_MS) return "until the report worker has time";
  return `for ${span(now - created)}; no report worker has taken it up: is one running?`;
}

/** How a figure changed: {text, tone}, tone good or bad where it has a direction; null without a figure before. */
export function change({ value, before, better }) {
  if (!isKnown(value) || !isKnown(before)) return null;
  if (value === before) return { text: "as before", tone: "" };
  const text = before === 0 ? "none before" : `${value > before ? "+" : "−"}${fine.format(Math.abs(100 * (value / before - 1)))} %`;
  const tone = better ? (value > before) === (better === "more") ? "good" : "bad" : "";
  return { text, tone };
}
