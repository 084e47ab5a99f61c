/** Messages stored and held pulls woken per second, over the last five minutes. */

import { isAttached } from "../pages/attached.js";
import { panel } from "../dom.js";
import { shortCount } from "../text/format.js";
import { WAKE_COUNTERS, rateSeries } from "../stats.js";
import { Chart, FONT, colour, countAxis, fromZero } from "./charts.js";

const DRAW_EVERY_MS = 900;
const LEAST_SPAN_S = 60;

export function trafficPanel() {
  const { part } = panel("traffic");
  const chart = new Chart(part("chart"), options);
  let drawn = 0;
  let drawnAt = 0;
  return {
    render({ current: state }) {
      const last = state.history.at(-1)?.wallMs ?? 0;
      if (last === drawn || performance.now() - drawnAt < DRAW_EVERY_MS) return;
      const [times, stored] = rateSeries(state.history, ["messages_stored"]);
      const enough = times.length > 1;
      part("empty").hidden = enough;
      if (!enough) return;
      drawn = last;
      drawnAt = performance.now();
      chart.draw([times, stored, isAttached ? times.map(() => null) : rateSeries(state.history, WAKE_COUNTERS)[1]]);
    },
  };
}

function options() {
  const line = (name, fill) => ({ stroke: colour(name), fill: fill && colour(fill), width: 1.5, points: { show: false } });
  return {
    scales: { x: { range: (_plot, min, max) => [Math.min(min, max - LEAST_SPAN_S), max] }, y: { range: fromZero } },
    axes: [
      { stroke: colour("--muted"), font: FONT, size: 24, gap: 4, grid: { show: false }, space: 70,
        ticks: { stroke: colour("--line-strong"), size: 3, width: 1 },
        values: (_plot, at) => at.map((second) => new Date(second * 1000).toTimeString().slice(0, 8)) },
      countAxis((value) => (Number.isInteger(value) ? shortCount(value) : value.toFixed(1))),
    ],
    series: [{}, line("--accent", "--accent-soft"), line("--pulse")],
  };
}
