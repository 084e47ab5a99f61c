/** Formats of numbers, durations and names. Pure. An unknown value is "unknown", never 0. */

import { serverNow } from "../clock.js";
import { choose, language, t } from "./translate.js";

export const UNKNOWN = t("unknown");
const GROUPED = new Intl.NumberFormat(language === "en" ? "en-US" : language, { maximumFractionDigits: 0 });

export function isKnown(value) {
  return value !== null && value !== undefined && !Number.isNaN(value);
}

/** 1234567 -> "1,234,567". Also accepts the decimal strings of ?int64=string. */
export function count(value) {
  if (!isKnown(value) || value === "") return UNKNOWN;
  return GROUPED.format(typeof value === "string" ? BigInt(value) : value);
}

/** The text for the number, which is {0} in it: "1 queue", "2 queues". `others` are {1}, {2} … . */
export function plural(number, one, many, ...others) {
  return choose(number, one, many, count(number), ...others);
}

const COMPACT = language.startsWith("zh") ? new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }) : null;

/** For narrow places: 12,345 -> "12.3k", in Chinese "1.2万". */
export function shortCount(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 10_000) return count(value);
  if (COMPACT) return COMPACT.format(value);
  const [scaled, unit] = value < 1e6 ? [value / 1e3, "k"] : value < 1e9 ? [value / 1e6, "M"] : [value / 1e9, "G"];
  return `${scaled < 100 ? scaled.toFixed(1) : scaled.toFixed(0)}${unit}`;
}

/** Labels of an axis. Of values that `format` writes alike, such as 0.5 and 1, only the whole ones get one. */
export function axisLabels(values, format) {
  const labels = values.map(format);
  const isUnique = (label) => labels.indexOf(label) === labels.lastIndexOf(label);
  return labels.map((label, i) => (isUnique(label) || Number.isInteger(values[i]) ? label : ""));
}

export function rate(perSecond) {
  if (!isKnown(perSecond)) return UNKNOWN;
  if (perSecond === 0) return "0";
  if (perSecond < 10) return perSecond.toFixed(1);
  return shortCount(Math.round(perSecond));
}

/** A duration given in microseconds, in the most readable unit. */
export function micros(us) {
  if (!isKnown(us)) return UNKNOWN;
  if (us < 1000) return t("{0} µs", Math.round(us));
  return millis(us / 1000);
}

/** A duration given in milliseconds. */
export function millis(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 10) return t("{0} ms", trim(ms.toFixed(2)));
  if (ms < 1000) return t("{0} ms", Math.round(ms));
  if (ms < 60_000) return seconds(ms);
  return span(ms);
}

function trim(text) {
  return text.replace(/\.?0+$/, "");
}

/** Seconds with one decimal, for a number that changes all the time: "8.2 s". */
export function seconds(ms) {
  return isKnown(ms) ? t("{0} s", (Math.max(0, ms) / 1000).toFixed(1)) : UNKNOWN;
}

