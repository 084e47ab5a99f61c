/** How long wake-ups and holds take: the broker's own buckets, drawn by uPlot, with estimated percentiles. */

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { panel, setText } from "../dom.js";
import { UNKNOWN, count, estimate, micros, millis } from "../format.js";
import { histogramTotal, percentile, visibleBuckets } from "../stats.js";

const HEIGHT = 118;

export function histogramsPanel() {
  const { part } = panel("histograms");
  const charts = [
    histogramChart(part("wakeup-chart"), part("wakeup-figures"), part("wakeup-empty"), micros),
    histogramChart(part("held-chart"), part("held-figures"), part("held-empty"), millis),
  ];
  const redraw = () => charts.forEach((chart) => chart.restyle());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return {
    render({ state }) {
      charts[0].show(state.wakeupUs);
      charts[1].show(state.heldMs);
    },
  };
}

function histogramChart(box, figures, empty, write) {
  let plot = null;
  let shown = null;
  let shape = "";

  function show(histogram) {
    if (histogram === shown || (shown && histogram && sameCounts(shown, histogram))) return;
    shown = histogram;
    const total = histogramTotal(histogram);
    empty.hidden = !histogram || total > 0;
    box.toggleAttribute("hidden", !total);
    setText(figures, total === null ? UNKNOWN : total === 0 ? "none yet" : summary(histogram, total, write));
    if (total) draw(histogram);
  }

  function draw(histogram) {
    const { from, to } = visibleBuckets(histogram);
    const counts = histogram.counts.slice(from, to);
    const data = [counts.map((_, i) => i), counts];
    const wanted = `${from}:${to}:${histogram.bounds.join(",")}`;
    if (plot && wanted === shape) {
      plot.setData(data);
      return;
    }
    plot?.destroy();
    shape = wanted;
    const bounds = histogram.bounds.slice(from, to);
    plot = new uPlot(options(box, bounds, counts.length, write), data, box);
  }

  new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
  return {
    show,
    restyle() {
      shape = "";
      if (shown && histogramTotal(shown)) draw(shown);
    },
  };
}

function sameCounts(a, b) {
  return a.counts.length === b.counts.length && a.counts.every((value, i) => value === b.counts[i]);
}

function summary(histogram, total, write) {
  const p50 = estimate(percentile(histogram, 0.5), write);
  const p99 = estimate(percentile(histogram, 0.99), write);
  return `p50 ${p50} · p99 ${p99} · ${count(total)} in all`;
}

/** One bar a bucket; the axis carries the buckets' bounds, which grow by factors: so it is a log scale. */
function options(box, bounds, buckets, write) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const every = Math.ceil(buckets / 5);
  const font = "11px system-ui, sans-serif";
  return {
    width: Math.max(120, box.clientWidth),
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    select: { show: false },
    padding: [8, 14, 0, 0],
    scales: {
      x: { time: false, range: [-0.6, buckets - 0.4] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.08)] },
    },
    axes: [
      {
        stroke: colour("--muted"), font, size: 24, gap: 4, grid: { show: false },
        ticks: { stroke: colour("--line-strong"), size: 3, width: 1 },
        // A tick stands at the upper bound of its bucket: the right side of the bar.
        splits: () => bounds.map((_, i) => i + 0.5).filter((_, i) => i % every === every - 1),
        values: (_plot, splits) => splits.map((at) => write(bounds[at - 0.5])),
      },
      {
        stroke: colour("--muted"), font, size: 44, gap: 4, ticks: { show: false },
        grid: { stroke: colour("--line"), width: 1 }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7],
        space: 28, values: (_plot, values) => values.map((value) => count(value)),
      },
    ],
    series: [
      {},
      { fill: colour("--bar"), stroke: colour("--bar"), width: 0, points: { show: false },
        paths: uPlot.paths.bars({ size: [0.86, 80], radius: 0.08 }) },
    ],
  };
}
