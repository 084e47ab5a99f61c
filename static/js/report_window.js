/** The request that starts a run of a report, the formats of its headlines, and its last result. Pure. */

import { UNKNOWN, ago, count, isKnown, micros, millis, span } from "./text/format.js";
import { serverText } from "./text/server/texts.js";
import { t } from "./text/translate.js";
import { word } from "./text/words.js";

const MINUTE = 60_000;
const SOON_MS = 30_000;
const DAY = 86_400_000;

/** The time ranges of the form. Days begin at midnight UTC. */
export const WINDOWS = {
  all: t("all stored data"), hour: t("the last hour"), day: t("the last 24 hours"), yesterday: t("yesterday (UTC)"),
  week: t("the last 7 days"), custom: t("custom range"),
};
const SPANS = { hour: 60 * MINUTE, day: DAY, week: 7 * DAY };

/** The bounds of a choice, whole minutes; `from` and `to` are values of datetime-local fields, parsed as UTC. */
export function windowOf(choice, now, { from = "", to = "" } = {}) {
  if (choice === "yesterday") return { from_ms: floor(now, DAY) - DAY, to_ms: floor(now, DAY) };
  if (choice in SPANS) return { from_ms: floor(now, MINUTE) - SPANS[choice], to_ms: floor(now, MINUTE) };
  if (choice === "custom") return { from_ms: utc(from), to_ms: utc(to) };
  return { from_ms: null, to_ms: null };
}

const floor = (value, step) => value - value % step;
const utc = (text) => text ? Date.parse(`${text}Z`) : null;

/** The body of the request that starts a run. Throws an Error with a sentence if the form cannot be used. */
export function runRequest({ choice, from, to, topic, group, compare }, now) {
  const bounds = windowOf(choice, now, { from, to });
  if (bounds.from_ms !== null && bounds.to_ms !== null && bounds.to_ms <= bounds.from_ms) throw new Error(t("The end of the range must be later than its start."));
  if (compare && (bounds.from_ms === null || bounds.to_ms === null)) throw new Error(t("A comparison with the period before needs a time range with a start and an end."));
  return { ...bounds, topic: topic.trim() || null, consumer_group: group.trim() || null, compare: Boolean(compare) };
}

/** "2026-11-21 17:05", in UTC. Reports have whole minutes. */
const formatTime = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

/** The time range and filters of a run: "2026-11-21 00:00 to 2026-11-22 00:00 UTC, topic orders, broker broker-a". */
export function describeRun({ from_ms: from = null, to_ms: to = null, topic = null, consumer_group: group = null, broker = null }) {
  const time = from === null && to === null ? t("all stored data") : from === null ? t("until {0} UTC", formatTime(to))
    : to === null ? t("since {0} UTC", formatTime(from)) : t("{0} to {1} UTC", formatTime(from), formatTime(to));
  return [time, topic && t("topic {0}", topic), group && t("group {0}", group), broker && t("broker {0}", broker)].filter(Boolean).join(t(", "));
}

const twoDecimals = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

/** A figure with its unit. Durations are measured in whole microseconds or milliseconds, so 0 stands for less than one. */
export function formatFigure(kind, value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value === 0 && kind === "us") return t("less than 1 µs");
  if (value === 0 && kind === "ms") return t("less than 1 ms");
  if (kind === "us") return micros(value);
  if (kind === "ms") return millis(value);
  if (kind === "share") return `${twoDecimals.format(100 * value)} %`;
  if (kind === "bytes") return bytes(value);
  return Number.isInteger(value) ? count(value) : twoDecimals.format(value);
}

function bytes(value) {
  const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${twoDecimals.format(value / 1024 ** step)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
}

/** A run with its times and figures as numbers, and its texts in the page's language; the API sends 64-bit integers as
 * strings. */
export function parseRun(run) {
  const number = (value) => isKnown(value) ? Number(value) : null;
  return { ...run, doing: serverText(run.doing), error: serverText(run.error), words: run.words.map(serverText), notes: run.notes.map(serverText), created_ms: number(run.created_ms), started_ms: number(run.started_ms), finished_ms: number(run.finished_ms),
    headlines: run.headlines.map((figure) => ({ ...figure, label: serverText(figure.label), value: number(figure.value), before: number(figure.before) })) };
}

/** Why a queued run has not started: the worker is busy, or there may be none. */
export function queuedText({ created_ms: created }, isWorkerBusy, now) {
  if (isWorkerBusy || now - created < SOON_MS) return t("waiting for the report worker");
  return t("for {0}; no report worker has started it. Is one running?", span(now - created));
}

/** The change of a figure: {text, tone}. `tone` is good or bad if the figure has a direction; null without an earlier figure. */
export function describeChange({ value, before, better }) {
  if (!isKnown(value) || !isKnown(before)) return null;
  if (value === before) return { text: t("unchanged"), tone: "" };
  const text = before === 0 ? t("none before") : `${value > before ? "+" : "−"}${twoDecimals.format(Math.abs(100 * (value / before - 1)))} %`;
  const tone = better ? (value > before) === (better === "more") ? "good" : "bad" : "";
  return { text, tone };
}

const FIGURES = 2;

/** The state of a report's newest run in words; "not run yet" without any. */
export function stateText(run) {
  if (!run) return t("not run yet");
  if (run.status === "running") return t("running, {0} %", run.percent);
  return run.status === "waiting" ? t("waiting for Spark") : word(run.status);
}

/** The last result of a report: {figures, notes, range, when}, with what its figures lack; empty texts without a finished run. */
export function lastResult(runs, now) {
  const run = runs.find(({ status }) => status === "done");
  if (!run) return { figures: "", notes: "", range: "", when: "" };
  return {
    figures: run.headlines.slice(0, FIGURES).map(({ label, kind, value }) => t("{0}: {1}", label, formatFigure(kind, value))).join(" · ") || run.words[0] || "",
    notes: run.notes.join(" "),
    range: describeRun(run.parameters),
    when: run.finished_ms === null ? "" : ago(now - run.finished_ms),
  };
}
