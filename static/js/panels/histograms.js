/** Histograms of wake-up latency and hold time: the broker's buckets as bars, with estimated percentiles, or the values if they are few. */

import { panel, setText } from "../dom.js";
import { UNKNOWN, bucketText, count, estimate, micros, millis, shortCount } from "../text/format.js";
import { LEAST_FOR_PERCENTILES, histogramTotal, percentile, singleValues, visibleBuckets } from "../stats.js";
import { Chart, FONT, bars, colour, countAxis, fromZero } from "./charts.js";
import { t } from "../text/translate.js";

const DRAW_EVERY_MS = 900;

export function histogramsPanel() {
  const { part } = panel("histograms");
  const draw = [histogram(part, "wakeup", micros), histogram(part, "held", millis)];
  let drawnAt = -DRAW_EVERY_MS;
  let drawnLive = null;
  return {
    render({ state, live }) {
      if (live === drawnLive && performance.now() - drawnAt < DRAW_EVERY_MS) return;
      [drawnLive, drawnAt] = [live, performance.now()];
      draw[0](state.wakeupUs);
      draw[1](state.heldMs);
    },
  };
}

function histogram(part, name, format) {
  const [box, figures, empty] = ["chart", "figures", "empty"].map((what) => part(`${name}-${what}`));
  let shown = null;
  let bounds = [];
  const chart = new Chart(box, () => options(bounds, format));

  return (latest) => {
    if (!latest || (shown && sameCounts(shown, latest))) return;
    shown = latest;
    const total = histogramTotal(latest);
    empty.hidden = total > 0;
    box.hidden = total === 0;
    setText(figures, total === 0 ? t("none yet") : summary(latest, total, format));
    if (total === 0) return;
    const { from, to } = visibleBuckets(latest);
    const counts = latest.counts.slice(from, to);
    bounds = latest.bounds.slice(from, to);
    chart.draw([counts.map((_, i) => i), counts], `${from}:${to}:${bounds}`);
  };
}

function sameCounts(a, b) {
  return a.counts.length === b.counts.length && a.counts.every((value, i) => value === b.counts[i]);
}

function summary(latest, total, format) {
  if (total < LEAST_FOR_PERCENTILES) {
    const values = singleValues(latest).map((bucket) => bucketText(bucket, format) + (bucket.count > 1 ? ` × ${bucket.count}` : ""));
    return t("{0} · {1} total", values.join(" · "), count(total));
  }
  const [p50, p99] = [0.5, 0.99].map((part) => estimate(percentile(latest, part), format) ?? UNKNOWN);
  return t("p50 {0} · p99 {1} · {2} total", p50, p99, count(total));
}

/** One bar for each bucket. Bounds grow by factors, so the scale is logarithmic; a tick is a bucket's upper bound. */
function options(bounds, format) {
  const every = Math.ceil(bounds.length / 4);
  return {
    scales: { x: { time: false, range: (_plot, min, max) => [min - 0.6, max + 0.6] }, y: { range: fromZero } },
    axes: [
      { stroke: colour("--muted"), font: FONT, size: 24, gap: 4, grid: { show: false },
        ticks: { stroke: colour("--line-strong"), size: 3, width: 1 },
        splits: () => bounds.map((_, i) => i + 0.5).filter((_, i) => i % every === every - 1),
        values: (_plot, splits) => splits.map((at) => format(bounds[at - 0.5])) },
      { ...countAxis((value) => (Number.isInteger(value) ? shortCount(value) : "")), incrs: WHOLE_STEPS },
    ],
    series: [{}, { fill: colour("--bar"), stroke: colour("--bar"), width: 0, points: { show: false },
      paths: bars({ size: [0.86, 80], radius: 0.08 }) }],
  };
}

const WHOLE_STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));