/** A long duration in two units: "3 d 4 h", "2 min 5 s". */
export function span(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  const total = Math.max(0, Math.floor(ms / 1000));
  const parts = [
    [Math.floor(total / 86_400), (days) => t("{0} d", days)],
    [Math.floor(total / 3600) % 24, (hours) => t("{0} h", hours)],
    [Math.floor(total / 60) % 60, (minutes) => t("{0} min", minutes)],
    [total % 60, (left) => t("{0} s", left)],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return t("{0} s", 0);
  return parts.slice(first, first + 2).filter(([value], i) => i === 0 || value > 0)
    .map(([value, text]) => text(value)).join(" ");
}

/** An age in two units, "now" under a second. */
export function ago(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  return ms < 1000 ? t("now") : t("{0} ago", span(ms));
}

/** Time of day in the reader's time zone; `dateTime` adds the date where it is needed. With milliseconds: "14:03:22.118". */
export function clockTime(wallMs) {
  if (!isKnown(wallMs)) return UNKNOWN;
  const date = new Date(wallMs);
  const two = (value) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${
    String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** The time of all pages, in the reader's time zone: "14:03:22.118" today, "2026-11-22 14:03:22.118 GMT+8" on other days.
 * Today is the server's, because the browser's clock may be wrong. */
export function dateTime(wallMs, nowMs = serverNow()) {
  return onItsDay(wallMs, nowMs, clockTime);
}

/** The same to the second. */
export function dateTimeSeconds(wallMs, nowMs = serverNow()) {
  return onItsDay(wallMs, nowMs, (ms) => clockTime(ms).slice(0, -4));
}

function onItsDay(wallMs, nowMs, clock) {
  if (!isKnown(wallMs)) return UNKNOWN;
  const day = dayOf(wallMs);
  return day === dayOf(nowMs) ? clock(wallMs) : `${day} ${clock(wallMs)} ${zoneOf(wallMs)}`;
}

/** The reader's time zone at a time: "GMT+8", "GMT-3:30", "UTC". */
function zoneOf(wallMs) {
  const east = -new Date(wallMs).getTimezoneOffset();
  if (!east) return "UTC";
  const [hours, minutes] = [Math.floor(Math.abs(east) / 60), Math.abs(east) % 60];
  return `GMT${east < 0 ? "-" : "+"}${hours}${minutes ? `:${String(minutes).padStart(2, "0")}` : ""}`;
}

function dayOf(wallMs) {
  const date = new Date(wallMs);
  const two = (value) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The same with date and zone, for a title: "2026-11-22T14:03:22.118Z". */
export function isoTime(wallMs) {
  const date = new Date(wallMs);
  return Number.isNaN(date.getTime()) ? UNKNOWN : date.toISOString();
}

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text from outside, in which control characters and those that change the direction of text are shown by their codes:
 * a right-to-left override becomes "⟨U+202E⟩". Line ends and tabs stay. */
export function visible(text) {
  return String(text).replace(UNSEEN, (letter) => `⟨U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** A text of the server with its times, such as 2026-11-23T17:04:10Z, in the reader's time zone. */
export function withLocalTimes(text, nowMs = serverNow()) {
  const local = (time) => dateTimeSeconds(Date.parse(time), nowMs);
  return text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, local);
}

/** An estimated percentile of stats.percentile, marked as an estimate. */
export function estimate(percentile, format) {
  if (!percentile) return UNKNOWN;
  return percentile.open ? `> ${format(percentile.value)}` : `≈ ${format(percentile.value)}`;
}

/** A bucket of stats.singleValues without its count. */
export function bucketText({ value, open }, format) {
  return `${open ? ">" : "≤"} ${format(value)}`;
}

/** Each cause's name, meaning, and mark (so that colour is never the only sign). */
export const CAUSES = {
  arrival: { word: t("arrival"), mark: "●", means: t("a message that its filter accepts arrived") },
  filter_advanced: { word: t("filter advanced"), mark: "◆",
    means: t("its filter rejected messages that had arrived; the answer moves its offset past them") },
  missed_arrival: { word: t("missed arrival"), mark: "✖",
    means: t("a matching message had arrived without waking it; this is a defect, please report it") },
  timeout: { word: t("timeout"), mark: "◷", means: t("no message arrived before its deadline") },
  short_poll: { word: t("short poll"), mark: "◔", means: t("longPollingEnable is off, and shortPollingTimeMills passed") },
  shutdown: { word: t("shutdown"), mark: "■", means: t("the broker is stopping and answers all held pulls") },
  channel_gone: { word: t("client gone"), mark: "○", means: t("its client disconnected, so it was not answered") },
  cancelled: { word: t("cancelled"), mark: "○",
    means: t("its client cancelled the pull, its topic was deleted, or the group's offset was reset") },
  refused: { word: t("refused"), mark: "○",
    means: t("the group may no longer consume, the topic may no longer be read, or the subscription ended; the client got the reason") },
};

/** Whether a hold that ended for this cause was answered with what its queue had. */
export function isAnswered(name) {
  return !["channel_gone", "cancelled", "refused"].includes(name);
}

export function cause(name) {
  return CAUSES[name] ?? { word: String(name).replaceAll("_", " "), mark: "·", means: "" };
}

/** Topics that RocketMQ and GlassMQ use internally. */
const SYSTEM_TOPICS = new Set([
  "TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "BenchmarkTest", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC",
  "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "DefaultCluster",
]);

export function isSystemTopic(topic, broker = null) {
  return SYSTEM_TOPICS.has(topic) || topic === broker || /^(rmq_sys_|RMQ_SYS_)/.test(topic)
    || /_REPLY_TOPIC$/.test(topic);
}
