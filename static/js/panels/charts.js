/** uPlot charts in the page's colours. A chart is drawn again when the colours or the width change. */

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { axisLabels } from "../text/format.js";

export const CHART_HEIGHT = 118;
export const FONT = "11px system-ui, sans-serif";

/** A colour of the style sheet in the current theme. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A chart in `box`. `options()` is called again when `shape` or the colours change. */
export class Chart {
  constructor(box, options) {
    Object.assign(this, { box, options, plot: null, shape: null, data: null });
    const redraw = () => {
      if (!this.data) return;
      const shape = this.shape;
      this.shape = null;
      this.draw(this.data, shape);
    };
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    new ResizeObserver(() => {
      if (box.clientWidth) this.plot?.setSize({ width: box.clientWidth, height: CHART_HEIGHT });
    }).observe(box);
  }

  draw(data, shape = "") {
    this.data = data;
    if (this.plot && this.shape === shape) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot({
      width: Math.max(120, this.box.clientWidth), height: CHART_HEIGHT, legend: { show: false },
      cursor: { show: false }, select: { show: false }, padding: [8, 24, 0, 0], ...this.options(),
    }, data, this.box);
  }
}

/** The vertical axis: counts from 0. */
export function countAxis(format) {
  return { stroke: colour("--muted"), font: FONT, size: 44, gap: 4, ticks: { show: false }, space: 28,
    grid: { stroke: colour("--line"), width: 1 }, values: (_plot, values) => axisLabels(values, format) };
}

export const fromZero = (_plot, _min, max) => [0, Math.max(1, (max ?? 0) * 1.08)];
export const bars = (options) => uPlot.paths.bars(options);
