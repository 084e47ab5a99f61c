/** Figures of the history's charts. Pure; a value that is not known is null, never 0. */

import { t } from "./text/translate.js";

/** What a page can show: the time in s, how often there is something new, and how its times are written. */
export const RANGES = [
  { id: "1h", title: t("{0} h", 1), seconds: 3600, everyMs: 10_000 },
  { id: "24h", title: t("{0} h", 24), seconds: 86_400, everyMs: 60_000 },
  { id: "30d", title: t("{0} d", 30), seconds: 2_592_000, everyMs: 600_000 },
];

/** The range that the page's address names, the first one without a valid name. */
export function rangeOf(search) {
  const wanted = new URLSearchParams(search).get("history");
  return RANGES.find(({ id }) => id === wanted) ?? RANGES[0];
}

/** The query of the page's address with this range; the first range needs no name. */
export function withRange(search, range) {
  const query = new URLSearchParams(search);
  if (range === RANGES[0]) query.delete("history");
  else query.set("history", range.id);
  const text = query.toString();
  return text ? `?${text}` : "";
}

const LEAST_STEPS = 30;

/** [times in s, values of each metric]: a point stands at the end of its step, when it was measured. They begin where
 * the history does, and have 30 steps at least. */
export function points({ from_ms: from, step_ms: step, kept_from_ms: kept, metrics }, names) {
  const columns = names.map((name) => metrics.find((metric) => metric.name === name)?.values ?? []);
  const count = columns[0]?.length ?? 0;
  const before = kept === null ? count : Math.floor((kept - from) / step);
  const first = Math.max(0, Math.min(before, count - LEAST_STEPS));
  const times = Array.from({ length: count - first }, (_, i) => (from + (first + i + 1) * step) / 1000);
  return [times, ...columns.map((values) => values.slice(first))];
}

/** The indexes of values without a neighbour. A line through them cannot be seen, so they are drawn as points. */
export function lonely(values) {
  const known = (i) => values[i] !== null && values[i] !== undefined;
  return values.flatMap((_, i) => (known(i) && !known(i - 1) && !known(i + 1) ? [i] : []));
}

const two = (number) => String(number).padStart(2, "0");

/** Labels of the time axis in the reader's time zone: "14:05", with seconds if labels are less than a minute apart, and
 * the day where a day begins or labels are days. */
export function timeLabels(seconds) {
  let day = "";
  const isFine = seconds.some((second) => second % 60);
  return seconds.map((second) => {
    const date = new Date(second * 1000);
    const own = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const midnight = date.getHours() + date.getMinutes() + date.getSeconds() === 0;
    const isNew = day !== "" && own !== day;
    day = own;
    return isNew || midnight ? own : `${two(date.getHours())}:${two(date.getMinutes())}${isFine ? `:${two(date.getSeconds())}` : ""}`;
  });
}

/** A sentence about what is missing, or empty. `time` formats a time in ms. */
export function missing({ kept_from_ms: kept, from_ms: from, step_ms: step, problem, left_out: leftOut }, time) {
  if (problem) return problem;
  if (kept === null) {
    const wait = step >= 60_000 ? t("{0} min", step / 60_000) : t("{0} s", step / 1000);
    const more = leftOut ? t(" {0} topics and groups are not recorded because there are too many.", leftOut) : "";
    return t("Nothing is recorded yet. A point is added every {0}.{1}", wait, more);
  }
  return kept > from ? t("Recorded since {0}.", time(kept)) : "";
}
