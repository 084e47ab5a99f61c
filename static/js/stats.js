/** Figures computed from the broker's counters, and the first of many rows. Pure; null means "not known yet". */

/** The counters of holds that ended with an answer, one for each cause. */
export const WAKE_COUNTERS = ["woken_arrival", "woken_filter_advanced", "woken_missed_arrival", "woken_timeout",
  "woken_short_poll", "woken_shutdown"];
const RATE_WINDOW_MS = 10_000;
const LEAST_SPAN_MS = 1_500;

/** Messages per second of a queue over the last 10 s; null during the first 1.5 s of watching. */
export function queueRate(queue, brokerNowMs, watchedSinceMs) {
  if (brokerNowMs === null || watchedSinceMs === null) return null;
  const watched = brokerNowMs - watchedSinceMs;
  if (watched < LEAST_SPAN_MS) return null;
  const windowStart = brokerNowMs - Math.min(RATE_WINDOW_MS, watched);
  const baseline = valueAt(queue.samples, windowStart);
  if (baseline === null) return null;
  return (Math.max(0, queue.max_offset - baseline) * 1000) / (brokerNowMs - windowStart);
}

/** The value at `time` of a step function [[time, value], ...]; before its first step, the first value. */
function valueAt(samples, time) {
  if (!samples.length) return null;
  let value = samples[0][1];
  for (const [at, offset] of samples) {
    if (at > time) break;
    value = offset;
  }
  return value;
}

/** The rate per second of the sum of the named counters over the last 10 s; null while unknown. */
export function counterRate(history, names, windowMs = RATE_WINDOW_MS) {
  const last = history.at(-1);
  if (!last) return null;
  let first = history[0];
  for (const entry of history) {
    if (entry.wallMs > last.wallMs - windowMs) break;
    first = entry;
  }
  const span = last.wallMs - first.wallMs;
  if (span < LEAST_SPAN_MS) return null;
  const sum = (counters) => names.reduce((total, name) => total + (counters[name] ?? 0), 0);
  return (Math.max(0, sum(last.counters) - sum(first.counters)) * 1000) / span;
}

/** Points for a chart: [times in s, rates per second] between consecutive entries of the history. */
export function rateSeries(history, names) {
  const times = [];
  const rates = [];
  const sum = (counters) => names.reduce((total, name) => total + (counters[name] ?? 0), 0);
  for (let i = 1; i < history.length; i += 1) {
    const span = history[i].wallMs - history[i - 1].wallMs;
    if (span < 300) continue;
    times.push(history[i].wallMs / 1000);
    rates.push((Math.max(0, sum(history[i].counters) - sum(history[i - 1].counters)) * 1000) / span);
  }
  return [times, rates];
}

/** The first `limit` of `items` in the order of `compare`, sorted. Most of many items are compared only once. */
export function firstOf(items, limit, compare) {
  if (items.length <= 2 * limit) return [...items].sort(compare).slice(0, limit);
  const first = items.slice(0, limit).sort(compare);
  for (let i = limit; i < items.length; i += 1) {
    if (compare(items[i], first.at(-1)) >= 0) continue;
    let [low, high] = [0, first.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(items[i], first[middle]) < 0) high = middle;
      else low = middle + 1;
    }
    first.pop();
    first.splice(low, 0, items[i]);
  }
  return first;
}

export function histogramTotal(histogram) {
  return histogram ? histogram.counts.reduce((total, count) => total + count, 0) : null;
}

/**
 * An estimated percentile: the bucket is exact, the position inside it is interpolated.
 * -> {value, open}; `open`: it lies in the last bucket, which has no upper bound. null without values.
 */
export function percentile(histogram, fraction) {
  const total = histogramTotal(histogram);
  if (!total) return null;
  const rank = fraction * total;
  let seen = 0;
  for (let i = 0; i < histogram.counts.length; i += 1) {
    const count = histogram.counts[i];
    if (count && seen + count >= rank) {
      const low = i === 0 ? 0 : histogram.bounds[i - 1];
      if (i >= histogram.bounds.length) return { value: low, open: true };
      return { value: low + ((histogram.bounds[i] - low) * (rank - seen)) / count, open: false };
    }
    seen += count;
  }
  return null;
}

/** With fewer values than this a percentile says nothing; the values themselves are shown. */
export const LEAST_FOR_PERCENTILES = 20;

/** The buckets with values, the slowest last: [{value, open, count}]. `value` is the bucket's upper bound, or the lower
 * one of the last bucket, which is `open`. */
export function singleValues(histogram) {
  return histogram.counts.map((count, i) => {
    const open = i >= histogram.bounds.length;
    return { value: histogram.bounds[open ? i - 1 : i], open, count };
  }).filter(({ count }) => count > 0);
}

/** The part of a histogram worth drawing: from the first to the last bucket with values, at least `least` wide. */
export function visibleBuckets(histogram, least = 8) {
  const used = histogram.counts.map((count, i) => (count ? i : -1)).filter((i) => i >= 0);
  if (!used.length) return { from: 0, to: Math.min(least, histogram.counts.length) };
  let from = Math.max(0, used[0] - 1);
  let to = Math.min(histogram.counts.length, used.at(-1) + 2);
  while (to - from < least && (from > 0 || to < histogram.counts.length)) {
    if (to < histogram.counts.length) to += 1;
    if (to - from < least && from > 0) from -= 1;
  }
  return { from, to };
}
